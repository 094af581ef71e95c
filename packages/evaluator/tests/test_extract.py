import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.extract import JIT_NAME, ExtractionError, extract

PRELUDE = "import os\nimport math\nimport triton\nimport triton.language as tl\n"


def kernel(body: str, arguments: str = "x, BLOCK: tl.constexpr", head: str = "@triton.jit") -> str:
    indented = "\n".join(f"    {line}" for line in body.split("\n"))
    return f"{PRELUDE}{head}\ndef k({arguments}):\n{indented}\n"


def test_host_code_is_left_out_and_lines_stay_where_they_are():
    source = kernel("tl.store(x, 1.0)") + "os.system('echo host')\nclass ModelNew:\n    value = os.getpid()\n"
    found = extract(source)
    assert found.kernels == ("k",)
    assert "os" not in {node.id for node in ast.walk(ast.parse(found.source)) if isinstance(node, ast.Name)}
    original, kept = source.split("\n"), found.source.split("\n")
    assert all(line in {"", original[number], f"@{JIT_NAME}"} for number, line in enumerate(kept[: len(original)]))


@pytest.mark.parametrize(
    "constant",
    [
        "N = tl.constexpr(2 * 3 + 1)",
        "N: tl.constexpr = 64",
        "N = tl.constexpr(math.log(2.0))",
        "N = tl.constexpr(triton.next_power_of_2(100))",
        "A = 5\nN = tl.constexpr(A)",
        "N = tl.float32",
        "N = tl.constexpr(float('inf'))",
    ],
)
def test_constants_of_literals_and_pure_helpers_are_kept(constant):
    source = kernel("tl.store(x, N)").replace("@triton.jit", f"{constant}\n@triton.jit")
    assert constant.split("\n")[-1] in extract(source).source


@pytest.mark.parametrize(
    "constant", ["N = os.getpid()", "N = tl.constexpr(len(open('/etc/passwd').read()))", "N = 9**9**9"]
)
def test_other_constants_are_left_out_and_missed(constant):
    source = kernel("tl.store(x, N)").replace("@triton.jit", f"{constant}\n@triton.jit")
    with pytest.raises(ExtractionError, match="global N"):
        extract(source)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("tl.store(x, x.__class__)", "__class__"),
        ("tl.store(x, getattr(tl, 'core'))", "getattr"),
        ("getattr = getattr\ntl.store(x, 1)", "getattr"),
        ("t = tl\ntl.store(x, t)", "module tl"),
        ("os.system('x')", "global os"),
        ("triton.runtime.driver", "triton.runtime.driver"),
        ("import os", "Import"),
        ("f = lambda: 1", "Lambda"),
        ("eval('1')", "global eval"),
        ("open('/x')", "global open"),
        ("__import__('os')", "global __import__"),
        ("def inner():\n    pass", "FunctionDef"),
        ("try:\n    pass\nfinally:\n    pass", "Try"),
        ("with x:\n    pass", "With"),
        ("global x", "Global"),
        ("unknown_function(x)", "global unknown_function"),
        ("y = [z for z in unknown]", "a ListComp"),
        ("tl.static_assert(x == 1, f'{unknown}')", "global unknown"),
        ("y = f'{x}'", "JoinedStr"),
        ("match x:\n    case tl.tensor(handle=h):\n        pass", "Match"),
        ("if isinstance(x, BLOCK):\n    pass", "isinstance"),
        ("y = type(x)", "global type"),
        ("y = tl.tensor(x, x)", "triton.language.tensor"),
        ("y = x.handle", "the attribute handle"),
        ("y = tl.load(x).handle.data", "the attribute handle"),
        ("x.dtype = tl.int1", "the attribute dtype"),
        ("y = '{0.handle}'.format(x)", "the attribute format"),
        ("y = tl.load(x, _semantic=None)", "the keyword _semantic"),
        ("y = tl.load(**x)", "the keyword **"),
        ("if x.dtype is tl.float32:\n    pass", "`is`"),
        ("tl = x\ny = tl.load(x)", "the local name tl"),
        ('x = "a\\\ndef k(x, BLOCK): b"', "more than one line begins with `def`"),
    ],
)
def test_what_could_run_python_at_compile_time_is_refused_by_name(body, what):
    with pytest.raises(ExtractionError, match="line") as caught:
        extract(kernel(body))
    assert what in str(caught.value)


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (kernel("pass", head="@os.system('x')\n@triton.jit"), "decorator"),
        (kernel("pass", head="@triton.constexpr_function\n@triton.jit"), "decorator"),
        (kernel("pass", head="@triton.jit(do_not_specialize=['x'])"), "without arguments"),
        (kernel("pass", head="@triton.jit(None)"), "without arguments"),
        (kernel("pass", arguments="x=os.getpid()"), "default"),
        (kernel("pass", arguments="x: os.getpid()"), "annotation"),
        (kernel("pass", arguments="*x"), "args"),
        (PRELUDE + "@triton.jit\ndef k(x) -> os.getpid():\n    pass\n", "result"),
        (PRELUDE + "@triton.jit\ndef \\\n k(x):\n    pass\n", "one line"),
        (
            PRELUDE + "@triton.jit\ndef k(x=os.getpid()):\n    pass\n@triton.jit\ndef k(x):\n    pass\n",
            "more than once",
        ),
        (PRELUDE + "tl = tl.constexpr(1)\n", "more than once"),
        (PRELUDE + f"{JIT_NAME} = 1\n", "reserved"),
    ],
)
def test_what_would_run_at_definition_is_refused(source, what):
    with pytest.raises(ExtractionError, match=what):
        extract(source)


