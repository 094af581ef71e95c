"""Numbers at which a kernel may act differently: those in a candidate's source, and those next to a boundary.

A kernel that is wrong for some numbers only is wrong at a boundary: where it compares, at a power of two or of ten
beyond which a conversion rounds, at a square or a triangular number, at a number that needs the most steps, where a sum
meets a modulus. Random numbers seldom hit one. So some places of a draw get them, always within the range of the draw.
"""

import itertools
import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

Item = TypeVar("Item")

MOST_WRITTEN: Final = 24
"""Maximum numbers of a candidate's source in one trial; if there are more, each trial has different ones."""
MOST_READ: Final = 4096
"""Numbers of a source that are looked at."""
MOST_BITS: Final = 62
LARGEST_NUMBER: Final = 128
NUMBER_STEPS: Final = 8
"""A number of few bits is a multiple of 1/8: bfloat16 represents these up to 32, other dtypes up to LARGEST_NUMBER."""
LEAST_SQUARED: Final = 16
"""Largest integer up to which squares are as likely as other boundaries."""
BELOW: Final = (-1, -1, 0, 1)
"""Distances from a boundary: integers just below one are rounded up to it by a narrow format."""

AT: Final = (-1, 0, 0, 0, 1)
"""Distances from a special number."""
LARGE_OF: Final = 3
"""The largest of this many random numbers of a source is taken: random draws rarely hit large ones."""
MEETINGS: Final = 4
"""Attempts for each meeting that is wanted: many have no place in the range."""
LONGEST: Final = (
    *(27, 54, 73, 97, 129, 171, 231, 313, 327, 649, 703, 871, 1161, 2223, 2463, 2919, 3711, 6171, 10971, 13255, 17647),
    *(23529, 26623, 34239, 35655, 52527, 77031, 106239, 142587, 156159, 216367, 230631, 410011, 511935, 626331, 837799),
    *(1117065, 1501353, 1723519),
)
"""Numbers from which halving or tripling and adding one takes more steps to reach one than from any smaller number."""

_NUMBER: Final = r"0[xX][0-9a-fA-F]{1,16}|(?:\d[\d_]{0,24}(?:\.\d{0,24})?|\.\d{1,24})(?:[eE][+-]?\d{1,3})?"
_WRITTEN: Final = re.compile(rf"(?<![\w.])({_NUMBER})(?:\s{{0,4}}(<<|\*\*)\s{{0,4}}(\d{{1,3}})(?!\w))?")


def written_in(source: str) -> tuple[float, ...]:
    """Return the distinct numbers in a source text of any language, without signs; integers as integers.

    `1 << 20` and `10**6` count as their values. Numbers in comments and strings count too, which does no harm.
    """
    found: dict[float, None] = {}
    for match in _WRITTEN.finditer(source):
        left = _value(match[1])
        if left is not None and math.isfinite(left):
            found[_computed(left, match[2], match[3])] = None
        if len(found) >= MOST_READ:
            break
    return tuple(found)


def _value(text: str) -> float | None:
    plain = text.replace("_", "")
    if plain[:2].lower() == "0x":
        value: float = int(plain, 16)
    else:
        value = int(plain) if plain.isdigit() else float(plain)
    return value if abs(value) < 1 << MOST_BITS else None


def _computed(left: float, operator: str | None, right: str | None) -> float:
    """Return the value that two written integers make, or the first one if that is not an integer of 62 bits."""
    if operator is None or right is None or not isinstance(left, int) or int(right) > MOST_BITS:
        return left
    value = left << int(right) if operator == "<<" else left ** int(right)
    return value if value < 1 << MOST_BITS else left


def chosen(numbers: Sequence[float], rng: random.Random) -> tuple[float, ...]:
    """Return those of a source's numbers that one trial has."""
    return tuple(numbers) if len(numbers) <= MOST_WRITTEN else tuple(rng.sample(numbers, MOST_WRITTEN))


def integers_among(numbers: Iterable[float]) -> tuple[int, ...]:
    """Return the integers among some numbers, with their negatives."""
    whole = [int(number) for number in numbers if float(number).is_integer()]
    return tuple(dict.fromkeys(one for number in whole for one in (number, -number)))


