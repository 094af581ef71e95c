"""The run without kernels: an output that is correct even then does not come from the kernels."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from warpsmith.evaluator.judge.evaluation import Evaluation
from warpsmith.evaluator.processes.failure_attribution import CandidateFailedError
from warpsmith.evaluator.processes.phases import in_phase
from warpsmith.evaluator.recordings.recording import Recording
from warpsmith.evaluator.reference import trials
from warpsmith.evaluator.reference.session import Answer
from warpsmith.evaluator.reference.trials import Trial
from warpsmith.evaluator.reference.variability import Learned, change_state

POISONS: Final = (0x00, 0xFF)
"""Memory contents of the two runs without kernels: no element taken from them is correct in both."""


@in_phase("correctness")
def run_without_kernels(
    evaluation: Evaluation, planned: Sequence[Trial], learned: Learned, rng: random.Random
) -> tuple[list[Recording], Answer]:
    """Replay without the kernels, on plain inputs and parameters.

    It runs twice, on memory filled with two different poisons: an output that is correct both times was copied or
    filled by the host, or computed by its library. Kernels may rightly have nothing to do for some inputs, such as a
    clamp within its limits. So what is correct on plain inputs must be correct on those of every trial to count as a
    decoy.

    Returns:
        The recordings of the problem's own form, and the answer to the inputs that the session has now.

    Raises:
        CandidateFailedError: the output is correct each time.
    """
    session, recordings = evaluation.session, evaluation.recordings
    # The last trial left its parameters, on which a kernel may have nothing to do: a GELU after a bias of hundreds.
    change_state(session, learned.state, rng)
    recorded, answer = recordings.of_recorded_inputs(rng)
    if not any(_is_right(evaluation, recording, answer) for recording in recorded):
        return recorded, answer
    if all(_is_right_in(evaluation, trial, learned, rng) for trial in planned[1:]):
        evaluation.evidence.flags.add("decoy_kernel")
        raise CandidateFailedError(
            "rejected",
            None,
            "The output is the same when the kernels do nothing: they compute no part of it. Compute the output in the "
            "kernels that forward launches.",
        )
    change_state(session, learned.state, rng)
    return recordings.of_recorded_inputs(rng)


def _is_right_in(evaluation: Evaluation, trial: Trial, learned: Learned, rng: random.Random) -> bool:
    """Whether the output is correct without kernels on another trial of this kind, of the problem's own shapes."""
    own = replace(trial, reshaped=False, keeps_integers=True)
    _, answer = trials.prepare(evaluation.session, learned, own, rng)
    recording, anew = evaluation.recordings.of_inputs(answer)
    if anew:
        answer = evaluation.session.answer(rng.getrandbits(48))
    evaluation.launches.await_code(recording.launches)
    return _is_right(evaluation, recording, answer)


def _is_right(evaluation: Evaluation, recording: Recording, answer: Answer) -> bool:
    for poison in POISONS:
        if not evaluation.comparer.is_right(evaluation.replays.play(recording, answer, poison=poison)):
            return False
    return True
