"""Another order of calls: the answer of forward must not depend on earlier calls.

A module may keep memory and numbers from call to call. What is kept must fit each later call: a workspace sized for the
first call is too small for a larger one, and a table cached under too coarse a key belongs to another call.
"""

import random
from typing import Final

from warpsmith.evaluator.judge.evaluation import Evaluation
from warpsmith.evaluator.judge.evidence import claims
from warpsmith.evaluator.judge.recordings_by_form import RecordedForm, made_of_form
from warpsmith.evaluator.judge.stages.correctness_trials import run_trial
from warpsmith.evaluator.judge.stages.unjudged_recordings import judge_replay, with_remark
from warpsmith.evaluator.processes.phases import in_phase
from warpsmith.evaluator.recordings.recording import Recording
from warpsmith.evaluator.reference.draw_plan import PLAIN_NUMBERS
from warpsmith.evaluator.reference.levels import PLAIN
from warpsmith.evaluator.reference.trials import Trial
from warpsmith.evaluator.reference.variability import Learned

REMARK: Final = (
    " (here forward was called on inputs of other shapes or with other plain arguments first, in a process of its own: "
    "what it keeps from call to call must have the size, and be found by the key, of each call)"
)


def run_in_another_order(evaluation: Evaluation, learned: Learned, rng: random.Random) -> None:
    """Record host code on the trials' forms in another order, and judge by a replay what it does differently then.

    It runs in its own process, so that the earlier recordings, and their times, stay as they are.

    Raises:
        CandidateFailedError: what host code does in that order is wrong.
    """
    numbers = any(site.startswith(PLAIN_NUMBERS) and level > PLAIN for site, level in learned.levels.items())
    if numbers and not evaluation.recordings.has_other_numbers():
        # Most often the trial with other plain arguments also has other shapes, so nothing that was kept is used again.
        run_trial(evaluation, Trial("scaled"), learned, rng)
    _judge_in_another_order(evaluation, learned, rng)


@in_phase("correctness")
@claims()
def _judge_in_another_order(evaluation: Evaluation, learned: Learned, rng: random.Random) -> None:
    evaluation.session.reset_state()
    with with_remark(REMARK):
        for form, recording in evaluation.recordings.in_another_order():
            with evaluation.launches.uncounted():
                _replay(evaluation, form, recording, learned, rng)


def _replay(
    evaluation: Evaluation, form: RecordedForm, recording: Recording, learned: Learned, rng: random.Random
) -> None:
    """Replay a recording on plain inputs of its form; CandidateFailedError if the output is wrong."""
    session = evaluation.session
    if not made_of_form(session, form, rng):
        return
    evaluation.recordings.past.fill(recording)
    answer = session.answer(rng.getrandbits(48))
    if not ((learned.finite and not answer.finite) or (learned.half and answer.strays)):
        judge_replay(evaluation, recording, answer)
