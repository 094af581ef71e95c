"""Warnings: each where its limit is passed and nowhere else, once and not at every step."""

from collections.abc import Mapping

import pytest

from warpsmith.trainer.config.health import HealthSection
from warpsmith.trainer.telemetry import console
from warpsmith.trainer.telemetry.warnings import CHECKS, Watch

WELL = {
    "entropy": 1.0, "kl_reference": 0.01, "kl_old": 0.001, "grad_norm_max": 1.0, "no_spread_rate": 0.2,
    "sampler_kl": 1e-4, "truncated_rate": 0.05, "invalid_rate": 0.0, "reward_mean": 0.3,
}  # fmt: skip


def watch(steps: int = 8, limits: HealthSection | None = None, **changes: float) -> Watch:
    """A run of some steps in which all was well."""
    return Watch(limits or HealthSection(), [{**WELL, **changes}] * steps)


def warned(found: Mapping[str, float]) -> set[str]:
    return {name.removeprefix("health/") for name, flag in found.items() if flag}


def test_a_healthy_run_is_never_warned_of() -> None:
    run = watch(0)
    for _ in range(40):
        finding = run.look(WELL)
        assert set(finding.flags) == {f"health/{name}" for name in CHECKS}
        assert not warned(finding.flags)
        assert not finding.messages


@pytest.mark.parametrize(
    ("name", "figure", "near", "beyond", "says"),
    [
        ("entropy_collapse", "entropy", 0.11, 0.09, "9% of the initial 1:"),
        ("kl_high", "kl_reference", 0.5, 0.51, "0.51 nats per token from the reference policy"),
        ("kl_update_high", "kl_old", 0.1, 0.11, "Within one batch the policy moved 0.11"),
        ("grad_norm_spike", "grad_norm_max", 5.0, 5.1, "5.1; the median of the last 8 steps is 1"),
        ("no_spread", "no_spread_rate", 0.89, 0.91, "91% of the groups have no spread"),
        ("sampler_mismatch", "sampler_kl", 9e-4, 2e-3, "0.002 nats per token apart, initially 0.0001"),
        ("truncated_high", "truncated_rate", 0.29, 0.31, "31% of the completions reached the length limit"),
        ("invalid_high", "invalid_rate", 0.09, 0.11, "11% of the turns are invalid"),
    ],
)
def test_each_limit(name: str, figure: str, near: float, beyond: float, says: str) -> None:
    well, ill = watch(), watch()
    # Rates are averaged over three steps.
    for _ in range(2):
        well.look({**WELL, figure: near})
        if figure.endswith("_rate"):
            ill.look({**WELL, figure: beyond})
    assert not warned(well.look({**WELL, figure: near}).flags)
    finding = ill.look({**WELL, figure: beyond})
    assert warned(finding.flags) == {name}
    ((said, text),) = finding.messages
    assert said == name
    assert says in text


def test_every_check_has_its_case() -> None:
    cases = test_each_limit.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert {case[0] for case in cases} == set(CHECKS)


def test_one_bad_batch_is_not_a_rate() -> None:
    run = watch()
    assert not warned(run.look({**WELL, "no_spread_rate": 1.0, "truncated_rate": 0.5}).flags)


def test_a_large_gap_is_warned_of_from_the_first_step() -> None:
    assert warned(watch(0).look({**WELL, "sampler_kl": 0.06}).flags) == {"sampler_mismatch"}


def test_a_gap_of_rounding_never_grows() -> None:
    assert not warned(watch(sampler_kl=1e-9).look({**WELL, "sampler_kl": 9e-4}).flags)


def test_a_warning_that_holds_is_said_again_only_now_and_then() -> None:
    run = watch(limits=HealthSection(repeat_every=4))
    said = [bool(run.look({**WELL, "kl_reference": 2.0}).messages) for _ in range(9)]
    assert said == [True, False, False, False, True, False, False, False, True]
    run.look(WELL)
    assert run.look({**WELL, "kl_reference": 2.0}).messages


@pytest.mark.parametrize(
    ("changes", "figure", "value"),
    [
        ({"entropy_share": False}, "entropy", 1e-9),
        ({"kl_max": False}, "kl_reference", 99.0),
        ({"kl_update_max": False}, "kl_old", 99.0),
        ({"grad_norm_factor": False}, "grad_norm_max", 1e9),
        ({"no_spread_max": False}, "no_spread_rate", 1.0),
        ({"sampler_kl_max": False, "sampler_kl_growth": False}, "sampler_kl", 9.0),
        ({"truncated_max": False}, "truncated_rate", 1.0),
        ({"invalid_max": False}, "invalid_rate", 1.0),
    ],
)
def test_each_check_can_be_switched_off(changes: dict[str, bool], figure: str, value: float) -> None:
    run = watch(limits=HealthSection(**changes))  # type: ignore[arg-type]  # what TOML gives
    for _ in range(4):
        assert not warned(run.look({**WELL, figure: value}).flags)


def test_steps_that_trained_nothing_do_not_count_in_the_baseline() -> None:
    idle = {"no_spread_rate": 1.0, "invalid_rate": 0.0, "truncated_rate": 0.0}
    run = Watch(HealthSection(), [idle] * 6 + [WELL] * 4)
    assert not warned(run.look({**WELL, "entropy": 0.01}).flags)
    assert warned(run.look({**WELL, "entropy": 0.01}).flags) == {"entropy_collapse"}


