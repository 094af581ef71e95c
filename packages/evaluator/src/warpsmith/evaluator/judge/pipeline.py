"""One evaluation, in the order of judgement: load, record, then replays (trials, run without kernels, timed calls).

Host code runs only to be recorded (`host_execution`). Only replays are judged. They run in a player, a worker that
holds the kernels of the source and none of its host code.
"""

import random
from dataclasses import replace
from typing import Final, NoReturn

import torch

from warpsmith.evaluator import _native
from warpsmith.evaluator.judge.candidate import CandidateUnderTest
from warpsmith.evaluator.judge.evaluation import Evaluation
from warpsmith.evaluator.judge.evidence import Evidence, TransientError, claims
from warpsmith.evaluator.judge.launches import Launches
from warpsmith.evaluator.judge.problem_facts import ProblemFacts
from warpsmith.evaluator.judge.stages.absolute_figures import note_figures
from warpsmith.evaluator.judge.stages.another_order import run_in_another_order
from warpsmith.evaluator.judge.stages.correctness_trials import run_trial
from warpsmith.evaluator.judge.stages.timed_calls import time_calls
from warpsmith.evaluator.judge.stages.without_kernels import run_without_kernels
from warpsmith.evaluator.languages.chips import chip_name
from warpsmith.evaluator.languages.source_language import option_of, other_language, wider_language
from warpsmith.evaluator.processes.failure_attribution import MAX_TEXT, CandidateFailedError, Failure, SuspectError
from warpsmith.evaluator.processes.phases import in_phase
from warpsmith.evaluator.reference import trials
from warpsmith.evaluator.reference.session import ReferenceFailedError, ReferenceSession, memory_ran_out
from warpsmith.evaluator.reference.telling_numbers import written_in
from warpsmith.evaluator.reference.variability import Learned, learn

ROOM_FOR_CANDIDATE: Final = 2
"""A candidate may allocate as many times the bytes of its problem before it is blamed for a full device."""


def conduct(
    session: ReferenceSession,
    candidate: CandidateUnderTest,
    launches: Launches,
    count: int,
    rng: random.Random,
    *,
    known: tuple[str, ProblemFacts],
) -> Evidence:
    """Judge a candidate against a reference session; compile its launches meanwhile.

    Args:
        session: the problem's.
        candidate: a new one.
        launches: an empty collection.
        count: number of trials.
        rng: draws every secret.
        known: the problem's key, and what is kept about problems.

    Raises:
        TransientError: a failure that others on this machine may have caused; it carries the evidence.
    """
    evidence, killed = candidate.evidence, None
    try:
        with Evaluation.open(session, candidate, launches, *known) as evaluation:
            _judge(evaluation, count, rng)
    except CandidateFailedError as failed:
        evidence.failure = _with_remark(failed.failure, candidate)
    except SuspectError as failed:
        evidence.failure, killed = failed.failure, failed.killed
    except (torch.OutOfMemoryError, _native.NativeError, ReferenceFailedError) as failed:
        evidence.failure, killed = _memory_ran_out(evidence, failed), False
    if launches:
        launches.settle()
        evidence.compilation = launches.result()
    if killed is not None:
        raise TransientError(evidence, killed=killed)
    return evidence


def _judge(evaluation: Evaluation, count: int, rng: random.Random) -> None:
    """Run one stage after the other; the first failure ends the evaluation."""
    evidence, launches, lease = evaluation.evidence, evaluation.launches, evaluation.machine.lease
    _check_language(evaluation)
    _load(evaluation)
    learned = _learn(evaluation)
    if learned.unvaried:
        evidence.flags.add("unvaried")
    if learned.constant:
        evidence.flags.add("constant_input")
    planned = trials.plan(count, rng, learned, written_in(evaluation.candidate.source))
    with lease.shared():
        planned = _record(evaluation, learned, planned, rng)
    if not evaluation.machine.runs_kernels:
        _end_undecided(evaluation, rng)
    for trial in planned:
        with lease.shared():
            run_trial(evaluation, trial, learned, rng)
        launches.start()
    with lease.shared():
        run_in_another_order(evaluation, learned, rng)
    launches.settle()
    _leave_out_uncompiled(evaluation, learned, planned, rng)
    evidence.replayed = True
    with lease.shared():
        recordings, answer = run_without_kernels(evaluation, learned, rng)
    evaluation.recordings.end()
    if launches.result().ok:
        note_figures(evaluation, recordings, answer)
    if evaluation.machine.device.kind.times and evaluation.candidate.config.timing and launches.result().ok:
        time_calls(evaluation, recordings, answer, rng)


def _leave_out_uncompiled(
    evaluation: Evaluation, learned: Learned, planned: list[trials.Trial], rng: random.Random
) -> None:
    """Drop configurations of autotuned kernels that do not compile, if others do.

    The rest is judged in all trials once more: in earlier trials, the dropped ones may have taken its turns. Only a few
    of all configurations were recorded; if none of them compiles, others take their place.
    """
    while True:
        with evaluation.machine.lease.shared():
            if not evaluation.recordings.leave_out_uncompiled(rng):
                return
        for trial in planned:
            with evaluation.machine.lease.shared():
                run_trial(evaluation, trial, learned, rng)


