"""What is known of a kind of device before one is opened: the interface of what `warpsmith.devices` registers.

Importable without torch: a configuration, a command and a sandbox policy ask here.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.base import Device

Role = Literal["reference", "candidate", "compile", "host"]
"""What a worker is for."""
ZygoteKind = Literal["plain", "interpreting"]
"""`interpreting` zygotes fork workers that interpret kernels."""
Roles = Mapping[ZygoteKind, tuple[Role, ...]]


@dataclass(frozen=True)
class Nodes:
    """How a worker gets at its device: what the driver calls it there, the device's own nodes, and what else it needs.

    Attributes:
        name: of the device in a worker.
        own: paths of the nodes of this device.
        shared: paths of nodes of the driver that every worker with a device opens.
        facts: paths that the driver reads of the machine.
    """

    name: str
    own: tuple[str, ...]
    shared: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()


class DeviceKind(ABC):
    """A kind of device that candidates are judged on.

    Attributes:
        name: in a configuration.
        platform: for people.
        interprets: whether kernels are interpreted on the host's processors and no machine code is loaded. A worker's
            time without a processor is not the candidate's then.
        times: whether calls can be timed on it.
        shares_memory: whether it has a memory of its own, which all workers share: who finds it full may have met what
            others hold.
        is_numbered: whether a machine may have several, which are told apart by a number.
        roles: which zygote forks which workers.
        workers_at_once: workers of a role that are made at a time.
        max_tensor_bytes: default bound of one set of inputs or outputs.
        most_exact_bytes: largest set of inputs for which the reference runs in fp64 too; on a GPU four times as much
            memory is held then.
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
        """Return how many evaluations run at once on each of so many devices of a machine, where nobody says."""

    @abstractmethod
    def environment(self, device: int | str) -> dict[str, str]:
        """Return the environment under which a process sees one device.

        Args:
            device: its number, or its name in a worker (`Nodes.name`).
        """

    @abstractmethod
    def library_folders(self) -> list[str]:
        """Return folders with libraries of the driver, which workers may read."""

    @abstractmethod
    def nodes(self, number: int, uuid: str) -> Nodes | None:
        """Return how workers get at a device; None where they need no node.

        Args:
            number: among the devices that are there.
            uuid: what the driver calls it everywhere; may be empty.
        """

    @abstractmethod
    def check_forkable(self) -> None:
        """Raise OSError in a process whose children could not use the device."""

    @abstractmethod
    def prepare_zygote(self, arch: int) -> None:
        """Do in a zygote, once, what each player would do otherwise, for a chip of that number."""

    @abstractmethod
    def device_class(self) -> "type[Device]":
        """Import and return the class of an open device. A zygote does, for its workers may not be able to."""

    @abstractmethod
    def open(self) -> "Device":
        """Open the device in this process.

        Raises:
            JudgeUnavailableError: there is no driver, no device, or no torch that can use it.
        """


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))
