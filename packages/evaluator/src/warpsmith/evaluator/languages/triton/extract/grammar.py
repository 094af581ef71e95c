"""The part of Python's grammar that a kernel may use: each node class with the fields of it that may hold something.

It is what Triton's code generator knows, less what it takes otherwise than Python does. A node class that is not
listed is refused, and so is a field that is not listed and not empty, in any version of Python.
"""

import ast
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

BODY_BUILTINS: Final = frozenset(
    ("abs", "bool", "float", "int", "len", "list", "max", "min", "print", "range", "tuple")
)
"""Python's own functions that the body of a kernel may call."""
TYPE_TEST: Final = "isinstance"
COMPILER_BUILTINS: Final = BODY_BUILTINS | {TYPE_TEST, "getattr", "hasattr"}
"""What the code generator finds under a name that is bound nowhere."""

FIELDS: Final[Mapping[type[ast.AST], tuple[str, ...]]] = MappingProxyType(
    {
        # statements
        ast.Return: ("value",),
        ast.Assign: ("targets", "value"),
        ast.AugAssign: ("target", "op", "value"),
        ast.AnnAssign: ("target", "annotation", "value", "simple"),
        ast.For: ("target", "iter", "body"),
        ast.While: ("test", "body"),
        ast.If: ("test", "body", "orelse"),
        ast.Assert: ("test", "msg"),
        ast.Expr: ("value",),
        ast.Pass: (),
        # expressions
        ast.BoolOp: ("op", "values"),
        ast.BinOp: ("left", "op", "right"),
        ast.UnaryOp: ("op", "operand"),
        ast.IfExp: ("test", "body", "orelse"),
        ast.Compare: ("left", "ops", "comparators"),
        ast.Call: ("func", "args", "keywords"),
        ast.Starred: ("value", "ctx"),
        ast.JoinedStr: ("values",),
        ast.FormattedValue: ("value", "conversion", "format_spec"),
        ast.Constant: ("value", "kind"),
        ast.Attribute: ("value", "attr", "ctx"),
        ast.Subscript: ("value", "slice", "ctx"),
        ast.Slice: ("lower", "upper", "step"),
        ast.Name: ("id", "ctx"),
        ast.List: ("elts", "ctx"),
        ast.Tuple: ("elts", "ctx"),
        # what they are made of
        ast.keyword: ("arg", "value"),
        ast.Load: (),
        ast.Store: (),
        ast.And: (),
        ast.Or: (),
        ast.Add: (),
        ast.Sub: (),
        ast.Mult: (),
        ast.Div: (),
        ast.FloorDiv: (),
        ast.Mod: (),
        ast.Pow: (),
        ast.LShift: (),
        ast.RShift: (),
        ast.BitAnd: (),
        ast.BitOr: (),
        ast.BitXor: (),
        ast.Invert: (),
        ast.Not: (),
        ast.UAdd: (),
        ast.USub: (),
        ast.Eq: (),
        ast.NotEq: (),
        ast.Lt: (),
        ast.LtE: (),
        ast.Gt: (),
        ast.GtE: (),
        ast.Is: (),
        ast.IsNot: (),
    }
)
COMPUTING_FIELDS: Final[Mapping[type[ast.AST], tuple[str, ...]]] = MappingProxyType(
    {
        **FIELDS,
        ast.For: ("target", "iter", "body", "orelse"),
        ast.While: ("test", "body", "orelse"),
        ast.Break: (),
        ast.Continue: (),
        ast.Raise: ("exc", "cause"),
        ast.ListComp: ("elt", "generators"),
        ast.GeneratorExp: ("elt", "generators"),
        ast.comprehension: ("target", "iter", "ifs", "is_async"),
        ast.In: (),
        ast.NotIn: (),
    }
)
"""What a function that the compiler calls with constants may use: it runs as Python, compiled and interpreted."""
DEFINITION: Final[Mapping[type[ast.AST], tuple[str, ...]]] = MappingProxyType(
    {
        ast.FunctionDef: ("name", "args", "body", "decorator_list", "returns"),
        ast.arguments: ("args", "kwonlyargs", "kw_defaults", "defaults"),
        ast.arg: ("arg", "annotation"),
    }
)
"""What a kernel's definition consists of, besides its body: the compiler forgets positional-only arguments."""


_NO_HELPER: Final = "Define helpers outside of the kernel, with @triton.jit."
_NO_COLLECTION: Final = "Write the values out in a tuple, or loop with tl.static_range."
_NO_MEMBERSHIP: Final = "Compare with == and `or`."
_NO_DECLARATION: Final = "Pass values as arguments and return them."
INSTEAD: Final[Mapping[type[ast.AST], str]] = MappingProxyType(
    {
        ast.Break: "Put the loop's condition into a `while`, and the rest of the body under an `if`.",
        ast.Continue: "Put the rest of the loop's body under an `if`.",
        ast.Lambda: _NO_HELPER,
        ast.FunctionDef: _NO_HELPER,
        ast.ClassDef: "Define it at module level; kernels know classes of named tuples.",
        **dict.fromkeys((ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp, ast.Dict, ast.Set), _NO_COLLECTION),
        **dict.fromkeys((ast.In, ast.NotIn), _NO_MEMBERSHIP),
        **dict.fromkeys((ast.Global, ast.Nonlocal), _NO_DECLARATION),
        **dict.fromkeys((ast.Import, ast.ImportFrom), "Import at module level."),
        ast.Raise: "Use tl.static_assert or tl.device_assert.",
        ast.Try: "Leave it out: kernels have no exceptions.",
        ast.With: "Leave it out, and indent its body less.",
        ast.NamedExpr: "Assign on a line of its own.",
        ast.MatMult: "Use tl.dot.",
        ast.Starred: "Name the items: a, b = t; or t[0], t[1].",
        ast.Match: "Use if and elif.",
        ast.Delete: "Leave it out.",
    }
)
"""What to write instead of constructs that a kernel may not use."""


def unlisted(node: ast.AST, listed: Mapping[type[ast.AST], tuple[str, ...]]) -> str:
    """Return the field of a node that holds something and is not listed; an empty string where there is none."""
    fields = listed[type(node)]
    return next((name for name, value in ast.iter_fields(node) if name not in fields and value not in (None, [])), "")
