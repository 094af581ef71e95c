"""The kind of device `cpu`: what is known about the host before it is opened."""

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from warpsmith.evaluator.devices.kinds import DeviceKind, Nodes, processors

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.host import HostDevice


class HostKind(DeviceKind):
    """The host: kernels are interpreted on the CPU, and nothing is timed."""

    name = "cpu"
    platform = "CPU"
    interprets = True
    times = False
    shares_memory = False
    is_numbered = False
    roles = MappingProxyType({"plain": ("reference", "compile", "host"), "interpreting": ("candidate",)})
    workers_at_once = 1
    max_tensor_bytes = 1 << 30
    most_exact_bytes = 1 << 40

    def default_slots(self, devices: int = 1) -> int:
        """See `DeviceKind`: one per processor, shared between the devices."""
        return max(1, processors() // devices)

    def environment(self, device: int | str) -> dict[str, str]:
        """See `DeviceKind`: nothing to set."""
        return {}

    def library_folders(self) -> list[str]:
        """See `DeviceKind`: there is no driver."""
        return []

    def nodes(self, number: int, uuid: str) -> Nodes | None:
        """See `DeviceKind`: there are none."""
        return None

    def check_forkable(self) -> None:
        """See `DeviceKind`: every child can use the host."""

    def prepare_zygote(self, arch: int) -> None:
        """See `DeviceKind`: there is nothing to do."""

    def prepare_worker(self, *, context: bool) -> None:
        """See `DeviceKind`: there is nothing to do."""

    def device_class(self) -> "type[HostDevice]":
        """See `DeviceKind`."""
        from warpsmith.evaluator.devices.host import HostDevice

        return HostDevice

    def open(self) -> "HostDevice":
        """See `DeviceKind`: always succeeds."""
        return self.device_class()()


HOST: Final = HostKind()
