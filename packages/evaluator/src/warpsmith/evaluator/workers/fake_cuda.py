"""Replaces `torch.cuda` and `torch.accelerator` where there is no GPU: they pretend to have one idle GPU.

Work on a stream is done at once and in order, and a recording keeps that order. A player has only one stream, so this
module records whether host code waited for each stream: on a GPU, work that is not waited for may finish too late.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from operator import index
from types import SimpleNamespace
from typing import Any, ClassVar, Final

import torch
import torch.cuda.nvtx

from warpsmith.evaluator.recordings.errors import UnsupportedFeatureError

ELAPSED_MS: Final = 10.0
"""Time between any two events: positive, since host code divides by it, and long, since `do_bench` repeats short
calls thousands of times."""
CUDA_VERSION: Final = "13.0"

_NO_CONTEXT: Final = ("device_of", "use_mem_pool")
_NOTHING: Final = """
    synchronize empty_cache ipc_collect init reset_peak_memory_stats reset_max_memory_allocated reset_max_memory_cached
    reset_accumulated_memory_stats manual_seed manual_seed_all set_rng_state set_sync_debug_mode
    set_per_process_memory_fraction _lazy_init _sleep
"""
_ZERO: Final = """
    memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached max_memory_cached
    current_blas_handle get_sync_debug_mode utilization memory_usage
"""


def number_of(device: Any) -> int | None:
    """Return the number of a GPU in any form that torch accepts; None if `device` does not name one."""
    if isinstance(device, str) and device.partition(":")[0] == "cuda":
        device = torch.device(device)
    if isinstance(device, torch.device):
        return (device.index or 0) if device.type == "cuda" else None
    # torch accepts numpy's integers as GPU numbers, too. `isinstance` with `SupportsIndex` takes ten times as long.
    counts = hasattr(type(device), "__index__") and not isinstance(device, bool | torch.Tensor)
    return index(device) if counts else None


def check(device: Any = None) -> None:
    """Raise, as the driver does, for any GPU other than number 0.

    Raises:
        RuntimeError: there is no such GPU.
    """
    number = number_of(device)
    if number is not None and number > 0:
        raise RuntimeError(f"CUDA error: invalid device ordinal ({number}; there is one GPU, cuda:0)")


def of(device: Any, value: Any) -> Any:
    """Return `value` if the GPU exists."""
    check(device)
    return value


class Streams:
    """The streams of this process: the current one, and those with work that was not waited for."""

    def __init__(self) -> None:
        # Classes, since host code uses isinstance on them.
        self.stream: type[Stream] = type("Stream", (Stream,), {"streams": self})
        self.event: type[Event] = type("Event", (Event,), {"streams": self})
        self.default = self.stream()
        self.current = self.default
        self.pending: set[Stream] = set()

    @contextmanager
    def on(self, stream: "Stream | None") -> Iterator["Stream | None"]:
        """Make a stream the current one inside this context."""
        before = self.current
        self.make_current(stream)
        try:
            yield stream
        finally:
            self.current = before

    def make_current(self, stream: "Stream | None") -> None:
        self.current = stream or self.current
        if self.current is not self.default:
            self.pending.add(self.current)

    def wait(self, device: Any = None) -> None:
        """Wait for all streams."""
        check(device)
        self.pending.clear()


class Stream:
    """Replaces `torch.cuda.Stream`: its work is done at once; waits for it are recorded."""

    streams: ClassVar[Streams]

    def __init__(self, device: Any = None, priority: int = 0, *, stream_ptr: int = 0, **_: Any) -> None:
        check(device)
        self.device = torch.device("cuda", 0)
        self.priority = priority
        self.cuda_stream = stream_ptr
        self.stream_id = 0
        self.device_index = 0
        self._before: list[Stream] = []

    def __enter__(self) -> "Stream":
        self._before.append(self.streams.current)
        self.streams.make_current(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.streams.current = self._before.pop()

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """Wait for the work of this stream."""
        self.streams.pending.discard(self)

    def wait_stream(self, stream: Any) -> None:
        """Let later work of this stream wait for that of another."""
        if isinstance(stream, Stream):
            stream.synchronize()

    def wait_event(self, event: Any) -> None:
        """Let later work of this stream wait for an event."""
        if isinstance(event, Event):
            event.synchronize()

    def record_event(self, event: "Event | None" = None) -> "Event":
        event = event or self.streams.event()
        event.record(self)
        return event


class Event:
    """Replaces `torch.cuda.Event`."""

    streams: ClassVar[Streams]

    def __init__(self, *_: Any, **__: Any) -> None:
        self.cuda_event = 0
        self.device = torch.device("cuda", 0)
        self._stream: Stream | None = None

    def record(self, stream: Any = None) -> None:
        """Mark a stream's work so far, by default the current stream's."""
        self._stream = stream if isinstance(stream, Stream) else self.streams.current

    def wait(self, stream: Any = None) -> None:
        """Let later work of a stream wait for this event."""
        self.synchronize()

    def synchronize(self) -> None:
        """Wait for the marked work."""
        if self._stream is not None:
            self._stream.synchronize()

    def query(self) -> bool:
        return True

    def elapsed_time(self, end_event: "Event") -> float:
        return ELAPSED_MS


class _Chosen(nullcontext[None]):
    """Replaces `torch.cuda.device`, `torch.accelerator.device_index` and the like."""

    def __init__(self, device: Any = None) -> None:
        super().__init__()
        check(device)


@contextmanager
def _range(*_: Any, **__: Any) -> Any:
    yield


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing."""


