"""Candidates in CUDA C++ whose host code reads contents, judged on a real GPU: `pytest -m gpu -k on_device_cuda`.

`test_execution.py` records and replays the same candidates without one.
"""

from collections.abc import Iterator

import pytest
from content_readers import DISHONEST, HEAD, HONEST, NOT_AWAITED, ON_MEMORY, PROBLEM, WITH_HOST_TABLE, Reader

from warpsmith.evaluator import Evaluator, EvaluatorConfig
from warpsmith.evaluator.languages.cuda_cpp import toolkit

pytestmark = pytest.mark.gpu

TRITON = """\
import triton
import triton.language as tl

@triton.autotune([triton.Config({'BLOCK': 128}, num_warps=w) for w in (2, 4)], key=['n'])
@triton.jit
def copy_tuned(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)

@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)

"""


OF_ALL = {"language": "cuda_cpp", "device": "cuda", "slots": 1, "ready_workers": 1, "compile_timeout_s": 240}


@pytest.fixture(scope="module", params=["detached", "on_device"])
def way(gpu, request) -> str:
    """How host code is recorded first: what it does here then ends on the device either way."""
    try:
        toolkit.find()
    except toolkit.ToolkitError as error:
        pytest.skip(str(error))
    return request.param


@pytest.fixture(scope="module")
def evaluator(way) -> Iterator[Evaluator]:
    with Evaluator(EvaluatorConfig(recording=way, timing=False, timeout_s=30, **OF_ALL)) as running:
        yield running


def judged(evaluator, reader, source=None):
    return evaluator.evaluate(PROBLEM, source or reader.source, trials=3, seed=11)


def said(verdict):
    """What a failed test shows: the verdict's own text is longer than pytest prints."""
    return verdict.status, verdict.error_category, verdict.error_message, verdict.flags


def with_triton(reader):
    return reader.source.replace(HEAD, TRITON + HEAD)


@pytest.mark.parametrize("name", [*HONEST, "with_host_table"])
def test_on_device_cuda_what_only_checks_a_content_is_correct(evaluator, name):
    reader = HONEST.get(name, WITH_HOST_TABLE)
    verdict = judged(evaluator, reader)
    assert verdict.status == "correct", said(verdict)
    assert verdict.recording == "on_device"


@pytest.mark.parametrize("name", DISHONEST)
def test_on_device_cuda_what_takes_its_output_from_a_content_is_not_correct(evaluator, name):
    verdict = judged(evaluator, DISHONEST[name])
    assert verdict.status in DISHONEST[name].permitted, said(verdict)
    assert verdict.recording == "on_device"
    if DISHONEST[name].permitted == ("rejected",):
        assert DISHONEST[name].said in verdict.error_message
        assert "not_from_kernels" in verdict.flags


@pytest.mark.parametrize("name", ON_MEMORY)
def test_on_device_cuda_accesses_that_are_not_allowed_end_the_call(evaluator, name):
    verdict = judged(evaluator, ON_MEMORY[name])
    assert verdict.status in ON_MEMORY[name].permitted, said(verdict)
    assert ON_MEMORY[name].said in verdict.error_message
    assert judged(evaluator, HONEST["item_is_checked"]).status == "correct", "others are judged after it"


def test_on_device_cuda_work_that_nobody_waits_for_is_incorrect(evaluator):
    verdict = judged(evaluator, NOT_AWAITED)
    assert verdict.status == "incorrect", said(verdict)
    assert NOT_AWAITED.said in verdict.error_message


def test_on_device_cuda_a_correct_candidate_is_timed(way):
    with Evaluator(EvaluatorConfig(recording=way, **OF_ALL)) as timing:
        verdict = timing.evaluate(PROBLEM, HONEST["copy_is_checked"].source, trials=1, seed=11)
    assert verdict.status == "correct", said(verdict)
    assert verdict.runtime_ms
    assert verdict.kernels


@pytest.mark.parametrize(
    "kernel", ["copy[(6,)](out, other, out.numel(), BLOCK=128)", "copy_tuned[(6,)](out, other, out.numel())"]
)
def test_on_device_cuda_triton_kernels_beside_a_build_are_recorded_too(evaluator, kernel):
    reader = Reader(f"out = module.item_is_checked(x, y)\nother = torch.empty_like(out)\n{kernel}\nreturn other")
    verdict = judged(evaluator, reader, with_triton(reader))
    assert verdict.status == "correct", said(verdict)
    assert verdict.recording == "on_device"


def test_on_device_cuda_a_build_that_does_not_compile_takes_no_other_device(evaluator, way):
    reader = HONEST["item_is_checked"]
    verdict = judged(evaluator, reader, reader.source.replace("out[i] = x[i] + y[i];", "out[i] = x[i] + z[i];"))
    assert (verdict.status, verdict.error_category) == ("compile_error", "cuda_compilation_error"), said(verdict)
    assert '"z" is undefined' in verdict.error_message
    assert verdict.recording == way
