"""What each correctness trial changes, so that no cached or sample-specific result passes.

The first trial uses plain inputs and the constructor's parameters. Each later one has other parameters and buffers,
and, in random order, numbers beyond the sample's (docs/evaluator-design.md) or inputs of other shapes, as far as the
problem tolerates them (`variability`).
"""

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final, Literal

import torch

from warpsmith.evaluator.correctness.compare import FAR_RELATIVE, FARTHEST_RELATIVE, REMOTE_RELATIVE
from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.ipc.tensor_slots import FLOATING
from warpsmith.evaluator.reference import shape_variation, step_memory
from warpsmith.evaluator.reference.draw_plan import (
    ALL_OPPOSED,
    INPUTS,
    LASTING,
    LISTS,
    NEAR_ONE,
    PAIRED,
    PLAIN_INTEGERS,
    PLAIN_NUMBERS,
    PLAINLY,
    RENUMBERED,
    SIGNED,
    TAILED,
    VARIED,
    WHOLLY_FAR,
    WITHOUT_TIES,
    DrawPlan,
    Kind,
)
from warpsmith.evaluator.reference.levels import (
    ANY_SIGN,
    ANYWHERE,
    AS_MADE,
    FAR,
    FAR_IN_HALF,
    IN_RANGE,
    PLAIN,
    SAME_SIGN,
)
from warpsmith.evaluator.reference.rare_inputs import answer_to, is_odd_in_itself
from warpsmith.evaluator.reference.selected_slices import BUT_ONE, SELECTIONS
from warpsmith.evaluator.reference.session import Answer, ReferenceSession
from warpsmith.evaluator.reference.shape_variation import Resizing
from warpsmith.evaluator.reference.telling_numbers import chosen
from warpsmith.evaluator.reference.tolerated_changes import answer_on_inputs, tried_answer
from warpsmith.evaluator.reference.variability import (
    REMOTE,
    Layers,
    Learned,
    answer_set_apart,
    change_layers,
    change_state,
    is_far,
    remote_octaves,
    shift_bias,
    some,
)

LEAST_FINITE: Final = 1 / 2
"""Share of an answer that must be finite where masks select whole slices."""
DRAWS: Final[Mapping[Kind, str]] = {
    "shifted": "numbers of other sign and size",
    "scaled": "numbers of another size",
    "outliers": "a few large numbers among the others",
    "rows": "rows of zeros and rows that are nearly constant",
    "small": "small rows and columns",
    "tiny": "small rows and columns, one row close to zero",
    "distant": "numbers far from zero beside their spread",
    "apart": "numbers far from zero beside their spread",
    "whole": "draws that are one number, or of one sign, as a whole",
    "lasting": "rows and channels of moderate numbers, or of numbers near one, with which a recurrence remembers",
    "selected": "masks that select all or none of some rows and slices",
}
ON_GRID: Final = "numbers rounded to multiples of a power of two, some of them exactly on a boundary or equal"
GRID_KIND: Final[Kind] = "outliers"
"""The kind of the trials whose numbers are rounded to a grid: most of its numbers stay as get_inputs() makes them."""
GOES_FAR: Final = frozenset({"outliers", "rows", "shifted", "distant", "apart"})
BESIDE: Final = frozenset({"outliers", "rows"})
"""Kinds in which the one draw that can be far is far beside others that are merely large."""
INSTEAD: Final[Mapping[Kind, Kind]] = {"apart": "shifted", "tiny": "small"}
"""What a trial becomes if its numbers make equal ones, whose order is undefined."""
TOGETHER: Final = 3 / 4
"""How often a trial starts with all draws far at once. Only then does a sum or a difference of several overflow, or
lose its digits; otherwise each draw is far in turn, which shows what the others would hide."""
TURNS: Final = math.lcm(*range(1, 9))
"""The first turn is random below it: any of up to eight choices is then as likely as the others."""
NO_PROMISE: Final = "inputs with {}: the range of get_inputs() is not promised"
OTHER_ORDER: Final = "the integers of lists that get_inputs() writes in another order"
CHANGED_STATE: Final = (
    "parameters or buffers changed after construction: derive nothing from them in the constructor or in an earlier "
    "call, and take no step, position or flag of the module for a constant"
)
REBUILT: Final = "other values in masks, positions or numbers that get_inputs() builds of constants: read them"
OTHER_SHAPES: Final = "inputs of other shapes, {}: take every size from the inputs, hard-code none"
BESIDE_ALIKE: Final[tuple[Kind, ...]] = ("plain", "plain", "rows", "whole")
"""Kinds of the inputs of a trial whose parameters have alike rows."""
BIASED: Final[tuple[tuple[Layers, Kind], ...]] = (("unbiased", "rows"), ("negative", "plain"))
"""What a trial makes of biases, and the kind of its inputs."""
RESHAPINGS: Final = 2
APART_ATTEMPTS: Final = 3
WHOLE_ATTEMPTS: Final = 4
"""A problem may tolerate no empty mask, but a full one."""
LEAST_OF_TWO: Final = 4
"""Number of varied trials from which on one more has other shapes."""
MOST_SPARED: Final = 3
"""How many draws are spared, one at a time."""
SPARSE_ATTEMPTS: Final = 3
"""How many grids are tried with only a few slices of one draw on them: even one of those can be singular by chance."""
OPPOSED: Final = (0, 0, 1, 2)
"""Which of several draws take the other sign. Products of two negative draws are positive, and those of a negative and
a positive one negative: a maximum of products that starts at zero shows in the latter, a lost digit in the former."""
REGULAR_WAYS: Final = 2
"""The last ways of changing shapes: a kernel that refuses those too is right for the sample's shapes only."""
NUMBER_BITS: Final = 48
RARE_SHARE: Final = 0.5
"""How often the plain trial of several has rare numbers, if the problem has any; otherwise it is drawn afresh."""


