"""Spans of training steps: a live one around each, and one for each of its phases, from the figures that it records."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from warpsmith.records import tracing

SERVICE: Final = "warpsmith-trainer"
"""Name of the service in spans, unless OTEL_SERVICE_NAME gives another."""
PHASES: Final = (("collect", "collect_s"), ("train", "train_s"), ("sync", "sync_s"))
"""Phases of a step in their order, and the figure with the seconds of each."""
_NOTED: Final = ("reward_mean", "correct_rate", "loss", "tokens")


@contextmanager
def step(number: int, run: str) -> Iterator[None]:
    """Trace a block as the step `number` of a run."""
    with tracing.span("step", {"warpsmith.step": number, "warpsmith.run": run}):
        yield


def add_phases(started_at: datetime, figures: Mapping[str, float]) -> None:
    """Add the phases of a step that has ended to the span around the caller.

    Args:
        started_at: when the step began; its phases follow one another from then.
        figures: the step's figures.
    """
    span = tracing.current()
    if not span.records:
        return
    span.note({f"warpsmith.{name}": figures[name] for name in _NOTED if name in figures})
    began = round(started_at.timestamp() * 1e9)
    for name, seconds in PHASES:
        if seconds in figures:
            ended = began + round(figures[seconds] * 1e9)
            span.add(name, began, ended)
            began = ended
