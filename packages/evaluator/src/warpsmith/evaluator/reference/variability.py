"""What the judge learns about a problem before its first trial: how far its numbers, parameters and shapes can vary.

What a problem tolerates is found once, from seeds fixed per problem, so that verdicts are reproducible. A problem in
which nothing can vary is `unvaried`.
"""

import itertools
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import torch

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.ipc.tensor_slots import FLOATING, VARIED_STATE, TensorSlot
from warpsmith.evaluator.reference import mutations, shape_variation, step_memory, varying_forms
from warpsmith.evaluator.reference.cancelling_pairs import APART, pair
from warpsmith.evaluator.reference.draw_plan import (
    INPUTS,
    LISTS,
    MASKS,
    PLAIN_INTEGERS,
    PLAIN_NUMBERS,
    UNSEEN_MASKS,
    VARIED,
    DrawPlan,
)
from warpsmith.evaluator.reference.form import Form
from warpsmith.evaluator.reference.lasting_slices import add_memory
from warpsmith.evaluator.reference.levels import ANY_SIGN, ANYWHERE, FAR, FAR_IN_HALF, IN_RANGE, PLAIN, SAME_SIGN
from warpsmith.evaluator.reference.parameter_rows import set_apart, share_row
from warpsmith.evaluator.reference.rare_inputs import DISCRETE, RareSets, more_sets, rare_sets
from warpsmith.evaluator.reference.session import Answer, ReferenceFailedError, ReferenceSession
from warpsmith.evaluator.reference.shape_variation import AnsweredForm, Resizing
from warpsmith.evaluator.reference.tolerated_changes import tried_answer

MOST_ON_GRID: Final = 1 << 24
"""Maximum elements of inputs on a grid: they need a second run that finds which parts of the answer are exact."""
REMOTE: Final = 17
"""Power of two of the distance of a remote row: beyond the -1e4 and -1e5 that some kernels use for minus infinity."""
REMOTE_AMONG_OTHERS: Final = 14
"""The same where another draw may multiply it: the products stay above the -1e6 of Triton's tutorial."""
MOST_TRIED: Final = 12
"""How many sites are tried one at a time if the problem does not tolerate all of them together."""
HALF: Final = frozenset({"float16", "bfloat16"})
STATE_LEVELS: Final = (ANYWHERE, SAME_SIGN, IN_RANGE)
"""Levels of a parameter: noise of either sign, noise that only adds, factors around one."""
MOST_CALLS: Final = 3
"""How many consecutive calls of a problem are followed to collect its buffers."""
MOST_LATE_CALLS: Final = 128
"""The same for a problem that counts: many optimizers do something every hundredth call."""
MOST_QUIET_CALLS: Final = 24
"""Calls in a row that change nothing, after which none is expected to."""
SMALL: Final = 16
"""Maximum elements of a buffer that may count, or be the state of a state machine."""
COUNTED_IN: Final = 8
"""A float buffer counts if its numbers are multiples of the inverse of this."""
MOST_SECONDS: Final = 1.0
MOST_STATE_BYTES: Final = 16 << 20
"""Time after which, and bytes of buffers beyond which, no further call is followed."""
INFINITY: Final = re.compile(r"\binf\b|\binfinity\b", re.IGNORECASE)
"""A source that writes an infinity means the infinities in its answers."""
COMPARES: Final = re.compile(r"(?<![-<>=])[<>](?![<>])|less|greater")
"""A source that may make a mask by a comparison."""
FAR_BIAS: Final = 2.0**9
"""How far a bias is moved: outputs of layers have a spread of about one half."""
MOST_ALONE: Final = 4
"""How many sites are tried at level `FAR` alone."""
DISCRETE_LEVELS: Final = frozenset({IN_RANGE, SAME_SIGN})
"""Highest levels of draws of integers and of coin tosses."""
MILD_OCTAVES: Final = 0.25


