import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.traces.shapes import LARGEST, ShapeExpressionError, names_in, value_of, with_names

AXES = {"rows": 7, "cols": 12, "one": 1}
LEAVES = st.sampled_from(sorted(AXES)) | st.integers(0, 20).map(str)
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: (
        st.tuples(inner, st.sampled_from(("+", "-", "*", "//", "%", "/", "**")), inner).map(
            lambda parts: f"({' '.join(parts)})"
        )
        | inner.map(lambda text: f"-{text}")
    ),
    max_leaves=6,
)


def outcome(function):
    """Return what a function returns, or None if it refuses."""
    try:
        return function()
    except (ShapeExpressionError, ArithmeticError):
        return None


@given(EXPRESSIONS)
def test_the_value_is_pythons_wherever_that_is_a_size(text):
    found = outcome(lambda: value_of(text, AXES))
    if found is None:
        return
    assert 0 <= found <= LARGEST
    assert found == eval(text, {}, AXES)
    renamed = with_names(text, {name: f"AXIS_{name}" for name in AXES})
    assert eval(renamed, {}, {f"AXIS_{name}": value for name, value in AXES.items()}) == found


@given(st.text(max_size=40))
def test_any_text_has_a_value_or_is_refused(text):
    found = outcome(lambda: value_of(text, AXES))
    assert found is None or isinstance(found, int)


@given(EXPRESSIONS)
def test_names_are_those_of_the_tree(text):
    assert names_in(text) == {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rows +", "is not an expression"),
        ("__import__('os')", "has Call in it"),
        ("rows.real", "has Attribute in it"),
        ("True", "has Constant in it"),
        ("rows / 2", "is 3.5; an integer"),
        ("rows - 8", "is -1; an integer"),
        ("rows // 0", "has no value"),
        ("9 ** 9 ** 9", "an exponent is 387420489"),
        ("99999 ** 62", "too large"),
        ("depth * 2", "'depth', which is not an axis"),
        ("1+" * 300 + "1", "characters"),
    ],
)
def test_what_is_no_size_is_refused_with_the_reason(text, said):
    with pytest.raises(ShapeExpressionError, match=said):
        value_of(text, AXES)
