"""Reward functions of the user's own: loaded, tried on examples before a run, and called for each turn.

The function belongs to the user, so whatever it raises is reported in one sentence with the place in their file. An
error is the run's and never a score: a policy would be trained on it.
"""

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import math
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.errors import BadRewardError, RewardFailedError
from warpsmith.rollout.reward import FunctionRewardConfig, RewardConfig, RewardTurn, Score, refusal, score

Scorer = Callable[[RewardTurn, Sequence[RewardTurn], str], Score]
"""Scores a turn, given the turns before it and the turn's name for messages."""

_FORM: Final = "score(verdict, turn, history)"
_FRAMES: Final = 3
_RAISED: Final = (Exception, SystemExit)
"""What a user's code may end in: `sys.exit()` would end the run as if nothing were wrong."""


def scorer_for(config: RewardConfig | FunctionRewardConfig) -> Scorer:
    """Return what scores the turns of a run; a function of the user's own is loaded and tried.

    Raises:
        BadRewardError: the function cannot be used.
    """
    if isinstance(config, RewardConfig):
        return lambda turn, _history, _name: score(turn.verdict, config)
    return load_function(config)


@dataclass(frozen=True)
class RewardFunction:
    """A function of the user's own as a Scorer.

    Args:
        path: what names it in the configuration.
        function: the function.
    """

    path: str
    function: Callable[..., Any]

    def __call__(self, turn: RewardTurn, history: Sequence[RewardTurn], name: str) -> Score:
        """Score a turn. An `invalid` verdict is a failure of the evaluator; the function never sees it.

        Raises:
            RewardFailedError: it raised, or returned no finite number.
        """
        refused = refusal(turn.verdict)
        return refused or Score(self.value(turn, history, f"{name} (status {turn.verdict.status})"))

    def value(self, turn: RewardTurn, history: Sequence[RewardTurn], name: str) -> float:
        """Return what the function gives; `name` says for what, and errors are as for a call."""
        remedy = "Correct the function; a training run goes on with --resume."
        try:
            given = self.function(turn.verdict, turn, tuple(history))
        except _RAISED as error:
            raise RewardFailedError(
                f"The reward function {self.path} failed on {name}: {summary(error)}.", remedy
            ) from error
        number = _finite(given)
        if number is None:
            raise RewardFailedError(
                f"The reward function {self.path} returned {_shown(given)} for {name}; a finite number was expected.",
                remedy,
            )
        return number


def _finite(given: Any) -> float | None:
    """Return a number as float; None for NaN, infinity, and what is no number or larger than any float."""
    if not isinstance(given, Real):
        return None
    try:
        number = float(given)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _shown(given: Any) -> str:
    return str(given) if isinstance(given, float) else f"an object of the type {type(given).__name__}"


def summary(error: BaseException) -> str:
    """Return an error and the last places in the user's code that it passed, as part of a sentence."""
    said = "".join(traceback.format_exception_only(error)).strip().splitlines()
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
    places = [f"{frame.filename}:{frame.lineno} in {frame.name}: `{frame.line}`" for frame in frames[-_FRAMES:]]
    # The error of a file that does not parse begins with its own place.
    what = " ".join(line.strip() for line in said)[:500].rstrip(".")
    return f"{what}, at {', then '.join(places)}" if places else what


def _is_ours(filename: str) -> bool:
    return filename == __file__ or filename.startswith("<frozen importlib")


# Loading --------------------------------------------------------------------------------------------------------------


def load_function(config: FunctionRewardConfig) -> RewardFunction:
    """Import the function, and try it on examples of all that a run may give it.

    Modules beside its file, and those of the working directory, can be imported by it.

    Raises:
        BadRewardError: it cannot be imported or called with three arguments, or gives no number for an example.
    """
    where, name = config.place
    module = _file_module(Path(where), config.path) if where.endswith(".py") else _named_module(where, config.path)
    found = _function_in(module, name, config.path)
    _check_form(found, config.path)
    function = RewardFunction(config.path, found)
    _try(function)
    return function


