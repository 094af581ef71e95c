"""Parts of a device's memory, and their peak."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

When = Literal["always", "pass", "update", "start", "sync"]
"""When a part is there: all the time, in forward and backward passes, in the optimizer's update, or outside of both."""


@dataclass(frozen=True)
class Part:
    """Memory that one thing takes.

    Attributes:
        name: what it is.
        bytes: how much.
        when: at which time it is there; parts of different times are not there together.
        assumed: whether it is a round figure of experience and not computed from sizes.
        shared: whether it lies in /dev/shm.
    """

    name: str
    bytes: int
    when: When = "always"
    assumed: bool = False
    shared: bool = False


@dataclass
class Device:
    """One GPU, or the host.

    Attributes:
        name: `GPU 0` or `host`.
        bytes: what it has.
        parts: what is to be in it.
    """

    name: str
    bytes: int
    parts: list[Part] = field(default_factory=list)

    @property
    def peak(self) -> int:
        """The most that is there at one time."""
        return peak(self.parts)

    @property
    def fits(self) -> bool:
        """Whether it has as much."""
        return self.peak <= self.bytes


def peak(parts: Iterable[Part]) -> int:
    """Return what is always there, and the most of what is there at one time besides."""
    always = 0
    others: dict[When, int] = {}
    for part in parts:
        if part.when == "always":
            always += part.bytes
        else:
            others[part.when] = others.get(part.when, 0) + part.bytes
    return always + max(others.values(), default=0)
