"""Weight transports: what a worker is asked to read, how long it exists, and vLLM itself loading by each of them."""

import asyncio
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file

from warpsmith.records.errors import UsageError
from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.registries import SAMPLERS, TRANSPORTS
from warpsmith.rollout.samplers import WeightPayload
from warpsmith.rollout.samplers.registry import start_sampler
from warpsmith.rollout.samplers.vllm import settings
from warpsmith.rollout.samplers.weights.stream.names import BACKEND, WORKER_EXTENSION
from warpsmith.rollout.samplers.weights.transports.base import WeightTransport, WorkerCall, entered_in_thread
from warpsmith.rollout.samplers.weights.transports.registry import make_transport

TENSORS = {"a": torch.arange(6, dtype=torch.bfloat16).reshape(2, 3), "b": torch.ones(4)}
PAYLOAD = WeightPayload.from_state_dict(7, TENSORS)


def transport(name: str | None = None, device: str = "cpu") -> WeightTransport:
    return make_transport(SamplerConfig(transport=name, device=device))


def test_every_transport_has_the_interface():
    assert TRANSPORTS.names() == ("in_process", "shared_file")
    assert all(isinstance(transport(name), WeightTransport) for name in TRANSPORTS.names())


def test_a_file_holds_the_payload_while_it_is_shipped_and_is_removed_afterwards():
    with transport("shared_file").ship(PAYLOAD) as call:
        assert call.method == "reload_weights"
        folder = Path(call.kwargs["weights_path"])
        loaded = load_file(folder / "model.safetensors")
        assert loaded.keys() == TENSORS.keys()
        assert all(torch.equal(loaded[name], tensor) for name, tensor in TENSORS.items())
    assert not folder.exists()


def test_the_tensors_of_one_process_are_not_copied():
    with transport("in_process").ship(PAYLOAD) as call:
        tensors = dict(call.kwargs["weights_iterator"])
    assert all(torch.equal(tensors[name], tensor) for name, tensor in TENSORS.items())
    start, end = PAYLOAD.data.ctypes.data, PAYLOAD.data.ctypes.data + PAYLOAD.data.nbytes
    assert all(start <= tensor.data_ptr() < end for tensor in tensors.values())


def test_the_device_chooses_a_transport_and_refuses_one_that_cannot_reach_its_workers():
    assert type(transport(device="cpu")) is type(transport("in_process"))
    assert type(transport(device="cuda")) is type(transport("shared_file"))
    with pytest.raises(UsageError, match="on a GPU the workers are other processes"):
        transport("in_process", "cuda")


def test_a_wrong_name_is_refused_by_the_configuration():
    with pytest.raises(ValidationError, match=r"no weight transport `shared_fil`.*Did you mean `shared_file`\?"):
        SamplerConfig(transport="shared_fil")
    with pytest.raises(ValidationError, match=r"no sampler `vlm`; installed are vllm\. Did you mean `vllm`\?"):
        SamplerConfig(type="vlm")
    assert SAMPLERS.names() == ("vllm",)


def test_options_that_nothing_reads_are_refused():
    with pytest.raises(ValidationError, match=r"options \(nodes\) are for a sampler or transport of another package"):
        SamplerConfig(options={"nodes": 2})


def test_vllm_gets_the_workers_extension_of_a_transport(tmp_path):
    class Extended:
        worker_extension = "my_package.workers.Loads"

        def ship(self, payload):
            raise AssertionError("not called")

    config = SamplerConfig()
    assert settings.engine_arguments(tmp_path, config, Extended())["worker_extension_cls"] == Extended.worker_extension
    ours = settings.engine_arguments(tmp_path, config, transport())
    assert (ours["worker_extension_cls"], ours["weight_transfer_config"]) == (WORKER_EXTENSION, {"backend": BACKEND})
    adapters = settings.engine_arguments(tmp_path, SamplerConfig(lora_rank=8), transport())
    assert not {"worker_extension_cls", "weight_transfer_config"} & set(adapters)


def test_what_is_shipped_when_the_wait_is_cancelled_is_removed():
    events = []

    @contextmanager
    def slow():
        events.append("begun")
        time.sleep(0.1)
        events.append("made")
        try:
            yield WorkerCall("load")
        finally:
            events.append("removed")

    async def go():
        async def enter():
            async with entered_in_thread(slow()):
                events.append("entered")

        task = asyncio.create_task(enter())
        while not events:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert events == ["begun", "made", "removed"]


@pytest.mark.slow
def test_vllm_loads_from_a_shared_file_what_it_loads_in_process(tiny_checkpoint):
    from warpsmith.policy.loading import load_policy

    state = load_policy(tiny_checkpoint, dtype="float32").model.state_dict()
    payload = WeightPayload.from_state_dict(1, {name: tensor * 1.1 for name, tensor in state.items()})
    ids = list(range(3, 40))

    async def scores(name):
        config = SamplerConfig(dtype="float32", max_model_len=256, max_sequences=4, transport=name)
        sampler = start_sampler(tiny_checkpoint, config)
        try:
            before = await sampler.score(ids)
            await sampler.update_weights(payload)
            return before, await sampler.score(ids), sampler.weight_version
        finally:
            await sampler.close()

    before, shared, version = asyncio.run(scores("shared_file"))
    assert version == 1
    assert max(abs(a - b) for a, b in zip(before, shared, strict=True)) > 1e-2
    unchanged, in_process, _ = asyncio.run(scores("in_process"))
    assert (before, shared) == (unchanged, in_process)
