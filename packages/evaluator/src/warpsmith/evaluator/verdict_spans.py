"""The spans of an evaluation: one for the request, and one for each part of it that took time."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from warpsmith.evaluator.client.request import EvaluationRequest
from warpsmith.evaluator.verdict import Verdict
from warpsmith.records import tracing

PARTS: Final = ("workers", "correctness", "stall", "mapping", "lease", "baselines", "timing")
"""Parts of an evaluation, by the names of `Seconds`, in the order in which their spans are laid end to end."""


@contextmanager
def evaluation(request: EvaluationRequest) -> Iterator[Callable[[Verdict], Verdict]]:
    """Trace a block that gets a verdict as the span `evaluation`.

    Yields a function that adds the verdict to the span, with its parts, and returns it.
    """
    with tracing.span("evaluation", {"warpsmith.problem": request.problem.name}) as span:

        def noted(verdict: Verdict) -> Verdict:
            if span.records:
                add_verdict(span, verdict, time.time_ns())
            return verdict

        yield noted


def add_verdict(span: tracing.Span, verdict: Verdict, ended_ns: int) -> None:
    """Add a verdict to the span of its evaluation: attributes, and a child for each part that took time.

    A verdict has the seconds of each part, not its begin, and a part may be a sum over several times. So `wait` begins
    with the span, `compile` with the evaluation, in parallel to the rest, and PARTS follow one another. Every child is
    within the span; `warpsmith.seconds` is what the judge measured.

    Args:
        span: the span, from the request on.
        verdict: the verdict.
        ended_ns: when it arrived, in nanoseconds since 1970.
    """
    span.note(attributes_of(verdict))
    if verdict.status == "invalid":
        span.fail(verdict.error_category or "invalid")
    if verdict.cached:
        return
    seconds = verdict.seconds
    began = max(span.began_ns, ended_ns - _ns(seconds.evaluate))

    def add(name: str, at: int) -> int:
        taken = float(getattr(seconds, name))
        end = min(ended_ns, at + _ns(taken))
        if taken > 0:
            span.add(name, min(at, ended_ns), end, {"warpsmith.seconds": taken})
        return end

    add("wait", span.began_ns)
    add("compile", began)
    for name in PARTS:
        began = add(name, began)


def attributes_of(verdict: Verdict) -> tracing.Attributes:
    """Return what a span says about a verdict; nothing that quotes the candidate."""
    return {
        "warpsmith.status": verdict.status,
        "warpsmith.correct": verdict.correct,
        "warpsmith.error_category": verdict.error_category,
        "warpsmith.speedup": verdict.speedup,
        "warpsmith.runtime_ms": verdict.runtime_ms,
        "warpsmith.trials": verdict.trials,
        "warpsmith.cached": verdict.cached,
        "warpsmith.compile_cached": verdict.compile_cached,
        "warpsmith.device": verdict.device,
        "warpsmith.isolation": verdict.isolation_tier,
    }


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
