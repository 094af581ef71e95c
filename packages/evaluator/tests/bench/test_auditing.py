"""Audits of whole collections: what is found, what is gone on with, what ends in an error."""

import json
import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

from warpsmith.evaluator import BadProblemError, EvaluatorConfig, Problem, _native
from warpsmith.evaluator.bench.auditing import AuditPlan, conduct_audit, counts_of
from warpsmith.evaluator.cli import main
from warpsmith.evaluator.correctness.compare import PART, Expected
from warpsmith.evaluator.devices.host_kind import HostKind
from warpsmith.evaluator.ipc.codec import Fields
from warpsmith.evaluator.judge import audit_report
from warpsmith.evaluator.judge import judge as judging
from warpsmith.evaluator.judge.audit_report import allclose
from warpsmith.evaluator.judge.judge import Judge
from warpsmith.evaluator.judge.problem_audit import CHEATS
from warpsmith.evaluator.processes import failure_attribution
from warpsmith.evaluator.processes.worker import WorkerDiedError
from warpsmith.evaluator.reference.session import ReferenceFailedError
from warpsmith.evaluator.timing.clocks import Side, measure_one
from warpsmith.records.errors import UsageError

MODEL = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return {}

def get_inputs():
    return [torch.rand(16, 20)]
"""
PROBLEMS = {
    "level1/1_Good": "x * 2",
    "level1/2_Constant": "x * 0 + 3",
    "level1/3_Small": "0.5 + x * 1e-3",
    "level1/4_Smaller": "0.5 + x * 1e-5",
    "level1/5_Stored": "torch.arange(320.0).view(16, 20) + x * 1e-7",
    "level2/1_Raises": "x.nothing()",
    "level2/2_Random": "torch.rand_like(x)",
    "level2/3_Bool": "x > 2",
}


@pytest.fixture
def tree(tmp_path):
    for name, expression in PROBLEMS.items():
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(MODEL.format(expression))
    return tmp_path


def test_what_would_pass_and_at_which_tolerance(tree, config, evaluator, capsys):
    found = conduct_audit(AuditPlan(tree, tree / "audit.json", (), config), evaluator)
    assert json.loads((tree / "audit.json").read_text()) == found
    by_name = {entry["name"]: entry for entry in found["problems"]}
    assert list(by_name) == [name.split("/")[1] for name in PROBLEMS]
    passing = {
        name: tuple(entry["constant_passes"].values()) for name, entry in by_name.items() if entry["constant_passes"]
    }
    assert passing == {
        "1_Good": (False, False, False),
        "2_Constant": (True, True, True),
        "3_Small": (False, True, False),
        "4_Smaller": (True, True, True),
        "5_Stored": (True, True, True),
        "3_Bool": (True, True, True),
    }
    stored = by_name["5_Stored"]["facts"]["passes"]
    assert set(map(tuple, stored.values())) == {("the output for other inputs",)}
    good = by_name["1_Good"]["facts"]
    assert good["passes"] == {"evaluator": [], "kernelbench_1e-2": [], "kernelbench_1e-4": []}
    assert (good["inputs_bytes"], good["outputs_bytes"], good["parameters_bytes"]) == (1280, 1280, 0)
    assert (good["device"], "reference_ms" in good) == ("cpu", False)
    assert "nothing" in by_name["1_Raises"]["error"]["message"]
    assert "randomness" in by_name["2_Random"]["error"]["message"]
    assert by_name["2_Random"]["final"]
    assert counts_of(found)[1] == {
        **{"problems": 5, "errors": 0, "evaluator": 3, "kernelbench_1e-2": 4, "kernelbench_1e-4": 3}
    }
    assert "[8/8]" in capsys.readouterr().err


def test_what_is_known_is_not_audited_again(tree, config, evaluator, capsys):
    plan = AuditPlan(tree, tree / "audit.json", (1,), config)
    first = conduct_audit(plan, evaluator)
    capsys.readouterr()
    (tree / "level1" / "1_Good.py").write_text(MODEL.format("x * 4"))
    failed = {**first["problems"][1], "final": False}
    plan.out.write_text(json.dumps({**first, "problems": [first["problems"][0], failed, *first["problems"][2:]]}))
    again = conduct_audit(plan, evaluator)
    printed = capsys.readouterr().err
    assert "3 problems are already audited; 2 remain" in printed
    assert again["problems"][1:] == first["problems"][1:]
    assert again["problems"][0]["key"] != first["problems"][0]["key"]
    conduct_audit(plan, evaluator)
    assert "5 problems are already audited; 0 remain" in capsys.readouterr().err


def test_an_audit_of_other_levels_keeps_what_the_file_held(tree, config, evaluator):
    plan = AuditPlan(tree, tree / "audit.json", (1,), config)
    first = conduct_audit(plan, evaluator)
    second = conduct_audit(replace(plan, levels=(2,)), evaluator)
    assert {entry["level"] for entry in second["problems"]} == {2}
    assert json.loads(plan.out.read_text())["problems"] == [*first["problems"], *second["problems"]]
    assert list(counts_of(second)) == [2]
    changed = replace(plan, config=config.model_copy(update={"hidden_shapes": False}))
    conduct_audit(changed, evaluator)
    assert {entry["level"] for entry in json.loads(plan.out.read_text())["problems"]} == {1}


def test_problems_of_equal_source_are_each_reported_under_their_names_of_today(tree, config, evaluator, capsys):
    plan = AuditPlan(tree, tree / "audit.json", (1,), config)
    twin = tree / "level1" / "6_Twin.py"
    twin.write_text((tree / "level1" / "1_Good.py").read_text())
    found = conduct_audit(plan, evaluator)["problems"]
    assert [entry["number"] for entry in found] == [1, 2, 3, 4, 5, 6]
    assert found[0]["facts"] == found[5]["facts"]
    twin.rename(twin.with_name("6_Renamed.py"))
    capsys.readouterr()
    assert conduct_audit(plan, evaluator)["problems"][5]["name"] == "6_Renamed"
    assert "6 problems are already audited; 0 remain" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 1, "problems": [3]}', '{"format": 1}'])
def test_a_file_that_is_no_audit_is_left_alone(tree, config, evaluator, text):
    out = tree / "audit.json"
    out.write_text(text)
    with pytest.raises(UsageError, match="not an audit"):
        conduct_audit(AuditPlan(tree, out, (1,), config), evaluator)
    assert out.read_text() == text


def test_an_audit_and_evaluations_share_an_evaluator(evaluator, add_problem, add_candidate):
    assert evaluator.audit(add_problem)["passes"]["evaluator"] == []
    assert evaluator.evaluate(add_problem, add_candidate, trials=2).correct
    assert evaluator.audit(add_problem)["inputs_bytes"] == 4800
    with pytest.raises(BadProblemError, match=r"raised in load: TypeError.*must be a class"):
        evaluator.audit(Problem.from_source("Model = 3\ndef get_inputs(): return []\n"))


@pytest.mark.slow
def test_the_command_prints_counts_and_goes_on(tree, evaluator, monkeypatch, capsys):
    """From a file that another evaluator began: the command starts one only for what is left."""
    out_file = tree / "audit.json"
    conduct_audit(AuditPlan(tree, out_file, (1,), EvaluatorConfig()), evaluator)
    given = ["warpsmith-evaluator", "audit", "--dataset", str(tree), "--output", str(out_file), "--slots", "1"]
    for levels, says in (("1", "5 problems are already audited; 0 remain"), ("1-2", "[3/3]")):
        monkeypatch.setattr(sys, "argv", [*given, "--levels", levels])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert not ended.value.code, err
        assert says in err
        assert "kernelbench_1e-2" in out
    assert out.split()[-1] == str(out_file)


@pytest.mark.parametrize("count", [2, 3, 4, 7, 1000])
def test_a_shuffled_output_is_another_one_unless_all_its_elements_are_equal(count):
    def shuffled(value):
        return CHEATS["its own output shuffled"](Expected(value, None), Expected(value, None))

    value = torch.arange(count)
    assert not (shuffled(value) == value).any()
    assert shuffled(value).sort().values.equal(value)
    for first in range(1, count):
        halves = (value < first).float()
        assert not shuffled(halves).equal(halves)
    assert shuffled(torch.ones(1, 1)).equal(torch.ones(1, 1))


def test_outputs_of_two_elements_and_of_one_beside_a_buffer_can_be_judged(evaluator):
    pair = MODEL.format("torch.stack([x.sum(), x.max()])")
    assert evaluator.audit(Problem.from_source(pair))["passes"]["evaluator"] == []
    counting = MODEL.format("(x - 0.5).sum()").replace(
        "    def forward(self, x):\n",
        "    def __init__(self):\n        super().__init__()\n        self.register_buffer('seen', torch.zeros(20))\n"
        "    def forward(self, x):\n        self.seen += x[0]\n",
    )
    assert evaluator.audit(Problem.from_source(counting))["passes"]["evaluator"] == []


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int64])
def test_the_smaller_half_of_whole_numbers_is_zeroed(dtype):
    value = torch.arange(1, 9).to(dtype)
    got = CHEATS["zeros for the smaller half of its output"](Expected(value, None), Expected(value, None))
    assert got.dtype == dtype
    assert (got != 0).tolist() == [dtype != torch.bool and number > 4 for number in range(1, 9)]


def test_the_comparison_is_kernelbenchs_own():
    """KernelBench's tolerance is relative to what it got, not to what it expected."""
    expected = Expected(torch.tensor([100.0]), None)
    for got in (101.005, 101.02, 98.9, 99.05):
        other = torch.tensor([got])
        assert allclose(1e-2)(other, expected) == torch.allclose(expected.value, other, atol=1e-2, rtol=1e-2)
    assert allclose(1e-2)(torch.tensor([101.02]), expected)
    assert not allclose(1e-2)(torch.tensor([98.9]), expected)
    assert not allclose(1e-2)(torch.tensor([True]), Expected(torch.tensor([False]), None))
    assert not allclose(1e-2)(torch.tensor([float("nan")]), Expected(torch.tensor([float("nan")]), None))


