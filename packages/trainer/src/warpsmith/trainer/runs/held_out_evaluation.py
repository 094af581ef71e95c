"""The evaluation on held-out problems, before the first step of a GRPO run and after its last."""

import time

from warpsmith.trainer.config.grpo import HeldOutSection, TrainerConfig
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.errors import CollectionError
from warpsmith.trainer.rollouts.session import RolloutSession
from warpsmith.trainer.telemetry import held_out
from warpsmith.trainer.telemetry.batch_metrics import batch_figures
from warpsmith.trainer.telemetry.display import RunDisplay
from warpsmith.trainer.weights.checkpoint import Progress

_SHOWN = ("solved_rate", "correct_rate", "compiled_rate", "reward_mean", "aggregated_return_mean")


class HeldOutEvaluation:
    """Evaluates the policy and keeps the figures in the run's `summary.json`. Collective: rank 0 works, others wait.

    Args:
        config: the run's configuration; `[held_out]` is read.
        ranks: the processes.
        session: samples and evaluates; None on all ranks except 0.
        display: shows progress and results.
    """

    def __init__(
        self, config: TrainerConfig, ranks: Ranks, session: RolloutSession | None, display: RunDisplay
    ) -> None:
        self._section, self._run_dir = config.held_out, config.run.dir
        self._ranks, self._session, self._display = ranks, session, display

    def before(self, progress: Progress) -> None:
        """Evaluate the initial policy, unless this was done before an interruption or is switched off."""
        if progress.step or self._section is None or not self._section.before:
            return
        if not self._ranks.shared(lambda: held_out.is_kept(self._run_dir, "before")):
            self._evaluate("before", progress, self._section)

    def after(self, progress: Progress) -> None:
        """Evaluate the trained policy and compare it with the initial one, unless this is switched off."""
        if self._section is not None and self._section.after:
            self._evaluate("after", progress, self._section)
            self._say_gain()

    def _evaluate(self, when: held_out.When, progress: Progress, section: HeldOutSection) -> None:
        self._display.enter(f"held-out evaluation {when} training")
        self._ranks.settle()
        figures = self._ranks.shared(lambda: self._figures(when, progress, section))
        if isinstance(figures, str):
            if self._ranks.drives:
                held_out.keep_absence(self._run_dir, when, figures)
            self._display.say(f"Held out, {when} training: nothing to compare. {figures}")
            return
        if self._ranks.drives:
            held_out.keep_figures(self._run_dir, when, progress.step, figures)
        shown = ", ".join(f"{name} {figures[name]:.3f}" for name in _SHOWN if name in figures)
        self._display.say(f"Held out, {when} training: {shown}")

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
        return {**batch_figures(table), "seconds": time.monotonic() - began}

    def _say_gain(self) -> None:
        if not self._ranks.drives:
            return
        gain = held_out.keep_gain(self._run_dir)
        if gain is None and (reason := held_out.absence(self._run_dir)) is not None:
            self._display.say(f"Held out: no comparison of before and after, since {reason}")
        if gain is not None:
            self._display.say(
                f"Held out, gain: solved {gain.first:.1%} -> {gain.second:.1%}, {gain.difference:+.1%}, 95 % interval "
                f"{gain.low:+.1%} to {gain.high:+.1%} over {gain.problems} problems"
            )
