"""Loans of the device: a worker borrows it from the judge for the part of a request that runs on it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress

from warpsmith.evaluator import _native
from warpsmith.evaluator.devices.base import OnDevice
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec, messages
from warpsmith.evaluator.ipc.messages import Kind


class Loan:
    """Borrows the device from the judge: each call returns a context in which this worker may use the device.

    Args:
        channel: to the judge, which waits for messages while this worker answers a request.
        settle: waits until the device has none of this worker's work left.
    """

    def __init__(self, channel: _native.Channel, settle: Callable[[], None]) -> None:
        self._channel = channel
        self._settle = settle
        self._lock = threading.RLock()
        self._depth = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Wait for the device; a nested loan is part of the outer one."""
        with self._lock:
            self._depth += 1
            try:
                if self._depth == 1:
                    self._borrow()
                try:
                    yield
                finally:
                    if self._depth == 1:
                        # A failed request may have left work on the device, which belongs to others from the next
                        # message on.
                        with suppress(Exception):
                            self._settle()
                        messages.send(self._channel, Kind.DEVICE_RETURNED, {})
            finally:
                self._depth -= 1

    def _borrow(self) -> None:
        messages.send(self._channel, Kind.DEVICE_WANTED, {})
        answer = messages.receive(self._channel)
        if answer.kind is not Kind.DEVICE_LENT:
            raise WireError(f"{answer.kind.name} was sent; DEVICE_LENT was expected")


def loans_of(channel: _native.Channel, fields: codec.Fields, settle: Callable[[], None]) -> OnDevice:
    """Return the contexts in which a request's work may run on the device: loans, if the request says `borrows`."""
    return Loan(channel, settle) if fields.has("borrows") and fields.flag("borrows") else nullcontext