@pytest.mark.slow
def test_a_large_output_is_compared_to_its_end():
    value = torch.zeros(PART + 1)
    got = value.clone()
    assert allclose(1e-4)(got, Expected(value, None))
    got[-1] = 1.0
    assert not allclose(1e-4)(got, Expected(value, None))


def test_one_side_is_timed_alone():
    """Against a worker of exact times: a call takes 2 ms by its events and by the clock that it moves."""
    import random

    now = [0.0]

    def ask(fields):
        if fields["mode"] == "call":
            return Fields({"gated": True, "milliseconds": [2.0] * len(fields["order"])})
        now[0] += fields["count"] * (2e-3 if fields["mode"] == "graph" else 0.0) * fields["walks"]
        return Fields({"captured": True, "calls": fields["walks"]})

    figures = measure_one(Side(ask, 1, random.Random(0), clock=lambda: now[0]), 20)
    assert (figures.events_ms, figures.calls, figures.gated) == (2.0, 20, True)
    assert figures.judge_ms == pytest.approx(2.0)


# A device that is full of others' problems -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def running(config):
    judge = Judge(config)
    yield judge
    judge.close()


@pytest.fixture
def judge(running, monkeypatch):
    """A judge whose memory passes for that of a device, without idle references."""
    monkeypatch.setattr(HostKind, "shares_memory", True)
    running.references.drop_idle()
    return running


