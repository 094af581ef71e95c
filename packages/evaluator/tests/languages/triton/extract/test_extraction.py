"""Which kernels are extracted from a source, how they are rewritten, and what is refused."""

import ast
import importlib.metadata
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.languages.fencing import fence
from warpsmith.evaluator.languages.triton.extract import inductor
from warpsmith.evaluator.languages.triton.extract.check import LANGUAGE_NAME
from warpsmith.evaluator.languages.triton.extract.extraction import extract, extract_usable
from warpsmith.evaluator.languages.triton.extract.module import follow
from warpsmith.evaluator.languages.triton.extract.render import JIT_NAME
from warpsmith.evaluator.languages.triton.extract.values import Ambiguous, ExtractionError, Unknown

PRELUDE = "import os\nimport math\nimport triton\nimport triton.language as tl\n"


def kernel(body: str, arguments: str = "x, BLOCK: tl.constexpr", head: str = "@triton.jit", before: str = "") -> str:
    indented = "\n".join(f"    {line}" for line in body.split("\n"))
    return f"{PRELUDE}{before}{head}\ndef k({arguments}):\n{indented}\n"


def rendered(source: str) -> dict[str, ast.stmt]:
    """The statements of the rendered source, by the name that they bind."""
    found: dict[str, ast.stmt] = {}
    for statement in ast.parse(extract(source).source).body:
        match statement:
            case ast.FunctionDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
                found[name] = statement
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found |= {alias.asname or alias.name: statement for alias in names}
    return found


def value_of(constant: str, before: str = "", name: str = "N") -> str:
    source = kernel(f"tl.store(x, {name})", before=f"{before}{constant}\n")
    return ast.unparse(rendered(source)[name]).replace(f"{LANGUAGE_NAME}.", "tl.")


def unknown(constant: str) -> str:
    """Return why the text does not determine N, which each launch of a kernel that reaches it must then report."""
    source = kernel("tl.store(x, N)", before=f"{constant}\n")
    found = extract(source)
    assert found.captured["k"].keys() == {"N"}
    assert "N" not in rendered(source)
    match follow(ast.parse(source)).names["N"].value:
        case Unknown(why=why):
            return why
        case Ambiguous(lines=lines):
            return f"bound in lines {' and '.join(map(str, lines))}"
        case other:
            return repr(other)


def test_only_what_the_kernels_reach_is_written_and_each_statement_on_its_line():
    source = kernel("y = 1.0\n\n# a comment\ntl.store(\n    x,\n    y,\n)\ntl.store(x, 2.0); tl.store(x, 3.0)")
    source += "os.system('echo host')\nclass ModelNew:\n    value = os.getpid()\n"
    found = extract(source)
    assert found.kernels == ("k",)
    assert "os" not in found.source
    lines = dict(enumerate(source.split("\n"), 1))
    for node in ast.walk(ast.parse(found.source)):
        if isinstance(node, ast.stmt):
            begin = ast.unparse(node).split("\n")[-1 if isinstance(node, ast.FunctionDef) else 0][:8].strip()
            assert begin[:5] in lines[node.lineno] or f"@{JIT_NAME}" in begin or isinstance(node, ast.FunctionDef)
    assert found.source.split("\n").index("def k(x, BLOCK: tl.constexpr):") == source.split("\n").index(
        "def k(x, BLOCK: tl.constexpr):"
    )


@pytest.mark.parametrize(
    "body",
    [
        "if BLOCK > 1: x = x + 1\nelif BLOCK > 0: x = x + 2\nelse: x = x + 3",
        "if BLOCK > 1:\n    x = x + 1\nelse:\n    if BLOCK > 0:\n        x = x + 2",
        "if BLOCK > 1: x = x + 1; x = x + 2\n\nelse:\n\n    pass",
        "for i in range(3): x += i\nwhile BLOCK < 0: x = x + 1",
        "'''docstring\nof lines'''\nif BLOCK > 1:\n    'nothing'\nreturn",
        "x = (x\n     + 1); x = x \\\n  + 2",
    ],
)
def test_every_form_of_a_block_keeps_its_lines(body):
    source = kernel(body)
    [original] = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    [written] = [node for node in ast.walk(ast.parse(extract(source).source)) if isinstance(node, ast.FunctionDef)]
    kept = [node for node in ast.walk(written) if isinstance(node, ast.stmt) and not isinstance(node, ast.Pass)]
    lines = {node.lineno for node in ast.walk(original) if isinstance(node, ast.stmt)}
    assert {node.lineno for node in kept} <= lines


@pytest.mark.parametrize(
    ("constant", "value"),
    [
        ("N = tl.constexpr(2 * 3 + 1)", "tl.constexpr(7)"),
        ("N: tl.constexpr = 64", "64"),
        ("N = tl.constexpr((2 / math.pi) ** 0.5)", "tl.constexpr(0.7978845608028654)"),
        ("N = tl.constexpr(triton.next_power_of_2(100))", "tl.constexpr(128)"),
        ("A = 5\nN = tl.constexpr(A if A > 3 else 1)", "tl.constexpr(5)"),
        ("N = tl.constexpr(value=-1)", "tl.constexpr(-1)"),
        ("N = tl.constexpr(float('-inf'))", "tl.constexpr(-float('inf'))"),
        ("N = tl.constexpr(-0.0)", "tl.constexpr(-0.0)"),
        ("N = tl.constexpr(1 << 10) * 2", "tl.constexpr(2048)"),
        ("A, N = 3, tl.constexpr(4)", "tl.constexpr(4)"),
        ("A = N = tl.constexpr(4)", "tl.constexpr(4)"),
        ("C = {'block': 64}\nN = tl.constexpr(C['block'])", "tl.constexpr(64)"),
        ("N = 1\nN += 2\nN = tl.constexpr(N)", "tl.constexpr(3)"),
        ("N = tl.constexpr((1, 2, True, None, 'a'))", "tl.constexpr((1, 2, True, None, 'a'))"),
        ("N = tl.constexpr(tl.float16)", "tl.constexpr(tl.float16)"),
        ("N = tl.constexpr(math.pi)", "tl.constexpr(3.141592653589793)"),
        ("N = tl.constexpr(max(1, 2, *[]) if False else round(2.6))", "tl.constexpr(3)"),
        ("N = tl.constexpr(int(triton.__version__.split('.')[0]) >= 3)", "tl.constexpr(True)"),
        ("N = tl.constexpr(os.environ.get('NOT_SET', '0') == '1')", "tl.constexpr(False)"),
        ("if os.environ.get('A') is None:\n    N = tl.constexpr(1)\nelse:\n    N = tl.constexpr(2)", "tl.constexpr(1)"),
        ("try:\n    N = tl.constexpr(1)\nexcept Exception:\n    N = tl.constexpr(2)", "tl.constexpr(1)"),
        ("if hasattr(tl, 'nothing'):\n    N = tl.constexpr(1)\nelse:\n    N = tl.constexpr(2)", "tl.constexpr(2)"),
        ("if os.getpid():\n    N = tl.constexpr(1)\nelse:\n    N = tl.constexpr(1)", "tl.constexpr(1)"),
        ("N = tl.constexpr('{} {a}{{}}'.format(1, a='b'))", "tl.constexpr('1 b{}')"),
        ("A = 3\nN = tl.constexpr(f'mov.b{A}')", "tl.constexpr('mov.b3')"),
    ],
)
def test_constants_are_written_as_their_values(constant, value):
    assert value_of(constant) == f"N = {value}"


