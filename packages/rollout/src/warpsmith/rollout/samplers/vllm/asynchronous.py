"""vLLM's asynchronous engine, in its own processes: for a GPU."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.deadlines import within
from warpsmith.rollout.errors import (
    BadPayloadError,
    DeadlinePassedError,
    DeviceTransferError,
    RolloutError,
    SamplerDiedError,
    SamplerError,
)
from warpsmith.rollout.samplers.base import Completion, Sampling, StreamReceipt
from warpsmith.rollout.samplers.vllm import settings, streams
from warpsmith.rollout.samplers.vllm.outputs import PartialCompletion, finish_reason, prompt_logprobs
from warpsmith.rollout.samplers.weights.files import adapter_directory
from warpsmith.rollout.samplers.weights.payload import WeightPayload, expected_shapes
from warpsmith.rollout.samplers.weights.seconds import UpdateSeconds
from warpsmith.rollout.samplers.weights.stream.layout import Bucket, StreamLayout
from warpsmith.rollout.samplers.weights.stream.media import Export
from warpsmith.rollout.samplers.weights.transports.base import WorkerCall, entered_in_thread
from warpsmith.rollout.samplers.weights.transports.registry import make_transport

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM

T = TypeVar("T")

_ALIVE_SECONDS = 0.5
"""How often a call that is pending asks whether vLLM's engine process lives."""

_RECEIPT_SECONDS = 10.0
"""Deadline of asking workers that failed for their error."""


