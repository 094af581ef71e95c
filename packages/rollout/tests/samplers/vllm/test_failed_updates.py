"""Both samplers around a vLLM that fails in the middle of an update: they end, and say why. vLLM is not started."""

import asyncio
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.errors import BadPayloadError, DeadlinePassedError, SamplerDiedError
from warpsmith.rollout.samplers import Sampling, WeightPayload
from warpsmith.rollout.samplers.vllm.asynchronous import AsyncVllmSampler
from warpsmith.rollout.samplers.vllm.in_process import VllmSampler

TENSORS = {"a": torch.zeros(4), "b": torch.ones(2, 2)}
PAYLOAD = WeightPayload.from_state_dict(7, TENSORS)
CONFIG = SamplerConfig(update_timeout_s=5.0)


@pytest.fixture
def directory(tmp_path):
    save_file(TENSORS, tmp_path / "model.safetensors")
    return tmp_path


class Vllm:
    """What the samplers use of vLLM's: `load` is called for each reload; a cache is `dropped` or not."""

    def __init__(self, load=lambda: None, dropped=True):
        self.load, self.dropped = load, dropped
        self.engine_core = SimpleNamespace(shutdown=lambda: None)
        self.errored = False

    def collective_rpc(self, method, kwargs=None):
        if method == "reload_weights":
            self.load()

    def reset_prefix_cache(self, reset_running_requests):
        assert reset_running_requests
        return self.dropped


class AsyncVllm(Vllm):
    """The same, awaited."""

    async def collective_rpc(self, method, kwargs=None):
        awaited = self.load()
        if awaited is not None:
            await awaited

    async def reset_prefix_cache(self, reset_running_requests):
        return super().reset_prefix_cache(reset_running_requests)

    async def pause_generation(self, mode, clear_cache):
        return

    async def resume_generation(self):
        return


def fails(error):
    def load():
        raise error

    return load


CASES = [
    (fails(OSError("no memory")), True, "OSError: no memory"),
    # An error of ours, raised after loading began, is no refusal of the payload any more.
    (fails(BadPayloadError("torn")), True, "BadPayloadError: torn"),
    (lambda: None, False, "cached prefixes"),
]


@pytest.mark.parametrize("kind", ["in process", "asynchronous"])
@pytest.mark.parametrize(("load", "dropped", "cause"), CASES)
def test_an_update_that_fails_half_way_ends_the_sampler(directory, monkeypatch, kind, load, dropped, cause):
    sampler_of, vllm = (VllmSampler, Vllm) if kind == "in process" else (AsyncVllmSampler, AsyncVllm)
    monkeypatch.setattr(sampler_of, "start_vllm", lambda self: vllm(load, dropped))

    async def go():
        sampler = sampler_of(directory, CONFIG, weight_version=6)
        asks = [lambda: sampler.update_weights(PAYLOAD), lambda: sampler.generate([1, 2], Sampling())]
        for ask in [*asks, lambda: sampler.score([1, 2]), lambda: sampler.update_weights(PAYLOAD)]:
            with pytest.raises(SamplerDiedError, match=rf"weight version 7 stopped half way \(.*{cause}"):
                await ask()
        assert sampler.weight_version == 6

    asyncio.run(go())


@pytest.mark.parametrize("kind", ["in process", "asynchronous"])
def test_a_whole_update_sets_the_version(directory, monkeypatch, kind):
    sampler_of, vllm = (VllmSampler, Vllm) if kind == "in process" else (AsyncVllmSampler, AsyncVllm)
    monkeypatch.setattr(sampler_of, "start_vllm", lambda self: vllm())

    async def go():
        sampler = sampler_of(directory, CONFIG, weight_version=6)
        await sampler.update_weights(PAYLOAD)
        assert sampler.weight_version == 7

    asyncio.run(go())


def test_an_update_whose_engine_dies_ends_although_vllm_never_answers(directory, monkeypatch):
    vllm = AsyncVllm(lambda: asyncio.Event().wait())
    monkeypatch.setattr(AsyncVllmSampler, "start_vllm", lambda self: vllm)

    async def go():
        sampler = AsyncVllmSampler(directory, CONFIG.model_copy(update={"update_timeout_s": 300.0}))
        vllm.errored = True
        with pytest.raises(SamplerDiedError, match=r"version 7 stopped half way \(EngineDeadError"):
            await sampler.update_weights(PAYLOAD)

    asyncio.run(go())


def test_an_update_that_is_given_up_at_its_deadline_ends_the_sampler(directory, monkeypatch):
    monkeypatch.setattr(AsyncVllmSampler, "start_vllm", lambda self: AsyncVllm(lambda: asyncio.Event().wait()))

    async def go():
        sampler = AsyncVllmSampler(directory, CONFIG.model_copy(update={"update_timeout_s": 0.05}))
        with pytest.raises(DeadlinePassedError, match="weight version 7 to be loaded"):
            await sampler.update_weights(PAYLOAD)
        with pytest.raises(SamplerDiedError, match=r"version 7 stopped half way \(it was cancelled\)"):
            await sampler.score([1, 2])

    asyncio.run(go())
