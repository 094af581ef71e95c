"""Ranks that share layers or rows train, keep, send and export what one rank does."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import parallel_worker
import pytest
import torch
from adapter_training import plain_logprobs
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from warpsmith.policy.loading import load_policy
from warpsmith.policy.tiny import build_tiny
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.launch.port import free_port
from warpsmith.trainer.weights.consolidate import consolidate


def run_ranks(world: int, model: Path, folder: Path, tensor: int, sequence: int, *cases: str) -> dict[str, Any]:
    """Run the worker as `world` ranks; return what rank 0 found, by case."""
    port = str(free_port())
    command = [sys.executable, parallel_worker.__file__, str(model), str(folder), str(tensor), str(sequence), *cases]
    ranks = [
        subprocess.Popen(
            command,
            env={
                **os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "DS_ACCELERATOR": "cpu",
            },
        )
        for rank in range(world)
    ]  # fmt: skip
    try:
        assert [rank.wait(500) for rank in ranks] == [0] * world
    finally:
        for rank in ranks:
            rank.kill()
    return torch.load(folder / "found.pt", weights_only=False)


@pytest.fixture(scope="session")
def split_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen3 with heads for two ranks, and norms of queries and keys that each of them sees a part of."""
    path = tmp_path_factory.mktemp("model") / "split"
    return build_tiny(path, ["abc def"] * 8, vocab_size=300, layers=2, hidden=128, heads=4, kv_heads=2)


OTHERS = {
    "llama": {"tie_word_embeddings": False},
    "mistral": {"sliding_window": 8, "tie_word_embeddings": False},
    "qwen2": {"tie_word_embeddings": True},
}
"""Architectures beside Qwen3: without norms of heads, with a separate output layer, with biases."""


def other_model(kind: str, like: Path, folder: Path) -> Path:
    """Write a random model of another architecture with the tokenizer of `like`."""
    torch.manual_seed(0)
    sizes = {
        "vocab_size": 300, "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.1,
    }  # fmt: skip
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes, **OTHERS[kind]))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.1)
    shutil.copytree(like, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    model.save_pretrained(folder)
    return folder


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], case: str, share: float = 1e-6) -> None:
    """Check tensors to a share of the largest number in all of them."""
    assert found.keys() == expected.keys()
    scale = max(value.abs().max().item() for value in expected.values())
    assert scale > 1e-3
    for name, value in expected.items():
        gap = (found[name].reshape(value.shape) - value).abs().max().item()
        assert gap <= share * scale + 1e-7, f"{case}: {name} differs by {gap}, the largest number is {scale}"


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    differ = [name for name, value in expected.items() if not torch.equal(found[name], value)]
    assert not differ


def check_gradient(
    model: Path, alone: Ranks, case: str, found: tuple[dict[str, Tensor], dict[str, float]], share: float = 1e-6
) -> None:
    _, _, _, _, preset, seed = case.split(":")
    expected, figures = parallel_worker.gradient(model, alone, "0", "10000", "padded", preset, seed)
    gradients, others = found
    assert_same(gradients, expected, case, share)
    for name in ("loss", "grad_norm", "entropy", "ratio_mean/0"):
        assert others[name] == pytest.approx(figures[name], rel=1e-5, abs=1e-6), name


def check_training(model: Path, alone: Ranks, case: str, found: dict[str, Any], folder: Path) -> None:
    """Compare with one rank, and what was kept, sent and exported with what was trained."""
    _, stage, dtype, what = case.split(":")
    expected = parallel_worker.training(model, alone, folder / "alone", stage, dtype, what)
    stored = {name: value.to(getattr(torch, dtype)) for name, value in load_file(model / "model.safetensors").items()}
    if what == "weights":
        assert_equal(found["start"], stored)
    assert_equal(found["start"], expected["start"])
    assert_equal(found["resumed"], found["gone_on"])
    assert found["apart"] == []
    for sent in ("payload", "streamed"):
        assert_equal(found[sent], found["weights"])
    assert found["announced"] == {
        name: (str(value.dtype).removeprefix("torch."), tuple(value.shape)) for name, value in found["weights"].items()
    }
    exported = folder / "run" / "final_model"
    assert_equal(load_file(exported / "model.safetensors"), found["weights"])
    kept = consolidate(folder / "run", folder / "kept")
    if what == "weights":
        assert_equal(load_file(kept / "model.safetensors"), found["weights"])
    gap = 1e-4 if dtype == "float32" else 0.05
    torch.testing.assert_close(plain_logprobs(load_policy(exported, dtype)), found["logprobs"], atol=gap, rtol=gap)
    torch.testing.assert_close(torch.tensor(found["probe"]), found["logprobs"], atol=gap, rtol=0)
    if dtype == "float32":
        torch.testing.assert_close(found["logprobs"], expected["logprobs"], atol=1e-4, rtol=1e-4)
        assert found["norms"] == pytest.approx(expected["norms"], rel=1e-4)
        assert_same(found["gone_on"], expected["gone_on"], case, 1e-4)
        if what == "weights":
            assert expected["norms"][0] > 1.0, "nothing was clipped"


