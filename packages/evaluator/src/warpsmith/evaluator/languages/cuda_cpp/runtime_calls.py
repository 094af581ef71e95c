"""The CUDA runtime of a candidate's process: it records launches, copies and fills, and knows what a GPU would say.

Whether it also does them is up to `execution.py`.

A launch becomes an event of the recording with the kernel's mangled name, the arguments' bytes as nvcc laid them out,
and the tensor behind each pointer among them.
"""

import ctypes
import threading
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import torch

from warpsmith.evaluator.languages.base import OnLaunch
from warpsmith.evaluator.languages.cuda_cpp import device_facts
from warpsmith.evaluator.languages.cuda_cpp.arguments import RawArgument
from warpsmith.evaluator.languages.cuda_cpp.cubin import Kernel
from warpsmith.evaluator.languages.cuda_cpp.errors import LaunchError
from warpsmith.evaluator.languages.cuda_cpp.execution import Cubin, Execution, Launch, content_of
from warpsmith.evaluator.languages.cuda_cpp.host_library import Operation, Pointer
from warpsmith.evaluator.languages.cuda_cpp.launches import SYMBOL
from warpsmith.evaluator.languages.cuda_cpp.memory import KnownMemory
from warpsmith.evaluator.languages.cuda_cpp.stream_calls import Streams

SUCCESS: Final = 0
INVALID_VALUE: Final = 1
INVALID_CONFIGURATION: Final = 9
"""Error codes of the runtime."""
MOST_GRID: Final = (2**31 - 1, 65535, 65535)
MOST_BLOCK: Final = (1024, 1024, 64)
DEFAULT_SHARED_BYTES: Final = 48 << 10
"""Maximum shared memory of a block without cudaFuncSetAttribute."""
_DYNAMIC_SHARED: Final = 8
"""The attribute cudaFuncAttributeMaxDynamicSharedMemorySize."""
_WORD: Final = 8
MOST_LITERAL_BYTES: Final = 64 << 10
TO_HOST: Final = 2
ON_DEVICE: Final = 3
"""The kinds cudaMemcpyDeviceToHost and cudaMemcpyDeviceToDevice of copies."""
_KINDS_TO_HOST: Final = frozenset({0, TO_HOST, 4})
"""Kinds of copies that can be to the host; 4 leaves it to the addresses."""


@dataclass
class Module:
    """The kernels of one build. Another one can have kernels and variables of the same names.

    Attributes:
        digest: of the build.
        kernels: by mangled name.
        cubins: their machine code, one for each source.
        shared: most dynamic shared memory of a kernel's blocks, in bytes, where host code has set it.
        written: what host code has copied from its own memory to variables, by name, offset and size, the last at the
            end.
        copies_recorded: whether the current call's recording begins with those copies.
    """

    digest: str
    kernels: dict[str, Kernel]
    cubins: tuple[Cubin, ...] = ()
    shared: dict[str, int] = field(default_factory=dict)
    written: dict[tuple[str, int, int], bytes] = field(default_factory=dict)
    copies_recorded: bool = False

    def keep(self, name: str, offset: int, content: bytes) -> None:
        """Keep what was copied to a variable."""
        self.written.pop((name, offset, len(content)), None)
        self.written[name, offset, len(content)] = content

    def most_shared(self, name: str) -> int:
        """Return how much dynamic shared memory a launch of a kernel can have."""
        return self.shared.get(name, DEFAULT_SHARED_BYTES - self.kernels[name].shared_bytes)


class LaunchMonitor:
    """Records each launch of host code; see `languages.base.LaunchMonitor`."""

    def __init__(self) -> None:
        self.launches = 0
        self.on_launch: OnLaunch | None = None

    def add(self, kernel: str, grid: list[int], arguments: dict[str, Any], options: dict[str, Any]) -> None:
        """Add an event; outside a call of forward nothing is recorded."""
        if self.on_launch is not None:
            self.on_launch(kernel, arguments, options)[2] = grid


