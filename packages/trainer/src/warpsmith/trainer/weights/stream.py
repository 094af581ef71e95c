"""Sends whole weights from the ranks' GPUs to the samplers' in bounded buckets, on every ZeRO stage."""

import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from warpsmith.records.errors import WarpsmithError
from warpsmith.trainer.errors import SyncError
from warpsmith.trainer.weights.deadline import within

if TYPE_CHECKING:
    from torch import Tensor

    from warpsmith.rollout.samplers.base import StreamReceipt
    from warpsmith.rollout.samplers.weights.payload import WeightPayload
    from warpsmith.rollout.samplers.weights.stream.layout import Bucket, StreamLayout
    from warpsmith.rollout.samplers.weights.stream.media import SlotMemory
    from warpsmith.rollout.samplers.weights.stream.pool import PoolStream
    from warpsmith.trainer.weights.sampler_link import Loop

T = TypeVar("T")

SLOTS = 2
"""The ranks fill one while the samplers load from the other."""


@dataclass
class SentSeconds:
    """Where rank 0's time went: gathering and filling slots, and waiting for the samplers."""

    gather_s: float = 0.0
    wait_s: float = 0.0


class StreamSender:
    """Rank 0's side of one update: fills slots, and waits for the samplers before it overwrites one.

    Args:
        update: the samplers.
        memory: the slots, two at least.
        loop: the event loop of the samplers' handles.
        deadline_s: maximum seconds of each wait: for the begin, a bucket, the end.
        copy: gets each bucket too; None keeps no copy.
    """

    def __init__(
        self, update: "PoolStream", memory: "SlotMemory", loop: "Loop", deadline_s: float, copy: "HostCopy | None"
    ) -> None:
        from warpsmith.rollout.samplers.weights.stream.writer import StreamWriter

        self.seconds = SentSeconds()
        self._update, self._loop, self._deadline_s, self._copy = update, loop, deadline_s, copy
        self._memory = memory
        self._writer = StreamWriter(update.layout, memory.slots)

    def begin(self) -> None:
        """Stop sampling.

        Raises:
            SyncTimeoutError: it took longer than the deadline.
            RolloutError: see `PoolStream.begin`.
        """
        self._wait(self._update.begin(), "to begin")

    def add(self, name: str, tensor: "Tensor") -> None:
        """Send a tensor; errors as for `PoolStream.arrived`, and SyncTimeoutError."""
        for bucket in self._writer.add(name, tensor):
            self._send(bucket)

    def finish(self) -> "list[StreamReceipt]":
        """Send the last bucket, and wait until all samplers sample from the new weights; errors as for `add`."""
        for bucket in self._writer.end():
            self._send(bucket)
        self._wait(self._update.arrived(), "the last bucket")
        if self._copy is not None:
            self._copy.settle()
        return self._wait(self._update.finish(), "to end")

    def _send(self, bucket: "Bucket") -> None:
        if self._copy is not None:
            self._copy.keep(bucket, self._memory.slots[bucket.slot])
        # The bucket before: its slot is filled next.
        self._wait(self._update.arrived(), f"bucket {bucket.number - 1}")
        self._loop.run(self._update.launch(bucket))

    def _wait(self, work: Coroutine[Any, Any, T], what: str) -> T:
        began = time.monotonic()
        try:
            return self._loop.run(
                within(work, self._deadline_s, f"loading weight version {self._update.layout.version}, {what},")
            )
        finally:
            self.seconds.wait_s += time.monotonic() - began


def send_all(tensors: "Iterable[tuple[str, Tensor | None]]", sender: StreamSender | None) -> "list[StreamReceipt]":
    """Send gathered weights; collective, with a sender on rank 0 alone. Return the samplers' receipts there.

    If sending fails, rank 0 gathers the rest with the others before it raises, so that none waits for it in a
    collective operation.

    Raises:
        SyncError, RolloutError: the update failed.
    """
    began = time.monotonic()
    failure = None if sender is None else _failure_of(sender.begin)
    for name, tensor in tensors:
        if sender is not None and tensor is not None and failure is None:
            failure = _failure_of(partial(sender.add, name, tensor))
    if failure is not None:
        raise failure
    if sender is None:
        return []
    sender.seconds.gather_s = time.monotonic() - began - sender.seconds.wait_s
    return sender.finish()


def _failure_of(step: Callable[[], None]) -> WarpsmithError | None:
    try:
        step()
    except WarpsmithError as error:
        return error
    return None


def check_dtypes(layout: "StreamLayout", dtype: str) -> None:
    """Reject weights of another dtype than the policy's; see `sync.publish`.

    Raises:
        SyncError: nothing was sent.
    """
    foreign = [f"{entry.name} ({entry.dtype})" for entry in layout.entries if entry.dtype != dtype]
    if foreign:
        raise SyncError(
            f"Weight version {layout.version} has {foreign[0]}, but the policy trains in {dtype}.",
            "Nothing was sent.",
        )


class HostCopy:
    """A copy of the weights sent last, in host memory, for samplers that restart before the next update.

    It is needed where the ranks cannot be asked for them: under ZeRO stage 3 and where ranks share layers, whose gather
    needs all ranks, and while they train during rollouts.

    Args:
        nbytes: size of the stream.
        pinned: use page-locked memory, which a GPU copies to without waiting.
    """

    def __init__(self, nbytes: int, *, pinned: bool) -> None:
        import torch

        self._data = torch.empty(nbytes, dtype=torch.uint8, pin_memory=pinned)
        self._layout: StreamLayout | None = None

    def begin(self, layout: "StreamLayout") -> Callable[[], "WeightPayload"]:
        """Return what makes a payload of the weights that are kept from now on."""
        self._layout = layout
        return lambda: self._payload(layout)

    def keep(self, bucket: "Bucket", slot: "Tensor") -> None:
        """Copy a bucket, in the order of the device's work: the slot can be filled again at once."""
        if self._layout is None:
            raise AssertionError("begin was not called")
        size, begin = self._layout.size_of(bucket.number), bucket.number * self._layout.bucket_bytes
        self._data[begin : begin + size].copy_(slot[:size], non_blocking=True)

    def settle(self) -> None:
        """Wait for the copies."""
        import torch

        if self._data.is_pinned():
            torch.cuda.current_stream().synchronize()

    def _payload(self, layout: "StreamLayout") -> "WeightPayload":
        from warpsmith.rollout.samplers.weights.payload import WeightPayload

        return WeightPayload.of_block(layout.version, layout.entries, self._data.numpy())
