"""Several samplers as one: the least loaded takes the next request, and dead ones are replaced."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from warpsmith.records.errors import UsageError
from warpsmith.records.last_words import full_text, with_notes_of
from warpsmith.rollout.errors import DeadlinePassedError, SamplerDiedError, SamplerError
from warpsmith.rollout.retries import SAMPLER_RESTARTS
from warpsmith.rollout.samplers.base import Completion, Sampling
from warpsmith.rollout.samplers.ray_actor import RemoteSampler
from warpsmith.rollout.samplers.weights.payload import WeightPayload

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


class SamplerPool:
    """The Sampler interface over several remote samplers. Use it within one event loop.

    Args:
        samplers: the members.
        max_restarts: restarts of one member before its death is final.

    Raises:
        UsageError: there is no member.
    """

    def __init__(self, samplers: Sequence[RemoteSampler], *, max_restarts: int = SAMPLER_RESTARTS) -> None:
        if not samplers:
            raise UsageError("A pool without samplers cannot sample.", "Pass at least one sampler.")
        self.samplers = tuple(samplers)
        self.max_restarts = max_restarts
        self._load = dict.fromkeys(range(len(samplers)), 0)
        self._restarting = [asyncio.Lock() for _ in samplers]

    @property
    def weight_version(self) -> int:
        """Oldest version that any member samples from."""
        return min(sampler.weight_version for sampler in self.samplers)

    async def ready(self) -> None:
        """Wait until all members have started."""
        await asyncio.gather(*(sampler.ready() for sampler in self.samplers))

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
        """Sample one completion with the least loaded member; see `Sampler.generate`."""
        return await self._on_least_loaded(lambda sampler: sampler.generate(prompt_ids, sampling))

    async def score(self, ids: Sequence[int], agent: str | None = None) -> list[float]:
        """Score with the least loaded member; to probe each member, use `samplers`."""
        return await self._on_least_loaded(lambda sampler: sampler.score(ids, agent))

    async def update_weights(self, payload: WeightPayload) -> None:
        """Load a payload into every member from one shared copy.

        If a member fails, the others are still awaited, so that the error names all failures.

        Raises:
            SamplerError: a member failed, or the members do not all have the version afterwards.
        """
        import ray

        reference = ray.put(payload)
        loads = [self.with_restarts(i, lambda sampler: sampler.load(reference)) for i in self._load]
        outcomes = await asyncio.gather(*loads, return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failures:
            for other in failures[1:]:
                failures[0].add_note(str(other))
            raise failures[0]
        versions = {sampler.name: sampler.weight_version for sampler in self.samplers}
        if set(versions.values()) != {payload.version}:
            raise SamplerError(f"After an update to version {payload.version} the versions are {versions}.", "Restart.")

    @property
    def members(self) -> "tuple[Member, ...]":
        """Each member as a separate sampler; a member that dies is restarted as in the pool."""
        return tuple(Member(self, index) for index in self._load)

    @property
    def in_flight(self) -> int:
        """Requests in progress."""
        return sum(self._load.values())

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Keep all members still while the block lasts: none samples and none restarts.

        Raises:
            SamplerError: a member cannot be paused.
            DeadlinePassedError: a member did not answer in time.
        """
        async with AsyncExitStack() as stack:
            for restarting in self._restarting:
                await stack.enter_async_context(restarting)
            stack.push_async_callback(self._resume)
            await asyncio.gather(*(_unless_dead(sampler.pause()) for sampler in self.samplers))
            yield

    async def _resume(self) -> None:
        await asyncio.gather(*(self._resume_member(sampler) for sampler in self.samplers))

    async def _resume_member(self, sampler: RemoteSampler) -> None:
        """Let a member continue. A member that does not is killed: its requests would wait for their own deadlines."""
        try:
            await _unless_dead(sampler.resume())
        except (SamplerError, DeadlinePassedError) as error:
            _LOG.warning("%s did not continue after a pause and is restarted: %s", sampler.name, full_text(error))
            sampler.end()

    async def close(self) -> None:
        """End all members."""
        await asyncio.gather(*(sampler.close() for sampler in self.samplers))

    async def _on_least_loaded(self, request: Callable[[RemoteSampler], Awaitable[T]]) -> T:
        index = min(self._load, key=lambda i: self._load[i])
        self._load[index] += 1
        try:
            return await self.with_restarts(index, request)
        finally:
            self._load[index] -= 1

    async def with_restarts(self, index: int, request: Callable[[RemoteSampler], Awaitable[T]]) -> T:
        """Return the result of a request, restarting the member if it dies."""
        sampler = self.samplers[index]
        while True:
            seen = sampler.restarts
            try:
                return await request(sampler)
            except SamplerDiedError as death:
                await self._restart(index, seen, death)

    async def _restart(self, index: int, seen: int, death: SamplerDiedError) -> None:
        """Restart a member once for all requests that saw it die."""
        sampler = self.samplers[index]
        async with self._restarting[index]:
            if sampler.restarts > seen:
                return
            if sampler.restarts >= self.max_restarts:
                error = SamplerDiedError(
                    f"{sampler.name} died {sampler.restarts + 1} times, the last time: {death.message}",
                    "Fix the cause, and continue with --resume.",
                )
                raise with_notes_of(error, death) from death
            _LOG.warning("Restart %d of %d: %s", sampler.restarts + 1, self.max_restarts, full_text(death))
            await sampler.restart()


async def _unless_dead(call: Awaitable[None]) -> None:
    """Await a call to a member. A dead one stands still, and is restarted by the request that sees its death."""
    with suppress(SamplerDiedError):
        await call


@dataclass(frozen=True)
class Member:
    """One sampler of a pool."""

    pool: SamplerPool
    index: int

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
        """Sample one completion with this sampler; see `Sampler.generate`."""
        return await self.pool.with_restarts(self.index, lambda sampler: sampler.generate(prompt_ids, sampling))

    async def score(self, ids: Sequence[int], agent: str | None = None) -> list[float]:
        """Return this sampler's log-probs; see `Sampler.score`."""
        return await self.pool.with_restarts(self.index, lambda sampler: sampler.score(ids, agent))
