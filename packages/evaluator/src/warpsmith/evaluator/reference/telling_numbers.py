"""Numbers at which a kernel may act otherwise: those that a candidate's source contains, and those beside a boundary.

A kernel that is wrong for some numbers only is wrong at a boundary: where it compares, at a power of two or of ten
beyond which a conversion rounds, at a square. Random numbers seldom meet one. So some places of a draw get them, always
within the range of the draw.
"""

import math
import random
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

MOST_WRITTEN: Final = 24
"""Numbers of a candidate's source that one trial has; of more, each trial has others."""
MOST_READ: Final = 4096
"""Numbers of a source that are looked at."""
MOST_BITS: Final = 62
LARGEST_NUMBER: Final = 128
NUMBER_STEPS: Final = 8
"""A number of few bits is a multiple of 1/8: bfloat16 represents these up to 32, other dtypes up to LARGEST_NUMBER."""
LEAST_SQUARED: Final = 16
"""Largest integer up to which squares are as good as any."""
BELOW: Final = (-1, -1, 0, 1)
"""Distances from a boundary: integers just below one are rounded up to it by a narrow format."""

_NUMBER: Final = r"0[xX][0-9a-fA-F]{1,16}|(?:\d[\d_]{0,24}(?:\.\d{0,24})?|\.\d{1,24})(?:[eE][+-]?\d{1,3})?"
_WRITTEN: Final = re.compile(rf"(?<![\w.])({_NUMBER})(?:\s{{0,4}}(<<|\*\*)\s{{0,4}}(\d{{1,3}})(?!\w))?")


def written_in(source: str) -> tuple[float, ...]:
    """Return the distinct numbers in a source text of any language, without signs; integers as integers.

    `1 << 20` and `10**6` count as what they are. What stands in comments and texts counts too: it does no harm.
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
    """Return what two written integers make, or the first one where that is no integer of 62 bits."""
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


def boundaries(low: int, high: int, count: int, rng: random.Random, *, special: Sequence[int] = ()) -> list[int]:
    """Return up to `count` integers of `low` to `high - 1` that are beside a boundary, chosen at random.

    Args:
        low: the least one.
        high: the largest one and one more.
        count: how many are wanted.
        rng: chooses.
        special: integers of the sources; their neighbours and multiples are taken as well.
    """
    squares = [_near_a_square] if high > LEAST_SQUARED else []
    kinds: list[Callable[[], int]] = [partial(one, low, high, rng) for one in (_near_two, _near_ten, *squares)]
    if special:
        kinds.append(lambda: rng.choice(special) + rng.choice((-1, 1)))
        kinds.append(lambda: _multiple(rng.choice(special), low, high, rng))
    drawn = (rng.choice(kinds)() for _ in range(2 * count))
    return list(dict.fromkeys(number for number in drawn if low <= number < high))[:count]


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


def _multiple(number: int, low: int, high: int, rng: random.Random) -> int:
    """Return a multiple of a number in a range, as a remainder of zero needs; the number if there is none."""
    least, most = -(-low // max(abs(number), 1)), (high - 1) // max(abs(number), 1)
    return abs(number) * rng.randint(least, most) if number and least <= most else number
