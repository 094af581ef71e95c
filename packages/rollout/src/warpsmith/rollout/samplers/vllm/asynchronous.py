"""vLLM's asynchronous engine, in its own processes: for a GPU."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.deadlines import within
from warpsmith.rollout.errors import DeadlinePassedError, SamplerDiedError, SamplerError
from warpsmith.rollout.samplers.base import Completion, Sampling
from warpsmith.rollout.samplers.vllm import settings
from warpsmith.rollout.samplers.vllm.outputs import PartialCompletion, finish_reason, prompt_logprobs
from warpsmith.rollout.samplers.weights.files import adapter_directory
from warpsmith.rollout.samplers.weights.payload import WeightPayload, expected_shapes
from warpsmith.rollout.samplers.weights.transports.base import WorkerCall, entered_in_thread
from warpsmith.rollout.samplers.weights.transports.registry import make_transport

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM


class AsyncVllmSampler:
    """The sampler for a GPU: vLLM's `AsyncLLM`. Use it within one event loop.

    Args:
        path: a Hugging Face directory.
        config: the sampler's settings; `device` must be `cuda`.
        weight_version: version of the weights at `path`.

    Attributes:
        marks: see `RemoteSampler.marks`.

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
        self._paused = False
        self.marks: dict[str, float] = {}
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
        if payload.adapter is None:
            async with entered_in_thread(self._transport.ship(payload)) as call:
                await self._replace(payload.version, lambda: self._load_weights(call))
        else:
            agents = payload.adapter.agents
            async with entered_in_thread(adapter_directory(payload, payload.adapter)) as folder:
                await self._replace(payload.version, lambda: self._load_adapters(folder, agents))

    async def _load_weights(self, call: WorkerCall) -> None:
        await self.vllm.collective_rpc(call.method, kwargs=dict(call.kwargs))

    async def _load_adapters(self, folder: Path, agents: Sequence[str]) -> None:
        for request in settings.adapter_requests(folder, agents, load=True).values():
            settings.check_adapter_loaded(await self.vllm.add_lora(request))
        self._adapters = settings.adapter_requests(folder, agents)

    async def _replace(self, version: int, load: Callable[[], Awaitable[None]]) -> None:
        """Pause vLLM and load. An error after the pause leaves a mixture of weights, so it ends the sampler."""
        # Returns once the steps in flight have delivered, so every token read so far is of the old version.
        await self.vllm.pause_generation(mode="keep", clear_cache=False)
        try:
            await load()
            settings.check_cache_dropped(await self.vllm.reset_prefix_cache(reset_running_requests=True))
            self._version = version
            await self.vllm.resume_generation()
        except Exception as error:
            self._death = settings.half_loaded_error(version, error)
            raise self._death from error

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
