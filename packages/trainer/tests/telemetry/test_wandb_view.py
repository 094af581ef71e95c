"""The view of W&B: each figure once, no panel without figures that a run can have, and what a resumed run has."""

import json
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from warpsmith.records.schema import steps_batch
from warpsmith.records.writer import RunWriter
from warpsmith.trainer.cli import app
from warpsmith.trainer.telemetry.wandb_view.layout import OTHER, SECTIONS, STEP, SUMMARIES, shown_sections

PANELS = [panel for section in SECTIONS for panel in section.panels]
# Names of docs/training.md's table and of held-out evaluations; each run has a part of them.
NAMES = """
reward_mean turn_return_mean aggregated_return_mean compiled_rate correct_rate solved_rate speedup_mean speedup_p10
speedup_p50 speedup_p90 speedup_max turn_1/reward_mean turn_1/return_mean turn_1/correct_rate turn_1/compiled_rate
turn_1/completion_length_mean turn_2/speedup_p50 agent_generator/turns agent_generator/solved_rate
agent_generator/correct_rate agent_generator/reward_mean agent_generator/return_mean
agent_optimizer/speedup_over_start_mean agent_optimizer/bytes_over_start_mean agent_optimizer/improved_rate
level_1/solved_rate level_1/correct_rate level_1/reward_mean curriculum_stage curriculum_rate curriculum_tried
curriculum_easy curriculum_hard sampled_groups no_spread_rate flat_group_rate rounds groups flat_groups advantage_min
advantage_max advantage_abs_mean overlong_penalty_mean kl_penalty_mean loss learning_rate updates entropy clip_fraction
clip_fraction_high clipped_fraction kl kl_old kl_reference ratio_mean grad_norm grad_norm_max value_loss value_mean
value_target_mean value_explained sampler_gap sampler_kl sampler_ess sampler_rejected probe_gap completion_length_mean
completion_length_max truncated_rate trajectories turns tokens invalid_turns invalid_rate staleness_mean staleness_max
verdict_cache_hits verdict_cache_misses sync_gather_s sync_send_s sync_load_s sync_verify_s sync_probe_s collect_s
train_s sync_s sample_s drain_s batches_ahead collect_tokens_per_s train_tokens_per_s timings timing_windows
timed_alone_s sampling_paused_s timing_wait_s gpu_0/utilization gpu_0/memory_share machine/cpu_utilization
machine/memory_share evaluator/busy_share evaluator/lease_held_share evaluator/lease_wait_s turn_generate_s_mean
turn_compile_s_p90 turn_wait_s_mean turn_evaluate_s_p90 health/entropy_collapse weight_version seconds epoch eval_loss
eval_loss/chats eval_accuracy eval_perplexity eval_s padding_share tokens_per_s held_out/solved_rate
held_out/correct_rate held_out/best_score_mean held_out/reward_mean held_out/speedup_geomean held_out/fast_1.2
held_out/turn_1/solved_rate held_out/turn_2/correct_rate held_out/turn_1/reward_mean held_out/turn_1/speedup_geomean
held_out/turn_1/fast_2 held_out/turn_1/completion_length_mean held_out/level_1/solved_rate
held_out/completion_length_max held_out/truncated_rate held_out/turns held_out/seconds
"""
LOGGED = NAMES.split()


def test_every_figure_has_a_place_and_every_panel_a_figure():
    shown = shown_sections(LOGGED)
    assert OTHER not in [one.section for one in shown]
    assert sorted(name for one in shown for panel in one.panels for name in panel.figures) == sorted(LOGGED)
    empty = {panel.title for panel in PANELS} - {panel.panel.title for one in shown for panel in one.panels}
    assert not empty
    assert not set(SUMMARIES) - set(LOGGED)


@given(st.lists(st.one_of(st.sampled_from(LOGGED), st.from_regex(r"[a-z_]{1,8}(/[a-z0-9_]{1,8})?", fullmatch=True))))
def test_each_figure_stands_in_one_panel_and_nothing_else_does(names):
    shown = [name for one in shown_sections(names) for panel in one.panels for name in panel.figures]
    assert sorted(shown) == sorted(set(names) - {STEP})


def test_what_no_panel_names_comes_last():
    shown = shown_sections(["mine/loss", "reward_mean"])
    assert [one.section.title for one in shown] == ["Result", "Other"]


def test_turns_stand_in_their_order():
    [one] = shown_sections([f"turn_{n}/correct_rate" for n in (10, 2, 1, 11)])
    assert one.panels[0].figures == tuple(f"turn_{n}/correct_rate" for n in (1, 2, 10, 11))


def test_bounds_hold_shares_and_only_shares():
    for panel in PANELS:
        assert (panel.unit == "share") <= (panel.bounds[1] == 1.0), panel.title
        assert not (panel.log and panel.bounds != (None, None)), panel.title
        assert all(re.compile(figure) for figure in panel.figures)


def test_the_command_prints_the_view_of_a_run(tmp_path):
    run = tmp_path / "run"
    row = {
        "run": "run", "step": 1, "weight_version": 1, "started_at": datetime.now(UTC), "seconds": 1.0,
        "metrics": {"reward_mean": 0.5, "turn_1/correct_rate": 0.25},
    }  # fmt: skip
    with RunWriter(run) as writer:
        writer.append("steps", steps_batch([row]))
    (run / "summary.json").write_text(json.dumps({"held_out": {"steps": {"1": {"solved_rate": 0.5}}}}))
    done = CliRunner().invoke(app, ["wandb-view", str(run)], catch_exceptions=False)
    assert done.exit_code == 0
    assert "  Reward (score): reward_mean" in done.stdout.splitlines()
    found = json.loads(CliRunner().invoke(app, ["wandb-view", str(run), "--json"], catch_exceptions=False).stdout)
    assert [one["section"] for one in found] == ["Result", "By turn", "Update", "Time"]
    assert found[0]["panels"][1]["figures"] == ["held_out/solved_rate"]


@pytest.mark.parametrize("content", ["nothing", "no step"])
def test_a_run_without_steps_is_reported(tmp_path, content):
    run = tmp_path / "run"
    if content == "no step":
        with RunWriter(run):
            pass
    done = CliRunner().invoke(app, ["wandb-view", str(run)])
    assert done.exit_code != 0 and done.exception is not None
    assert "Traceback" not in done.output
