"""Whether a problem bears a change of its inputs: its reference still answers, with finite and precise numbers."""

import random
from typing import Final

import torch

from warpsmith.evaluator import arenas
from warpsmith.evaluator.compare import RELATIVE
from warpsmith.evaluator.reference import Answer, ReferenceFailedError, ReferenceSession

ROUNDINGS: Final = 4


def bearable_answer(session: ReferenceSession, rng: random.Random) -> Answer | None:
    """Return the reference's answer to changed inputs, or None where the problem does not bear the change."""
    try:
        answer = session.answer(rng.getrandbits(48))
    except ReferenceFailedError:
        return None
    return answer if answer.finite and _well_conditioned(answer) else None


def _well_conditioned(answer: Answer) -> bool:
    """Whether the reference stays close to its fp64 run: a tenth of the tolerance, and a few roundings of its dtype.

    In half precision one rounding of the largest elements alone is more than that tenth.
    """
    for item in answer.expected:
        if item.exact is None or not item.value.numel():
            continue
        relative = RELATIVE[arenas.NAMES[item.value.dtype]]
        rounding = min(ROUNDINGS * torch.finfo(item.value.dtype).eps, relative)
        scale = item.exact.square().mean().sqrt()
        allowed = 0.1 * relative * scale + rounding * (item.exact.abs() + scale)
        if bool(((item.value.double() - item.exact).abs() > allowed).any()):
            return False
    return True
