"""CUDA's device library for Triton's interpreter, which has none: each function by symbol, computed with NumPy.

Installed in the interpreting zygote; the compile worker keeps Triton's own functions. An error names functions that are
missing here. The `fast_` functions are in `approximations.py`.
"""

import inspect
import math
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import numpy as np
import torch
import triton.language as tl
from torch.utils._python_dispatch import _disable_current_modes
from triton.language.extra import libdevice as generic
from triton.language.extra.cuda import libdevice as cuda
from triton.runtime import interpreter

from warpsmith.evaluator.languages.triton.interpreter import approximations, chip_numerics

Function = Callable[..., Any]
PREFIX: Final = "__nv_"


class UnsupportedOnCpuError(RuntimeError):
    """A kernel uses something that a chip can compute but the interpreter cannot."""


def _by_torch(function: Callable[[torch.Tensor], torch.Tensor]) -> Function:
    """Return a torch function as one on arrays; torch has more special functions than NumPy.

    The watches around a candidate's forward must not count it as the candidate's use of torch.
    """

    def compute(x: Any) -> Any:
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            return function(torch.from_numpy(np.ascontiguousarray(x))).numpy()

    return compute


def _vanishing(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a Bessel function that is zero at infinity, where torch's is NaN; the second kind is NaN for x < 0."""
    return lambda x: torch.where(x.isinf() & function(x.sign()).isfinite(), 0.0, function(x))


def _round_half_away(x: Any) -> Any:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1.0, x), whole)


def _sine_of_turns(x: Any) -> Any:
    """Return sin(pi x), which is zero for integers."""
    turn = np.fmod(x, 2)
    return np.where(turn == np.trunc(turn), np.copysign(0.0, np.where(x == 0.0, 0.0, x)), np.sin(np.pi * turn))


def _gamma(x: float) -> float:
    if math.isnan(x) or x == -math.inf or (x < 0 and x == math.floor(x)):
        return math.nan
    try:
        return math.gamma(x) if x else math.copysign(math.inf, x)
    except OverflowError:
        return math.inf


def _remainder(x: float, y: float) -> float:
    return math.nan if math.isnan(y) or not math.isfinite(x) or not y else math.remainder(x, y)


def _exponent(x: Any) -> Any:
    found = np.frexp(x)[1] - 1.0
    return np.where(x == 0, -np.inf, np.where(np.isfinite(x), found, np.abs(x)))


def _norm(*parts: Any) -> Any:
    return np.sqrt(sum(part * part for part in parts))


