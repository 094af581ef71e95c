"""The instructions for a task, by kernel language and policy; the example in it is a candidate that compiles."""

import ast

import pytest

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem
from warpsmith.evaluator.extract import extract_kernel
from warpsmith.evaluator.instructions import (
    CUDA_EXAMPLE,
    LANGUAGES,
    UnaskedLanguageError,
    chat,
    mark_of,
    request,
    rules,
    system,
    task,
    unasked,
)
from warpsmith.evaluator.integrations.conversations import rows
from warpsmith.evaluator.languages.cuda_cpp import toolkit
from warpsmith.evaluator.languages.cuda_cpp.flags import checked
from warpsmith.evaluator.languages.registry import language_of
from warpsmith.evaluator.server.probe import PROBLEM

POLICIES = ("none", "library", "any")
BROKEN = CUDA_EXAMPLE.replace("out[i] = x[i] + y[i]", "out[i] = x[i] + z[i]")


@pytest.mark.parametrize("operators", POLICIES)
def test_each_language_is_asked_for_in_its_own_words_alone(operators):
    triton, cuda = ("\n".join(m["content"] for m in chat(PROBLEM, operators, one)) for one in ("triton", "cuda_cpp"))
    for word in ("Triton kernels", "@triton.jit", "tl.dot"):
        assert word in triton
        assert word not in cuda
    for word in ("CUDA C++ kernels", "load_inline", "__global__", "item()", "printf", "cuBLAS", CUDA_EXAMPLE):
        assert word in cuda
        assert word not in triton
    for rule in ("computed again in every call", "single ```python code block", "zero rows and large outliers"):
        assert rule in triton
        assert rule in cuda


def test_triton_is_the_default_and_its_rules_have_no_line_of_another_language():
    assert (system(), request(), rules(), task(PROBLEM)) == (
        system("triton"), request("triton"), rules("none", "triton"), task(PROBLEM, "none", "triton"),
    )  # fmt: skip
    assert [line[:2] for line in rules().splitlines()[1:-2]] == ["- "] * 7
    assert (mark_of("triton"), mark_of("cuda_cpp")) == ("", "# CUDA C++, load_inline")


def test_a_language_without_a_form_is_a_typed_error_that_names_those_with_one():
    assert not any(map(unasked, LANGUAGES))
    assert "'tilelang'; the languages are triton, cuda_cpp" in unasked("tilelang")
    with pytest.raises(UnaskedLanguageError, match="tilelang") as caught:
        task(PROBLEM, language="tilelang")
    assert caught.value.remedy == "Set evaluator.language to triton or cuda_cpp."


def test_rows_of_a_data_set_ask_in_the_language():
    (row,) = rows([Problem.from_source(PROBLEM, "add")], language="cuda_cpp")
    assert row["prompt"] == chat(PROBLEM, "none", "cuda_cpp")


def test_the_example_is_what_is_extracted_from_an_answer_in_its_form():
    ast.parse(CUDA_EXAMPLE)
    assert language_of("cuda_cpp").is_in(CUDA_EXAMPLE)
    assert extract_kernel(f"The kernel:\n```python\n{CUDA_EXAMPLE}```\nIt adds.") == CUDA_EXAMPLE
    assert checked(["-O3"], "extra_cuda_cflags") == ["-O3"]


@pytest.fixture(scope="module")
def cuda_evaluator():
    try:
        toolkit.find()
    except toolkit.ToolkitError as error:
        pytest.skip(str(error))
    config = EvaluatorConfig(language="cuda_cpp", slots=1, ready_workers=1, compile_timeout_s=90.0)
    with Evaluator(config) as running:
        yield running


@pytest.mark.slow
def test_the_example_compiles_and_a_mistake_in_it_is_named_with_its_line(cuda_evaluator):
    add = Problem.from_source(PROBLEM, "add")
    verdict = cuda_evaluator.evaluate(add, CUDA_EXAMPLE, trials=1)
    assert (verdict.status, verdict.compiled, verdict.kernel_share) == ("undecided", True, None), verdict.error_message
    verdict = cuda_evaluator.evaluate(add, BROKEN, trials=1)
    assert (verdict.status, verdict.error_category) == ("compile_error", "cuda_compilation_error")
    assert 'identifier "z" is undefined' in verdict.error_message
    assert "out[i] = x[i] + z[i]" in verdict.error_message
