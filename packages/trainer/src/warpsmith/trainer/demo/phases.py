"""Wall time of a run by phase, printed as it passes and kept for the summary."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager


class Phases:
    """Times named phases; `say` prints a line at the start and end of each."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.seconds: dict[str, float] = {}
        self._say = say
        self._began = time.monotonic()

    @contextmanager
    def phase(self, name: str, purpose: str) -> Iterator[None]:
        """Time the block; a phase that fails is not recorded."""
        self._say(f"==> {name}: {purpose}")
        began = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - began
        self._say(f"    {name} took {self.seconds[name]:.1f} s")

    @property
    def total(self) -> float:
        """Seconds since this object was created."""
        return time.monotonic() - self._began

    def table(self, parts: Mapping[str, float]) -> str:
        """The phases as lines, each with its share of the total; `parts`, named `phase/part`, follow their phase."""
        total = self.total
        lines = []
        for name, seconds in self.seconds.items():
            lines.append(_line(name, seconds, total, 2))
            lines += [_line(part, spent, total, 4) for part, spent in _below(name, seconds, parts)]
        return "\n".join([*lines, f"{'  all':<24} {total:7.1f} s"])


def _below(name: str, seconds: float, parts: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return the parts of a phase, and the remaining time."""
    below = [(part.removeprefix(f"{name}/"), spent) for part, spent in parts.items() if part.startswith(f"{name}/")]
    return [*below, ("start and end", seconds - sum(spent for _, spent in below))] if below else []


def _line(name: str, seconds: float, total: float, indent: int) -> str:
    return f"{'':<{indent}}{name:<{24 - indent}} {seconds:7.1f} s  {seconds / total:4.0%}"
