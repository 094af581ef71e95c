"""Baselines and absolute figures on a real GPU."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from timed_problems import PAIRS, UNCOMPILED, pointwise

from warpsmith.evaluator import Evaluator, EvaluatorConfig

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def judge(gpu) -> Iterator[Evaluator]:
    config = EvaluatorConfig(
        device="cuda", slots=1, ready_workers=1, timeout_s=60, operators="library", baseline=("eager", "compile")
    )
    with Evaluator(config) as running:
        yield running


def test_a_verdict_has_a_speedup_over_each_baseline_and_the_second_one_compiles_nothing(judge):
    problem, candidate = PAIRS["elementwise"]
    first, second = judge.evaluate(problem, candidate), judge.evaluate(problem, candidate)
    for verdict in (first, second):
        assert verdict.status == "correct"
        assert set(verdict.speedups) == {"eager", "compile"}, verdict.baseline_notes
        assert verdict.speedup == verdict.speedups["eager"]
        # One kernel instead of three: the compiled reference is faster than the eager one, not than the candidate.
        assert verdict.references_ms["compile"] < 0.8 * verdict.references_ms["eager"]
    assert second.seconds.baselines < 0.1 < first.seconds.baselines


def test_the_first_baseline_of_a_request_counts(judge):
    problem, candidate = PAIRS["elementwise"]
    verdict = judge.evaluate(problem, candidate, baseline="compile")
    assert verdict.baseline == "compile"
    assert list(verdict.speedups) == ["compile"]
    assert verdict.speedup == verdict.speedups["compile"]


def test_a_reference_that_cannot_be_compiled_gives_a_note_and_a_verdict(judge):
    verdict = judge.evaluate(UNCOMPILED, pointwise("relu_kernel", "tl.maximum(x, 0.0)"))
    assert verdict.status == "correct"
    assert set(verdict.speedups) == {"eager"}
    (note,) = verdict.baseline_notes
    assert (note.baseline, note.kind) == ("compile", "not_compiled")
    assert "is_compiling() else x @ x[:3]" in note.message


def test_references_are_timed_without_a_candidate_several_at_once(gpu):
    config = EvaluatorConfig(device="cuda", slots=3, ready_workers=1, baseline=("eager", "compile"))
    problems = [PAIRS["elementwise"][0], PAIRS["matmul"][0], UNCOMPILED]
    with Evaluator(config) as judge, ThreadPoolExecutor(3) as pool:
        pointwise_times, product_times, uncompiled = pool.map(judge.reference_times, problems)
        alone = judge.reference_times(problems[0], baseline="eager")
        verdict = judge.evaluate(*PAIRS["elementwise"])
    for found in (pointwise_times, product_times):
        assert set(found.times) == {"eager", "compile"}, found.notes
        assert all(time.low_ms <= time.ms <= 1.5 * time.high_ms for time in found.times.values())
        assert found.times["compile"].compile_s > found.times["eager"].compile_s == 0
    assert pointwise_times.times["compile"].ms < 0.8 * pointwise_times.times["eager"].ms
    assert set(uncompiled.times) == {"eager"}
    assert [(note.baseline, note.kind) for note in uncompiled.notes] == [("compile", "not_compiled")]
    assert set(alone.times) == {"eager"}
    assert alone.times["eager"].ms == pytest.approx(pointwise_times.times["eager"].ms, rel=0.1)
    assert verdict.references_ms["compile"] == pytest.approx(pointwise_times.times["compile"].ms, rel=0.1)


def test_a_bound_fits_the_problem_and_the_device(judge):
    problem, candidate = PAIRS["elementwise"]
    verdict = judge.evaluate(problem, candidate)
    assert verdict.bound is not None
    assert verdict.bound.bytes == 2 * 4096 * 4096 * 4
    assert verdict.bound.limited_by == "memory"
    assert 0.6 < verdict.bound_share < 1.1
    (kernel,) = verdict.kernels
    assert kernel.grid == (16384, 1, 1)
    assert kernel.registers > 0
    assert kernel.occupancy == 1.0


def test_products_are_bounded_by_the_matrix_rate(judge):
    problem, candidate = PAIRS["matmul"]
    verdict = judge.evaluate(problem, candidate)
    assert verdict.status == "correct", verdict.error_message
    assert verdict.bound.flops == 2 * 2048**3
    assert verdict.bound.limited_by == "compute"
    assert 0.1 < verdict.bound_share < 1.2
