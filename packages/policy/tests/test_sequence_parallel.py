"""Rows that several ranks share: parts, and the same figures and gradients as of whole rows."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.policy.sequence_parallel import Split

WORKER = Path(__file__).parent / "support" / "split_worker.py"


@given(st.integers(1, 3), st.integers(1, 40), st.integers(2, 5))
def test_the_parts_of_a_row_are_the_row_and_its_padding(rows: int, width: int, size: int) -> None:
    values = torch.arange(1, rows * width + 1).reshape(rows, width)
    parts = [Split(None, size, index).part(Split(None, size, index).pad(values)) for index in range(size)]
    assert len({part.shape for part in parts}) == 1
    whole = torch.cat(parts, dim=1)
    assert torch.equal(whole[:, :width], values)
    assert whole.shape[1] - width < size
    assert not whole[:, width:].any()


def test_a_copy_in_another_process_has_no_group() -> None:
    """DeepSpeed and checkpointing copy what a forward pass gets; a process group cannot be copied."""
    assert pickle.loads(pickle.dumps(Split(object(), 4, 3))) == Split(None, 4, 3)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_ranks_that_share_rows_compute_what_one_does_and_refuse_models_that_would_not(tmp_path: Path) -> None:
    """Random rows, padded and packed, shared key heads, sliding windows; a layer that mixes tokens is refused."""
    command = [sys.executable, str(WORKER)]
    ranks = [
        subprocess.Popen([*command, str(rank), "2", str(tmp_path / "store")], stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    try:
        said = [rank.communicate(timeout=500)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], said[0][-3000:]
