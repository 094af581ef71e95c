"""What a researcher sees who opens a run in W&B: sections of panels, in the order in which one reads a run.

Plain data, so that it can be checked against the figures of recorded runs without W&B. A panel names figures by regular
expressions, since turns, levels, agents, GPUs and sources of data differ from run to run; it shows what a run has.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

STEP: Final = "step"
"""The figure on every horizontal axis. W&B's own step counts calls, which a resumed run would repeat or lose."""


@dataclass(frozen=True)
class Panel:
    """A plot of figures over steps.

    Attributes:
        title: what it shows.
        figures: regular expressions of whole names, in the order of the legend.
        unit: the vertical axis.
        bounds: range of the vertical axis; None leaves an end open.
        log: whether the vertical axis is logarithmic.
    """

    title: str
    figures: tuple[str, ...]
    unit: str
    bounds: tuple[float | None, float | None] = (None, None)
    log: bool = False

    def shown(self, names: Iterable[str]) -> list[str]:
        """Return the names that the panel shows, in the order of its figures, then by name."""
        known = sorted(names, key=_natural)
        return [name for figure in self.figures for name in known if re.fullmatch(figure, name)]


@dataclass(frozen=True)
class Section:
    """Panels under a heading.

    Attributes:
        title: the heading.
        panels: its panels, in order.
        opened: whether it is open when the view is opened.
    """

    title: str
    panels: tuple[Panel, ...]
    opened: bool = False


@dataclass(frozen=True)
class ShownPanel:
    """A panel with the figures that a run has."""

    panel: Panel
    figures: tuple[str, ...]


@dataclass(frozen=True)
class ShownSection:
    """A section without its empty panels."""

    section: Section
    panels: tuple[ShownPanel, ...]


def _share(title: str, *figures: str) -> Panel:
    return Panel(title, figures, "share", (0.0, 1.0))


def _seconds(title: str, *figures: str) -> Panel:
    return Panel(title, figures, "seconds", (0.0, None))


def _count(title: str, *figures: str) -> Panel:
    return Panel(title, figures, "count", (0.0, None))


_RATES: Final = ("solved_rate", "correct_rate", "compiled_rate")
_SCORES: Final = ("best_score_mean", "reward_mean", "turn_return_mean", "aggregated_return_mean")
_SPEEDS: Final = "speedup_(?:geomean|mean|p10|p50|p90|max)"