def test_a_resumed_run_knows_what_the_first_steps_were() -> None:
    history = [{**WELL, "anything": 1.0, "health/no_spread": 0.0}] * 5
    assert warned(Watch(HealthSection(), history).look({**WELL, "entropy": 0.05}).flags) == {"entropy_collapse"}


FIGURES = {
    "reward_mean": 0.5, "turn_1/reward_mean": 0.4, "turn_2/reward_mean": 0.75, "turn_10/reward_mean": 0.9,
    "aggregated_return_mean": 0.85,
    "compiled_rate": 0.9, "correct_rate": 0.5, "solved_rate": 0.6, "speedup_p10": 0.9, "speedup_p50": 1.25,
    "speedup_p90": 2.0, "turns": 12.0, "invalid_turns": 1.0, "sampled_groups": 4.0, "no_spread_rate": 0.25,
    "completion_length_mean": 100.0, "completion_length_max": 220.0, "truncated_rate": 0.1, "staleness_mean": 0.5,
    "staleness_max": 2.0, "kl_old": 0.0004,
    "rounds": 1.0, "loss": -0.01, "grad_norm": 0.5, "grad_norm_max": 0.8,
    "entropy": 1.5, "kl_reference": 0.002, "clip_fraction": 0.03,
    "learning_rate": 1e-6, "sampler_gap": 1e-6, "sampler_kl": 1e-9, "sampler_ess": 1.0, "sampler_rejected": 0.0,
    "collect_s": 2.0, "collect_tokens_per_s": 600.0, "train_s": 3.0, "train_tokens_per_s": 400.0, "sync_s": 0.5,
    "turn_generate_s_mean": 1.5, "turn_generate_s_p90": 1.8, "turn_compile_s_mean": 0.25, "turn_compile_s_p90": 0.5,
    "turn_wait_s_mean": 0.0, "turn_wait_s_p90": 0.01, "turn_evaluate_s_mean": 0.75, "turn_evaluate_s_p90": 1.25,
}  # fmt: skip


def test_the_console_tells_what_the_table_holds() -> None:
    said = console.lines(7, FIGURES)
    assert said.startswith(
        "[Step 7] reward 0.500 (by turn 0.400 0.750 0.900), aggregated return 0.850, compiled 0.90, correct 0.50, "
        "solved 0.60"
    )
    for part in ("speedup p10 0.90 p50 1.25 p90 2.00", "invalid 1", "without spread 0.25", "length 100 (most 220)",
                 "truncated 0.10", "staleness 0.5 (most 2)",
                 "kl of the update 4.0e-04", "gradient norm 0.5 (most 0.8), entropy 1.500", "kl 2.0e-03",
                 "clipped 0.030", "sampler gap 1.0e-06", "collect 2.0s (600 tokens/s)", "train 3.0s (400",
                 "a turn: generate 1.50s (p90 1.80s), compile 0.25s (p90 0.50s), wait 0.00s (p90 0.01s), "
                 "evaluate 0.75s (p90 1.25s)"):  # fmt: skip
        assert part in said
    assert "rounds" not in said
    assert "spread" not in console.lines(7, {k: v for k, v in FIGURES.items() if k != "no_spread_rate"})
    assert "rounds 3" in console.lines(7, {**FIGURES, "rounds": 3.0})
    assert "value loss 0.2 explained 0.50" in console.lines(7, {**FIGURES, "value_loss": 0.2, "value_explained": 0.5})


def test_a_step_that_trained_nothing_says_so() -> None:
    update = ("loss", "learning_rate", "train_tokens_per_s", "grad_norm", "grad_norm_max", "entropy", "kl_reference",
              "kl_old", "clip_fraction", "sampler_gap", "speedup_p50", "speedup_p10")  # fmt: skip
    figures = {name: value for name, value in FIGURES.items() if name not in update}
    said = console.lines(1, figures)
    assert "no update: no turn has a gradient\n" in said
    taken_off = console.lines(1, {**figures, "kl_reference": 0.002})
    assert "no update: no turn has a gradient, kl 2.0e-03\n" in taken_off, "of a KL in the reward"
    judged_alone = {name: value for name, value in figures.items() if not name.startswith(("turn_gen", "turn_c"))}
    assert "\n         a turn: wait 0.00s" in console.lines(1, judged_alone)
    assert "sampler gap" not in said
    assert "train 3.0s, sync 0.5s" in said
    assert "collect 2.0s, train" in console.lines(1, {k: v for k, v in FIGURES.items() if k != "collect_tokens_per_s"})


def test_a_run_without_a_reference_policy_tells_of_no_divergence() -> None:
    said = console.lines(1, {name: value for name, value in FIGURES.items() if name != "kl_reference"})
    assert "entropy 1.500, kl of the update 4.0e-04, clipped 0.030" in said


def test_a_step_of_several_levels_says_what_each_solved_and_the_stage() -> None:
    levels = {"level_2/solved_rate": 0.125, "level_1/solved_rate": 0.5, "level_1/reward_mean": 0.2}
    said = console.lines(7, FIGURES | levels | {"curriculum_stage": 2.0})
    assert "(level 1 0.50, level 2 0.12), stage 2" in said
    assert "level" not in console.lines(7, FIGURES)