@pytest.mark.parametrize(
    ("constant", "why"),
    [
        ("N = os.getpid()", "os.getpid"),
        ("N = tl.constexpr(len(open('/etc/passwd').read()))", "open is not computed"),
        ("N = 9**9**9", "too large"),
        ("N = (1,) * 10**9", "too large"),
        ("N = [1 for a in range(4000) for b in range(4000)]", "comprehension"),
        ("N = (lambda: 1)()", "Lambda"),
        ("N = f'{os.getpid()}'", "os.getpid"),
        ("N = f'{1:99}'", "a format"),
        ("N = '{0.real}'.format(1)", "a format"),
        ("N = '{:99}'.format(1)", "a format"),
        ("N = len([[0] * 4096] * 4096)", "too large"),
        ("N = sum([[0]] * 4096, [])", "too large"),
        ("N = (-8) ** 0.5", "complex"),
        ("N = '%s' % 1", "formatted"),
        ("N = f'{tl.constexpr(1)}'", "text of a constexpr"),
        ("N = '{}'.format(tl.constexpr(1))", "text of a constexpr"),
        ("N = str((1, tl.constexpr(1)))", "text of a constexpr"),
        ("N = ().__class__", "not computed"),
        ("for N in range(3):\n    pass", "For statement"),
        ("if os.getpid():\n    N = 1\nelse:\n    N = 2", "bound in lines 6 and 8"),
        ("N = 1\ndef host():\n    global N\n    N = 2", "bound in lines 5 and 7"),
        ("N = [1]\nN[0] = 2\nN = N[0]", "it is changed in line 6"),
        ("T = {'s': 1}\nT.update(s=2)\nN = T['s']", "may change"),
        ("T = [1]\nT.insert(0, 2)\nN = T[0]", "may change"),
        ("T = [1]\ndef change(t):\n    t[0] = 2\nchange(T)\nN = T[0]", "may change"),
        ("T = [1]\nU = T\nU[0] = 2\nN = T[0]", "may change"),
        ("T = [1]\nfor T[0] in (2,):\n    pass\nN = T[0]", "may change"),
        ("T = [1]\nT[0] += 1\nN = T[0]", "may change"),
        ("T = [1]\ndel T[0]\nN = T[0]", "may change"),
        ("T = [[1], [2]]\nT[0].append(3)\nN = T[0][0]", "may change"),
        ("T = [[1]]\nfor row in T:\n    row[0] = 2\nN = T[0][0]", "may change"),
        ("T = {'a': [1]}\nfor row in T.values():\n    row.append(2)\nN = T['a'][0]", "may change"),
        ("T = [[1]]\nrow = T[0]\nrow[0] = 2\nN = T[0][0]", "may change"),
        ("T = [[1]]\ndef change(t):\n    t[0] = 2\nchange(T[0])\nN = T[0][0]", "may change"),
        ("T = [[1]]\nlist(T)[0][0] = 2\nN = T[0][0]", "may change"),
        ("N = 1\nM = [N := 2]", "`:=` binds it"),
        ("if (N := 2) > 1:\n    pass", "`:=` binds it"),
        ("try:\n    raise ValueError\n    N = 1\nexcept ValueError:\n    N = 2", "bound in lines"),
        ("try:\n    N = 1\n    assert os.getpid() == 0\nexcept AssertionError:\n    N = 2", "bound in lines"),
    ],
)
def test_what_the_text_does_not_determine_is_left_to_the_launches(constant, why):
    assert re.search(why, unknown(constant))


def test_a_name_that_the_text_binds_nowhere_is_left_to_the_launches():
    assert extract(kernel("tl.store(x, unknown)")).captured["k"] == {"unknown": 7}


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        ("class N:\n    pass", "a class"),
        ("import torch as N", "torch"),
        ("def N():\n    return 1", "plain function"),
        ("import triton.language.core as N", "a module is not a value|closed"),
        ("N = tl.core.builtins", "closed|below"),
        ("N = triton.runtime", "cdiv"),
    ],
)
def test_what_no_launch_can_report_is_refused_only_if_a_kernel_reaches_it(definition, why):
    with pytest.raises(ExtractionError, match=why):
        value_of(definition)
    assert "N" not in rendered(kernel("tl.store(x, 1)", before=f"{definition}\n"))


@pytest.mark.parametrize(
    "constant",
    [
        "T = {'s': 3}\nN = T['s']",
        "T = {'a': {'s': 3}}\nN = T['a']['s']",
        "T = {'a': {'s': 3}}\nfor key in T['a']:\n    print(key)\nN = tl.constexpr(T['a']['s'])",
        "T = {'s': 3}\nfor name, number in T.items():\n    print(name, number)\nN = T['s']",
        "T = [1, 2]\nassert len(T) == 2\nN = sum(T)",
        "T = [3]\nCONFIGS = [triton.Config({'B': b}) for b in T]\nN = T[0]",
        "T = [3]\ndef host(x):\n    return x * T[0] + len(T)\nN = T[0]",
        "T = [3]\nT[0] = 4\nT = [3]\nN = T[0]",
        "try:\n    import triton\n    N = 3\nexcept Exception:\n    N = 4",
        "try:\n    N = tl.constexpr(3)\nexcept Exception:\n    N = tl.constexpr(4)",
    ],
)
def test_a_table_that_is_only_read_stays_known(constant):
    assert "3" in value_of(constant)


