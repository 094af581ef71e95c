"""Plain input sets whose answers hold something rare: a row without a mark, a hand of a rare rank.

A kernel that is wrong for one input set in ten is right in most evaluations if each judges one freshly drawn plain set.
So plain sets are drawn in advance, the reference answers them, and those with a rare number in the answer are judged
more often than others, and one with NaN or an infinity always. Their seeds are secret, like those of all trials.

An event in one set of a hundred takes hundreds of sets to find. So each later evaluation of a problem looks at some
more. What is found depends only on the problem and on chance, never on a candidate.
"""

import random
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final

import torch

from warpsmith.evaluator.correctness.compare import Expected
from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.reference.session import Answer, ReferenceSession
from warpsmith.evaluator.reference.tolerated_changes import tried_answer

DISCRETE: Final = re.compile(r"randint|integers|random_|randrange|multinomial|choice|randperm")
"""Calls that draw integers: a rare event is then a step in the answer, not a tail of it."""
POLES: Final = re.compile(
    r"sqrt|log|pow|\*\*|acos|asin|atanh|arc|reciprocal|std\b|var\b|norm\b|erfinv|inf\b|nan\b|masked_|softmax|bernoulli|normalize"
    r"|(?<!/)/(?![/=])|div(?:ide)?\b|mean\b"
)
"""Functions undefined for some numbers: in few sets one of many floats is such a number."""
LOOKS: Final = ((48, 0.3), (150, 0.3), (48, 0.15))
"""Plain input sets that are looked at, and seconds for them: if integers are drawn, if there are poles, otherwise."""
FURTHER: Final = (200, 0.1)
"""Sets that each later evaluation of the problem looks at besides, and seconds for them."""
MOST_LOOKED: Final = 1000
"""Sets after which no more are looked at: an event in one set of two hundred has been found by then."""
MOST_ODD: Final = 2
"""Sets kept for each kind of NaN and infinities."""
PATIENCE: Final = 8
"""How many times longer a search may take on a busy machine until it has seen a sixth of its sets."""
FEWEST_SETS: Final = 12
"""Sets below which nothing is known to be rare."""
FIXED_SETS: Final = 15
"""Sets of fixed seeds, an odd number, that decide which of two kinds of answers is more frequent."""
RARE: Final = 0.25
"""Share of sets up to which a trait counts as rare."""
MOST_KEPT: Final = 6
MOST_VALUES: Final = 256
"""Number of distinct numbers of an output beyond which only the smallest and the largest are looked at."""
MOST_RARE: Final = 8
"""Number of rare numbers of an output beyond which being rare means nothing, as in sums: only the extremes count
then."""
MOST_ELEMENTS: Final = 1 << 20
"""Elements of an output beyond which it is not looked at."""

Trait = tuple[int, float]
"""The number of an output, and a number in it."""


@dataclass(frozen=True)
class Looked:
    """The plain input sets that were looked at.

    Attributes:
        traits: of finite answers, by seed.
        odd: kinds of odd numbers of other answers, by seed.
        failed: whether the reference failed on one, which ends the search.
    """

    traits: Mapping[int, Set[Trait]] = field(default_factory=dict)
    odd: Mapping[int, Set[str]] = field(default_factory=dict)
    failed: bool = False

    def __len__(self) -> int:
        return len(self.traits) + len(self.odd)


@dataclass(frozen=True)
class RareSets:
    """What the answers to a problem's plain input sets occasionally hold.

    Attributes:
        seeds: of `answer_to`, whose answers hold rare numbers.
        odd: of `answer_to`, whose answers hold NaN or an infinity, which most do not.
        infinite: whether some answer holds an infinity and no NaN.
        finite: whether most answers are finite.
        looked: the sets from which this is known.
    """

    seeds: tuple[int, ...] = ()
    odd: tuple[int, ...] = ()
    infinite: bool = False
    finite: bool = True
    looked: Looked = field(default_factory=Looked)


def rare_sets(session: ReferenceSession, *, sample_finite: bool) -> RareSets:
    """Look at plain input sets of a problem, with its state as constructed.

    Args:
        session: the problem.
        sample_finite: whether the answer to its sample is finite, whose seed is fixed.
    """
    discrete = bool(DISCRETE.search(session.source))
    limits = LOOKS[0] if discrete else LOOKS[1 if POLES.search(session.source) else 2]
    looked = _look(session, Looked(), *limits)
    finite = _is_mostly_finite(session, looked, sample_finite=sample_finite)
    return _chosen(session, looked, finite=finite)


def more_sets(session: ReferenceSession, known: RareSets) -> RareSets:
    """Look at more plain input sets, with the state as constructed, unless enough have been looked at."""
    lasting = DISCRETE.search(session.source) or POLES.search(session.source)
    if not lasting or known.looked.failed or len(known.looked) >= MOST_LOOKED:
        return known
    looked = _look(session, known.looked, *FURTHER)
    if looked.failed:
        return replace(known, looked=looked)
    return _chosen(session, looked, finite=known.finite)


