"""Streams and events of the CUDA runtime, as those of the process that stand in for `torch.cuda`'s.

Work is done in the order of the calls, on a device too: there these streams are numbers, and torch's current one runs
everything.

What a stream that does not wait for the default one has to do counts as unfinished until something waits for it; see
`workers/fake_cuda.py`.
"""

from collections.abc import Callable
from typing import Any, Final

from warpsmith.evaluator.languages.cuda_cpp.host_library import Operation

NON_BLOCKING: Final = 1
"""The flag of a stream that does not wait for the default stream."""
LEGACY: Final = 1
PER_THREAD: Final = 2
"""Handles by which the runtime names the default stream too."""
_FIRST: Final = 16


class Streams:
    """Numbers for streams and events: those of C++ are handles that Python gives out.

    Args:
        process: the process's streams, as of `workers.fake_cuda.Streams`.
        settle: waits for the device.
    """

    def __init__(self, process: Any, settle: Callable[[], None]) -> None:
        self._process = process
        self._settle = settle
        self._streams: dict[int, tuple[Any, bool]] = {}
        self._events: dict[int, Any] = {}
        self._next = _FIRST

    def operations(self) -> dict[str, Operation]:
        """Return what the runtime can ask for, by name."""
        process = self._process
        return {
            "stream.current": self._current,
            "stream.make_current": self._make_current,
            "stream.pool": lambda: self._added(process.stream(), waits=False),
            "stream.create": lambda flags: self._added(process.stream(), waits=not flags & NON_BLOCKING),
            "stream.destroy": self._destroy,
            "stream.synchronize": self._synchronize,
            "stream.synchronize_all": self._synchronize_all,
            "stream.wait_event": self._wait_event,
            "event.create": lambda: self._event_added(process.event()),
            "event.destroy": lambda event: 0 if self._events.pop(event, None) is not None else 1,
            "event.record": self._record,
            "event.synchronize": self._await_event,
        }

    def used(self, handle: int) -> int:
        """Note work on a stream; return its number in a recording, 0 for the default one."""
        if handle in {0, LEGACY, PER_THREAD}:
            return 0
        stream, waits = self._streams[handle]
        if not waits:
            self._process.pending.add(stream)
        return handle - _FIRST + 1

    def _added(self, stream: Any, *, waits: bool) -> int:
        handle = self._next
        self._next += 1
        self._streams[handle] = (stream, waits)
        return handle

    def _event_added(self, event: Any) -> int:
        handle = self._next
        self._next += 1
        self._events[handle] = event
        return handle

    def _of(self, handle: int) -> Any:
        return self._streams[handle][0] if handle >= _FIRST else self._process.default

    def _current(self) -> int:
        current = self._process.current
        if current is self._process.default:
            return 0
        known = next((handle for handle, (stream, _) in self._streams.items() if stream is current), None)
        return self._added(current, waits=False) if known is None else known

    def _make_current(self, handle: int) -> int:
        self._process.make_current(self._of(handle))
        return 0

    def _destroy(self, handle: int) -> int:
        return 0 if self._streams.pop(handle, None) is not None else 1

    def _synchronize(self, handle: int) -> int:
        self._of(handle).synchronize()
        self._settle()
        return 0

    def _synchronize_all(self) -> int:
        self._process.wait()
        self._settle()
        return 0

    def _wait_event(self, handle: int, event: int) -> int:
        self._events[event].synchronize()
        return 0

    def _record(self, event: int, handle: int) -> int:
        self._events[event].record(self._of(handle))
        return 0

    def _await_event(self, event: int) -> int:
        self._events[event].synchronize()
        self._settle()
        return 0
