"""Whole GRPO runs of two ranks that share layers, or rows, with vLLM's samplers: synced, probed, stopped, resumed."""

import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from warpsmith.policy.tiny import build_tiny
from warpsmith.trainer.weights.consolidate import consolidate

SHARED = {
    "layers": ("[parallel]\ntensor = 2\n", "sdpa", 2),
    "rows": ("[parallel]\nsequence = 2\n", "varlen", 3),
}


@pytest.mark.slow
@pytest.mark.long  # The parts of a run, under both, are in every run of test_parallel.
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", SHARED)
def test_a_run_trains_syncs_and_goes_on(kind: str, grpo_text: str, tmp_path: Path) -> None:
    table, attention, stage = SHARED[kind]
    texts = [f"def kernel_{number}(x, y): return x + y * {number}\n" for number in range(200)]
    model = build_tiny(tmp_path / "model", texts, vocab_size=600, layers=2, hidden=128, heads=4, kv_heads=2)
    run, file = tmp_path / "run", tmp_path / "grpo.toml"
    text = grpo_text.format(run=run, policy=model, stage=stage, wandb="disabled")
    text = text.replace("[problems]", f'attention = "{attention}"\n[problems]', 1)
    file.write_text(text.replace("[held_out]\nproblems = 2\n", "") + table)
    command = [sys.executable, "-m", "warpsmith.trainer", "grpo", str(file), "--num-processes", "2"]
    for more in ([], ["--resume", "--steps", "3"]):
        ended = subprocess.run([*command, *more], capture_output=True, text=True, timeout=550, check=False)
        assert ended.returncode == 0, (ended.stdout + ended.stderr)[-4000:]
        assert "the largest gap of a log-probability is" in ended.stderr
    final = load_file(run / "final_model" / "model.safetensors")
    kept = load_file(consolidate(run, tmp_path / "kept") / "model.safetensors")
    assert final.keys() == kept.keys()
    assert all((final[name] - kept[name]).abs().max() <= 1e-6 for name in final)
