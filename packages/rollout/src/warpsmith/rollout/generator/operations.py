"""The operations of generated problems, each as PyTorch text, as Triton text and as a scalar function.

Every Triton form runs in Triton's interpreter and compiles for a GPU. With the scalar function the generator checks,
without torch, whether a chain of operations stays finite, smooth and informative.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

Constants = tuple[float, ...]


@dataclass(frozen=True)
class Unary:
    """An operation on one tensor.

    Args:
        name: the operation's name in a composition key.
        torch: right-hand side in PyTorch; `{x}` is the operand, `{a}` and `{b}` are constants.
        triton: the same in Triton.
        value: the operation on one number; can raise ValueError, OverflowError or ZeroDivisionError outside its domain.
        constants: the sets of constants to choose from; one empty set if there are none.
    """

    name: str
    torch: str
    triton: str
    value: Callable[[float, Constants], float]
    constants: tuple[Constants, ...] = ((),)


@dataclass(frozen=True)
class Binary:
    """An operation on two tensors `{x}` and `{y}`."""

    name: str
    torch: str
    triton: str


_SCALES: tuple[Constants, ...] = ((0.25,), (0.5,), (1.5,), (2.0,), (3.0,))
_SHIFTS: tuple[Constants, ...] = ((0.5,), (1.0,), (1.5,), (2.0,), (3.0,))
_BOUNDS: tuple[Constants, ...] = ((-1.5, 1.5), (-1.0, 1.0), (-1.0, 1.5), (-0.5, 1.0))
_LEVELS: tuple[Constants, ...] = ((-1.0,), (-0.5,), (0.5,), (1.0,))
_SLOPES: tuple[Constants, ...] = ((0.1,), (0.2,), (0.3,))


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


UNARY: tuple[Unary, ...] = (
    Unary("exp", "torch.exp({x})", "tl.exp({x})", lambda x, _: math.exp(x)),
    Unary("log", "torch.log({x})", "tl.log({x})", lambda x, _: math.log(x)),
    Unary("sqrt", "torch.sqrt({x})", "tl.sqrt({x})", lambda x, _: math.sqrt(x)),
    Unary("rsqrt", "torch.rsqrt({x})", "tl.rsqrt({x})", lambda x, _: 1.0 / math.sqrt(x)),
    Unary("exp2", "torch.exp2({x})", "tl.exp2({x})", lambda x, _: 2.0**x),
    Unary("log2", "torch.log2({x})", "tl.log2({x})", lambda x, _: math.log2(x)),
    Unary("sin", "torch.sin({x})", "tl.sin({x})", lambda x, _: math.sin(x)),
    Unary("cos", "torch.cos({x})", "tl.cos({x})", lambda x, _: math.cos(x)),
    Unary("abs", "torch.abs({x})", "tl.abs({x})", lambda x, _: abs(x)),
    Unary("erf", "torch.erf({x})", "tl.erf({x})", lambda x, _: math.erf(x)),
    Unary("neg", "-{x}", "-{x}", lambda x, _: -x),
    Unary("square", "{x} * {x}", "{x} * {x}", lambda x, _: x * x),
    Unary("reciprocal", "1.0 / {x}", "1.0 / {x}", lambda x, _: 1.0 / x),
    Unary("sigmoid", "torch.sigmoid({x})", "tl.sigmoid({x})", lambda x, _: _sigmoid(x)),
    Unary("tanh", "torch.tanh({x})", "2.0 * tl.sigmoid(2.0 * {x}) - 1.0", lambda x, _: math.tanh(x)),
    Unary("silu", "F.silu({x})", "{x} * tl.sigmoid({x})", lambda x, _: x * _sigmoid(x)),
    Unary("relu", "torch.relu({x})", "tl.maximum({x}, 0.0)", lambda x, _: max(x, 0.0)),
    Unary(
        "softplus",
        "F.softplus({x})",
        "tl.maximum({x}, 0.0) + tl.log(1.0 + tl.exp(-tl.abs({x})))",
        lambda x, _: max(x, 0.0) + math.log1p(math.exp(-abs(x))),
    ),
    Unary("softsign", "F.softsign({x})", "{x} / (1.0 + tl.abs({x}))", lambda x, _: x / (1.0 + abs(x))),
    Unary(
        "elu",
        "F.elu({x})",
        "tl.where({x} > 0.0, {x}, tl.exp({x}) - 1.0)",
        lambda x, _: x if x > 0 else math.expm1(x),
    ),
    Unary(
        "leaky_relu",
        "F.leaky_relu({x}, {a})",
        "tl.where({x} > 0.0, {x}, {a} * {x})",
        lambda x, c: x if x > 0 else c[0] * x,
        _SLOPES,
    ),
    Unary(
        "clamp",
        "torch.clamp({x}, {a}, {b})",
        "tl.minimum(tl.maximum({x}, {a}), {b})",
        lambda x, c: min(max(x, c[0]), c[1]),
        _BOUNDS,
    ),
    Unary("clamp_min", "torch.clamp({x}, min={a})", "tl.maximum({x}, {a})", lambda x, c: max(x, c[0]), _LEVELS),
    Unary("clamp_max", "torch.clamp({x}, max={a})", "tl.minimum({x}, {a})", lambda x, c: min(x, c[0]), _LEVELS),
    Unary("add_c", "{x} + {a}", "{x} + {a}", lambda x, c: x + c[0], _SHIFTS),
    Unary("sub_c", "{x} - {a}", "{x} - {a}", lambda x, c: x - c[0], _SHIFTS),
    Unary("rsub_c", "{a} - {x}", "{a} - {x}", lambda x, c: c[0] - x, _SHIFTS),
    Unary("mul_c", "{x} * {a}", "{x} * {a}", lambda x, c: x * c[0], _SCALES),
    Unary("div_c", "{x} / {a}", "{x} / {a}", lambda x, c: x / c[0], _SCALES),
)

BINARY: tuple[Binary, ...] = (
    Binary("add", "{x} + {y}", "{x} + {y}"),
    Binary("sub", "{x} - {y}", "{x} - {y}"),
    Binary("mul", "{x} * {y}", "{x} * {y}"),
    Binary("maximum", "torch.maximum({x}, {y})", "tl.maximum({x}, {y})"),
    Binary("minimum", "torch.minimum({x}, {y})", "tl.minimum({x}, {y})"),
    Binary("div_abs", "{x} / (torch.abs({y}) + 1.0)", "{x} / (tl.abs({y}) + 1.0)"),
    Binary("sq_diff", "({x} - {y}) * ({x} - {y})", "({x} - {y}) * ({x} - {y})"),
    Binary("gate", "{x} * torch.sigmoid({y})", "{x} * tl.sigmoid({y})"),
)