SECTIONS: Final[tuple[Section, ...]] = (
    Section(
        "Result",
        (
            Panel("Reward", _SCORES, "score"),
            _share("Solved, correct, compiled", *_RATES),
            Panel("Speedup of correct kernels", (_SPEEDS,), "times the reference", log=True),
            _share("Held out: solved, correct, compiled", *(f"held_out/{name}" for name in _RATES)),
            Panel("Held out: score", tuple(f"held_out/{name}" for name in _SCORES), "score"),
            Panel("Held out: speedup", (f"held_out/{_SPEEDS}",), "times the reference", log=True),
            _share("Held out: faster than p", r"held_out/fast_[\d.]+"),
            Panel("Loss on held-out examples", ("eval_loss(?:/.+)?",), "nats a token", (0.0, None)),
            _share("Accuracy on held-out examples", "eval_accuracy(?:/.+)?"),
            Panel("Perplexity on held-out examples", ("eval_perplexity(?:/.+)?",), "perplexity", log=True),
        ),
        opened=True,
    ),
    Section(
        "By turn",
        (
            _share("Correct", r"turn_\d+/correct_rate"),
            _share("Compiled", r"turn_\d+/compiled_rate"),
            Panel("Reward", (r"turn_\d+/reward_mean",), "score"),
            Panel("Return", (r"turn_\d+/return_mean",), "score"),
            Panel("Speedup, median and mean", (rf"turn_\d+/{_SPEEDS}",), "times the reference", log=True),
            Panel("Completion", (r"turn_\d+/completion_length_mean",), "tokens", (0.0, None)),
            _share("Held out: solved up to the turn", r"held_out/turn_\d+/solved_rate"),
            _share("Held out: correct", r"held_out/turn_\d+/(?:correct|compiled)_rate"),
            Panel("Held out: reward and return", (r"held_out/turn_\d+/(?:reward|return)_mean",), "score"),
            Panel("Held out: speedup", (rf"held_out/turn_\d+/{_SPEEDS}",), "times the reference", log=True),
            _share("Held out: faster than p", r"held_out/turn_\d+/fast_[\d.]+"),
            Panel("Held out: completion", (r"held_out/turn_\d+/completion_length_mean",), "tokens", (0.0, None)),
        ),
        opened=True,
    ),
    Section(
        "By agent, by level",
        (
            _share("Agents: solved, correct", r"agent_\w+/(?:solved|correct)_rate"),
            Panel("Agents: reward and return", (r"agent_\w+/(?:reward|return)_mean",), "score"),
            Panel("Optimizer: gain over the start", (r"agent_\w+/\w+_over_start_mean",), "times the start", log=True),
            _share("Optimizer: improved", r"agent_\w+/improved_rate"),
            _count("Agents: turns", r"agent_\w+/turns"),
            _share("Levels: solved, correct", r"level_\d+/(?:solved|correct)_rate"),
            Panel("Levels: reward", (r"level_\d+/reward_mean",), "score"),
            Panel("Held out: agents, levels", (r"held_out/(?:agent|level)_.+",), "share or score"),
            Panel("Curriculum: stage", ("curriculum_stage",), "stage", (0.0, None)),
            _share("Curriculum: solve rate of its problems", "curriculum_rate"),
            _count("Curriculum: problems", "curriculum_(?:tried|easy|hard)", "curriculum_(?!stage|rate).*"),
        ),
    ),
    Section(
        "Update",
        (
            Panel("Loss", ("loss",), "loss"),
            Panel("Gradient norm before clipping", ("grad_norm", "grad_norm_max"), "norm", log=True),
            Panel("Entropy", ("entropy",), "nats a token", (0.0, None)),
            Panel("KL to the reference policy", ("kl", "kl_reference", "kl_penalty_mean"), "nats a token"),
            Panel("KL to the policy that sampled", ("kl_old",), "nats a token"),
            Panel("Ratio", ("ratio_mean",), "ratio"),
            _share("Clipped", "clip_fraction", "clip_fraction_high", "clipped_fraction"),
            Panel("Learning rate", ("learning_rate",), "learning rate", (0.0, None)),
            _count("Updates, weight version", "updates", "weight_version"),
            Panel("Value head", ("value_loss", "value_mean", "value_target_mean"), "score"),
            Panel("Value head: explained variance", ("value_explained",), "share", (None, 1.0)),
            _count("Epochs", "epoch"),
        ),
    ),
    Section(
        "Sampler against trainer",
        (
            Panel("Log-probability gap", ("sampler_gap",), "nats a token", (0.0, None)),
            Panel("Probe after a weight sync", ("probe_gap",), "nats a token", (0.0, None)),
            Panel("KL of sampler and trainer", ("sampler_kl",), "nats a token"),
            _share("Effective sample, rejected", "sampler_ess", "sampler_rejected"),
            Panel("Staleness", ("staleness_mean", "staleness_max"), "weight versions", (0.0, None)),
        ),
    ),
    Section(
        "Credit and sampling",
        (
            Panel("Advantage", ("advantage_abs_mean", "advantage_min", "advantage_max"), "advantage"),
            _share("Groups without spread", "no_spread_rate", "flat_group_rate"),
            _count("Groups", "sampled_groups", "groups", "flat_groups"),
            Panel("Overlong penalty", ("overlong_penalty_mean",), "score"),
            _count("Rounds of sampling, batches ahead", "rounds", "batches_ahead"),
        ),
    ),
    Section(
        "Turns and completions",
        (
            Panel("Completion", ("completion_length_mean", "completion_length_max"), "tokens", (0.0, None)),
            _share("Truncated, invalid", "truncated_rate", "invalid_rate"),
            _count("Turns, trajectories", "trajectories", "turns", "invalid_turns"),
            _count("Tokens of a step", "tokens"),
            _share("Padding", "padding_share"),
            _count("Verdicts from the cache", "verdict_cache_hits", "verdict_cache_misses"),
            Panel("Held out: completion", (r"held_out/completion_length_\w+",), "tokens", (0.0, None)),
            _share("Held out: truncated, invalid", "held_out/(?:truncated|invalid)_rate"),
            _count("Held out: turns, tokens", "held_out/(?:trajectories|turns|invalid_turns|tokens)"),
        ),
    ),
    Section(
        "Time",
        (
            _seconds("Step and phases", "seconds", "collect_s", "train_s", "sync_s", "sample_s", "drain_s", "eval_s"),
            Panel(
                "Speed",
                ("collect_tokens_per_s", "train_tokens_per_s", "tokens_per_s"),
                "tokens a second",
                (0.0, None),
            ),
            _seconds("A turn, mean", r"turn_(?:generate|compile|wait|evaluate)_s_mean"),
            _seconds("A turn, 90th percentile", r"turn_(?:generate|compile|wait|evaluate)_s_p90"),
            _seconds("Weight sync", r"sync_(?:gather|send|load|verify|probe)_s"),
            _seconds("Timing beside sampling", "timed_alone_s", "sampling_paused_s", "timing_wait_s"),
            _count("Timings and their windows", "timings", "timing_windows"),
            _seconds("Held-out evaluation", "held_out/seconds"),
        ),
    ),
    Section(
        "Machine and evaluator",
        (
            _share("GPUs: busy", r"gpu_\d+/utilization"),
            _share("GPUs: memory", r"gpu_\d+/memory_share"),
            _share("Processors, memory", "machine/cpu_utilization", "machine/memory_share"),
            _share("Evaluator: slots busy, lease held", "evaluator/busy_share", "evaluator/lease_held_share"),
            _seconds("Evaluator: wait for the lease", "evaluator/lease_wait_s"),
        ),
    ),
    Section("Warnings", (Panel("Active warnings", ("health/.+",), "1 if active", (0.0, 1.0)),)),
)