@pytest.mark.parametrize(
    ("function", "call", "value"),
    [
        ("def f(n):\n    'doubles'\n    return 2 * n", "f(3)", "6"),
        ("def f(n, a=1, *, b=2):\n    return (n, a, b)", "f(5, b=7)", "(5, 1, 7)"),
        ("def f(n):\n    p = 1\n    while p < n:\n        p *= 2\n    return p", "f(100)", "128"),
        ("def f(n):\n    if n > 1:\n        return n * f(n - 1)\n    return 1", "f(5)", "120"),
        (
            "def f():\n    t = ''\n    for a, b in [(1, 'x'), (2, 'y')]:\n        t += b * a\n    return t",
            "f()",
            "'xyy'",
        ),
        ("def f(n):\n    return ','.join('=r' for i in range(n)) + ',r' * n", "f(2)", "'=r,=r,r,r'"),
        ("def f():\n    return A\nA = 4", "f()", "4"),
        ("A = 1\ndef f(n):\n    A: int = n\n    return A", "f(2)", "2"),
        ("def f():\n    pass", "f()", "None"),
    ],
)
def test_a_constant_may_be_made_by_a_function_of_the_file(function, call, value):
    assert value_of(f"{function}\nN = tl.constexpr({call})") == f"N = tl.constexpr({value})"


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("def f():\n    x = A\n    A = 1\n    return x\nA = 2", "not bound there"),
        ("def f():\n    while True:\n        pass", "too many steps"),
        ("def f():\n    for i in range(4096):\n        for j in range(4096):\n            pass", "too many steps"),
        ("def f():\n    return f()", "only where the source runs"),
        ("def f():\n    return os.getpid()", "os.getpid"),
        ("def f():\n    global A\n    A = 1\n    return A", "Global|a function binds"),
        ("def f(a=[]):\n    return len(a)", "defaults"),
        ("def f(a):\n    return 1", "not given"),
        ("def f(*a):\n    return 1", "arguments"),
        ("def f():\n    a = b = [1]\n    a += [2]\n    return len(b)", "in place"),
        ("def f():\n    a = [1]\n    a.append(2)\n    return len(a)", "Expr statement"),
        ("def f():\n    a = [1]\n    a[0] = 2\n    return a[0]", "a part"),
        ("def f():\n    yield 1", "Expr statement|Yield"),
        ("def f():\n    try:\n        return 1\n    finally:\n        return 2", "Try statement"),
        ("def f():\n    for i in (1, 2):\n        break\n    return i", "Break statement"),
        ("def f():\n    return (lambda: 1)()", "Lambda"),
        ("@functools.cache\ndef f():\n    return 1", "decorators"),
        ("class A:\n    def f():\n        return 1\nf = A.f", "class|attribute"),
    ],
)
def test_a_function_that_does_more_than_compute_makes_no_constant(function, why):
    assert re.search(why, unknown(f"{function}\nN = f()"))


def test_what_a_function_inside_another_reads_is_not_taken_for_a_global():
    source = kernel("tl.store(x, 1)", before="A = 1\n") + (
        "def make(A):\n    def f():\n        return A\n"
        "    @triton.jit\n    def inner(x, N: tl.constexpr = f()):\n        tl.store(x, N)\n"
    )
    found = extract(source)
    assert found.kernels == ("k", "inner")
    assert "def inner(x, N: tl.constexpr):" in found.source


@pytest.mark.parametrize(
    "alias",
    [
        "e = tl.exp",
        "from triton.language import exp as e",
        "try:\n    from triton.nothing import e\nexcept ImportError:\n    from triton.language import exp as e",
        "try:\n    from triton.language.math import tanh as e\nexcept:\n    from triton.language.math import exp as e",
        "try:\n    import triton.nothing.at_all as e\nexcept ImportError:\n    e = tl.exp\nelse:\n    e = tl.exp2",
        "if os.getpid():\n    from triton.language.nothing import e\nelse:\n    e = tl.exp",
        "e = tl.core.exp",
        "from triton.language.core import *\nfrom triton.language.math import exp as e",
        "e = getattr(tl, 'nothing', tl.exp)",
        "e = tl.exp if triton.__version__ else tl.exp2",
        "TILE = 3\n__all__ = ['k']\ne: object = tl.exp\nprint(e)",
    ],
)
def test_names_of_library_functions_are_followed(alias):
    found = extract(kernel("tl.store(x, e(1.0))", before=f"{alias}\n"))
    assert {name.rpartition(".")[2] for name in found.reached} == {"store", "exp"}


@pytest.mark.parametrize(
    "definition",
    [
        "class ModelNew:\n    @staticmethod\n    @triton.jit\n    {INNER}",
        "if True:\n    @triton.jit\n    {INNER}",
        "try:\n    HAS = True\nexcept ImportError:\n    HAS = False\nif HAS:\n    @triton.jit\n    {INNER}",
        "def make():\n    @triton.jit\n    {INNER}\n    return k",
        "{K}\nk = triton.jit(k)",
        "N = 1\n{K}\nkernel = triton.autotune(configs=[], key=[])(triton.jit(k))",
        "@triton.jit(debug=True, noinline=False, repr=lambda s: 'k', launch_metadata=print)\n{K}",
        "@os.getpid\n@triton.jit\n{K}",
        "@triton.autotune(configs=[os.getpid()], key=['x'])\n@triton.heuristics({})\n@triton.jit\n{K}",
        "@triton.jit\ndef k(x):\n    tl.store(x, 0)\n@triton.jit\n{K}",
        "@triton.jit\ndef \\\n  k(x): tl.store(x, 1)",
        "if os.getpid():\n    @triton.jit\n    {INNER}\nelse:\n    @triton.jit\n    {INNER}",
    ],
)
def test_kernels_are_found_where_they_are_defined(definition):
    written = "def k(x):\n    tl.store(x, 1)"
    inner = written.replace("    ", "        ")
    found = extract(PRELUDE + definition.replace("{K}", written).replace("{INNER}", inner) + "\n")
    assert found.kernels == ("k",)
    assert "tl.store(x, 1)" in found.source


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ("do_not_specialize=['x']", "do_not_specialize=['x']"),
        ("do_not_specialize=NAMES, noinline=True", "do_not_specialize=['x'], noinline=True"),
        ("do_not_specialize_on_alignment=(0,)", "do_not_specialize_on_alignment=(0,)"),
        ("debug=True, version=os.getpid()", ""),
    ],
)
def test_arguments_of_the_decorator_that_change_the_code_are_kept(options, kept):
    source = kernel("tl.store(x, 1)", head=f"@triton.jit({options})", before="NAMES = ['x']\n")
    assert f"@{JIT_NAME}({kept})" in extract(source).source or (f"@{JIT_NAME}\n" in extract(source).source and not kept)