Start = Literal["few", "many", "turn"]


@dataclass(frozen=True)
class Trial:
    """One trial: how its inputs are made, and whether parameters change before it.

    Attributes:
        kind: how the numbers of the inputs are made.
        new_parameters: whether parameters and buffers differ from the constructor's.
        reshaped: whether the inputs have other shapes than the sample's.
        way: which of the learned ways its shapes change; 0 is the freest.
        paired: whether products cancel, and how (`draw_plan.PAIRED`).
        mixed: whether only some of the sizes change that must stay powers of two.
        sizes: the changed sizes by name, if they are chosen in advance.
        reordered: whether literal lists of integers are reordered.
        rebuilt: whether inputs that get_inputs() builds of constants have other values.
        on_grid: whether floating draws are multiples of a power of two.
        turn: says which of several draws may be far; draws take turns.
        together: whether all of them are far at once.
        shifted: whether the first bias lies far from zero as a whole, so that what a layer computes does.
        apart: whether rows of some parameters are zeros, of one sign, far away, or equal to others.
        layers: what parameters as a whole make of layers: units that are `alike`, or differ by less than half precision
            shows; units `unbiased`, so that inputs of zeros give zeros; units that are all `negative`.
        start: how many calls the changed buffers have seen: `few`, `many`, or as many as make a counter `turn`.
        written: numbers of the candidate's source that the inputs have in some places.
        keeps_integers: whether plain integers and truth values among the inputs are the sample's.
        renumbered: whether some are not, once the inputs are made.
        shapes: the changed shapes, once they are made.
        selects: what masks select of some slices; 0 for what they do.
        rare: seed of a plain input set whose answer holds a rare number; None for one that is drawn.
    """

    kind: Kind = "plain"
    new_parameters: bool = False
    reshaped: bool = False
    way: int = 0
    sizes: Mapping[str, int] | None = None
    reordered: bool = False
    rebuilt: bool = False
    on_grid: bool = False
    turn: int = 0
    together: bool = False
    shifted: bool = False
    apart: bool = False
    layers: Layers | None = None
    start: Start = "few"
    written: tuple[float, ...] = ()
    keeps_integers: bool = False
    renumbered: bool = False
    mixed: bool = False
    paired: int = 0
    shapes: str = ""
    selects: int = 0
    rare: int | None = None

    @property
    def stands_alone(self) -> bool:
        """Whether the trial has no milder form."""
        return self.layers is not None or self.kind in {"lasting", "selected"}

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


