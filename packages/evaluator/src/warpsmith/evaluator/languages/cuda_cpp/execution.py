"""What the CUDA runtime of a candidate's process does besides recording: nothing, or on a device the call itself."""

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.dlpack import from_dlpack

from warpsmith.evaluator.devices.base import Device
from warpsmith.evaluator.recordings.errors import DetachedError

if TYPE_CHECKING:
    from warpsmith.evaluator import _native


@dataclass(frozen=True)
class Cubin:
    """The machine code of one source of a build.

    Attributes:
        code: the cubin.
        kernels: mangled names.
        variables: names of variables in global and constant memory.
    """

    code: bytes
    kernels: frozenset[str]
    variables: frozenset[str]


@dataclass(frozen=True)
class Launch:
    """One launch as host code asks for it.

    Attributes:
        kernel: its mangled name.
        grid: blocks along each axis.
        block: threads along each axis.
        cluster: blocks of a cluster along each axis; zeros for none.
        shared: dynamic shared memory of a block, in bytes.
        cooperative: whether all blocks must run at once.
        arguments: the bytes of each argument.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared: int
    cooperative: bool
    arguments: list[bytes]


class Execution(Protocol):
    """What is done with the calls of a runtime.

    Attributes:
        device: on which the runtime's own memory lies.
        host_is_apart: whether tensors on the host lie in other memory than those on the device.
    """

    device: Any
    host_is_apart: bool

    def properties(self) -> Any:
        """Return torch's properties of the GPU."""

    def launch(self, cubins: tuple[Cubin, ...], launch: Launch) -> None:
        """Launch a kernel of a build, whose cubins are given."""

    def write_variable(self, cubins: tuple[Cubin, ...], name: str, offset: int, content: torch.Tensor) -> None:
        """Copy bytes, uint8 [bytes], to a variable of a build."""

    def check_unrecorded(self) -> None:
        """Raise DetachedError if a call outside forward, which no recording has, cannot be done."""

    def check_readable(self) -> None:
        """Raise DetachedError if a tensor's content cannot be read."""

    def settle(self) -> None:
        """Wait for the device."""


class DetachedCalls:
    """There is no device: a recording is all that a call leaves."""

    device = "cuda"
    host_is_apart = False

    def properties(self) -> Any:
        """See `Execution`: of the pretended GPU."""
        return torch.cuda.get_device_properties(0)

    def launch(self, cubins: tuple[Cubin, ...], launch: Launch) -> None:
        """See `Execution`: does nothing."""

    def write_variable(self, cubins: tuple[Cubin, ...], name: str, offset: int, content: torch.Tensor) -> None:
        """See `Execution`: does nothing."""

    def check_unrecorded(self) -> None:
        """See `Execution`: raises."""
        raise DetachedError("a kernel is launched outside forward, for example in the constructor")

    def check_readable(self) -> None:
        """See `Execution`: raises."""
        raise DetachedError("host code copies a tensor's content to the host")

    def settle(self) -> None:
        """See `Execution`: does nothing."""


class DeviceCalls:
    """Each call is done on a device, all on torch's current stream and in the order of the calls, as a replay is.

    Args:
        device: that it runs on.
    """

    def __init__(self, device: Device) -> None:
        self.device = device.torch_device
        self.host_is_apart = device.torch_device.type != "cpu"
        self._device = device
        self._modules: dict[bytes, _native.Module] = {}
        self._kernels: dict[tuple[bytes, str, int], _native.Kernel] = {}

    def properties(self) -> Any:
        """See `Execution`: of the device."""
        return self._device.properties()

    def launch(self, cubins: tuple[Cubin, ...], launch: Launch) -> None:
        """See `Execution`.

        Raises:
            NativeError: the driver rejects the launch.
        """
        code = next(one.code for one in reversed(cubins) if launch.kernel in one.kernels)
        key = code, launch.kernel, launch.shared
        if key not in self._kernels:
            self._kernels[key] = self._module(code).kernel(launch.kernel, launch.shared)
        cluster = launch.cluster if all(launch.cluster) else (1, 1, 1)
        prepared = self._kernels[key].prepare(launch.grid, launch.block, cluster, launch.cooperative, launch.arguments)
        prepared.launch(self._device.current_stream())

    def write_variable(self, cubins: tuple[Cubin, ...], name: str, offset: int, content: torch.Tensor) -> None:
        """See `Execution`: in each source that has a variable of that name, as replays do."""
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            for one in cubins:
                if name in one.variables:
                    whole: torch.Tensor = from_dlpack(self._module(one.code).variable(name))
                    whole[offset : offset + content.numel()].copy_(content)

    def check_unrecorded(self) -> None:
        """See `Execution`: what runs outside forward leaves memory and variables as it does without an evaluator."""

    def check_readable(self) -> None:
        """See `Execution`: contents are those of no trial."""

    def settle(self) -> None:
        """See `Execution`; faults of kernels surface here."""
        self._device.settle()

    def _module(self, code: bytes) -> "_native.Module":
        if code not in self._modules:
            self._modules[code] = self._device.load_module(code)
        return self._modules[code]


def content_of(tensor: torch.Tensor) -> bytes:
    """Return the bytes of a contiguous tensor, once all that writes to it is done; no recording notices."""
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        on_host = tensor.cpu()
        return ctypes.string_at(on_host.data_ptr(), on_host.nbytes) if on_host.nbytes else b""
