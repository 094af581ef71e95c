"""The evaluation on held-out problems: before the first step of a GRPO run, every so many steps, and after its last."""

import time
from collections.abc import Callable, Mapping

from warpsmith.trainer.config.grpo import HeldOutSection, TrainerConfig
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.errors import CollectionError
from warpsmith.trainer.rollouts.session import RolloutSession
from warpsmith.trainer.telemetry import held_out
from warpsmith.trainer.telemetry.display import RunDisplay
from warpsmith.trainer.weights.checkpoint import Progress

_SHOWN = (
    *("solved_rate", "correct_rate", "compiled_rate", "speedup_geomean", "fast_1.2", "fast_2", "reward_mean"),
    *("best_score_mean", "aggregated_return_mean"),
)


class HeldOutEvaluation:
    """Evaluates the policy and keeps the figures in the run's `summary.json`. Collective: rank 0 works, others wait.

    Args:
        config: the run's configuration; `[held_out]` is read.
        ranks: the processes.
        session: samples and evaluates; None on all ranks except 0.
        display: shows progress and results.
        on_figures: gets the finished steps and the figures of each evaluation, on rank 0.
    """

    def __init__(
        self,
        config: TrainerConfig,
        ranks: Ranks,
        session: RolloutSession | None,
        display: RunDisplay,
        on_figures: Callable[[int, Mapping[str, float]], None],
    ) -> None:
        self._section, self._run_dir, self._steps = config.held_out, config.run.dir, config.run.steps
        self._ranks, self._session, self._display, self._on_figures = ranks, session, display, on_figures

    def before(self, progress: Progress) -> None:
        """Evaluate the initial policy, unless this was done before an interruption or is switched off."""
        if progress.step or self._section is None or not self._section.before:
            return
        if not self._ranks.shared(lambda: held_out.is_kept(self._run_dir, "before")):
            self._evaluate("before", progress, self._section)

    def during(self, progress: Progress) -> float | None:
        """Evaluate after a step if `held_out.every` says so; the last step is left to `after`.

        Returns:
            The policy's score, for its checkpoint; None if nothing was evaluated.
        """
        section = self._section
        if section is None or not section.every or progress.step % section.every or progress.step >= self._steps:
            return None
        self._evaluate(progress.step, progress, section)
        return self._ranks.shared(lambda: held_out.score_at(self._run_dir, progress.step))

    def after(self, progress: Progress) -> float | None:
        """Evaluate the trained policy and compare it with the initial one, unless this is switched off.

        Returns:
            As `during`.
        """
        if self._section is None or not self._section.after:
            return None
        self._evaluate("after", progress, self._section)
        if self._ranks.drives:
            self._say_gains()
        return self._ranks.shared(lambda: held_out.score_at(self._run_dir, "after"))

    def _evaluate(self, when: held_out.When, progress: Progress, section: HeldOutSection) -> None:
        words = held_out.in_words(when)
        self._display.enter(f"held-out evaluation {words}")
        self._ranks.settle()
        figures = self._ranks.shared(lambda: self._figures(when, progress, section))
        if isinstance(figures, str):
            if self._ranks.drives:
                held_out.keep_absence(self._run_dir, when, figures)
            self._display.say(f"Held out, {words}: nothing to compare. {figures}")
            return
        if self._ranks.drives:
            held_out.keep_figures(self._run_dir, when, progress.step, figures)
            self._on_figures(progress.step, figures)
        shown = ", ".join(f"{name} {figures[name]:.3f}" for name in _SHOWN if name in figures)
        self._display.say(f"Held out, {words}: {shown}")

    def _figures(self, when: held_out.When, progress: Progress, section: HeldOutSection) -> dict[str, float] | str:
        """Return the figures, or the reason why there are none: a failed comparison must not end the run."""
        if self._session is None:
            raise AssertionError("only rank 0 samples")
        began = time.monotonic()
        try:
            table = self._session.collect(
                self._session.held_out, section.samples,
                label=held_out.label(when), seed=section.seed, role="held_out",
                after_step=progress.step, weight_version=progress.weight_version,
            )  # fmt: skip
        except CollectionError as error:
            return error.message
        return {**held_out.figures_of(table), "seconds": time.monotonic() - began}

    def _say_gains(self) -> None:
        gains = held_out.keep_gains(self._run_dir)
        for name, gain in gains.items():
            self._display.say(f"Held out, gain: {held_out.gain_in_words(name, gain)}")
        if not gains and (reason := held_out.absence(self._run_dir)) is not None:
            self._display.say(f"Held out: no comparison of before and after, since {reason}")
        if (
            self._section is not None
            and self._section.every
            and (best := held_out.best_step(self._run_dir)) is not None
        ):
            self._display.say(f"Held out: the policy after step {best} has the best score.")
