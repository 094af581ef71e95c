"""Rank 0's way to the samplers, as far as weights are concerned."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from warpsmith.rollout.deadlines import within
from warpsmith.rollout.samplers.pool import SamplerPool
from warpsmith.rollout.samplers.weights.seconds import UpdateSeconds
from warpsmith.rollout.samplers.weights.stream.layout import StreamLayout
from warpsmith.rollout.samplers.weights.stream.media import SlotMemory, host_identity
from warpsmith.rollout.samplers.weights.stream.pool import PoolStream, exports
from warpsmith.trainer.weights import sync
from warpsmith.trainer.weights.probe import Probe, Score

if TYPE_CHECKING:
    from warpsmith.rollout.samplers.weights.payload import WeightPayload

T = TypeVar("T")
Scores = list[list[Score]]
"""Of each probe, of each sampler."""

_TRIAL_S = 60.0
"""Deadline of the trial that shows whether samplers can read rank 0's memory."""


class Loop(Protocol):
    """The event loop of the samplers' handles."""

    def run(self, work: Coroutine[Any, Any, T], /) -> T:
        """Return the result of a coroutine."""


class SamplerLink:
    """Sends weights to the samplers of a run, and compares them with the trainer's.

    Args:
        pool: the samplers.
        loop: the event loop of their handles.
        probes: one for each agent's adapter, or one.
        deadline_s: maximum seconds of loading, and again of a probe.
        dtype: dtype of the weights in training.
        paused: keeps completions out of a block.
    """

    def __init__(
        self,
        pool: SamplerPool,
        loop: Loop,
        probes: Sequence[Probe],
        *,
        deadline_s: float,
        dtype: str,
        paused: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.loop = loop
        self.deadline_s = deadline_s
        self.paused = paused
        self._pool, self._probes, self._dtype = pool, probes, dtype

    @property
    def probe_ids(self) -> list[int]:
        """The fixed tokens of the probe."""
        return list(self._probes[0].ids)

    def publish(self, payload: "WeightPayload") -> None:
        """Send weights to every sampler; see `sync.publish`."""
        self.loop.run(sync.publish(payload, self._pool, self.deadline_s, self._dtype))

    def update_seconds(self) -> UpdateSeconds:
        """Return where the samplers' time of the last update went; they update concurrently."""
        return self.loop.run(self._update_seconds())

    async def _update_seconds(self) -> UpdateSeconds:
        return UpdateSeconds.slowest([await sampler.update_seconds() for sampler in self._pool.samplers])

    def try_stream(self, memory: SlotMemory, digests: Sequence[int]) -> str | None:
        """Let every sampler read slots; return why one cannot, None if all can.

        Raises:
            RolloutError: why it cannot, from the sampler or the driver.
        """
        return self.loop.run(within(_TRIAL_S, self._tried(memory, digests), "the samplers' trial read"))

    async def _tried(self, memory: SlotMemory, digests: Sequence[int]) -> str | None:
        here = host_identity()
        for sampler in self._pool.samplers:
            if await sampler.stream_host() != here:
                return f"{sampler.name} is on another host"
            if await sampler.try_stream(memory.kind, exports(memory, sampler)) != list(digests):
                return f"{sampler.name} reads other bytes than rank 0 wrote"
        return None

    def stream(self, layout: StreamLayout, memory: SlotMemory, payload: "Callable[[], WeightPayload]") -> PoolStream:
        """Return an update of all samplers by a stream; see `PoolStream`."""
        return PoolStream(self._pool, layout, memory, payload)

    def begin_probe(self) -> "asyncio.Task[Scores]":
        """Let the samplers compute their side of the probe while the trainer computes its own; see `probe`."""
        return self.loop.run(self._begun())

    async def _begun(self) -> "asyncio.Task[Scores]":
        task = asyncio.create_task(self._scores())
        # The first requests leave at once, even if this loop runs only while it is waited for.
        await asyncio.sleep(0)
        return task

    async def _scores(self) -> "Scores":
        # In turn: requests that run together round otherwise.
        return [await probe.score(self._pool.members) for probe in self._probes]

    def probe(self, expected: Sequence[Sequence[float]], begun: "asyncio.Task[Scores] | None" = None) -> float:
        """Compare every sampler with the trainer, for each agent's adapter; see `Probe`.

        Args:
            expected: the trainer's log-probabilities for each probe.
            begun: what `begin_probe` returned; None begins now.
        """
        scores = self.loop.run(self._awaited(begun or self.begin_probe()))
        return max(
            probe.check(own, trained) for probe, own, trained in zip(self._probes, scores, expected, strict=True)
        )

    def abandon(self, begun: "asyncio.Task[Scores]") -> None:
        """Cancel a probe that was begun; for a trainer whose own side failed."""

        async def cancel() -> None:
            begun.cancel()
            await asyncio.wait([begun])

        self.loop.run(cancel())

    @staticmethod
    async def _awaited(begun: "asyncio.Task[Scores]") -> "Scores":
        return await begun
