"""What a problem's reference computes from seeded inputs, as plain numbers, for comparisons between problems."""

from collections.abc import Sequence
from typing import Any, Final

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.reference.session import Answer, ReferenceSession

MOST_ELEMENTS: Final = 1 << 18
"""Maximum elements of all outputs for one input set: they are sent to the client as numbers."""


def outputs_of(session: ReferenceSession, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
    """Return the outputs of the session's problem for one input set per seed: `shape` and `values` of each tensor.

    Values are doubles in row-major order; booleans are 0 and 1.

    Raises:
        BadProblemError: it returns a complex tensor, or more than MOST_ELEMENTS elements.
    """
    session.reset_state()
    found = []
    for seed in seeds:
        with session.lease.shared():
            session.make_inputs(seed)
            found.append(_plain(session.answer(seed, exact=False)))
    return found


def _plain(answer: Answer) -> list[dict[str, Any]]:
    tensors = [expected.value for expected in answer.expected[: len(answer.expected) - len(answer.buffers)]]
    if any(tensor.is_complex() for tensor in tensors):
        raise BadProblemError("An output is complex.", "Return real tensors.")
    elements = sum(tensor.numel() for tensor in tensors)
    if elements > MOST_ELEMENTS:
        raise BadProblemError(
            f"The outputs have {elements} elements; at most {MOST_ELEMENTS} are returned.", "Return fewer."
        )
    return [
        {"shape": list(tensor.shape), "values": tensor_views.computable(tensor).double().flatten().tolist()}
        for tensor in tensors
    ]
