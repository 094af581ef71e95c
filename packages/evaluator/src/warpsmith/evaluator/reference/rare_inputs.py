"""Plain input sets whose answers hold what few plain answers hold: a row without a mark, a hand of a rare rank.

A kernel that is wrong for one input set in ten is right in most evaluations if each judges one plain set that is drawn
anew. So plain sets are drawn in advance, the reference answers them, and those with a rare number in the answer are
judged more often than others. Their seeds are secret, as those of all trials.
"""

import random
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final

import torch

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.reference.session import Answer, ReferenceSession
from warpsmith.evaluator.reference.tolerated_changes import tried_answer

DISCRETE: Final = re.compile(r"randint|integers|random_|randrange|multinomial|choice|randperm")
"""Calls that draw integers: what happens in few sets is then a step of the answer, not a tail of it."""
MOST_SETS: Final = 48
MOST_S: Final = 0.3
"""Plain input sets that are drawn, and seconds for them."""
FEWEST_SETS: Final = 12
"""Sets below which nothing is known to be rare."""
RARE: Final = 0.25
"""Share of sets up to which what they have is rare."""
MOST_KEPT: Final = 6
MOST_VALUES: Final = 256
"""Different numbers of an output beyond which only the smallest and the largest are looked at."""
MOST_RARE: Final = 8
"""Rare numbers of an output beyond which being rare means nothing, as in sums: only the extreme ones then count."""
MOST_ELEMENTS: Final = 1 << 20
"""Elements of an output beyond which it is not looked at."""

Trait = tuple[int, float]
"""The number of an output, and a number in it."""


def rare_seeds(session: ReferenceSession, *, finite: bool) -> tuple[int, ...]:
    """Return seeds of `answer_to` whose answers hold rare numbers; none if the problem draws no integers.

    Args:
        session: the problem, its state as constructed.
        finite: whether answers must be finite.
    """
    if not DISCRETE.search(session.source):
        return ()
    secret, begun = random.SystemRandom(), time.monotonic()
    found: dict[int, set[Trait]] = {}
    while len(found) < MOST_SETS and time.monotonic() - begun < MOST_S:
        seed = secret.getrandbits(64)
        answer = answer_to(session, seed, finite=finite, exact=False)
        if answer is None:
            return ()
        found[seed] = set(_traits(answer))
    return tuple(_covering(found)) if len(found) >= FEWEST_SETS else ()


def answer_to(session: ReferenceSession, seed: int, *, finite: bool, exact: bool = True) -> Answer | None:
    """Make the plain input set of a seed and return the reference's answer; None if it fails or must be finite."""
    return tried_answer(session, random.Random(seed), finite=finite, exact=exact)


def _traits(answer: Answer) -> Iterable[Trait]:
    """Yield output and number of what an answer has: of floats, whether one is zero."""
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