@pytest.mark.parametrize(
    ("annotation", "kept"),
    [
        ("tl.constexpr", "x: tl.constexpr"),
        ("'tl.constexpr'", "x: tl.constexpr"),
        ("Constexpr", "x: tl.constexpr"),
        ("tl.constexpr | None", "x: tl.constexpr"),
        ("os.PathLike[tl.constexpr]", "x: tl.constexpr"),
        ("torch.Tensor", "x"),
        ("os.system('x')", "x"),
        ("(y := 3)", "x"),
        ("list[int]", "x"),
        ("tl.tensor", "x"),
        ("tl.int64", "x: 'int64'"),
        ("'i64'", "x: 'i64'"),
        ("int", "x: 'int'"),
    ],
)
def test_of_an_annotation_only_what_triton_takes_of_it_is_left(annotation, kept):
    source = kernel("tl.store(p, 1)", f"p, x: {annotation}", before="Constexpr = tl.constexpr\n")
    assert f"def k(p, {kept}):" in extract(source).source


def test_annotations_in_a_body_are_dropped_but_for_constexpr():
    found = extract(kernel("a: tl.tensor = x\nb: tl.constexpr = BLOCK\nc: float\ntl.store(a, b)")).source
    assert "a = x" in found
    assert "b: tl.constexpr = BLOCK" in found
    assert "float" not in found


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("tl.store(x, x.__class__)", "__class__"),
        ("tl.store(x, getattr(tl, 'core'))", "getattr"),
        ("t = tl\ntl.store(x, t)", "a module is not a value"),
        ("os.system('x')", "attribute system"),
        ("triton.runtime.driver", "attribute driver"),
        ("import os", "Import"),
        ("f = lambda: 1", "Lambda"),
        ("eval('1')", "global eval"),
        ("open('/x')", "global open"),
        ("__import__('os')", "reserved name __import__"),
        ("def inner():\n    pass", "FunctionDef"),
        ("class C:\n    x = 1", "ClassDef"),
        ("try:\n    pass\nfinally:\n    pass", "Try"),
        ("with x:\n    pass", "With"),
        ("raise x", "Raise"),
        ("del x", "Delete"),
        ("global x", "Global"),
        ("y = yield", "Yield"),
        ("y = (z := 1)", "NamedExpr"),
        ("y = {1: 2}", "Dict"),
        ("y = {1, 2}", "Set"),
        ("y = [z for z in BLOCK]", "ListComp"),
        ("y = sorted(x, key=lambda a: a)", "global sorted"),
        ("y = (*x, 1)", "Starred"),
        ("y = tl.load(**x)", "the keyword **"),
        ("y = tl.load(x, _semantic=None)", "the keyword _semantic"),
        ("tl.static_print(f'{0:{x}}')", "a computed format"),
        ("tl.static_print(f'{0:{(lambda: 1)()}}')", "a computed format"),
        ("tl.static_print(f'{(lambda: 1)()!r}')", "Lambda"),
        ("tl.static_print(f'{f\"{x}\"}')", "a JoinedStr"),
        ("tl.static_print(f'{[i for i in x]}')", "ListComp"),
        ("assert x == 1, f'{0:{x}}'", "a computed format"),
        ("y = f'{x}'", "a JoinedStr"),
        ("print(f'{x}')", "a JoinedStr"),
        ("match x:\n    case tl.tensor(handle=h):\n        pass", "Match"),
        ("if isinstance(x, BLOCK):\n    pass", "isinstance"),
        ("y = type(x)", "global type"),
        ("y = tl.tensor(x, x)", "part of the compiler"),
        ("y = x.handle", "the attribute handle"),
        ("y = tl.load(x).handle.data", "the attribute data"),
        ("x.dtype = tl.int1", "an assignment to x.dtype"),
        ("tl.cos: tl.constexpr = tl.sin", "an assignment to tl.cos"),
        ("tl.cos = tl.sin", "an assignment to tl.cos"),
        ("tl.cos += 1", "an assignment to tl.cos"),
        ("x[0] = 1", "an assignment to x[0]"),
        ("(a, x.T) = x", "an assignment to x.T"),
        ("[a, b] = x", "an assignment to [a, b]"),
        ("a, *b = x", "an assignment to *b"),
        ("a = b = 1", "several targets"),
        ("for tl.cos in range(3):\n    pass", "an assignment to tl.cos"),
        ("for a, b in range(3):\n    pass", "to one name"),
        ("for a in x:\n    pass", "runs through a value"),
        ("for a in range(3):\n    pass\nelse:\n    pass", "orelse of a For"),
        ("while x:\n    pass\nelse:\n    pass", "orelse of a While"),
        ("y = '{0.handle}'.format(x)", "the attribute format"),
        ("if x.dtype is tl.float32:\n    pass", "`is`"),
        ("y = x @ x", "MatMult"),
        ("y = 1 in x", "In"),
        ("y = b'1'", "the constant"),
        ("y = 1j", "the constant"),
        ("y = x[...]", "the constant"),
        ("y = 1 << 2\ny = 340282366920938463463374607431768211456000", "the constant"),
        ("for i in range(3):\n    x += i\ntl.store(x, i)", "index of a loop"),
        ("i = 0\nfor o in range(3):\n    x += i\n    for i in range(3):\n        x += 1", "index of a loop"),
        ("if BLOCK:\n    print = 1\nprint(1)", "the name print for two things"),
        ("if BLOCK:\n    hasattr = 1\ny = hasattr", "the name hasattr for two things"),
        ("for i in range(3):\n    len = i\ny = len", "the name len for two things"),
        ("for i in range(3):\n    y = len\n    len = i", "the name len for two things"),
        ("while x:\n    len = 1\nelse_ = len", "the name len for two things"),
        ("while len:\n    len = 1", "the name len for two things"),
        ("for i in range(3):\n    len += i", "the name len for two things"),
        ("if BLOCK:\n    len = 1\nelse:\n    y = 1\ny = len", "the name len for two things"),
        ("y = isinstance(x, tl.tensor)", "isinstance"),
        ("y = isinstance(x, tl.constexpr)", "isinstance"),
        ("y = isinstance(x, (tl.tensor_descriptor, tl.tensor))", "isinstance"),
        ("y = isinstance(x, tl.tensor_descriptor, 1)", "isinstance"),
        ("y = isinstance", "isinstance"),
        ("y = tl.tensor_descriptor", "part of the compiler"),
        ("warpsmith_x = 1", "two things"),
        ("async def f():\n    pass", "AsyncFunctionDef"),
        ("tl.nothing(x)", "does not have it"),
        ("y = tl.core.builtins.open", "attribute open|below"),
        ("y = tl.math.libdevice", "does not have it|closed"),
    ],
)
def test_what_is_not_listed_is_refused_by_name(body, what):
    with pytest.raises(ExtractionError, match="line") as caught:
        extract(kernel(body))
    assert any(part in str(caught.value) for part in what.split("|"))


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("tl.advance(x, (0, 16))", "tl.make_tensor_descriptor"),
        ("tl.experimental_descriptor_load(x, [0], [16], tl.float32)", "tl.make_tensor_descriptor"),
        ("tl.tanh(x)", "libdevice.tanh"),
        ("tl.math.log1p(x)", "libdevice.log1p"),
        ("tl.any(x > 0)", "tl.max"),
        ("tl.matmul(x, x)", "tl.dot"),
    ],
)
def test_a_name_that_this_triton_lacks_is_refused_with_what_to_write_instead(written, instead):
    with pytest.raises(ExtractionError) as caught:
        extract(kernel(f"y = {written}"))
    name, version = written.partition("(")[0], importlib.metadata.version("triton")
    assert caught.value.message.endswith(f"kernel k uses {name}. Triton {version} does not have it.")
    assert instead in caught.value.remedy


