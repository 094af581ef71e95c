"""Lets host code that is written for a GPU run where there is none, as far as that changes nothing of the result.

`x.is_cuda` is true, `.cuda()` and `device="cuda"` give memory of the host, `torch.cuda.device` does nothing, and the
device's properties are those of one chip. Whether a forward takes memory that would lie on the host of a GPU is noted.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from operator import index
from types import SimpleNamespace
from typing import Any, Final, SupportsIndex

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

PROPERTIES: Final = SimpleNamespace(
    name="NVIDIA H100 80GB HBM3",
    major=9,
    minor=0,
    multi_processor_count=132,
    total_memory=80 << 30,
    warp_size=32,
    max_threads_per_block=1024,
    max_threads_per_multi_processor=2048,
    regs_per_multiprocessor=65536,
    shared_memory_per_block=49152,
    shared_memory_per_block_optin=232448,
    shared_memory_per_multiprocessor=233472,
    L2_cache_size=50 << 20,
)
"""An H100 SXM, which has the chip that is compiled for by default."""

FACTORIES: Final = frozenset({"empty", "zeros", "ones", "full", "arange", "empty_strided", "empty_permuted"})
"""Functions of torch that return memory of the host unless they are told a device."""


def properties_of(told: Mapping[str, Any]) -> SimpleNamespace:
    """Return a device's properties: those that are told, and the others of `PROPERTIES`."""
    known = vars(PROPERTIES)
    return SimpleNamespace(**known | {name: value for name, value in told.items() if name in known})


def install(properties: SimpleNamespace = PROPERTIES, *, disguised: bool = False) -> None:
    """Change what torch says of devices in this process, which must be a candidate's own.

    Args:
        properties: of the device that is said to be there.
        disguised: whether tensors also say that they lie on it, and torch that it can use it.
    """
    answers: dict[str, Callable[..., Any]] = {
        "device": _Chosen,
        "device_of": lambda *_: nullcontext(),
        "set_device": _check,
        "synchronize": _check,
        "empty_cache": lambda: None,
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "get_device_properties": lambda device=None: _of(device, properties),
        "get_device_capability": lambda device=None: _of(device, (properties.major, properties.minor)),
        "get_device_name": lambda device=None: _of(device, properties.name),
    }
    if disguised:
        answers["is_available"] = lambda: True
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    changed: Any = torch.Tensor
    if disguised:
        changed.device = property(lambda _: torch.device("cuda", 0))
    changed.is_cuda = property(lambda _: True)
    changed.cuda = lambda self, device=None, *_, **__: _of(device, self)
    module: Any = nn.Module
    module.cuda = lambda self, device=None: _of(device, self)


class GpuHost(TorchFunctionMode):
    """Takes a device that is not there for the host, and notes memory that would not lie on a GPU.

    Args:
        disguised: whether tensors say that they lie on the device, as `install` was told.

    Attributes:
        host_memory: whether a tensor was made without a device, or moved to or made on `"cpu"`.
        making: whether one of `FACTORIES` is under way; other ways to new memory pass by here.
    """

    def __init__(self, *, disguised: bool = False) -> None:
        super().__init__()
        self.host_memory = False
        self.making = False
        self._disguised = disguised

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        name = str(getattr(func, "__name__", ""))
        made = name in FACTORIES and named.get("device") is None
        placed = self._is_host(named.get("device")) or (name == "to" and any(map(self._is_host, args)))
        if made or name == "cpu" or placed:
            self.host_memory = True
        if "device" in named:
            named["device"] = _present(named["device"])
        self.making = name in FACTORIES
        try:
            return func(*(map(_present, args) if name == "to" else args), **named)
        finally:
            self.making = False

    def _is_host(self, device: Any) -> bool:
        # Undisguised, a torch.device may be that of an input, which would be another one on a GPU.
        if isinstance(device, torch.device):
            return self._disguised and device.type == "cpu"
        return isinstance(device, str) and device == "cpu"


def _present(device: Any) -> Any:
    """Return the host for the GPU that is said to be there; anything else as it is."""
    number = _number_of(device)
    return device if number is None else _of(number, torch.device("cpu"))


def _number_of(device: Any) -> int | None:
    """Return the number of a GPU by what names it in torch; None for what names none."""
    if isinstance(device, str) and device.partition(":")[0] == "cuda":
        device = torch.device(device)
    if isinstance(device, torch.device):
        return (device.index or 0) if device.type == "cuda" else None
    # numpy's whole numbers are numbers of GPUs to torch, too.
    return index(device) if isinstance(device, SupportsIndex) and not isinstance(device, bool | torch.Tensor) else None


def _check(device: Any = None) -> None:
    """Raise, as the driver does, for another GPU than the one that is said to be there.

    Raises:
        RuntimeError: there is no such GPU.
    """
    number = _number_of(device)
    if number is not None and number > 0:
        raise RuntimeError(f"CUDA error: invalid device ordinal ({number}; there is one GPU, cuda:0)")


def _of(device: Any, value: Any) -> Any:
    """Return what is asked of a GPU, if it is there."""
    _check(device)
    return value


class _Chosen(nullcontext[None]):
    """Stands in for `torch.cuda.device`."""

    def __init__(self, device: Any = None) -> None:
        super().__init__()
        _check(device)
