"""An engine in a Ray actor, and the handle that makes it look like an engine at home."""

import asyncio
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from warpsmith.rollout.actors import answered
from warpsmith.rollout.config import EngineConfig
from warpsmith.rollout.engines.base import Completion, Sampling
from warpsmith.rollout.engines.start import start_engine
from warpsmith.rollout.engines.weights import WeightPayload
from warpsmith.rollout.errors import ActorFailedError, ActorLostError, DeadlinePassedError, EngineDiedError, EngineError

if TYPE_CHECKING:
    from ray.actor import ActorHandle

T = TypeVar("T")

_CALL_SECONDS = 3600.0
"""Deadline of a completion or a score; episodes set their own, shorter ones."""

_CLOSE_SECONDS = 20.0
"""How long an engine may take to end by itself; an error that ends a run is not to wait for one that hangs."""


class EngineActor:
    """The class that runs inside the actor. Its methods are the engine's."""

    def __init__(self, path: str, config: dict[str, Any], weight_version: int) -> None:
        self._engine = start_engine(path, EngineConfig(**config), weight_version=weight_version)

    async def weight_version(self) -> int:
        """Version of the weights; answers once the engine has started."""
        return self._engine.weight_version

    async def generate(self, prompt_ids: list[int], sampling: Sampling) -> Completion:
        """See `Engine.generate`."""
        return await self._engine.generate(prompt_ids, sampling)

    async def score(self, ids: list[int]) -> list[float]:
        """See `Engine.score`."""
        return await self._engine.score(ids)

    async def update_weights(self, payload: WeightPayload) -> int:
        """See `Engine.update_weights`; return the version that is loaded now."""
        await self._engine.update_weights(payload)
        return self._engine.weight_version

    async def close(self) -> None:
        """See `Engine.close`."""
        await self._engine.close()


class RemoteEngine:
    """The Engine interface over an actor. Use it within one event loop.

    A dead actor raises EngineDiedError from whatever was called; `restart` makes a new one with the weights that were
    loaded last. Every call has a deadline.

    Args:
        path: a Hugging Face directory, visible on the actor's node.
        config: the engine's settings.
        weight_version: version of the weights at `path`.
        name: what error messages call this engine.
        actor_options: options of the Ray actor, for example `{"num_cpus": 1}`.
    """

    def __init__(
        self,
        path: str | Path,
        config: EngineConfig,
        *,
        weight_version: int = 0,
        name: str = "engine 0",
        actor_options: dict[str, Any] | None = None,
    ) -> None:
        self.path = Path(path)
        self.config = config
        self.name = name
        self.restarts = 0
        self._options = actor_options or _default_options(config)
        self._first_version = self._version = weight_version
        self._last_payload: Any = None
        self._actor = self._new_actor()

    @property
    def weight_version(self) -> int:
        """Version of the weights that were loaded last."""
        return self._version

    async def ready(self) -> None:
        """Wait until the engine has started; the constructor does not.

        Raises:
            EngineError: it cannot start.
            DeadlinePassedError: it did not start in time.
        """
        await self._call(self._actor.weight_version.remote(), self.config.start_timeout_s, "to start")

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
        """Sample one completion; see `Engine.generate`. A cancelled wait cancels the request in the actor."""
        call = self._actor.generate.remote(list(prompt_ids), sampling)
        return await self._call(call, _CALL_SECONDS, "to complete a prompt")

    async def score(self, ids: Sequence[int]) -> list[float]:
        """Return the log-probs of given ids at temperature 1; see `Engine.score`."""
        return await self._call(self._actor.score.remote(list(ids)), _CALL_SECONDS, "to score a prompt")

    async def update_weights(self, payload: WeightPayload) -> None:
        """Replace all weights; see `Engine.update_weights`."""
        import ray

        await self.load(ray.put(payload))

    async def load(self, reference: Any) -> None:
        """Replace all weights by a payload that lies in Ray's object store, so that many engines share one copy."""
        call = self._actor.update_weights.remote(reference)
        self._version = await self._call(call, self.config.update_timeout_s, "to load new weights")
        self._last_payload = reference

    async def restart(self) -> None:
        """Replace the actor by a new one and load the weights that were loaded last."""
        self._kill()
        self.restarts += 1
        self._actor = self._new_actor()
        await self.ready()
        self._version = self._first_version
        if self._last_payload is not None:
            await self.load(self._last_payload)

    async def close(self) -> None:
        """End the actor; one that is gone, or does not answer any more, is killed as it is."""
        try:
            await self._call(self._actor.close.remote(), _CLOSE_SECONDS, "to close")
        except (EngineError, DeadlinePassedError):
            return
        finally:
            self._kill()

    def _new_actor(self) -> "ActorHandle":
        import ray

        # Many requests are in flight at once, and one more call must always get through.
        options = {"max_concurrency": 2 * self.config.max_sequences + 1024, **self._options}
        remote = ray.remote(EngineActor).options(**options)
        return remote.remote(str(self.path.resolve()), self.config.model_dump(), self._first_version)

    def _kill(self) -> None:
        import ray

        ray.kill(self._actor)

    async def _call(self, reference: Awaitable[T], seconds: float, what: str) -> T:
        try:
            return await answered(reference, seconds, self.name, what)
        except ActorLostError as error:
            raise EngineDiedError(error.message, error.remedy) from error
        except ActorFailedError as error:
            raise EngineError(error.message, error.remedy) from error


def _default_options(config: EngineConfig) -> dict[str, Any]:
    return {"num_cpus": 1, "num_gpus": config.tensor_parallel_size if config.device == "cuda" else 0}


async def started(engines: Sequence[RemoteEngine]) -> None:
    """Wait until all engines have started, all at once."""
    await asyncio.gather(*(engine.ready() for engine in engines))