def test_a_name_bound_to_what_this_triton_lacks_is_refused_with_what_to_write_instead():
    with pytest.raises(ExtractionError, match=r"k uses tl\.advance\. Triton") as caught:
        extract(kernel("y = advance(x, (0, 16))", before="advance = tl.advance\n"))
    assert "tl.make_tensor_descriptor" in caught.value.remedy


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(3):\n    n = tl.load(x)\n    tl.store(x, n)",
        "while BLOCK:\n    n = tl.load(x)\n    tl.store(x, n)",
        "if BLOCK:\n    n = 1\nelse:\n    n = 2\ntl.store(x, n)",
        "if BLOCK:\n    n = 1\n    tl.store(x, n)",
        "for i in range(3):\n    if i:\n        n = 1\n    else:\n        n = 2\n    tl.store(x, n)",
        "for n in range(3):\n    tl.store(x, n)",
    ],
)
def test_a_local_may_have_the_name_of_a_global_where_it_is_read_only_once_it_is_bound(body):
    assert extract(kernel(body, before="n = open('x')\nm = n\n")).kernels == ("k",)


def test_whether_a_value_is_a_tensor_descriptor_may_be_asked():
    text = extract(kernel("if isinstance(x, tl.tensor_descriptor):\n    pass")).source
    assert f"if isinstance(x, {LANGUAGE_NAME}.tensor_descriptor):" in text


def test_what_tritons_own_sort_takes_of_its_core_is_there():
    source = kernel(
        "t = core.get_int_dtype(bitwidth=x.dtype.primitive_bitwidth, signed=True)",
        arguments="x, descending: tl.constexpr = core.CONSTEXPR_0",
        before="from triton.language import core\n",
    )
    text = extract(source).source
    assert f"{LANGUAGE_NAME}.core.get_int_dtype(" in text
    assert f"={LANGUAGE_NAME}.constexpr(0)" in text.replace(" ", "")