@pytest.fixture
def problem(add_problem, request):
    """A problem of the test's own: the judge remembers those that were too large."""
    return Problem.from_source(f"{add_problem.source}# {request.node.name!r}\n", "own")


@pytest.fixture
def is_alone(running, monkeypatch):
    """Tells whether somebody has the judge for himself at the moment."""
    inside, alone = [], running.concurrency.alone

    @contextmanager
    def noted(seconds):
        with alone(seconds):
            inside.append(seconds)
            try:
                yield
            finally:
                inside.pop()

    monkeypatch.setattr(running.concurrency, "alone", noted)
    return lambda: bool(inside)


def out_of_memory(stage: str) -> Exception:
    fields = {"stage": stage, "type": "OutOfMemoryError", "message": "CUDA out of memory.", "trace": ""}
    return ReferenceFailedError(Fields(fields))


FULL_AT_ONCE = """\
    def __init__(self):
        super().__init__()
        raise torch.OutOfMemoryError("CUDA out of memory.")

    def forward"""
FULL = [torch.OutOfMemoryError("CUDA out of memory."), out_of_memory("run")]


@pytest.mark.parametrize("error", FULL)
def test_what_a_device_has_no_room_for_is_audited_again_alone(judge, problem, is_alone, monkeypatch, error):
    alone = []

    def facts_of(session, machine):
        alone.append(is_alone())
        if len(alone) == 1:
            raise error
        return audit_report.facts_of(session, machine)

    monkeypatch.setattr(judging, "facts_of", facts_of)
    assert judge.audit(problem)["passes"]["evaluator"] == []
    assert alone == [False, True]


