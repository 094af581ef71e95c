"""The interface of a reward, and the scorer that calls one for each turn.

An error of a reward ends the run and never becomes a score, on which a policy would be trained.
"""

import math
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Final, Protocol

from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.errors import RewardFailedError
from warpsmith.rollout.rewards.score import Score
from warpsmith.rollout.turns import Turn

FOREIGN_ERRORS: Final = (Exception, SystemExit)
"""What foreign code can raise: `sys.exit()` must not end the run as if it had succeeded."""

_FRAMES: Final = 3


class Reward(Protocol):
    """A formula. It runs in the collecting process, on the event loop of all episodes, so it must be fast."""

    def __call__(self, verdict: Verdict, turn: Turn, history: tuple[Turn, ...]) -> float:
        """Return the score of a turn, any finite number.

        Args:
            verdict: `turn.verdict`; its status is never `invalid`.
            turn: the turn to score.
            history: the turns before it, oldest first, each with its score.
        """


class RewardType(Protocol):
    """The type of entries in `warpsmith.rewards`: a class, or another callable, that creates a reward."""

    def __call__(self, **settings: Any) -> Reward:
        """Return the reward for the keys of `[rollout.reward]` except `type`; ValueError if one is wrong."""


@dataclass(frozen=True)
class Scorer:
    """Calls a reward and checks its result.

    Args:
        name: the name of the reward in messages, for example `reward function my_reward.py:score`.
        reward: the formula.
    """

    name: str
    reward: Reward

    def __call__(self, turn: Turn, history: Sequence[Turn]) -> Score:
        """Return the turn's score. An `invalid` verdict is a failure of the evaluation and is not passed to the reward.

        Raises:
            RewardFailedError: the reward raised, or did not return a finite number.
        """
        lost = invalid_score(turn.verdict)
        return lost or Score(self.value(turn, history, f"{turn.name} (status {turn.verdict.status})"))

    def value(self, turn: Turn, history: Sequence[Turn], what: str) -> float:
        """Return the reward's number; `what` names the turn in errors, which are those of `__call__`."""
        remedy = "Fix the reward; a training run continues with --resume."
        try:
            returned = self.reward(turn.verdict, turn, tuple(history))
        except FOREIGN_ERRORS as error:
            raise RewardFailedError(f"The {self.name} failed on {what}: {describe_error(error)}.", remedy) from error
        number = _finite(returned)
        if number is None:
            raise RewardFailedError(
                f"The {self.name} returned {_shown(returned)} for {what}; a finite number was expected.", remedy
            )
        return number


def invalid_score(verdict: Verdict) -> Score | None:
    """Return the score of an `invalid` verdict, which has a reason and no value; None for other verdicts."""
    if verdict.status == "invalid":
        return Score(None, f"evaluation: {verdict.error_message or 'the evaluator gave no cause'}")
    return None


def _finite(returned: Any) -> float | None:
    """Return a number as float; None for NaN, infinity, numbers larger than any float, and everything else."""
    if not isinstance(returned, Real):
        return None
    try:
        number = float(returned)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _shown(returned: Any) -> str:
    return str(returned) if isinstance(returned, float) else f"an object of the type {type(returned).__name__}"


def describe_error(error: BaseException) -> str:
    """Return an error and the last places in foreign code that it passed through, as part of a sentence."""
    said = "".join(traceback.format_exception_only(error)).strip().splitlines()
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
    places = [f"{frame.filename}:{frame.lineno} in {frame.name}: `{frame.line}`" for frame in frames[-_FRAMES:]]
    # The error of a file that does not parse starts with its own place.
    what = " ".join(line.strip() for line in said)[:500].rstrip(".")
    return f"{what}, at {', then '.join(places)}" if places else what


def _is_ours(filename: str) -> bool:
    return filename.startswith(("<frozen importlib", _FOLDER))


_FOLDER: Final = __file__.rpartition("/")[0] + "/"