_SAME_NAME: Final = """
    sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh
    ceil floor trunc rint cbrt fabs hypot copysign fmod nextafter
"""
_INVERSE: Final = "sin cos tan sinh cosh tanh tan2"
_NUMPY: Final = {
    **{name: getattr(np, name) for name in _SAME_NAME.split()},
    **{f"a{name}": getattr(np, f"arc{name}") for name in _INVERSE.split()},
}
_TORCH: Final = {
    "erf": torch.erf,
    "erfc": torch.erfc,
    "erfinv": torch.erfinv,
    "erfcinv": lambda x: -torch.special.ndtri(x / 2) / math.sqrt(2),
    "erfcx": torch.special.erfcx,
    "lgamma": torch.lgamma,
    "normcdf": torch.special.ndtr,
    "normcdfinv": torch.special.ndtri,
    "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1,
    "j0": _vanishing(torch.special.bessel_j0),
    "j1": _vanishing(torch.special.bessel_j1),
    "y0": _vanishing(torch.special.bessel_y0),
    "y1": _vanishing(torch.special.bessel_y1),
}
_WRITTEN: Final[dict[str, Function]] = {
    "abs": np.abs,
    "llabs": np.abs,
    "exp10": lambda x: np.power(10.0, x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "sinpi": _sine_of_turns,
    "cospi": lambda x: _sine_of_turns(np.abs(np.fmod(x, 2)) + 0.5),
    "nearbyint": np.rint,
    "round": _round_half_away,
    "logb": _exponent,
    "tgamma": np.vectorize(_gamma, otypes=[np.float64]),
    "saturatef": lambda x: np.clip(np.nan_to_num(x, nan=0.0), 0.0, 1.0),
    "pow": np.power,
    "powi": lambda x, n: np.power(x, n.astype(np.float64)),
    "fdim": lambda x, y: np.where(x <= y, 0.0, x - y),
    "ldexp": np.ldexp,
    "scalbn": np.ldexp,
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "fma": chip_numerics.fused,
    "norm3d": _norm,
    "norm4d": _norm,
    "rnorm3d": lambda *parts: 1 / _norm(*parts),
    "rnorm4d": lambda *parts: 1 / _norm(*parts),
    "ilogb": _exponent,
    "remainder": np.vectorize(_remainder, otypes=[np.float64]),
    "popc": lambda x: np.bitwise_count(x.view(f"u{x.itemsize}")),
    "popcll": lambda x: np.bitwise_count(x.view(f"u{x.itemsize}")),
}
_TESTS: Final[dict[str, Function]] = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "finite": np.isfinite,
    "signbit": np.signbit,
}
_NEAREST: Final[dict[str, Function]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "rcp": lambda x: 1 / x,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
_WHOLE: Final[dict[str, Function]] = {"rn": np.rint, "rd": np.floor, "ru": np.ceil, "rz": np.trunc}
_SIGN_READING: Final = ("signbit", "copysign")
_BITWISE: Final = ("copysign", "signbit", "fabs", "abs", "nextafter", "isnan", "isinf", "isfinite", "finite")
"""Prefixes of functions that inspect or move bits, and so keep denormals."""
_FLUSHING: Final = """
    sqrt rsqrt exp2 sin cos tan tanh erf floor ceil fdim fmod remainder fma fma_rn fmaf_rn
    fadd_rn fsub_rn fmul_rn fdiv_rn frcp_rn fsqrt_rn frsqrt_rn
"""
"""Functions whose single-precision instructions all end in `.ftz`: denormal inputs and outputs become zeros."""
_KEEPING: Final = "exp exp10 log log2 log10"
"""Functions whose single-precision code scales denormals, so that none is lost."""
_SMALLEST_NORMAL: Final = np.finfo(np.float32).smallest_normal
_AS_GOOD_AS_ZERO: Final = 1e-36
_REINTERPRETED: Final = """
    float_as_int float_as_uint int_as_float uint_as_float double_as_longlong longlong_as_double
"""

FUNCTIONS: Final[dict[str, Function]] = {
    **_NUMPY,
    **{name: _by_torch(function) for name, function in _TORCH.items()},
    **_WRITTEN,
    **{f"{name}{suffix}": function for name, function in _TESTS.items() for suffix in ("", "d", "f")},
    **approximations.FUNCTIONS,
    **{f"{kind}{name}_rn": function for name, function in _NEAREST.items() for kind in "fd"},
    "fma_rn": chip_numerics.fused,
    "fmaf_rn": chip_numerics.fused,
    **{
        f"{origin}2{to}_{mode}": function
        for origin in ("float", "double")
        for to in ("int", "uint", "ll", "ull")
        for mode, function in _WHOLE.items()
    },
    **{
        f"{origin}2{to}_rn": np.asarray
        for origin in ("int", "uint", "ll", "ull", "double")
        for to in ("float", "double")
    },
    "llrint": np.rint,
    "llround": _round_half_away,
}
"""Functions by symbol, without `__nv_` and without the `f` of single precision."""


def function_of(symbol: str) -> Function:
    """Return the function of a symbol; UnsupportedOnCpuError if there is none."""
    name = symbol.removeprefix(PREFIX)
    found = FUNCTIONS.get(name) or FUNCTIONS.get(name.removesuffix("f"))
    if found is None:
        raise UnsupportedOnCpuError(
            f"libdevice's {name} cannot be interpreted on the cpu device. "
            "Write it with functions of triton.language, or evaluate on a GPU."
        )
    return found


def compute(symbol: str, arguments: list[Any], dtype: np.dtype[Any]) -> Any:
    """Apply a symbol to arrays; single precision is computed in double and rounded once at the end."""
    name = symbol.removeprefix(PREFIX)
    if name in _REINTERPRETED.split() or name.startswith(_SIGN_READING):
        chip_numerics.check_face(arguments[-1])
    if name in _REINTERPRETED.split():
        return np.ascontiguousarray(arguments[0]).view(dtype)
    if name.startswith(_BITWISE):
        return _computed(symbol, arguments, dtype)
    if name in approximations.FUNCTIONS:
        with np.errstate(all="ignore"):
            return approximations.FUNCTIONS[name](*arguments)
    if name.removesuffix("f") in _FLUSHING.split():
        arguments = [chip_numerics.flushed(array) for array in arguments]
        return chip_numerics.flushed(_computed(symbol, arguments, dtype))
    return _either_way(symbol, arguments, dtype)


def _either_way(symbol: str, arguments: list[Any], dtype: np.dtype[Any]) -> Any:
    """Apply a symbol whose code flushes denormals in some places: they are kept or flushed at random."""
    kept = lost = _computed(symbol, arguments, dtype)
    name = symbol.removeprefix(PREFIX).removesuffix("f")
    if name in _KEEPING.split():
        return kept
    if any(map(_holds_denormals, arguments)):
        lost = _computed(symbol, [chip_numerics.flushed(array) for array in arguments], dtype)
        if not _is_alike(kept, lost):
            raise chip_numerics.ChipDiffersError(
                f"libdevice.{name} gets a number below 2^-126, which parts of its code on a chip take for zero. "
                "Replace such numbers by tl.where before."
            )
    if lost is kept and not _holds_denormals(kept):
        return kept
    return chip_numerics.flushed(lost) if os.urandom(1)[0] & 1 else kept


def _holds_denormals(values: Any) -> bool:
    return values.dtype == np.float32 and bool(((values != 0) & (np.abs(values) < _SMALLEST_NORMAL)).any())


def _is_alike(one: Any, other: Any) -> bool:
    if one.dtype.kind != "f":
        return np.array_equal(one, other)
    return np.allclose(one, other, rtol=1e-6, atol=_AS_GOOD_AS_ZERO, equal_nan=True)


def _computed(symbol: str, arguments: list[Any], dtype: np.dtype[Any]) -> Any:
    name, function = symbol.removeprefix(PREFIX), function_of(symbol)
    if name.startswith("nextafter"):
        return np.nextafter(*arguments).astype(dtype)
    with np.errstate(all="ignore"):
        if function is chip_numerics.fused:
            return function(*arguments)
        wide = [array.astype(np.float64) if array.dtype == np.float32 else array for array in arguments]
        return _cast(np.asarray(function(*wide)), dtype)


def _cast(values: Any, dtype: np.dtype[Any]) -> Any:
    """Cast as a chip does: numbers outside an integer's range are clamped, and NaN becomes zero."""
    if dtype.kind not in "iu" or values.dtype.kind != "f":
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    inside = (values > limits.min) & (values < limits.max)
    whole = np.where(inside, values, 0.0).astype(dtype)
    return np.where(values >= limits.max, limits.max, np.where(values <= limits.min, limits.min, whole)).astype(dtype)


def install() -> None:
    """Install the device library in Triton's interpreter in this process, under all names that it is imported by."""
    interpreter.InterpreterBuilder.create_extern_elementwise = _create_extern_elementwise
    interpreter.InterpreterBuilder.create_inline_asm = _refuse_assembly
    for name, function in inspect.getmembers(cuda, tl.core.is_builtin):
        bound = _bound(name, function)
        setattr(cuda, name, bound)
        if name in vars(generic):
            setattr(generic, name, bound)
    _refuse_others(generic)


def _create_extern_elementwise(_builder: Any, *call: Any) -> Any:
    _library, _path, symbol, arguments, result, _pure = call
    found = compute(symbol, [argument.data for argument in arguments], interpreter._get_np_dtype(result))
    return interpreter.TensorHandle(found, result.scalar)


def _refuse_assembly(_builder: Any, *_: Any) -> Any:
    raise UnsupportedOnCpuError(
        "Inline assembly cannot be interpreted on the cpu device. "
        "Write it with functions of triton.language, or evaluate on a GPU."
    )


def _bound(name: str, function: Function) -> Function:
    """Return a library function that supplies the interpreter's semantics, which a kernel does not pass."""

    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named, _semantic=interpreter.interpreter_semantic)
        except KeyError as error:
            raise TypeError(
                f"libdevice.{name} has no form for arguments of type {error}; cast them to float32 or float64 before"
            ) from error

    return call


def _refuse_others(module: ModuleType) -> None:
    """Let functions that CUDA's library lacks raise: the generic ones are empty and would return None."""
    for name, function in inspect.getmembers(module, inspect.isfunction):
        if function.__module__ == module.__name__:
            setattr(module, name, _lacking(name))


def _lacking(name: str) -> Function:
    def call(*_: Any, **__: Any) -> Any:
        raise UnsupportedOnCpuError(f"CUDA's libdevice has no {name}; use a function of triton.language.")

    return call