def test_a_folder_below_a_package_that_nothing_has_imported_is_a_module(tmp_path, monkeypatch):
    (tmp_path / "unheard" / "inner").mkdir(parents=True)
    (tmp_path / "unheard" / "__init__.py").touch()
    (tmp_path / "unheard" / "inner" / "there.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    before = """try:
    import unheard.inner.there
    N = 1
except ImportError:
    N = 2
try:
    from unheard.inner.absent import thing
    M = 1
except ImportError:
    M = 2
"""
    found = rendered(kernel("tl.store(x, N + M)", before=before))
    assert [ast.unparse(found[name].value) for name in "NM"] == ["1", "2"]


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (kernel("pass", head="@triton.jit\n@os.getpid"), "decorator"),
        (kernel("pass", head="@triton.jit(None)"), "decorator"),
        (kernel("pass", head="@triton.jit(do_not_specialize=os.listdir())"), "do_not_specialize"),
        (kernel("pass", head="@triton.jit(**{})"), "argument"),
        (kernel("pass", arguments="x, /, y"), "posonlyargs"),
        (kernel("pass", arguments="*x"), "vararg"),
        (kernel("pass", arguments="**x"), "kwarg"),
        (PRELUDE + "@triton.jit\ndef min(x):\n    pass\nmin = os\n", "reserved name min"),
        (PRELUDE + "@triton.jit\ndef warpsmith_jit(x):\n    pass\n", "reserved name"),
        (PRELUDE + "@triton.jit\ndef \u00e9(x):\n    pass\n", "reserved name"),
        (
            PRELUDE + "if os.getpid():\n    @triton.jit\n    def k(x):\n        pass\n"
            "else:\n    @triton.jit\n    def k(x):\n        return\n",
            "defined in lines 7 and 11",
        ),
        (
            PRELUDE + "class A:\n    @triton.jit\n    def tl(x):\n        pass\n" + kernel("tl.store(x, 1)"),
            "a kernel has that name too",
        ),
        (
            PRELUDE + "import math as m\ndef make():\n    import triton.language as m\n    @triton.jit\n    def f(x):\n"
            "        m.store(x, 1)\n@triton.jit\ndef k(x):\n    tl.store(x, m.pi)\n",
            "another kernel has that name for something else",
        ),
        (kernel("g(x)", before="@triton.jit\ndef g(x):\n    eval(x)\n"), "global eval"),
        (
            kernel("g(x)", before="@triton.jit\ndef f(x):\n    pass\ng = f\n@triton.jit\ndef f(x):\n    return\n"),
            "another kernel f",
        ),
    ],
)
def test_definitions_that_mean_two_things_are_refused(source, what):
    with pytest.raises(ExtractionError, match=what):
        extract(source)


REGISTRIES = {
    "plain": ("def reg(f):\n    KNOWN.append(f)\n    return f\n", "@reg"),
    "made": (
        "def reg(name):\n    def add(f):\n        KNOWN.append((name, f))\n        return f\n    return add\n",
        "@reg('g')",
    ),
    "either way": ("def reg(f):\n    if KNOWN:\n        return f\n    KNOWN.append(f)\n    return f\n", "@reg"),
}
WRAPPERS = {
    "another": ("def reg(f):\n    return KNOWN\n", "@reg"),
    "rebound": ("def reg(f):\n    f = KNOWN.pop()\n    return f\n", "@reg"),
    "rebound inside": (
        "def reg(f):\n    def other():\n        nonlocal f\n        f = 1\n    other()\n    return f\n",
        "@reg",
    ),
    "sometimes": ("def reg(f):\n    if KNOWN:\n        return f\n", "@reg"),
    "one of two": ("def reg(f):\n    if KNOWN:\n        return f\n    return KNOWN\n", "@reg"),
    "generator": ("def reg(f):\n    yield f\n    return f\n", "@reg"),
    "not called": ("def reg(name):\n    def add(f):\n        return f\n    return add\n", "@reg"),
    "called once more": ("def reg(f):\n    return f\n", "@reg(reg)"),
    "decorated": ("@KNOWN.append\ndef reg(f):\n    return f\n", "@reg"),
    "second argument": ("def reg(f, g=1):\n    return g\n", "@reg"),
}


def _registered(definition: str, decorator: str) -> str:
    return kernel("g(x)", before=f"KNOWN = []\n{definition}{decorator}\n@triton.jit\ndef g(x):\n    tl.store(x, 1)\n")


@pytest.mark.parametrize("name", REGISTRIES)
def test_a_decorator_that_returns_what_it_decorates_changes_nothing(name):
    assert {"g", "k"} <= rendered(_registered(*REGISTRIES[name])).keys()


@pytest.mark.parametrize("name", WRAPPERS)
def test_what_a_decorator_that_can_return_something_else_made_is_read_where_the_source_runs(name):
    assert extract(_registered(*WRAPPERS[name])).captured["k"].keys() == {"g"}


@pytest.mark.parametrize("decorator", ["made", "made(noinline=False)", "functools.partial(triton.jit)", "os.getpid"])
def test_what_a_decorator_of_the_module_makes_is_read_where_the_source_runs(decorator):
    before = (
        "import functools\ndef made(f=None, **options):\n    return triton.jit(f, **options)\n"
        f"@{decorator}\n@triton.jit\ndef g(x):\n    tl.store(x, 1)\n"
    )
    assert extract(kernel("g(x)", before=before)).captured["k"].keys() == {"g"}


@pytest.mark.parametrize("name", ["abs", "min", "range", "isinstance"])
def test_a_kernel_in_a_class_or_function_may_be_named_like_a_builtin(name):
    inner = f"    @triton.jit\n    def {name}(x):\n        tl.store(x, 1)\n"
    source = f"{PRELUDE}class A:\n    @staticmethod\n{inner}def make():\n{inner}    return {name}\n"
    found = extract(source)
    assert len(found.kernels) == 2
    assert f"def {name}(" not in found.source


def test_a_kernel_that_is_refused_does_not_take_the_others_with_it():
    found = extract_usable(
        kernel("tl.store(x, 1)") + "@triton.jit\ndef h(x):\n    eval(x)\n@triton.jit\ndef g(x):\n    h(x)\n"
    )
    assert found.kernels == ("k",)
    assert set(found.refused) == {"h", "g"}


def test_keyword_only_arguments_become_ordinary_ones():
    assert "def k(x, n, B: tl.constexpr=3):" in extract(kernel("tl.store(x, n)", "x, *, n, B: tl.constexpr = 3")).source


def test_the_language_is_reached_by_another_name_where_its_own_is_hidden():
    found = extract(kernel("y: tl.constexpr = 1\ntl.store(x, y)", "x"))
    assert "y: tl.constexpr = 1" in found.source
    hidden = extract(PRELUDE + "@triton.jit\ndef k(x, tl, N: 'constexpr'):\n    triton.language.store(x, N)\n")
    assert f"N: {LANGUAGE_NAME}.constexpr" in hidden.source


@pytest.mark.parametrize("first", ["", "\ufeff", "# -*- coding: latin-1 -*-\n", "\x0c\n"])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_the_beginnings_of_files_and_the_ends_of_lines_are_pythons(first, ending):
    source = first + kernel("tl.store(x, 1)\n").replace("\n", ending)
    assert "    tl.store(x, 1)" in extract(source).source


def test_identifiers_are_the_ones_that_python_makes_of_them():
    wide = unicodedata.normalize("NFKC", "\uff54\uff4c")
    assert wide == "tl"
    found = extract(kernel("\uff54\uff4c.store(x, 1)"))
    assert "tl.store(x, 1)" in found.source
    with pytest.raises(ExtractionError, match="global eval"):
        extract(kernel("\uff45\uff56\uff41\uff4c('1')"))


@pytest.mark.parametrize("text", ["a\\\ndef k(x): b", "a\tb", '"""', "'''", "\\", "{}", "\u2028", "\ud800"])
def test_a_text_stays_a_text(text):
    found = ast.parse(extract(kernel(f"y: tl.constexpr = {text!r}")).source)
    [written] = [
        node.value for node in ast.walk(found) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert written == text


def test_messages_are_kept_but_for_their_formats():
    found = extract(kernel("tl.static_print(f'{BLOCK!r:>{10}} of\\n \"{x}\" {{}}')".replace("{10}", "10"))).source
    assert "BLOCK!r" in found
    assert "10" not in found
    assert found.strip().split("\n")[-1].startswith("    tl.static_print(")


@given(st.text(alphabet="abc():\n\t =.;@\\'\"#x1\x0c\r", max_size=80))
def test_any_text_is_extracted_or_refused(text):
    try:
        found = extract(text).source
    except (SyntaxError, ValueError, ExtractionError):
        return
    assert isinstance(ast.parse(found), ast.Module)


BODIES = st.recursive(
    st.sampled_from(["y = 1", "tl.store(x, y); y = 2", "pass", "'text'", "y: tl.constexpr = 3", "return"]),
    lambda inner: (
        st.tuples(st.sampled_from(["if BLOCK > 1:", "for i in range(3):", "while x:"]), inner).map(
            lambda pair: pair[0] + "\n" + "\n".join("    " + line for line in pair[1].split("\n"))
        )
        | st.tuples(inner, st.sampled_from(["\n", "\n\n", "\n# c\n"]), inner).map("".join)
    ),
    max_leaves=8,
)


@given(BODIES)
def test_any_body_reads_back_on_its_own_lines(body):
    source = kernel(body)
    # It raises as well where a statement is not written on its line, or reads otherwise than it was built.
    found = ast.parse(extract(source).source)
    assert lines_of(found) <= lines_of(ast.parse(source))
    assert len(lines_of(found)) > 1


def lines_of(tree):
    return {node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt)}


MADE = (
    PRELUDE
    + """
def scaled_by(factor, act):
    import triton.language as lang
    @triton.jit
    def k(x, N: lang.constexpr):
        tl.store(x, act(lang.load(x) * factor) + N)
    return k

def other():
    @triton.jit
    def k(x):
        tl.store(x, 1)
    return k
"""
)


def test_what_a_kernel_takes_of_the_function_around_it_is_named_and_bound_nowhere():
    found = extract(MADE)
    assert {frozenset(names) for names in found.captured.values()} == {frozenset({"factor", "act"}), frozenset()}
    statements = ast.parse(found.source).body
    bound = {
        node.id for one in statements for node in ast.walk(one) if isinstance(getattr(node, "ctx", None), ast.Store)
    }
    assert not bound & {"factor", "act"}
    assert "import triton.language as lang" in found.source


def test_kernels_of_one_name_in_two_functions_are_distinguished_by_their_lines():
    found = extract(MADE)
    assert len(set(found.kernels)) == 2
    assert set(found.text_names) == {"k@8", "k@14"}
    assert {found.text_name("k@8"), found.text_name("k@14")} == set(found.kernels)
    assert found.text_name("k") not in found.kernels
    assert not any(fence.RESERVED in name for name in found.kernels)


def test_defaults_that_are_not_known_are_left_to_the_launch_and_others_are_kept():
    found = extract(kernel("tl.store(x, a)", arguments="x, a=1, b=os.getpid(), c: tl.constexpr = 2"))
    assert "def k(x, a, b, c: tl.constexpr=2):" in found.source


@pytest.mark.parametrize(
    ("made", "value"),
    [
        ("class C:\n    n = 3\nN = tl.constexpr(C.n)", "3"),
        ("import enum\nclass C(enum.IntEnum):\n    A = 3\nN = tl.constexpr(C.A.value)", "3"),
        (
            "from dataclasses import dataclass\n@dataclass\nclass C:\n    n: int = 3\nN = tl.constexpr(C(4).n + C().n)",
            "7",
        ),
        ("class C:\n    n = 3\nC.n = 4\nN = tl.constexpr(C.n)", None),
        ("class C:\n    n = os.getpid()\nN = tl.constexpr(C.n)", None),
        ("class C(os.PathLike):\n    n = 3\nN = tl.constexpr(C.n)", None),
        (
            "from dataclasses import dataclass\n@dataclass\nclass C:\n    n: int = 3\n    def __post_init__(self):\n"
            "        self.n = 4\nN = tl.constexpr(C().n)",
            None,
        ),
    ],
)
def test_a_constant_may_be_an_attribute_of_a_class_or_of_a_dataclass(made, value):
    if value is None:
        assert unknown(made)
    else:
        assert value_of(made) == f"N = tl.constexpr({value})"


def test_a_name_that_a_function_around_binds_is_not_the_modules():
    source = PRELUDE + "n = tl.constexpr(3)\ndef make(n):\n    @triton.jit\n    def k(x):\n        tl.store(x, n)\n"
    found = extract(source)
    assert found.captured == {"k": {"n": 9}}
    assert "constexpr(3)" not in found.source
    assert "def k(x, N: tl.constexpr):" in extract(source.replace("k(x)", "k(x, N: tl.constexpr = n)")).source


@pytest.mark.parametrize(
    "made", ["class P(NamedTuple):\n    handle: int\n    max: int = 2", "P = namedtuple('P', 'handle max')"]
)
def test_a_field_of_a_named_tuple_opens_no_other_value(made):
    head = f"from typing import NamedTuple\nfrom collections import namedtuple\n{made}\n"
    text = extract(kernel("p = P(x, max=3)\ntl.store(p.handle, p.max)\ny = x.handle", before=head)).source
    assert "x.warpsmith_field_handle" in text
    assert ".handle" not in text
    assert "p.max" in text


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("return open(n)", "global open"),
        ("return n.__class__", "attribute __class__"),
        ("return n.format(n)", "call of n.format"),
        ("return tl.load(n)", "call of tl.load"),
        ("return k(n)", "call of k"),
        ("return (lambda: n)()", "call of"),
        ("return getattr(n, 'x')", "global getattr"),
        ("import os\n    return n", "Import"),
        ("n[0] = 1\n    return n", "assignment to n"),
        ("return isinstance(n, n)", "global isinstance"),
        ("return f'{n}'", "JoinedStr"),
        ("yield n", "Yield"),
        ("global N\n    N = n", "Global"),
        ("return len", "as a value"),
    ],
)
def test_what_a_constexpr_function_may_not_do_is_refused(body, what):
    source = kernel("tl.store(x, f(BLOCK))", before=f"@triton.constexpr_function\ndef f(n):\n    {body}\n")
    with pytest.raises(ExtractionError, match=what):
        extract(source)


