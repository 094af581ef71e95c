"""AMD's chips as targets, without a card: kernels are compiled for them, and the interpreter judges."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from pydantic import ValidationError
from timed_problems import PAIRS

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem, UnknownTargetError, UsageError
from warpsmith.evaluator.languages.chips import chip_name, lanes
from warpsmith.evaluator.languages.triton import amd_check

PRODUCT, MATMUL = PAIRS["matmul"]
SMALL = replace(PRODUCT, source=PRODUCT.source.replace("2048, 2048", "128, 128"))
HUNGRY = MATMUL.replace("SIDE=128, DEPTH=32", "SIDE=128, DEPTH=128, num_stages=4")
"""Needs more shared memory than a block has on gfx942."""


@pytest.fixture(scope="module")
def on_amd() -> Iterator[Evaluator]:
    with Evaluator(EvaluatorConfig(slots=1, ready_workers=1, trials=1, target="gfx942")) as running:
        yield running


@pytest.mark.slow
def test_a_kernel_is_compiled_for_the_chip_and_judged_by_the_interpreter(on_amd):
    problem, candidate = PAIRS["softmax"]
    smaller = replace(problem, source=problem.source.replace("8192, 1000", "64, 100"))
    verdict = on_amd.evaluate(smaller, candidate)
    assert (verdict.status, verdict.compiled) == ("correct", True)
    (kernel,) = verdict.kernels
    assert kernel.threads == 4 * 64
    assert kernel.registers > 0
    assert kernel.occupancy is None
    wrong = on_amd.evaluate(smaller, candidate.replace("e / tl.sum(e, axis=0)", "e"))
    assert (wrong.status, wrong.compiled) == ("incorrect", True)


@pytest.mark.slow
def test_what_does_not_compile_for_the_chip_is_a_verdict(on_amd):
    small = Problem.from_source(SMALL.source, "small")
    verdict = on_amd.evaluate(small, HUNGRY)
    assert (verdict.status, verdict.error_category) == ("compile_error", "shared_memory_exceeded"), (
        verdict.error_message
    )
    assert "gfx942" in verdict.error_message


def test_a_chip_that_triton_does_not_know_is_refused_at_the_start():
    with pytest.raises(UnknownTargetError, match="does not know the chip gfx999"):
        amd_check.check("gfx999")


def test_a_language_without_a_compiler_for_amd_is_refused():
    config = EvaluatorConfig(slots=1, language="cuda_cpp", target="gfx942")
    with pytest.raises(UsageError, match=r"CUDA C\+\+ is not compiled for AMD"), Evaluator(config) as running:
        running.evaluate(SMALL, MATMUL)


@pytest.mark.parametrize("target", ["gfx", "sm_9", "sm_200", "sm_90 ", "rtx4090", "GFX942"])
def test_a_target_that_names_no_chip_is_refused(target):
    with pytest.raises(ValidationError, match="target"):
        EvaluatorConfig(target=target)


def test_a_target_is_for_the_cpu_and_names_the_chip():
    assert EvaluatorConfig(target="sm_80").chip == 80
    assert EvaluatorConfig().chip == 90
    assert [(chip_name(chip), lanes(chip)) for chip in (90, "gfx942", "gfx1201")] == [
        ("sm_90", 32),
        ("gfx942", 64),
        ("gfx1201", 32),
    ]
    with pytest.raises(ValidationError, match="is for the device cpu"):
        EvaluatorConfig(device="cuda", target="gfx942")