@dataclass(frozen=True)
class Seen:
    """A comparison of two input sets that `get_inputs()` made under different seeds.

    Attributes:
        steady: whether both have the same form.
        alike: whether both have the same content.
    """

    steady: bool
    alike: bool = False


@dataclass(frozen=True)
class Learned:
    """What the judge finds out about a problem before its first trial.

    Attributes:
        levels: highest level of each site that can change, by its name.
        remote: levels of `shifted` trials where the problem ranks, if some rows can be far from the others.
        together: levels with which several draws can be far at once; empty if they cannot, or if there is one draw.
        draws: the sites whose numbers have a size that multiplies: floating draws, but not coin tosses or constants.
        state: highest level of each parameter and buffer that can change, by its name.
        bias: the first bias that can change freely; empty if there is none.
        apart: the parameters in which some rows can be zeros, of one sign, far away, or equal to others.
        reached: its buffers after each of its own first calls, if these change them.
        late: the same after each of many later calls, if the problem counts them.
        turning: those of `late` from which a call wraps a counter, or changes buffers that the call before did not.
        resizings: how the shapes of its inputs can change, the freest way first; empty if they cannot.
        inputs: the form of its inputs; None if that depends on the seed.
        answered: the form of its answer to these, without values.
        finite: whether the reference answers plain inputs with finite numbers.
        half: whether some of its numbers have half precision, and its answer to plain inputs is near the fp64 run.
        ranks: whether it orders numbers: ties then have no defined order.
        decides: whether it compares, orders or rounds numbers that it has rounded.
        on_grid: whether its inputs are small enough to be rounded to multiples of a power of two.
        unvaried: whether nothing differs between trials: no number, no parameter and no shape.
        constant: whether some input is the same in every trial of the sample's shapes.
        discrete: whether some draws are integers or coin tosses.
        masked: whether some draws decide masks.
        rare: seeds of plain input sets whose answers hold rare numbers.
        odd: seeds of plain input sets whose answers hold NaN or an infinity, as few do.
        forms: seeds of plain input sets of other forms than most.
        memory: where the reference shows a memory of early steps that plain numbers do not show; empty if nowhere.
        looked: what `rare` and `odd` are known from; None where the form of its inputs depends on the seed.
    """

    levels: Mapping[str, int] = field(default_factory=dict)
    remote: Mapping[str, int] = field(default_factory=dict)
    together: Mapping[str, int] = field(default_factory=dict)
    state: Mapping[str, int] = field(default_factory=dict)
    bias: str = ""
    apart: tuple[str, ...] = ()
    reached: tuple[Mapping[str, torch.Tensor], ...] = ()
    late: tuple[Mapping[str, torch.Tensor], ...] = ()
    turning: tuple[Mapping[str, torch.Tensor], ...] = ()
    resizings: tuple[Resizing, ...] = ()
    inputs: Form | None = None
    answered: Answer | None = None
    finite: bool = True
    half: bool = False
    ranks: bool = False
    decides: bool = False
    on_grid: bool = False
    unvaried: bool = False
    constant: bool = False
    draws: frozenset[str] = frozenset()
    discrete: bool = False
    masked: bool = False
    rare: tuple[int, ...] = ()
    odd: tuple[int, ...] = ()
    forms: tuple[int, ...] = ()
    memory: tuple[step_memory.Path, ...] = ()
    looked: RareSets | None = None


def learn(session: ReferenceSession, *, hidden_shapes: bool) -> Learned:
    """Return what is known about the session's problem; learned once per session, except rare input sets.

    The random numbers here need not be secret, except those of rare input sets: no candidate sees these inputs.
    """
    if session.learned is None:
        seen = session.seen or _look(session)
        forms = varying_forms.other_forms(session, session.inputs) if seen.steady else ()
        seen = replace(seen, steady=seen.steady and not forms)
        session.learned = replace(_learn(session, seen, hidden_shapes=hidden_shapes), forms=forms)
    else:
        session.learned = _with_more_sets(session, session.learned)
    return session.learned


