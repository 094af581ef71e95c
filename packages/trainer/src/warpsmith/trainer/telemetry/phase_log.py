"""When a run was in which phase of its start, and when sampling stood still to time: `RUN/phases.jsonl`."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import psutil  # type: ignore[import-untyped,unused-ignore]

from warpsmith.records.timeline import PHASES_FILE, StartPhase

COMMAND_BEGAN: Final = "WARPSMITH_COMMAND_BEGAN"
"""Variable that tells a rank when the command that launched it began, by `time.time`."""


@dataclass(frozen=True)
class PhaseSpan:
    """One line of the file; times are by `time.time`.

    Attributes:
        phase: `start` for a phase of the start, `time` for a window in which candidates were timed.
        name: which one.
        began, ended: when.
        background: whether other phases of the start went on meanwhile.
        step: the step whose batch was sampled; None outside of steps.
    """

    phase: StartPhase
    name: str
    began: float
    ended: float
    background: bool = False
    step: int | None = None

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.began


class PhaseLog:
    """Notes phases; `keep` writes what was noted so far, and from then on each one is written as it ends.

    So a run that is refused leaves no file. For rank 0; on other ranks nothing is ever kept.

    Attributes:
        entered: called with the name of each phase of the start as it begins.
    """

    def __init__(self) -> None:
        self.entered: Callable[[str], None] = lambda name: None
        self._file: Path | None = None
        self.spans: list[PhaseSpan] = []
        here, command = psutil.Process().create_time(), os.environ.get(COMMAND_BEGAN)
        if command is not None:
            self.add(PhaseSpan("start", "launch", float(command), here))
        self.add(PhaseSpan("start", "imports", here, time.time()))

    @contextmanager
    def start(self, name: str) -> Iterator[None]:
        """Note a phase of the start that lasts as long as the block."""
        began = time.time()
        self.entered(name)
        yield
        self.add(PhaseSpan("start", name, began, time.time()))

    def add(self, span: PhaseSpan) -> None:
        """Note a phase that has ended."""
        if span.phase == "start":
            self.spans.append(span)
        self._write([span])

    def keep(self, run_dir: Path) -> None:
        """Write to the run's directory from now on."""
        self._file = run_dir / PHASES_FILE
        self._write(self.spans)

    def start_in_words(self) -> str:
        """Return how long the start took so far, and each of its phases, in the order of their begins."""
        spans = sorted(self.spans, key=lambda span: span.began)
        whole = max(span.ended for span in spans) - spans[0].began
        main, beside = ([span for span in spans if span.background == flag] for flag in (False, True))
        text = f"The start took {whole:.1f} s: {_listed(main)}."
        return f"{text} Meanwhile: {_listed(beside)}." if beside else text

    def _write(self, spans: list[PhaseSpan]) -> None:
        if self._file is None:
            return
        lines = "".join(f"{json.dumps(asdict(span))}\n" for span in spans)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(lines)


def command_began() -> dict[str, str]:
    """Return the environment with which this command tells its ranks when it began."""
    return {COMMAND_BEGAN: str(psutil.Process().create_time())}


def _listed(spans: list[PhaseSpan]) -> str:
    return ", ".join(f"{span.name} {span.seconds:.1f} s" for span in spans)
