"""Trials: replays of recordings on fresh secret inputs, compared with the reference."""

import random
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Final

from warpsmith.evaluator.judge.evaluation import Evaluation
from warpsmith.evaluator.judge.evidence import Evidence, claims
from warpsmith.evaluator.judge.replays import Delivered
from warpsmith.evaluator.judge.stages.unjudged_recordings import replay_unjudged
from warpsmith.evaluator.processes.failure_attribution import (
    MAX_TEXT,
    CandidateFailedError,
    FallbackError,
    SuspectError,
    WrongFormError,
)
from warpsmith.evaluator.processes.phases import in_phase
from warpsmith.evaluator.recordings.recording import Recording
from warpsmith.evaluator.reference import trials
from warpsmith.evaluator.reference.session import Answer
from warpsmith.evaluator.reference.trials import Trial
from warpsmith.evaluator.reference.variability import Learned


@in_phase("correctness")
def run_trial(evaluation: Evaluation, wanted: Trial, learned: Learned, rng: random.Random) -> None:
    """Prepare one trial, and replay the recordings of its form on it.

    Raises:
        CandidateFailedError: it does not pass.
    """
    trial, answer = trials.prepare(evaluation.session, learned, wanted, rng)
    if trial.reshaped:
        _run_reshaped(evaluation, trial, answer, learned, rng)
    elif not trial.renumbered:
        _replay(evaluation, trial, answer, rng)
    elif _refuses_numbers(evaluation, trial, answer, rng):
        trial, answer = trials.prepare(evaluation.session, learned, replace(wanted, keeps_integers=True), rng)
        _replay(evaluation, trial, answer, rng)
    evaluation.machine.device.release_if_large()


def _refuses_numbers(evaluation: Evaluation, trial: Trial, answer: Answer, rng: random.Random) -> bool:
    """Judge a replay on inputs with other plain integers or truth values; return whether the candidate refuses them."""
    with evaluation.launches.uncounted():
        return _refuses(evaluation, trial, answer, rng, left=trials.REGULAR_WAYS + 1, split=False)


def _run_reshaped(evaluation: Evaluation, trial: Trial, answer: Answer, learned: Learned, rng: random.Random) -> None:
    """Judge a replay on inputs of other shapes, which need not compile: they are not the problem's own.

    Code that raises here, after the problem's own shapes went well, is right for those alone. Where host code refuses
    such a shape or leaves it to torch, or the language cannot form a block of it, more regular ones are drawn: a kernel
    may be made for whole blocks if it says so. The coarsest are drawn twice.
    """
    with evaluation.launches.uncounted():
        most = trials.ways(learned)
        while _refuses(
            evaluation,
            trial,
            answer,
            rng,
            left=most + trial.renumbered - trial.way,
            split=trials.splits(learned, trial.way),
        ):
            # It may be refusing a plain integer: the next try has the sample's, and the same freedom of shapes.
            way = trial.way if trial.renumbered else trial.way + 1
            following = replace(trial, way=way, sizes=None, keeps_integers=True)
            trial, answer = trials.prepare(evaluation.session, learned, following, rng)
            if not trial.reshaped:
                return


def _refuses(
    evaluation: Evaluation, trial: Trial, answer: Answer, rng: random.Random, *, left: int, split: bool
) -> bool:
    """Judge a replay; return whether the candidate refuses these shapes and gets others, in one of the ways `left`.

    An output of another form is a refusal only if the trial has `split` sizes that the problem writes as one number.
    """
    # These are the last ways: code that refuses those too is right for the sample's shapes alone.
    may_refuse = left > trials.REGULAR_WAYS
    flags = set(evaluation.evidence.flags)
    try:
        _replay(evaluation, trial, answer, rng)
    except CandidateFailedError as error:
        failure = error.failure
        if may_refuse and isinstance(error, (WrongFormError, FallbackError) if split else FallbackError):
            evaluation.evidence.flags &= flags
            return True
        remark = f"\n(this trial had {trial.remark})"
        if isinstance(error, WrongFormError):
            raise WrongFormError(f"{failure.message[: MAX_TEXT // 2]}{remark}") from error
        if isinstance(error, FallbackError):
            raise FallbackError(f"{failure.message[: MAX_TEXT // 2]}{remark}") from error
        if failure.status not in {"runtime_error", "compile_error"} or failure.category in _NO_MISTAKES:
            raise
        cannot = evaluation.machine.language.cannot_form(failure.category, failure.message)
        if left and (cannot or (may_refuse and failure.category in _RAISED)):
            return True
        message = f"{failure.message[: MAX_TEXT // 2]}{remark}"
        raise CandidateFailedError("incorrect", failure.category, message) from error
    return False


