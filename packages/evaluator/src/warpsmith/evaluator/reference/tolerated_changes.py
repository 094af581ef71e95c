"""Whether a problem tolerates a change of its inputs: its reference still answers, with finite numbers.

The precision of the answer does not matter here: a badly conditioned element gets its own wide bound, and the others
are judged as usual.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.reference.draw_plan import PLAINLY, DrawPlan
from warpsmith.evaluator.reference.session import (
    Answer,
    ReferenceFailedError,
    ReferenceFaultError,
    ReferenceSession,
    memory_ran_out,
)


def tried_answer(
    session: ReferenceSession,
    rng: random.Random,
    sizes: Mapping[str, int] | None = None,
    draws: DrawPlan = PLAINLY,
    *,
    finite: bool = True,
    exact: bool = True,
    adapt: Callable[[], None] | None = None,
) -> Answer | None:
    """Make an input set and return the reference's answer, or None if the problem does not tolerate it.

    A reference that dies (an illegal access, a timeout) is restarted, in its state after construction.

    Args:
        session: the problem.
        rng: draws the seeds.
        sizes: other sizes, by name.
        draws: how the numbers are made.
        finite: whether the answer must be finite.
        exact: whether to compute the fp64 form as well.
        adapt: changes the state to the inputs that were made, before the reference answers.
    """
    answer: Answer | None = None
    with _failing_alone(session):
        session.make_inputs(_inputs_seed(rng), sizes, draws)
        if adapt is not None:
            adapt()
        answer = session.answer(rng.getrandbits(48), exact=exact)
    return answer if answer is not None and (answer.finite or not finite) else None


def answer_on_inputs(
    session: ReferenceSession, seed: int = 0, *, finite: bool = True, exact: bool = False
) -> Answer | None:
    """Return the reference's answer to the inputs in the arena, or None if it fails there, as `tried_answer` does."""
    answer: Answer | None = None
    with _failing_alone(session):
        answer = session.answer(seed, exact=exact)
    return answer if answer is not None and (answer.finite or not finite) else None


def tried_inputs(session: ReferenceSession, seed: int) -> bool:
    """Make the plain input set of `tried_answer` with a generator of this seed; return whether that succeeded."""
    with _failing_alone(session):
        session.make_inputs(inputs_seed(seed))
        return True
    return False


@contextmanager
def _failing_alone(session: ReferenceSession) -> Iterator[None]:
    """Context that swallows a failure of the problem's code, and leaves a working reference."""
    try:
        yield
    except (BadProblemError, ReferenceFailedError) as error:
        if device_is_lost(error):
            session.restart()
    except ReferenceFaultError:
        session.restart()


def inputs_seed(seed: int) -> int:
    """Return the seed of the inputs that `tried_answer` makes with a generator of this seed."""
    return _inputs_seed(random.Random(seed))


def _inputs_seed(rng: random.Random) -> int:
    return rng.getrandbits(48)


def device_is_lost(error: BadProblemError | ReferenceFailedError) -> bool:
    """Whether the failure makes every later step fail: a fault in a kernel destroys the context."""
    return "CUDA error" in str(error) and not memory_ran_out(error)