def _check_language(evaluation: Evaluation) -> None:
    """End the evaluation of a candidate in another language: every later message would be irrelevant."""
    own = evaluation.machine.language
    other = other_language(evaluation.candidate.source, own)
    if other is not None:
        evaluation.evidence.flags.add("other_language")
        raise CandidateFailedError(
            "compile_error",
            "parse_error",
            f"The candidate is written in {other.title}, and this evaluator judges {own.title}. Write "
            f"{own.kernel_form}, or let it be judged with {option_of(other)}.",
        )


BUILDING: Final = ("Ninja", "load_inline(", "cpp_extension")
"""Text in the message about a build that another language would make."""


def _with_remark(failure: Failure, candidate: CandidateUnderTest) -> Failure:
    """Prefix a failure's message with the language that takes both kinds of kernels that a candidate has.

    Most often the failed part is one that this language does not take, and its own message names no remedy.
    """
    wider = wider_language(candidate.source, candidate.machine.language)
    if wider is None or failure.status not in {"runtime_error", "compile_error"}:
        return failure
    candidate.evidence.flags.add("other_language")
    own = candidate.machine.language.title
    remark = (
        f"The candidate uses {wider.title} beside {own}, and this evaluator judges {own} alone. Let it be judged with "
        f"{option_of(wider)}, which takes both."
    )
    if any(word in failure.message for word in BUILDING):
        # It says what this process lacks for building, which is not what the candidate needs.
        return replace(failure, message=remark)
    remark += " What failed here: "
    return replace(failure, message=f"{remark}{failure.message[: MAX_TEXT - len(remark)]}")


@in_phase("correctness")
def _load(evaluation: Evaluation) -> None:
    """Let host code construct the module."""
    evaluation.recordings.load()


@in_phase("correctness")
def _learn(evaluation: Evaluation) -> Learned:
    """Learn how the problem's inputs can vary, from the state as constructed: other evaluations may have changed it.

    Not before the module is constructed, which needs no device where host code has none.
    """
    with evaluation.machine.lease.shared():
        evaluation.session.reset_state()
        return learn(evaluation.session, hidden_shapes=evaluation.candidate.config.hidden_shapes)


@in_phase("correctness")
@claims()
def _record(
    evaluation: Evaluation, learned: Learned, planned: list[trials.Trial], rng: random.Random
) -> list[trials.Trial]:
    """Record the problem's own form of inputs; other forms are recorded when a trial first uses them.

    Where replays wait for code, the shapes of one trial are chosen and recorded as well: they take a compilation of
    their own, which then runs alongside the first one.

    Returns:
        The planned trials, one of them possibly with its sizes.
    """
    if learned.answered is not None:
        evaluation.recordings.record_before_trials(learned.answered, learned.inputs, rng)
    number = next((number for number, trial in enumerate(planned) if trial.reshaped), None)
    if number is None or not evaluation.launches.load_code:
        return planned
    trial, answer = trials.foresee(evaluation.session, learned, planned[number], rng)
    if answer is not None:
        with evaluation.launches.uncounted():
            evaluation.recordings.record_early(answer)
    # The same sizes for all, so that they take one recording and one compilation.
    shared = trials.shares_sizes
    return [replace(one, sizes=trial.sizes) if shared(learned, one, trial) else one for one in planned]


@in_phase("correctness")
@claims()
def _end_undecided(evaluation: Evaluation, rng: random.Random) -> NoReturn:
    """End if nothing can replay a recording: all that is known is that host code records and that kernels compile."""
    with evaluation.machine.lease.shared():
        evaluation.recordings.of_recorded_inputs(rng)
    language, machine = evaluation.machine.language, evaluation.machine
    raise CandidateFailedError(
        "undecided",
        "needs_device",
        f"The kernels compile for {chip_name(machine.config.chip)} and forward launches them. Whether they are right "
        f"only a GPU can tell: nothing here runs {language.title}.",
    )


def _memory_ran_out(evidence: Evidence, error: Exception) -> Failure:
    """Return the failure of a candidate that allocates much, when the judge or the reference runs out of memory.

    A solution needs its outputs, and may use as much again as the whole problem takes: a problem that leaves no room
    for that is too large for the device, for any solution.

    Raises:
        Exception: `error`, if it is about something else or the candidate allocates no more than that.
    """
    if not memory_ran_out(error) or evidence.allocated_bytes <= ROOM_FOR_CANDIDATE * evidence.problem_bytes:
        raise error
    message = (
        f"The device's memory ran out: {error}. The candidate allocates {evidence.allocated_bytes / 2**20:,.0f} MiB, "
        f"the problem's inputs and outputs take {evidence.problem_bytes / 2**20:,.0f} MiB. Allocate less."
    )
    return Failure("runtime_error", "out_of_memory", message[:MAX_TEXT])
