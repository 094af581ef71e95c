"""Whether a problem can tell right from wrong: would it accept a constant, stale, shuffled or partial output?"""

import random
import secrets
from collections.abc import Callable, Iterator
from typing import Final

import torch

from warpsmith.evaluator.correctness.compare import Expected, agrees, compare, floor, near_one
from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.reference import trials
from warpsmith.evaluator.reference.session import Answer, ReferenceSession
from warpsmith.evaluator.reference.variability import seen_of, two_seeds

MOST_SHUFFLED: Final = 1 << 20
"""Up to this many elements are shuffled or ranked; more are reversed or sampled."""

UNDECIDABLE: Final = "any output (rounding its inputs alone changes most elements by half of their magnitude)"

Cheat = Callable[[Expected, Expected], torch.Tensor]
Accepts = Callable[[torch.Tensor, Expected], bool]
"""Whether an output would be accepted as the expected one."""


def _zeros(_first: Expected, second: Expected) -> torch.Tensor:
    return second.value.new_zeros(()).expand(second.value.shape)


def _constant(first: Expected, second: Expected) -> torch.Tensor:
    value = first.value
    if not value.numel():
        return torch.zeros((), dtype=second.value.dtype, device=value.device).expand(second.value.shape)
    middle = torch.complex(_mean(value.real), _mean(value.imag)) if value.is_complex() else _mean(value)
    return middle.to(second.value.dtype).expand(second.value.shape)


def _mean(value: torch.Tensor) -> torch.Tensor:
    wide = value if value.is_floating_point() and value.itemsize > 1 else value.double()
    return wide.nanmean(dtype=torch.float64)


def _stale(first: Expected, second: Expected) -> torch.Tensor:
    return first.value if first.value.shape == second.value.shape else torch.zeros_like(second.value)


def _shuffled(_first: Expected, second: Expected) -> torch.Tensor:
    if second.value.numel() > MOST_SHUFFLED:
        backwards = torch.arange(second.value.numel() - 1, -1, -1, device=second.value.device)
        return _in_order(second.value, backwards)
    cycle = torch.randperm(second.value.numel(), generator=torch.Generator().manual_seed(0))
    # One cycle over all elements: none keeps its place, so only an output of equal elements stays the same.
    order = torch.empty_like(cycle)
    order[cycle] = cycle.roll(1)
    return _in_order(second.value, order)


def _in_order(value: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Return the elements in another order, moved as raw bits: CUDA cannot index unsigned integers or fp8."""
    bits = tensor_views.BITS.get(value.itemsize, value.dtype)
    return value.flatten().view(bits)[order].view(value.dtype).reshape(value.shape)


def _large_only(_first: Expected, second: Expected) -> torch.Tensor:
    value = second.value
    name = tensor_views.NAMES[value.dtype]
    sizes = tensor_views.computable(value).abs()
    some = sizes.flatten()[:: -(-sizes.numel() // MOST_SHUFFLED)].double() if sizes.numel() else sizes
    least = min(near_one(name), float(some.max()) / 2) if sizes.numel() else 0.0
    counted = some[torch.isfinite(some) & (some > max(least, floor(name)))]
    if not counted.numel():
        return value
    bits = value.view(tensor_views.BITS.get(value.itemsize, value.dtype))
    return torch.where(sizes <= float(counted.median()), torch.zeros_like(bits), bits).view(value.dtype)


CHEATS: Final[dict[str, Cheat]] = {
    "all zeros": _zeros,
    "one constant": _constant,
    "the output for other inputs": _stale,
    "its own output shuffled": _shuffled,
    "zeros for the smaller half of its output": _large_only,
}


def audit(session: ReferenceSession) -> str:
    """Return a wrong output that the problem would accept, in words, or an empty string.

    Raises:
        BadProblemError: the reference is not deterministic, or returns no tensor.
    """
    first, second = two_answers(session)
    return next(passing(first, second, as_judged(session, second)), "" if second.decidable else UNDECIDABLE)


def two_answers(session: ReferenceSession) -> tuple[Answer, Answer]:
    """Return the reference's answers to two different input sets, the second still in the session's arena.

    Raises:
        BadProblemError: the reference is not deterministic, or returns no tensor.
    """
    rng = random.Random(secrets.randbits(64))
    one, other = two_seeds(session)
    session.make_inputs(one)
    placed, before = session.inputs, tensor_views.content(session.inputs_buffer).clone()
    first = session.answer(rng.getrandbits(48))
    if not first.expected:
        raise BadProblemError("The reference returns no tensor.", "Return at least one tensor from Model.forward.")
    _check_deterministic(session, first, rng)
    session.make_inputs(other)
    session.seen = seen_of(session, placed, before)
    if session.seen.alike:
        return first, trials.changed_answer(session, rng)
    return first, session.answer(rng.getrandbits(48))


def as_judged(session: ReferenceSession, answer: Answer) -> Accepts:
    """Return the evaluator's own comparison."""
    reduction = session.reduction(answer)
    return lambda got, expected: agrees(got, expected, reduction)


def passing(first: Answer, second: Answer, accepts: Accepts) -> Iterator[str]:
    """Yield the names of the wrong outputs that would be accepted as the second answer."""
    outputs = len(second.expected) - len(second.buffers)
    pairs = list(zip(first.expected, second.expected, strict=False))[:outputs]
    for name, cheat in CHEATS.items():
        if name == "its own output shuffled" and all(two.value.numel() < 2 for _, two in pairs):
            continue
        if all(accepts(cheat(one, two), two) for one, two in pairs):
            yield name


def _check_deterministic(session: ReferenceSession, first: Answer, rng: random.Random) -> None:
    again = session.answer(rng.getrandbits(48))
    reduction = session.reduction(first)
    for one, two in zip(first.expected, again.expected, strict=True):
        if not tensor_views.equal(two.value, one.value) and not compare(two.value, one, reduction).ok:
            raise BadProblemError(
                "The reference returns different outputs for the same input: it uses randomness in forward.",
                "Remove dropout and random numbers from Model.forward, or make them an input.",
            )
