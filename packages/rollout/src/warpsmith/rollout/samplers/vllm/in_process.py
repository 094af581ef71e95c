"""vLLM inside this process, run by its own thread."""

import asyncio
import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsmith.rollout.config import SamplerConfig
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
from warpsmith.rollout.samplers.weights.payload import Adapter, WeightPayload, expected_shapes
from warpsmith.rollout.samplers.weights.seconds import UpdateSeconds
from warpsmith.rollout.samplers.weights.stream.layout import Bucket, StreamLayout
from warpsmith.rollout.samplers.weights.stream.media import Export
from warpsmith.rollout.samplers.weights.transports.base import WorkerCall
from warpsmith.rollout.samplers.weights.transports.registry import make_transport

if TYPE_CHECKING:
    from vllm.v1.engine.llm_engine import LLMEngine


@dataclass
class _Request:
    """A completion in progress."""

    prompt_ids: list[int]
    sampling: Sampling
    future: "Future[Completion]"
    partial: PartialCompletion = field(default_factory=PartialCompletion)


@dataclass
class _Scoring:
    """A prompt to score."""

    prompt_ids: list[int]
    future: "Future[list[float]]"
    agent: str | None


@dataclass
class _Update:
    """Weights to load between two steps."""

    payload: WeightPayload
    future: "Future[None]"


@dataclass
class _Stage:
    """A stage of a stream of weights, between two steps; an error in it ends the sampler unless it is `harmless`."""

    run: "Callable[[LLMEngine], Any]"
    future: "Future[Any]"
    harmless: bool = False


@dataclass
class _Pause:
    """A pause between two steps (`paused`), or its end."""

    paused: bool
    future: "Future[None]"


@dataclass
class _Stop:
    """The last item that the thread takes from its inbox."""


_Item = _Request | _Scoring | _Update | _Stage | _Pause | _Stop