class Runtime:
    """Answers the calls of the CUDA runtime that host code makes.

    Args:
        monitor: records launches.
        execution: does what is recorded, or nothing.
        streams: the process's, as of `workers.fake_cuda.Streams`.
    """

    def __init__(self, monitor: LaunchMonitor, execution: Execution, streams: Any) -> None:
        self.memory = KnownMemory()
        self.streams = Streams(streams, execution.settle)
        self._monitor = monitor
        self._execution = execution
        self._modules: list[Module] = []
        self._thread = threading.get_ident()

    def begin_call(self) -> None:
        """Begin a call of forward: its recording has no copies to variables yet."""
        for module in self._modules:
            module.copies_recorded = False

    def operations(self, module: Module) -> dict[str, Operation]:
        """Add a module; return what its runtime can ask for, by name."""
        self._modules.append(module)
        found: dict[str, Operation] = {
            "cuda.launch": partial(self._launch, module),
            "cuda.set_attribute": partial(self._set_attribute, module),
            "cuda.kernel_facts": partial(_kernel_facts, module),
            "cuda.occupancy": partial(self._occupancy, module),
            "cuda.allocate": self._allocate,
            "cuda.free": self._free,
            "cuda.copy": self._copy,
            "cuda.fill": self._fill,
            "cuda.copy_to_symbol": partial(self._copy_to_symbol, module),
            "cuda.total_memory": lambda: self._execution.properties().total_memory,
            "cuda.device_attribute": lambda number: device_facts.attribute(self._execution.properties(), number),
            "cuda.device_facts": self._device_facts,
            "cuda.unsupported": _unsupported,
        }
        return {name: self._guarded(call) for name, call in (found | self.streams.operations()).items()}

    def _guarded(self, call: Operation) -> Operation:
        def run(*args: Any) -> Any:
            if threading.get_ident() != self._thread:
                raise LaunchError(
                    "Host code uses the CUDA runtime from a thread of its own, where nothing is recorded. Call it from "
                    "the function that Python calls."
                )
            return call(*args)

        return run

    # Launches ------------------------------------------------------------------------------------------------------

    def _launch(self, module: Module, name: str, *rest: Any) -> int:
        grid, block, (address, shared, stream, cooperative), cluster = rest[0:3], rest[3:6], rest[6:10], rest[10:13]
        if name not in module.kernels:
            raise LaunchError(f"The kernel {name} is in no module that was compiled for the chip.")
        kernel = module.kernels[name]
        wrong = _refused(module, name, grid, block, shared)
        if wrong:
            return wrong
        self._check_outside()
        self._record_copies(module)
        cluster = cluster if any(cluster) else kernel.cluster
        arguments = _contents(kernel, address)
        options = {
            "build": module.digest,
            "block": list(block),
            "shared": shared,
            "stream": self.streams.used(stream),
            "cooperative": bool(cooperative),
            "cluster": list(cluster),
        }
        described = {str(number): self._argument(content) for number, content in enumerate(arguments)}
        self._monitor.launches += 1
        self._monitor.add(name, list(grid), described, options)
        asked = Launch(name, grid, block, cluster, shared, bool(cooperative), arguments)
        self._execution.launch(module.cubins, asked)
        return SUCCESS

    def _check_outside(self) -> None:
        """Raise DetachedError outside a call of forward, unless there is a device."""
        if self._monitor.on_launch is None:
            self._execution.check_unrecorded()

    def _argument(self, content: bytes) -> RawArgument:
        """Find the pointers in an argument: words that are addresses in known memory."""
        pointers = []
        kept = bytearray(content)
        for offset in range(0, len(content) - _WORD + 1, _WORD):
            word = int.from_bytes(content[offset : offset + _WORD], "little")
            tensor = self.memory.tensor(word) if word else None
            if tensor is not None:
                pointers.append((offset, tensor))
                kept[offset : offset + _WORD] = bytes(_WORD)
        return RawArgument(bytes(kept), tuple(pointers))

    def _set_attribute(self, module: Module, name: str, attribute: int, value: int) -> int:
        if attribute != _DYNAMIC_SHARED:
            return SUCCESS
        most = device_facts.fact(self._execution.properties(), "shared_memory_per_block_optin")
        if not 0 <= value <= most - module.kernels[name].shared_bytes:
            return INVALID_VALUE
        module.shared[name] = value
        return SUCCESS

    def _occupancy(self, module: Module, name: str, threads: int, shared: int) -> int:
        return device_facts.blocks_at_once(self._execution.properties(), module.kernels[name], threads, shared)

    def _device_facts(self) -> tuple[str, int]:
        known = self._execution.properties()
        return known.name, known.total_memory

    # Memory --------------------------------------------------------------------------------------------------------

    def may_change(self, storage: torch.UntypedStorage) -> bool:
        """Whether host code can write to a storage through a pointer, unseen: host memory where there is a device."""
        beside = self._execution.host_is_apart and storage.device.type == "cpu"
        return beside and self.memory.knows(storage.data_ptr())

    def _allocate(self, size: int) -> Pointer:
        made = torch.empty(max(1, size), dtype=torch.uint8, device=self._execution.device)
        return Pointer(self.memory.allocated(made))

    def _free(self, address: Pointer) -> int:
        return SUCCESS if not address or self.memory.free(address) else INVALID_VALUE

    def _fill(self, to: Pointer, value: int, size: int, stream: int) -> int:
        if not size:
            return SUCCESS
        target = self.memory.tensor(to, size)
        if target is None:
            return INVALID_VALUE
        self.streams.used(stream)
        target.fill_(value & 0xFF)
        return SUCCESS

    def _copy(self, to: Pointer, origin: Pointer, size: int, kind: int, stream: int) -> int:
        if not size:
            return SUCCESS
        target, source = self.memory.tensor(to, size), self.memory.tensor(origin, size)
        to_host = kind == TO_HOST or (target is None and kind in _KINDS_TO_HOST)
        if source is not None and to_host:
            self._execution.check_readable()
            if target is None:
                ctypes.memmove(to, content_of(source), size)
                return SUCCESS
        if target is None or (source is None and kind == ON_DEVICE):
            return INVALID_VALUE
        self.streams.used(stream)
        target.copy_(source if source is not None else _literal(ctypes.string_at(origin, size)))
        return SUCCESS

    def _copy_to_symbol(self, module: Module, name: str, origin: Pointer, *rest: int) -> int:
        size, offset, kind, stream = rest
        if not size:
            return SUCCESS
        source = self.memory.tensor(origin, size)
        if source is None and kind == ON_DEVICE:
            return INVALID_VALUE
        self.streams.used(stream)
        in_forward = self._monitor.on_launch is not None
        if source is not None and in_forward:
            self._record_copies(module)
            self._add_symbol(module, name, offset, RawArgument(bytes(_WORD), ((0, source),)), size)
        else:
            if source is not None:
                self._execution.check_unrecorded()
            content = ctypes.string_at(origin, size) if source is None else content_of(source)
            module.keep(name, offset, content)
            if in_forward and module.copies_recorded:
                self._add_symbol(module, name, offset, RawArgument(content))
            source = _bytes(content)
        self._execution.write_variable(module.cubins, name, offset, source)
        return SUCCESS

    def _record_copies(self, module: Module) -> None:
        """Begin the recording's use of a module with what its variables held before."""
        if module.copies_recorded:
            return
        for (name, offset, _), content in module.written.items():
            self._add_symbol(module, name, offset, RawArgument(content))
        module.copies_recorded = True

    def _add_symbol(self, module: Module, name: str, offset: int, source: RawArgument, size: int | None = None) -> None:
        options = {"build": module.digest, "variable": name, "offset": offset}
        options["size"] = len(source.content) if size is None else size
        self._monitor.add(SYMBOL, [], {"source": source}, options)


