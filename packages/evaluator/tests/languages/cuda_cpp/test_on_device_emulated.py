"""Whole evaluations of candidates that read contents, on an emulated device: judge, sandbox, recording and replay.

What `test_on_device_cuda_gpu.py` judges on a GPU, as far as it does not depend on a GPU's memory.
"""

from collections.abc import Iterator

import pytest
from content_readers import DISHONEST, HONEST, KERNELS, LAUNCHED, NOT_AWAITED, ON_MEMORY, PROBLEM, VARIABLES, Reader
from emulated_gpu import installed

from warpsmith.evaluator import EvaluatorConfig
from warpsmith.evaluator.judge.judge import Judge
from warpsmith.evaluator.languages.cuda_cpp import toolkit

pytestmark = pytest.mark.slow
OF_EVERY_RUN = {"item_is_checked", "async_copy_is_checked", "two_streams", "kernel_in_the_constructor"} | {
    "item_is_an_argument", "peeks_then_launches_less", "launches_by_content"
}  # fmt: skip
"""`test_execution.py` records and replays the others too."""


def _each(readers):
    return [pytest.param(name, marks=[pytest.mark.long] * (name not in OF_EVERY_RUN)) for name in readers]


DETACHED_FIRST = pytest.mark.parametrize(
    "judge", ["detached", pytest.param("on_device", marks=pytest.mark.long)], indirect=True
)
"""For what the judge compiles alike, whichever way host code is recorded."""


@pytest.fixture(scope="module", params=["detached", "on_device"])
def judge(request, tmp_path_factory) -> Iterator[Judge]:
    """Host code is recorded detached first, or always on the device."""
    try:
        toolkit.find()
    except toolkit.ToolkitError as error:
        pytest.skip(str(error))
    with installed(KERNELS, LAUNCHED, VARIABLES, tmp_path_factory.mktemp("emulated")):
        config = EvaluatorConfig(
            language="cuda_cpp", device="emulated", recording=request.param, slots=1, ready_workers=1, timeout_s=60,
            compile_timeout_s=240,
        )  # fmt: skip
        running = Judge(config)
        yield running
        running.close()


def judged(judge, source):
    return judge.evaluate(PROBLEM, source, trials=2, seed=11, timeout_s=60)


@pytest.mark.parametrize("name", _each(HONEST))
def test_what_only_checks_a_content_is_correct(judge, name):
    verdict = judged(judge, HONEST[name].source)
    assert verdict.status == "correct", (verdict.error_category, verdict.error_message)
    assert verdict.recording == "on_device"
    assert verdict.flags == ()


@pytest.mark.parametrize("name", _each(DISHONEST))
def test_what_takes_its_output_from_a_content_is_not_correct(judge, name):
    verdict = judged(judge, DISHONEST[name].source)
    assert verdict.status in DISHONEST[name].permitted, verdict
    assert verdict.recording == "on_device"
    if DISHONEST[name].permitted == ("rejected",):
        assert DISHONEST[name].said in verdict.error_message
        assert "not_from_kernels" in verdict.flags


@pytest.mark.parametrize("name", ["fills_an_input", "copies_to_an_input", "writes_to_an_input"])
def test_a_write_to_an_input_ends_the_call(judge, name):
    verdict = judged(judge, ON_MEMORY[name].source)
    assert verdict.status in ON_MEMORY[name].permitted, verdict
    assert ON_MEMORY[name].said in verdict.error_message


def test_work_that_nobody_waits_for_is_incorrect(judge):
    verdict = judged(judge, NOT_AWAITED.source)
    assert verdict.status == "incorrect", verdict
    assert NOT_AWAITED.said in verdict.error_message


@DETACHED_FIRST
def test_a_build_that_does_not_compile_takes_no_other_device(judge):
    source = HONEST["item_is_checked"].source.replace("out[i] = x[i] + y[i];", "out[i] = x[i] + z[i];")
    verdict = judged(judge, source)
    assert (verdict.status, verdict.error_category) == ("compile_error", "cuda_compilation_error"), verdict
    assert '"z" is undefined' in verdict.error_message
    assert verdict.recording == judge.config.recording


TRITON = """\
import triton
import triton.language as tl

@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)

"""


@DETACHED_FIRST
def test_the_code_of_a_triton_kernel_beside_a_build_comes_from_the_judge(judge):
    """What is emulated has no machine code, so the call ends where the kernel would be loaded."""
    reader = Reader("out = module.item_is_checked(x, y)\ncopy[(6,)](out, out, 768, BLOCK=128)\nreturn out")
    verdict = judged(judge, TRITON + reader.source)
    assert verdict.status == "runtime_error", verdict
    assert "cannot load machine code" in verdict.error_message
    broken = judged(judge, TRITON.replace("tl.arange(0, BLOCK)", "tl.arange(0, 100)") + reader.source)
    assert (broken.status, broken.error_category) == ("compile_error", "triton_compilation_error"), broken
    assert "power of 2" in broken.error_message


def test_what_needs_no_content_is_recorded_as_the_configuration_says(judge):
    source = HONEST["item_is_checked"].source.replace("module.item_is_checked(x, y)", "module.plain(x, y)")
    verdict = judged(judge, source)
    assert verdict.status == "correct", (verdict.error_category, verdict.error_message)
    assert verdict.recording == judge.config.recording