def _with_more_sets(session: ReferenceSession, learned: Learned) -> Learned:
    """Return what is known after a look at more plain input sets; leaves other inputs behind."""
    if learned.looked is None:
        return learned
    session.reset_state()
    found = more_sets(session, learned.looked)
    finite = learned.finite and not _means_infinity(session, found)
    return replace(learned, rare=found.seeds, odd=found.odd if finite else (), finite=finite, looked=found)


def _means_infinity(session: ReferenceSession, rare: RareSets) -> bool:
    """Whether a problem means the infinities of some answers.

    It may ban a token that makes a phrase repeat: a trial in which it does so is a legitimate one.
    """
    return rare.infinite and bool(INFINITY.search(session.source) and DISCRETE.search(session.source))


def two_seeds(session: ReferenceSession) -> tuple[int, int]:
    """Return the seeds of the two input sets from which a problem is learned; they are fixed per problem."""
    rng = random.Random(f"samples {session.init_seed}")
    return rng.getrandbits(48), rng.getrandbits(48)


def _look(session: ReferenceSession) -> Seen:
    """Make the two input sets and compare them."""
    one, other = two_seeds(session)
    session.make_inputs(one)
    placed, first = session.inputs, tensor_views.content(session.inputs_buffer).clone()
    session.make_inputs(other)
    return seen_of(session, placed, first)


def seen_of(session: ReferenceSession, placed: Form, first: torch.Tensor) -> Seen:
    """Compare the first input set, given by form and content, with the one that is in the arena now."""
    second = tensor_views.content(session.inputs_buffer)
    return Seen(session.inputs == placed, torch.equal(second, first))


def _learn(session: ReferenceSession, seen: Seen, *, hidden_shapes: bool) -> Learned:
    rng = random.Random(f"learn {session.init_seed}")
    session.reset_state()
    session.make_inputs(two_seeds(session)[0])
    found = {site: most for site, most in session.sites.items() if most > PLAIN}
    masks = {site for site in (MASKS, UNSEEN_MASKS) if found.pop(site, PLAIN)}
    masked = MASKS in masks or bool(masks and COMPARES.search(session.source))
    sites = {site: most for site, most in found.items() if not site.startswith((INPUTS, PLAIN_NUMBERS))}
    answer = session.answer(rng.getrandbits(48), exact=False)
    sample = AnsweredForm.of(session.inputs, answer)
    inputs, answered = (sample.inputs, replace(answer, expected=[])) if seen.steady else (None, None)
    on_grid = sum(slot.numel for slot in session.inputs.slots) <= MOST_ON_GRID
    _refuse_written_parameters(session)
    rare = rare_sets(session, sample_finite=answer.finite) if seen.steady else RareSets(finite=answer.finite)
    finite = rare.finite and not _means_infinity(session, rare)
    known = Learned(inputs=inputs, answered=answered, finite=finite, ranks=answer.ranks, on_grid=on_grid)
    known = replace(known, decides=answer.decides, masked=masked)
    known = replace(known, half=_is_near_in_half(session, sample, rng))
    known = replace(known, rare=rare.seeds, odd=rare.odd, looked=rare if seen.steady else None)
    session.reset_state()
    known = replace(known, **_reached(session, answer, rng, finite=finite))
    known = replace(known, state=_tolerated_state(session, known, rng))
    known = replace(known, bias=_first_bias(session, known.state), apart=_set_apart_alone(session, known, rng))
    session.reset_state()
    levels, alone = _tolerated_levels(session, known, sample, sites, rng)
    several = is_far(levels) and sum(most == FAR for most in sites.values()) > 1
    known = replace(known, levels=levels | alone, together=levels if several else {})
    built, constant = _built_levels(session, known, sample, found.keys() - sites.keys(), rng)
    together = {**known.together, **built} if known.together else {}
    known = replace(known, levels={**known.levels, **built}, together=together, constant=constant)
    whole = (site for site, most in sites.items() if most in DISCRETE_LEVELS and not site.startswith(LISTS))
    known = replace(known, discrete=any(levels.get(site, PLAIN) > PLAIN for site in whole))
    known = replace(known, draws=frozenset(site for site, most in sites.items() if most == FAR))
    known = replace(known, remote=_remote_levels(session, known, sample, rng) if answer.ranks else {})
    if seen.steady:
        known = replace(known, memory=_memory(session, known, rng))
    if seen.steady and hidden_shapes:
        known = replace(known, resizings=shape_variation.learn(session, rng, sample, finite=known.finite))
    varied = bool(known.levels or known.state or known.reached or known.resizings)
    return replace(known, unvaried=seen.alike and not varied)


