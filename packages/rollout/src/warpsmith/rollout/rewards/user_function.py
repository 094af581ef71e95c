"""`function`: a user's function from a file or an importable module."""

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from warpsmith.rollout.errors import BadRewardError
from warpsmith.rollout.rewards.base import FOREIGN_ERRORS, Reward, describe_error

_CALLED_AS: Final = "score(verdict, turn, history)"


def load(*, path: str) -> Reward:
    """Import the function named by `path`. It can import modules next to its file and in the working directory.

    Raises:
        BadRewardError: it cannot be imported, or cannot be called with three arguments.
    """
    where, _, name = path.rpartition(":")
    module = _file_module(Path(where), path) if where.endswith(".py") else _named_module(where, path)
    function = _function_in(module, name, path)
    _check_signature(function, path)
    return function


def _file_module(file: Path, path: str) -> ModuleType:
    if not file.is_file():
        raise BadRewardError(
            f"rollout.reward.path: there is no file {file} in {Path.cwd()}.", "Use a path relative to that directory."
        )
    # The same content is imported once per process, as modules are.
    name = f"warpsmith_reward_{hashlib.sha256(bytes(file.resolve()) + file.read_bytes()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    _make_importable(file.resolve().parent)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise BadRewardError(f"rollout.reward.path: {file} is not a Python file.", "Use a file that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except FOREIGN_ERRORS as error:
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
            "Install it, or use a file: my_module.py:score.",
        ) from error
    except FOREIGN_ERRORS as error:
        raise _not_imported(path, error) from error


def _make_importable(directory: Path) -> None:
    # At the end, so that it shadows no installed module.
    if str(directory) not in sys.path:
        sys.path.append(str(directory))


def _not_imported(path: str, error: BaseException) -> BadRewardError:
    return BadRewardError(
        f"rollout.reward.path: {path} cannot be imported: {describe_error(error)}.", "Fix that, and try again."
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


def _check_signature(function: Callable[..., Any], path: str) -> None:
    """Reject a function that does not accept the arguments it will be called with."""
    if inspect.iscoroutinefunction(function):
        raise BadRewardError(
            f"rollout.reward.path: {path} is a coroutine; a plain function was expected.",
            "Write `def`, not `async def`.",
        )
    try:
        form = inspect.signature(function)
    except ValueError:
        return  # A builtin has no signature; the examples will show it.
    try:
        form.bind(*(None,) * 3)
    except TypeError as error:
        raise BadRewardError(
            f"rollout.reward.path: {path} takes {form}, but is called as {_CALLED_AS}: {error}.",
            f"Give it three parameters: `def {_CALLED_AS} -> float`.",
        ) from None
