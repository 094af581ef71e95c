"""Which way weights take to the samplers: by placement, by what was asked for, and by a trial."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from warpsmith.rollout.errors import DeviceTransferError
from warpsmith.trainer.config import TrainerConfig, load_grpo
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.errors import ConfigError, TransportError
from warpsmith.trainer.weights.transport import Transport, choose

CUDA = 'rollout.sampler.device="cuda"'
LORA = ("policy.lora.rank=8",)


def load(tmp_path: Path, *overrides: str) -> TrainerConfig:
    path = tmp_path / "grpo.toml"
    path.write_text('[run]\ndir = "run"\n[policy]\npath = "model"\n[sync]\ntransport = "auto"\n')
    return load_grpo(path, list(overrides))


def ranks_on(kind: str, monkeypatch: pytest.MonkeyPatch) -> Ranks:
    """Return one rank on a device; a GPU's memory is a stand-in in shared memory."""
    from warpsmith.rollout.samplers.weights.stream import media

    monkeypatch.setattr(media, "slot_memory", lambda device, count, nbytes: media.SharedMemorySlots(count, nbytes))
    return Ranks(0, 1, torch.device(kind), None)


def link(answer: Any) -> Any:
    """Return samplers whose trial ends so."""

    def try_stream(memory: Any, digests: list[int]) -> str | None:
        assert len(memory.slots) == len(digests) == 1
        if isinstance(answer, Exception):
            raise answer
        found: str | None = answer
        return found

    return SimpleNamespace(try_stream=try_stream)


REFUSED = DeviceTransferError("GPU 0 is no peer of GPU 1.", "Set another.")


@pytest.mark.parametrize(
    ("overrides", "device", "answer", "why"),
    [
        ((), "cuda", None, 'sampler.device is "cpu"'),
        ((CUDA,), "cpu", None, "the policy trains on a CPU"),
        ((CUDA, 'rollout.sampler.transport="shared_file"'), "cuda", None, 'sampler.transport is "shared_file"'),
        ((CUDA, *LORA), "cuda", None, "adapters alone are sent"),
        ((CUDA,), "cuda", "sampler 1 is on another host", "sampler 1 is on another host"),
        ((CUDA,), "cuda", REFUSED, "GPU 0 is no peer of GPU 1"),
        ((CUDA, 'sync.transport="host"'), "cuda", AssertionError(), 'sync.transport = "host"'),
    ],
)
def test_weights_go_through_the_host_where_they_must(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overrides: tuple[str, ...], device: str, answer: Any, why: str
) -> None:
    found = choose(load(tmp_path, *overrides), ranks_on(device, monkeypatch), link(answer))
    assert found.kind == "host"
    assert why in str(found)
    assert str(found).startswith("Weights go to the samplers through host memory: ")


@pytest.mark.parametrize("overrides", [(CUDA,), (CUDA, *LORA, 'sync.lora="merged"'), (CUDA, 'sync.transport="device"')])
def test_weights_go_from_gpu_to_gpu_where_a_trial_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overrides: tuple[str, ...]
) -> None:
    found = choose(load(tmp_path, *overrides), ranks_on("cuda", monkeypatch), link(None))
    assert found == Transport("device", "each sampler can read rank 0's memory by CUDA IPC")


@pytest.mark.parametrize(("device", "answer", "why"), [("cpu", None, "trains on a CPU"), ("cuda", REFUSED, "no peer")])
def test_what_was_asked_for_and_cannot_work_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, answer: Any, why: str
) -> None:
    config = load(tmp_path, CUDA, 'sync.transport="device"')
    with pytest.raises(TransportError, match=rf'"device" cannot work: .*{why}.*Remove the key'):
        choose(config, ranks_on(device, monkeypatch), link(answer))


@pytest.mark.parametrize(("overrides", "why"), [((), 'device is "cpu"'), ((CUDA, *LORA), "adapters alone are sent")])
def test_a_file_that_asks_for_it_in_vain_is_refused(tmp_path: Path, overrides: tuple[str, ...], why: str) -> None:
    with pytest.raises(ConfigError, match=rf'sync\.transport = "device" cannot work: .*{why}'):
        load(tmp_path, *overrides, 'sync.transport="device"')
