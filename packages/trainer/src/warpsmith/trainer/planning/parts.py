"""Parts of a device's memory, and their peak."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

When = Literal["always", "pass", "update", "start", "sync"]
"""When a part exists: always, in forward and backward passes, in the optimizer's update, or outside of both."""


@dataclass(frozen=True)
class Part:
    """Memory of one thing.

    Attributes:
        name: its name.
        bytes: its size.
        when: when it exists; parts of different times do not exist together.
        assumed: whether it is a rule of thumb and not computed from sizes.
        shared: whether it is in /dev/shm.
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
        bytes: its memory.
        parts: what it will hold.
    """

    name: str
    bytes: int
    parts: list[Part] = field(default_factory=list)

    @property
    def peak(self) -> int:
        """The maximum that exists at one time."""
        return peak(self.parts)

    @property
    def fits(self) -> bool:
        """Whether everything fits."""
        return self.peak <= self.bytes


def peak(parts: Iterable[Part]) -> int:
    """Return the sum of permanent parts and the maximum of the temporary ones."""
    always = 0
    others: dict[When, int] = {}
    for part in parts:
        if part.when == "always":
            always += part.bytes
        else:
            others[part.when] = others.get(part.when, 0) + part.bytes
    return always + max(others.values(), default=0)
