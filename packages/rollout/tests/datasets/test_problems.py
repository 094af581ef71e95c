"""Readers of problems."""

import json

import pytest

from warpsmith.evaluator.bench.generations import read_run
from warpsmith.evaluator.datasets.kernelbench import load_problems
from warpsmith.records.errors import WarpsmithError
from warpsmith.rollout.datasets import generated, read_problems, write_directory
from warpsmith.rollout.errors import DatasetError

PROBLEM = """\
import torch


class Model(torch.nn.Module):
    pass


def get_inputs():
    return []


def get_init_inputs():
    return []
"""


def test_what_is_written_is_read_back(tmp_path):
    problems = generated(seed=0, count=9)
    write_directory(problems, tmp_path)
    found = {p.name.partition("_")[2]: p for p in read_problems(tmp_path)}
    assert set(found) == {p.name for p in problems}
    for problem in problems:
        again = found[problem.name]
        assert (again.text, again.solution, again.level) == (problem.text, problem.solution, problem.level)


def test_what_is_written_is_a_kernelbench_dataset_and_a_run_on_it(tmp_path):
    rows = generated(seed=0, count=9)
    write_directory(rows, tmp_path / "problems", generations=tmp_path / "runs")
    problems = {(p.level, p.number): p for p in load_problems(tmp_path / "problems")}
    assert sorted(p.source for p in problems.values()) == sorted(row.text for row in rows)
    for level in (1, 2, 3):
        assert [number for of, number in problems if of == level] == [1, 2, 3]
    run = read_run(tmp_path / "runs")
    assert not run.unrecognized
    solutions = {row.text: row.solution for row in rows}
    assert len(run.generations) == 9
    for generation in run.generations:
        assert generation.source == solutions[problems[generation.level, generation.number].source]


def test_problems_are_not_mixed_with_what_lies_there(tmp_path):
    out, answers = tmp_path / "problems", tmp_path / "answers"
    write_directory(generated(seed=0, count=6), out, generations=answers)
    before = sorted(tmp_path.rglob("*"))
    assert len(write_directory(generated(seed=0, count=6), out, generations=answers)) == 6
    for others in (generated(seed=1, count=6), generated(seed=0, count=2, levels=(1,))):
        with pytest.raises(DatasetError, match=r"level\d already has other Python files, such as [12]_l\d_"):
            write_directory(others, out)
    with pytest.raises(DatasetError, match="answers already has other Python files, such as level_2_problem_1"):
        write_directory(generated(seed=0, count=2, levels=(1,)), tmp_path / "new", generations=answers)
    assert sorted(tmp_path.rglob("*")) == before
    mine = answers / "level_2_problem_1_sample_0_kernel.py"
    mine.write_text("# a model's answer")
    with pytest.raises(DatasetError, match=f"answers already has other Python files, such as {mine.name}"):
        write_directory(generated(seed=0, count=6), out, generations=answers)
    assert mine.read_text() == "# a model's answer"


@pytest.mark.parametrize("within", ["", "runs/mine", "level1/../runs"])
def test_solutions_are_not_written_among_problems(tmp_path, within):
    with pytest.raises(DatasetError, match="would be in the folder of the problems"):
        write_directory(generated(seed=0, count=3), tmp_path, generations=tmp_path / within)
    assert not [*tmp_path.iterdir()]


def test_kernelbench_files_come_in_the_order_of_their_numbers(tmp_path):
    folder = tmp_path / "level2"
    folder.mkdir()
    for name in ("10_B.py", "2_A.py", "100_C.py"):
        (folder / name).write_text(PROBLEM)
    assert [(p.name, p.level) for p in read_problems(tmp_path)] == [("2_A", 2), ("10_B", 2), ("100_C", 2)]


def test_chat_rows(tmp_path):
    row = {
        "prompt": [{"role": "user", "content": "write"}],
        "label": PROBLEM,
        "instance_id": "kernel_bench_triton_lv1_62",
        "extra_info": {"level": 1, "problem_id": "62", "problem_name": "conv", "task_type": "kernelbench"},
    }
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n\n" + json.dumps({**row, "instance_id": "other"}) + "\n")
    first, second = read_problems(path)
    assert (first.name, first.level, first.text, second.name) == ("kernel_bench_triton_lv1_62", 1, PROBLEM, "other")


def test_rows_may_have_a_known_solution(tmp_path):
    row = {"code": PROBLEM, "name": "conv", "level": 1, "problem_id": 1}
    path = tmp_path / "rows.jsonl"
    answers = [{"solution": "class ModelNew: pass"}, {"solution": "  "}, {"solution": None}, {}]
    path.write_text("\n".join(json.dumps(row | answer) for answer in answers))
    assert [problem.solution for problem in read_problems(path)] == ["class ModelNew: pass", None, None, None]


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("a.jsonl", "{", "Line 1|line 1"),
        ("a.jsonl", "[]", "Line 1"),
        ("a.jsonl", '{"label": 3}', "line 1"),
        ("a.py", "def f(:", "a"),
        ("a.py", "x = 1", "Model"),
    ],
)
def test_malformed_files_are_refused_by_place(tmp_path, name, text, part):
    (tmp_path / name).write_text(text)
    with pytest.raises(WarpsmithError, match=part) as caught:
        read_problems(tmp_path / name if name.endswith(".jsonl") else tmp_path)
    assert caught.value.remedy


def test_missing_and_empty_places_are_refused(tmp_path):
    for place in (tmp_path, tmp_path / "nowhere", tmp_path / "nowhere.jsonl"):
        with pytest.raises(WarpsmithError, match=str(tmp_path)):
            read_problems(place)
