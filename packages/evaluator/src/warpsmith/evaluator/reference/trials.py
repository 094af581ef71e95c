"""What each correctness trial changes, so that no cached or sample-specific result passes.

The first trial uses plain inputs and the constructor's parameters. Each later one has other parameters and buffers,
and, in random order, numbers beyond the sample's (docs/evaluator-design.md) or inputs of other shapes. What a problem
tolerates is found once, from seeds fixed per problem, so that verdicts are reproducible.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final

import torch

from warpsmith.evaluator.correctness.compare import FAR_RELATIVE, FARTHEST_RELATIVE, REMOTE_RELATIVE
from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.ipc.tensor_slots import FLOATING, TensorSlot
from warpsmith.evaluator.reference import mutations, shape_variation
from warpsmith.evaluator.reference.draw_plan import (
    ANY_SIGN,
    ANYWHERE,
    FAR,
    FAR_IN_HALF,
    IN_RANGE,
    INPUTS,
    LISTS,
    PLAIN,
    PLAIN_NUMBERS,
    PLAINLY,
    SAME_SIGN,
    SIGNED,
    VARIED,
    WITHOUT_TIES,
    DrawPlan,
    Kind,
)
from warpsmith.evaluator.reference.session import Answer, Placed, ReferenceSession
from warpsmith.evaluator.reference.shape_variation import Form, Resizing
from warpsmith.evaluator.reference.tolerated_changes import tried_answer

DRAWS: Final[Mapping[Kind, str]] = {
    "shifted": "numbers of other sign and size",
    "scaled": "numbers of another size",
    "outliers": "a few large numbers among the others",
    "rows": "rows of zeros and rows that are nearly constant",
    "small": "small rows and columns",
    "distant": "numbers far from zero beside their spread",
}
ON_GRID: Final = "numbers rounded to multiples of a power of two, some of them exactly on a boundary or equal"
GRID_KIND: Final[Kind] = "outliers"
"""The kind of the trials whose numbers are rounded to a grid: most of its numbers stay as get_inputs() makes them."""
MOST_ON_GRID: Final = 1 << 24
"""Most elements of inputs on a grid: they need a second run that finds which parts of the answer are exact."""
GOES_FAR: Final = frozenset({"outliers", "rows", "shifted", "distant"})
REMOTE: Final = 17
"""Power of two of the distance of a remote row: beyond the -1e4 and -1e5 that some use for minus infinity."""
REMOTE_AMONG_OTHERS: Final = 14
"""The same where another draw may multiply it: the products stay above the -1e6 of Triton's tutorial."""
NO_PROMISE: Final = "inputs with {}: the range of get_inputs() is not promised"
OTHER_ORDER: Final = "the integers of lists that get_inputs() writes in another order"
CHANGED_STATE: Final = (
    "parameters or buffers changed after construction: derive nothing from them in the constructor or in an earlier "
    "call, and take no step, position or flag of the module for a constant"
)
REBUILT: Final = "other values in masks, positions or numbers that get_inputs() builds of constants: read them"
OTHER_SHAPES: Final = "inputs of other shapes, {}: take every size from the inputs, hard-code none"
RESHAPINGS: Final = 2
OPPOSED: Final = (0, 0, 1, 2)
"""Which of several draws take the other sign. Products of two negative draws are positive, and those of a negative and
a positive one negative: a maximum of products that starts at zero shows in the latter, a lost digit in the former."""
REGULAR_WAYS: Final = 2
"""The last ways of changing shapes: a kernel that refuses those as well is right for the sample's shapes alone."""
INDEX: Final = "int64"
"""The dtype of indices in torch."""
MOST_TRIED: Final = 12
"""How many sites are tried one at a time if the problem does not tolerate all of them together."""
STATE_LEVELS: Final = (ANYWHERE, SAME_SIGN, IN_RANGE)
"""Levels of a parameter: noise of either sign, noise that only adds, factors around one."""
MOST_CALLS: Final = 3
"""How many consecutive calls of a problem are followed to collect its buffers."""
MOST_ALONE: Final = 4
"""How many sites are tried at level `FAR` alone."""
NUMBER_BITS: Final = 48
MILD_OCTAVES: Final = 0.25


