"""A sampler in a Ray actor, and the handle that has the interface of a local sampler."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from warpsmith.records.errors import WarpsmithError
from warpsmith.records.last_words import retyped
from warpsmith.rollout.cluster.calls import call_with_deadline
from warpsmith.rollout.cluster.logs import quote_own_log, write_to
from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.errors import (
    ActorFailedError,
    ActorLostError,
    BadPayloadError,
    DeadlinePassedError,
    DeviceTransferError,
    SamplerDiedError,
    SamplerError,
    WeightsUnknownError,
)
from warpsmith.rollout.samplers.base import Completion, Pausable, Sampler, Sampling, StreamReceipt, TakesStreams
from warpsmith.rollout.samplers.registry import start_sampler
from warpsmith.rollout.samplers.weights.payload import WeightPayload
from warpsmith.rollout.samplers.weights.seconds import UpdateSeconds
from warpsmith.rollout.samplers.weights.stream.layout import Bucket, StreamLayout
from warpsmith.rollout.samplers.weights.stream.media import Export

if TYPE_CHECKING:
    from ray.actor import ActorHandle

T = TypeVar("T")

Weights = Callable[[], Awaitable[Any]]
"""Returns a payload in Ray's object store; called when a sampler restarts."""

_CALL_SECONDS = 3600.0
"""Deadline of a completion or a score; episodes set their own, shorter ones."""

_CLOSE_SECONDS = 20.0
"""Deadline for closing a sampler; the error that ends a run must not wait for a hanging one."""


_PAUSE_SECONDS = 30.0
"""Deadline of a short call: a pause, which waits for one step of the engine, or its end."""


class SamplerActor:
    """The class that runs inside the actor, with the sampler's methods; if the sampler dies, errors quote the log.

    Its stdout and stderr, and those of the processes that it starts, go to `log`, if given.
    """

    def __init__(self, path: str, config: dict[str, Any], weight_version: int, log: str | None = None) -> None:
        if log is not None:
            write_to(Path(log))
        self._refusal: WarpsmithError | None = None
        self._marks = {"created": time.time()}
        try:
            self.sampler = start_sampler(path, SamplerConfig(**config), weight_version=weight_version)
        except WarpsmithError as error:
            # Not raised here: Ray turns errors of a constructor into text.
            self._refusal = error if isinstance(error, SamplerError) else retyped(SamplerError, error)
            quote_own_log(self._refusal)
        self._marks["started"] = time.time()

    async def weight_version(self) -> int:
        """Version of the weights; answers once the sampler has started."""
        return self._running().weight_version

    async def generate(self, prompt_ids: list[int], sampling: Sampling) -> Completion:
        """See `Sampler.generate`."""
        with _quoted():
            return await self._running().generate(prompt_ids, sampling)

    async def score(self, ids: list[int], agent: str | None = None) -> list[float]:
        """See `Sampler.score`."""
        with _quoted():
            # A sampler of another package can lack the argument; it has no adapters for agents.
            return await (self._running().score(ids) if agent is None else self._running().score(ids, agent))

    async def update_weights(self, payload: WeightPayload) -> int:
        """See `Sampler.update_weights`; return the version that is now loaded."""
        with _quoted():
            await self._running().update_weights(payload)
        return self.sampler.weight_version

    async def update_seconds(self) -> UpdateSeconds:
        """See `RemoteSampler.update_seconds`; zeros for a sampler of another package that does not know."""
        found: UpdateSeconds = getattr(self._running(), "update_seconds", UpdateSeconds())
        return found

    async def stream_host(self) -> str:
        """See `TakesStreams.stream_host`."""
        return await self._stream_taker().stream_host()

    async def try_stream(self, kind: str, exports: Sequence[Export]) -> list[int]:
        """See `TakesStreams.try_stream`."""
        with _quoted():
            return await self._stream_taker().try_stream(kind, exports)

    async def begin_stream(self, layout: StreamLayout, kind: str, exports: Sequence[Export]) -> None:
        """See `TakesStreams.begin_stream`."""
        with _quoted():
            await self._stream_taker().begin_stream(layout, kind, exports)

    async def take_bucket(self, bucket: Bucket) -> None:
        """See `TakesStreams.take_bucket`."""
        with _quoted():
            await self._stream_taker().take_bucket(bucket)

    async def finish_stream(self) -> tuple[int, StreamReceipt]:
        """See `TakesStreams.finish_stream`; return also the version that is now loaded."""
        with _quoted():
            receipt = await self._stream_taker().finish_stream()
        return self.sampler.weight_version, receipt

    async def marks(self) -> dict[str, float]:
        """See `RemoteSampler.marks`."""
        return self._marks | getattr(self._running(), "marks", {})

    async def pause(self) -> None:
        """See `Pausable.pause`."""
        with _quoted():
            await self._pausable().pause()

    async def resume(self) -> None:
        """See `Pausable.resume`."""
        with _quoted():
            await self._pausable().resume()

    async def close(self) -> None:
        """See `Sampler.close`."""
        if self._refusal is None:
            await self.sampler.close()

    def _stream_taker(self) -> TakesStreams:
        sampler = self._running()
        if isinstance(sampler, TakesStreams):
            return sampler
        raise DeviceTransferError(
            f"The sampler {type(sampler).__name__} cannot read weights from the trainer's memory.",
            'Set sync.transport = "host".',
        )

    def _pausable(self) -> Pausable:
        sampler = self._running()
        if isinstance(sampler, Pausable):
            return sampler
        raise SamplerError(
            f"The sampler {type(sampler).__name__} cannot be paused, so nothing can be timed on its GPU.",
            "Give placement.evaluation a GPU of its own, or set evaluator.timing = false.",
        )

    def _running(self) -> Sampler:
        if self._refusal is not None:
            raise self._refusal
        return self.sampler


