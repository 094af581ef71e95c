"""`warpsmith-rollout clean`: against a benchmark by code and by computation, repetitions, verdicts, the card."""

import json
import signal
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warpsmith.rollout.cli import main
from warpsmith.rollout.datasets import cleaning, verification
from warpsmith.rollout.datasets.registry import read_dataset
from warpsmith.rollout.errors import DatasetError

LINEAR = """import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self, wide, narrow):
        super().__init__()
        self.linear = nn.Linear(wide, narrow)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.rand(64, 512)]


def get_init_inputs():
    return [512, 256]
"""
BY_HAND = """import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.bias = None
        self.weight = nn.Parameter(torch.randn(b, a) / a)
        self.bias = nn.Parameter(torch.zeros(b))

    def forward(self, x):
        y = x @ self.weight.T + self.bias
        return y * (y > 0)


def get_inputs():
    return [torch.randn(2, 3, 8)]


def get_init_inputs():
    return [[], {"a": 8, "b": 4}]
"""
TANH = BY_HAND.replace("y * (y > 0)", "torch.tanh(y)")
EXP_TANH = BY_HAND.replace("y * (y > 0)", "1 - 2 / (torch.exp(2 * y) + 1)")
CONSTANT = BY_HAND.replace("y * (y > 0)", "torch.zeros_like(y)")
HANGS = BY_HAND.replace("y * (y > 0)", "exec('while True: pass')")
HOSTILE = "import os\nos._exit(3)\n" + TANH


def small(source):
    """Return the benchmark's problem with other names and sizes."""
    return source.replace("wide", "w").replace("linear", "layer").replace("512", "8").replace("256", "4")


@pytest.fixture
def benchmark_(tmp_path):
    folder = tmp_path / "KernelBench" / "level1"
    folder.mkdir(parents=True)
    (folder / "1_Linear.py").write_text(LINEAR)
    return folder.parent


@pytest.fixture
def dataset(tmp_path):
    problems = [small(LINEAR), BY_HAND, TANH, TANH.replace("y", "why"), EXP_TANH, CONSTANT]
    path = tmp_path / "rows.parquet"
    rows = [{"problem": text, "id": number, "extra": [number]} for number, text in enumerate(problems)]
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["warpsmith-rollout", "clean", *map(str, arguments)])
    try:
        main()
    except SystemExit as ended:
        return ended.code
    return 0


def rows_of(path):
    return [json.loads(line) for line in path.read_text().split("\n") if line]


@pytest.mark.slow
def test_a_benchmark_is_removed_by_code_and_by_computation(dataset, benchmark_, tmp_path, monkeypatch, capsys):
    """Killed after the first problem, and continued: no problem is run twice."""
    output = tmp_path / "out"
    arguments = [dataset, "--against", benchmark_, "--output", output, "--workers", 1]
    command = [sys.executable, "-m", "warpsmith.rollout", "clean", *map(str, arguments)]
    killed = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert any(line.startswith("[1/6]") for line in killed.stderr)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    log = output / "computed.jsonl"
    with log.open("ab") as file:
        file.write(b'{"key"')
    before = len(log.read_bytes().splitlines()) - 2
    assert not (output / "README.md").exists()
    assert run(monkeypatch, *arguments) == 0
    assert f"{before} problems have been run already; {6 - before} remain." in capsys.readouterr().err
    keys = [row["key"] for row in rows_of(log)[1:]]
    assert len(keys) == len(set(keys)) == 6
    removed = {row["label"]: (row["reason"], row["of"]) for row in rows_of(output / "removed.jsonl")}
    assert removed == {
        "0": ("benchmark: same code", "level1/1_Linear"),
        "1": ("benchmark: same computation", "level1/1_Linear"),
        "3": ("repeated: same code", f"row 3 of {dataset}"),
        "4": ("repeated: same computation", f"row 3 of {dataset}"),
    }
    kept = pq.read_table(output / "data" / "rows.parquet")
    assert kept.schema == pq.read_table(dataset).schema
    assert kept.column("id").to_pylist() == [2, 5]
    card = (output / "README.md").read_text()
    assert "| kept | 2 | |" in card
    assert "| benchmark: same computation | 1 |" in card
    assert "1 could not be run or do not depend on their inputs" in card
    assert "`PyTorch" not in card