@dataclass(frozen=True)
class Trial:
    """One trial: how its inputs are made, and whether parameters change before it.

    Attributes:
        kind: how the numbers of the inputs are made.
        new_parameters: whether parameters and buffers differ from the constructor's.
        reshaped: whether the inputs have other shapes than the sample's.
        way: which of the learned ways its shapes change; 0 is the freest.
        sizes: the changed sizes by name, if they are chosen in advance.
        reordered: whether literal lists of integers are reordered.
        rebuilt: whether inputs that get_inputs() builds of constants have other values.
        on_grid: whether floating draws are multiples of a power of two.
        shapes: the changed shapes, once they are made.
    """

    kind: Kind = "plain"
    new_parameters: bool = False
    reshaped: bool = False
    way: int = 0
    sizes: Mapping[str, int] | None = None
    reordered: bool = False
    rebuilt: bool = False
    on_grid: bool = False
    shapes: str = ""

    @property
    def remark(self) -> str:
        """What a kernel author should know about this trial; empty for an ordinary one."""
        remarks = [
            OTHER_SHAPES.format(self.shapes) if self.reshaped else "",
            CHANGED_STATE if self.new_parameters else "",
            NO_PROMISE.format(DRAWS[self.kind]) if self.kind in DRAWS else "",
            ON_GRID if self.on_grid else "",
            OTHER_ORDER if self.reordered else "",
            REBUILT if self.rebuilt else "",
        ]
        return "; and ".join(filter(None, remarks))


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
        draws: the sites whose numbers have a size that multiplies: floating draws, but not coin tosses or constants.
        state: highest level of each parameter and buffer that can change, by its name.
        reached: its buffers after each of its own calls, if these change them.
        resizings: how the shapes of its inputs can change, the freest way first; empty if they cannot.
        inputs: the form of its inputs; None if that depends on the seed.
        answered: the form of its answer to these, without values.
        finite: whether the reference answers plain inputs with finite numbers.
        ranks: whether it orders numbers, or answers with int64, as picks do: ties then have no defined order.
        on_grid: whether its inputs are small enough to be rounded to multiples of a power of two.
        unvaried: whether nothing differs between trials: no number, no parameter and no shape.
        constant: whether some input is the same in every trial of the sample's shapes.
    """

    levels: Mapping[str, int] = field(default_factory=dict)
    remote: Mapping[str, int] = field(default_factory=dict)
    state: Mapping[str, int] = field(default_factory=dict)
    reached: tuple[Mapping[str, torch.Tensor], ...] = ()
    resizings: tuple[Resizing, ...] = ()
    inputs: Placed | None = None
    answered: Answer | None = None
    finite: bool = True
    ranks: bool = False
    on_grid: bool = False
    unvaried: bool = False
    constant: bool = False
    draws: frozenset[str] = frozenset()


def learn(session: ReferenceSession, *, hidden_shapes: bool) -> Learned:
    """Return what is known of the session's problem; learned once per session.

    The random numbers here need not be secret: no candidate sees these inputs.
    """
    if session.learned is None:
        seen = session.seen or _look(session)
        session.learned = _learn(session, seen, hidden_shapes=hidden_shapes)
    return session.learned


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


def seen_of(session: ReferenceSession, placed: Placed, first: torch.Tensor) -> Seen:
    """Compare the first input set, given by form and content, with the one that is in the arena now."""
    second = tensor_views.content(session.inputs_buffer)
    return Seen(session.inputs == placed, torch.equal(second, first))


def _learn(session: ReferenceSession, seen: Seen, *, hidden_shapes: bool) -> Learned:
    rng = random.Random(f"learn {session.init_seed}")
    session.reset_state()
    session.make_inputs(two_seeds(session)[0])
    found = {site: most for site, most in session.sites.items() if most > PLAIN}
    sites = {site: most for site, most in found.items() if not site.startswith((INPUTS, PLAIN_NUMBERS))}
    answer = session.answer(rng.getrandbits(48), exact=False)
    sample = Form.of(session.inputs, answer)
    ranks = answer.ranks or any(slot.dtype == INDEX for slot in sample.output)
    inputs, answered = (sample.inputs, replace(answer, expected=[])) if seen.steady else (None, None)
    on_grid = sum(slot.numel for slot in session.inputs.slots) <= MOST_ON_GRID
    known = Learned(inputs=inputs, answered=answered, finite=answer.finite, ranks=ranks, on_grid=on_grid)
    _refuse_written_parameters(session)
    known = replace(known, reached=_reached(session, answer, rng))
    known = replace(known, state=_tolerated_state(session, known, rng))
    session.reset_state()
    known = replace(known, levels=_tolerated_levels(session, known, sample, sites, rng))
    built, constant = _built_levels(session, known, sample, found.keys() - sites.keys(), rng)
    known = replace(known, levels={**known.levels, **built}, constant=constant)
    known = replace(known, draws=frozenset(site for site, most in sites.items() if most == FAR))
    known = replace(known, remote=_remote_levels(session, known, sample, rng) if answer.ranks else {})
    if seen.steady and hidden_shapes:
        known = replace(known, resizings=shape_variation.learn(session, rng, sample, finite=known.finite))
    varied = bool(known.levels or known.state or known.reached or known.resizings)
    return replace(known, unvaried=seen.alike and not varied)


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


def _reached(session: ReferenceSession, first: Answer, rng: random.Random) -> tuple[dict[str, torch.Tensor], ...]:
    """Return the buffers after each of the problem's own calls; empty if calls do not change them.

    A kernel that computes only the first step of an optimizer is right in every call that starts at step zero.
    """
    states: list[dict[str, torch.Tensor]] = []
    slots, answer = session.kept_buffers, first
    while len(states) < MOST_CALLS:
        after = dict(zip(answer.buffers, answer.expected[len(answer.expected) - len(answer.buffers) :], strict=True))
        state = {name: after[name].value for name in slots if name in after}
        views = {name: tensor_views.view(session.state_buffer, slots[name]) for name in state}
        if all(tensor_views.equal(views[name], value) for name, value in state.items()):
            break
        states.append(state)
        for name, value in state.items():
            views[name].copy_(value)
        found = tried_answer(session, rng, finite=False, exact=False)
        if found is None:
            states.pop()
            break
        answer = found
    session.reset_state()
    return tuple(states)


def _tolerated_levels(
    session: ReferenceSession, known: Learned, sample: Form, sites: Mapping[str, int], rng: random.Random
) -> dict[str, int]:
    """Return the highest level of each site that the problem tolerates, tried for all together, then one by one."""

    def tolerated(levels: Mapping[str, int]) -> bool:
        return all(_tolerates(session, known, sample, DrawPlan(k, levels), rng) for k in ("everything", "shifted"))

    # Far numbers make others underflow to zero, and ties have no defined rank.
    for cap in (ANYWHERE, ANY_SIGN) if known.ranks else (FAR, FAR_IN_HALF, ANYWHERE, ANY_SIGN):
        levels = {site: min(most, cap) for site, most in sites.items()}
        if not sites or tolerated(levels):
            far = _far_alone(sites, tolerated) if cap in (FAR_IN_HALF, ANYWHERE) and not known.ranks else {}
            return levels | far
    found: dict[str, int] = {}
    for site, most in list(sites.items())[:MOST_TRIED]:
        highest = min(most, ANYWHERE)
        level = next((level for level in range(highest, PLAIN, -1) if tolerated({**found, site: level})), PLAIN)
        if level > PLAIN:
            found[site] = level
    return found


def _remote_levels(session: ReferenceSession, known: Learned, sample: Form, rng: random.Random) -> dict[str, int]:
    """Return the levels with which rows can be far from the others though the problem ranks; empty if they cannot.

    That must not make numbers equal, as softmax of a far row does: equal numbers have no defined order.
    """
    levels = {site: FAR if site in known.draws else level for site, level in known.levels.items()}
    if levels == known.levels:
        return {}
    draws = DrawPlan("shifted", levels)
    draws = replace(draws, remote=_remote(draws, known))
    answer = tried_answer(session, rng, draws=draws, finite=known.finite, exact=False)
    fits = answer is not None and (known.inputs is None or Form.of(session.inputs, answer).resembles(sample))
    return levels if answer is not None and fits and not answer.tied else {}


def _built_levels(
    session: ReferenceSession, known: Learned, sample: Form, candidates: Set[str], rng: random.Random
) -> tuple[dict[str, int], bool]:
    """Return the levels of inputs that code builds of constants, and whether an input remains the same in every trial.

    A tensor changes only if it is the only one of its kind: a list of lengths may have been computed from a mask.
    """
    same = _same_slots(session, known, rng) if known.inputs is not None else {}
    related = [
        site for site, slot in same.items() if slot.numel > 1 and (slot.dtype not in FLOATING or site in candidates)
    ]
    numbers = [site for site in sorted(candidates) if site.startswith(PLAIN_NUMBERS)]
    levels: dict[str, int] = {}
    for site in [*numbers, *(related if len(related) == 1 else [])]:
        draws = DrawPlan("everything", {**known.levels, **levels, site: IN_RANGE})
        if site in candidates and _tolerates(session, known, sample, draws, rng):
            levels[site] = IN_RANGE
    return levels, not levels.keys() >= {*same, *numbers}


def _same_slots(session: ReferenceSession, known: Learned, rng: random.Random) -> dict[str, TensorSlot]:
    """Return the input tensors that are the same in three input sets, two of them varied, by their site."""
    contents: list[list[torch.Tensor]] = []
    for kind in (*VARIED[:2], "plain"):
        draws = DrawPlan(kind, known.levels)
        if tried_answer(session, rng, draws=draws, finite=False, exact=False) is None:
            return {}
        contents.append([tensor_views.view(session.inputs_buffer, slot).clone() for slot in session.inputs.slots])
    same = (all(tensor_views.equal(one[0], other) for other in one[1:]) for one in zip(*contents, strict=False))
    slots = enumerate(zip(session.inputs.slots, same, strict=False))
    return {f"{INPUTS}{number}": slot for number, (slot, is_same) in slots if slot.numel and is_same}


def _far_alone(sites: Mapping[str, int], tolerated: Callable[[dict[str, int]], bool]) -> dict[str, int]:
    """Return the sites that can be far while the others are plain, as they are in a trial."""
    able = [site for site, most in sites.items() if most == FAR]
    return {site: FAR for site in able[:MOST_ALONE] if tolerated({site: FAR})} if len(able) > 1 else {}


def _tolerates(session: ReferenceSession, known: Learned, sample: Form, draws: DrawPlan, rng: random.Random) -> bool:
    answer = tried_answer(session, rng, draws=draws, finite=known.finite, exact=False)
    return answer is not None and (known.inputs is None or Form.of(session.inputs, answer).resembles(sample))


def _tolerated_state(session: ReferenceSession, known: Learned, rng: random.Random) -> dict[str, int]:
    """Return the highest level of each parameter and buffer, tried for all together, then one by one."""

    def tolerated(levels: Mapping[str, int]) -> bool:
        _change_state(session, levels, rng, known.reached)
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


def plan(count: int, rng: random.Random, learned: Learned) -> list[Trial]:
    """Return `count` trials: a plain one first, then the others in random order.

    The kinds alternate. With at least three trials, one in four has other shapes if the problem allows that.
    """
    varied = WITHOUT_TIES if learned.ranks else VARIED
    kinds: tuple[Kind, ...] = varied if learned.levels else ("plain",)
    turn = min(count - 1, len(VARIED))
    resized = bool(learned.resizings) and turn > 1
    later = [
        Trial(kinds[number % len(kinds)], bool(learned.state or learned.reached), resized and number % turn == turn - 1)
        for number in range(count - 1)
    ]
    later = [replace(trial, on_grid=learned.on_grid and trial.kind == GRID_KIND) for trial in later]
    rng.shuffle(later)
    return [Trial(), *later]


def prepare(session: ReferenceSession, learned: Learned, trial: Trial, rng: random.Random) -> tuple[Trial, Answer]:
    """Write one trial's inputs, parameters and buffers to the session's arenas and run the reference on them.

    If the reference does not tolerate a change on these numbers, a milder one is tried.

    Returns:
        The trial as it was made, and the reference's answer.
    """
    trial = replace(trial, new_parameters=trial.new_parameters and bool(learned.state or learned.reached))
    levels = learned.remote if trial.kind == "shifted" and learned.remote else learned.levels
    chosen = replace(learned, levels=one_far(levels, learned.draws, rng) if trial.kind in GOES_FAR else levels)
    opposed, numbers = rng.choice(OPPOSED), rng.getrandbits(NUMBER_BITS)
    for attempt, plainly in _attempts(trial, chosen):
        draws = replace(plainly, opposed=opposed if plainly.kind in SIGNED else 0, numbers=numbers)
        draws = replace(draws, remote=_remote(draws, learned))
        _change_state(session, *((learned.state, rng, learned.reached) if attempt.new_parameters else ({}, rng)))
        if attempt.reshaped and learned.resizings:
            others = _way(learned, attempt.way)
            answer = shape_variation.answer_to_others(
                session, others, rng, draws, finite=learned.finite, sizes=attempt.sizes
            )
            if answer is not None:
                return _made(replace(attempt, shapes=others.describe(session.inputs)), draws), _as_far(answer, draws)
            continue
        answer = tried_answer(session, rng, draws=draws, finite=learned.finite)
        if answer is not None and not _is_evidence(answer, draws):
            continue
        if answer is not None and (learned.inputs is None or learned.inputs.slots == session.inputs.slots):
            return _made(attempt, draws), _as_far(answer, draws)
    session.reset_state()
    session.make_inputs(rng.getrandbits(48))
    return Trial(), session.answer(rng.getrandbits(48))


def foresee(
    session: ReferenceSession, learned: Learned, trial: Trial, rng: random.Random
) -> tuple[Trial, Answer | None]:
    """Choose the sizes of a trial in advance, and make plain inputs of them in the session's arena.

    Returns:
        The trial with its sizes and the form of the reference's answer, without exact values. The trial as it was, and
        None, if the problem does not tolerate these sizes.
    """
    way = _way(learned, trial.way)
    sizes = way.draw(rng)
    answer = shape_variation.answer_to_others(session, way, rng, finite=learned.finite, sizes=sizes, exact=False)
    return (trial, None) if answer is None else (replace(trial, sizes=sizes), answer)


def _is_evidence(answer: Answer, draws: DrawPlan) -> bool:
    """Whether an answer does not rest on what rounding decides: the order of ties, the largest of far products."""
    precise = draws.kind == "distant" and (_is_far(draws.levels) or not draws.opposed)
    steady = precise or (draws.on_grid and answer.ranks)
    return not (steady and not answer.is_steady) and not (draws.remote and answer.ranks and answer.tied)


def ways(learned: Learned) -> int:
    """Return in how many ways the shapes of a problem's inputs change; the last one is drawn twice."""
    return len(learned.resizings) - 1 + REGULAR_WAYS