@claims()
def _replay(evaluation: Evaluation, trial: Trial, answer: Answer, rng: random.Random) -> None:
    """Replay the recordings of the form of the session's inputs; CandidateFailedError if one does not pass."""
    recordings, comparer, evidence = evaluation.recordings, evaluation.comparer, evaluation.evidence
    wrong, configuration, delivered = "", "", None
    for number, (recording, delivered) in enumerate(_replayed(evaluation, answer, rng)):
        # One trial, however many recordings it replays; none if nothing could be replayed.
        evidence.trials += number == 0
        configuration = recording.remark
        if not (trial.reshaped or trial.reordered):
            evidence.note_traffic(delivered.bytes_moved)
        if evidence.trials == 1:
            comparer.learn_usual(delivered.answer)
        wrong = comparer.wrong(delivered)
        if wrong:
            break
    assert delivered is not None
    if not delivered.answer.is_exact:
        evidence.flags.add("no_fp64")
    if evidence.trials == 1:
        evidence.passes_kernelbench = not wrong or comparer.passes_kernelbench(delivered)
    if not wrong:
        found = recordings.try_content(delivered.placed)
        if found.depends:
            raise _depends_on_content(evidence)
        replay_unjudged(evaluation, found.unjudged, rng)
        recordings.note_passed()
        return
    if _turns_out_to_depend_on_content(evaluation, delivered):
        raise _depends_on_content(evidence, wrong)
    remark = f" (this trial had {trial.remark})" if trial.remark else ""
    said = f"{wrong}{remark}{configuration}. {recordings.module.lacks}".rstrip()
    raise CandidateFailedError("incorrect", None, said)


def _replayed(evaluation: Evaluation, answer: Answer, rng: random.Random) -> Iterator[tuple[Recording, Delivered]]:
    """Yield each recording of the form of the session's inputs, and what its replay delivers.

    On a GPU any configuration of an autotuned kernel may be the fastest, and a mistake that one kind of trial shows
    must not need that kind to meet that configuration by chance. The first recording takes turns and is always
    replayed, the others while their share of the spare time lasts. One whose configuration the autotuner skips is left
    out. What is delivered is valid until the next replay.
    """
    recordings, conversation = evaluation.recordings, evaluation.candidate.conversation
    judged: list[Recording] = []
    changed = True
    while changed:
        changed = False
        found, remade = recordings.of_inputs(answer)
        if remade:
            answer = evaluation.session.answer(rng.getrandbits(48))
        for recording in found:
            if any(recording is one for one in judged):
                continue
            if judged and not conversation.has_time_for_replays:
                return
            try:
                with conversation.beyond_limit() if judged else nullcontext():
                    evaluation.launches.await_code(recording.launches)
                    delivered = evaluation.replays.play(recording, answer, garbage=True)
            except CandidateFailedError as error:
                # Bounded by the recordings that may be left out.
                if not recordings.leave_out(recording, error.failure, answer):
                    raise
                changed = True
                break
            judged.append(recording)
            yield recording, delivered


def _turns_out_to_depend_on_content(evaluation: Evaluation, delivered: Delivered) -> bool:
    """Whether host code depends on contents; what it raises meanwhile does not replace the known failure."""
    try:
        return evaluation.recordings.try_content(delivered.placed).depends
    except (CandidateFailedError, SuspectError):
        return False


def _depends_on_content(evidence: Evidence, wrong: str = "") -> CandidateFailedError:
    """Return the failure of host code that acts differently on a trial's values; `wrong`: its replay's error."""
    evidence.flags.add("not_from_kernels")
    seen = (
        f"The launches of forward, replayed on other inputs, give another output: {wrong}."
        if wrong
        else "On the values of a trial, or in the call after it, forward acts differently than on others of the same "
        "shapes: it launches other kernels, or with other arguments or grids, or it raises."
    )
    return CandidateFailedError(
        "rejected",
        None,
        f"{seen} What host code launches depends on the values of its inputs or parameters. What decides the output "
        "must be computed in kernels, from the inputs, parameters and buffers of each call: not in Python, and not "
        "through .item().",
    )


_RAISED: Final = frozenset(
    {"assertion_error", "value_error", "not_implemented_error", "shape_error", "type_error", "index_error"}
    | {"key_error", "runtime_error", "arithmetic_error", "unknown"}
)
"""Categories of errors, its own exceptions included, by which host code says that it was not made for these shapes."""
_NO_MISTAKES: Final = frozenset({"process_error", "segmentation_fault", "memory_fault"})