class VllmSampler:
    """The sampler for a CPU: vLLM's `LLMEngine` in this process, without a second interpreter.

    All calls into vLLM are made on one thread; the async methods hand work to it and wait. A cancelled wait aborts its
    request. vLLM reads its settings from the process's environment and binds its OpenMP threads, so a sampler next to a
    trainer needs its own process (`SamplerActor`).

    Args:
        path: a Hugging Face directory.
        config: the sampler's settings; `device` must be `cpu`.
        weight_version: version of the weights at `path`.

    Attributes:
        marks: see `RemoteSampler.marks`.
        update_seconds: where the time of the last update went.

    Raises:
        SamplerError: vLLM rejects the model or the settings.
        DeadlinePassedError: it did not start in time.
    """

    def __init__(self, path: str | Path, config: SamplerConfig | None = None, *, weight_version: int = 0) -> None:
        self.path = Path(path)
        self.config = config or SamplerConfig()
        self._version = weight_version
        self._adapters: settings.Requests = {}
        self._expected, self._optional = expected_shapes(self.path)
        self._transport = make_transport(self.config)
        self._inbox: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._waiting: dict[str, _Request | _Scoring] = {}
        self._updating: _Update | _Stage | None = None
        self._stream: StreamLayout | None = None
        self._paused = False
        self.marks: dict[str, float] = {}
        self.update_seconds = UpdateSeconds()
        self._numbers = itertools.count()
        self._death: BaseException | None = None
        # No item may enter the inbox between setting `_death` and emptying it.
        self._entrance = threading.Lock()
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="vllm", daemon=True)
        self._thread.start()
        self._await_start(started)

    # Sampler -------------------------------------------------------------------------------------------------------

    @property
    def weight_version(self) -> int:
        """Version of the weights that the next token is sampled with."""
        return self._version

    @property
    def in_flight(self) -> int:
        """Requests in progress in vLLM; a cancelled one leaves at the next step."""
        return len(self._waiting)

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
        """Sample one completion; see `Sampler.generate`."""
        settings.check_request(prompt_ids, self.config)
        settings.adapter_for(sampling.agent, self._adapters)
        future: Future[Completion] = Future()
        self._post(_Request(list(prompt_ids), sampling, future))
        return await asyncio.wrap_future(future)

    async def score(self, ids: Sequence[int], agent: str | None = None) -> list[float]:
        """Return the log-probs of given ids at temperature 1; see `Sampler.score`."""
        settings.check_request(ids, self.config)
        settings.adapter_for(agent, self._adapters)
        future: Future[list[float]] = Future()
        self._post(_Scoring(list(ids), future, agent))
        return await asyncio.wrap_future(future)

    async def update_weights(self, payload: WeightPayload) -> None:
        """Replace all weights, or the adapter, between two steps; see `Sampler.update_weights`."""
        settings.check_kind(payload, self.config)
        self.update_seconds = UpdateSeconds()
        began = time.monotonic()
        await asyncio.to_thread(payload.check, self._expected, optional=self._optional)
        self.update_seconds.verify_s = time.monotonic() - began
        future: Future[None] = Future()
        self._post(_Update(payload, future))
        try:
            await asyncio.wait_for(asyncio.wrap_future(future), self.config.update_timeout_s)
        except TimeoutError:
            raise DeadlinePassedError(
                f"Loading weight version {payload.version} took longer than {self.config.update_timeout_s:g} s.",
                "Raise sampler.update_timeout_s, or find what blocks vLLM's step.",
            ) from None

    async def stream_host(self) -> str:
        """Return the host on which it loads weights; see `TakesStreams`."""
        streams.check_supported(self._takes_streams)
        hosts: list[str] = await self._staged(lambda vllm: _call(vllm, streams.HOST), "its host", harmless=True)
        return hosts[0]

    async def try_stream(self, kind: str, exports: Sequence[Export]) -> list[int]:
        """Return the digests of a sender's slots; see `TakesStreams`."""
        streams.check_supported(self._takes_streams)
        call = streams.trial(kind, exports)
        found: list[list[int]] = await self._staged(lambda vllm: _call(vllm, call), "a trial read", harmless=True)
        return found[0]

    async def begin_stream(self, layout: StreamLayout, kind: str, exports: Sequence[Export]) -> None:
        """Stop sampling and map the sender's slots; see `TakesStreams`."""
        streams.check_layout(layout, self._expected, self._optional, supported=self._takes_streams)
        call = streams.init(layout, kind, exports)
        await self._staged(lambda vllm: self._map(vllm, call), "the buckets to be mapped", harmless=True)

        def begin(vllm: "LLMEngine") -> None:
            self._stream = layout
            _call(vllm, streams.START)

        await self._staged(begin, f"weight version {layout.version} to begin")

    async def take_bucket(self, bucket: Bucket) -> None:
        """Check and load the next bucket; see `TakesStreams`."""
        call = streams.load(bucket)
        await self._staged(lambda vllm: self._loaded(vllm, call), f"bucket {bucket.number} to be loaded")

    async def finish_stream(self) -> StreamReceipt:
        """Check that all is loaded and continue sampling; see `TakesStreams`."""
        receipt: StreamReceipt = await self._staged(self._finish_stream, "the last buckets to be loaded")
        self.update_seconds = receipt.seconds
        return receipt

    async def _staged(self, run: "Callable[[LLMEngine], Any]", what: str, *, harmless: bool = False) -> Any:
        future: Future[Any] = Future()
        self._post(_Stage(run, future, harmless))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.config.update_timeout_s)
        except TimeoutError:
            raise DeadlinePassedError(
                f"Waited {self.config.update_timeout_s:g} s for {what}; it did not come.",
                "Raise sampler.update_timeout_s, or find what blocks vLLM's step.",
            ) from None

    async def pause(self) -> None:
        """Make no further step until `resume`; see `Pausable.pause`."""
        await self._set_paused(True)

    async def resume(self) -> None:
        """Continue; see `Pausable.resume`."""
        await self._set_paused(False)

    async def _set_paused(self, paused: bool) -> None:
        future: Future[None] = Future()
        self._post(_Pause(paused, future))
        await asyncio.wrap_future(future)

    async def close(self) -> None:
        """Stop the thread and free the model; requests in flight fail with SamplerDiedError."""
        self._inbox.put(_Stop())
        await asyncio.to_thread(self._thread.join)

    # Calls from other threads ---------------------------------------------------------------------------------------

    def _post(self, item: _Item) -> None:
        with self._entrance:
            if self._death is not None:
                raise _died(self._death)
            self._inbox.put(item)

    def _await_start(self, started: "Future[None]") -> None:
        try:
            started.result(self.config.start_timeout_s)
        except FutureTimeout:
            raise DeadlinePassedError(
                f"vLLM did not start on {self.path} within {self.config.start_timeout_s:g} s.",
                "Raise sampler.start_timeout_s.",
            ) from None

    # vLLM's thread -------------------------------------------------------------------------------------------------

    def _run(self, started: "Future[None]") -> None:
        """Start vLLM and serve until stopped; any end of the thread fails every waiting call."""
        cause: BaseException = SamplerDiedError("The sampler was closed.", "Start a new one.")
        try:
            engine = self.start_vllm()
        except Exception as error:  # noqa: BLE001 - vLLM raises anything; the caller gets it
            started.set_exception(settings.start_error(self.path, error))
            return
        started.set_result(None)
        try:
            self._serve(engine)
        except Exception as error:  # noqa: BLE001 - fails every waiting call
            cause = error
        finally:
            self._end(cause)
            engine.engine_core.shutdown()

    def start_vllm(self) -> "LLMEngine":
        settings.set_environment(self.config)
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine

        self.marks["imported"] = time.time()
        arguments = settings.engine_arguments(self.path, self.config, self._transport)
        return LLMEngine.from_engine_args(EngineArgs(**arguments))

    def _serve(self, engine: "LLMEngine") -> None:
        while True:
            for item in self._arrivals(block=self._stands_still or not self._waiting):
                if isinstance(item, _Stop):
                    return
                self._take(engine, item)
            self._abort_cancelled(engine)
            if self._waiting and not self._stands_still:
                for output in engine.step():
                    self._deliver(output)

    @property
    def _stands_still(self) -> bool:
        return self._paused or self._stream is not None

    def _arrivals(self, *, block: bool) -> Iterator[_Item]:
        """Yield the items in the inbox; with `block`, wait for one."""
        if block:
            yield self._inbox.get()
        while True:
            try:
                yield self._inbox.get_nowait()
            except queue.Empty:
                return

    def _take(self, engine: "LLMEngine", item: _Request | _Scoring | _Update | _Stage | _Pause) -> None:
        if isinstance(item, _Pause):
            # Even if nothing waits for it any more: a resume must not be lost.
            self._paused = item.paused
            _settle(item.future, lambda: None)
            return
        if item.future.cancelled():
            return
        if isinstance(item, _Stage):
            self._updating = item
            self._make(engine, item)
            self._updating = None
            return
        if isinstance(item, _Update):
            self._updating = item
            self._load(engine, item.payload)
            self._updating = None
            _settle(item.future, lambda: None)
            return
        name = str(next(self._numbers))
        parameters = (
            settings.scoring_params() if isinstance(item, _Scoring) else settings.sampling_params(item.sampling)
        )
        agent = item.agent if isinstance(item, _Scoring) else item.sampling.agent
        # Before vLLM gets it: an error that ends the thread here must fail this call too.
        self._waiting[name] = item
        try:
            lora = settings.adapter_for(agent, self._adapters)
            engine.add_request(name, {"prompt_token_ids": item.prompt_ids}, parameters, lora_request=lora)
        except settings.refusals() as error:
            del self._waiting[name]
            _fail(item.future, SamplerError(f"vLLM rejects the request: {error}.", "Check sampling and lengths."))

    def _make(self, engine: "LLMEngine", stage: _Stage) -> None:
        """Run a stage of a stream. One that fails half way ends the sampler, as for `_load`.

        Raises:
            SamplerDiedError: vLLM failed, or what came was damaged.
        """
        try:
            result = stage.run(engine)
        except Exception as error:
            if stage.harmless:
                failure = error if isinstance(error, RolloutError) else DeviceTransferError(f"vLLM failed: {error}.")
                _fail(stage.future, failure)
                return
            if isinstance(error, BadPayloadError):
                _fail(stage.future, error)
            version = self._version + 1 if self._stream is None else self._stream.version
            raise settings.half_loaded_error(version, error) from error
        _settle(stage.future, lambda: result)

    def _map(self, engine: "LLMEngine", call: WorkerCall) -> None:
        if self._stream is not None:
            raise settings.half_loaded_error(self._stream.version, "another update began")
        _call(engine, call)

    def _loaded(self, engine: "LLMEngine", call: WorkerCall) -> None:
        if self._stream is None:
            raise SamplerError("A bucket came outside of an update.", "Begin the update again.")
        _call(engine, call)

    def _finish_stream(self, engine: "LLMEngine") -> StreamReceipt:
        self._loaded(engine, streams.FINISH)
        engine.collective_rpc(pack_output_layer)
        settings.check_cache_dropped(engine.reset_prefix_cache(reset_running_requests=True))
        if self._stream is not None:
            self._version, self._stream = self._stream.version, None
        return streams.receipt_of(_call(engine, streams.RECEIPT))

    @property
    def _takes_streams(self) -> bool:
        return settings.takes_streams(self.config, self._transport)

    def _load(self, engine: "LLMEngine", payload: WeightPayload) -> None:
        """Load all weights. A load that stops half way ends the sampler: vLLM would have a mixture of versions.

        Raises:
            SamplerDiedError: vLLM or the payload failed during the load, whatever the cause.
        """
        began = time.monotonic()
        try:
            if self._stream is not None:
                raise SamplerError("another update began")
            if payload.adapter is None:
                # All at once: loading only a part of its weights corrupts a fused layer.
                with self._transport.ship(payload) as call:
                    engine.collective_rpc(call.method, kwargs=dict(call.kwargs))
                engine.collective_rpc(pack_output_layer)
            else:
                self._load_adapter(engine, payload, payload.adapter)
            # Running requests are recomputed: a cache that mixes two versions fits neither.
            settings.check_cache_dropped(engine.reset_prefix_cache(reset_running_requests=True))
        except Exception as error:
            raise settings.half_loaded_error(payload.version, error) from error
        self._version = payload.version
        self.update_seconds.load_s = time.monotonic() - began

    def _load_adapter(self, engine: "LLMEngine", payload: WeightPayload, adapter: Adapter) -> None:
        with adapter_directory(payload, adapter) as folder:
            for request in settings.adapter_requests(folder, adapter.agents, load=True).values():
                settings.check_adapter_loaded(engine.add_lora(request))
            self._adapters = settings.adapter_requests(folder, adapter.agents)

    def _abort_cancelled(self, engine: "LLMEngine") -> None:
        cancelled = [name for name, item in self._waiting.items() if item.future.cancelled()]
        if cancelled:
            engine.abort_request(cancelled)
            for name in cancelled:
                del self._waiting[name]

    def _deliver(self, output: Any) -> None:
        item = self._waiting.get(output.request_id)
        if item is None:
            return
        if isinstance(item, _Request):
            self.marks.setdefault("first_token", time.time())
            item.partial.extend(output.outputs[0], self._version)
        if output.finished:
            del self._waiting[output.request_id]
            _settle(item.future, lambda: _result(item, output))

    def _end(self, cause: BaseException) -> None:
        with self._entrance:
            self._death = cause
        late = [item for item in self._arrivals(block=False) if not isinstance(item, _Stop)]
        begun = [] if self._updating is None else [self._updating]
        for item in [*self._waiting.values(), *begun, *late]:
            _fail(item.future, _died(cause))
        self._waiting.clear()


