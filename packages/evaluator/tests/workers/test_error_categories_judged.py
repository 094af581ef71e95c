"""Categories in verdicts: what a mistake of host code is called, and that its message says where it is."""

import pytest

FIRST = "        out = torch.empty_like(x)\n"


@pytest.mark.parametrize(
    ("mistake", "category", "says"),
    [
        ("undefined_name", "name_error", "undefined_name"),
        ("x.no_such", "attribute_error", "no_such"),
        ("x.view(7, 5)", "shape_error", "invalid for input of size"),
        ("import no_such_module", "import_error", "no_such_module"),
        ("add_kernel[(1,)](x, y)", "argument_error", "launched without out_ptr, n, BLOCK. Pass"),
        ("add_kernel[(1,)](x, y, out, 1, n=2, BLOCK=16)", "argument_error", "is given n twice"),
        (
            "add_kernel[(1, 1, 1, 1)](x, y, out, 1, BLOCK=16)",
            "argument_error",
            "a tuple of one to 3 sizes was expected",
        ),
        ("raise SystemExit(3)", "system_exit", "3"),
    ],
)
def test_a_mistake_of_host_code_has_the_category_of_its_kind(
    evaluator, add_problem, add_candidate, mistake, category, says
):
    verdict = evaluator.evaluate(add_problem, add_candidate.replace(FIRST, f"{FIRST}        {mistake}\n"), trials=1)
    assert says in (verdict.error_message or "")
    assert (verdict.status, verdict.error_category) == ("runtime_error", category)


def test_an_output_that_cannot_be_compared_is_named(evaluator, add_problem, add_candidate):
    verdict = evaluator.evaluate(add_problem, add_candidate.replace("return out", "return {'sum': {out}}"), trials=1)
    assert (verdict.status, verdict.error_category) == ("runtime_error", "output_error")
    assert "Output['sum'] is of type set" in (verdict.error_message or "")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (
            "An answer in prose.\n",
            "Python module that defines ModelNew, with @triton.jit kernels.\nline 1: An answer in",
        ),
        ("fn main() {}\n", "Python module that defines ModelNew, with @triton.jit kernels.\nline 1: fn main()"),
    ],
)
def test_a_source_that_is_no_python_is_told_what_is_expected(evaluator, add_problem, source, says):
    verdict = evaluator.evaluate(add_problem, source, trials=1)
    assert (verdict.status, verdict.error_category) == ("compile_error", "syntax_error")
    assert says in (verdict.error_message or "")


def test_a_slip_in_a_candidate_shows_its_line_alone(evaluator, add_problem, add_candidate):
    broken = add_candidate.replace("return out", "return out)")
    verdict = evaluator.evaluate(add_problem, broken, trials=1)
    assert (verdict.status, verdict.error_category) == ("compile_error", "syntax_error")
    assert ": return out)" in (verdict.error_message or "")
    assert "Python module" not in (verdict.error_message or "")


def test_a_language_that_is_not_installed_is_named_with_the_one_that_is_judged(evaluator, add_problem, add_candidate):
    verdict = evaluator.evaluate(add_problem, f"import no_such_dsl.language as T\n{add_candidate}", trials=1)
    assert (verdict.status, verdict.error_category) == ("runtime_error", "import_error")
    assert "has no no_such_dsl: write kernels in Triton" in (verdict.error_message or "")


TORCH_COMPILES = """from torch._C import _cuda_getCurrentRawStream as get_raw_stream
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.runtime import triton_helpers, triton_heuristics
"""


def test_what_torch_compile_imports_may_stay_and_a_kernel_in_a_string_is_refused_with_what_to_do(
    evaluator, add_problem, add_candidate
):
    """Once for the imports alone, and once for each way in which Inductor makes a kernel."""
    verdict = evaluator.evaluate(add_problem, f"{TORCH_COMPILES}async_compile = AsyncCompile()\n{add_candidate}")
    assert verdict.status == "correct", verdict.error_message
    for use in ("kernel = AsyncCompile().triton('kernel', 'import triton')", "triton_heuristics.template(1, 4)(1)"):
        verdict = evaluator.evaluate(add_problem, f"{TORCH_COMPILES}{use}\n{add_candidate}", trials=1)
        assert verdict.status == "runtime_error"
        assert "Paste each kernel from its string into the file" in (verdict.error_message or "")


def test_a_kernel_that_is_made_at_run_time_is_refused_with_what_to_do(evaluator, add_problem, add_candidate):
    begin = add_candidate.index("@triton.jit")
    kernel, rest = add_candidate[begin:].split("\n\n", 1)
    made = f"""import importlib.util, os, tempfile
TEXT = {"import triton" + chr(10) + "import triton.language as tl" + chr(10) + kernel!r}
path = os.path.join(tempfile.mkdtemp(), "made.py")
with open(path, "w") as file:
    file.write(TEXT)
spec = importlib.util.spec_from_file_location("made", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
add_kernel = module.add_kernel
"""
    verdict = evaluator.evaluate(add_problem, f"{add_candidate[:begin]}{made}\n{rest}", trials=1)
    assert verdict.status == "compile_error"
    assert "Paste its source" in (verdict.error_message or "")
