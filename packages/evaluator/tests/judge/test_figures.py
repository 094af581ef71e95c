"""Absolute figures: what kernels use of the chip, what a verdict says of bound and baselines."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from timed_problems import PAIRS

from warpsmith.evaluator import Verdict
from warpsmith.evaluator.baselines import BaselineNote
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.devices.nvml import SmClock
from warpsmith.evaluator.figures import Bound, Clock, KernelFigures
from warpsmith.evaluator.judge.compiled_baselines import BaselineTime
from warpsmith.evaluator.judge.compiling.service import Compilation
from warpsmith.evaluator.judge.evidence import Evidence
from warpsmith.evaluator.judge.kernel_figures import MOST_KERNELS, kernel_figures
from warpsmith.evaluator.judge.verdicts import verdict_of
from warpsmith.evaluator.timing.occupancy import occupancy
from warpsmith.evaluator.verdict import Seconds
from warpsmith.evaluator.verdict_lines import bound_lines, kernel_lines, scaled, size

RESOURCES = {
    "name": "k", "threads": 128, "registers": 40, "spill_bytes": 8, "static_shared_bytes": 0,
    "dynamic_shared_bytes": 4096,
}  # fmt: skip
NOTE = BaselineNote("compile_max_autotune", "timeout", "the baseline worker gave no answer before its deadline")
FULL = Verdict(
    "correct", True, True, speedup=2.0, runtime_ms=0.5, reference_ms=1.0, speedups={"eager": 2.0, "compile": 1.5},
    references_ms={"eager": 1.0, "compile": 0.75}, baseline_notes=(NOTE,),
    bound=Bound(1 << 20, 10, 0.25, 0.01, 0.25, "memory"),
    kernels=(KernelFigures("k", 2, (4, 1, 1), 128, 40, 8, 0, 4096, 0.75),), clock=Clock(1755.0, 1740.0, 1980.0),
)  # fmt: skip


def launch(*grid):
    return ["launch", "k", list(grid), {}, {}]


def test_equal_launches_are_one_kernel_with_their_number():
    events = [["alloc"], launch(4), launch(4), launch(5, 2)]
    found = kernel_figures(events, [RESOURCES] * 3, 90)
    assert [(one.launches, one.grid) for one in found] == [(2, (4, 1, 1)), (1, (5, 2, 1))]
    assert found[0].occupancy == occupancy(90, 128, 40, 4096)


def test_a_launch_with_a_block_of_its_own_tells_threads_and_shared_memory():
    of_cubin = {name: value for name, value in RESOURCES.items() if name not in {"threads", "dynamic_shared_bytes"}}
    options = {"build": "b", "block": [32, 4, 2], "shared": 1 << 10}
    copied = ["launch", "cudaMemcpyToSymbol", [], {}, {"build": "b", "variable": "v", "offset": 0, "size": 4}]
    (found,) = kernel_figures([copied, ["launch", "_Z1kv", [3, 1, 1], {}, options]], [of_cubin], 90)
    assert (found.name, found.threads, found.dynamic_shared_bytes, found.grid) == ("k", 256, 1 << 10, (3, 1, 1))
    assert kernel_figures([["launch", "_Z1kv", [3, 1, 1], {}, {"build": "b"}]], [of_cubin], 90) == ()


def test_only_the_kernels_that_are_launched_most_are_kept():
    events = [launch(number) for number in range(1, 40)] + [launch(39)]
    found = kernel_figures(events, [RESOURCES] * len(events), 90)
    assert len(found) == MOST_KERNELS
    assert max(one.launches for one in found) == 2


values = st.one_of(st.none(), st.integers(-5, 1 << 70), st.text(max_size=5), st.floats(), st.booleans())


@given(
    st.one_of(values, st.dictionaries(st.sampled_from(list(RESOURCES)), values)), st.one_of(values, st.lists(values))
)
def test_what_a_compile_worker_reports_wrongly_is_left_out(reported, grid):
    for one in kernel_figures([["launch", "k", grid, {}, {}]], [reported], 90):
        assert all(number >= 0 for number in (one.threads, one.registers, one.spill_bytes))
        json.dumps(one.grid)


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "share"),
    [
        (1024, 32, 0, 1.0),
        (128, 255, 0, 0.125),  # 8 warps of 8,192 registers
        (128, 32, 100 << 10, 0.125),  # two blocks of four warps
        (128, 32, 227 << 10, 0.0625),
        (32, 16, 0, 0.5),  # 32 blocks of one warp
        (1024, 64, 0, 0.5),
        (1024, 65, 0, 0.0),  # does not fit
    ],
)
def test_occupancy_of_an_h100(threads, registers, shared, share):
    assert occupancy(90, threads, registers, shared) == pytest.approx(share)


@given(st.sampled_from([75, 80, 86, 89, 90, 120]), st.integers(1, 1024), st.integers(1, 255), st.integers(0, 99 << 10))
def test_occupancy_is_a_share_and_falls_with_what_a_block_needs(arch, threads, registers, shared):
    found = occupancy(arch, threads, registers, shared)
    assert found is not None and 0.0 <= found <= 1.0
    assert occupancy(arch, threads, registers + 8, shared) <= found
    assert occupancy(arch, threads, registers, shared + 1024) <= found


def test_an_unknown_chip_has_no_occupancy():
    assert occupancy(999, 128, 32, 0) is None


def test_a_machine_without_the_management_library_has_no_clock():
    clock = SmClock("GPU-0")
    assert (clock.current_mhz(), clock.max_mhz()) in {(None, None)}


def test_a_verdict_survives_json_and_a_later_format():
    record = json.loads(json.dumps(FULL.to_record()))
    assert record["format"] == 2
    assert record["bound_share"] == 0.5
    assert Verdict.from_record(record) == FULL
    later = record | {"news": 1, "seconds": record["seconds"] | {"news": 1}}
    later["bound"] = record["bound"] | {"news": 1}
    assert Verdict.from_record(later) == FULL
    earlier = {name: value for name, value in record.items() if name in {"status", "compiled", "correct", "flags"}}
    assert Verdict.from_record(earlier | {"seconds": {}}).speedups == {}


def test_the_record_of_a_run_has_each_figure_by_name():
    figures = {one["name"]: one["value"] for one in FULL.to_row()["figures"]}
    assert figures["speedup.compile"] == 1.5
    assert figures["reference_ms.compile"] == 0.75
    assert (figures["bound_share"], figures["registers"], figures["launches"]) == (0.5, 40.0, 2.0)
    assert "kernel_share" not in figures
    assert Verdict("incorrect", True, False).to_row()["figures"] == []


def evidence():
    found = Evidence(trials=3, replayed=True, compilation=Compilation(ok=True))
    found.timing = SimpleNamespace(runtime_ms=0.5, reference_ms=1.0, tier="two_clocks")
    found.baselines = {"compile": BaselineTime(0.6), "compile_max_autotune": NOTE}
    return found


@pytest.mark.parametrize(
    ("baseline", "speedup", "speedups", "notes"),
    [
        ("eager", 2.0, {"eager": 2.0}, ()),
        ("compile,eager", 1.2, {"compile": 1.2, "eager": 2.0}, ()),
        ("compile_max_autotune,compile", None, {"compile": 1.2}, (NOTE,)),
    ],
)
def test_the_first_baseline_counts_and_one_without_a_time_has_a_note(baseline, speedup, speedups, notes):
    verdict = verdict_of(evidence(), Seconds(), "an H100", EvaluatorConfig(baseline=baseline))
    assert verdict.correct
    assert verdict.speedup == speedup
    assert verdict.speedups == pytest.approx(speedups)
    assert verdict.baseline_notes == notes
    assert verdict.runtime_ms == 0.5


def test_a_wrong_candidate_has_no_figures():
    found = replace(FULL, status="incorrect", correct=False)
    assert "bound_ms" in found.figures()
    lost = evidence()
    lost.compilation, lost.bound, lost.kernels = Compilation(ok=False), FULL.bound, FULL.kernels
    verdict = verdict_of(lost, Seconds())
    assert (verdict.bound, verdict.kernels, verdict.speedups) == (None, (), {})


@pytest.mark.parametrize(
    ("runtime_ms", "limit", "remark"),
    [
        (0.26, "memory", "little is left"),
        (0.2, "memory", "less work"),
        (0.5, "launch", "launch fewer"),
        (0.5, "memory", ""),
    ],
)
def test_words_say_what_follows_from_the_bound(runtime_ms, limit, remark):
    verdict = replace(FULL, runtime_ms=runtime_ms, bound=replace(FULL.bound, limited_by=limit))
    last = list(bound_lines(verdict))[-1]
    assert remark in last
    assert last.startswith("Share of that bound reached")
    assert "8 bytes spilled" in next(kernel_lines(verdict))


def test_numbers_have_units_of_their_size():
    assert [size(n) for n in (12, 2048, 3 << 30)] == ["12 B", "2 KiB", "3 GiB"]
    assert [scaled(n) for n in (12, 2_000, 3_100_000_000_000)] == ["12", "2 k", "3.1 T"]


def test_a_correct_candidate_has_bytes_operations_and_resources_on_a_cpu(evaluator):
    problem, candidate = PAIRS["softmax"]
    smaller = replace(problem, source=problem.source.replace("8192, 1000", "64, 100"))
    verdict = evaluator.evaluate(smaller, candidate, trials=1)
    assert verdict.status == "correct"
    assert verdict.bound == Bound(2 * 64 * 100 * 4, 0)
    (kernel,) = verdict.kernels
    assert (kernel.name, kernel.grid, kernel.threads) == ("softmax_kernel", (64, 1, 1), 128)
    assert kernel.registers > 8
    assert kernel.occupancy is not None
