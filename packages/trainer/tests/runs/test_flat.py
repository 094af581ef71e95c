"""A run at learning rate 0 stays where it is, step after step: the loop itself changes nothing and does not drift."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from warpsmith.records.reader import RunReader

STEPS = 200

# The entropy term gives every turn a gradient, so that each step makes an update and a sync.
CONFIG = """
[run]
dir = "{run}"
steps = {steps}
torch_threads = 1
console = "steps"
[policy]
path = "{policy}"
dtype = "float32"
[problems]
count = 8
levels = [1]
[rollout]
prompt_style = "compact"
[rollout.environment]
max_turns = 1
[evaluator]
trials = 1
[rollout.sampling]
max_tokens = 8
[rollout.sampler]
dtype = "float32"
max_model_len = 256
max_sequences = 2
[algorithm]
prompts_per_step = 1
samples_per_prompt = 2
entropy_coefficient = 0.01
[optimizer]
lr = {lr}
weight_decay = 0.0
[zero]
micro_batch_tokens = 512
[checkpoint]
every = 0
[wandb]
mode = "disabled"
"""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_at_learning_rate_0_weights_and_sampler_stay_as_they_were(tiny: Path, tmp_path: Path) -> None:
    run, config = tmp_path / "run", tmp_path / "grpo.toml"
    config.write_text(CONFIG.format(run=run, policy=tiny, steps=STEPS, lr=0.0))
    ended = subprocess.run(
        [sys.executable, "-m", "warpsmith.trainer", "grpo", str(config)],
        capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-4000:]

    before, after = (load_file(directory / "model.safetensors") for directory in (tiny, run / "final_model"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)

    rows = RunReader(run).table("steps").to_pylist()
    figures = [dict(row["metrics"]) for row in rows]
    assert [row["weight_version"] for row in rows] == list(range(1, STEPS + 1))
    assert all(row["updates"] == 1 and row["grad_norm"] > 0 for row in figures)
    assert max(row["probe_gap"] for row in figures) < 1e-3
    # The same weights give the same numbers to the last bit, on both sides.
    assert len({row["probe_gap"] for row in figures}) == 1
    gaps = np.array([row["sampler_gap"] for row in figures])
    assert gaps.max() < 1e-5
    assert gaps[-50:].mean() < 1.5 * gaps[:50].mean()
    assert {row["sampler_rejected"] for row in figures} == {0.0}
    assert min(row["sampler_ess"] for row in figures) > 0.999
    assert max(row["sampler_kl"] for row in figures) < 1e-9
    line = rf"\[Step {STEPS} of {STEPS}\] reward .*sampler gap \S+ kl \S+ ess 1\.000 rejected 0\.000\s+collect"
    assert re.search(line, ended.stdout + ended.stderr, re.DOTALL)
