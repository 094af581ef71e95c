"""Whole benches on data sets of traces, judged on the CPU: what is judged, what is set aside, what is written."""

import json
import sys
from contextlib import nullcontext

import pytest
from trace_folders import GATE, GATE_CANDIDATE, NORM, flashinfer_folder, sol_folder, solution, write

from warpsmith.evaluator import EvaluatorConfig
from warpsmith.evaluator.bench.bench import Plan, conduct
from warpsmith.evaluator.bench.settings import local_settings
from warpsmith.evaluator.cli import main
from warpsmith.evaluator.traces.files import read_document, read_lines
from warpsmith.evaluator.traces.schema import Solution, Trace
from warpsmith.records.errors import UsageError


def plan_of(root, config, format, **changes):
    given = {"dataset": root, "generations": root, "out": root.parent / "out", "levels": (), "at_once": 2, "trials": 2}
    asked = {"settings": local_settings(config), "operators": "none", "timeout_s": 20.0, "format": format}
    return Plan(**{**given, **asked, "traces": root.parent / "traced", **changes})


def traces_in(folder):
    return {path.stem: [one for one, _ in read_lines(path, Trace)] for path in sorted(folder.rglob("*.jsonl"))}


def test_solutions_of_a_flashinfer_trace_are_judged_and_written_as_traces(tmp_path, config, evaluator, capsys):
    root = flashinfer_folder(tmp_path / "set")
    plan = plan_of(root, config, "flashinfer")
    found = conduct(plan, lambda: nullcontext(evaluator))
    right, wrong = found.answers
    assert [one.verdict.status for one in found.answers] == ["correct", "incorrect"]
    assert [(one.name, one.status) for one in wrong.verdict.workloads] == [("few", "correct"), ("many", "incorrect")]
    assert right.verdict.speedup is None
    assert "Workload many" in wrong.verdict.error_message
    (reason,) = found.report["set_aside"]
    assert reason.startswith("foreign.json: it is in cuda; solutions in triton, python and pytorch can be judged")
    assert "CUDA C++ that the Python builds by load_inline with --backend cuda" in reason
    (score,) = found.scores
    assert (score.level, score.correct, score.counted) == (None, 1, 2)
    assert [one.name for one in found.answers] == [
        "definition small_norm_h48 candidate right", "definition small_norm_h48 candidate wrong"
    ]  # fmt: skip
    (lines,) = traces_in(plan.traces / "traces/somebody/norm").values()
    assert [(one.solution, one.workload.uuid, one.evaluation.status) for one in lines] == [
        ("right", "few", "PASSED"),
        ("right", "many", "PASSED"),
        ("wrong", "few", "PASSED"),
        ("wrong", "many", "INCORRECT_NUMERICAL"),
    ]
    assert all(one.evaluation.performance is None for one in lines)
    assert 0 < lines[3].evaluation.correctness.max_absolute_error < 10
    assert lines[0].workload.document["note"] == "kept"
    assert lines[0].evaluation.environment.hardware == "cpu"
    printed = capsys.readouterr().err
    assert "not judged: foreign.json" in printed
    assert "definition small_norm_h48 candidate wrong: incorrect: Workload many: " in printed
    assert not (plan.traces / "solutions").exists()


def test_a_candidate_in_another_language_gets_no_trace(tmp_path, config, evaluator, capsys, monkeypatch):
    root = flashinfer_folder(tmp_path / "set")
    answers = tmp_path / "mine"
    cuda = "from torch.utils.cpp_extension import load_inline\n\n\ndef launch(x, scale, eps, y):\n    pass\n"
    write(answers / "built.json", solution("built", NORM["name"], cuda, language="python"))
    traced, out = tmp_path / "traced", tmp_path / "out"
    options = ("--dataset", root, "--generations", answers, "-o", out, "--traces", traced, "--slots", 1)
    monkeypatch.setattr(sys, "argv", ["warpsmith-evaluator", "bench", *map(str, options)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    printed = capsys.readouterr()
    named = "definition small_norm_h48 candidate built: CUDA C++, language = 'cuda_cpp' (--backend cuda)"
    assert "counted as failures, without traces; run again, or start servers, with the option named" in printed.out
    assert named in printed.out
    assert "built: compile_error: Workload few: The candidate is written in CUDA C++" in printed.err
    assert "definitions" in printed.out
    assert "0 of 2" in printed.out
    assert not ({"level", "sample", "KernelBench"} & set(printed.out.replace(":", " ").split()))
    assert not traced.exists()
    assert json.loads((out / "summary.json").read_text())["other_language"] == [named]


def test_a_sol_execbench_folder_and_the_command_once_more(tmp_path, evaluator, capsys, monkeypatch):
    root = sol_folder(tmp_path / "set")
    answers = tmp_path / "mine"
    write(answers / "picker.json", json.loads((root / "L1/001_pick/solution_triton.json").read_text()))
    (answers / f"{GATE['name']}.tiled.py").write_text(GATE_CANDIDATE)
    (answers / "stranger.py").write_text("")
    asked = EvaluatorConfig(trials=2, operators="library")
    plan = plan_of(root, asked, "sol", generations=answers, operators="library", timeout_s=30.0, traces=None)
    conduct(plan, lambda: nullcontext(evaluator))
    traced = tmp_path / "traced"
    options = ("--dataset", root, "--generations", answers, "-o", plan.out, "--traces", traced)
    command = ["bench", *map(str, options), "--correctness-trials", "2", "--json"]
    monkeypatch.setattr(sys, "argv", ["warpsmith-evaluator", *command])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    printed = capsys.readouterr()
    assert "2 verdicts are already recorded and not requested again; 0 remain" in printed.err
    assert json.loads(printed.out)["set_aside"] == ["stranger.py: no definition has this name"]
    lines = [one for found in traces_in(traced).values() for one in found]
    assert [(one.workload.uuid, one.evaluation.status) for one in lines] == [
        ("made 2", "PASSED"), ("made 11", "PASSED"), ("stored", "PASSED")
    ]  # fmt: skip
    assert lines[2].workload.document["tolerance"] == {"max_atol": 0.1}
    (path,) = (traced / "solutions").rglob("*.json")
    written = read_document(path, Solution)
    assert (written.name, written.author, written.spec.languages) == (f"{GATE['name']}.tiled", "mine", ["triton"])
    assert written.spec.entry_point == "main.py::run"


def test_what_cannot_be_benched_is_refused(tmp_path, config):
    root = flashinfer_folder(tmp_path / "set")
    with pytest.raises(UsageError, match="no levels"):
        conduct(plan_of(root, config, "flashinfer", levels=(1,)), None)
    with pytest.raises(UsageError, match="need a dataset of traces"):
        conduct(plan_of(root, config, "kernelbench"), None)
    for path in root.rglob("solutions/**/*.json"):
        if path.stem != "foreign":
            path.unlink()
    with pytest.raises(UsageError, match=r"no answer that can be judged: foreign\.json: it is in cuda"):
        conduct(plan_of(root, config, "flashinfer"), None)
    write(tmp_path / "empty" / "one.json", {"name": "one", "definition": NORM["name"]})
    with pytest.raises(Exception, match=r"one\.json: field author: Field required"):
        conduct(plan_of(root, config, "flashinfer", generations=tmp_path / "empty"), None)
