"""The interface of a kind of device, registered in `warpsmith.devices`: what is known before a device is opened.

Importable without torch, for configurations, commands and sandbox policies.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.base import Device

Role = Literal["reference", "candidate", "compile", "host", "baseline"]
"""What a worker is for; a `baseline` one is a reference worker that may run compilers."""
ZygoteKind = Literal["plain", "interpreting"]
"""Workers forked from an `interpreting` zygote interpret kernels."""
Roles = Mapping[ZygoteKind, tuple[Role, ...]]


@dataclass(frozen=True)
class Nodes:
    """How a worker reaches its device.

    Attributes:
        name: the driver's name for the device in a worker.
        own: paths of this device's nodes.
        shared: paths of the driver's nodes that every worker with a device opens.
        facts: paths from which the driver reads facts about the machine.
    """

    name: str
    own: tuple[str, ...]
    shared: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()


class DeviceKind(ABC):
    """A kind of device that candidates can be judged on.

    Attributes:
        name: its name in a configuration.
        platform: its name in messages.
        interprets: whether kernels are interpreted on the CPU and no machine code is loaded. Time that a worker waits
            for a processor then does not count as the candidate's.
        times: whether calls can be timed on it.
        shares_memory: whether all workers share its memory: one that runs out of it can have met memory that others
            hold.
        is_numbered: whether a machine can have several, distinguished by a number.
        roles: which zygote forks which workers.
        workers_at_once: workers of a role that start at the same time.
        max_tensor_bytes: default limit of one set of inputs or outputs.
        most_exact_bytes: largest set of inputs for which the reference also runs in fp64, which takes four times as
            much memory on a GPU.
    """

    name: ClassVar[str]
    platform: ClassVar[str]
    interprets: ClassVar[bool]
    times: ClassVar[bool]
    shares_memory: ClassVar[bool]
    is_numbered: ClassVar[bool]
    roles: ClassVar[Roles]
    workers_at_once: ClassVar[int]
    max_tensor_bytes: ClassVar[int]
    most_exact_bytes: ClassVar[int]

    @abstractmethod
    def default_slots(self, devices: int = 1) -> int:
        """Return the default number of concurrent evaluations on each of `devices` devices of a machine."""

    @abstractmethod
    def environment(self, device: int | str) -> dict[str, str]:
        """Return environment variables that let a process see one device.

        Args:
            device: its number, or its name in a worker (`Nodes.name`).
        """

    @abstractmethod
    def library_folders(self) -> list[str]:
        """Return folders with the driver's libraries, which workers can read."""

    @abstractmethod
    def nodes(self, number: int, uuid: str) -> Nodes | None:
        """Return how workers reach a device; None if they need no node.

        Args:
            number: its number among the existing devices.
            uuid: the driver's UUID; can be empty.
        """

    @abstractmethod
    def check_forkable(self) -> None:
        """Raise OSError if children of this process could not use the device."""

    @abstractmethod
    def prepare_zygote(self, arch: int) -> None:
        """Do one-time work in a zygote that each player would otherwise repeat; `arch` is the chip."""

    @abstractmethod
    def prepare_worker(self, *, context: bool) -> None:
        """Do in a worker the part of opening the device that runs nothing on it, concurrently with others' work there.

        Args:
            context: whether that includes a context.
        """

    @abstractmethod
    def device_class(self) -> "type[Device]":
        """Import and return the class of an open device. Called in a zygote, since its workers cannot always import."""

    @abstractmethod
    def open(self) -> "Device":
        """Open the device in this process.

        Raises:
            JudgeUnavailableError: there is no driver, no device, or no torch build that can use it.
        """


def processors() -> int:
    """Return the number of processors that this process can use."""
    return len(os.sched_getaffinity(0))
