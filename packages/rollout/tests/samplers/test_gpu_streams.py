"""Weights from GPU 0 into vLLM engines on it and on the other GPUs, in processes of their own.

The engines are real, started once. What a stream loads is what a payload loads through host memory.
"""

import asyncio
import json
import os
import subprocess
import sys

import psutil
import pytest
import torch
from pool_streams import stream_to_pool

from warpsmith.policy.loading import load_policy
from warpsmith.rollout.cluster.session import ray_session
from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.errors import BadPayloadError
from warpsmith.rollout.samplers import Sampling, WeightPayload
from warpsmith.rollout.samplers.pool import SamplerPool
from warpsmith.rollout.samplers.ray_actor import RemoteSampler
from warpsmith.rollout.samplers.weights.stream.digest import digests_of
from warpsmith.rollout.samplers.weights.stream.media import CudaIpcSlots, host_identity

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

GPUS = torch.cuda.device_count()
IDS = list(range(3, 40))
CONFIG = SamplerConfig(
    device="cuda", max_model_len=256, max_sequences=4, max_batched_tokens=1024, enforce_eager=True,
    gpu_memory_utilization=0.2, gpu_kv_cache_gib=0.5, start_timeout_s=120.0, update_timeout_s=30.0,
)  # fmt: skip

READS = """
import json, sys, torch
from warpsmith.rollout.samplers.weights.stream.digest import digests_of
from warpsmith.rollout.samplers.weights.stream.media import host_identity, open_slots
kind, export = json.loads(sys.stdin.read(), object_hook=lambda o: bytes.fromhex(o["hex"]) if "hex" in o else o)
slots = open_slots(kind, export, torch.device("cuda:0"))
print(json.dumps([host_identity(), digests_of(slot.to("cuda:0", copy=True) for slot in slots)]))
"""


@pytest.mark.parametrize("gpu", [0, 1], ids=["the same GPU", "another GPU, which does not see the first"])
def test_another_process_reads_slots_on_the_first_gpu(gpu):
    if gpu >= GPUS:
        pytest.skip("needs two GPUs")
    memory = CudaIpcSlots(torch.device("cuda:0"), 2, 3_000_000)
    for slot in memory.slots:
        slot.copy_(torch.randint(256, (3_000_000,), dtype=torch.uint8))
    torch.cuda.synchronize()
    there = json.dumps([memory.kind, memory.export()], default=lambda value: {"hex": value.hex()})
    out = subprocess.run(
        [sys.executable, "-c", READS], input=there, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": str(gpu)},
    )  # fmt: skip
    assert out.returncode == 0, out.stderr[-2000:]
    assert json.loads(out.stdout) == [host_identity(), digests_of(memory.slots)]


@pytest.fixture(scope="module")
def lab(tiny_gpu_checkpoint, tmp_path_factory):
    """An event loop, a pool of one engine on each of the first two GPUs, and weights on GPU 0."""
    model = load_policy(tiny_gpu_checkpoint, dtype="bfloat16").model.to("cuda:0")
    tensors = {name: parameter.detach() for name, parameter in model.named_parameters()}
    logs = tmp_path_factory.mktemp("logs")
    with ray_session(object_store_bytes=512 << 20), asyncio.Runner() as loop:

        async def started():
            members = [
                RemoteSampler(tiny_gpu_checkpoint, CONFIG, name=f"sampler {n}", log=logs / f"sampler-{n}.log")
                for n in range(min(2, GPUS))
            ]
            pool = SamplerPool(members)
            await pool.ready()
            return pool

        pool = loop.run(started())
        yield loop, pool, tensors
        loop.run(pool.close())


@pytest.fixture(scope="module")
def tiny_gpu_checkpoint(tmp_path_factory):
    """Heads of 64: what the attention kernels of a GPU take."""
    from warpsmith.policy.tiny import build_tiny

    corpus = [f"def f{n}(x): return x + {n}" for n in range(200)]
    path = tmp_path_factory.mktemp("model") / "tiny"
    return build_tiny(path, corpus, layers=2, hidden=256, heads=4, kv_heads=2)


def scaled(tensors, factor):
    return {name: tensor * factor for name, tensor in tensors.items()}


async def scores_of(pool):
    return [await sampler.score(IDS) for sampler in pool.samplers]


def test_a_stream_loads_what_a_payload_loads_and_is_verified_in_the_model(lab):
    loop, pool, tensors = lab

    async def go():
        before = await scores_of(pool)
        await pool.update_weights(WeightPayload.from_state_dict(1, scaled(tensors, 1.25)))
        through_host = await scores_of(pool)
        receipts = await stream_to_pool(pool, scaled(tensors, 0.75), 2)
        assert await scores_of(pool) != through_host
        receipts = await stream_to_pool(pool, scaled(tensors, 1.25), 3)
        return before, through_host, await scores_of(pool), receipts

    before, through_host, streamed, receipts = loop.run(go())
    assert streamed == through_host
    assert streamed != before
    assert pool.weight_version == 3
    # Everything, also what vLLM fuses, is compared in the model itself.
    assert [receipt.verified_bytes for receipt in receipts] == [sum(t.nbytes for t in tensors.values())] * len(receipts)


def test_memory_does_not_grow_with_updates(lab):
    loop, pool, tensors = lab

    async def go():
        for _ in range(4):
            await stream_to_pool(pool, tensors, pool.weight_version + 1)

    loop.run(go())
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    loop.run(go())
    torch.cuda.ipc_collect()
    torch.cuda.empty_cache()
    assert (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()) == before


def test_damage_on_the_way_is_found_and_the_engines_recover(lab):
    loop, pool, tensors = lab

    async def flip(bucket, memory):
        if bucket.number == 1:
            memory.slots[bucket.slot][100] ^= 1

    async def go():
        version = pool.weight_version + 1
        with pytest.raises(BadPayloadError, match="arrived damaged"):
            await stream_to_pool(pool, scaled(tensors, 1.25), version, before=flip)
        await stream_to_pool(pool, scaled(tensors, 1.25), version + 1)
        completion = await pool.generate(IDS, Sampling(max_tokens=4))
        assert completion.weight_versions == [version + 1] * len(completion.ids)

    pool.max_restarts = max(sampler.restarts for sampler in pool.samplers) + 2
    loop.run(go())


@pytest.mark.parametrize("moment", ["begin", "bucket"])
def test_an_engine_that_is_killed_is_restarted_with_the_trainers_weights(lab, moment):
    loop, pool, tensors = lab
    victim = pool.samplers[-1]

    async def kill(bucket=None, _memory=None):
        if bucket is not None and bucket.number != 1:
            return
        pid = await victim.actor.__ray_call__.remote(lambda _: os.getpid())
        engines = psutil.Process(pid).children(recursive=True)
        assert engines
        for process in engines:
            process.kill()

    async def go():
        restarts, version = victim.restarts, pool.weight_version + 1
        if moment == "begin":
            await kill()
            await stream_to_pool(pool, scaled(tensors, 0.75), version)
        else:
            await stream_to_pool(pool, scaled(tensors, 0.75), version, before=kill)
        assert victim.restarts == restarts + 1
        assert pool.weight_version == version
        after = await scores_of(pool)
        await pool.update_weights(WeightPayload.from_state_dict(version + 1, scaled(tensors, 0.75)))
        assert await scores_of(pool) == after

    loop.run(go())
