"""Warnings about metrics: each check has one metric, one threshold of `[health]`, and a remedy.

The default limits are chosen to notice a failing run before it is lost; they are heuristics.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from types import MappingProxyType

from warpsmith.trainer.config.health import HealthSection

Figures = Mapping[str, float]


@dataclass(frozen=True)
class Course:
    """The figures of a run's steps, oldest first; the last is the current step.

    Attributes:
        steps: figures of each step; a step that trained nothing lacks those of the update.
        limits: the limits, `[health]`.
    """

    steps: Sequence[Figures]
    limits: HealthSection

    def now(self, name: str) -> float | None:
        """Return the current step's figure; None if it has none."""
        return self.steps[-1].get(name)

    def before(self, name: str) -> list[float]:
        """Return the figure of every earlier step that has it."""
        return [step[name] for step in self.steps[:-1] if name in step]

    def initial_mean(self, name: str) -> float | None:
        """Return the mean of the first `baseline_steps` steps that have the figure; None before that many."""
        first = self.before(name)[: self.limits.baseline_steps]
        return fmean(first) if len(first) == self.limits.baseline_steps else None

    def recent_mean(self, name: str) -> float | None:
        """Return the mean of the last `patience` steps; None before that many."""
        last = [step[name] for step in self.steps[-self.limits.patience :] if name in step]
        return fmean(last) if len(last) == self.limits.patience else None


def _entropy(course: Course) -> str | None:
    now, first, share = course.now("entropy"), course.initial_mean("entropy"), course.limits.entropy_share
    if now is None or first is None or now >= share * first:
        return None
    return (
        f"The entropy is {now:.3g} nats per token, {now / first:.0%} of the initial {first:.3g}: "
        "the policy hardly explores any more. Raise algorithm.entropy_coefficient or algorithm.clip.high, or lower "
        "optimizer.lr."
    )


def _kl(course: Course) -> str | None:
    now, limit = course.now("kl_reference"), course.limits.kl_max
    if now is None or limit is None or now <= limit:
        return None
    return (
        f"The policy is {now:.3g} nats per token from the reference policy. Raise algorithm.kl.coefficient or lower "
        "optimizer.lr; check completions for text that only exploits the reward."
    )


def _kl_update(course: Course) -> str | None:
    now, limit = course.now("kl_old"), course.limits.kl_update_max
    if now is None or limit is None or now <= limit:
        return None
    return (
        f"Within one batch the policy moved {now:.3g} nats per token. Lower optimizer.lr, updates_per_step or "
        "epochs_per_step, or narrow the clip."
    )


def _grad_norm(course: Course) -> str | None:
    limits = course.limits
    now, window = course.now("grad_norm_max"), course.before("grad_norm_max")[-limits.grad_norm_window :]
    if now is None or limits.grad_norm_factor is None or 4 * len(window) < limits.grad_norm_window:
        return None
    usual = median(window)
    if now <= limits.grad_norm_factor * usual:
        return None
    return (
        f"The gradient's norm is {now:.3g}; the median of the last {len(window)} steps is {usual:.3g}. One spike is "
        "clipped (optimizer.max_grad_norm); if it recurs, lower optimizer.lr; check the longest turns."
    )


def _no_spread(course: Course) -> str | None:
    recent, limit = course.recent_mean("no_spread_rate"), course.limits.no_spread_max
    if recent is None or limit is None or recent < limit:
        return None
    reward = course.now("reward_mean")
    level = "" if reward is None else f" The mean score is {reward:.3g}: all solved if high, all failed if low."
    return (
        f"{recent:.0%} of the groups have no spread and give no signal.{level} Choose harder or easier problems, raise "
        "samples_per_prompt or the temperature, or set algorithm.dynamic_sampling."
    )


def _sampler(course: Course) -> str | None:
    now, first, limits = course.now("sampler_kl"), course.initial_mean("sampler_kl"), course.limits
    if now is None:
        return None
    what = f"Sampler and trainer are {now:.3g} nats per token apart"
    do = 'Set algorithm.old_logprobs = "recompute" with a correction, or let both compute in the same precision.'
    if limits.sampler_kl_max is not None and now > limits.sampler_kl_max:
        return f"{what}. {do}"
    if first is None or limits.sampler_kl_growth is None:
        return None
    if now > max(limits.sampler_kl_growth * first, limits.sampler_kl_floor):
        return f"{what}, initially {first:.3g}. {do}"
    return None


def _truncated(course: Course) -> str | None:
    recent, limit = course.recent_mean("truncated_rate"), course.limits.truncated_max
    if recent is None or limit is None or recent < limit:
        return None
    return (
        f"{recent:.0%} of the completions reached the length limit. "
        "Raise rollout.sampling.max_tokens, or set algorithm.overlong or mask_truncated."
    )


def _invalid(course: Course) -> str | None:
    recent, limit = course.recent_mean("invalid_rate"), course.limits.invalid_max
    if recent is None or limit is None or recent < limit:
        return None
    return (
        f"{recent:.0%} of the turns are invalid: the sampler, the evaluator or the problems failed, not the policy. "
        "`invalid_reason` in the turns says why."
    )


CHECKS: Mapping[str, Callable[[Course], str | None]] = MappingProxyType(
    {
        "entropy_collapse": _entropy,
        "kl_high": _kl,
        "kl_update_high": _kl_update,
        "grad_norm_spike": _grad_norm,
        "no_spread": _no_spread,
        "sampler_mismatch": _sampler,
        "truncated_high": _truncated,
        "invalid_high": _invalid,
    }
)
"""The checks, in the order of the warnings; each has a figure `health/<name>`, 0 or 1, in every step."""

_READ = frozenset(
    {
        "entropy",
        "kl_reference",
        "kl_old",
        "grad_norm_max",
        "no_spread_rate",
        "sampler_kl",
        "truncated_rate",
        "invalid_rate",
    }
)
"""Figures of earlier steps that a check uses."""


@dataclass(frozen=True)
class Finding:
    """The warnings of a step.

    Attributes:
        flags: `health/<name>` of every check, 1 if it warns.
        messages: (name, text) of warnings to print now: new ones, and continuing ones every `repeat_every` steps.
    """

    flags: Mapping[str, float]
    messages: Sequence[tuple[str, str]]


class Watch:
    """Checks every step of a run.

    Args:
        limits: the limits, `[health]`.
        history: figures of the steps before, oldest first, for a resumed run.
    """

    def __init__(self, limits: HealthSection, history: Iterable[Figures] = ()) -> None:
        self._limits = limits
        self._steps = [_kept(figures) for figures in history]
        self._held: dict[str, int] = {}

    def look(self, figures: Figures) -> Finding:
        """Return the warnings for the next step's figures."""
        course = Course([*self._steps, figures], self._limits)
        found = {name: text for name, check in CHECKS.items() if (text := check(course)) is not None}
        self._steps.append(_kept(figures))
        # A check that stops warning starts over.
        self._held = {name: self._held.get(name, -1) + 1 for name in found}
        messages = [(name, text) for name, text in found.items() if self._held[name] % self._limits.repeat_every == 0]
        return Finding({f"health/{name}": float(name in found) for name in CHECKS}, messages)


def _kept(figures: Figures) -> Figures:
    return {name: value for name, value in figures.items() if name in _READ}
