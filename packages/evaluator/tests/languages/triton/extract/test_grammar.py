"""Python's whole grammar in a kernel: each form is refused, or means the same interpreted and compiled."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from warpsmith.evaluator.languages.triton import compilation
from warpsmith.evaluator.languages.triton.extract.extraction import extract
from warpsmith.evaluator.languages.triton.extract.grammar import DEFINITION, FIELDS
from warpsmith.evaluator.languages.triton.extract.values import ExtractionError

STATEMENTS = """
    FunctionDef(name args body decorator_list returns type_comment type_params)
    AsyncFunctionDef(name args body decorator_list returns type_comment type_params)
    ClassDef(name bases keywords body decorator_list type_params) Return(value) Delete(targets)
    Assign(targets value type_comment) TypeAlias(name type_params value) AugAssign(target op value)
    AnnAssign(target annotation value simple) For(target iter body orelse type_comment)
    AsyncFor(target iter body orelse type_comment) While(test body orelse) If(test body orelse)
    With(items body type_comment) AsyncWith(items body type_comment) Match(subject cases) Raise(exc cause)
    Try(body handlers orelse finalbody) TryStar(body handlers orelse finalbody) Assert(test msg) Import(names)
    ImportFrom(module names level) Global(names) Nonlocal(names) Expr(value) Pass() Break() Continue()
"""
EXPRESSIONS = """
    BoolOp(op values) NamedExpr(target value) BinOp(left op right) UnaryOp(op operand) Lambda(args body)
    IfExp(test body orelse) Dict(keys values) Set(elts) ListComp(elt generators) SetComp(elt generators)
    DictComp(key value generators) GeneratorExp(elt generators) Await(value) Yield(value) YieldFrom(value)
    Compare(left ops comparators) Call(func args keywords) FormattedValue(value conversion format_spec)
    JoinedStr(values) Constant(value kind) Attribute(value attr ctx) Subscript(value slice ctx) Starred(value ctx)
    Name(id ctx) List(elts ctx) Tuple(elts ctx) Slice(lower upper step)
"""
PARTS = """
    Load() Store() Del() And() Or() Add() Sub() Mult() MatMult() Div() Mod() Pow() LShift() RShift() BitOr() BitXor()
    BitAnd() FloorDiv() Invert() Not() UAdd() USub() Eq() NotEq() Lt() LtE() Gt() GtE() Is() IsNot() In() NotIn()
    comprehension(target iter ifs is_async) ExceptHandler(type name body)
    arguments(posonlyargs args vararg kwonlyargs kw_defaults kwarg defaults) arg(arg annotation type_comment)
    keyword(arg value) alias(name asname) withitem(context_expr optional_vars) match_case(pattern guard body)
    MatchValue(value) MatchSingleton(value) MatchSequence(patterns) MatchMapping(keys patterns rest)
    MatchClass(cls patterns kwd_attrs kwd_patterns) MatchStar(name) MatchAs(pattern name) MatchOr(patterns)
    TypeVar(name bound default_value) ParamSpec(name default_value) TypeVarTuple(name default_value)
