"""The run without kernels: an output that is correct even then does not come from the kernels."""

import random
from dataclasses import replace
from typing import Final

from warpsmith.evaluator.judge.evaluation import Evaluation
from warpsmith.evaluator.processes.failure_attribution import CandidateFailedError
from warpsmith.evaluator.processes.phases import in_phase
from warpsmith.evaluator.recordings.recording import Recording
from warpsmith.evaluator.reference import trials
from warpsmith.evaluator.reference.session import Answer
from warpsmith.evaluator.reference.variability import Learned, change_state

POISONS: Final = (0x00, 0xFF)
"""Memory contents of the two runs without kernels: no element taken from them is correct in both."""

CHANGED: Final = 6
"""Trials in which a recording that needs no kernel on plain inputs can show that it needs them on others."""


@in_phase("correctness")
def run_without_kernels(evaluation: Evaluation, learned: Learned, rng: random.Random) -> tuple[list[Recording], Answer]:
    """Replay without the kernels, on plain inputs and parameters.

    It runs twice, on memory filled with two different poisons: an output that is correct both times was copied or
    filled by the host, or computed by its library. Kernels may rightly have nothing to do for some inputs, such as a
    clamp within its limits. So a recording that is correct on plain inputs is a decoy unless in some trial its output
    is right with the kernels and wrong without them.

    Returns:
        The recordings of the problem's own form, and the answer to the inputs that the session has now.

    Raises:
        CandidateFailedError: a recording needs no kernel.
    """
    session, recordings = evaluation.session, evaluation.recordings
    # The last trial left its parameters, on which a kernel may have nothing to do: a GELU after a bias of hundreds.
    change_state(session, learned.state, rng)
    recorded, answer = recordings.of_recorded_inputs(rng)
    suspects = [recording for recording in recorded if _is_right(evaluation, recording, answer)]
    if not suspects:
        return recorded, answer
    form = session.inputs
    for trial in trials.plan(CHANGED + 1, rng, learned)[1:]:
        if not suspects:
            break
        own = replace(trial, reshaped=False, keeps_integers=True)
        _, answer = trials.prepare(session, learned, own, rng)
        if session.inputs == form:
            suspects = [one for one in suspects if not _needs_its_kernels(evaluation, one, answer)]
    if suspects:
        evaluation.evidence.flags.add("decoy_kernel")
        raise CandidateFailedError(
            "rejected",
            None,
            "The output is the same when the kernels do nothing: they compute no part of it. Compute the output in the "
            "kernels that forward launches.",
        )
    change_state(session, learned.state, rng)
    return recordings.of_recorded_inputs(rng)


def _needs_its_kernels(evaluation: Evaluation, recording: Recording, answer: Answer) -> bool:
    """Whether an output is wrong without the kernels, and right with them."""
    if _is_right(evaluation, recording, answer):
        return False
    return evaluation.comparer.is_right(evaluation.replays.play(recording, answer, garbage=True))


def _is_right(evaluation: Evaluation, recording: Recording, answer: Answer) -> bool:
    for poison in POISONS:
        if not evaluation.comparer.is_right(evaluation.replays.play(recording, answer, poison=poison)):
            return False
    return True
