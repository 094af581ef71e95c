"""One update of all samplers of a pool by a stream: what rank 0 drives while the ranks gather."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from warpsmith.rollout.errors import SamplerDiedError, SamplerError
from warpsmith.rollout.samplers.base import StreamReceipt
from warpsmith.rollout.samplers.pool import SamplerPool
from warpsmith.rollout.samplers.ray_actor import RemoteSampler
from warpsmith.rollout.samplers.weights.payload import WeightPayload
from warpsmith.rollout.samplers.weights.seconds import UpdateSeconds
from warpsmith.rollout.samplers.weights.stream.layout import Bucket, StreamLayout
from warpsmith.rollout.samplers.weights.stream.media import Export, SlotMemory

T = TypeVar("T")


class PoolStream:
    """Sends buckets to every sampler of a pool.

    A sampler that dies meanwhile misses the rest; `finish` restarts it, and it loads `payload` by the host path. Every
    other error is raised, after all samplers have answered: the update has failed then.

    Args:
        pool: the samplers.
        layout: the stream.
        memory: the slots.
        payload: makes the same weights for samplers that restart, now or before the next update; called in a thread.
    """

    def __init__(
        self, pool: SamplerPool, layout: StreamLayout, memory: SlotMemory, payload: Callable[[], WeightPayload]
    ) -> None:
        self.layout = layout
        self._pool = pool
        self._memory = memory
        self._restored = Restored(payload)
        self._alive = set(range(len(pool.samplers)))
        self._in_flight: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Stop all samplers and let them map the slots; a dead one is restarted before.

        Raises:
            BadPayloadError, DeviceTransferError: see `TakesStreams.begin_stream`.
            SamplerError, DeadlinePassedError: a sampler failed.
        """

        async def begin(sampler: RemoteSampler) -> None:
            await sampler.begin_stream(self.layout, self._memory.kind, exports(self._memory, sampler))

        await _all(self._pool.with_restarts(index, begin) for index in sorted(self._alive))

    async def launch(self, bucket: Bucket) -> None:
        """Tell the samplers that a bucket is full; they read it while our caller fills the next slot."""
        self._in_flight = [asyncio.ensure_future(self._take(index, bucket)) for index in sorted(self._alive)]
        # So that the calls are in progress when our caller leaves the event loop.
        await asyncio.sleep(0)

    async def arrived(self) -> None:
        """Wait until all samplers have loaded the last bucket; its slot is free then.

        Raises:
            BadPayloadError: it is damaged.
            SamplerError, DeadlinePassedError: a sampler failed in another way than by dying.
        """
        tasks, self._in_flight = self._in_flight, []
        await _all(tasks)

    async def finish(self) -> list[StreamReceipt]:
        """Wait until all samplers sample from the new weights; return the receipts of those that did not restart.

        Raises:
            SamplerError: a sampler failed, has another version afterwards, or died too often.
            BadPayloadError, DeadlinePassedError: as for `arrived`.
        """
        receipts = await _all(self._finish(index) for index in sorted(self._alive))
        await _all(self._restore(index) for index in range(len(self._pool.samplers)) if index not in self._alive)
        versions = {sampler.name: sampler.weight_version for sampler in self._pool.samplers}
        if set(versions.values()) != {self.layout.version}:
            raise SamplerError(
                f"After an update to version {self.layout.version} the versions are {versions}.", "Restart."
            )
        return [receipt for receipt in receipts if receipt is not None]

    async def _take(self, index: int, bucket: Bucket) -> None:
        try:
            await self._pool.samplers[index].take_bucket(bucket)
        except SamplerDiedError:
            self._alive.discard(index)

    async def _finish(self, index: int) -> StreamReceipt | None:
        try:
            return await self._pool.samplers[index].finish_stream(self._restored)
        except SamplerDiedError:
            self._alive.discard(index)
            return None

    async def _restore(self, index: int) -> None:
        sampler = self._pool.samplers[index]
        sampler.recovers_by(self._restored)

        async def check(restarted: RemoteSampler) -> None:
            # A sampler can say that it died although its actor lives.
            if restarted.weight_version != self.layout.version:
                raise SamplerDiedError(f"{restarted.name} died while weights were sent to it.")

        await self._pool.with_restarts(index, check)


class Restored:
    """A payload in Ray's object store, made when the first sampler asks for it."""

    def __init__(self, payload: Callable[[], WeightPayload]) -> None:
        self._payload = payload
        self._reference: Any = None
        self._making = asyncio.Lock()

    async def __call__(self) -> Any:
        """Return the reference."""
        import ray

        async with self._making:
            if self._reference is None:
                self._reference = ray.put(await asyncio.to_thread(self._payload))
        return self._reference


def exports(memory: SlotMemory, sampler: RemoteSampler) -> list[Export]:
    """Return the slots for each worker process of a sampler."""
    return [memory.export() for _ in range(sampler.config.tensor_parallel_size)]


def slowest(receipts: Sequence[StreamReceipt]) -> UpdateSeconds:
    """Return the longest of each phase: samplers update concurrently."""
    return UpdateSeconds.slowest(receipt.seconds for receipt in receipts)


async def _all(works: Iterable[Awaitable[T]]) -> list[T]:
    """Await all, and only then raise the first error, with the others as notes."""
    outcomes = await asyncio.gather(*works, return_exceptions=True)
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if failures:
        for other in failures[1:]:
            failures[0].add_note(str(other))
        raise failures[0]
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