def plan(count: int, rng: random.Random, learned: Learned, written: Sequence[float] = ()) -> list[Trial]:
    """Return `count` trials: a plain one first, then the others in random order.

    `written` are the numbers of the candidate's source.

    The kinds alternate. Of more kinds than trials, those of an evaluation are drawn: a kind that is always left out is
    one that a policy in training learns to fail. With at least three trials, one has other shapes if the problem allows
    that. Others are made besides: of five and more, one with other shapes again and numbers of another kind; one whose
    plain inputs have another form, or NaN or an infinity in the answer, if the problem has such; one with rows of their
    own kind in the parameters, and up to three with layers that are special as a whole, if it has parameters; and one
    whose draws are alike as a whole, if it draws integers.
    """
    varied = WITHOUT_TIES if learned.ranks else VARIED
    # Where no change of all numbers is tolerated, one of a few slices may be.
    few: tuple[Kind, ...] = tuple(kind if kind in LASTING and learned.draws else "plain" for kind in varied)
    kinds = varied if learned.levels else few
    turn = min(count - 1, len(VARIED))
    resized = bool(learned.resizings) and turn > 1
    again = resized and turn >= LEAST_OF_TWO
    # In random order, so that each kind sometimes comes with other shapes.
    kinds = tuple(rng.sample(kinds, min(len(kinds), count - 1 + again)))
    # How code for the end of a row treats rows of zeros, of one sign or far away shows only with other shapes.
    reshaped = [resized and number % turn == turn - 1 for number in range(count - 1)] + [True] * again
    changed = bool(learned.state or learned.reached)
    later = [Trial(kinds[number % len(kinds)], changed, other) for number, other in enumerate(reshaped)]
    later[-1:] = [replace(trial, mixed=again) for trial in later[-1:]]
    later = [replace(trial, on_grid=learned.on_grid and trial.kind == GRID_KIND) for trial in later]
    rng.shuffle(later)
    turns = itertools.count(rng.randrange(TURNS))
    later = [
        replace(trial, turn=next(turns), together=rng.random() < TOGETHER) if trial.kind in GOES_FAR else trial
        for trial in later
    ]
    starts = itertools.cycle(rng.sample(_starts(learned), len(_starts(learned))))
    later = [replace(trial, start=next(starts), written=chosen(written, rng)) for trial in later]
    later = _with_cancelling(later, rng) if learned.decides else later
    # In addition, so that they take no other trial's place.
    kept = [Trial(rare=rng.choice(seeds)) for seeds in (learned.forms, learned.odd) if seeds]
    kept += [Trial(new_parameters=True, apart=True)] if learned.apart and count > 1 else []
    kept += _of_layers(learned, rng) if count > 1 else []
    kept += [Trial("distant", changed, shifted=True)] if learned.bias and not learned.ranks and count > 1 else []
    kept += [Trial("selected", changed, selects=one) for one in SELECTIONS if learned.masked and count > 1]
    kept += [Trial("whole", changed)] if learned.discrete and count > 1 else []
    kept += [Trial("lasting", changed)] if learned.memory and count > 1 else []
    return [_plain(learned, rng), *later, *kept] if later else [Trial(), *kept]


def _of_layers(learned: Learned, rng: random.Random) -> list[Trial]:
    """Return trials in which parameters as a whole make a layer's answers special, on inputs that fit.

    Alike units on plain inputs, on some rows of one number, or wholly so; biases that leave rows of zeros and small
    rows as they are, and biases that make all units negative.
    """
    # Where all rows of the input are one number, a problem decides once.
    alike = Trial("plain" if learned.decides else rng.choice(BESIDE_ALIKE), new_parameters=True, layers="alike")
    biased = [Trial(kind, new_parameters=True, layers=way) for way, kind in BIASED] if learned.biases else []
    return [*([alike] if learned.apart else []), *biased]


def _with_cancelling(trials: Sequence[Trial], rng: random.Random) -> list[Trial]:
    """Return trials with products that cancel in some kinds. One of the kinds whose roundings add up keeps them."""
    kept = rng.choice(TAILED)
    return [
        replace(trial, paired=rng.choice(PAIRED[trial.kind])) if trial.kind in PAIRED and trial.kind != kept else trial
        for trial in trials
    ]


def _plain(learned: Learned, rng: random.Random) -> Trial:
    """Return the first trial: most often one with rare numbers, if the problem has such."""
    return Trial(rare=rng.choice(learned.rare) if learned.rare and rng.random() < RARE_SHARE else None)


