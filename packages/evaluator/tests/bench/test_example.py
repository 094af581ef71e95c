"""The bench on its own example: what a user sees who has no dataset at hand."""

import json

import pyarrow.parquet as pq
import pytest

from warpsmith.evaluator.bench.command import bench
from warpsmith.evaluator.bench.example import FOLDER, write_example
from warpsmith.evaluator.cli import main
from warpsmith.evaluator.datasets.kernelbench import load_problems
from warpsmith.records.errors import UsageError


@pytest.mark.slow
def test_the_example_is_judged_as_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["warpsmith-evaluator", "bench", "--example", "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    summary = json.loads(capsys.readouterr().out)
    rows = pq.read_table(tmp_path / FOLDER / "generations/warpsmith-bench/results.parquet").to_pylist()
    correct = {(row["level"], row["problem"], row["sample"]): row["verdict"]["correct"] for row in rows}
    assert correct == {
        (level, number, sample): sample == 0 for level, number in ((1, 1), (1, 2), (2, 1)) for sample in (0, 1)
    }
    assert not summary["invalid"]


def test_the_example_is_written_twice_but_over_nothing_else(tmp_path):
    dataset, generations = write_example(tmp_path)
    assert write_example(tmp_path) == (dataset, generations)
    assert [(problem.level, problem.number) for problem in load_problems(dataset)] == [(1, 1), (1, 2), (2, 1)]
    assert len(list(generations.iterdir())) == 6
    next(generations.iterdir()).write_text("mine")
    with pytest.raises(UsageError, match="holds something else"):
        write_example(tmp_path)


@pytest.mark.parametrize(
    "given", [{}, {"dataset": FOLDER}, {"generations": FOLDER}, {"example": True, "dataset": FOLDER}]
)
def test_a_dataset_and_a_run_are_given_or_the_example_alone(given):
    with pytest.raises(UsageError, match="--example"):
        bench(**given)


@pytest.mark.parametrize("option", ["--model", "--base-url"])
def test_the_example_names_the_command_that_asks_a_model(option, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["warpsmith-evaluator", "bench", option, "x"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "warpsmith-rollout bench --model NAME --base-url URL" in " ".join(capsys.readouterr().err.split())