@pytest.mark.slow
def test_code_that_hangs_or_kills_is_compared_by_code_alone(benchmark_, tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"problem": text}) + "\n" for text in (HOSTILE, HANGS, BY_HAND)))
    output, limit = tmp_path / "out", "evaluator.reference_timeout_s=3"
    arguments = (path, "--against", benchmark_, "--output", output, "--set", limit)
    assert run(monkeypatch, *arguments) == 0
    assert [row["place"] for row in rows_of(output / "removed.jsonl")] == [f"line 3 of {path}"]
    # On a busy machine a hanging worker may look starved: its problem is then run again by the next command.
    reasons = [row["reason"] for row in rows_of(output / "computed.jsonl")[1:]]
    assert "" in reasons
    assert 2 <= len(reasons) <= 3
    assert "2 could not be run" in (output / "README.md").read_text()


def test_by_code_alone_needs_no_evaluator(dataset, benchmark_, tmp_path, monkeypatch, capsys):
    output = tmp_path / "out"
    arguments = (dataset, "--against", benchmark_, "--output", output, "--no-by-computation")
    assert run(monkeypatch, *arguments) == 0
    reasons = [row["reason"] for row in rows_of(output / "removed.jsonl")]
    assert reasons == ["benchmark: same code", "repeated: same code"]
    assert "compared by their code alone" in (output / "README.md").read_text()
    assert run(monkeypatch, *arguments) == 2, "a finished folder is not written to again"
    assert "holds other files, such as README.md" in capsys.readouterr().err.replace("\n", " ")


def test_verdicts_select_the_kernels(benchmark_, tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    kernels = [TANH.replace("Model", "ModelNew").replace("tanh", name) for name in ("tanh", "sin", "cos")]
    path.write_text("".join(json.dumps({"problem": TANH, "kernel": kernel}) + "\n" for kernel in kernels))
    known = {
        entry.key: verification.Outcome(status)
        for entry, status in zip(read_dataset(path).entries, ("correct", "incorrect"), strict=False)
    }
    monkeypatch.setattr(verification, "outcomes_in", lambda folder: known)
    output = tmp_path / "out"
    arguments = (path, "--against", benchmark_, "--output", output, "--no-by-computation", "--verdicts", tmp_path)
    assert run(monkeypatch, *arguments) == 0
    assert [row["kernel"] for row in rows_of(output / "data" / "rows.jsonl")] == kernels[:1]
    assert [row["of"] for row in rows_of(output / "removed.jsonl")] == ["incorrect", "none"]


def test_a_folder_without_verdicts_is_refused(dataset, benchmark_, tmp_path, monkeypatch, capsys):
    arguments = (dataset, "--against", benchmark_, "--output", tmp_path / "out", "--verdicts", tmp_path / "none")
    assert run(monkeypatch, *arguments) == 2
    assert "has no verdicts" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_set_that_is_the_benchmark_leaves_nothing_and_says_so(benchmark_):
    read = read_dataset(benchmark_)
    with pytest.raises(DatasetError, match="benchmark: same code 1"):
        cleaning.clean(read, cleaning.Benchmarks([read]))


@pytest.mark.parametrize("form", [".jsonl", ".json", ".csv", ".arrow"])
def test_kept_rows_keep_their_columns_in_every_form(benchmark_, tmp_path, monkeypatch, form):
    rows = [{"problem": text, "id": str(n), "other": "x,\n\u2028y"} for n, text in enumerate((small(LINEAR), TANH))]
    path = tmp_path / "data" / f"rows{form}"
    path.parent.mkdir()
    match form:
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case ".json":
            path.write_text(json.dumps(rows))
        case ".arrow":
            table = pa.Table.from_pylist(rows)
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
                file.write_table(table)
        case _:
            import csv

            with path.open("w", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
    output = tmp_path / "out"
    assert run(monkeypatch, path.parent, "--against", benchmark_, "--output", output, "--no-by-computation") == 0
    (written,) = (output / "data").iterdir()
    if written.suffix == ".parquet":
        assert pq.read_table(written).to_pylist() == rows[1:]
    elif written.suffix == ".jsonl":
        assert rows_of(written) == rows[1:]
    (entry,) = read_dataset(written).entries
    assert (entry.problem, entry.label) == (TANH, "1")


def test_a_checkout_is_written_as_one(benchmark_, tmp_path, monkeypatch):
    checkout = tmp_path / "mine" / "level2"
    checkout.mkdir(parents=True)
    for name, text in {"1_A.py": TANH, "1_A.solution.py": "x = 1\n", "2_B.py": small(LINEAR)}.items():
        (checkout / name).write_text(text)
    output = tmp_path / "out"
    assert run(monkeypatch, checkout.parent, "--against", benchmark_, "--output", output, "--no-by-computation") == 0
    (entry,) = read_dataset(output / "data").entries
    assert (entry.name, entry.kernel) == ("level2/1_A", "x = 1\n")
