"""Absolute figures of a correct candidate: the problem's bound, what the kernels use of the chip."""

from typing import TYPE_CHECKING

from warpsmith.evaluator.judge.evaluation import Evaluation
from warpsmith.evaluator.judge.kernel_figures import kernel_figures
from warpsmith.evaluator.judge.stages.timed_calls import steady
from warpsmith.evaluator.processes.phases import in_phase
from warpsmith.evaluator.recordings.recording import Recording

if TYPE_CHECKING:
    from warpsmith.evaluator.reference.session import Answer


@in_phase("correctness")
def note_figures(evaluation: Evaluation, recordings: list[Recording], answer: "Answer") -> None:
    """Note the problem's bound, and the figures of the kernels in the recording that is timed.

    Args:
        evaluation: its session holds inputs of the recordings' form.
        recordings: of the problem's own form.
        answer: the reference's answer to these inputs.
    """
    evidence, machine, recording = evaluation.evidence, evaluation.machine, steady(recordings)
    evidence.bound = evaluation.facts.bound(evaluation.problem, evaluation.session, answer)
    resources = evaluation.launches.resources_of(recording.launches)
    evidence.kernels = kernel_figures(recording.events, resources, machine.config.chip)
