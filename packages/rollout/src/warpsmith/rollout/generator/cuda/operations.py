"""The operations of generated problems as CUDA C++ text."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from warpsmith.rollout.generator.chains import Chain, Step
from warpsmith.rollout.generator.operations import Binary

_SIGMOID: Final = "1.0f / (1.0f + expf(-{x}))"
UNARY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "exp": "expf({x})",
        "log": "logf({x})",
        "sqrt": "sqrtf({x})",
        "rsqrt": "rsqrtf({x})",
        "exp2": "exp2f({x})",
        "log2": "log2f({x})",
        "sin": "sinf({x})",
        "cos": "cosf({x})",
        "abs": "fabsf({x})",
        "erf": "erff({x})",
        "neg": "-{x}",
        "square": "{x} * {x}",
        "reciprocal": "1.0f / {x}",
        "sigmoid": _SIGMOID,
        "tanh": "tanhf({x})",
        "silu": "{x} / (1.0f + expf(-{x}))",
        "relu": "fmaxf({x}, 0.0f)",
        "softplus": "fmaxf({x}, 0.0f) + log1pf(expf(-fabsf({x})))",
        "softsign": "{x} / (1.0f + fabsf({x}))",
        "elu": "{x} > 0.0f ? {x} : expm1f({x})",
        "leaky_relu": "{x} > 0.0f ? {x} : {a} * {x}",
        "clamp": "fminf(fmaxf({x}, {a}), {b})",
        "clamp_min": "fmaxf({x}, {a})",
        "clamp_max": "fminf({x}, {a})",
        "add_c": "{x} + {a}",
        "sub_c": "{x} - {a}",
        "rsub_c": "{a} - {x}",
        "mul_c": "{x} * {a}",
        "div_c": "{x} / {a}",
    }
)
"""Expressions by the operation's name; `{x}` is the operand, `{a}` and `{b}` are constants."""
BINARY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "add": "x + y",
        "sub": "x - y",
        "mul": "x * y",
        "maximum": "fmaxf(x, y)",
        "minimum": "fminf(x, y)",
        "div_abs": "x / (fabsf(y) + 1.0f)",
        "sq_diff": "(x - y) * (x - y)",
        "gate": "x / (1.0f + expf(-y))",
    }
)
"""Expressions by the operation's name; the operands are `x` and `y`."""


def step_line(step: Step, name: str) -> str:
    """Return one operation as an assignment, for example `x = expf(x);`."""
    constants = {letter: f"{value}f" for letter, value in zip("ab", step.constants, strict=False)}
    return f"{name} = {UNARY[step.operation.name].format(x=name, **constants)};"


def cuda_lines(chain: Chain, name: str) -> tuple[str, ...]:
    """Return the chain's assignments to the variable `name`, in CUDA C++."""
    return tuple(step_line(step, name) for step in chain)


def binary_line(operation: Binary) -> str:
    """Return an operation on `x` and `y` as an assignment to `x`."""
    return f"x = {BINARY[operation.name]};"