@pytest.mark.parametrize("error", FULL)
def test_a_problem_that_a_device_has_no_room_for_is_judged_again_alone(
    judge, problem, add_candidate, is_alone, monkeypatch, error
):
    take, alone = judge.references.take, []

    def taken(key, source):
        alone.append(is_alone())
        if len(alone) == 1:
            raise error
        return take(key, source)

    monkeypatch.setattr(judge.references, "take", taken)
    verdict = judge.evaluate(problem, add_candidate, trials=2, seed=None, timeout_s=20)
    assert (verdict.status, verdict.flags) == ("correct", ("retried",)), verdict
    assert alone == [False, True]


def test_a_problem_that_is_too_large_by_itself_is_to_blame_and_is_alone_once(judge, problem, is_alone, monkeypatch):
    alone = []

    def full(session, machine):
        alone.append(is_alone())
        raise out_of_memory("make_inputs")

    monkeypatch.setattr(judging, "facts_of", full)
    for _ in range(3):
        with pytest.raises(BadProblemError, match="OutOfMemoryError"):
            judge.audit(problem)
    assert alone == [False, True, False, False]


def test_who_is_alone_has_what_idle_references_held(judge, problem, monkeypatch):
    idle, give_back = [], judge.references.give_back
    monkeypatch.setattr(judge.references, "give_back", lambda key, one: idle.append(one) or give_back(key, one))
    other = Problem.from_source(problem.source.replace("x + y", "x - y"), "other")
    for each in (problem, other):
        judge.audit(each)
    assert all(session.worker.alive for session in idle)
    seen = []

    def facts_of(session, machine):
        seen.append((session in idle, [one.worker.alive for one in idle]))
        if len(seen) == 1:
            raise out_of_memory("run")
        return audit_report.facts_of(session, machine)

    monkeypatch.setattr(judging, "facts_of", facts_of)
    judge.audit(problem)
    assert seen == [(True, [True, True]), (False, [False, False])]


def test_a_reference_that_fails_while_it_is_loaded_leaves_no_worker(judge):
    broken = Problem.from_source(MODEL.format("x * 2").replace("    def forward", FULL_AT_ONCE), "full-at-once")
    for _ in range(3):
        with pytest.raises(BadProblemError, match="out of memory"):
            judge.audit(broken)
    in_use = [worker for worker in judge.machine.workers() if worker.role == "reference" and worker.in_use]
    assert in_use == []


def test_a_worker_that_dies_before_it_is_used_is_no_problems_fault(config):
    died = WorkerDiedError("reference", _native.Exit(1, None))
    assert failure_attribution.fault_of_a_reference(died, config) == "ended"
    died.at_start = True
    assert failure_attribution.fault_of_a_reference(died, config) is None


def test_on_a_cpu_nobody_is_alone_for_want_of_a_devices_memory(running, problem, is_alone, monkeypatch):
    alone = []

    def full(session, machine):
        alone.append(is_alone())
        raise out_of_memory("run")

    monkeypatch.setattr(judging, "facts_of", full)
    with pytest.raises(BadProblemError, match="OutOfMemoryError"):
        running.audit(problem)
    assert alone == [False]


def test_only_a_want_of_memory_is_tried_again(judge, problem, monkeypatch):
    asked = []

    def failing(session, machine):
        asked.append(1)
        raise ReferenceFailedError(Fields({"stage": "run", "type": "ValueError", "message": "no", "trace": ""}))

    monkeypatch.setattr(judging, "facts_of", failing)
    with pytest.raises(BadProblemError, match="ValueError"):
        judge.audit(problem)
    assert asked == [1]
