"""A session whose evaluator times where it samples: real samplers in Ray, and a judge process with a real lease."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from warpsmith.evaluator.client import evaluator as client
from warpsmith.policy.loading import load_chat
from warpsmith.records import timeline
from warpsmith.records.reader import RunReader
from warpsmith.rollout.environments.kernelbench import KernelBench
from warpsmith.trainer.config import load_grpo
from warpsmith.trainer.rollouts import session
from warpsmith.trainer.rollouts.session import RolloutSession
from warpsmith.trainer.telemetry.display import RunDisplay
from warpsmith.trainer.telemetry.phase_log import PhaseLog

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

JUDGE = Path(__file__).parents[3] / "rollout" / "tests" / "support" / "timing_judge.py"
SAMPLES = 3


@pytest.fixture
def timed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a judge that only times stand in, on a machine without a GPU; it is asked about every answer."""
    monkeypatch.setattr(client, "JUDGE_ARGUMENTS", (str(JUDGE),))
    monkeypatch.setattr(session, "times_beside_sampling", lambda *_: True)
    monkeypatch.setattr(KernelBench, "parse", lambda _, completion: f"{completion}\n")


@pytest.mark.long  # test_timing_windows.py of rollout times beside an engine; whole runs have the spans
@pytest.mark.usefixtures("timed_here")
def test_a_collection_is_timed_in_windows_that_its_records_show(tiny: Path, grpo_text: str, tmp_path: Path) -> None:
    file, run = tmp_path / "grpo.toml", tmp_path / "run"
    file.write_text(grpo_text.format(run=run, policy=tiny, stage=0, wandb="disabled"))
    config, phases = load_grpo(file), PhaseLog()
    with RunDisplay("timed", 1, "steps", shown=False) as display, RolloutSession(config, display, phases) as found:
        found.ready(load_chat(tiny))
        phases.keep(run)
        table = found.collect(
            found.problems[:4], SAMPLES, label="step-1", seed=1, role="train", after_step=0, rollout_step=1,
            weight_version=0,
        )  # fmt: skip
        figures = found.window_figures()
        assert set(found.window_figures().values()) == {0.0}
    assert {verdict["speedup"] for verdict in table["verdict"].to_pylist()} == {2.0}
    assert figures["timings"] > 0
    assert 0 < figures["timing_windows"] <= figures["timings"]
    assert figures["timed_alone_s"] <= figures["sampling_paused_s"]
    spans = timeline.spans(RunReader(run))
    windows = [span for span in spans if span.phase == "time"]
    assert len(windows) == figures["timing_windows"]
    assert {span.step for span in windows} == {1}
    started = {span.name for span in spans if span.phase == "start"}
    assert {"Ray", "the evaluator", "waiting for the samplers", "sampler 0, engine", "the first answer"} <= started


def test_lines_of_a_run_that_is_refused_are_not_kept(tmp_path: Path) -> None:
    phases = PhaseLog()
    with phases.start("checks"):
        assert not list(tmp_path.iterdir())
    phases.keep(tmp_path)
    rows = [SimpleNamespace(**json.loads(line)) for line in (tmp_path / timeline.PHASES_FILE).read_text().splitlines()]
    assert [row.name for row in rows] == ["imports", "checks"]
    assert all(row.began <= row.ended for row in rows)
