"""The main job from end to end on real parts: the same path as `make demo`, smaller."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.compute as pc
import pytest

from warpsmith.evaluator import _native
from warpsmith.records.reader import RunReader

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parent.parent
SMALLER = (
    "--set-sft", "run.steps=16", "--set-sft", "data.source.problems=64", "--set-sft", "data.eval_examples=8",
    "--set-sft", "checkpoint.every=0", "--set-sft", "data.source.levels=[1]",
    "--set-grpo", "run.steps=2", "--set-grpo", "algorithm.prompts_per_step=2", "--set-grpo", "problems.levels=[1]",
    "--set-grpo", "algorithm.samples_per_prompt=3", "--set-grpo", "problems.count=16",
    "--set-grpo", "held_out.problems=2", "--set-grpo", "held_out.samples=2",
)  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small demo, run by the command that `make demo` calls."""
    out = tmp_path_factory.mktemp("demo") / "run"
    command = [sys.executable, "-m", "warpsmith.trainer", "demo", "--output", str(out), *SMALLER]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == 0, done.stderr[-4000:]
    return out, done.stdout + done.stderr


def environment() -> dict[str, str]:
    return os.environ | {"COLUMNS": "160"}


def test_the_summary_has_what_it_promises(finished):
    out, _ = finished
    summary = json.loads((out / "summary.json").read_text())
    held_out = summary["held_out"]
    for stage in ("sft", "grpo"):
        assert 0.0 <= held_out[stage]["correct"] <= held_out[stage]["compiled"] <= 1.0
        assert held_out[stage]["trajectories"] == 4 - held_out[stage]["invalid"]
        assert len(held_out[stage]["score_by_turn"]) in (1, 2, 3)
        assert held_out[stage]["repaired"] is None or 0.0 <= held_out[stage]["repaired"] <= 1.0
    for name in ("difference", "difference_turn_1"):
        low, high = held_out[name]["ci95"]
        assert low <= held_out[name]["correct"] <= high
    assert summary["steps"] == 2
    parts = {"held_out_before", "collect", "train", "sync", "held_out_after"}
    assert {"policy", "sft", "grpo", *(f"grpo/{part}" for part in parts)} <= set(summary["phases"])
    assert 0 < sum(summary["phases"][f"grpo/{part}"] for part in parts) < summary["phases"]["grpo"]
    assert {"torch", "triton", "deepspeed", "ray", "warpsmith-evaluator"} <= set(summary["versions"])
    assert summary["machine"]["cores"] >= 1


def test_what_was_trained_on_is_what_lies_on_disk(finished):
    out, _ = finished
    reader = RunReader(out / "grpo")
    turns = reader.table("turns")
    train = turns.filter(pc.equal(turns["role"], "train"))
    assert pc.count_distinct(train["trajectory"]).as_py() == 2 * 2 * 3
    for row in train.to_pylist():
        assert len(row["completion_ids"]) == len(row["logprobs"]) == len(row["weight_versions"]) > 0
        assert set(row["weight_versions"]) <= {0, 1}
        assert row["verdict"] is not None or not row["valid"]
    keys = {(row["trajectory"], row["turn"]) for row in train.to_pylist()}
    credits = reader.table("credits").to_pylist()
    assert credits
    assert {(row["trajectory"], row["turn"]) for row in credits} <= keys


def test_no_verdict_was_lost_to_the_infrastructure_and_workers_were_contained(finished):
    out, _ = finished
    turns = RunReader(out / "grpo").table("turns").to_pylist()
    assert all(row["valid"] for row in turns), [row["invalid_reason"] for row in turns if not row["valid"]]
    tiers = {row["verdict"]["isolation_tier"] for row in turns if row["verdict"]["status"] not in NOTHING_RAN}
    assert tiers <= {_native.achievable_tier()}
    assert {row["verdict"]["timing_tier"] for row in turns} <= {"none", None}


NOTHING_RAN = {"compile_error"}


def test_weights_reach_the_sampler_and_the_probe_is_close(finished):
    out, _ = finished
    steps = RunReader(out / "grpo").table("steps").to_pylist()
    gaps = [dict(step["metrics"])["probe_gap"] for step in steps]
    assert all(0.0 <= gap < 1e-3 for gap in gaps)


def test_the_console_has_a_block_for_each_step_and_nothing_of_the_libraries(finished):
    out, printed = finished
    assert "[Step 1 of 2] reward" in printed
    assert "[Turn 1] " not in printed
    assert "Held out, gain: solved" in printed
    assert "Time by phase" in printed
    assert printed.index(f"Demo in {out}.") < printed.index("==> policy")
    for last in ("Summary: ", "Report:  ", f"Model:   {out / 'grpo' / 'final_model'}"):
        assert last in printed
    assert "it/s]" not in printed, "a progress bar of a library"
    assert len(printed.splitlines()) < 120
    logs = out / "grpo" / "logs"
    assert {path.name for path in logs.iterdir()} >= {"rank-0.log", "rank-1.log", "sampler-0.log"}
    assert "[Step 1 of 2] reward" in (logs / "rank-0.log").read_text()
    assert "[Step 1 of 2] reward" not in (logs / "rank-1.log").read_text()


def test_the_models_are_hugging_face_directories(finished):
    out, _ = finished
    for name in ("sft", "grpo"):
        folder = out / name / "final_model"
        assert {"config.json", "tokenizer.json", "model.safetensors"} <= {path.name for path in folder.iterdir()}


def test_the_report_stands_alone(finished):
    out, _ = finished
    page = (out / "report.html").read_text()
    assert "<html" in page
    assert 'src="http' not in page
    assert 'href="http' not in page


def test_the_folder_of_the_demo_stands_for_its_runs(finished, tmp_path):
    out, _ = finished

    def records(*arguments: str) -> str:
        command = [sys.executable, "-m", "warpsmith.records", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    found = json.loads(records("summary", str(out), "--json"))
    assert found["sft"] == {}
    assert set(found["grpo"]) == {"held_out before training", "held_out after 2 steps", "train"}
    assert found["grpo"]["train"]["trajectories"] == 2 * 2 * 3
    page = tmp_path / "demo.html"
    assert records("report", str(out), "--output", str(page)).strip() == str(page)


def test_a_used_directory_is_refused_in_a_sentence(finished):
    out, _ = finished
    command = [sys.executable, "-m", "warpsmith.trainer", "demo", "--output", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "already exists" in done.stderr
    assert "Traceback" not in done.stderr