def _memory(session: ReferenceSession, known: Learned, rng: random.Random) -> tuple[step_memory.Path, ...]:
    """Return `Learned.memory`; leaves other inputs behind."""
    session.reset_state()
    remember = partial(change_state, session, known.state, rng, known.reached, lasting=True)
    found = step_memory.learn(session, rng, remember, step_memory.lasting_plans(known.draws, known.levels))
    session.reset_state()
    return found


def _is_near_in_half(session: ReferenceSession, sample: AnsweredForm, rng: random.Random) -> bool:
    """Return `Learned.half`; leaves other inputs behind."""
    slots = [*sample.inputs.slots, *sample.output, *session.parameters.values()]
    if not any(slot.dtype in HALF for slot in slots):
        return False
    answer = tried_answer(session, rng, finite=False)
    return answer is not None and not answer.strays


def _refuse_written_parameters(session: ReferenceSession) -> None:
    """Reject a problem whose forward writes to a parameter: only outputs and buffers are compared.

    Raises:
        BadProblemError: the forward writes to a parameter.
    """
    now, before = tensor_views.content(session.state_buffer), session.constructed_state
    if torch.equal(now, before):
        return
    for name, slot in session.parameters.items():
        place = slice(slot.offset, slot.offset + slot.nbytes)
        if not torch.equal(now[place], before[place]):
            raise BadProblemError(
                f"Model.forward writes to the parameter {name}, and what it writes would not be compared.",
                f"Register {name.rpartition('.')[2]!r} with register_buffer instead of nn.Parameter.",
            )


State = Mapping[str, torch.Tensor]


def _reached(session: ReferenceSession, first: Answer, rng: random.Random, *, finite: bool) -> dict[str, Any]:
    """Return the fields of `Learned` that hold the buffers after the problem's own calls.

    A kernel that computes only the first step of an optimizer is right in every call that starts at step zero, and one
    that forgets where a queue wraps in every call before that. So a problem that counts is called more often. Of its
    later states, one is kept for each content of its counting buffers: a patience that seldom runs out is found as
    often as one that was just reset.
    """
    states: list[State] = []
    known = {**session.kept_buffers}
    for state in _after_calls(session, first, rng, known, finite=finite):
        states.append(state)
        if len(states) == MOST_CALLS and not _counts(states, known):
            break
    session.reset_state()
    if all(_same(state, states[0]) for state in states) and _as_constructed(session, known, states[:1]):
        return {}
    late = states[MOST_CALLS:]
    turning = [late[at] for at in range(len(late) - 1) if _turns(*states[MOST_CALLS + at - 1 :][:3])]
    return {"reached": tuple(states[:MOST_CALLS]), "late": _one_of_each(late, rng), "turning": tuple(turning)}


