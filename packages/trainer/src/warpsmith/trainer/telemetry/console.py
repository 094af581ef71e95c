"""Formats a step's metrics for the console; W&B and the `steps` table get the same ones."""

from collections.abc import Mapping

from warpsmith.trainer.telemetry import evaluator_use, machine_use

Figures = Mapping[str, float]

_NAN = float("nan")


def lines(step: int, figures: Figures, steps: int | None = None, left: str | None = None) -> str:
    """Return a step's lines: scores, training, agreement of sampler and trainer, and times.

    Args:
        step: its number.
        figures: its figures.
        steps: the last step's number.
        left: the estimated time to it, in words.
    """
    head = f"[Step {step}] " if steps is None else f"[Step {step} of {steps}] "
    time = _time(figures) + (f"; about {left} left" if left and steps is not None and step < steps else "")
    parts = (
        _earned(figures), _by_agent(figures), _sampled(figures), _trained(figures), _agreement(figures), time,
        _turns(figures), _use(figures),
    )  # fmt: skip
    return head + "\n         ".join(part for part in parts if part)


def _earned(figures: Figures) -> str:
    by_turn = " ".join(f"{value:.3f}" for value in _by_turn(figures, "reward_mean"))
    by_level = ", ".join(f"level {level} {value:.2f}" for level, value in _numbered(figures, "level", "solved_rate"))
    parts = [
        f"reward {figures.get('reward_mean', _NAN):.3f}" + (f" (by turn {by_turn})" if by_turn else ""),
        *(
            [f"aggregated return {figures['aggregated_return_mean']:.3f}"]
            if "aggregated_return_mean" in figures
            else []
        ),
        f"compiled {figures.get('compiled_rate', 0):.2f}",
        f"correct {figures.get('correct_rate', 0):.2f}",
        f"solved {figures.get('solved_rate', 0):.2f}" + (f" ({by_level})" if by_level else ""),
        *([f"stage {figures['curriculum_stage']:.0f}"] if "curriculum_stage" in figures else []),
    ]
    if "speedup_p50" in figures:
        parts.append("speedup p10 {speedup_p10:.2f} p50 {speedup_p50:.2f} p90 {speedup_p90:.2f}".format_map(figures))
    return ", ".join(parts)


def _by_agent(figures: Figures) -> str:
    """Return what each agent earned; empty in an environment without agents."""
    agents = sorted({key.partition("/")[0].removeprefix("agent_") for key in figures if key.startswith("agent_")})
    return "; ".join(_agent(name, figures) for name in agents)


def _agent(name: str, figures: Figures) -> str:
    own = {key: figures.get(f"agent_{name}/{key}", _NAN) for key in ("turns", "solved_rate", "reward_mean")}
    text = name + ": turns {turns:.0f}, solved {solved_rate:.2f}, reward {reward_mean:.3f}".format_map(own)
    measures = {"speedup": "{:.2f}x over the start", "bytes": "the start moves {:.2f}x its bytes"}
    for measure, words in measures.items():
        gain = figures.get(f"agent_{name}/{measure}_over_start_mean")
        if gain is not None:
            return f"{text}, {words.format(gain)}, improved {figures[f'agent_{name}/improved_rate']:.2f}"
    return text


def _by_turn(figures: Figures, name: str) -> list[float]:
    return [value for _, value in _numbered(figures, "turn", name)]


def _numbered(figures: Figures, kind: str, name: str) -> list[tuple[int, float]]:
    """Return the figures `kind_<n>/name` by their n, in order."""
    keys = (key.partition("/") for key in figures)
    numbers = [head.removeprefix(f"{kind}_") for head, _, tail in keys if head.startswith(f"{kind}_") and tail == name]
    return [(number, figures[f"{kind}_{number}/{name}"]) for number in sorted(map(int, numbers))]


def _sampled(figures: Figures) -> str:
    parts = [
        f"turns {figures['turns']:.0f}",
        f"invalid {figures['invalid_turns']:.0f}",
        f"groups {figures['sampled_groups']:.0f}",
        *([f"without spread {figures['no_spread_rate']:.2f}"] if "no_spread_rate" in figures else []),
        f"length {figures.get('completion_length_mean', 0):.0f} (most {figures['completion_length_max']:.0f})",
        f"truncated {figures.get('truncated_rate', 0):.2f}",
        f"staleness {figures.get('staleness_mean', 0):.1f} (most {figures.get('staleness_max', 0):.0f})",
    ]
    if figures["rounds"] > 1:
        parts.append(f"rounds {figures['rounds']:.0f}")
    return ", ".join(parts)


def _trained(figures: Figures) -> str:
    """Return the update's metrics, or a note that no turn was trained."""
    # A KL in the reward is also measured in a step without an update.
    reference = ["kl {kl_reference:.1e}"] if "kl_reference" in figures else []
    if "entropy" not in figures:
        return ", ".join(["no update: no turn has a gradient", *reference]).format_map(figures)
    most = " (most {grad_norm_max:.3g})" if "grad_norm_max" in figures else ""
    parts = [
        "loss {loss:.3g}, gradient norm {grad_norm:.3g}" + most + ", entropy {entropy:.3f}",
        *reference,
        *(["kl of the update {kl_old:.1e}"] if "kl_old" in figures else []),
        "clipped {clip_fraction:.3f}, learning rate {learning_rate:.1e}",
    ]
    if "value_loss" in figures:
        parts.append("value loss {value_loss:.3g} explained " + f"{figures.get('value_explained', _NAN):.2f}")
    return ", ".join(parts).format_map(figures)


def _agreement(figures: Figures) -> str:
    """Return the agreement of sampler and trainer; empty for a step that trained no turn."""
    if "sampler_gap" not in figures:
        return ""
    return (
        "sampler gap {sampler_gap:.1e} kl {sampler_kl:.1e} ess {sampler_ess:.3f} rejected {sampler_rejected:.3f}"
    ).format_map(figures)


def _time(figures: Figures) -> str:
    parts = []
    for phase in ("collect", "train", "sync"):
        speed = figures.get(f"{phase}_tokens_per_s")
        parts.append(f"{phase} {figures[f'{phase}_s']:.1f}s" + ("" if speed is None else f" ({speed:.0f} tokens/s)"))
    if "timing_windows" in figures:
        parts.append(
            "{timings:.0f} timings in {timing_windows:.0f} windows: sampling paused {sampling_paused_s:.1f}s, timed "
            "{timed_alone_s:.1f}s".format_map(figures)
        )
    return ", ".join(parts)


def _use(figures: Figures) -> str:
    """Return how busy the machine and the evaluator were; empty where nothing was sampled."""
    found = [*machine_use.in_words(figures), *evaluator_use.in_words(figures)]
    return f"use: {', '.join(found)}" if found else ""


def _turns(figures: Figures) -> str:
    """Return how long a turn took in each phase of collecting, mean and 90th percentile."""
    known = [name for name in ("generate", "compile", "wait", "evaluate") if f"turn_{name}_s_mean" in figures]
    shown = (
        f"{name} {figures[f'turn_{name}_s_mean']:.2f}s (p90 {figures[f'turn_{name}_s_p90']:.2f}s)" for name in known
    )
    return f"a turn: {', '.join(shown)}" if known else ""
