"""The kind of device `cuda`: what is known about an NVIDIA GPU before it is opened."""

import contextlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from warpsmith.evaluator.devices import cuda_nodes
from warpsmith.evaluator.devices.kinds import DeviceKind, Nodes
from warpsmith.evaluator.errors import JudgeUnavailableError

if TYPE_CHECKING:
    from warpsmith.evaluator import _native
    from warpsmith.evaluator.devices.cuda import CudaDevice

ORDINAL: Final = 0
"""The device's number in every process of an evaluator, since each sees only this device."""
SLOTS: Final = 3
"""More evaluations at once were no faster on an H200: docs/timing.md."""


class CudaKind(DeviceKind):
    """A GPU: compiled kernels run and are timed on it."""

    name = "cuda"
    platform = "CUDA"
    interprets = False
    times = True
    shares_memory = True
    is_numbered = True
    roles = MappingProxyType({"plain": ("reference", "compile", "host", "candidate")})
    # The driver creates contexts one after another; the rest of a start overlaps with others' (on an H100 6.2 starts a
    # second one by one, 10.2 by twos, 13.5 by fours).
    workers_at_once = 4
    max_tensor_bytes = 16 << 30
    most_exact_bytes = 1 << 30
    _handle: "_native.Device | None" = None

    def default_slots(self, devices: int = 1) -> int:
        """See `DeviceKind`."""
        return SLOTS

    def environment(self, device: int | str) -> dict[str, str]:
        """See `DeviceKind`."""
        return cuda_nodes.environment_of(device)

    def library_folders(self) -> list[str]:
        """See `DeviceKind`."""
        return [*cuda_nodes.NVIDIA_LIBRARIES, *cuda_nodes.searched_folders()]

    def nodes(self, number: int, uuid: str) -> Nodes | None:
        """See `DeviceKind`."""
        return cuda_nodes.nodes_of(number, uuid)

    def check_forkable(self) -> None:
        """See `DeviceKind`."""
        from warpsmith.evaluator import _native

        if not _native.driver_untouched():
            raise OSError("the zygote has used CUDA, so the processes that it forks cannot use it")

    def prepare_zygote(self, arch: int) -> None:
        """See `DeviceKind`: assembles the kernels for scrubbing here, since players must not execute an assembler."""
        from warpsmith.evaluator.devices import cuda_scrubbing

        cuda_scrubbing.assembled(arch)

    def prepare_worker(self, *, context: bool) -> None:
        """See `DeviceKind`: starts the driver, and what torch keeps about devices.

        A device that cannot be used is reported where it is opened.
        """
        import torch

        from warpsmith.evaluator import _native

        if torch.version.cuda is not None and torch.cuda.is_available():
            with contextlib.suppress(RuntimeError, _native.NativeError):
                torch.cuda.init()  # type: ignore[no-untyped-call]
                self._handle = _native.Device.open(ORDINAL) if context else None

    def device_class(self) -> "type[CudaDevice]":
        """See `DeviceKind`."""
        from warpsmith.evaluator.devices.cuda import CudaDevice

        return CudaDevice

    def open(self) -> "CudaDevice":
        """See `DeviceKind`."""
        from warpsmith.evaluator import _native

        try:
            return self.device_class()(self._handle)
        except _native.NativeError as error:
            raise JudgeUnavailableError(f"No GPU is usable: {error.message}", error.remedy) from error


CUDA: Final = CudaKind()