def _call(engine: "LLMEngine", call: WorkerCall) -> list[Any]:
    """Return what each worker answers."""
    answers: list[Any] = engine.collective_rpc(call.method, kwargs=dict(call.kwargs))
    return answers


def _result(item: _Request | _Scoring, output: Any) -> Any:
    if isinstance(item, _Scoring):
        return prompt_logprobs(item.prompt_ids, output.prompt_logprobs)
    return item.partial.completion(finish_reason(output.outputs[0].finish_reason))


def _settle(future: "Future[Any]", work: Callable[[], Any]) -> None:
    """Set the future to what `work` returns, or to its typed error. A cancelled future stays cancelled."""
    try:
        result = work()
    except RolloutError as error:
        _fail(future, error)
        return
    try:
        future.set_result(result)
    except InvalidStateError:
        return


def _fail(future: "Future[Any]", error: RolloutError) -> None:
    try:
        future.set_exception(error)
    except InvalidStateError:
        return


def _died(cause: BaseException) -> SamplerDiedError:
    if isinstance(cause, SamplerDiedError):
        return cause
    return SamplerDiedError(
        f"The sampler stopped: {type(cause).__name__}: {cause}.", "Start a new one; see vLLM's log."
    )


def pack_output_layer(worker: Any) -> None:
    """Pack the output layer's weights again, inside vLLM's worker.

    On a CPU vLLM multiplies with a packed copy. `reload_weights` renews the copies of the layers it loads; an output
    layer that is tied to the embedding is not one of them and would keep the old weights.
    """
    head = worker.get_model().lm_head
    head.quant_method.process_weights_after_loading(head)
