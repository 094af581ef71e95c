"""Timed rounds in a GPU worker: calls that walk a ring of input sets, each behind a gate and between two events.

Runs only where no host code of a candidate runs: in the replay of its launches, and in the reference worker. The judge
has its own clock for the same rounds (`timing/clocks.py`); a worker's times are trusted only as far as it
confirms them.

Before each call its memory is reset, the L2 cache flushed and the multiprocessors scrubbed, in stream order. Then a
gate holds the stream until the whole call is enqueued, so that no host time lies between the two events. Host code that
waits for the device would wait for the gate: a watchdog then opens it, and the rest of the round goes without one.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

import torch

from warpsmith.evaluator.devices import cuda_placement
from warpsmith.evaluator.devices.base import Device, OnDevice
from warpsmith.evaluator.ipc import codec

if TYPE_CHECKING:
    from warpsmith.evaluator import _native

WATCHDOG_S: Final = 0.1
FLUSHED: Final = 2
"""Bytes written to flush the L2 cache, as a multiple of its size."""
MOST_CALLS: Final = 20_000
MODES: Final = ("call", "graph", "empty_graph", "fenced_graph")
"""Single calls; graphs of walks round the ring: of calls, of the work around calls alone, and with fenced calls."""
MOST_UNGATED_ROUNDS: Final = 2
"""Consecutive ungated rounds after which no gate is used again: each attempt costs the watchdog's timeout."""


class Call:
    """One call on one set of a ring."""

    @property
    def is_fenced(self) -> bool:
        """Whether a `fenced` run differs from a plain one."""
        return False

    def reset(self) -> None:
        """Restore memory to its state before a call; not timed."""
        raise NotImplementedError

    def scrub(self) -> None:
        """Overwrite what multiprocessors keep between kernels, right before the call; not timed."""

    def run(self, *, fenced: bool = False) -> None:
        """Enqueue the call on torch's current stream; if `fenced`, with each kernel's fenced twin."""
        raise NotImplementedError

    def deliver(self) -> None:
        """Copy the answer to the judge's memory; not timed."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise IllegalAccessError if a finished fenced call accessed memory outside its tensors."""


