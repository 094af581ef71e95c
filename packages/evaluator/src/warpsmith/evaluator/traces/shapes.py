"""Sizes that are written as arithmetic over axes, such as `num_heads * head_dim`. Read by syntax, never executed."""

import ast
from collections.abc import Callable, Mapping
from typing import Final

from warpsmith.evaluator.parsing import parse

Number = int | float
LARGEST: Final = 1 << 62
"""No size or part of one may be larger."""
LARGEST_EXPONENT: Final = 62
LONGEST: Final = 400
"""Maximum characters of an expression."""


class ShapeExpressionError(ValueError):
    """A text is not an arithmetic expression over axes, or its value is not a size; the message says why."""


def _power(base: Number, exponent: Number) -> Number:
    if not 0 <= exponent <= LARGEST_EXPONENT:
        raise ShapeExpressionError(f"an exponent is {exponent}; 0 to {LARGEST_EXPONENT} was expected")
    power: Number = base**exponent
    if isinstance(power, complex):
        raise ShapeExpressionError("a power of it is not a real number")
    return power


_BINARY: Final[dict[type[ast.operator], Callable[[Number, Number], Number]]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.Div: lambda left, right: left / right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: lambda left, right: left % right,
    ast.Pow: _power,
}


def names_in(text: str) -> frozenset[str]:
    """Return the names that an expression uses; ShapeExpressionError if it is none."""
    return frozenset(node.id for node in ast.walk(_tree(text)) if isinstance(node, ast.Name))


def value_of(text: str, axes: Mapping[str, int]) -> int:
    """Return the size that an expression gives.

    Args:
        text: numbers and names of axes with + - * / // % ** and parentheses; `/` must leave no remainder.
        axes: the axes by name.

    Raises:
        ShapeExpressionError: it is not such an expression, names another axis, or its value is not an integer of 0 or
            more.
    """
    try:
        value = _value(_tree(text), axes)
    except (ZeroDivisionError, OverflowError) as error:
        raise ShapeExpressionError(f"{text!r} has no value: {error}") from error
    if value != int(value) or value < 0:
        raise ShapeExpressionError(f"{text!r} is {value}; an integer of 0 or more was expected")
    return int(value)


def with_names(text: str, names: Mapping[str, str]) -> str:
    """Return an expression with its names replaced, as Python that gives the integer."""
    tree = _tree(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = names[node.id]
    written = ast.unparse(tree)
    return f"int({written})" if any(isinstance(node, ast.Div | ast.Pow) for node in ast.walk(tree)) else written


def _tree(text: str) -> ast.expr:
    if len(text) > LONGEST:
        raise ShapeExpressionError(f"it has {len(text)} characters; at most {LONGEST} were expected")
    try:
        tree = parse(text.strip(), "eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ShapeExpressionError(f"{text!r} is not an expression: {error}") from error
    _check(text, tree)
    return tree


def _check(text: str, node: ast.expr) -> None:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return
        case ast.Name():
            return
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _BINARY:
            _check(text, left)
            _check(text, right)
        case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
            _check(text, operand)
        case _:
            raise ShapeExpressionError(
                f"{text!r} has {type(node).__name__} in it; only numbers, axes, + - * / // % ** and parentheses were "
                "expected"
            )


def _value(node: ast.expr, axes: Mapping[str, int]) -> Number:
    match node:
        case ast.Constant(value=int() | float() as value):
            found: Number = value
        case ast.Name(id=name):
            if name not in axes:
                raise ShapeExpressionError(f"it names {name!r}, which is not an axis")
            found = axes[name]
        case ast.UnaryOp(op=operator, operand=operand):
            operand_value = _value(operand, axes)
            found = -operand_value if isinstance(operator, ast.USub) else operand_value
        case ast.BinOp(left=left, op=operation, right=right):
            found = _BINARY[type(operation)](_value(left, axes), _value(right, axes))
        case _:
            raise AssertionError("checked by _check")
    if not abs(found) <= LARGEST:
        raise ShapeExpressionError(f"a part of it is {found:.3g}, which is too large for a size")
    return found
