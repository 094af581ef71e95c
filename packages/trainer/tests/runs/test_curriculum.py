"""A real run with a curriculum, stopped and resumed: the same problems as in a run that was not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from warpsmith.records.reader import RunReader

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]

CURRICULUM = """
[curriculum]
type = "stages"
window = 1
fall_back_at = 0.0
[[curriculum.stages]]
levels = [1]
turns = 1
[[curriculum.stages]]
levels = [1, 2]
"""


def train(config: Path, *more: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "warpsmith.trainer", "grpo", str(config), *more],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def chosen(run: Path) -> list[tuple[int, str, int]]:
    turns = RunReader(run).table("turns", latest=True).to_pylist()
    return sorted({(row["rollout_step"], row["problem"], row["num_turns"]) for row in turns})


@pytest.mark.parametrize("kind", ["stages", "solve_rate"])
def test_a_resumed_run_trains_on_the_same_problems(tiny: Path, grpo_text: str, tmp_path: Path, kind: str) -> None:
    text = grpo_text.format(run=tmp_path / "whole", policy=tiny, stage=1, wandb="disabled")
    text = text.replace("steps = 2", "steps = 3").replace("levels = [1]", "levels = [1, 2]")
    config = tmp_path / "grpo.toml"
    config.write_text(text + (CURRICULUM if kind == "stages" else '[curriculum]\ntype = "solve_rate"\n'))
    plain = ("--set", "held_out=unset", "--set", "optimizer.schedule=constant")
    train(config, *plain)
    cut = ("--set", f"run.dir={tmp_path / 'cut'}", *plain)
    train(config, *cut, "--steps", "1")
    train(config, *cut, "--resume")
    assert chosen(tmp_path / "cut") == chosen(tmp_path / "whole")
    turns = RunReader(tmp_path / "whole").table("turns", columns=["stage"])["stage"].to_pylist()
    assert set(turns) == ({1} if kind == "stages" else {None})
    if kind == "stages":
        assert {turns for _, _, turns in chosen(tmp_path / "whole")} == {1}, "an untrained policy stays in stage 1"
    newest = max((tmp_path / "cut" / "checkpoints").glob("step-*"))
    state = json.loads((newest / "state.json").read_text())["progress"]["curriculum"]
    assert (
        state
        == json.loads((max((tmp_path / "whole" / "checkpoints").glob("step-*")) / "state.json").read_text())[
            "progress"
        ]["curriculum"]
    )
    assert state