def _starts(learned: Learned) -> list[Start]:
    kinds: list[tuple[Start, Sequence[object]]] = [("many", learned.late), ("turn", learned.turning)]
    return ["few", *(start for start, states in kinds if states)]


def _states(learned: Learned, start: Start) -> Sequence[Mapping[str, torch.Tensor]]:
    """Return the buffers from which a trial can start."""
    return {"few": learned.reached, "many": learned.late, "turn": learned.turning}[start]


def prepare(session: ReferenceSession, learned: Learned, trial: Trial, rng: random.Random) -> tuple[Trial, Answer]:
    """Write one trial's inputs, parameters and buffers to the session's arenas and run the reference on them.

    If the reference does not tolerate a change on these numbers, a milder one is tried.

    Returns:
        The trial as it was made, and the reference's answer.
    """
    answer = _chosen_answer(session, learned, trial, rng)
    if answer is not None:
        return trial, answer
    trial = Trial() if trial.stands_alone else trial
    trial = replace(trial, new_parameters=trial.new_parameters and bool(learned.state or learned.reached))
    learned = _with_integers_kept(learned) if trial.keeps_integers else learned
    opposed, numbers = rng.choice(OPPOSED), rng.getrandbits(NUMBER_BITS)
    for attempt, plainly in _with_pairs(_with_written(trial, _attempts(trial, learned))):
        sign = _sign_of_all(opposed, learned) if attempt.together and plainly.kind in WHOLLY_FAR else opposed
        draws = replace(plainly, opposed=sign if plainly.kind in SIGNED else 0, numbers=numbers)
        # Numbers near one are often equal, and equal ones have no order.
        draws = replace(draws, lasting=0 if learned.ranks else draws.lasting)
        draws = replace(draws, remote=remote_octaves(draws, learned))
        reached = _states(learned, attempt.start)
        changed = (learned.state, rng, reached) if attempt.new_parameters else ({}, rng)
        lasting = draws.lasts and bool(learned.memory)
        change_state(session, *changed, lasting=lasting, paired=draws.paired > 0)
        if attempt.shifted:
            shift_bias(session, learned.bias, rng)
        if attempt.apart:
            answer = answer_set_apart(session, some(learned.apart, rng), rng, finite=learned.finite)
            if answer is not None and _shows(session, learned, answer):
                return attempt, _as_far(answer, draws, least=FAR_RELATIVE)
            continue
        if attempt.reshaped and learned.resizings:
            found = _on_other_shapes(session, learned, attempt, draws, rng)
            if found is not None:
                return found
            continue
        answer = tried_answer(session, rng, draws=draws, finite=learned.finite)
        if answer is not None and _strays(answer, learned):
            continue
        if answer is not None and not _is_evidence(answer, draws, together=attempt.together or attempt.shifted):
            continue
        if answer is not None and _has_sample_form(session, learned):
            return _made(attempt, draws), _as_far(answer, draws, least=FAR_RELATIVE if attempt.shifted else 0.0)
    if trial.start != "few" and trial.new_parameters:
        return prepare(session, learned, replace(trial, start="few"), rng)
    session.reset_state()
    session.make_inputs(rng.getrandbits(48))
    return Trial(), session.answer(rng.getrandbits(48))


def _on_other_shapes(
    session: ReferenceSession, learned: Learned, attempt: Trial, draws: DrawPlan, rng: random.Random
) -> tuple[Trial, Answer] | None:
    """Return an attempt with inputs of other shapes, and the answer to them; None if they are no evidence."""
    others = _way(learned, attempt)
    answer = shape_variation.answer_to_others(session, others, rng, draws, finite=learned.finite, sizes=attempt.sizes)
    if answer is None or not _is_evidence(answer, draws, together=attempt.together) or _strays(answer, learned):
        return None
    return _made(replace(attempt, shapes=others.describe(session.inputs)), draws), _as_far(answer, draws)


def _chosen_answer(session: ReferenceSession, learned: Learned, trial: Trial, rng: random.Random) -> Answer | None:
    """Return the answer to a trial that has no milder form; None for another one, or if the problem tolerates none."""
    if trial.rare is not None:
        session.reset_state()
        return answer_to(session, trial.rare, finite=learned.finite and trial.rare not in learned.odd)
    if trial.layers is not None:
        return _answer_of_layers(session, learned, trial, trial.layers, rng)
    if trial.stands_alone:
        return (_remembered if trial.kind == "lasting" else _selected)(session, learned, trial, rng)
    return None


