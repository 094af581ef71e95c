"""Kills parts of a run that a benchmark started, some seconds after a step was recorded."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import psutil

Words = str


def _rank(number: str) -> Callable[[psutil.Process, Words], bool]:
    def found(process: psutil.Process, words: Words) -> bool:
        return "warpsmith.trainer" in words and "launch" not in words and process.environ().get("RANK") == number

    return found


PARTS: Final[Mapping[str, Callable[[psutil.Process, Words], bool]]] = {
    "judge": lambda _, words: "evaluator.judge" in words,
    "engine": lambda _, words: words.startswith("ray::SamplerActor"),
    "rank 1": _rank("1"),
}
"""By what a process of each part is known."""


@dataclass
class Kill:
    """One part that is killed after a step.

    Attributes:
        step: the step whose record starts the clock.
        part: a key of `PARTS`.
        at_s: seconds from the run's start to the kill; None before it.
        pid: the process that was killed; None if there was none.
        due: when it is killed, by the monotonic clock; None before the step was recorded.
    """

    step: int
    part: str
    at_s: float | None = None
    pid: int | None = None
    due: float | None = field(default=None, repr=False)

    def report(self) -> dict[str, Any]:
        """Return what a result says of it."""
        return {"step": self.step, "part": self.part, "at_s": self.at_s, "found": self.pid is not None}


def parse(text: str) -> Kill:
    """Return the kill that `STEP:PART` names.

    Raises:
        ValueError: the text has another form, or names an unknown part.
    """
    found = re.fullmatch(r"(\d+):(.+)", text)
    if found is None or found[2] not in PARTS:
        raise ValueError(f"{text!r} is not STEP:PART, with one of the parts {', '.join(PARTS)}")
    return Kill(int(found[1]), found[2])


class Kills:
    """Kills parts of the one run on this machine, each once. Ray's processes are no children of the run's command.

    Args:
        kills: what is killed, and when.
        delay_s: from the record of a step to the kill, so that it meets the next step.
    """

    def __init__(self, kills: list[Kill], delay_s: float = 12.0) -> None:
        self.kills = kills
        self._delay_s = delay_s
        self._began = time.monotonic()

    def after(self, steps: int) -> None:
        """Kill what is due; call it every second with the number of recorded steps."""
        now = time.monotonic()
        for kill in self.kills:
            if kill.at_s is not None or steps < kill.step:
                continue
            kill.due = kill.due or now + self._delay_s
            if now < kill.due:
                continue
            kill.at_s = round(now - self._began, 1)
            for process in _found(kill.part):
                kill.pid = process.pid
                process.kill()
                break
            print(f"killed {kill.part} ({kill.pid}) after {kill.at_s:.0f} s", flush=True)


def _found(part: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        try:
            if PARTS[part](process, " ".join(process.cmdline())):
                yield process
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