def _after_calls(
    session: ReferenceSession, first: Answer, rng: random.Random, slots: Mapping[str, TensorSlot], *, finite: bool
) -> Iterator[State]:
    """Yield the buffers after each call, until they stop changing or calls or time run out."""
    answer: Answer | None = first
    end, size = time.monotonic() + MOST_SECONDS, sum(slot.nbytes for slot in slots.values())
    most_quiet, quiet = (MOST_QUIET_CALLS if any(map(_is_machine, slots.values())) else 1), 0
    for number in itertools.count(1):
        if answer is None or (number > MOST_CALLS and not answer.finite and finite):
            return
        after = dict(zip(answer.buffers, answer.expected[len(answer.expected) - len(answer.buffers) :], strict=True))
        state = {name: after[name].value for name in slots if name in after}
        views = {name: tensor_views.view(session.state_buffer, slots[name]) for name in state}
        changed = not all(tensor_views.equal(views[name], value) for name, value in state.items())
        quiet = 0 if changed else quiet + 1
        if quiet == most_quiet:
            return
        for name, value in state.items():
            views[name].copy_(value)
        following = tried_answer(session, rng, finite=False, exact=False)
        if following is None:
            return
        yield state
        answer = following
        late = number >= MOST_CALLS and (time.monotonic() > end or number * size > MOST_STATE_BYTES)
        if late or number == MOST_LATE_CALLS:
            return


def _is_machine(slot: TensorSlot) -> bool:
    """Whether a buffer may be a state machine's seldom-changing state: a few integers or truth values."""
    return slot.numel <= SMALL and slot.dtype.startswith(("int", "uint", "bool"))


def _counts(states: Sequence[State], slots: Mapping[str, TensorSlot]) -> bool:
    """Whether a small buffer holds whole numbers, or floats that step by a fraction: a step, a position, a machine."""
    return any(_is_machine(slot) or _steps(name, states) for name, slot in slots.items() if slot.numel <= SMALL)


def _steps(name: str, states: Sequence[State]) -> bool:
    """Whether a float buffer changed between calls and always held short fractions."""
    values = [state[name] for state in states if name in state]
    short = all(torch.equal(scaled := value.double() * COUNTED_IN, scaled.round()) for value in values)
    return short and any(not tensor_views.equal(value, values[0]) for value in values)


def _same(one: State, other: State) -> bool:
    return all(tensor_views.equal(value, other[name]) for name, value in one.items())


def _as_constructed(session: ReferenceSession, slots: Mapping[str, TensorSlot], states: Sequence[State]) -> bool:
    """Whether states equal the content of the buffers, which are reset now."""
    held = {name: tensor_views.view(session.state_buffer, slot) for name, slot in slots.items()}
    return all(tensor_views.equal(held[name], value) for state in states for name, value in state.items())


def _one_of_each(states: Sequence[State], rng: random.Random) -> tuple[State, ...]:
    """Return a random state for each content of the small buffers, in no order."""
    by_content: dict[tuple[bytes, ...], list[State]] = {}
    for state in states:
        small = (value for value in state.values() if value.numel() <= SMALL)
        content = tuple(value.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes() for value in small)
        by_content.setdefault(content, []).append(state)
    return tuple(rng.choice(alike) for alike in by_content.values())


def _turns(before: State, state: State, after: State) -> bool:
    """Whether the call that starts from `state` does what the one before did not: change other elements, or wrap."""
    changed = [
        {place for name, value in one.items() for place in _changes(name, value, other[name])}
        for one, other in ((before, state), (state, after))
    ]
    wraps = any(_falls(value, after[name]) for name, value in state.items() if value.numel() <= SMALL)
    return wraps or not changed[1] <= changed[0]


def _falls(value: torch.Tensor, after: torch.Tensor) -> bool:
    """Whether an element of a buffer falls, as a counter that wraps does."""
    return not value.is_complex() and bool((tensor_views.computable(after) < tensor_views.computable(value)).any())


def _changes(name: str, one: torch.Tensor, other: torch.Tensor) -> Iterator[tuple[str, int]]:
    """Yield the elements of a small buffer that differ; for a larger one, whether any does."""
    if one.numel() > SMALL:
        if not tensor_views.equal(one, other):
            yield name, 0
        return
    for place, (value, others) in enumerate(zip(one.flatten(), other.flatten(), strict=True)):
        if not tensor_views.equal(value, others):
            yield name, place


