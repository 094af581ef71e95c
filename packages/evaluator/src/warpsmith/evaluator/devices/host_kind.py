"""What is known of the host as a device before it is opened; registered as `cpu`."""

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from warpsmith.evaluator.devices.kinds import DeviceKind, Nodes, processors

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.host import HostDevice


class HostKind(DeviceKind):
    """The host: kernels are interpreted by its processors, and nothing is timed."""

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
        """As of `DeviceKind`: one a processor."""
        return max(1, processors() // devices)

    def environment(self, device: int | str) -> dict[str, str]:
        """As of `DeviceKind`: every process sees the host."""
        return {}

    def library_folders(self) -> list[str]:
        """As of `DeviceKind`: there is no driver."""
        return []

    def nodes(self, number: int, uuid: str) -> Nodes | None:
        """As of `DeviceKind`: there are none."""
        return None

    def check_forkable(self) -> None:
        """As of `DeviceKind`: every child can use the host."""

    def prepare_zygote(self, arch: int) -> None:
        """As of `DeviceKind`: there is nothing to do."""

    def device_class(self) -> "type[HostDevice]":
        """As of `DeviceKind`."""
        from warpsmith.evaluator.devices.host import HostDevice

        return HostDevice

    def open(self) -> "HostDevice":
        """As of `DeviceKind`: there always is one."""
        return self.device_class()()


HOST: Final = HostKind()
