"""Lets host code that is written for a GPU run where there is none, as far as that changes nothing of the result.

`x.is_cuda` is true, `.cuda()` and `device="cuda"` give memory of the host, `torch.cuda` answers for one chip
(`fake_cuda.py`), and what torch would compile runs as it is (`eager.py`). Whether a forward takes memory that would lie
on the host of a GPU is noted. What a kernel language's own runtime says of the device is the language's affair.
"""

import os
import pwd
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from warpsmith.evaluator.recordings.operators import stays_for
from warpsmith.evaluator.workers import eager, fake_cuda
from warpsmith.evaluator.workers.fake_cuda import number_of, of

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
    memory_clock_rate=2619000,
    memory_bus_width=5120,
    clock_rate=1980000,
    is_integrated=0,
    is_multi_gpu_board=0,
    gcnArchName="",
)
"""An H100 SXM, which has the chip that is compiled for by default."""

FACTORIES: Final = frozenset(
    {"empty", "zeros", "ones", "full", "arange", "linspace", "eye", "tensor", "empty_strided", "empty_permuted"}
)
"""Functions of torch that return memory of the host unless they are told a device."""
USER: Final = "candidate"


def properties_of(told: Mapping[str, Any]) -> SimpleNamespace:
    """Return a device's properties: those that are told, and the others of `PROPERTIES`."""
    known = vars(PROPERTIES)
    return SimpleNamespace(**known | {name: value for name, value in told.items() if name in known})


def install(properties: SimpleNamespace = PROPERTIES, *, disguised: bool = False) -> fake_cuda.Streams:
    """Change what torch says of devices in this process, which must be a candidate's own.

    Args:
        properties: of the device that is said to be there.
        disguised: whether tensors also say that they lie on it, and torch that it can use it.

    Returns:
        The streams that host code uses.
    """
    streams = fake_cuda.install(properties, usable=disguised)
    eager.install()
    name_the_user()
    changed: Any = torch.Tensor
    if disguised:
        changed.device = property(lambda _: torch.device("cuda", 0))
        changed.get_device = lambda _: 0
        changed.record_stream = lambda self, stream: None
        changed.pin_memory = lambda self, device=None: self
    changed.is_cuda = property(lambda _: True)
    default = _DefaultDevice()
    told: Any = torch
    told.set_default_device, told.get_default_device = default.set, default.get
    _let_it_be_moved()
    return streams


def install_for_problem() -> None:
    """Let a problem that is written for a GPU run on the host, in a reference worker: `.cuda()` and `device="cuda"`."""
    fake_cuda.install(PROPERTIES, usable=False)
    _let_it_be_moved()


def install_beside_device() -> None:
    """Spare a candidate on a real GPU what needs a C compiler or a user of the machine."""
    eager.install()
    name_the_user()


def _let_it_be_moved() -> None:
    tensor: Any = torch.Tensor
    tensor.cuda = lambda self, device=None, *_, **__: of(device, self)
    module: Any = nn.Module
    module.cuda = lambda self, device=None: of(device, self)


def name_the_user() -> None:
    """Name a user, which `getpass` and `pwd` look for and the sandbox does not have."""
    known = pwd.getpwuid

    def getpwuid(uid: int) -> pwd.struct_passwd:
        try:
            return known(uid)
        except KeyError:
            home = os.environ.get("HOME", "/tmp")
            return pwd.struct_passwd((USER, "x", uid, uid, "", home, "/bin/sh"))

    changed: Any = pwd
    changed.getpwuid = getpwuid
    for name in ("USER", "LOGNAME"):
        os.environ.setdefault(name, USER)


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
        made = name in FACTORIES and named.get("device") is None and named.get("out") is None and _on_host_by_default()
        placed = self._is_host(named.get("device")) or (name == "to" and any(map(self._is_host, args)))
        if made or name == "cpu" or placed:
            self.host_memory = True
        if "device" in named:
            named["device"] = _present(named["device"])
        self.making = name in FACTORIES
        try:
            with stays_for(self, func):
                return func(*(map(_present, args) if name == "to" else args), **named)
        finally:
            self.making = False

    def _is_host(self, device: Any) -> bool:
        # Undisguised, a torch.device may be that of an input, which would be another one on a GPU.
        if isinstance(device, torch.device):
            return self._disguised and device.type == "cpu"
        return isinstance(device, str) and device == "cpu"


class _DefaultDevice:
    """Stands in for torch's default device, which is a mode that would outlive the one of this module."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")

    def set(self, device: Any) -> None:
        self.device = torch.device("cpu" if device is None else device)

    def get(self) -> torch.device:
        return self.device


def _on_host_by_default() -> bool:
    return torch.get_default_device().type == "cpu"


def _present(device: Any) -> Any:
    """Return the host for the GPU that is said to be there; anything else as it is."""
    number = number_of(device)
    return device if number is None else of(number, torch.device("cpu"))