LAYERS = ("gradient:2:40:padded:dapo:-", "gradient:1:10000:packed:ppo:-", "training:2:float32:weights")
ROWS = (
    *("gradient:3:10000:packed:ppo:-", "gradient:0:40:packed:dapo:1", "gradient:2:40:padded:dapo:-"),
    "training:2:float32:weights",
)
MORE_LAYERS = (
    *("gradient:0:40:padded:ppo:-", "gradient:0:10000:packed:dapo:-", "gradient:1:40:packed:dapo:4"),
    *("training:0:float32:weights", "training:1:float32:weights"),
    *("training:1:bfloat16:weights", "training:2:bfloat16:weights"),
)
MORE_ROWS = (
    *(
        f"gradient:0:{budget}:{layout}:ppo:{seed}"
        for seed in range(10, 20)
        for budget, layout in ((40, "packed"), (40, "padded"), (10000, "packed"))
    ),
    *("gradient:1:40:packed:ppo:-", "gradient:0:10000:packed:dapo:3"),
    *("training:3:float32:weights", "training:1:bfloat16:weights"),
    *("training:2:float32:lora", "training:3:float32:lora"),
)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("sizes", "cases"),
    [
        ((2, 1), LAYERS),
        ((1, 2), ROWS),
        # The same by other stages, dtypes and lengths, and adapters.
        pytest.param((2, 1), MORE_LAYERS, marks=pytest.mark.long),
        pytest.param((1, 2), MORE_ROWS, marks=pytest.mark.long),
        # Two teams of two, and one team that shares both.
        pytest.param((2, 1, 2), LAYERS, marks=pytest.mark.long),
        pytest.param((1, 2, 2), ROWS, marks=pytest.mark.long),
        pytest.param((2, 2), (*LAYERS, "gradient:1:10000:packed:ppo:5"), marks=pytest.mark.long),
    ],
    ids=["layers", "rows", "layers, more", "rows, more", "layers, two teams", "rows, two teams", "layers and rows"],
)
def test_ranks_that_share_compute_what_one_rank_does(
    alone: Ranks, split_model: Path, tmp_path: Path, sizes: tuple[int, ...], cases: tuple[str, ...]
) -> None:
    tensor, sequence, *teams = sizes
    world = tensor * sequence * (teams[0] if teams else 1)
    found = run_ranks(world, split_model, tmp_path, tensor, sequence, *cases)
    check(split_model, alone, found, tmp_path)


def check(model: Path, alone: Ranks, found: dict[str, Any], folder: Path, share: float = 1e-6) -> None:
    for number, (case, what) in enumerate(found.items()):
        if case.startswith("gradient"):
            check_gradient(model, alone, case, what, share)
        else:
            check_training(model, alone, case, what, folder / str(number))


@pytest.mark.slow
@pytest.mark.long  # Qwen3, with norms that the others have not, is in every run.
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("sizes", [(2, 1), (1, 2)], ids=["layers", "rows"])
def test_other_architectures_too(
    alone: Ranks, split_model: Path, tmp_path: Path, kind: str, sizes: tuple[int, int]
) -> None:
    model = other_model(kind, split_model, tmp_path / "model")
    cases = ("gradient:2:40:packed:dapo:-", "training:2:float32:weights")
    # Their larger weights round more: 1.3e-6 was seen.
    check(model, alone, run_ranks(2, model, tmp_path, *sizes, *cases), tmp_path, 3e-6)