def _zero(*_: Any, **__: Any) -> int:
    return 0


def _exchanged(device: Any) -> int:
    """Return the current GPU. There is no other to switch to."""
    check(device)
    return 0


class _NoGraph:
    """Replaces `torch.cuda.CUDAGraph`, `graph` and `make_graphed_callables`."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise UnsupportedFeatureError(
            "A CUDA graph is captured, and none can be recorded. Launch the kernels themselves in forward: what is "
            "timed is a graph of the whole call anyway."
        )


def wait_too(streams: Streams) -> None:
    """Let `torch.cuda.synchronize` also wait for streams that stand in for those of compiled host code."""
    waits: Callable[..., None] = torch.cuda.synchronize

    def synchronize(device: Any = None) -> None:
        waits(device)
        streams.wait()

    changed: Any = torch.cuda
    changed.synchronize = synchronize


def refuse_graphs() -> None:
    """Make graph capture fail with advice on what to write instead: no replay can repeat it."""
    for name in ("CUDAGraph", "graph", "make_graphed_callables"):
        setattr(torch.cuda, name, _NoGraph)


def show_allocations() -> None:
    """Make the allocation functions of `torch.compile`'s output operators, which torch's modes see."""

    def empty_strided(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty_strided(size, stride, dtype=dtype, device="cuda")

    binding: Any = torch._C
    binding._dynamo.guards._empty_strided_cuda = empty_strided


def install(properties: SimpleNamespace, *, usable: bool) -> Streams:
    """Replace torch's functions for GPUs in this process, which must belong to foreign code.

    Args:
        properties: properties of the pretended GPU.
        usable: whether torch reports it as usable.
    """
    streams = Streams()
    answers: dict[str, Callable[..., Any]] = {
        **dict.fromkeys(_NOTHING.split(), _nothing),
        **dict.fromkeys(_ZERO.split(), _zero),
        **dict.fromkeys(_NO_CONTEXT, _range),
        "device": _Chosen,
        "_DeviceGuard": _Chosen,
        "_exchange_device": _exchanged,
        "_maybe_exchange_device": _exchanged,
        "set_device": check,
        "synchronize": streams.wait,
        "set_stream": streams.make_current,
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "get_device_properties": lambda device=None: of(device, properties),
        "get_device_capability": lambda device=None: of(device, (properties.major, properties.minor)),
        "get_device_name": lambda device=None: of(device, properties.name),
        "can_device_access_peer": lambda *_: False,
        "get_arch_list": lambda: [f"sm_{properties.major}{properties.minor}"],
        "mem_get_info": lambda device=None: of(device, (properties.total_memory, properties.total_memory)),
        "memory_stats": lambda device=None: {},
        "memory_summary": lambda *_, **__: "",
        "is_bf16_supported": lambda *_, **__: True,
        "is_tf32_supported": lambda: True,
        "is_current_stream_capturing": lambda: False,
        "Stream": streams.stream,
        "ExternalStream": lambda stream_ptr, device=None, **_: streams.stream(device, stream_ptr=stream_ptr),
        "Event": streams.event,
        "current_stream": lambda device=None: of(device, streams.current),
        "default_stream": lambda device=None: of(device, streams.default),
        "stream": streams.on,
        "StreamContext": streams.on,
    }
    if usable:
        answers |= {"is_available": lambda: True, "is_initialized": lambda: True}
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    # The output of torch.compile imports it; a build of torch for CPUs does not have it.
    binding: Any = torch._C
    binding._cuda_getCurrentRawStream = _zero
    show_allocations()
    refuse_graphs()
    _install_nvtx()
    if usable:
        _install_accelerator(streams, properties)
        version: Any = torch.version
        version.cuda = version.cuda or CUDA_VERSION
    return streams


def _install_nvtx() -> None:
    nvtx: Any = torch.cuda.nvtx
    nvtx.range = _range
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        setattr(nvtx, name, _zero)


def _install_accelerator(streams: Streams, properties: SimpleNamespace) -> None:
    answers: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": lambda: 0,
        "current_device_idx": lambda: 0,
        "set_device_index": check,
        "set_device_idx": check,
        "device_index": _Chosen,
        "current_stream": lambda device=None: of(device, streams.current),
        "set_stream": streams.make_current,
        "synchronize": streams.wait,
        "get_device_capability": lambda device=None: of(device, {"supported_dtypes": set()}),
        "empty_cache": _nothing,
    }
    for name, answer in answers.items():
        setattr(torch.accelerator, name, answer)
