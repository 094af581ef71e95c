"""Wall time of a run by phase, said as it passes and kept for the summary."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Phases:
    """Times named phases; `say` prints a line when one begins and when it ends."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.seconds: dict[str, float] = {}
        self._say = say
        self._began = time.monotonic()

    @contextmanager
    def phase(self, name: str, purpose: str) -> Iterator[None]:
        """Time what happens inside; a phase that fails keeps no time."""
        self._say(f"==> {name}: {purpose}")
        began = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - began
        self._say(f"    {name} took {self.seconds[name]:.1f} s")

    @property
    def total(self) -> float:
        """Seconds since the first phase could begin."""
        return time.monotonic() - self._began

    def table(self) -> str:
        """The phases as lines, each with its share of the whole."""
        total = self.total
        rows = [f"  {name:<22} {seconds:7.1f} s  {seconds / total:4.0%}" for name, seconds in self.seconds.items()]
        return "\n".join([*rows, f"  {'all':<22} {total:7.1f} s"])
