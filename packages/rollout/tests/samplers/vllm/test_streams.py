"""vLLM itself loading weights from a stream, by its weight-transfer API: on a CPU."""

import asyncio

import psutil
import pytest
import torch
from streamed import layout_of, stream

from warpsmith.policy.loading import load_policy
from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.errors import BadPayloadError, DeviceTransferError, SamplerDiedError
from warpsmith.rollout.samplers import Sampling, WeightPayload
from warpsmith.rollout.samplers.base import TakesStreams
from warpsmith.rollout.samplers.registry import start_sampler
from warpsmith.rollout.samplers.vllm import settings
from warpsmith.rollout.samplers.vllm.asynchronous import AsyncVllmSampler
from warpsmith.rollout.samplers.weights.stream.digest import digests_of
from warpsmith.rollout.samplers.weights.stream.media import SharedMemorySlots, host_identity

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CONFIG = SamplerConfig(dtype="float32", max_model_len=256, max_sequences=4)
IDS = list(range(3, 40))


def weights_of(checkpoint, factor, dtype="float32"):
    model = load_policy(checkpoint, dtype=dtype).model
    return {name: parameter.detach() * factor for name, parameter in model.named_parameters()}


def flipped(bucket, memory):
    memory.slots[bucket.slot][17] ^= 1
    return bucket


async def check_that_a_stream_loads_what_a_payload_loads(sampler, tensors):
    before = await sampler.score(IDS)
    running = asyncio.ensure_future(sampler.generate(IDS, Sampling(max_tokens=60, seed=1)))
    receipt = await stream(sampler, tensors, 5)
    streamed = await sampler.score(IDS)
    assert sampler.weight_version == 5
    assert max(abs(a - b) for a, b in zip(before, streamed, strict=True)) > 1e-2
    assert set((await running).weight_versions) <= {0, 5}
    assert min(vars(receipt.seconds).values()) > 0
    await sampler.update_weights(WeightPayload.from_state_dict(6, tensors))
    assert await sampler.score(IDS) == streamed


async def check_that_what_does_not_fit_leaves_the_sampler_as_it_was(sampler, tensors):
    before = await sampler.score(IDS)
    part = dict(list(tensors.items())[1:])
    with pytest.raises(BadPayloadError, match="version 7 lacks"):
        await sampler.begin_stream(layout_of(part, 7, 4096), "shared_memory", [[]])
    missing = [[{"path": "/dev/shm/not-there", "count": 2, "nbytes": 4096}]]
    with pytest.raises(DeviceTransferError, match=r"not-there cannot be mapped"):
        await sampler.begin_stream(layout_of(tensors, 7, 4096), "shared_memory", missing)
    assert (await sampler.score(IDS), sampler.weight_version) == (before, 6)


async def check_a_trial(sampler):
    memory = SharedMemorySlots(2, 4096)
    memory.slots[1].copy_(torch.randint(256, (4096,), dtype=torch.uint8))
    assert await sampler.try_stream(memory.kind, [memory.export()]) == digests_of(memory.slots)
    assert await sampler.stream_host() == host_identity()
    memory.close()


async def check_that_damage_ends_the_sampler(sampler, tensors):
    spoil = lambda bucket, memory: flipped(bucket, memory) if bucket.number == 2 else bucket  # noqa: E731
    with pytest.raises(BadPayloadError, match=r"version 8: the bytes of model.* arrived damaged"):
        await stream(sampler, tensors, 8, spoil=spoil)
    with pytest.raises(SamplerDiedError, match="version 8 stopped half way"):
        await sampler.score(IDS)


def test_vllm_on_a_cpu_loads_streams_and_ends_when_one_is_damaged(tiny_checkpoint):
    tensors = weights_of(tiny_checkpoint, 1.1)

    async def go():
        sampler = start_sampler(tiny_checkpoint, CONFIG)
        assert isinstance(sampler, TakesStreams)
        try:
            await check_that_a_stream_loads_what_a_payload_loads(sampler, tensors)
            await check_that_what_does_not_fit_leaves_the_sampler_as_it_was(sampler, tensors)
            await check_a_trial(sampler)
            await check_that_damage_ends_the_sampler(sampler, tensors)
        finally:
            await sampler.close()

    asyncio.run(go())


class AsyncOnCpu(AsyncVllmSampler):
    """The sampler of GPUs, with its engine in a process of its own, on a CPU."""

    def start_vllm(self):
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        arguments = settings.engine_arguments(self.path, self.config, self._transport)
        return AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))


async def check_that_a_killed_engine_ends_the_update_in_time(sampler, tensors):
    def kill(bucket, memory):
        if bucket.number == 1:
            for process in psutil.Process().children(recursive=True):
                process.kill()
        return bucket

    with pytest.raises(SamplerDiedError, match=r"version 7 stopped half way \(EngineDeadError"):
        await asyncio.wait_for(stream(sampler, tensors, 7, spoil=kill), 30)
    with pytest.raises(SamplerDiedError, match="version 7 stopped half way"):
        await sampler.score(IDS)


@pytest.mark.long  # an engine in its own process starts in 35 s and more; the test above has the protocol
def test_vllm_in_a_process_of_its_own_loads_streams_and_its_death_is_noticed(tiny_checkpoint, monkeypatch):
    settings.set_environment(CONFIG)
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "1")
    monkeypatch.setenv("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    tensors = weights_of(tiny_checkpoint, 1.1)

    async def go():
        sampler = AsyncOnCpu(tiny_checkpoint, CONFIG.model_copy(update={"transport": "shared_file"}))
        try:
            await check_a_trial(sampler)
            receipt = await stream(sampler, tensors, 6)
            assert receipt.verified_bytes > 0
            await check_that_what_does_not_fit_leaves_the_sampler_as_it_was(sampler, tensors)
            await check_that_a_killed_engine_ends_the_update_in_time(sampler, tensors)
        finally:
            await sampler.close()

    asyncio.run(go())