def _answer_of_layers(
    session: ReferenceSession, learned: Learned, trial: Trial, layers: Layers, rng: random.Random
) -> Answer | None:
    """Make parameters with which layers answer what plain ones never do, and return the answer to that."""
    near = {site: min(level, ANYWHERE) for site, level in learned.levels.items()}
    for draws in (DrawPlan(trial.kind, near), *[PLAINLY] * APART_ATTEMPTS):
        change_state(session, learned.state, rng, _states(learned, trial.start))
        change_layers(session, learned, layers, rng)
        answer = tried_answer(session, rng, draws=draws, finite=learned.finite)
        if answer is not None and _shows(session, learned, answer):
            return answer
    return None


def _remembered(session: ReferenceSession, learned: Learned, trial: Trial, rng: random.Random) -> Answer | None:
    """Make inputs and parameters with which early steps show in late ones, and return the answer to them."""
    modes = [path.mode for path in learned.memory]
    plans = step_memory.lasting_plans(learned.draws, learned.levels, modes)
    changed = (learned.state, rng, _states(learned, trial.start)) if trial.new_parameters else ({}, rng)
    for attempt in range(step_memory.ATTEMPTS):
        change_state(session, *changed, lasting=True)
        draws = plans[attempt % len(plans)]
        answer = tried_answer(session, rng, draws=draws, finite=learned.finite, exact=False)
        if answer is None or not _has_sample_form(session, learned) or (answer.ranks and answer.tied):
            continue
        if not any(step_memory.keeps(session, answer, path) for path in learned.memory):
            continue
        exact = answer_on_inputs(session, rng.getrandbits(48), finite=learned.finite, exact=True)
        if exact is not None and exact.is_mostly_steady and not _strays(exact, learned):
            return exact
    return None


def _shows(session: ReferenceSession, learned: Learned, answer: Answer) -> bool:
    """Whether an answer with parameters that have rows of their own kind is evidence.

    Rows that are equal or far away tie, also where their exponentials underflow to zero.
    """
    steady = answer.is_mostly_steady and not _strays(answer, learned)
    return steady and not (answer.ranks and answer.tied) and _has_sample_form(session, learned)


def _selected(session: ReferenceSession, learned: Learned, trial: Trial, rng: random.Random) -> Answer | None:
    """Make plain inputs in which masks select all or none of some slices, and return the answer to them."""
    changed = (learned.state, rng, _states(learned, trial.start)) if trial.new_parameters else ({}, rng)
    for selects in [trial.selects] * 2 + [trial.selects + BUT_ONE] * 2:
        change_state(session, *changed)
        draws = DrawPlan("selected", selects=selects, numbers=rng.getrandbits(NUMBER_BITS))
        answer = tried_answer(session, rng, draws=draws, finite=False)
        if answer is None or not _has_sample_form(session, learned) or (answer.ranks and answer.tied):
            continue
        if _strays(answer, learned) or not answer.is_mostly_steady:
            continue
        if answer.finite or not learned.finite or _has_what_was_written(session, answer):
            return answer
    return None


def _has_what_was_written(session: ReferenceSession, answer: Answer) -> bool:
    """Whether an answer has NaN or infinities only where `get_inputs` writes such, in a minor part.

    The mean of missing numbers alone is missing. But a mean of nothing that divides by zero is no answer.
    """
    floats = [slot for slot in session.inputs.slots if slot.dtype in FLOATING]
    inputs = [tensor_views.computable(tensor_views.view(session.inputs_buffer, slot)) for slot in floats]
    values = [tensor_views.computable(one.value) for one in answer.expected if one.value.is_floating_point()]
    odd = all(
        any(bool(test(one).any()) for one in inputs) or not any(bool(test(one).any()) for one in values)
        for test in (torch.isnan, torch.isinf)
    )
    finite = all(float(torch.isfinite(one).double().mean()) >= LEAST_FINITE for one in values if one.numel())
    return answer.defined and odd and finite and all(map(is_odd_in_itself, answer.expected))


def _has_sample_form(session: ReferenceSession, learned: Learned) -> bool:
    return learned.inputs is None or learned.inputs.slots == session.inputs.slots