def _way(learned: Learned, way: int) -> Resizing:
    """Return a way in which shapes change; beyond those learned, the last of them, coarse and for wide blocks only."""
    if way < len(learned.resizings):
        return learned.resizings[way]
    return replace(learned.resizings[-1], coarse=True, keeps_narrow=True, aligned="all")


def _as_far(answer: Answer, draws: DrawPlan) -> Answer:
    """Mark an answer as far if its inputs are far, or if products of large inputs may be.

    Not needed on a grid: there the reference's roundings are perturbed instead of its inputs.
    """
    levels = list(draws.levels.values())
    several = sum(level >= ANY_SIGN for level in levels) > 1
    far = 0.0
    if draws.kind == "distant":
        far = FARTHEST_RELATIVE if several and draws.opposed else FAR_RELATIVE
    elif draws.remote:
        far = REMOTE_RELATIVE if draws.remote == REMOTE else FARTHEST_RELATIVE
    elif not draws.on_grid and draws.kind in {"outliers", "rows"}:
        far = FAR_RELATIVE if _is_far(draws.levels) or (several and draws.kind == "outliers") else 0.0
    return replace(answer, expected=[replace(one, far=far) for one in answer.expected])


def _made(trial: Trial, draws: DrawPlan) -> Trial:
    """Return a trial with what its plan changed besides draws."""
    rebuilt = any(site.startswith((INPUTS, PLAIN_NUMBERS)) and level > PLAIN for site, level in draws.levels.items())
    return replace(trial, reordered=reorders(draws), rebuilt=rebuilt and draws.kind != "plain")