OTHER: Final = Section("Other", (Panel("Other figures", (".+",), ""),))
"""Figures in no section: those of another package, such as your own algorithm."""

_HIGHEST: Final = (
    "reward_mean", "solved_rate", "correct_rate", "speedup_mean", "held_out/solved_rate", "held_out/best_score_mean",
    "held_out/speedup_geomean", "eval_accuracy", "sampler_kl", "probe_gap", "grad_norm_max", "invalid_rate",
)  # fmt: skip
_LOWEST: Final = ("loss", "eval_loss", "entropy")

SUMMARIES: Final[dict[str, str]] = dict.fromkeys(_HIGHEST, "max") | dict.fromkeys(_LOWEST, "min")
"""The aggregate of a figure that a table of runs shows next to its last value."""


def shown_sections(names: Iterable[str], sections: Sequence[Section] = SECTIONS) -> list[ShownSection]:
    """Return the sections and panels that have something to show; each figure once, in the first panel that names it.

    What no panel names comes last, under OTHER.
    """
    left = dict.fromkeys(name for name in names if name != STEP)
    found = []
    for section in (*sections, OTHER):
        panels = []
        for panel in section.panels:
            if figures := tuple(dict.fromkeys(panel.shown(left))):
                panels.append(ShownPanel(panel, figures))
                for name in figures:
                    del left[name]
        if panels:
            found.append(ShownSection(section, tuple(panels)))
    return found


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort `turn_10` behind `turn_9`."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
