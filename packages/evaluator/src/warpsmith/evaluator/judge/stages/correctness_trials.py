"""Trials: a replay of a recording on fresh secret inputs, compared with the reference."""

import random
from dataclasses import replace
from typing import Final

from warpsmith.evaluator.judge.evaluation import Evaluation
from warpsmith.evaluator.judge.evidence import Evidence, claims
from warpsmith.evaluator.processes.failure_attribution import MAX_TEXT, CandidateFailedError
from warpsmith.evaluator.processes.phases import in_phase
from warpsmith.evaluator.reference import trials
from warpsmith.evaluator.reference.session import Answer
from warpsmith.evaluator.reference.trials import Trial

RESHAPINGS: Final = 3
"""How often other shapes are drawn where the language cannot form a block of the last ones."""


@in_phase("correctness")
def run_trial(evaluation: Evaluation, wanted: Trial, learned: trials.Learned, rng: random.Random) -> None:
    """Prepare one trial, and replay a recording of its form on it.

    Raises:
        CandidateFailedError: it does not pass.
    """
    trial, answer = trials.prepare(evaluation.session, learned, wanted, rng)
    if trial.reshaped:
        _run_reshaped(evaluation, trial, answer, learned, rng)
    else:
        _replay(evaluation, trial, answer, rng)
    evaluation.machine.device.release_if_large()


def _run_reshaped(
    evaluation: Evaluation, trial: Trial, answer: Answer, learned: trials.Learned, rng: random.Random
) -> None:
    """Judge a replay on inputs of other shapes, which need not compile: they are none of the problem's own.

    What raises here, after the problem's own shapes went well, is right for these alone. Where the
    language cannot form a block of such a shape, coarser ones are drawn: first rows that a descriptor takes, with any
    number of them, then sizes that all keep their divisibility. One that fails on these too is wrong.
    """
    with evaluation.launches.uncounted():
        for attempt in range(RESHAPINGS):
            if not _fails_to_form_blocks(evaluation, trial, answer, rng, last=attempt + 1 == RESHAPINGS):
                return
            trial, answer = trials.prepare(evaluation.session, learned, replace(trial, kept=attempt + 1), rng)
            if not trial.reshaped:
                return


def _fails_to_form_blocks(
    evaluation: Evaluation, trial: Trial, answer: Answer, rng: random.Random, *, last: bool
) -> bool:
    try:
        _replay(evaluation, trial, answer, rng)
    except CandidateFailedError as error:
        failure = error.failure
        if failure.status not in {"runtime_error", "compile_error"} or failure.category in _NO_MISTAKES:
            raise
        if not last and evaluation.machine.language.cannot_form(failure.category, failure.message):
            return True
        message = f"{failure.message[: MAX_TEXT // 2]}\n(this trial had {trial.remark})"
        raise CandidateFailedError("incorrect", failure.category, message) from error
    return False


@claims()
def _replay(evaluation: Evaluation, trial: Trial, answer: Answer, rng: random.Random) -> None:
    """Replay a recording on the session's inputs; CandidateFailedError if it does not pass."""
    recordings, comparer, evidence = evaluation.recordings, evaluation.comparer, evaluation.evidence
    recording, anew = recordings.of_inputs(answer)
    if anew:
        answer = evaluation.session.answer(rng.getrandbits(48))
    evaluation.launches.await_code(recording.launches)
    delivered = evaluation.replays.play(recording, answer, garbage=True)
    evidence.trials += 1
    if evidence.trials == 1:
        comparer.learn_usual(answer)
    wrong = comparer.wrong(delivered)
    if not answer.is_exact:
        evidence.flags.add("no_fp64")
    if evidence.trials == 1:
        evidence.passes_kernelbench = not wrong or comparer.passes_kernelbench(delivered)
    if not wrong:
        return
    # The next call of an autotuned kernel takes another configuration anyway.
    if not recording.remark and recordings.depends_on_content(delivered.placed):
        raise _depends_on_content(evidence, wrong)
    remark = f" (this trial had {trial.remark})" if trial.remark else ""
    said = f"{wrong}{remark}{recording.remark}. {recordings.module.lacks}".rstrip()
    raise CandidateFailedError("incorrect", None, said)


def _depends_on_content(evidence: Evidence, wrong: str) -> CandidateFailedError:
    evidence.flags.add("not_from_kernels")
    return CandidateFailedError(
        "rejected",
        None,
        f"The launches of forward, replayed on other inputs, give another output: {wrong}. What host code launches "
        "depends on the values of its inputs or parameters. What decides the output must be computed in kernels, "
        "from the inputs, parameters and buffers of each call: not in Python, and not through .item().",
    )


_NO_MISTAKES: Final = frozenset({"process_error", "segmentation_fault", "memory_fault"})
