"""Who is to blame when a device has no memory left."""

import pytest
import torch

from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.judge.evidence import Evidence
from warpsmith.evaluator.judge.judge import Judge
from warpsmith.evaluator.judge.pipeline import ROOM_FOR_CANDIDATE, _memory_ran_out
from warpsmith.evaluator.recordings.recording import Recording
from warpsmith.evaluator.reference.session import ReferenceFailedError

PROBLEM = 100 << 20
FULL = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 6.00 GiB")


def evidence(allocated):
    return Evidence(problem_bytes=PROBLEM, allocated_bytes=allocated)


@pytest.mark.parametrize("allocated", [0, PROBLEM, ROOM_FOR_CANDIDATE * PROBLEM])
def test_a_modest_candidate_is_not_to_blame(allocated):
    with pytest.raises(torch.OutOfMemoryError):
        _memory_ran_out(evidence(allocated), FULL)


def test_one_that_allocates_much_is_and_learns_how_much():
    failure = _memory_ran_out(evidence(700 << 20), FULL)
    assert (failure.status, failure.category) == ("runtime_error", "out_of_memory")
    assert "allocates 700 MiB" in failure.message
    assert "take 100 MiB" in failure.message


def test_other_failures_of_the_reference_are_nobodys_memory():
    error = ReferenceFailedError(
        codec.Fields({"stage": "forward", "trace": "", "type": "ValueError", "message": "shapes differ"})
    )
    with pytest.raises(ReferenceFailedError):
        _memory_ran_out(evidence(700 << 20), error)


def test_a_recording_knows_what_it_allocates():
    events = [["alloc", 1, 512], ["fill", 1, 0], ["const", 2, b"12345678"], ["alloc", 3, 1024]]
    assert Recording(None, events, [], [], "detached").allocated_bytes == 1536


@pytest.mark.parametrize("beside_others", [False, True])
def test_beside_other_judges_no_failure_is_certainly_the_own_one(add_problem, beside_others):
    judge = Judge(EvaluatorConfig(slots=1, ready_workers=1), beside_others=beside_others)
    try:
        with judge.concurrency.shared() as others_ran:
            assert others_ran() == beside_others
        with pytest.raises(torch.OutOfMemoryError), judge.with_all_memory(add_problem):
            raise FULL
        assert judge._too_large == (set() if beside_others else {add_problem.key})
    finally:
        judge.close()
