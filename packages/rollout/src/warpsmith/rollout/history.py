"""The history in a prompt: which earlier attempts it shows, and how much of each.

The last attempt and the best one are worth the most room, so the others shrink first: to a diff to the best kernel,
then to one line, then to nothing.
"""

import difflib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from warpsmith.evaluator.verdict import Verdict

_SHORT_MESSAGE: Final = 300
"""Characters kept of an error message that does not fit completely."""

_FIGURES: Final = re.compile(r"0x[0-9a-fA-F]+|\d+(\.\d+)?(e[+-]?\d+)?")
"""What differs between two messages about the same mistake: lines, places, values."""

Role = Literal["last", "best", "earlier"]


class HistoryConfig(BaseModel):
    """Earlier attempts in the prompt of a later turn."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    form: Literal["whole", "compressed"] = Field(
        default="whole",
        description="`whole` shows every kernel while there is room; `compressed` shows those that are neither the "
        "last nor the best one as a diff to the best, and an error that occurred again by its turn.",
    )
    attempt_tokens: int | None = Field(
        default=None,
        ge=16,
        description="Maximum tokens of the last attempt, and of the best one; by default only the prompt limits them.",
    )
    earlier_tokens: int | None = Field(
        default=None,
        ge=0,
        description="Maximum tokens of all other attempts; by default only the prompt limits them.",
    )


@dataclass(frozen=True)
class Attempt:
    """An earlier turn.

    Args:
        kernel: its kernel; None if the answer had none or it was dropped.
        verdict: the verdict on it.
        left_out: whether its kernel did not fit into the prompt.
    """

    kernel: str | None
    verdict: Verdict
    left_out: bool = False


@dataclass(frozen=True)
class ShownAttempt:
    """An attempt as a prompt shows it.

    Attributes:
        turn: its turn, from 1.
        role: `last`, `best` (the best so far, if that is not the last one) or `earlier`.
        attempt: its verdict and, unless left out, its kernel.
        diff: changes from another kernel to this one, shown instead of it.
        diff_to: the turn of that kernel.
        same_error_as: the turn that had the same error, whose message is shown instead.
        brief: whether it is one line.
    """

    turn: int
    role: Role
    attempt: Attempt
    diff: str | None = None
    diff_to: int | None = None
    same_error_as: int | None = None
    brief: bool = False


Shown = list[ShownAttempt]
Measure = Callable[[Shown], int]
"""Number of tokens that attempts take in a prompt."""


def best_of(attempts: Sequence[Attempt]) -> int:
    """Return the index of the best attempt, the newest of equals: correct and fast, else compiled and nearly right.

    Where nothing is timed, fewer bytes moved are better.
    """

    def rank(index: int) -> tuple[bool, float, float, bool, float, int]:
        verdict = attempts[index].verdict
        wrong = 1.0 if verdict.mismatched_fraction is None else verdict.mismatched_fraction
        moved = math.inf if verdict.bytes_moved is None else verdict.bytes_moved
        return verdict.correct, verdict.speedup or 0.0, -moved, verdict.compiled, -wrong, index

    return max(range(len(attempts)), key=rank)


def histories(
    attempts: Sequence[Attempt], config: HistoryConfig, *, diffs: bool, tokens: Measure | None
) -> Iterator[Shown]:
    """Yield the histories to try, the longest first and an empty one last, each in the order of turns.

    Args:
        attempts: all earlier turns, oldest first.
        config: form and limits.
        diffs: whether a kernel can be shown as a diff.
        tokens: measures attempts for the limits; None ignores them.
    """
    if not attempts:
        yield []
        return
    best = best_of(attempts)
    last = len(attempts) - 1
    shown = [_shown(index, attempt, best, last) for index, attempt in enumerate(attempts)]
    kept = [shown[best]] if best != last else []
    bests = _within(_forms_of_best(kept), config.attempt_tokens, tokens)
    lasts = _within(_forms_of_last(shown[last], bests[0], config, diffs), config.attempt_tokens, tokens)
    others = [one for one in shown if one.role == "earlier"]
    sources = [*bests[0], *lasts[0]]
    earlier = _within(_forms_of_earlier(others, sources, config, diffs), config.earlier_tokens, tokens)
    for chosen in _descent(earlier, bests, lasts):
        yield sorted(chosen, key=lambda one: one.turn)


def _shown(index: int, attempt: Attempt, best: int, last: int) -> ShownAttempt:
    role: Role = "last" if index == last else "best" if index == best else "earlier"
    return ShownAttempt(index + 1, role, attempt)


def _descent(earlier: list[Shown], bests: list[Shown], lasts: list[Shown]) -> Iterator[Shown]:
    """Yield earlier attempts shrinking, then the last and the best one in turn; the best keeps its kernel longest."""
    for chosen in earlier:
        yield [*chosen, *bests[0], *lasts[0]]
    for form in lasts[1:-1]:
        yield [*bests[0], *form]
    for form in bests[1:-1]:
        yield [*form, *lasts[max(len(lasts) - 2, 0)]]
    yield [*bests[max(len(bests) - 2, 0)], *lasts[-1]]
    yield [*bests[-1], *lasts[-1]]
    yield lasts[-1]
    yield []


def _forms_of_last(last: ShownAttempt, best: Shown, config: HistoryConfig, diffs: bool) -> list[Shown]:
    """Return the last attempt whole, as a diff to the best one, with a short message, and without its kernel."""
    forms = [last]
    if diffs and best and (changed := _as_diff(last, best[0])) is not last:
        forms = [changed] if config.form == "compressed" else [last, changed]
    return [[form] for form in (*forms, *_shorter(forms[-1]))]


def _forms_of_best(best: Shown) -> list[Shown]:
    return [[form] for form in (best[0], *_shorter(best[0]))] if best else [[]]


def _forms_of_earlier(others: Shown, sources: Shown, config: HistoryConfig, diffs: bool) -> list[Shown]:
    """Return the other attempts whole, compressed, from the oldest on as one line, from the oldest on left out."""
    forms = [] if config.form == "compressed" else [others]
    base = others
    if diffs:
        base = [_clustered(_as_diff(one, sources[0]), [*sources, *others[i + 1 :]]) for i, one in enumerate(others)]
        forms.append(base)
    lines = [replace(one, brief=True) for one in others]
    forms += [[*lines[:count], *base[count:]] for count in range(1, len(others) + 1)]
    forms += [lines[count:] for count in range(1, len(others) + 1)]
    return forms or [[]]


def _within(forms: list[Shown], limit: int | None, tokens: Measure | None) -> list[Shown]:
    """Return the forms from the first that fits a limit on; the last one if none does."""
    if limit is None or tokens is None:
        return forms
    return next((forms[i:] for i, form in enumerate(forms) if tokens(form) <= limit), forms[-1:])


def _as_diff(shown: ShownAttempt, best: ShownAttempt) -> ShownAttempt:
    """Return an attempt with a diff to the best kernel where that is shorter than its own."""
    mine, base = shown.attempt.kernel, best.attempt.kernel
    if mine is None or base is None:
        return shown
    lines = difflib.unified_diff(base.strip().splitlines(), mine.strip().splitlines(), n=1, lineterm="")
    # The first two lines name files.
    diff = "\n".join(list(lines)[2:]) or "(no change)"
    return replace(shown, diff=diff, diff_to=best.turn) if len(diff) < len(mine.strip()) else shown


def _clustered(shown: ShownAttempt, others: Sequence[ShownAttempt]) -> ShownAttempt:
    """Return an attempt that names the turn with the same error, numbers aside, instead of the message."""
    message = shown.attempt.verdict.error_message
    if not message:
        return shown
    kind = _FIGURES.sub("#", message)
    same = [one.turn for one in others if _FIGURES.sub("#", one.attempt.verdict.error_message or "") == kind]
    return replace(shown, same_error_as=same[0]) if same else shown


def _shorter(shown: ShownAttempt) -> Shown:
    """Return an attempt with a short message, and the same without its kernel."""
    attempt = shown.attempt
    verdict = replace(attempt.verdict, error_message=_shortened(attempt.verdict.error_message))
    short = replace(shown, attempt=replace(attempt, verdict=verdict))
    left_out = attempt.left_out or attempt.kernel is not None
    return [short, replace(short, diff=None, diff_to=None, attempt=Attempt(None, verdict, left_out))]


def _shortened(message: str | None) -> str | None:
    """Keep both ends: the first line says what failed, the last ones say why."""
    if message is None or len(message) <= _SHORT_MESSAGE:
        return message
    half = _SHORT_MESSAGE // 2
    return f"{message[:half]} ... {message[-half:]}"