def foresee(
    session: ReferenceSession, learned: Learned, trial: Trial, rng: random.Random
) -> tuple[Trial, Answer | None]:
    """Choose the sizes of a trial in advance, and make plain inputs of them in the session's arena.

    Returns:
        The trial with its sizes and the form of the reference's answer, without exact values. The trial as it was, and
        None, if the problem does not tolerate these sizes.
    """
    way = _way(learned, trial)
    sizes = way.draw(rng, trial.written)
    answer = shape_variation.answer_to_others(session, way, rng, finite=learned.finite, sizes=sizes, exact=False)
    return (trial, None) if answer is None else (replace(trial, sizes=sizes), answer)


def _is_evidence(answer: Answer, draws: DrawPlan, *, together: bool) -> bool:
    """Whether an answer does not depend on rounding: on the order of ties, or the largest of far products."""
    if answer.ranks and answer.tied and (draws.remote or draws.kind in INSTEAD or draws.kind == "whole"):
        return False
    if answer.ranks and draws.kind != "plain" and answer.flips_often:
        # Kernels that are right would have to order all of them as the reference does.
        return False
    if (together or draws.kind == "apart") and not answer.is_mostly_steady:
        return False
    precise = draws.kind == "distant" and (is_far(draws.levels) or not draws.opposed)
    return answer.is_steady if precise or (draws.on_grid and answer.ranks) else True


def _strays(answer: Answer, learned: Learned) -> bool:
    """Whether half precision makes the reference fail on a trial's inputs: a kernel computing in float32 is right."""
    return learned.half and answer.strays


def _sign_of_all(opposed: int, learned: Learned) -> int:
    """Return which draws take the other sign so that all have the same one: none or all."""
    return opposed if len(learned.draws) < 2 else ALL_OPPOSED * (opposed % 2)


def ways(learned: Learned) -> int:
    """Return the number of ways in which the shapes of a problem's inputs change; the last one is drawn twice."""
    return len(learned.resizings) - 1 + REGULAR_WAYS


def splits(learned: Learned, way: int) -> bool:
    """Whether in this way sizes become different that the problem's source writes as the same number."""
    return way < len(learned.resizings) and bool(learned.resizings[way].parts)


def shares_sizes(learned: Learned, trial: Trial, other: Trial) -> bool:
    """Whether a trial of other shapes can have the sizes of another one: they change in the same way."""
    return trial.reshaped and _way(learned, trial) == _way(learned, other)


def _way(learned: Learned, trial: Trial) -> Resizing:
    """Return the way in which a trial's shapes change; beyond those learned, the last, coarse and for wide blocks."""
    if trial.way < len(learned.resizings):
        way = learned.resizings[trial.way]
    else:
        way = replace(learned.resizings[-1], coarse=True, keeps_narrow=True, aligned="all")
    return replace(way, mixed=trial.mixed and way.regular)


def _as_far(answer: Answer, draws: DrawPlan, least: float = 0.0) -> Answer:
    """Mark an answer as far, at `least` as given, if its inputs are far, or if products of large inputs may be.

    Not needed on a grid: there the reference's roundings are perturbed instead of its inputs.
    """
    levels = list(draws.levels.values())
    several = sum(level >= ANY_SIGN for level in levels) > 1
    far = least
    if draws.kind in WHOLLY_FAR:
        far = FARTHEST_RELATIVE if several and draws.opposed not in {0, ALL_OPPOSED} else FAR_RELATIVE
    elif draws.remote:
        far = REMOTE_RELATIVE if draws.remote == REMOTE else FARTHEST_RELATIVE
    elif not draws.on_grid and draws.kind in {"outliers", "rows"}:
        far = FAR_RELATIVE if is_far(draws.levels) or (several and draws.kind == "outliers") else least
    return replace(answer, expected=[replace(one, far=far) for one in answer.expected])


def _made(trial: Trial, draws: DrawPlan) -> Trial:
    """Return a trial with what its plan changed besides draws."""
    rebuilt = any(site.startswith((INPUTS, PLAIN_NUMBERS)) and level > PLAIN for site, level in draws.levels.items())
    integers = any(site.startswith(PLAIN_INTEGERS) and level > PLAIN for site, level in draws.levels.items())
    return replace(
        trial,
        reordered=reorders(draws),
        rebuilt=rebuilt and draws.kind != "plain",
        renumbered=integers and draws.kind in RENUMBERED,
    )