def _refused(module: Module, name: str, grid: Any, block: Any, shared: int) -> int:
    """Return the error code with which a GPU refuses a launch; 0 if it accepts it."""
    threads = block[0] * block[1] * block[2]
    fits = all(0 < size <= most for size, most in zip((*grid, *block), (*MOST_GRID, *MOST_BLOCK), strict=True))
    if not fits or threads > module.kernels[name].max_threads:
        return INVALID_CONFIGURATION
    return INVALID_VALUE if shared > module.most_shared(name) else SUCCESS


def _kernel_facts(module: Module, name: str) -> tuple[int, ...]:
    kernel = module.kernels[name]
    return kernel.registers, kernel.shared_bytes, kernel.max_threads, kernel.local_bytes, module.most_shared(name)


def _contents(kernel: Kernel, address: Pointer) -> list[bytes]:
    """Return the bytes of each argument of a launch, which lie where the words at an address point."""
    places = (ctypes.c_void_p * len(kernel.parameters)).from_address(address) if kernel.parameters else ()
    pairs = zip(kernel.parameters, places, strict=True)
    return [ctypes.string_at(place, parameter.size) for parameter, place in pairs]


def _bytes(content: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def _literal(content: bytes) -> torch.Tensor:
    """Return bytes as a tensor that a recording takes for numbers of the call, or if it is large for a constant."""
    if len(content) <= MOST_LITERAL_BYTES:
        return torch.tensor(list(content), dtype=torch.uint8)
    return _bytes(content)


def _unsupported(what: str) -> int:
    raise LaunchError(f"{what} is not available to candidates.")
