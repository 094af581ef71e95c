"""Several engines as one: the least loaded takes the next request, a dead one is replaced."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from warpsmith.records.errors import UsageError
from warpsmith.records.last_words import told_in_full, with_notes_of
from warpsmith.rollout.engines.actor import RemoteEngine
from warpsmith.rollout.engines.base import Completion, Sampling
from warpsmith.rollout.engines.weights import WeightPayload
from warpsmith.rollout.errors import EngineDiedError, EngineError

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


class EnginePool:
    """The Engine interface over several remote engines. Use it within one event loop.

    Args:
        engines: the members.
        max_restarts: restarts of one member before its death is final.

    Raises:
        UsageError: there is no member.
    """

    def __init__(self, engines: Sequence[RemoteEngine], *, max_restarts: int = 3) -> None:
        if not engines:
            raise UsageError("A pool of no engines cannot sample.", "Give one engine at least.")
        self.engines = tuple(engines)
        self.max_restarts = max_restarts
        self._load = dict.fromkeys(range(len(engines)), 0)
        self._restarting = [asyncio.Lock() for _ in engines]

    @property
    def weight_version(self) -> int:
        """Oldest version that any member samples with."""
        return min(engine.weight_version for engine in self.engines)

    async def ready(self) -> None:
        """Wait until all members have started."""
        await asyncio.gather(*(engine.ready() for engine in self.engines))

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
        """Sample one completion with the least loaded member; see `Engine.generate`."""
        return await self._on_least_loaded(lambda engine: engine.generate(prompt_ids, sampling))

    async def score(self, ids: Sequence[int]) -> list[float]:
        """Score with the least loaded member; to probe each, go through `engines`."""
        return await self._on_least_loaded(lambda engine: engine.score(ids))

    async def update_weights(self, payload: WeightPayload) -> None:
        """Load a payload into every member from one shared copy.

        Where a member fails, the others are waited for, so that the error tells of all.

        Raises:
            EngineError: a member failed, or the members do not all have the version afterwards.
        """
        import ray

        reference = ray.put(payload)
        loads = [self._surviving(i, lambda engine: engine.load(reference)) for i in self._load]
        outcomes = await asyncio.gather(*loads, return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failures:
            for other in failures[1:]:
                failures[0].add_note(str(other))
            raise failures[0]
        versions = {engine.name: engine.weight_version for engine in self.engines}
        if set(versions.values()) != {payload.version}:
            raise EngineError(f"After an update to version {payload.version} the versions are {versions}.", "Restart.")

    @property
    def members(self) -> "tuple[Member, ...]":
        """Each member by itself, for who must hear from all of them: one that dies meanwhile is restarted here too."""
        return tuple(Member(self, index) for index in self._load)

    async def close(self) -> None:
        """End all members."""
        await asyncio.gather(*(engine.close() for engine in self.engines))

    async def _on_least_loaded(self, request: Callable[[RemoteEngine], Awaitable[T]]) -> T:
        index = min(self._load, key=lambda i: self._load[i])
        self._load[index] += 1
        try:
            return await self._surviving(index, request)
        finally:
            self._load[index] -= 1

    async def _surviving(self, index: int, request: Callable[[RemoteEngine], Awaitable[T]]) -> T:
        """Return what the request gives, restarting the member where it dies."""
        engine = self.engines[index]
        while True:
            seen = engine.restarts
            try:
                return await request(engine)
            except EngineDiedError as death:
                await self._restart(index, seen, death)

    async def _restart(self, index: int, seen: int, death: EngineDiedError) -> None:
        """Restart a member once for all requests that saw it die."""
        engine = self.engines[index]
        async with self._restarting[index]:
            if engine.restarts > seen:
                return
            if engine.restarts >= self.max_restarts:
                told = EngineDiedError(
                    f"{engine.name} died {engine.restarts + 1} times, last of this: {death.message}",
                    "Fix the cause, and go on with --resume.",
                )
                raise with_notes_of(told, death) from death
            _LOG.warning("Restart %d of %d: %s", engine.restarts + 1, self.max_restarts, told_in_full(death))
            await engine.restart()


@dataclass(frozen=True)
class Member:
    """One engine of a pool."""

    pool: EnginePool
    index: int

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
        """Sample one completion with this engine; see `Engine.generate`."""
        return await self.pool._surviving(self.index, lambda engine: engine.generate(prompt_ids, sampling))

    async def score(self, ids: Sequence[int]) -> list[float]:
        """Return this engine's log-probs; see `Engine.score`."""
        return await self.pool._surviving(self.index, lambda engine: engine.score(ids))