def _with_integers_kept(learned: Learned) -> Learned:
    """Return what is known about a problem as if its plain integers and truth values could not vary."""
    levels, together, remote = (
        {site: level for site, level in some.items() if not site.startswith(PLAIN_INTEGERS)}
        for some in (learned.levels, learned.together, learned.remote)
    )
    return replace(learned, levels=levels, together=together, remote=remote)


def reorders(draws: DrawPlan) -> bool:
    """Whether a plan puts the items of written lists in another order."""
    return draws.kind != "plain" and any(name.startswith(LISTS) and draws.levels[name] > PLAIN for name in draws.levels)


def one_far(levels: Mapping[str, int], draws: Set[str], turn: int) -> Mapping[str, int]:
    """Return levels with at most one far site; if there is one, the other draws are plain.

    The sites take turns, and after all of them none is far, so that the draws are large together.

    The products of two far draws are so large that their rounding is a thousandth of their exponential, or more: where
    a chip fuses a product, the difference of the fused and the rounded one can overflow it. Coin tosses and constants
    do not multiply, so they keep their level.
    """
    far = [site for site, level in levels.items() if level >= FAR_IN_HALF]
    if not far or sum(levels.get(site, PLAIN) >= SAME_SIGN for site in draws) < 2:
        return levels
    alone = (*sorted(far), None)[turn % (len(far) + 1)]
    if alone is None:
        return {site: min(level, ANYWHERE) for site, level in levels.items()}
    return {site: level for site, level in levels.items() if site == alone or level < SAME_SIGN or site not in draws}


def _all_far(kind: Kind, learned: Learned) -> Mapping[str, int]:
    """Return levels at which all draws that can be far are far; empty if the problem does not tolerate that.

    As a whole, every draw that can have either sign is tried: an exponential of it is finite far below zero.
    """
    if kind in WHOLLY_FAR:
        raised = {site for site in learned.draws if learned.levels.get(site, PLAIN) >= ANY_SIGN}
        return {site: FAR if site in raised else level for site, level in learned.levels.items()} if raised else {}
    return learned.remote if kind == "shifted" and learned.remote else learned.together


def _attempts(trial: Trial, learned: Learned) -> Iterator[tuple[Trial, DrawPlan]]:
    """Yield a trial and the plan of its inputs, from the wanted one to milder ones, without the plainest."""
    if replace(trial, start="few", written=()) == Trial():
        return
    if trial.shifted and not trial.reshaped:
        yield replace(trial, kind="plain", together=False), PLAINLY
    if trial.apart and learned.apart:
        yield from [(trial, PLAINLY)] * APART_ATTEMPTS
    trial = replace(trial, shifted=False, apart=False)
    far = _all_far(trial.kind, learned) if trial.kind in GOES_FAR else {}
    if far:
        if trial.together or trial.kind == "apart":
            yield from _on_and_off_grid(replace(trial, together=True), far)
        if trial.kind == "apart":
            yield from _on_and_off_grid(replace(trial, together=False), one_far(far, learned.draws, trial.turn))
    yield from _one_far_beside_large(trial, learned)
    trial = replace(trial, together=False)
    if trial.kind == "whole":
        yield from [(trial, DrawPlan(trial.kind, learned.levels))] * WHOLE_ATTEMPTS
        return
    if trial.kind == "tiny":
        yield from _on_and_off_grid(trial, learned.levels)
    trial = replace(trial, kind=INSTEAD.get(trial.kind, trial.kind))
    levels = learned.remote if trial.kind == "shifted" and learned.remote else learned.levels
    levels = one_far(levels, learned.draws, trial.turn) if trial.kind in GOES_FAR else levels
    yield from _milder_attempts(trial, replace(learned, levels=levels))


def _one_far_beside_large(trial: Trial, learned: Learned) -> Iterator[tuple[Trial, DrawPlan]]:
    """Yield a trial in which the only draw that can be far is, and the others are as large as they can be.

    Two draws whose sizes always move together hide what a kernel does where one is wide and the other is not.
    """
    far = [site for site in learned.draws if learned.levels.get(site, PLAIN) >= FAR_IN_HALF]
    if len(far) == 1 and len(learned.draws) > 1 and trial.kind in BESIDE:
        yield from _on_and_off_grid(replace(trial, together=True), learned.levels)