def reorders(draws: DrawPlan) -> bool:
    """Whether a plan puts the items of written lists in another order."""
    return draws.kind != "plain" and any(name.startswith(LISTS) and draws.levels[name] > PLAIN for name in draws.levels)


def _is_far(levels: Mapping[str, int]) -> bool:
    return max(levels.values(), default=PLAIN) >= FAR_IN_HALF


def one_far(levels: Mapping[str, int], draws: Set[str], rng: random.Random) -> Mapping[str, int]:
    """Return levels with at most one far site; if there is one, the other draws are plain.

    The products of two far draws are so large that their rounding is a thousandth of their exponential, or more: where
    a chip fuses a product, the difference of the fused and the rounded one can overflow it. Coin tosses and constants
    do not multiply, so they keep their level.
    """
    far = [site for site, level in levels.items() if level >= FAR_IN_HALF]
    if not far or sum(levels.get(site, PLAIN) >= SAME_SIGN for site in draws) < 2:
        return levels
    if rng.getrandbits(1):
        return {site: min(level, ANYWHERE) for site, level in levels.items()}
    chosen = rng.choice(far)
    return {site: level for site, level in levels.items() if site == chosen or level < SAME_SIGN or site not in draws}


def _remote(draws: DrawPlan, learned: Learned) -> int:
    """Return the power of two of the distance of remote rows; 0 for none.

    There are none where parameters may multiply them: two ways to add up such a product differ by several units in its
    last place, of which an exponential makes a factor.
    """
    if draws.kind != "shifted" or FAR not in draws.levels.values() or learned.state or learned.reached:
        return 0
    return REMOTE if len(learned.draws) == 1 else REMOTE_AMONG_OTHERS