class Rounds:
    """Walks a ring.

    Args:
        device: that they run on.
        calls: one for each set of the ring.
        on_device: where the first calls run, which load what all need.

    Attributes:
        gated: whether a gate holds each call. False for the rest of a round in which the watchdog opened one (host code
            waited for the device, or this process was stopped), and permanently after two such rounds in a row.
    """

    def __init__(self, device: Device, calls: list[Call], on_device: OnDevice = nullcontext) -> None:
        self.calls = calls
        self.gated = True
        self._ungated_rounds = 0
        self._device = device
        self._gate = device.gate()
        # In a region of its own, like all memory that calls do not write: a graph's calls cannot rewrite it.
        self._flush = device.region(FLUSHED * device.l2_bytes).content
        self._events: list[tuple[_native.Event, _native.Event]] = []
        self._graphs: dict[tuple[str, int, frozenset[int]], torch.cuda.CUDAGraph | None] = {}
        # A kernel's code is loaded at its first launch, which must not be captured or timed.
        with on_device():
            self._run_each()
            for call in calls[:1]:
                if call.is_fenced:
                    self._prepare(call)
                    call.run(fenced=True)
                    self._settle()

    @staticmethod
    def _prepare(call: Call) -> None:
        call.reset()
        call.scrub()

    def _run_each(self) -> None:
        """Run each call once, ungated and untimed, so that its allocations exist."""
        for call in self.calls:
            self._prepare(call)
            call.run()
        self._device.settle()

    def _settle(self) -> None:
        """Wait for the device, and check the fenced calls."""
        self._device.settle()
        for call in self.calls[:1]:
            call.check()

    def round(self, fields: codec.Fields, on_device: OnDevice = nullcontext) -> dict[str, Any]:
        """Perform one ROUND message; return the fields of ROUNDED.

        All but the capture of a graph is done `on_device`.

        `mode` is one of MODES; `order` lists sets of the ring, `deliver` the places in it after which an answer is
        copied out, `fenced` the places of fenced calls, `count` the replays of a graph and `walks` its walks round the
        ring; each set's answer is copied out in a random one of these walks. For a `fenced_graph`, `fenced` lists sets.
        Times are in milliseconds, one per place.

        Raises:
            IllegalAccessError: a fenced call accessed memory outside its tensors.
        """
        mode, order = fields.text("mode"), [int(index) for index in fields.sequence("order", MOST_CALLS)]
        fenced = frozenset(int(place) for place in fields.sequence("fenced", MOST_CALLS))
        if mode != "call":
            return self._replay(mode, fields.integer("count"), fields.integer("walks"), fenced, on_device)
        self.gated = self._ungated_rounds < MOST_UNGATED_ROUNDS
        with on_device():
            times = list(self._walk(order, frozenset(fields.sequence("deliver")), fenced))
        self._ungated_rounds = 0 if self.gated else self._ungated_rounds + 1
        return {"milliseconds": times, "gated": self.gated}

    def _walk(self, order: list[int], deliver: frozenset[Any], fenced: frozenset[int]) -> Iterator[float]:
        stream = torch.cuda.current_stream().cuda_stream
        while len(self._events) < len(order):
            self._events.append((self._device.event(), self._device.event()))
        events = self._events[: len(order)]
        for place, (index, between) in enumerate(zip(order, events, strict=True)):
            self._one(self.calls[index], stream, between, fenced=place in fenced)
            if place in deliver:
                self.calls[index].deliver()
        self._settle()
        yield from (end.elapsed_ms(start) for start, end in events)

    def _one(self, call: Call, stream: int, between: "tuple[_native.Event, _native.Event]", *, fenced: bool) -> None:
        call.reset()
        self._flush.zero_()
        call.scrub()
        if self.gated:
            self._gate.close(stream, WATCHDOG_S)
        start, end = between
        start.record(stream)
        call.run(fenced=fenced)
        end.record(stream)
        if self.gated and not self._gate.open():
            self.gated = False

    def _replay(self, mode: str, count: int, walks: int, fenced: frozenset[int], on_device: OnDevice) -> dict[str, Any]:
        """Replay a graph of walks round the ring `count` times; it is captured once."""
        key = mode, walks, fenced
        is_new = key not in self._graphs
        if is_new:
            self._graphs[key] = self._captured(mode, walks, fenced)
        graph = self._graphs[key]
        with on_device():
            if is_new:
                # A capture releases the memory cached by torch's allocator; gated calls must not wait for new memory.
                self._run_each()
            for _ in range(count if graph is not None else 0):
                graph.replay()  # type: ignore[union-attr]
            self._settle()
        return {"captured": graph is not None, "calls": walks * len(self.calls)}

    def _captured(self, mode: str, walks: int, fenced: frozenset[int]) -> "torch.cuda.CUDAGraph | None":
        """Return a graph, with nothing run on the device; None if host code does something that cannot be captured."""
        graph = torch.cuda.CUDAGraph()
        try:
            # A failed capture may change the current stream; the outer context restores it.
            with torch.cuda.stream(torch.cuda.current_stream()), self._capture(graph):
                self._walks(walks, fenced, empty=mode == "empty_graph")
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:
            _end_random_capture()
            return None
        return graph

    @staticmethod
    @contextmanager
    def _capture(graph: "torch.cuda.CUDAGraph") -> Iterator[None]:
        # Its own pool, named in advance: torch reveals the name only after the capture.
        pool = torch.cuda.graph_pool_handle()
        with torch.cuda.graph(graph, pool=pool), cuda_placement.capturing(pool):
            yield

    def _walks(self, walks: int, fenced: frozenset[int], *, empty: bool) -> None:
        # Only once, since a copy takes as long as a short call; at a random walk, so that every call must be right.
        delivering = [secrets.randbelow(walks) for _ in self.calls]
        for walk in range(walks):
            for index, (call, delivers) in enumerate(zip(self.calls, delivering, strict=True)):
                self._prepare(call)
                if not empty:
                    call.run(fenced=index in fenced)
                if walk == delivers:
                    call.deliver()


def _end_random_capture() -> None:
    """Let torch's generator work again after a capture that failed.

    Torch leaves it capturing then, and the next random numbers of this process would raise. What they are does not
    matter: inputs are made after a new seed.
    """
    index = torch.cuda.current_device()
    torch.cuda.default_generators[index].graphsafe_set_state(torch.Generator(device=f"cuda:{index}"))