def _with_written(trial: Trial, attempts: Iterator[tuple[Trial, DrawPlan]]) -> Iterator[tuple[Trial, DrawPlan]]:
    """Yield each attempt with the ends of ranges and the numbers of the candidate's source, and then without them.

    An end, or a number of the candidate's source, may be one at which the reference divides by zero. That must not cost
    the trial.
    """
    for attempt, draws in attempts:
        bounded = any(PLAIN < level < ANYWHERE for level in draws.levels.values())
        if draws.kind != "plain" and bounded:
            yield attempt, replace(draws, written=trial.written, ends=True)
        if draws.kind != "plain" and (trial.written or not bounded):
            yield attempt, replace(draws, written=trial.written)
        if draws.lasts:
            yield attempt, replace(draws, written=trial.written, lasting=NEAR_ONE)
            yield attempt, replace(draws, written=trial.written, lasting=0)
        if draws.kind == "plain" or (trial.written and draws.on_grid) or IN_RANGE in draws.levels.values():
            yield attempt, replace(draws, lasting=0)


def _with_pairs(attempts: Iterator[tuple[Trial, DrawPlan]]) -> Iterator[tuple[Trial, DrawPlan]]:
    """Yield each attempt, first with products that cancel if they are to."""
    for attempt, draws in attempts:
        if attempt.paired and draws.kind in PAIRED:
            yield attempt, replace(draws, paired=attempt.paired)
        yield attempt, draws


def _on_and_off_grid(
    trial: Trial, levels: Mapping[str, int], spared: Sequence[str] = (), sparse: Sequence[str] = ()
) -> Iterator[tuple[Trial, DrawPlan]]:
    if trial.on_grid:
        yield trial, DrawPlan(trial.kind, levels, on_grid=True)
        for site in sparse:
            yield from [(trial, DrawPlan(trial.kind, levels, on_grid=True, sparse=site))] * SPARSE_ATTEMPTS
        for site in spared:
            yield trial, DrawPlan(trial.kind, {**levels, site: AS_MADE}, on_grid=True)
    yield replace(trial, on_grid=False), DrawPlan(trial.kind, levels)


def _spared(learned: Learned) -> list[str]:
    """Return the draws that stay unchanged, one at a time, if the problem does not tolerate changing all.

    The inverse of a matrix that has a row of zeros is not finite, whatever the other inputs are: without this, it would
    keep such rows from all of them.
    """
    return sorted(learned.draws)[:MOST_SPARED] if len(learned.draws) > 1 else []


def _milder_attempts(trial: Trial, learned: Learned) -> Iterator[tuple[Trial, DrawPlan]]:
    """Yield a trial with the highest levels that the problem tolerates, and with each lower one."""
    if trial.reshaped:
        if learned.levels:
            if trial.on_grid:
                yield trial, DrawPlan(trial.kind, learned.levels, on_grid=True)
            trial = replace(trial, on_grid=False)
            for kind in dict.fromkeys((trial.kind, "scaled")):
                yield replace(trial, kind=kind), DrawPlan(kind, learned.levels)
        trial = replace(trial, on_grid=False)
        if trial.kind in LASTING and learned.draws and not learned.levels:
            yield trial, DrawPlan(trial.kind)
        yield from [(replace(trial, kind="plain"), PLAINLY)] * RESHAPINGS
        if trial.way + 1 < len(learned.resizings):
            yield replace(trial, kind="plain", way=trial.way + 1, sizes=None), PLAINLY
        yield replace(trial, kind="plain", new_parameters=False, sizes=None), PLAINLY
    trial = replace(trial, reshaped=False, sizes=None)
    most = max(learned.levels.values(), default=PLAIN) if trial.kind != "plain" else PLAIN
    for cap in range(most, PLAIN, -1):
        levels = {site: min(level, cap) for site, level in learned.levels.items()}
        spared = _spared(learned) if cap == most else []
        sparse = sorted(learned.draws)[:MOST_SPARED] if cap == most else []
        yield from _on_and_off_grid(trial, levels, spared, sparse)
        for site in spared:
            yield replace(trial, on_grid=False), DrawPlan(trial.kind, {**levels, site: AS_MADE})
    if trial.kind in LASTING and learned.draws:
        yield replace(trial, on_grid=False), DrawPlan(trial.kind)
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
