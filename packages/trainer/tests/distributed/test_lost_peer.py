"""A rank that is gone is reported in a sentence; other failures keep their own."""

import pytest
from torch.distributed import DistNetworkError

from warpsmith.trainer.distributed.lost_peer import is_lost_peer
from warpsmith.trainer.distributed.ranks import peers_needed
from warpsmith.trainer.errors import LaunchError

GLOO = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:25482."


@pytest.mark.parametrize("error", [RuntimeError(GLOO), DistNetworkError("failed to recv, got 0 bytes")])
def test_a_lost_rank_is_reported_with_what_to_do(error: RuntimeError) -> None:
    with pytest.raises(LaunchError, match=r"Another rank of the run has ended.*--resume"), peers_needed():
        raise error


def test_another_failure_is_not_taken_for_it() -> None:
    error = RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)")
    assert not is_lost_peer(error)
    with pytest.raises(RuntimeError, match="shapes") as caught, peers_needed():
        raise error
    assert caught.value is error
