"""The run without kernels: an output that is correct even then does not come from the kernels."""

from typing import Final

from warpsmith.evaluator.judge.evaluation import Evaluation
from warpsmith.evaluator.processes.failure_attribution import CandidateFailedError
from warpsmith.evaluator.processes.phases import in_phase
from warpsmith.evaluator.recordings.recording import Recording
from warpsmith.evaluator.reference.session import Answer

POISONS: Final = (0x00, 0xFF)
"""Memory contents of the two runs without kernels: no element taken from them is correct in both."""


@in_phase("correctness")
def run_without_kernels(evaluation: Evaluation, recordings: list[Recording], answer: Answer) -> None:
    """Replay without the kernels, on the session's inputs.

    It runs twice, on memory filled with two different poisons: an output that is correct both times was copied or
    filled by the host.

    Raises:
        CandidateFailedError: the output is correct both times.
    """
    for recording in recordings:
        if _is_right(evaluation, recording, answer):
            evaluation.evidence.flags.add("decoy_kernel")
            raise CandidateFailedError(
                "rejected",
                None,
                "The output is the same when the kernels do nothing: they compute no part of it. Compute the "
                "output in the kernels that forward launches.",
            )


def _is_right(evaluation: Evaluation, recording: Recording, answer: Answer) -> bool:
    for poison in POISONS:
        if not evaluation.comparer.is_right(evaluation.replays.play(recording, answer, poison=poison)):
            return False
    return True