@pytest.mark.parametrize("constant", ["N = 1; os.system('x')", "N = (1,\n 2); os.system('x')", "os.system('x'); N = 1"])
def test_what_shares_a_line_with_a_constant_is_left_out(constant):
    found = extract(kernel("tl.store(x, N)").replace("@triton.jit", f"{constant}\n@triton.jit"))
    assert "N = " in found.source
    assert "os" not in found.source


@pytest.mark.parametrize(
    "imports",
    [
        "import torch, triton, triton.language as tl",
        "import os, triton\nimport triton.language as tl; import sys",
        "try:\n    import triton\n    import triton.language as tl\nexcept ImportError:\n    triton = None",
        "import triton\nimport triton\nimport triton.language as tl",
    ],
)
def test_imports_are_kept_whatever_stands_beside_them(imports):
    source = f"{imports}\n@triton.jit\ndef k(x):\n    tl.store(x, 1.0)\n"
    found = extract(source)
    assert found.kernels == ("k",)
    bound = {name.asname or name.name for node in ast.parse(found.source).body[:-1] for name in node.names}
    assert bound == {"triton", "tl"}
    assert found.source.split("\n").index("def k(x):") == source.split("\n").index("def k(x):")


def test_a_comparison_with_none_and_a_message_are_honest():
    extract(kernel("if x is None:\n    tl.static_print(f'{BLOCK}')\ntl.static_assert(BLOCK > 1, f'{BLOCK} is small')"))


def test_an_argument_may_have_the_name_of_a_constant():
    source = kernel("N = BLOCK + 1\ntl.store(x, N)").replace("@triton.jit", "N = 64\nBLOCK = 128\n@triton.jit")
    assert extract(source).kernels == ("k",)


def test_decorators_that_choose_launches_are_stripped():
    head = (
        "@triton.autotune(\n    configs=[triton.Config({'BLOCK': os.getpid()})],\n    key=['x'],\n)\n"
        "@triton.heuristics({})\n@triton.jit"
    )
    found = extract(kernel("tl.store(x, 1.0)", head=head))
    assert "autotune" not in found.source
    assert "getpid" not in found.source


def test_the_decorator_may_be_called_without_arguments():
    assert extract(kernel("tl.store(x, 1.0)", head="@triton.jit()")).kernels == ("k",)


def test_aliases_are_followed():
    source = "from triton import jit\nfrom triton.language import load, store\nimport triton.language as lang\n"
    source += "@jit\ndef k(x, B: lang.constexpr):\n    store(x, load(x) + lang.arange(0, B))\n"
    assert extract(source).reached == {"triton.language.store", "triton.language.load", "triton.language.arange"}


def test_an_alias_of_something_else_is_not_the_decorator():
    assert extract("import os as triton\n@triton.jit\ndef k(x):\n    pass\n").kernels == ()


@given(st.text(alphabet="abc():\n\t =.;@\\'\"#x1\x0c\r", max_size=80))
def test_any_text_is_extracted_or_refused(text):
    try:
        extract(text)
    except (SyntaxError, ValueError, ExtractionError):
        return