def _file_module(file: Path, path: str) -> ModuleType:
    if not file.is_file():
        raise BadRewardError(
            f"rollout.reward.path: there is no file {file} in {Path.cwd()}.", "Name a Python file from that directory."
        )
    # The same content is imported once a process, as modules are.
    name = f"warpsmith_reward_{hashlib.sha256(bytes(file.resolve()) + file.read_bytes()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    _make_importable(file.resolve().parent)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise BadRewardError(f"rollout.reward.path: {file} is no Python file.", "Name a file that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except _RAISED as error:
        del sys.modules[name]
        raise _not_imported(path, error) from error
    return module


def _named_module(name: str, path: str) -> ModuleType:
    _make_importable(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _not_imported(path, error) from error
        raise BadRewardError(
            f"rollout.reward.path: there is no module {error.name} in this environment or in {Path.cwd()}.",
            "Install it, or name a file: my_module.py:score.",
        ) from error
    except _RAISED as error:
        raise _not_imported(path, error) from error


def _make_importable(directory: Path) -> None:
    # At the end, so that nothing that is installed is shadowed.
    if str(directory) not in sys.path:
        sys.path.append(str(directory))


def _not_imported(path: str, error: BaseException) -> BadRewardError:
    return BadRewardError(
        f"rollout.reward.path: {path} cannot be imported: {summary(error)}.", "Correct that, and try again."
    )


def _function_in(module: ModuleType, name: str, path: str) -> Callable[..., Any]:
    names = vars(module)
    if name not in names:
        near = difflib.get_close_matches(name, [known for known, value in names.items() if callable(value)], n=1)
        raise BadRewardError(
            f"rollout.reward.path: {path}: the module has no `{name}`.",
            f"Did you mean `{near[0]}`?" if near else f"Define `def {name}(verdict, turn, history) -> float` in it.",
        )
    found = names[name]
    if not callable(found):
        raise BadRewardError(
            f"rollout.reward.path: {path} is an object of the type {type(found).__name__}; a function was expected.",
            f"Define `def {name}(verdict, turn, history) -> float`.",
        )
    return found  # type: ignore[no-any-return]


def _check_form(function: Callable[..., Any], path: str) -> None:
    """Refuse a function that cannot be called as it will be."""
    if inspect.iscoroutinefunction(function):
        raise BadRewardError(
            f"rollout.reward.path: {path} is a coroutine; a plain function was expected.",
            "Write `def`, not `async def`.",
        )
    try:
        form = inspect.signature(function)
    except ValueError:
        return  # A builtin tells no signature; the examples will.
    try:
        form.bind(*(None,) * 3)
    except TypeError as error:
        raise BadRewardError(
            f"rollout.reward.path: {path} takes {form}, and it will be called as {_FORM}: {error}.",
            f"Give it three parameters: `def {_FORM} -> float`.",
        ) from None


def _try(function: RewardFunction) -> None:
    for what, turn, history in examples():
        try:
            function.value(turn, history, f"an example, {what}")
        except RewardFailedError as error:
            raise BadRewardError(
                f"rollout.reward.path: {error.message}", "Correct the function; docs/rollout.md says what it is given."
            ) from error.__cause__


def examples() -> list[tuple[str, RewardTurn, tuple[RewardTurn, ...]]]:
    """Return turns of each kind that a run may bring, each with its name and the turns before it."""
    timed = Verdict("correct", compiled=True, correct=True, speedup=1.5, runtime_ms=0.2, reference_ms=0.3, trials=3)
    untimed = Verdict("correct", compiled=True, correct=True, trials=3)
    wrong = Verdict(
        "incorrect", compiled=True, correct=False, max_abs_error=0.5, mismatched_fraction=0.25, trials=1,
        error_message="Wrong elements: 25 %.",
    )  # fmt: skip
    no_code = Verdict("compile_error", compiled=False, correct=False, error_category="parse_error", error_message="No.")
    first = RewardTurn(0, "example", "generated/train", 1, "```python\npass\n```", "pass\n", 8, False, timed)
    lost = replace(first, completion="I give up.", kernel=None, truncated=True, verdict=no_code)
    before = replace(first, verdict=wrong, score=0.0)
    return [
        ("a correct kernel with a speedup of 1.5", first, ()),
        ("a correct kernel where nothing is timed (speedup None)", replace(first, verdict=untimed), ()),
        ("a wrong kernel", replace(first, verdict=wrong), ()),
        ("an answer without code (kernel None)", lost, ()),
        ("a correct kernel in turn 2", replace(first, index=1), (before,)),
        ("a problem without a level (level None)", replace(first, level=None), ()),
    ]
