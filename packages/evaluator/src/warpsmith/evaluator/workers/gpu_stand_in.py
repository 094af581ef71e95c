"""Lets host code written for a GPU run without one, as far as that does not change the result.

`x.is_cuda` is true, `.cuda()` and `device="cuda"` give memory of the host, `torch.cuda` answers for one chip
(`fake_cuda.py`), and what torch would compile runs as it is (`eager.py`). It is noted whether a forward takes memory
that would lie on the host if there were a GPU. What a kernel language's own runtime reports about the device is up to
the language.
"""

import os
import pwd
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from warpsmith.evaluator.recordings.operators import OPERATORS, stays_for
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
"""An H100 SXM, whose chip is the default compilation target."""

FACTORIES: Final = frozenset(
    {"empty", "zeros", "ones", "full", "arange", "linspace", "eye", "tensor", "empty_strided", "empty_permuted"}
)
"""Functions of torch that return host memory unless they get a device."""
MOVES: Final = frozenset({"to", "cpu"})
"""Functions that may take a device by position, or name one."""
USER: Final = "candidate"


def properties_of(reported: Mapping[str, Any]) -> SimpleNamespace:
    """Return a device's properties: the reported ones, completed from `PROPERTIES`."""
    defaults = vars(PROPERTIES)
    return SimpleNamespace(**defaults | {name: value for name, value in reported.items() if name in defaults})


def install(properties: SimpleNamespace = PROPERTIES, *, disguised: bool = False) -> fake_cuda.Streams:
    """Change what torch reports about devices in this process, which must be a candidate's own.

    Args:
        properties: properties of the pretended device.
        disguised: whether tensors also claim to be on it, and torch reports it as usable.

    Returns:
        The streams that host code uses.
    """
    streams = fake_cuda.install(properties, usable=disguised)
    eager.install()
    provide_user()
    changed: Any = torch.Tensor
    if disguised:
        changed.device = property(lambda _: torch.device("cuda", 0))
        changed.get_device = lambda _: 0
        changed.record_stream = lambda self, stream: None
        changed.pin_memory = lambda self, device=None: self
    changed.is_cuda = property(lambda _: True)
    default = _DefaultDevice()
    changed = torch
    changed.set_default_device, changed.get_default_device = default.set, default.get
    _allow_moving()
    return streams


def install_for_problem() -> None:
    """Let a problem written for a GPU run on the host, in a reference worker: `.cuda()` and `device="cuda"`."""
    fake_cuda.install(PROPERTIES, usable=False)
    _allow_moving()


def install_beside_device(streams: fake_cuda.Streams) -> None:
    """Spare a candidate on a real GPU whatever needs a C compiler or a user account.

    Args:
        streams: stand in for streams of compiled host code; torch's wait for the device waits for them too.
    """
    eager.install()
    fake_cuda.wait_too(streams)
    fake_cuda.show_allocations()
    fake_cuda.refuse_graphs()
    provide_user()


def _allow_moving() -> None:
    tensor: Any = torch.Tensor
    tensor.cuda = lambda self, device=None, *_, **__: of(device, self)
    module: Any = nn.Module
    module.cuda = lambda self, device=None: of(device, self)


def provide_user() -> None:
    """Provide a user account for `getpass` and `pwd`, which the sandbox lacks."""
    original = pwd.getpwuid

    def getpwuid(uid: int) -> pwd.struct_passwd:
        try:
            return original(uid)
        except KeyError:
            home = os.environ.get("HOME", "/tmp")
            return pwd.struct_passwd((USER, "x", uid, uid, "", home, "/bin/sh"))

    changed: Any = pwd
    changed.getpwuid = getpwuid
    for name in ("USER", "LOGNAME"):
        os.environ.setdefault(name, USER)


class GpuHost(TorchFunctionMode):
    """Maps the pretended device to the host, and records memory that would not be on a GPU.

    Args:
        disguised: whether tensors claim to be on the device, as for `install`.

    Attributes:
        host_memory: whether a tensor was made without a device, or moved to or made on `"cpu"`.
        making: whether one of `FACTORIES` is running; other allocations bypass this class.
    """

    def __init__(self, *, disguised: bool = False) -> None:
        super().__init__()
        self.host_memory = False
        self.making = False
        self._disguised = disguised

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = str(getattr(func, "__name__", ""))
        makes = name in FACTORIES
        if not makes and name not in MOVES and not (kwargs and "device" in kwargs):
            # Nearly all calls, which it must cost little.
            self.making = False
            return self._called(func, args, kwargs or {})
        named = dict(kwargs or {})
        made = makes and named.get("device") is None and named.get("out") is None and _on_host_by_default()
        placed = self._is_host(named.get("device")) or (name == "to" and any(map(self._is_host, args)))
        if made or name == "cpu" or placed:
            self.host_memory = True
        if "device" in named:
            named["device"] = _present(named["device"])
        self.making = makes
        try:
            return self._called(func, tuple(map(_present, args)) if name == "to" else args, named)
        finally:
            self.making = False

    def _called(self, func: Any, args: Sequence[Any], named: dict[str, Any]) -> Any:
        if not isinstance(func, OPERATORS):
            return func(*args, **named)
        with stays_for(self, func):
            return func(*args, **named)

    def _is_host(self, device: Any) -> bool:
        # Undisguised, a torch.device may come from an input, which would be on a GPU there.
        if isinstance(device, torch.device):
            return self._disguised and device.type == "cpu"
        return isinstance(device, str) and device == "cpu"


class _DefaultDevice:
    """Replaces torch's default device, which is a mode that would take precedence over this module's."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")

    def set(self, device: Any) -> None:
        self.device = torch.device("cpu" if device is None else device)

    def get(self) -> torch.device:
        return self.device


def _on_host_by_default() -> bool:
    return torch.get_default_device().type == "cpu"


def _present(device: Any) -> Any:
    """Return the host for the pretended GPU; anything else unchanged."""
    number = number_of(device)
    return device if number is None else of(number, torch.device("cpu"))
