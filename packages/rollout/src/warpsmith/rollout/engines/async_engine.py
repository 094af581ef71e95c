"""vLLM's own asynchronous engine, in processes of its own: for a GPU."""

import asyncio
import itertools
import shutil
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from warpsmith.rollout.config import EngineConfig
from warpsmith.rollout.deadlines import within
from warpsmith.rollout.engines import vllm_settings as settings
from warpsmith.rollout.engines.base import Completion, Sampling
from warpsmith.rollout.engines.outputs import Progress, finish_reason, prompt_logprobs
from warpsmith.rollout.engines.weights import WeightPayload
from warpsmith.rollout.errors import DeadlinePassedError, EngineDiedError, EngineError

if TYPE_CHECKING:
    from vllm.lora.request import LoRARequest
    from vllm.v1.engine.async_llm import AsyncLLM


class AsyncVllmEngine:
    """The Engine of a GPU: `AsyncLLM`. Use it within one event loop.

    Weights reach vLLM's processes as a safetensors file in memory-backed scratch space.

    Args:
        path: a Hugging Face directory.
        config: the engine's settings; `device` must be `cuda`.
        weight_version: version of the weights at `path`.

    Raises:
        EngineError: vLLM refuses the model or the settings.
    """

    def __init__(self, path: str | Path, config: EngineConfig, *, weight_version: int = 0) -> None:
        self.path = Path(path)
        self.config = config
        self._version = weight_version
        self._adapter: LoRARequest | None = None
        self._expected, self._optional = settings.expected_shapes(self.path)
        self._numbers = itertools.count()
        self._updating = asyncio.Lock()
        self._death: EngineDiedError | None = None
        self._engine = self._start()

    @property
    def weight_version(self) -> int:
        """Version of the weights that the next token is sampled with."""
        return self._version

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
        """Sample one completion; see `Engine.generate`."""
        self._check_alive()
        settings.check_request(prompt_ids, self.config)
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        try:
            return await self._generate(list(prompt_ids), sampling)
        except EngineDeadError as error:
            raise EngineDiedError(
                "vLLM's engine process has ended.", "What it wrote last has the cause; then start a new engine."
            ) from error
        except (EngineGenerateError, *settings.refusals()) as error:
            cause = error.__cause__ or error
            raise EngineError(f"vLLM failed a request: {cause}.", "Check sampling and lengths.") from error

    async def _generate(self, prompt_ids: list[int], sampling: Sampling) -> Completion:
        progress = Progress()
        reason = None
        outputs = self._engine.generate(
            {"prompt_token_ids": prompt_ids},
            settings.sampling_params(sampling),
            str(next(self._numbers)),
            lora_request=self._adapter,
        )
        async with aclosing(outputs):
            async for output in outputs:
                progress.extend(output.outputs[0], self._version)
                reason = output.outputs[0].finish_reason
        return progress.completion(finish_reason(reason))

    async def score(self, ids: Sequence[int]) -> list[float]:
        """Return the log-probs of given ids at temperature 1; see `Engine.score`."""
        self._check_alive()
        settings.check_request(ids, self.config)
        outputs = self._engine.generate(
            {"prompt_token_ids": list(ids)},
            settings.scoring_params(),
            str(next(self._numbers)),
            lora_request=self._adapter,
        )
        # Kept as they come: which output of a request carries the prompt's log-probs is vLLM's business.
        async with aclosing(outputs):
            found = [output.prompt_logprobs async for output in outputs if output.prompt_logprobs]
        return prompt_logprobs(ids, found[-1] if found else None)

    async def update_weights(self, payload: WeightPayload) -> None:
        """Replace all weights, or the adapter, while sampling is paused; see `Engine.update_weights`."""
        self._check_alive()
        settings.check_kind(payload, self.config)
        await asyncio.to_thread(payload.check, self._expected, optional=self._optional)
        async with self._updating:
            what = f"weight version {payload.version} to be loaded"
            try:
                await within(self.config.update_timeout_s, self._load(payload), what)
            except (asyncio.CancelledError, DeadlinePassedError):
                # Set here: the load hears of it only after our caller, who may ask for a completion at once.
                self._death = settings.half_loaded(payload.version, "it was given up")
                raise

    async def _load(self, payload: WeightPayload) -> None:
        folder = settings.scratch_directory()
        try:
            if payload.adapter is None:
                await asyncio.to_thread(payload.save, folder / "model.safetensors")
            else:
                await asyncio.to_thread(payload.save_adapter, folder, payload.adapter)
            # Returns once the steps in flight have delivered, so every token read so far is of the old version.
            await self._engine.pause_generation(mode="keep", clear_cache=False)
            await self._replace(folder, payload.version, adapter=payload.adapter is not None)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder)

    async def _replace(self, folder: Path, version: int, *, adapter: bool) -> None:
        """Load while vLLM is paused. Whatever ends this early leaves a mixture of weights, and so ends the engine."""
        try:
            if adapter:
                loaded = await self._engine.add_lora(settings.adapter_request(folder, load=True))
                settings.check_adapter_loaded(loaded)
                self._adapter = settings.adapter_request(folder)
            else:
                await self._engine.collective_rpc("reload_weights", kwargs={"weights_path": str(folder)})
            settings.check_cache_dropped(await self._engine.reset_prefix_cache(reset_running_requests=True))
            self._version = version
            await self._engine.resume_generation()
        except Exception as error:
            self._death = settings.half_loaded(version, error)
            raise self._death from error

    def _check_alive(self) -> None:
        if self._death is not None:
            raise self._death

    async def close(self) -> None:
        """Stop vLLM's processes."""
        await asyncio.to_thread(self._engine.shutdown)

    def _start(self) -> "AsyncLLM":
        settings.set_environment(self.config)
        try:
            from vllm.engine.arg_utils import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM

            return AsyncLLM.from_engine_args(AsyncEngineArgs(**settings.engine_arguments(self.path, self.config)))
        except Exception as error:
            raise settings.refused_start(self.path, error) from error