"""
GRAMMAR = {
    name: tuple(fields.split()) for name, fields in re.findall(r"(\w+)\(([^)]*)\)", STATEMENTS + EXPRESSIONS + PARTS)
}
"""Each class of a node of Python 3.11 to 3.13, with the fields that it has in any of them."""
ABSTRACT = {"AST", "mod", "stmt", "expr", "expr_context", "boolop", "operator", "unaryop", "cmpop", "excepthandler"}
ABSTRACT |= {"pattern", "type_ignore", "type_param", "slice"}
OLD = {"Module", "Interactive", "Expression", "FunctionType", "TypeIgnore", "Index", "ExtSlice", "Suite", "AugLoad"}
OLD |= {"AugStore", "Param", "Num", "Str", "Bytes", "NameConstant", "Ellipsis"}

REFUSED = {
    "AsyncFunctionDef": "async def f():\n    pass",
    "AsyncFor": "async def f():\n    async for i in x:\n        pass",
    "AsyncWith": "async def f():\n    async with x:\n        pass",
    "Await": "async def f():\n    await x",
    "ClassDef": "class C:\n    pass",
    "Delete": "del x",
    "TypeAlias": "type T = int",
    "With": "with x as y:\n    pass",
    "withitem": "with x:\n    pass",
    "Match": "match x:\n    case _:\n        pass",
    "match_case": "match x:\n    case 1 if x:\n        pass",
    "MatchValue": "match x:\n    case 1:\n        pass",
    "MatchSingleton": "match x:\n    case None:\n        pass",
    "MatchSequence": "match x:\n    case [1]:\n        pass",
    "MatchMapping": "match x:\n    case {1: 2, **r}:\n        pass",
    "MatchClass": "match x:\n    case int(real=1):\n        pass",
    "MatchStar": "match x:\n    case [*r]:\n        pass",
    "MatchAs": "match x:\n    case 1 as r:\n        pass",
    "MatchOr": "match x:\n    case 1 | 2:\n        pass",
    "Raise": "raise x from x",
    "Try": "try:\n    pass\nexcept x as y:\n    pass\nelse:\n    pass\nfinally:\n    pass",
    "TryStar": "try:\n    pass\nexcept* x:\n    pass",
    "ExceptHandler": "try:\n    pass\nexcept x:\n    pass",
    "Import": "import os",
    "ImportFrom": "from os import path",
    "alias": "import os as y",
    "Global": "global y",
    "Nonlocal": "def f():\n    y = 1\n    def g():\n        nonlocal y",
    "NamedExpr": "y = (z := 1)",
    "Lambda": "y = lambda: 1",
    "Dict": "y = {1: 2}",
    "Set": "y = {1}",
    "ListComp": "y = [z for z in x]",
    "SetComp": "y = {z for z in x}",
    "DictComp": "y = {z: 1 for z in x}",
    "GeneratorExp": "y = (z for z in x)",
    "comprehension": "y = [z for z in x if z]",
    "Yield": "yield x",
    "YieldFrom": "yield from x",
    "Del": "del x",
    "MatMult": "y = x @ x",
    "In": "y = x in x",
    "NotIn": "y = x not in x",
    "Break": "for i in range(3):\n    break",
    "Continue": "for i in range(3):\n    continue",
    "TypeVar": "def f[T: int](x):\n    pass",
    "ParamSpec": "def f[**P](x):\n    pass",
    "TypeVarTuple": "def f[*T](x):\n    pass",
}
REFUSED_FIELDS = {
    ("For", "orelse"): "for i in range(2):\n    pass\nelse:\n    pass",
    ("While", "orelse"): "while x:\n    pass\nelse:\n    pass",
}
REFUSED_DEFINITIONS = {
    ("FunctionDef", "type_params"): "def k[T](x):\n    pass",
    ("arguments", "posonlyargs"): "def k(x, /):\n    pass",
    ("arguments", "vararg"): "def k(*x):\n    pass",
    ("arguments", "kwarg"): "def k(**x):\n    pass",
}
NEVER_FILLED = {(name, "type_comment") for name in ("FunctionDef", "Assign", "For", "arg")}
"""`ast.parse` fills these only where it is asked to."""

SAME = [
    # expressions, each an integer
    *("7 + 5", "7 - 5", "7 * 5", "7 // 2", "-7 // 2", "7 % 5", "2 ** 5", "3 << 2", "9 >> 1", "6 & 3", "6 | 3", "6 ^ 3"),
    *("(i + 5) // 2", "(i - 5) // 2", "(i - 5) % 3", "i << 2", "(i - 8) >> 1", "i & 3", "i | 8", "i ^ 6", "~i", "-i"),
    *("(7 / 2 * 4).to(tl.int32) if False else 14", "tl.cast(i / 2 * 4, tl.int32)", "~5", "-5", "+5"),
    *(
        "1 if not (i == 2) else 2",
        "1 if i == 3 else 2",
        "1 if i != 3 else 2",
        "1 if i < 3 else 2",
        "1 if i <= 3 else 2",
    ),
    *("1 if i > 3 else 2", "1 if i >= 3 else 2", "1 if 1 < i < 3 else 2", "1 if 5 > i > 2 else 2"),
    *(
        "1 if C is None else 2",
        "1 if C is not None else 2",
        "1 if i > 1 and i < 3 else 2",
        "1 if i > 5 or i < 4 else 2",
    ),
    *(
        "C and 5",
        "C or 5",
        "1 if C == 4 and i == 3 else 2",
        "1 if not (C == 4) else 2",
        "5 if C else 6",
        "C + i",
        "i * C",
    ),
    *("(1, 2, 3)[1]", "[1, 2, 3][2]", "(1, 2, 3, 4)[1:3][0]", "(1, 2, 3, 4)[0:4:2][1]", "len((1, 2))", "max(i, 5)"),
    *(
        "min(i, 5)",
        "max(C, 9)",
        "int(3.7)",
        "tl.where(i > 2, 4, 5)",
        "tl.maximum(i, y=7)",
        "tl.cdiv(7, i)",
        "pair(i)[1]",
    ),
    *("u'ab' == 'ab'", "several(i, b=2)", "several(*pair(i))", "several(*(i, 2), c=7)"),
    *("Two(i, b=5).b", "Two(first=i, b=2).first", "swapped(Two(i, 7)).first", "Two(i)[1]", "Two(i, 4).sum + i"),
    *("Two(-9, 4).first // Two(-9, 4).b", "swapped(Two(-9, 4)).first // 3", "half(-18) // 4", "Two(-9).b // -4"),
    *("C + half(8)", "i * half(C)", "grown(C, by=(1, 2))", "listed(3)"),
    *("(i > 2).to(tl.int32)", "i.to(tl.int64).dtype.primitive_bitwidth", "math.floor(math.pi)", "D.value + 1", "D"),
    # statements, the last of which binds r
    "a, (b, c) = 1, (2, i)\nr = a + b * 10 + c * 100",
    "r = i\nr += 4\nr *= 2",
    "r: tl.constexpr = C + 1",
    "r: int = i",
    "if i > 2:\n    r = 5\nelif i > 1:\n    r = 6\nelse:\n    r = 7",
    "r = 0\nfor j in range(2, 8, 2):\n    r += j",
    "r = 0\nfor j in tl.range(0, i):\n    r += j",
    "r = 0\nfor j in tl.static_range(4):\n    r += j * C",
    "r = 0\nfor j in tl.static_range(3):\n    r = j\nr += j",
    "r = 10\nwhile r > i:\n    r = r - 3",
    "assert C == 4, f'{C!r:>4} {C}'\nr = 1",
    "tl.static_assert(C == 4, 'C')\n'text'\npass\nr = early(i)",
    "tl.static_print(f'{C}')\nr = sum_of(i, n=2)",
    "N = 5\nr = N",
    "H: tl.constexpr = half(C)\nr = H * i",
    "t = Two(-9, 4)\nr = t.first // t.b",
    "t = Two(C, i)\nu = t\nr = (t.first - 13) // u.b",
    "h = half(-18)\nr = h // 4",
    "h: tl.constexpr = half(-18)\nr = h // 4 + i",
    "a, b, c = swapped(Two(4, -9))\nr = a // b + c",
    "t = Two(half(-18), 4)\nr = 0\nfor j in range(i):\n    r += t.first // t.b\n    t = Two(t.first - j, t.b)",
    "t = Two(i, 5)\nfor j in range(3):\n    t = Two(t.b, t.first)\nr = t.first * 10 + t.b",
    "tl.static_assert(half(C) == 2)\nr = 0\nfor j in tl.static_range(half(C)):\n    r += j + 1",
]
"""In each, i is a tensor that holds 3, and C and D are constants of the kernel and the module that hold 4."""

HELPERS = """
import math
from typing import NamedTuple
import triton
import triton.language as tl
D = tl.constexpr(4)
N = tl.constexpr(9)
class Two(NamedTuple):
    first: tl.tensor
    b: int = 6
    sum: int = 1