def _until(most: int, numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(itertools.takewhile(lambda number: number < most, numbers))


def _fibonacci() -> Iterator[int]:
    one, two = 1, 2
    while True:
        yield one
        one, two = two, one + two


FIBONACCI: Final = _until(1 << MOST_BITS, _fibonacci())
"""Two neighbours among them need the most steps of Euclid's algorithm."""
FACTORIALS: Final = _until(1 << MOST_BITS, map(math.factorial, itertools.count(3)))


def boundaries(low: int, high: int, count: int, rng: random.Random, *, special: Sequence[int] = ()) -> list[int]:
    """Return up to `count` integers of `low` to `high - 1` next to a boundary, chosen at random.

    Args:
        low: the least one.
        high: the largest one and one more.
        count: how many are wanted.
        rng: chooses.
        special: integers of the sources; their neighbours and multiples are taken as well.
    """
    near = [_near_two, _near_ten]
    if high > LEAST_SQUARED:
        near += [_near_a_square, _near_a_triangle, _near_a_triangle, _near_a_rare_one]
    kinds: list[Callable[[], int]] = [partial(one, low, high, rng) for one in near]
    if special:
        kinds.append(lambda: rng.choice(special) + rng.choice((-1, 1)))
        kinds.append(lambda: _multiple(rng.choice(special), low, high, rng))
    drawn = (rng.choice(kinds)() for _ in range(2 * count))
    return list(dict.fromkeys(number for number in drawn if low <= number < high))[:count]


def hardest(low: int, high: int) -> list[int]:
    """Return the numbers of a range that need the most steps: two neighbours of Fibonacci, and one of `LONGEST`."""
    tails = (FIBONACCI, 2), (LONGEST, 1)
    return [
        one
        for numbers, most in tails
        for one in [n for n in numbers if LEAST_SQUARED <= n < high][-most:]
        if one >= low
    ]


def meetings(low: int, high: int, count: int, rng: random.Random, numbers: Sequence[int]) -> list[int]:
    """Return up to `count` integers of a range which, with a number of a source added, meet a multiple of another one.

    So `(x + c) % m` is zero, or the largest remainder, for `m` and `c` of the source. Two numbers that follow one
    another in the source are as likely as any two.

    Args:
        low: the least integer.
        high: the largest one and one more.
        count: how many are wanted.
        rng: chooses.
        numbers: the integers of the sources, in their order; those out of the range count too.
    """
    sizes = [abs(number) for number in numbers]
    moduli = sorted({size for size in sizes if size > LEAST_SQUARED})
    if not moduli:
        return []
    beside = sorted({pair for pair in itertools.pairwise(sizes) if max(pair) > LEAST_SQUARED}, key=min)
    added = sorted({0, *sizes})
    found: dict[int, None] = {}
    for _ in range(MEETINGS * count):
        modulus, shift = _large(moduli, rng), _large(added, rng)
        if beside and rng.random() < 1 / 2:
            modulus, shift = rng.sample(_large(beside, rng), 2)
        if (
            modulus > LEAST_SQUARED
            and (place := _meeting(modulus, rng.choice((shift, shift, shift, -shift)), low, high, rng)) is not None
        ):
            found[place] = None
        if len(found) >= count:
            break
    return list(found)


def _meeting(modulus: int, shift: int, low: int, high: int, rng: random.Random) -> int | None:
    """Return an integer of a range at or next to a multiple of `modulus` minus `shift`; None if there is none."""
    least, most = -(-(low + shift) // modulus), (high + shift) // modulus
    if least > most:
        return None
    place = modulus * rng.randint(least, most) - shift + rng.choice((0, 0, -1, -1, 1))
    return place if low <= place < high else None


def _large(ordered: Sequence[Item], rng: random.Random) -> Item:
    """Return one of some items; the last are the likeliest."""
    return ordered[max(rng.randrange(len(ordered)) for _ in range(LARGE_OF))]


def sum_to_meet(total: int, within: tuple[int, int], numbers: Sequence[int], rng: random.Random) -> int | None:
    """Return the sum near `total` at which a kernel may act differently: at or next to a multiple of a source's number.

    Args:
        total: the sum of some integers.
        within: the least and the largest sum that such integers can have.
        numbers: the integers of the sources.
        rng: chooses.

    Returns:
        The sum, or None if none of a few attempts is within the bounds.
    """
    moduli = sorted({abs(number) for number in numbers if abs(number) > LEAST_SQUARED})
    for _ in range(MEETINGS if moduli else 0):
        modulus, shift = _large(moduli, rng), rng.choice((0, 0, 1, rng.choice(numbers)))
        aim = modulus * max(round((total + shift) / modulus), 1) - shift + rng.choice((0, 0, -1, 1))
        if within[0] <= aim <= within[1]:
            return aim
    return None


def _near_two(low: int, high: int, rng: random.Random) -> int:
    return _near_a_power(2, low, high, rng)


def _near_ten(low: int, high: int, rng: random.Random) -> int:
    return _near_a_power(10, low, high, rng)


def _near_a_power(base: int, low: int, high: int, rng: random.Random) -> int:
    sign = -1 if high <= 1 or (low < 0 and rng.random() < 1 / 2) else 1
    farthest = max(-low if sign < 0 else high, 1)
    least = max(low if sign > 0 else -high, 1)
    power: int = base ** rng.randint(_exponent(base, least), _exponent(base, farthest))
    return sign * (power + rng.choice(BELOW))


def _exponent(base: int, number: int) -> int:
    """Return the exponent of the largest power of `base` that is at most `number`."""
    exponent = 0
    while base ** (exponent + 1) <= number:
        exponent += 1
    return exponent


def _near_a_square(low: int, high: int, rng: random.Random) -> int:
    root = rng.randint(math.isqrt(max(low, 0)), math.isqrt(max(high - 1, 1)))
    return root * root + rng.choice(BELOW)


def _near_a_triangle(low: int, high: int, rng: random.Random) -> int:
    """Return a triangular number k (k + 1) / 2 of a range, or a neighbour: the first index of a row of a triangle."""
    least, most = (math.isqrt(max(2 * one, 0)) for one in (low, high))
    side = rng.randint(least, max(most, least))
    return side * (side + 1) // 2 + rng.choice(AT)


def _near_a_rare_one(low: int, high: int, rng: random.Random) -> int:
    """Return a Fibonacci number, a factorial, a cube or one that takes the most steps, or one next to it."""
    match rng.randrange(4):
        case 0:
            root = round(max(high, 1) ** (1 / 3))
            return int(rng.randint(0, root) ** 3) + rng.choice(AT)
        case kind:
            numbers = (FIBONACCI, FACTORIALS, LONGEST)[kind - 1]
            some = [number for number in numbers if low <= number < high] or [low]
            return rng.choice(some) + rng.choice(AT)


def _multiple(number: int, low: int, high: int, rng: random.Random) -> int:
    """Return a multiple of a number in a range, as a remainder of zero needs; the number if there is none."""
    least, most = -(-low // max(abs(number), 1)), (high - 1) // max(abs(number), 1)
    return abs(number) * rng.randint(least, most) if number and least <= most else number