def _tolerated_levels(
    session: ReferenceSession, known: Learned, sample: AnsweredForm, sites: Mapping[str, int], rng: random.Random
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the highest level of each site that the problem tolerates, tried for all together, then one by one.

    And the levels of the sites that can be farther while the others are plain.
    """

    def tolerated(levels: Mapping[str, int]) -> bool:
        return all(_tolerates(session, known, sample, DrawPlan(k, levels), rng) for k in ("everything", "shifted"))

    # Far numbers make others underflow to zero, and ties have no defined rank.
    for cap in (ANYWHERE, ANY_SIGN) if known.ranks else (FAR, FAR_IN_HALF, ANYWHERE, ANY_SIGN):
        levels = {site: min(most, cap) for site, most in sites.items()}
        if not sites or tolerated(levels):
            alone = _far_alone(sites, tolerated) if cap in (FAR_IN_HALF, ANYWHERE) and not known.ranks else {}
            return (levels, alone) if cap >= ANYWHERE else (_raised(levels, sites, tolerated), alone)
    found: dict[str, int] = {}
    for site, most in list(sites.items())[:MOST_TRIED]:
        highest = min(most, ANYWHERE)
        level = next((level for level in range(highest, PLAIN, -1) if tolerated({**found, site: level})), PLAIN)
        if level > PLAIN:
            found[site] = level
    return found, {}


def _raised(
    levels: dict[str, int], sites: Mapping[str, int], tolerated: Callable[[dict[str, int]], bool]
) -> dict[str, int]:
    """Let each draw change anywhere if it can: one that tolerates no zero row must not keep others from having one."""
    able = [site for site, most in sites.items() if most >= ANYWHERE]
    for site in able[:MOST_ALONE] if len(able) > 1 else ():
        raised = {**levels, site: ANYWHERE}
        levels = raised if tolerated(raised) else levels
    return levels


def _remote_levels(
    session: ReferenceSession, known: Learned, sample: AnsweredForm, rng: random.Random
) -> dict[str, int]:
    """Return the levels at which rows can be far from the others although the problem ranks; empty if they cannot.

    That must not make numbers equal, as softmax of a far row does: equal numbers have no defined order.
    """
    levels = {site: FAR if site in known.draws else level for site, level in known.levels.items()}
    if levels == known.levels:
        return {}
    draws = DrawPlan("shifted", levels)
    draws = replace(draws, remote=remote_octaves(draws, known))
    answer = tried_answer(session, rng, draws=draws, finite=known.finite, exact=False)
    fits = answer is not None and (known.inputs is None or AnsweredForm.of(session.inputs, answer).resembles(sample))
    return levels if answer is not None and fits and not answer.tied else {}


def _built_levels(
    session: ReferenceSession, known: Learned, sample: AnsweredForm, candidates: Set[str], rng: random.Random
) -> tuple[dict[str, int], bool]:
    """Return the levels of inputs that code builds from constants, and whether an input is the same in every trial.

    A tensor changes only if it is the only one of its kind: a list of lengths may have been computed from a mask.
    """
    same = _same_slots(session, known, rng) if known.inputs is not None else {}
    related = [
        site for site, slot in same.items() if slot.numel > 1 and (slot.dtype not in FLOATING or site in candidates)
    ]
    numbers = [site for site in sorted(candidates) if site.startswith(PLAIN_NUMBERS)]
    levels: dict[str, int] = {}
    for site in [*numbers, *(related if len(related) == 1 else [])]:
        for level in (SAME_SIGN, IN_RANGE) if site.startswith(PLAIN_INTEGERS) else (IN_RANGE,):
            draws = DrawPlan("everything", {**known.levels, **levels, site: level})
            if site in candidates and _tolerates(session, known, sample, draws, rng) and not _is_random(session):
                levels[site] = level
                break
    non_integers = {site for site in numbers if not site.startswith(PLAIN_INTEGERS)}
    return levels, not levels.keys() >= {*same, *non_integers}


def _is_random(session: ReferenceSession) -> bool:
    """Whether a forward draws random numbers on the current inputs, as with a probability or a noise above zero.

    No candidate can draw the same.
    """
    try:
        one, other = (session.answer(seed, exact=False).expected for seed in (1, 2))
    except (BadProblemError, ReferenceFailedError):
        return True
    return not all(tensor_views.equal(a.value, b.value) for a, b in zip(one, other, strict=True))


def _same_slots(session: ReferenceSession, known: Learned, rng: random.Random) -> dict[str, TensorSlot]:
    """Return the input tensors that are the same in three input sets, two of them varied, by their site.

    Most problems have none, as two sets show: inputs can take gigabytes, so no third set is made for those.
    """
    first: dict[int, torch.Tensor] = {}
    same: dict[int, TensorSlot] = {}
    for kind in (*VARIED[:2], "plain"):
        draws = DrawPlan(kind, known.levels)
        if tried_answer(session, rng, draws=draws, finite=False, exact=False) is None:
            return {}
        now = {
            number: tensor_views.view(session.inputs_buffer, slot)
            for number, slot in enumerate(session.inputs.slots)
            if slot.numel and (not first or number in same)
        }
        same = {
            number: session.inputs.slots[number]
            for number, tensor in now.items()
            if not first or tensor_views.equal(first[number], tensor)
        }
        if not same:
            break
        first = first or {number: tensor.clone() for number, tensor in now.items()}
    return {f"{INPUTS}{number}": slot for number, slot in same.items()}


def _far_alone(sites: Mapping[str, int], tolerated: Callable[[dict[str, int]], bool]) -> dict[str, int]:
    """Return the sites that can be far while the others are plain, as they are in a trial."""
    able = [site for site, most in sites.items() if most == FAR]
    return {site: FAR for site in able[:MOST_ALONE] if tolerated({site: FAR})} if len(able) > 1 else {}


def _tolerates(
    session: ReferenceSession, known: Learned, sample: AnsweredForm, draws: DrawPlan, rng: random.Random
) -> bool:
    answer = tried_answer(session, rng, draws=draws, finite=known.finite, exact=False)
    return answer is not None and (known.inputs is None or AnsweredForm.of(session.inputs, answer).resembles(sample))


def _tolerated_state(session: ReferenceSession, known: Learned, rng: random.Random) -> dict[str, int]:
    """Return the highest level of each parameter and buffer, tried for all together, then one by one."""

    def tolerated(levels: Mapping[str, int]) -> bool:
        change_state(session, levels, rng, known.reached)
        return tried_answer(session, rng, finite=known.finite, exact=False) is not None

    levels = dict.fromkeys(_state_slots(session), ANYWHERE)
    if not levels or tolerated(levels):
        return levels
    found: dict[str, int] = {}
    for name in list(levels)[:MOST_TRIED]:
        level = next((level for level in STATE_LEVELS if tolerated({**found, name: level})), PLAIN)
        if level > PLAIN:
            found[name] = level
    rest = dict.fromkeys(list(levels)[MOST_TRIED:], IN_RANGE)
    return {**found, **rest} if rest and tolerated({**found, **rest}) else found


def _set_apart_alone(session: ReferenceSession, known: Learned, rng: random.Random) -> tuple[str, ...]:
    """Return the parameters in which the problem tolerates rows that are set apart, each tried alone."""

    def tolerated(name: str) -> bool:
        change_state(session, known.state, rng)
        return answer_set_apart(session, (name,), rng, finite=known.finite, exact=False) is not None

    able = [name for name, slot in session.parameters.items() if known.state.get(name) == ANYWHERE and slot.numel > 1]
    return tuple(name for name in able[:MOST_TRIED] if tolerated(name))


def answer_set_apart(
    session: ReferenceSession, names: Sequence[str], rng: random.Random, *, finite: bool, exact: bool = True
) -> Answer | None:
    """Set rows of parameters apart, some equal to rows of inputs, and return the answer as `tried_answer` does."""
    generator = session.device.generator(rng.getrandbits(48))
    parameters = [tensor_views.view(session.state_buffer, session.parameters[name]) for name in names]
    for one in parameters:
        set_apart(one, generator)

    def share() -> None:
        inputs = [tensor_views.view(session.inputs_buffer, slot) for slot in session.inputs.slots]
        for one in parameters:
            share_row(one, inputs, generator)

    return tried_answer(session, rng, finite=finite, exact=exact, adapt=share)


def is_far(levels: Mapping[str, int]) -> bool:
    return max(levels.values(), default=PLAIN) >= FAR_IN_HALF


def remote_octaves(draws: DrawPlan, learned: Learned) -> int:
    """Return the power of two of the distance of remote rows; 0 for none.

    There are none where parameters may multiply them: two ways to add up such a product differ by several units in its
    last place, of which an exponential makes a factor.
    """
    if draws.kind != "shifted" or FAR not in draws.levels.values() or learned.state or learned.reached:
        return 0
    return REMOTE if len(learned.draws) == 1 else REMOTE_AMONG_OTHERS


def _state_slots(session: ReferenceSession) -> dict[str, TensorSlot]:
    """Return the slots of the parameters and buffers that change."""
    parameters = {name: slot for name, slot in session.parameters.items() if slot.dtype in VARIED_STATE and slot.numel}
    return parameters | session.varied_buffers


def _first_bias(session: ReferenceSession, levels: Mapping[str, int]) -> str:
    found = (
        name
        for name, slot in session.parameters.items()
        if name.endswith("bias") and len(slot.shape) == 1 and slot.dtype == "float32"
    )
    return next((name for name in found if levels.get(name, PLAIN) == ANYWHERE), "")


def shift_bias(session: ReferenceSession, name: str, rng: random.Random) -> None:
    """Move a bias as a whole far from zero: a variance of what its layer computes must not lose its digits."""
    tensor_views.view(session.state_buffer, session.parameters[name]).add_(rng.choice((-1, 1)) * FAR_BIAS)


def change_state(
    session: ReferenceSession,
    levels: Mapping[str, int],
    rng: random.Random,
    reached: Sequence[Mapping[str, torch.Tensor]] = (),
    *,
    lasting: bool = False,
    paired: bool = False,
) -> None:
    """Reset parameters and buffers to their values after construction, and change them from there.

    `lasting`: whether parameters get what keeps a recurrence's memory.
    `paired`: whether their products with draws of the same plan cancel.
    """
    session.reset_state()
    if reached:
        slots = session.kept_buffers
        for name, value in rng.choice(reached).items():
            tensor_views.view(session.state_buffer, slots[name]).copy_(value)
    if not levels:
        return
    generator = session.device.generator(rng.getrandbits(48))
    for name, slot in _state_slots(session).items():
        tensor, level = tensor_views.view(session.state_buffer, slot), levels.get(name, PLAIN)
        tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        if level == IN_RANGE:
            mutations.scale(tensor, MILD_OCTAVES, generator)
        elif level > PLAIN and name not in session.parameters:
            mutations.vary(tensor, generator)
        elif level > PLAIN:
            remembers = lasting and level == ANYWHERE
            # Weights that are several times as large let the inputs overrule a state.
            grows = bool(rng.getrandbits(1)) and not remembers
            mutations.perturb(tensor, generator, upwards=level == SAME_SIGN, grows=grows)
            if remembers:
                add_memory(tensor, generator)
        if paired and level == ANYWHERE and bool((tensor < 0).any()):
            _cancel(tensor, name, generator)


def _cancel(tensor: torch.Tensor, name: str, generator: torch.Generator) -> None:
    """Make products with a parameter cancel, or with a buffer, and leave a bias as small as what is left of them."""
    pair(tensor, (0, 1), generator, opposite=True)
    if tensor.dim() == 1 and name.endswith("bias"):
        tensor.mul_(APART)
