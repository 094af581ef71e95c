"""Chains of unary operations: drawing them, checking that they are well conditioned, and rendering them as lines."""

import math
import random
from dataclasses import dataclass
from itertools import pairwise

from warpsmith.rollout.generator.operations import UNARY, Constants, Unary

INPUT_LOW, INPUT_HIGH = -2.0, 2.0
"""Every generated input is uniform between these."""

_GRID_CELLS = 256
_LARGEST_VALUE = 50.0
_LARGEST_SLOPE = 40.0
_LEAST_SPREAD = 0.1
_LARGEST_CONSTANT_SHARE = 0.6
_ROUNDING = 2e-5
_NEAR, _SHARP_SHARE = 0.02, 0.03
_LOOK_ALIKE = ({"add_c", "sub_c"}, {"mul_c", "div_c"}, {"clamp", "clamp_min", "clamp_max"})


@dataclass(frozen=True)
class Step:
    """One operation of a chain with its constants."""

    operation: Unary
    constants: Constants

    def torch(self, name: str) -> str:
        """Return the assignment in PyTorch, for example `x = torch.exp(x)`."""
        return f"{name} = {self._filled(self.operation.torch, name)}"

    def triton(self, name: str) -> str:
        """Return the assignment in Triton."""
        return f"{name} = {self._filled(self.operation.triton, name)}"

    def _filled(self, template: str, name: str) -> str:
        return template.format(x=name, **dict(zip("ab", self.constants, strict=False)))


Chain = tuple[Step, ...]


def key(chain: Chain) -> str:
    """Return the composition key of a chain: its operations in order, without their constants."""
    return "+".join(step.operation.name for step in chain)


def torch_lines(chain: Chain, name: str) -> tuple[str, ...]:
    """Return the chain's assignments to the variable `name`, in PyTorch."""
    return tuple(step.torch(name) for step in chain)


def triton_lines(chain: Chain, name: str) -> tuple[str, ...]:
    """Return the chain's assignments to the variable `name`, in Triton."""
    return tuple(step.triton(name) for step in chain)


def slug_of(*parts: Chain | str) -> str:
    """Return a short name for files: words and the operations of chains, in order."""
    words = (part if isinstance(part, str) else "_".join(step.operation.name for step in part) for part in parts)
    return "_".join(word for word in words if word)


def draw_chain(rng: random.Random, length: int, *, reach: float = INPUT_HIGH) -> Chain:
    """Draw a chain of `length` operations that is finite, smooth and informative on [-reach, reach]."""
    while True:
        chain = tuple(_draw_step(rng) for _ in range(length))
        if not _repeats_itself(chain) and is_well_conditioned(chain, reach):
            return chain


def optional_chain(rng: random.Random, longest: int, *, reach: float = INPUT_HIGH) -> Chain:
    """Draw a chain of zero to `longest` operations."""
    length = rng.randint(0, longest)
    return draw_chain(rng, length, reach=reach) if length else ()


def _draw_step(rng: random.Random) -> Step:
    operation = rng.choice(UNARY)
    return Step(operation, rng.choice(operation.constants))


def _repeats_itself(chain: Chain) -> bool:
    """Return whether neighbours do the same kind of thing, which a programmer would write as one operation."""
    names = [step.operation.name for step in chain]
    return any(a == b or any({a, b} <= alike for alike in _LOOK_ALIKE) for a, b in pairwise(names))


def is_well_conditioned(chain: Chain, reach: float = INPUT_HIGH) -> bool:
    """Return whether the chain is defined on all of [-reach, reach], bounded, not steep, and far from constant."""
    try:
        values = _values(chain, reach)
        rounded = _values(chain, reach, relative_error=1e-6, absolute_error=1e-7)
    except (ValueError, OverflowError, ZeroDivisionError):
        return False
    width = 2.0 * reach / _GRID_CELLS
    steepest = max(abs(b - a) / width for a, b in pairwise(values))
    most_common = max(values.count(v) for v in (values[0], values[-1], min(values), max(values)))
    return (
        all(math.isfinite(v) and abs(v) <= _LARGEST_VALUE for v in values)
        and steepest <= _LARGEST_SLOPE
        and max(values) - min(values) >= _LEAST_SPREAD
        and all(abs(r - v) <= _ROUNDING * (1.0 + abs(v)) for r, v in zip(rounded, values, strict=True))
        and most_common <= _LARGEST_CONSTANT_SHARE * len(values)
    )


def has_sharp_extremum(chain: Chain, *, largest: bool) -> bool:
    """Return whether few inputs come near the chain's extremum, so that the extremum of a row is informative.

    The largest of many values of a saturating function is the same in every row.
    """
    values = _values(chain, INPUT_HIGH)
    extremum = max(values) if largest else min(values)
    near = _NEAR * (max(values) - min(values))
    return sum(abs(v - extremum) <= near for v in values) <= _SHARP_SHARE * len(values)


def grows_outwards(chain: Chain, reach: float) -> bool:
    """Return whether the chain's largest value on [-reach, reach] is at an end, and clearly above the middle half.

    Then the largest of many normal numbers is informative: few of them come near an end.
    """
    values = _values(chain, reach)
    quarter = len(values) // 4
    highest = max(values[0], values[-1])
    return highest >= max(values) and highest >= max(values[quarter:-quarter]) + 0.5


def _values(chain: Chain, reach: float, *, relative_error: float = 0.0, absolute_error: float = 0.0) -> list[float]:
    """Return the chain's values on a grid, each step's result perturbed by as much as fp32 could."""
    grid = (reach * (2 * i / _GRID_CELLS - 1) for i in range(_GRID_CELLS + 1))
    return [_apply(chain, x, 1.0 + relative_error, absolute_error) for x in grid]


def _apply(chain: Chain, x: float, factor: float, offset: float) -> float:
    for step in chain:
        x = step.operation.value(x, step.constants) * factor + offset
        if abs(x) > 1e6:
            raise OverflowError(f"{step.operation.name} leaves the representable range")
    return x
