"""The verdict on a problem with several workloads: judged on each, combined into one. Importable without torch.

A candidate must be correct on each workload. A workload that the evaluator failed on makes the whole `invalid`: a mean
over the others would be a score of something else.
"""

import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Final, TypeVar

from warpsmith.evaluator.config import TIER_STRENGTH
from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.verdict import Seconds, Verdict, WorkloadResult

LAST_STATUSES: Final = ("invalid", "timeout")
"""Statuses after which no further workload is judged: each would cost as long, and the whole is decided."""
TIERS_BY_TRUST: Final = ("none", "events", "graph", "two_clocks")
"""Ways of timing, the weakest first: the combined verdict names the weakest."""

Part = TypeVar("Part")


def judged_on_each(
    parts: Mapping[str, Part], judge: Callable[[Part], Verdict], in_own_words: Callable[[str, Part], str]
) -> Verdict:
    """Return the combined verdict over workloads, judged one after another.

    Args:
        parts: what to judge, by the workload's name; at least one.
        judge: returns the verdict on one.
        in_own_words: returns a message about a part with the lines that it quotes as the user wrote them.

    Raises:
        BadProblemError: a workload cannot be judged; the message names it.
    """
    verdicts: dict[str, Verdict] = {}
    for name, part in parts.items():
        with _naming(name, part, in_own_words):
            verdicts[name] = judge(part)
        if verdicts[name].status in LAST_STATUSES:
            break
    return combined(verdicts)


async def judged_on_each_async(
    parts: Mapping[str, Part], judge: Callable[[Part], Awaitable[Verdict]], in_own_words: Callable[[str, Part], str]
) -> Verdict:
    """As `judged_on_each`, for asyncio. The workloads of one candidate follow one another here too."""
    verdicts: dict[str, Verdict] = {}
    for name, part in parts.items():
        with _naming(name, part, in_own_words):
            verdicts[name] = await judge(part)
        if verdicts[name].status in LAST_STATUSES:
            break
    return combined(verdicts)


def combined(verdicts: Mapping[str, Verdict]) -> Verdict:
    """Return one verdict over those of workloads.

    Its status is `correct` if all are; else that of the first `invalid` one, the first that is neither correct nor
    undecided, or the first undecided one, whose message and category it has. Times are geometric means over all
    workloads, so that `speedup` is the geometric mean of the speedups; None unless every workload is correct and timed.
    The bound, bytes moved, kernels and clock of one workload say nothing about the others, and are left out.
    """
    ones = list(verdicts.values())
    name, decisive = min(verdicts.items(), key=lambda item: _rank(item[1]))
    timed = decisive.correct and all(one.speedup is not None for one in ones)
    return replace(
        decisive,
        compiled=all(one.compiled for one in ones),
        speedup=_mean(one.speedup for one in ones) if timed else None,
        runtime_ms=_mean(one.runtime_ms for one in ones) if timed else None,
        reference_ms=_mean(one.reference_ms for one in ones) if timed else None,
        speedups=_means([one.speedups for one in ones]) if timed else {},
        references_ms=_means([one.references_ms for one in ones]) if timed else {},
        bound=None,
        kernels=(),
        clock=None,
        bytes_moved=None,
        timing_tier=_weakest((one.timing_tier for one in ones), TIERS_BY_TRUST) if timed else "none",
        isolation_tier=_weakest((one.isolation_tier for one in ones), list(TIER_STRENGTH)),
        flags=tuple(dict.fromkeys(flag for one in ones for flag in one.flags)),
        operators=tuple(sorted({operator for one in ones for operator in one.operators})),
        kernel_share=_share(ones) if timed else None,
        error_message=None if decisive.error_message is None else f"Workload {name}: {decisive.error_message}",
        max_abs_error=_largest(one.max_abs_error for one in ones),
        mismatched_fraction=_largest(one.mismatched_fraction for one in ones),
        trials=sum(one.trials for one in ones),
        cached=all(one.cached for one in ones),
        compile_cached=all(one.compile_cached for one in ones),
        seconds=_sum([one.seconds for one in ones]),
        workloads=tuple(result_of(name, one) for name, one in verdicts.items()),
    )


def result_of(name: str, verdict: Verdict) -> WorkloadResult:
    """Return what a combined verdict keeps of the verdict on one workload."""
    kept = {one.name: getattr(verdict, one.name) for one in fields(WorkloadResult) if one.name != "name"}
    return WorkloadResult(name=name, **kept)


@contextmanager
def _naming(workload: str, part: Part, in_own_words: Callable[[str, Part], str]) -> Iterator[None]:
    try:
        yield
    except BadProblemError as error:
        raise type(error)(f"Workload {workload}: {in_own_words(error.message, part)}", error.remedy) from error


def _rank(verdict: Verdict) -> int:
    ranks = {"invalid": 0, "undecided": 2, "correct": 3}
    return ranks.get(verdict.status, 1)


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the geometric mean; None if a value is missing or not positive."""
    known = list(values)
    if not all(value is not None and value > 0 for value in known):
        return None
    return math.exp(math.fsum(math.log(value) for value in known if value is not None) / len(known))


def _means(tables: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the geometric mean of each entry that every table has."""
    names = [name for name in tables[0] if all(name in table for table in tables)]
    means = {name: _mean(table[name] for table in tables) for name in names}
    return {name: mean for name, mean in means.items() if mean is not None}


def _share(verdicts: Sequence[Verdict]) -> float | None:
    """Return the share of own kernels in the device's time over all workloads."""
    known = [(one.kernel_share, one.runtime_ms) for one in verdicts]
    if any(share is None or not runtime for share, runtime in known):
        return None
    total = math.fsum(runtime for _, runtime in known if runtime)
    return math.fsum(share * runtime for share, runtime in known if share is not None and runtime) / total


def _weakest(found: Iterable[str], order: Sequence[str]) -> str:
    """Return the weakest of what was found; what the order does not know counts as the weakest."""
    return min(found, key=lambda one: order.index(one) if one in order else -1)


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _sum(seconds: Sequence[Seconds]) -> Seconds:
    """Return the sums; of `age` the largest."""
    sums = {one.name: math.fsum(getattr(part, one.name) for part in seconds) for one in fields(Seconds)}
    return Seconds(**sums | {"age": max(part.age for part in seconds)})