class AsyncVllmSampler:
    """The sampler for a GPU: vLLM's `AsyncLLM`. Use it within one event loop.

    Args:
        path: a Hugging Face directory.
        config: the sampler's settings; `device` must be `cuda`.
        weight_version: version of the weights at `path`.

    Attributes:
        marks: see `RemoteSampler.marks`.
        update_seconds: where the time of the last update went.

    Raises:
        SamplerError: vLLM rejects the model or the settings.
    """

    def __init__(self, path: str | Path, config: SamplerConfig, *, weight_version: int = 0) -> None:
        self.path = Path(path)
        self.config = config
        self._version = weight_version
        self._adapters: settings.Requests = {}
        self._expected, self._optional = expected_shapes(self.path)
        self._numbers = itertools.count()
        self._updating = asyncio.Lock()
        self._stream: StreamLayout | None = None
        self._paused = False
        self.marks: dict[str, float] = {}
        self.update_seconds = UpdateSeconds()
        self._death: SamplerDiedError | None = None
        self._transport = make_transport(config)
        self.vllm = self.start_vllm()

    @property
    def weight_version(self) -> int:
        """Version of the weights that the next token is sampled with."""
        return self._version

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
        """Sample one completion; see `Sampler.generate`."""
        self._check_alive()
        settings.check_request(prompt_ids, self.config)
        from vllm.v1.engine.exceptions import EngineGenerateError

        try:
            with _engine_death():
                return await self._generate(list(prompt_ids), sampling)
        except (EngineGenerateError, *settings.refusals()) as error:
            cause = error.__cause__ or error
            raise SamplerError(f"vLLM failed a request: {cause}.", "Check sampling and lengths.") from error

    async def _generate(self, prompt_ids: list[int], sampling: Sampling) -> Completion:
        partial = PartialCompletion()
        reason = None
        outputs = self.vllm.generate(
            {"prompt_token_ids": prompt_ids},
            settings.sampling_params(sampling),
            str(next(self._numbers)),
            lora_request=settings.adapter_for(sampling.agent, self._adapters),
        )
        async with aclosing(outputs):
            async for output in outputs:
                self.marks.setdefault("first_token", time.time())
                partial.extend(output.outputs[0], self._version)
                reason = output.outputs[0].finish_reason
        return partial.completion(finish_reason(reason))

    async def score(self, ids: Sequence[int], agent: str | None = None) -> list[float]:
        """Return the log-probs of given ids at temperature 1; see `Sampler.score`."""
        self._check_alive()
        settings.check_request(ids, self.config)
        outputs = self.vllm.generate(
            {"prompt_token_ids": list(ids)},
            settings.scoring_params(),
            str(next(self._numbers)),
            lora_request=settings.adapter_for(agent, self._adapters),
        )
        # Which output of a request has the prompt's log-probs differs between versions of vLLM.
        async with aclosing(outputs):
            found = [output.prompt_logprobs async for output in outputs if output.prompt_logprobs]
        return prompt_logprobs(ids, found[-1] if found else None)

    async def update_weights(self, payload: WeightPayload) -> None:
        """Replace all weights, or the adapter, while sampling is paused; see `Sampler.update_weights`."""
        self._check_alive()
        settings.check_kind(payload, self.config)
        self._refuse_second_update()
        self.update_seconds = UpdateSeconds()
        with _timed(self.update_seconds, "verify_s"):
            await asyncio.to_thread(payload.check, self._expected, optional=self._optional)
        async with self._updating:
            what = f"weight version {payload.version} to be loaded"
            try:
                await within(self.config.update_timeout_s, self._load(payload), what)
            except (asyncio.CancelledError, DeadlinePassedError):
                # Set here: the cancelled load ends after our caller continues, which can request a completion at once.
                self._death = settings.half_loaded_error(payload.version, "it was cancelled")
                raise

    async def pause(self) -> None:
        """Freeze all requests between two steps; see `Pausable.pause`. An update waits until `resume`."""
        self._check_alive()
        await self._updating.acquire()
        self._paused = True
        with _engine_death():
            # Its steps in flight have delivered when this returns, so their kernels have ended.
            await self.vllm.pause_generation(mode="keep", clear_cache=False)

    async def resume(self) -> None:
        """Continue; see `Pausable.resume`."""
        if not self._paused:
            return
        self._paused = False
        try:
            with _engine_death():
                await self.vllm.resume_generation()
        finally:
            self._updating.release()

    async def _load(self, payload: WeightPayload) -> None:
        began = time.monotonic()
        if payload.adapter is None:
            async with entered_in_thread(self._transport.ship(payload)) as call:
                self.update_seconds.send_s = time.monotonic() - began
                await self._replace(payload.version, lambda: self._load_weights(call))
        else:
            agents = payload.adapter.agents
            async with entered_in_thread(adapter_directory(payload, payload.adapter)) as folder:
                await self._replace(payload.version, lambda: self._load_adapters(folder, agents))

    async def _load_weights(self, call: WorkerCall) -> None:
        with _timed(self.update_seconds, "load_s"):
            await self._call(call)

    async def _call(self, call: WorkerCall) -> list[Any]:
        """Return what each worker answers."""
        answers: list[Any] = await self._while_alive(self.vllm.collective_rpc(call.method, kwargs=dict(call.kwargs)))
        return answers

    async def _while_alive(self, work: Awaitable[T]) -> T:
        """Await a call to vLLM, which never answers the calls that are pending when its engine process dies.

        Raises:
            EngineDeadError: it died.
        """
        pending = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({pending}, timeout=_ALIVE_SECONDS))[0]:
                if self.vllm.errored:
                    from vllm.v1.engine.exceptions import EngineDeadError

                    raise EngineDeadError
        finally:
            pending.cancel()
        return await pending

    async def _load_adapters(self, folder: Path, agents: Sequence[str]) -> None:
        for request in settings.adapter_requests(folder, agents, load=True).values():
            settings.check_adapter_loaded(await self.vllm.add_lora(request))
        self._adapters = settings.adapter_requests(folder, agents)

    async def _replace(self, version: int, load: Callable[[], Awaitable[None]]) -> None:
        """Pause vLLM and load. An error after the pause leaves a mixture of weights, so it ends the sampler."""
        # Returns once the steps in flight have delivered, so every token read so far is of the old version.
        await self._while_alive(self.vllm.pause_generation(mode="keep", clear_cache=False))
        try:
            await load()
            cleared = self.vllm.reset_prefix_cache(reset_running_requests=True)
            settings.check_cache_dropped(await self._while_alive(cleared))
            self._version = version
            await self._while_alive(self.vllm.resume_generation())
        except Exception as error:
            self._death = settings.half_loaded_error(version, error)
            raise self._death from error

    # Streams ---------------------------------------------------------------------------------------------------------

    async def stream_host(self) -> str:
        """Return the host on which it loads weights; see `TakesStreams`."""
        streams.check_supported(self._takes_streams)
        hosts: list[str] = await self._call(streams.HOST)
        return hosts[0]

    async def try_stream(self, kind: str, exports: Sequence[Export]) -> list[int]:
        """Return the digests of a sender's slots; see `TakesStreams`."""
        streams.check_supported(self._takes_streams)
        try:
            found = await within(self.config.update_timeout_s, self._call(streams.trial(kind, exports)), "a trial read")
        except DeadlinePassedError:
            raise
        except Exception as error:
            raise _unreadable(error) from error
        first: list[int] = found[0]
        return first if all(digests == first for digests in found) else []

    async def begin_stream(self, layout: StreamLayout, kind: str, exports: Sequence[Export]) -> None:
        """Stop sampling and map the sender's slots; see `TakesStreams`."""
        self._check_alive()
        self._refuse_second_update()
        streams.check_layout(layout, self._expected, self._optional, supported=self._takes_streams)
        # Before sampling stops: an error here leaves the weights as they are.
        await self._mapped(layout, kind, exports)
        await self._updating.acquire()
        self._stream = layout
        async with self._streamed("to begin"):
            await self._while_alive(self.vllm.pause_generation(mode="keep", clear_cache=False))
            await self._call(streams.START)

    async def take_bucket(self, bucket: Bucket) -> None:
        """Check and load the next bucket; see `TakesStreams`."""
        self._check_alive()
        async with self._streamed(f"bucket {bucket.number}"):
            await self._call(streams.load(bucket))

    async def finish_stream(self) -> StreamReceipt:
        """Check that all is loaded and continue sampling; see `TakesStreams`."""
        self._check_alive()
        version = self._streaming().version
        async with self._streamed("to end"):
            await self._call(streams.FINISH)
            receipt = streams.receipt_of(await self._call(streams.RECEIPT))
            cleared = self.vllm.reset_prefix_cache(reset_running_requests=True)
            settings.check_cache_dropped(await self._while_alive(cleared))
            self._version = version
            await self._while_alive(self.vllm.resume_generation())
        self.update_seconds, self._stream = receipt.seconds, None
        self._updating.release()
        return receipt

    async def _mapped(self, layout: StreamLayout, kind: str, exports: Sequence[Export]) -> None:
        from vllm.v1.engine.exceptions import EngineDeadError

        try:
            call = self._call(streams.init(layout, kind, exports))
            await within(self.config.update_timeout_s, call, "the trainer's buckets to be mapped")
        except DeadlinePassedError:
            raise
        except Exception as error:
            typed_error = await self._typed(error)
            with _engine_death():
                if isinstance(typed_error, RolloutError | EngineDeadError):
                    raise typed_error from error
            raise _unreadable(error) from error

    @asynccontextmanager
    async def _streamed(self, what: str) -> AsyncIterator[None]:
        """Bound one phase of a stream in time. An error in it leaves a mixture of weights, so it ends the sampler."""
        version = self._streaming().version
        try:
            async with asyncio.timeout(self.config.update_timeout_s):
                yield
        except BaseException as error:
            self._give_up(version, error)
            if isinstance(error, TimeoutError):
                raise settings.late_error(version, what, self.config.update_timeout_s) from error
            if not isinstance(error, Exception):
                raise
            typed_error = await self._typed(error)
            if isinstance(typed_error, BadPayloadError):
                raise typed_error from error
            raise settings.half_loaded_error(version, typed_error) from error

    def _give_up(self, version: int, cause: BaseException) -> None:
        """End the sampler at once: our caller may be gone, and what comes next must not be sampled."""
        self._death = settings.half_loaded_error(version, cause if isinstance(cause, Exception) else "it was cancelled")
        self._stream = None
        self._updating.release()

    async def _typed(self, error: Exception) -> Exception:
        """Return the workers' own error instead of vLLM's text."""
        from vllm.v1.engine.exceptions import EngineDeadError

        if isinstance(error, EngineDeadError | RolloutError):
            return error
        try:
            receipts = await within(_RECEIPT_SECONDS, self._call(streams.RECEIPT), "the receipt of a failed update")
        except (EngineDeadError, DeadlinePassedError):
            return error
        return streams.typed(receipts, error)

    @property
    def _takes_streams(self) -> bool:
        return settings.takes_streams(self.config, self._transport)

    def _streaming(self) -> StreamLayout:
        if self._stream is None:
            raise SamplerError("A bucket came outside of an update.", "Begin the update again.")
        return self._stream

    def _refuse_second_update(self) -> None:
        """End a sampler whose last stream did not end: it has parts of two versions."""
        if self._stream is not None:
            self._give_up(self._stream.version, SamplerError("another update began"))
            self._check_alive()

    def _check_alive(self) -> None:
        if self._death is not None:
            raise self._death

    async def close(self) -> None:
        """Stop vLLM's processes."""
        await asyncio.to_thread(self.vllm.shutdown)

    def start_vllm(self) -> "AsyncLLM":
        settings.set_environment(self.config)
        try:
            from vllm.engine.arg_utils import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM

            self.marks["imported"] = time.time()
            arguments = settings.engine_arguments(self.path, self.config, self._transport)
            return AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
        except Exception as error:
            raise settings.start_error(self.path, error) from error


def _unreadable(error: Exception) -> DeviceTransferError:
    return DeviceTransferError(
        f"The trainer's buckets cannot be read: {type(error).__name__}: {error}.", 'Set sync.transport = "host".'
    )


@contextmanager
def _timed(seconds: UpdateSeconds, phase: str) -> Iterator[None]:
    began = time.monotonic()
    try:
        yield
    finally:
        setattr(seconds, phase, time.monotonic() - began)


@contextmanager
def _engine_death() -> Iterator[None]:
    """Turn vLLM's report of a dead engine into SamplerDiedError."""
    from vllm.v1.engine.exceptions import EngineDeadError

    try:
        yield
    except EngineDeadError as error:
        raise SamplerDiedError(
            "vLLM's engine process has ended.", "Its last output shows the cause; fix that and start a new sampler."
        ) from error