def _chosen(session: ReferenceSession, looked: Looked, *, finite: bool) -> RareSets:
    """Choose from the sets that were looked at."""
    rarely = bool(DISCRETE.search(session.source)) and len(looked.traits) >= FEWEST_SETS and not looked.failed
    infinite = any("nan" not in kinds for kinds in looked.odd.values())
    odd = tuple(_kept(session, looked.odd)) if finite else ()
    return RareSets(tuple(_covering(looked.traits)) if rarely else (), odd, infinite, finite, looked)


def _is_mostly_finite(session: ReferenceSession, seen: Looked, *, sample_finite: bool) -> bool:
    """Whether most answers are finite; decided by fixed seeds if there are both kinds, so that all sessions agree."""
    if len(seen) < FEWEST_SETS:
        return sample_finite
    if not (seen.traits and seen.odd):
        return bool(seen.traits)
    fixed = random.Random(f"finite {session.init_seed}")
    answers = [answer_to(session, fixed.getrandbits(64), finite=False, exact=False) for _ in range(FIXED_SETS)]
    return sum(answer is not None and answer.finite for answer in answers) > FIXED_SETS // 2


def _look(session: ReferenceSession, before: Looked, most: int, seconds: float) -> Looked:
    """Draw up to `most` more plain sets within this many seconds, or until the reference fails on one."""
    secret, begun = random.SystemRandom(), time.monotonic()
    traits, odd, failed = dict(before.traits), dict(before.odd), False
    while not failed and (count := len(traits) + len(odd) - len(before)) < most:
        elapsed = time.monotonic() - begun
        if elapsed > (seconds if len(before) or count >= most // 6 else PATIENCE * seconds):
            break
        seed = secret.getrandbits(64)
        answer = answer_to(session, seed, finite=False, exact=False)
        if answer is None or not answer.defined:
            failed = True
        elif answer.finite:
            traits[seed] = frozenset(_traits(answer))
        else:
            odd[seed] = _kinds_of_odd(answer)
    return Looked(traits, odd, failed)


def _kinds_of_odd(answer: Answer) -> set[str]:
    """Return the kinds of non-finite numbers in an answer."""
    values = [tensor_views.computable(one.value) for one in answer.expected if one.value.is_floating_point()]
    tests = {"nan": torch.isnan, "inf": torch.isinf}
    return {kind for kind, test in tests.items() if any(bool(test(value).any()) for value in values)}


def _kept(session: ReferenceSession, odd: Mapping[int, Set[str]]) -> Iterable[int]:
    """Yield up to MOST_ODD seeds of each kind whose answers are odd in fp64 too: others overflow by their dtype."""
    for kinds in ({"nan"}, {"inf"}, {"nan", "inf"}):
        left = MOST_ODD
        for seed in (seed for seed, found in odd.items() if found == kinds):
            if not left:
                break
            answer = answer_to(session, seed, finite=False)
            if answer is not None and all(map(is_odd_in_itself, answer.expected)):
                left -= 1
                yield seed


def is_odd_in_itself(one: Expected) -> bool:
    """Whether the non-finite elements of an answer are non-finite in fp64 too."""
    if one.exact is None or not one.value.is_floating_point():
        return True
    own, exact = torch.isfinite(tensor_views.computable(one.value)), torch.isfinite(one.exact)
    return bool((own == exact).all())


def answer_to(session: ReferenceSession, seed: int, *, finite: bool, exact: bool = True) -> Answer | None:
    """Make the plain input set of a seed and return the reference's answer; None if it fails or must be finite."""
    return tried_answer(session, random.Random(seed), finite=finite, exact=exact)


def _traits(answer: Answer) -> Iterable[Trait]:
    """Yield an answer's traits, output and number: for floats, whether one is zero."""
    for output, one in enumerate(answer.expected):
        value = one.value
        if not value.numel() or value.numel() > MOST_ELEMENTS or value.is_complex():
            continue
        if value.is_floating_point():
            yield output, int((tensor_views.computable(value) == 0).any())
            continue
        numbers = torch.unique(tensor_views.computable(value)).tolist()
        yield from (
            (output, number) for number in (numbers if len(numbers) <= MOST_VALUES else (numbers[0], numbers[-1]))
        )


def _covering(found: Mapping[int, Set[Trait]]) -> Sequence[int]:
    """Return the fewest seeds that hold most rare traits: greedily, the richest first."""
    count = Counter(trait for traits in found.values() for trait in traits)
    left: set[Trait] = set()
    for output in {output for output, _ in count}:
        rare = sorted(trait for trait, times in count.items() if trait[0] == output and times <= RARE * len(found))
        left.update(rare if len(rare) <= MOST_RARE else (rare[0], rare[-1]))
    chosen: list[int] = []
    while left and len(chosen) < MOST_KEPT:
        best = max(found, key=lambda seed: len(found[seed] & left))
        chosen.append(best)
        left -= found[best]
    return chosen
