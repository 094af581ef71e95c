"""libdevice's `fast_` functions: approximate instructions of a chip, with or without an error bound.

Within its bound an instruction can return any number; here it returns a random one. So the last bits do not tell a
kernel where it runs, and a kernel that needs more precision than a chip has is wrong here too. Outside the bound's
domain, or if the bound is far from float32, nothing can be decided. The bounds are those of the PTX manual; an H100
keeps them.

An instruction returns the same result for the same input, so the random numbers depend on the bits of its input and on
a key that each process draws.
"""

import functools
import math
import os
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from warpsmith.evaluator.languages.triton.interpreter.chip_numerics import ChipDiffersError, flushed

_LOG2_E: Final = np.float32(1.4426950408889634)
_LOG2_10: Final = np.float32(math.log2(10.0))
_LN_2: Final = np.float32(math.log(2.0))
_LOG10_2: Final = np.float32(math.log10(2.0))
WAVE_RANGE: Final = 2 * math.pi
_WAVE_ERROR: Final = 2.0**-20.5
_LOG_ERROR: Final = 2.0**-22
_ULPS: Final = 2.0
_LARGEST_DIVISOR: Final = 2.0**126


def sine(x: Any) -> Any:
    """Return sin.approx of float32, within 2^-20.5 of the sine."""
    return _wave("fast_sinf", np.sin, x)


def cosine(x: Any) -> Any:
    """Return cos.approx of float32, within 2^-20.5 of the cosine."""
    return _wave("fast_cosf", np.cos, x)


def tangent(x: Any) -> Any:
    """Return the tangent as on a chip: sin.approx over cos.approx."""
    return quotient(_wave("fast_tanf", np.sin, x), _wave("fast_tanf", np.cos, x))


def power_of_two(x: Any) -> Any:
    """Return ex2.approx of float32, within two units in the last place; exact for integers."""
    x = flushed(x)
    exact = np.exp2(x.astype(np.float64))
    return _within(exact, np.where(x == np.trunc(x), 0.0, _ULPS * _spacing(exact)), x)


def logarithm_of_two(x: Any) -> Any:
    """Return lg2.approx of float32, with an error of 2^-22, absolute for x between 1/2 and 2 and relative otherwise."""
    x = flushed(x)
    exact = np.log2(x.astype(np.float64))
    bound = _LOG_ERROR * np.where((x > 0.5) & (x < 2.0), 1.0, np.abs(exact))
    return _within(exact, np.where((x == 1.0) | ~np.isfinite(exact), 0.0, bound), x)


def quotient(x: Any, y: Any) -> Any:
    """Return div.approx of float32, within two units in the last place; zero or NaN for a divisor beyond 2^126."""
    x, y = flushed(x), flushed(y)
    exact = x.astype(np.float64) / y.astype(np.float64)
    is_power = np.abs(np.frexp(y)[0]) == 0.5
    found = _within(exact, np.where(is_power | ~np.isfinite(exact), 0.0, _ULPS * _spacing(exact)), x, y)
    beyond = (np.abs(y) > _LARGEST_DIVISOR) & np.isfinite(y)
    return np.where(beyond, x * np.copysign(np.float32(0.0), y), found)


def exponential(x: Any) -> Any:
    """Return ex2.approx(x log2 e), with the product rounded to float32."""
    return power_of_two(x * _LOG2_E)


def exponential_of_ten(x: Any) -> Any:
    """Return ex2.approx(x log2 10), with the product rounded to float32."""
    return power_of_two(x * _LOG2_10)


def natural_logarithm(x: Any) -> Any:
    """Return lg2.approx(x) ln 2."""
    return logarithm_of_two(x) * _LN_2


def decimal_logarithm(x: Any) -> Any:
    """Return lg2.approx(x) log10 2."""
    return logarithm_of_two(x) * _LOG10_2


def power(x: Any, y: Any) -> Any:
    """Return ex2.approx(y lg2.approx(x)): NaN for a negative x, and for 0 to the power of 0."""
    return power_of_two(logarithm_of_two(x) * y)


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "fast_sinf": sine,
    "fast_cosf": cosine,
    "fast_tanf": tangent,
    "fast_expf": exponential,
    "fast_exp10f": exponential_of_ten,
    "fast_logf": natural_logarithm,
    "fast_log2f": logarithm_of_two,
    "fast_log10f": decimal_logarithm,
    "fast_powf": power,
    "fast_fdividef": quotient,
}
"""By symbol, on float32. Each instruction flushes denormals; the products between them do not."""


def _wave(name: str, function: Callable[[Any], Any], x: Any) -> Any:
    if (np.isfinite(x) & (np.abs(x) > WAVE_RANGE)).any():
        raise ChipDiffersError(
            f"libdevice.{name} gets a number beyond 2 pi, where a chip's approximation is far less exact than float32 "
            f"and in the end has no bound. Use {_INSTEAD[name]}, or reduce the angle before."
        )
    x = flushed(x)
    return _within(function(x.astype(np.float64)), np.where(x == 0.0, 0.0, _WAVE_ERROR), x)


_INSTEAD: Final = {"fast_sinf": "tl.sin", "fast_cosf": "tl.cos", "fast_tanf": "libdevice.tan"}


def _spacing(exact: Any) -> Any:
    with np.errstate(over="ignore"):
        return np.where(exact == 0.0, 0.0, np.abs(np.spacing(exact.astype(np.float32)).astype(np.float64)))


def _within(exact: Any, bound: Any, *inputs: Any) -> Any:
    """Return numbers at most `bound` from `exact`, in double precision, rounded to float32 and without denormals."""
    with np.errstate(over="ignore"):
        return flushed(np.where(bound > 0.0, exact + bound * _noise(*inputs), exact).astype(np.float32))


def _noise(*inputs: Any) -> Any:
    """Return a number from [-1, 1) for the bits of each input."""
    mixed = np.uint64(process_key())
    for values in inputs:
        mixed = _scrambled(mixed ^ np.ascontiguousarray(values, dtype=np.float32).view(np.uint32).astype(np.uint64))
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0


def _scrambled(bits: Any) -> Any:
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@functools.cache
def process_key() -> int:
    """Return this process's key, drawn on first use, after the fork of a worker."""
    return int.from_bytes(os.urandom(8))
