"""Replays of recordings that are no trial's: what host code does after other calls than those that trials record."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from warpsmith.evaluator.judge.evaluation import Evaluation
from warpsmith.evaluator.judge.recordings_by_form import made_of_form
from warpsmith.evaluator.processes.failure_attribution import MAX_TEXT, CandidateFailedError
from warpsmith.evaluator.recordings.recording import Recording
from warpsmith.evaluator.reference.session import Answer

AFTER_MORE_CALLS: Final = (
    " (here forward was called more often, also on the values of earlier trials: what it keeps from call to call must "
    "not change what it computes)"
)


def replay_unjudged(evaluation: Evaluation, found: Sequence[Recording], rng: random.Random) -> None:
    """Replay recordings of the session's form, on its inputs, whose trial is over, and on plain ones.

    Raises:
        CandidateFailedError: a replay fails, or its output is wrong.
    """
    session, made_with = evaluation.session, evaluation.session.made_with
    for recording in found:
        form = evaluation.recordings.form_of_inputs()
        with evaluation.launches.uncounted(), with_remark(AFTER_MORE_CALLS):
            evaluation.recordings.past.fill(recording)
            judge_replay(evaluation, recording, session.answer(rng.getrandbits(48)))
            if made_of_form(session, form, rng):
                answer = session.answer(rng.getrandbits(48))
                if answer.finite and not answer.strays:
                    judge_replay(evaluation, recording, answer)
        session.make_again(made_with)


def judge_replay(evaluation: Evaluation, recording: Recording, answer: Answer) -> None:
    """Replay a recording on the session's inputs.

    Raises:
        CandidateFailedError: the replay fails, or its output is wrong.
    """
    recordings = evaluation.recordings
    try:
        evaluation.launches.await_code(recording.launches)
        delivered = evaluation.replays.play(recording, answer, garbage=True)
    except CandidateFailedError as error:
        if recordings.is_skipped(recording, error.failure):
            return
        raise
    wrong = evaluation.comparer.wrong(delivered)
    if wrong:
        said = f"{wrong}{recording.remark}. {recordings.module.lacks}".rstrip()
        raise CandidateFailedError("incorrect", None, said)


@contextmanager
def with_remark(remark: str) -> Iterator[None]:
    """Append a remark to the message of a candidate's failure."""
    try:
        yield
    except CandidateFailedError as error:
        message = f"{error.failure.message[: MAX_TEXT - len(remark)]}{remark}"
        raise CandidateFailedError(error.failure.status, error.failure.category, message) from error