def _attempts(trial: Trial, learned: Learned) -> Iterator[tuple[Trial, DrawPlan]]:
    """Yield a trial and the plan of its inputs, from the wanted one to milder ones, without the plainest."""
    if trial == Trial():
        return
    if trial.reshaped:
        trial = replace(trial, on_grid=False)
        if learned.levels:
            yield replace(trial, kind="scaled"), DrawPlan("scaled", learned.levels)
        yield from [(replace(trial, kind="plain"), PLAINLY)] * RESHAPINGS
        if trial.way + 1 < len(learned.resizings):
            yield replace(trial, kind="plain", way=trial.way + 1, sizes=None), PLAINLY
        yield replace(trial, kind="plain", new_parameters=False, sizes=None), PLAINLY
    trial = replace(trial, reshaped=False, sizes=None)
    most = max(learned.levels.values(), default=PLAIN) if trial.kind != "plain" else PLAIN
    for cap in range(most, PLAIN, -1):
        levels = {site: min(level, cap) for site, level in learned.levels.items()}
        if trial.on_grid:
            yield trial, DrawPlan(trial.kind, levels, on_grid=True)
        yield replace(trial, on_grid=False), DrawPlan(trial.kind, levels)
    if trial.new_parameters:
        yield replace(trial, kind="plain", on_grid=False), PLAINLY