def test_kernels_that_functions_and_decorators_of_the_module_make_are_found():
    source = (
        PRELUDE
        + """
def shown(f):
    return triton.jit(f)

def plain(x):
    tl.store(x, 1)

@shown
def wrapped(x):
    tl.store(x, 2)

def host(x):
    return os.getpid()

class M:
    def __init__(self):
        self.k = triton.jit(plain)
"""
    )
    assert set(extract(source).kernels) == {"plain", "wrapped"}


OWN_DECORATORS = {
    "made by a function": (
        "def make(**o):\n    def wrap(f):\n        return triton.jit(f, **o)\n    return wrap\nj = make()\n",
        "@j",
    ),
    "of a function that returns it": ("def make():\n    return triton.jit\n", "@make()"),
    "a lambda": ("j = lambda f: triton.jit(f)\n", "@j"),
    "a partial": ("import functools\nj = functools.partial(triton.jit, debug=True)\n", "@j"),
    "a call of triton.jit": ("j = triton.jit(debug=True)\n", "@j"),
    "an argument": (
        "def make(*ones):\n    def wrap(f):\n        return ones[0](f)\n    return wrap\n",
        "@make(triton.jit)",
    ),
    "a class": ("class Op:\n    def __init__(self, f):\n        self.kernel = triton.jit(f)\n", "@Op"),
    "a static method": ("class J:\n    @staticmethod\n    def jit(f):\n        return triton.jit(f)\n", "@J.jit"),
    "a method of a registry": (
        "class R:\n    def kernel(self, name):\n        return lambda f: triton.jit(f)\nr = R()\n",
        "@r.kernel('k')",
    ),
    "an attribute": ("class R: pass\nr = R()\nr.kernel = triton.jit(debug=True)\n", "@r.kernel"),
    "several steps away": ("def a(f):\n    return triton.jit(f)\ndef b(f):\n    return a(f)\nc = [b]\n", "@c[0]"),
}


