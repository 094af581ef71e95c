"""Datasets of repaired problems: what is written, what an audit finds in them, what a bench says about them."""

import json
import sys
from contextlib import nullcontext

import pytest

from warpsmith.evaluator.bench import repair_command
from warpsmith.evaluator.bench.auditing import AuditPlan, conduct_audit
from warpsmith.evaluator.bench.bench import Plan, conduct
from warpsmith.evaluator.bench.repairing import REPAIRS, repaired_in, write_repaired
from warpsmith.evaluator.bench.settings import local_settings
from warpsmith.evaluator.cli import main
from warpsmith.evaluator.datasets.kernelbench import load_problems
from warpsmith.evaluator.datasets.repairs import ProblemRepairs
from warpsmith.evaluator.errors import DatasetError
from warpsmith.records.errors import UsageError

FORM = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return {}

rows = 64
least = 2.0

def get_inputs():
    return [torch.rand(rows, 32)]
"""
PROBLEMS = {
    "level1/1_Relu": "torch.relu(x - least)",
    "level1/2_Means": "x.mean(dim=1)",
    "level1/3_Double": "x * 2",
    "level2/1_Centred": "(x - x.mean()).mean().reshape(1)",
}
CHANGES = {
    "1_Relu": [{"kind": "constant", "name": "least", "old": "2.0", "new": "0.5"}],
    "2_Means": [{"kind": "draw", "index": 0, "old": "torch.rand", "new": "torch.randn(rows, 1) * torch.rand"}],
}


@pytest.fixture
def tree(tmp_path):
    for name, expression in PROBLEMS.items():
        path = tmp_path / "checkout" / "KernelBench" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FORM.format(expression))
    return tmp_path


@pytest.fixture
def repairs(tree):
    found = []
    for one in load_problems(tree / "checkout"):
        entry = {"level": one.level, "number": one.number, "name": one.name, "sha256": one.key, "why": "why"}
        if one.name in CHANGES:
            found.append(entry | {"sets": {"inputs": {"reason": "because", "changes": CHANGES[one.name]}}})
        elif one.name == "1_Centred":
            found.append(entry | {"beyond_repair": "always zero"})
    return [ProblemRepairs.model_validate(entry) for entry in found]


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_repaired_problem_accepts_no_wrong_output(tree, repairs, config, evaluator):
    out = tree / "repaired"
    write_repaired(tree / "checkout", out, repairs=repairs)

    def passing(dataset):
        found = conduct_audit(AuditPlan(dataset, tree / f"{dataset.name}.json", (1,), config), evaluator)
        return {entry["name"]: entry["facts"]["passes"] for entry in found["problems"]}

    before, after = passing(tree / "checkout"), passing(out)
    assert "all zeros" in before["1_Relu"]["evaluator"]
    for name in CHANGES:
        assert (after[name]["evaluator"], after[name]["kernelbench_1e-2"]) == ([], []), name
    assert after["3_Double"] == before["3_Double"]


def test_the_whole_dataset_is_written_and_once_more_the_same(tree, repairs):
    out, before = tree / "repaired", contents(tree / "checkout")
    report = write_repaired(tree / "checkout", out, repairs=repairs).report
    held = contents(out)
    write_repaired(tree / "checkout", out, repairs=repairs)
    assert contents(out) == held
    assert contents(tree / "checkout") == before
    assert json.loads((out / REPAIRS).read_text()) == report
    by_name = {entry["name"]: entry for entry in report["problems"]}
    assert list(by_name) == [name.split("/")[1] for name in PROBLEMS]
    assert by_name["1_Relu"]["changes"] == [{"place": "least", "old": "2.0", "new": "0.5"}]
    assert (by_name["1_Relu"]["reasons"], by_name["3_Double"]["sets"]) == (["because"], [])
    assert by_name["1_Centred"]["beyond_repair"] == "always zero"
    assert {path.name: path.read_text() for path in (out / "level1").iterdir()} == {
        "1_Relu.py": FORM.format(PROBLEMS["level1/1_Relu"]).replace("least = 2.0", "least = 0.5"),
        "2_Means.py": FORM.format("x.mean(dim=1)").replace("[torch.rand", "[torch.randn(rows, 1) * torch.rand"),
        "3_Double.py": FORM.format("x * 2"),
    }


def test_rows_become_files(tree, repairs):
    rows = [
        {"code": one.source, "level": one.level, "name": one.name, "problem_id": one.number}
        for one in load_problems(tree / "checkout")
    ]
    rows[2]["name"] = "Double"
    (tree / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_repaired(tree / "rows.jsonl", tree / "repaired", repairs=repairs)
    assert sorted(path.name for path in (tree / "repaired/level1").iterdir()) == [
        "1_Relu.py",
        "2_Means.py",
        "3_Double.py",
    ]
    rows[2]["name"] = "../../Double"
    (tree / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DatasetError, match="cannot be a file's"):
        write_repaired(tree / "rows.jsonl", tree / "other", repairs=repairs)


@pytest.mark.parametrize("out", ["checkout", "checkout/new", "checkout/KernelBench/level1", "."])
def test_the_dataset_is_not_written_to(tree, out):
    before = contents(tree)
    with pytest.raises(UsageError, match="never written to"):
        write_repaired(tree / "checkout", tree / out)
    assert contents(tree) == before


def test_a_level_of_a_checkout_is_the_whole_checkout(tree):
    (tree / "checkout" / ".git").mkdir()
    with pytest.raises(UsageError, match="never written to"):
        write_repaired(tree / "checkout" / "KernelBench" / "level1", tree / "checkout" / "new")


def test_other_files_are_not_mixed_with(tree, repairs):
    out = tree / "repaired"
    write_repaired(tree / "checkout", out, repairs=repairs)
    with pytest.raises(UsageError, match=r"such as level2/1_Centred\.py: .* levels 1,2\. Give --levels 1,2 again"):
        write_repaired(tree / "checkout", out, levels=(1,), repairs=repairs)
    (out / "notes.txt").write_text("")
    with pytest.raises(UsageError, match=r"holds other files, such as notes\.txt"):
        write_repaired(tree / "checkout", out, repairs=repairs)
    (tree / "file").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        write_repaired(tree / "checkout", tree / "file")


def test_a_repaired_dataset_is_not_repaired_again(tree, repairs):
    out = tree / "repaired"
    write_repaired(tree / "checkout", out, repairs=repairs)
    for place in (tree / "again", out):
        with pytest.raises(UsageError, match=r"is a repaired dataset, as its repairs\.json says"):
            write_repaired(out, place, repairs=repairs)
    assert not (tree / "again").exists()


def test_a_folder_that_was_left_half_written_is_not_judged(tree, repairs):
    out = tree / "repaired"
    write_repaired(tree / "checkout", out, repairs=repairs)
    assert repaired_in(out, load_problems(out)) == ["level 1 problem 1 (inputs)", "level 1 problem 2 (inputs)"]
    assert len(repaired_in(out / "level1", load_problems(out / "level1"))) == 2
    assert repaired_in(tree / "checkout", load_problems(tree / "checkout")) == []
    (out / "level1/1_Relu.py").write_text(FORM.format(PROBLEMS["level1/1_Relu"]))
    with pytest.raises(DatasetError, match="is not the one"):
        repaired_in(out, load_problems(out))
    (out / REPAIRS).write_text('{"format": 1')
    with pytest.raises(DatasetError, match="cannot be read"):
        repaired_in(out, load_problems(out))


def test_a_bench_names_the_repaired_problems(tree, repairs, config, evaluator):
    out, run = tree / "repaired", tree / "run"
    write_repaired(tree / "checkout", out, repairs=repairs)
    run.mkdir()
    for number in (1, 3):
        (run / f"level_1_problem_{number}_sample_0_kernel.py").write_text("class ModelNew:\n    pass\n")
    settings = {"settings": local_settings(config), "at_once": 2, "trials": 2, "timeout_s": 20.0, "operators": "none"}
    found = conduct(Plan(out, run, tree / "out", (), **settings), lambda: nullcontext(evaluator))
    named = ["level 1 problem 1 (inputs)", "level 1 problem 2 (inputs)"]
    assert found.report["repaired"] == named
    assert json.loads((tree / "out/summary.json").read_text())["repaired"] == named
    assert "Repaired problems" in (tree / "out/report.html").read_text()


def test_the_command(tree, repairs, capsys, monkeypatch):
    monkeypatch.setattr("warpsmith.evaluator.datasets.repairs.known", lambda: tuple(repairs))
    out = tree / "repaired"
    given = ("repair", "--dataset", tree / "checkout", "--output", out, "--set", "inputs")
    monkeypatch.setattr(sys, "argv", ["warpsmith-evaluator", *map(str, given)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    printed = capsys.readouterr().out
    assert "repaired (2): 1/1; 1/2" in printed
    assert "beyond repair, copied as they are (1): 2/1" in printed
    assert "No problem was repaired" not in printed
    with pytest.raises(UsageError, match="unknown set sizes"):
        repair_command.parse_sets("inputs,sizes")
    with pytest.raises(UsageError, match="no set"):
        repair_command.parse_sets(" ")


def test_problems_of_another_dataset_are_not_taken_for_another_revision(tree, capsys, monkeypatch):
    place = tree / "mine" / "level1" / "4_Mine.py"
    place.parent.mkdir(parents=True)
    place.write_text(FORM.format("x + 1"))
    given = ("repair", "--dataset", tree / "mine", "--output", tree / "repaired")
    monkeypatch.setattr(sys, "argv", ["warpsmith-evaluator", *map(str, given)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    printed = " ".join(capsys.readouterr().out.split())
    assert "No problem was repaired: this package repairs problems of KernelBench" in printed
    assert "revision" not in printed