def changed_answer(session: ReferenceSession, rng: random.Random) -> Answer:
    """Make inputs whose numbers change as far as the problem tolerates, in the arena, and return the answer to them.

    For problems that have not been learned yet.
    """
    for level in range(ANYWHERE, PLAIN, -1):
        answer = tried_answer(session, rng, draws=DrawPlan("shifted", default=level))
        if answer is not None:
            return answer
    session.make_inputs(rng.getrandbits(48))
    return session.answer(rng.getrandbits(48))


def _state_slots(session: ReferenceSession) -> dict[str, TensorSlot]:
    """Return the slots of the parameters and buffers that change."""
    parameters = {name: slot for name, slot in session.parameters.items() if slot.dtype in FLOATING and slot.numel}
    return parameters | session.varied_buffers


def _change_state(
    session: ReferenceSession,
    levels: Mapping[str, int],
    rng: random.Random,
    reached: Sequence[Mapping[str, torch.Tensor]] = (),
) -> None:
    """Reset parameters and buffers to their values after construction, and change them from there."""
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
        if level == IN_RANGE:
            mutations.scale(tensor, MILD_OCTAVES, generator)
        elif level > PLAIN and name not in session.parameters:
            mutations.vary(tensor, generator)
        elif level > PLAIN:
            mutations.perturb(tensor, generator, upwards=level == SAME_SIGN, grows=bool(rng.getrandbits(1)))