@contextmanager
def _quoted() -> Iterator[None]:
    try:
        yield
    except SamplerDiedError as error:
        quote_own_log(error)
        raise


class RemoteSampler:
    """The Sampler interface over an actor. Use it within one event loop.

    Calls to a dead actor raise SamplerDiedError; `restart` starts a new one with the weights that were loaded last.
    Every call has a deadline. After an update that was not answered in time, sampling is blocked until another update
    or a restart succeeds, because it is not known which weights the actor has.

    Args:
        path: a Hugging Face directory, visible on the actor's node.
        config: the sampler's settings.
        weight_version: version of the weights at `path`.
        name: the sampler's name in error messages.
        actor_options: options of the Ray actor, for example `{"num_cpus": 1}`.
        log: where the actor writes its output; Ray's own log of the actor if None, or if its node cannot write there.
    """

    def __init__(
        self,
        path: str | Path,
        config: SamplerConfig,
        *,
        weight_version: int = 0,
        name: str = "sampler 0",
        actor_options: dict[str, Any] | None = None,
        log: Path | None = None,
    ) -> None:
        self.path = Path(path)
        self.log = None if log is None else log.absolute()
        self.config = config
        self.name = name
        self.restarts = 0
        self._options = actor_options or _default_options(config)
        self._first_version = self._version = weight_version
        self._last_weights: Weights | None = None
        self._in_doubt = False
        self._streaming = False
        self.actor = self._new_actor()

    @property
    def weight_version(self) -> int:
        """Version of the weights that were loaded last."""
        return self._version

    async def ready(self) -> None:
        """Wait until the sampler has started; the constructor does not.

        Raises:
            SamplerError: it cannot start.
            DeadlinePassedError: it did not start in time.
        """
        await self._started(self.actor)

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
        """Sample one completion; see `Sampler.generate`. A cancelled wait cancels the request in the actor.

        Raises:
            WeightsUnknownError: the last update was not answered.
        """
        self._check_certain()
        call = self.actor.generate.remote(list(prompt_ids), sampling)
        return await self._call(call, _CALL_SECONDS, "to complete a prompt")

    async def score(self, ids: Sequence[int], agent: str | None = None) -> list[float]:
        """Return the log-probs of given ids at temperature 1; see `Sampler.score`.

        Raises:
            WeightsUnknownError: the last update was not answered.
        """
        self._check_certain()
        return await self._call(self.actor.score.remote(list(ids), agent), _CALL_SECONDS, "to score a prompt")

    async def marks(self) -> dict[str, float]:
        """Return when the current actor was `created`, `imported` vLLM, `started`, and sampled its `first_token`.

        Times are those of `time.time` on its node; what did not happen yet, or is not known, is absent.
        """
        return await self._call(self.actor.marks.remote(), _PAUSE_SECONDS, "to say when it started")

    async def pause(self) -> None:
        """Let the sampler stand still; see `Pausable.pause`.

        Raises:
            SamplerError: a sampler of another package that cannot.
            DeadlinePassedError: it did not answer in time; it may stand still or not.
        """
        await self._call(self.actor.pause.remote(), _PAUSE_SECONDS, "to pause")

    async def resume(self) -> None:
        """Let the sampler continue; see `Pausable.resume`. Errors as for `pause`."""
        await self._call(self.actor.resume.remote(), _PAUSE_SECONDS, "to resume")

    def end(self) -> None:
        """Kill the actor: its requests fail, and a pool restarts it."""
        self._kill(self.actor)

    async def update_weights(self, payload: WeightPayload) -> None:
        """Replace all weights; see `Sampler.update_weights`."""
        import ray

        await self.load(ray.put(payload))

    async def load(self, reference: Any) -> None:
        """Replace all weights by a payload in Ray's object store, so that many samplers share one copy."""
        try:
            self._version = await self._loaded(self.actor, reference)
        except (BadPayloadError, SamplerDiedError):
            # Nothing was loaded, or the sampler is gone.
            raise
        except BaseException:
            self._in_doubt = True
            raise

        async def again() -> Any:
            return reference

        self._last_weights, self._in_doubt, self._streaming = again, False, False

    async def update_seconds(self) -> UpdateSeconds:
        """Return where the time of the last update went, as far as the sampler knows."""
        return await self._call(self.actor.update_seconds.remote(), _PAUSE_SECONDS, "to say how long an update took")

    async def stream_host(self) -> str:
        """Return the host on which it loads weights; see `TakesStreams`."""
        return await self._call(self.actor.stream_host.remote(), _PAUSE_SECONDS, "to say on which host it is")

    async def try_stream(self, kind: str, exports: Sequence[Export]) -> list[int]:
        """Return the digests of a sender's slots; see `TakesStreams`."""
        return await self._update_call(self.actor.try_stream.remote(kind, exports), "to read the trainer's memory")

    async def begin_stream(self, layout: StreamLayout, kind: str, exports: Sequence[Export]) -> None:
        """Stop sampling until `finish_stream`; see `TakesStreams`.

        From here on the weights of before are not restored by a restart, and nothing is sampled until others are
        loaded.
        """
        self._streaming = self._in_doubt = True
        await self._update_call(self.actor.begin_stream.remote(layout, kind, exports), "to begin an update")

    async def take_bucket(self, bucket: Bucket) -> None:
        """Check and load a bucket; see `TakesStreams`."""
        await self._update_call(self.actor.take_bucket.remote(bucket), f"to load bucket {bucket.number}")

    async def finish_stream(self, weights: Weights) -> StreamReceipt:
        """Check that all is loaded; see `TakesStreams`.

        Args:
            weights: what a later restart loads.
        """
        receipt: StreamReceipt
        self._version, receipt = await self._update_call(self.actor.finish_stream.remote(), "to end an update")
        self.recovers_by(weights)
        self._in_doubt = False
        return receipt

    def recovers_by(self, weights: Weights) -> None:
        """Let a restart load these weights."""
        self._last_weights, self._streaming = weights, False

    async def answered_version(self) -> int:
        """Return the version that the actor itself says it has."""
        return await self._call(self.actor.weight_version.remote(), _PAUSE_SECONDS, "to say which weights it has")

    async def restart(self) -> None:
        """Replace the actor by a new one and load the weights that were loaded last.

        Until they are loaded, calls go to the dead actor and fail, so nothing is sampled from the older weights at
        `path`.
        """
        self._kill(self.actor)
        fresh = self._new_actor()
        try:
            version = await self._started(fresh)
            if self._last_weights is not None and not self._streaming:
                version = await self._loaded(fresh, await self._last_weights())
        except BaseException:
            self._kill(fresh)
            raise
        finally:
            self.restarts += 1
        # In the middle of an update it has those of its directory.
        self.actor, self._version, self._in_doubt = fresh, version, self._streaming

    async def close(self) -> None:
        """Close the sampler and end the actor; an actor that does not answer is killed."""
        try:
            await self._call(self.actor.close.remote(), _CLOSE_SECONDS, "to close")
        except (SamplerError, DeadlinePassedError):
            return
        finally:
            self._kill(self.actor)

    def _new_actor(self) -> "ActorHandle":
        import ray

        # Many requests are in flight at once, and one more call must always be accepted.
        options = {"max_concurrency": 2 * self.config.max_sequences + 1024, **self._options}
        remote = ray.remote(SamplerActor).options(**options)
        log = None if self.log is None else str(self.log)
        return remote.remote(str(self.path.resolve()), self.config.model_dump(), self._first_version, log)

    async def _started(self, actor: "ActorHandle") -> int:
        return await self._call(actor.weight_version.remote(), self.config.start_timeout_s, "to start")

    async def _loaded(self, actor: "ActorHandle", reference: Any) -> int:
        return await self._update_call(actor.update_weights.remote(reference), "to load new weights")

    async def _update_call(self, reference: Awaitable[T], what: str) -> T:
        return await self._call(reference, self.config.update_timeout_s, what)

    def _check_certain(self) -> None:
        if self._in_doubt:
            raise WeightsUnknownError(
                f"{self.name} did not confirm that it loaded the last weights; sampling is blocked.",
                "Send the complete weights again, or restart it.",
            )

    @staticmethod
    def _kill(actor: "ActorHandle") -> None:
        import ray

        ray.kill(actor)

    async def _call(self, reference: Awaitable[T], seconds: float, what: str) -> T:
        try:
            return await call_with_deadline(reference, seconds, self.name, what, log=self.log)
        except ActorLostError as error:
            raise retyped(SamplerDiedError, error) from error
        except ActorFailedError as error:
            raise retyped(SamplerError, error) from error


def _default_options(config: SamplerConfig) -> dict[str, Any]:
    return {"num_cpus": 1, "num_gpus": config.tensor_parallel_size if config.device == "cuda" else 0}


async def started(samplers: Sequence[RemoteSampler]) -> None:
    """Wait until all samplers have started, in parallel."""
    await asyncio.gather(*(sampler.ready() for sampler in samplers))
