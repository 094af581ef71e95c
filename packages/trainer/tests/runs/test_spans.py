"""Real runs that send their spans: each step, rollout, episode, turn and evaluation lies within the one above it."""

import os
import subprocess
import sys
from collections import Counter

import pytest
from span_collector import collector

from warpsmith.records import RunReader

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

ABOVE = {
    "step": "", "collect": "step", "train": "step", "sync": "step", "episode": "rollout", "turn": "episode",
    "generate": "turn", "judge": "turn", "evaluation": "judge", "wait": "evaluation", "compile": "evaluation",
    "workers": "evaluation", "correctness": "evaluation", "stall": "evaluation",
}  # fmt: skip


@pytest.mark.parametrize("staleness", [0, 1])
def test_a_run_of_grpo_sends_its_spans_as_one_tree_for_each_step(tiny, grpo_text, tmp_path, staleness):
    run, config = tmp_path / "run", tmp_path / "grpo.toml"
    text = grpo_text.format(run=run, policy=tiny, stage=2, wandb="disabled")
    config.write_text(
        text.replace("[algorithm]", f"[trackers]\notel = true\n[algorithm]\nmax_staleness = {staleness}", 1)
    )
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "RANK", "WORLD_SIZE"))}
    with collector() as (address, spans):
        done = subprocess.run(
            [sys.executable, "-m", "warpsmith.trainer", "grpo", str(config)],
            env={**plain, "OTEL_EXPORTER_OTLP_ENDPOINT": address}, capture_output=True, text=True, timeout=600,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    names = {span.span_id: span.name for span in spans}
    for span in spans:
        above = names[span.parent_span_id] if span.parent_span_id else ""
        # A rollout that runs ahead of its step, or is held out, is nobody's child.
        assert above in ({"", "step"} if span.name == "rollout" else {ABOVE[span.name]}), span.name
    rollouts = [span for span in spans if span.name == "rollout"]
    assert any(span.parent_span_id for span in rollouts) == (staleness == 0)
    counts = Counter(span.name for span in spans)
    turns = RunReader(run).table("turns", columns=["trajectory"])
    assert (counts["step"], counts["train"], counts["sync"]) == (2, 2, 2)
    assert counts["turn"] == counts["generate"] == turns.num_rows
    assert counts["episode"] == len(set(turns["trajectory"].to_pylist()))