KNOWN = [1, 2, 3]
@triton.constexpr_function
def half(n):
    if n % 2:
        raise ValueError("odd")
    return n // 2
@triton.constexpr_function
def grown(n, by=[1]):
    for step in by:
        if step == 1:
            continue
        n += step * math.floor(math.pi)
    return n + half(2 * len([x for x in by if x in (1, 2)]))
@triton.constexpr_function
def listed(n):
    known = KNOWN
    known += (9,)
    return len(known) + n.bit_length() + sum(x for x in known)
@triton.jit
def swapped(t):
    return Two(t.b, t.first)
@triton.jit
def pair(i) -> tuple:
    return i, i + 1
@triton.jit
def several(a, b, c=5):
    return a + b * c
@triton.jit
def early(i):
    if i > 2:
        return i + 1
    return i + 2
@triton.jit
def sum_of(i, *, n: tl.constexpr = 1):
    return i * n
"""


def in_kernel(body: str) -> str:
    lines = "\n".join(f"    {line}" for line in body.split("\n"))
    return f"import triton\nimport triton.language as tl\n@triton.jit\ndef k(x):\n{lines}\n"


def sample_source() -> str:
    """One kernel that stores the value of each sample in its place."""
    source = HELPERS
    for number, sample in enumerate(SAME):
        body = sample if "\n" in sample or sample.startswith("r") else f"r = {sample}"
        lines = "\n".join(f"    {line}" for line in body.split("\n"))
        source += f"@triton.jit\ndef s{number}(p, i, C: tl.constexpr):\n{lines}\n    tl.store(p + {number}, r)\n"
    calls = "\n".join(f"    s{number}(p, i, C)" for number in range(len(SAME)))
    return f"{source}@triton.jit\ndef k(p, C: tl.constexpr):\n    i = tl.full((), 3, tl.int32)\n{calls}\n"


def parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError:
        pytest.skip("a form of a later Python")


def filled(tree: ast.AST) -> set[tuple[str, str]]:
    return {
        (type(node).__name__, name)
        for node in ast.walk(tree)
        for name, value in ast.iter_fields(node)
        if value not in (None, [])
    } | {(type(node).__name__, "") for node in ast.walk(tree)}


LISTED = {
    (kind.__name__, field) for table in (FIELDS, DEFINITION) for kind, fields in table.items() for field in fields
}


def test_the_table_is_the_grammar_of_the_python_that_runs():
    found = {
        name: kind._fields
        for name, kind in vars(ast).items()
        if isinstance(kind, type) and issubclass(kind, ast.AST) and name not in ABSTRACT | OLD
    }
    later = set(found) - set(GRAMMAR)
    assert sys.version_info >= (3, 14) or not later
    assert all(set(found[name]) <= set(GRAMMAR[name]) for name in set(found) & set(GRAMMAR))


def test_each_form_of_the_grammar_has_a_sample_that_is_refused_or_compared():
    kinds = {kind.__name__ for table in (FIELDS, DEFINITION) for kind in table}
    assert set(GRAMMAR) == kinds | set(REFUSED)
    assert not kinds & set(REFUSED)
    refused = set(REFUSED_FIELDS) | set(REFUSED_DEFINITIONS) | NEVER_FILLED
    assert {(name, field) for name in kinds for field in GRAMMAR[name]} == LISTED | refused
    assert not LISTED & refused
    compared = filled(ast.parse(sample_source()))
    assert compared >= LISTED
    assert {(name, "") for name in kinds} <= compared


@pytest.mark.parametrize("name", REFUSED)
def test_a_class_that_is_not_listed_is_refused(name):
    source = in_kernel(REFUSED[name])
    assert (name, "") in filled(parsed(source))
    with pytest.raises(ExtractionError):
        extract(source)


@pytest.mark.parametrize("pair", [*REFUSED_FIELDS, *REFUSED_DEFINITIONS], ids=".".join)
def test_a_field_that_is_not_listed_is_refused(pair):
    if pair in REFUSED_FIELDS:
        source = in_kernel(REFUSED_FIELDS[pair])
    else:
        source = f"import triton\n@triton.jit\n{REFUSED_DEFINITIONS[pair]}\n"
    assert pair in filled(parsed(source))
    with pytest.raises(ExtractionError, match=pair[1]):
        extract(source)


INTERPRET = """
import json, sys, torch
from pathlib import Path
from warpsmith.evaluator.languages.triton import compilation
from warpsmith.evaluator.languages.triton.extract.extraction import extract
from warpsmith.evaluator.languages.triton.interpreter import tracing
tracing.keep_language()
tracing.keep_truth_values()
kernels = compilation.execute_kernels(extract(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
out = torch.full((int(sys.argv[3]),), -99, dtype=torch.int32)
monitor = tracing.LaunchMonitor(lambda _: None, lambda _: False)
tracing.install(monitor)
kernels["k"][(1,)](out, C=4)
print(json.dumps(out.tolist()))
"""


def interpreted(source: str, folder: Path) -> list[int]:
    (folder / "source.py").write_text(source)
    (folder / "rendered").mkdir()
    command = [sys.executable, "-c", INTERPRET, folder / "source.py", folder / "rendered", str(len(SAME))]
    done = subprocess.run(
        command, env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[int] = json.loads(done.stdout.splitlines()[-1])
    return found


def compiled(source: str, folder: Path) -> list[int | None]:
    """The constants that the compiled code stores: nothing in it depends on an argument but the address."""
    kernels = compilation.load_kernels(extract(source), folder)
    launch = {"kernel": "k", "arguments": {"p": ["tensor", "int32", True], "C": ["value", 4]}, "options": {}}
    code = compilation.prepare(kernels, launch, 90).compiled()
    numbers: dict[str, int] = {}
    places: dict[str, int] = {}
    stored: list[int | None] = [None] * len(SAME)
    for line in code.asm["ptx"].splitlines():
        if moved := re.search(r"mov\.b32\s+(%r\d+), (-?\d+);", line):
            numbers[moved[1]] = int(moved[2])
        elif added := re.search(r"add\.s64\s+(%rd\d+), %rd\d+, (\d+);", line):
            places[added[1]] = int(added[2])
        elif store := re.search(r"st\.global\.b32 \[ (%rd\d+) \+ 0 \], \{ (%r\d+) \}", line):
            stored[places.get(store[1], 0) // 4] = numbers.get(store[2])
    return stored


def test_what_is_listed_means_the_same_interpreted_and_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "interpreted").mkdir()
    source = sample_source()
    found = dict(
        zip(
            SAME,
            zip(interpreted(source, tmp_path / "interpreted"), compiled(source, tmp_path), strict=True),
            strict=True,
        )
    )
    assert {sample: pair for sample, pair in found.items() if pair[0] != pair[1]} == {}
    assert -99 not in {pair[0] for pair in found.values()}
