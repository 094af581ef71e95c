"""Weights of two ranks under every ZeRO stage come out of a stream as they are in the model, or the update fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import stream_worker
import torch

from warpsmith.trainer.launch.port import free_port


@pytest.mark.slow
def test_two_ranks_stream_whole_weights_and_a_fault_leaves_no_rank_waiting(tiny: Path, tmp_path: Path) -> None:
    from warpsmith.policy.loading import load_policy

    out, port = tmp_path / "weights.pt", str(free_port())
    cases = ("0", "1", "2", "3", "3:2")
    ranks = [
        subprocess.Popen(
            [sys.executable, stream_worker.__file__, str(tiny), str(out), *cases],
            env={
                **os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "DS_ACCELERATOR": "cpu",
            },
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        assert [rank.wait(280) for rank in ranks] == [0, 0]
    finally:
        for rank in ranks:
            rank.kill()
    expected = dict(load_policy(tiny, "float32").model.named_parameters())
    assert max(value.nbytes for value in expected.values()) > 3 * stream_worker.BUCKET_BYTES
    found = torch.load(out, weights_only=False)
    assert "arrived damaged" in found.pop("3:2")
    for case, received in found.items():
        for tensors in received:
            assert list(tensors) == list(expected), case
            assert all(torch.equal(tensors[name], value) for name, value in expected.items()), case
