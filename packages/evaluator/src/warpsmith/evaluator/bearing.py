"""Whether a problem bears a change of its inputs: its reference still answers, with finite and telling numbers."""

import random

from warpsmith.evaluator.reference import Answer, ReferenceFailedError, ReferenceSession


def bearable_answer(session: ReferenceSession, rng: random.Random) -> Answer | None:
    """Return the reference's answer to changed inputs, or None where the problem does not bear the change.

    It does not where the reference raises, gives a number that is not finite, or answers with so much rounding that
    most elements say nothing. Elements that are badly conditioned, or beside a step of the function, have wider bounds
    of their own and take no change back.
    """
    try:
        answer = session.answer(rng.getrandbits(48))
    except ReferenceFailedError:
        return None
    return answer if answer.finite and answer.decidable else None
