"""Ranks that share layers or rows train what one rank trains."""

import os
import subprocess
import sys
from pathlib import Path

import gradient_worker
import parallel_worker
import pytest
import torch

from warpsmith.policy.tiny import build_tiny
from warpsmith.trainer.launch.port import free_port


def run_ranks(world: int, *arguments: object) -> None:
    port = str(free_port())
    ranks = [
        subprocess.Popen(
            [sys.executable, parallel_worker.__file__, *map(str, arguments)],
            env={
                **os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "DS_ACCELERATOR": "cpu",
            },
        )
        for rank in range(world)
    ]  # fmt: skip
    try:
        assert [rank.wait(280) for rank in ranks] == [0] * world
    finally:
        for rank in ranks:
            rank.kill()


@pytest.fixture(scope="session")
def split_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A decoder with heads for two ranks; its head of 64 dimensions is that of `tilted_head`."""
    path = tmp_path_factory.mktemp("model") / "split"
    return build_tiny(path, ["abc def"] * 8, vocab_size=300, layers=2, hidden=128, heads=4, kv_heads=2)


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], case: str) -> None:
    assert found.keys() == expected.keys()
    scale = max(value.abs().max().item() for value in expected.values())
    assert scale > 1e-3
    for name, value in expected.items():
        gap = (found[name].reshape(value.shape) - value).abs().max().item()
        assert gap <= 1e-6 * scale + 1e-7, f"{case}: {name} differs by {gap}, largest gradient {scale}"


@pytest.mark.parametrize("sizes", [(2, 1), (1, 2)], ids=["layers", "rows"])
def test_gradient(alone, split_model: Path, tmp_path: Path, sizes: tuple[int, int]) -> None:
    cases = ("2:40:padded:dapo", "1:10000:packed:ppo", "0:40:packed:dapo")
    out = tmp_path / "gradients.pt"
    run_ranks(2, split_model, out, *sizes, *cases)
    for case, (found, other) in torch.load(out).items():
        preset = case.split(":")[-1]
        expected, figures = gradient_worker.gradient(split_model, alone, 0, 10_000, preset=preset)
        assert_same(found, expected, case)
        for name in ("loss", "grad_norm", "entropy"):
            assert other[name] == pytest.approx(figures[name], rel=1e-5, abs=1e-6), name