@pytest.mark.parametrize("definition", OWN_DECORATORS)
def test_a_decorator_of_the_file_that_leads_to_jit_makes_a_kernel(definition):
    before, decorator = OWN_DECORATORS[definition]
    found = extract_usable(kernel("tl.store(x, 1)", head=decorator, before=before))
    assert found.kernels == ("k",)
    assert "k" not in found.decorated


@pytest.mark.parametrize(
    ("before", "decorator"),
    [
        ("def timed(f):\n    return f\n", "timed"),
        ("@triton.jit\ndef one(x):\n    tl.store(x, 1)\ndef timed(f):\n    return lambda x: one[(1,)](x)\n", "timed"),
    ],
)
def test_other_decorators_of_the_file_make_no_kernel_and_are_named(before, decorator):
    found = extract_usable(kernel("tl.store(x, 1)", head=f"@{decorator}", before=before))
    assert "k" not in found.kernels
    assert found.decorated["k"] == decorator


def test_kernels_in_a_function_that_a_leading_decorator_decorates_are_found():
    source = (
        PRELUDE
        + "def own(f):\n    return triton.jit(f)\n@own\ndef make():\n"
        + "    @triton.jit\n    def k(x):\n        tl.store(x, 1)\n"
    )
    assert extract_usable(source).kernels == ("k",)


@pytest.mark.parametrize(
    ("body", "remedy"),
    [
        ("for i in range(3):\n    break", "while"),
        ("y = [i for i in range(3)]", "static_range"),
        ("y = x @ x", "tl.dot"),
        ("y = BLOCK in (1, 2)", "=="),
        ("raise ValueError", "tl.static_assert"),
        ("y = lambda: 1", "@triton.jit"),
        ("if (y := 1) > 2:\n    pass", "line of its own"),
        ("y = tl.advance(x, 1)", "make_tensor_descriptor"),
    ],
)
def test_a_refusal_says_what_to_write_instead(body, remedy):
    with pytest.raises(ExtractionError) as refused:
        extract(kernel(body))
    assert remedy in refused.value.remedy


def test_in_place_of_an_aggregate_a_named_tuple_is_proposed():
    made = "from triton.language.core import _aggregate\n@_aggregate\nclass A:\n    x: tl.tensor\n"
    with pytest.raises(ExtractionError) as refused:
        extract(kernel("y = A(x)", before=made))
    assert "NamedTuple" in refused.value.remedy


INDUCTOR = "torch._inductor.runtime"


@pytest.mark.parametrize(
    ("imported", "called"),
    [
        (f"from {INDUCTOR} import triton_helpers", "triton_helpers.maximum"),
        (f"import {INDUCTOR}.triton_helpers as helpers", "helpers.maximum"),
        (f"from {INDUCTOR}.triton_helpers import maximum", "maximum"),
        (f"from {INDUCTOR}.triton_helpers import maximum as larger", "larger"),
    ],
)
def test_torchs_own_kernels_are_taken_with_all_that_they_call(imported, called):
    source = kernel(f"tl.store(x, {called}(tl.load(x), 0.5))", before=f"{imported}\n")
    found = rendered(source)
    assert {"k", "inductor_maximum", "inductor_is_floating"} <= found.keys()
    assert found["k"].lineno < found["inductor_maximum"].lineno
    assert "inductor_minimum" not in found
    assert not extract(source).captured["k"]


def test_a_kernel_of_torchs_may_be_passed_to_a_reduction_and_its_modules_are_the_library():
    before = f"from {INDUCTOR} import triton_helpers as h\n"
    body = "y = tl.reduce(tl.load(x), 0, h.minimum)\ntl.store(x, h.libdevice.log1p(h.math.exp(y)))"
    found = extract(kernel(body, before=before))
    assert {"triton.language.extra.libdevice.log1p", "triton.language.math.exp"} <= found.reached
    assert "inductor_minimum" in found.kernels


def test_the_files_own_names_are_not_mixed_up_with_torchs():
    before = f"from {INDUCTOR} import triton_helpers\n@triton.jit\ndef maximum(a, b):\n    return a\nmath = 3\n"
    found = rendered(kernel("tl.store(x, maximum(x, triton_helpers.maximum(tl.load(x), 1)) + math)", before=before))
    assert {"maximum", "inductor_maximum", "math"} <= found.keys()
    assert "return a" in ast.unparse(found["maximum"])


@pytest.mark.parametrize(
    ("body", "before"),
    [
        ("tl.store(x, triton_helpers.set_driver_to_gpu())", ""),
        ("tl.store(x, triton_helpers.no_such(x))", ""),
        ("tl.store(x, triton_helpers.maximum(x, 1))", "def inductor_maximum():\n    pass\n"),
    ],
)
def test_what_is_no_kernel_of_torchs_is_refused(body, before):
    with pytest.raises(ExtractionError, match=r"triton_helpers|attribute"):
        extract(kernel(body, before=f"from {INDUCTOR} import triton_helpers\n{before}"))


def test_torchs_module_of_kernels_is_parsed_only_for_files_that_name_it():
    inductor._definitions.cache_clear()
    extract(kernel("tl.store(x, 1.0)"))
    assert inductor._definitions.cache_info().misses == 0
    extract(kernel("tl.store(x, h.maximum(1.0, 2.0))", before=f"from {INDUCTOR} import triton_helpers as h\n"))
    assert inductor._definitions.cache_info().misses == 1
