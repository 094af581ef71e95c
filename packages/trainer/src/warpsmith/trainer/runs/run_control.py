"""Control flow shared by SFT and GRPO runs: resume, stop, save, log; with the same decisions on every rank."""

import time
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean

from warpsmith.records import tracing
from warpsmith.records.writer import RunWriter
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.config.sft import SftConfig
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.distributed.zero_engine import ZeroEngine
from warpsmith.trainer.runs.interrupt import Interrupt
from warpsmith.trainer.telemetry.step_log import StepLog
from warpsmith.trainer.telemetry.step_spans import SERVICE
from warpsmith.trainer.weights import checkpoint
from warpsmith.trainer.weights.checkpoint import Progress


class RunControl:
    """Keeps one rank's run in sync with the others and on disk; its methods are collective.

    Args:
        config: the run's configuration.
        ranks: the processes.
        engine: what is trained.
        steps: the number of steps.
    """

    def __init__(self, config: SftConfig | TrainerConfig, ranks: Ranks, engine: ZeroEngine, steps: int) -> None:
        self.config, self.ranks, self.engine = config, ranks, engine
        self.steps = steps
        self._plain = config.model_dump(mode="json")
        self._base = checkpoint.base_of(config.policy) if ranks.drives else None
        self._saved_at = -1
        self._began = time.monotonic()
        self._before = 0.0
        self._scores: list[float] = []
        self._by_held_out = isinstance(config, TrainerConfig) and bool(config.held_out and config.held_out.every)
        self._held_out_score: float | None = None

    def begin(self, resume: bool) -> Progress:
        """Return the run's progress: its start, or the newest checkpoint, which is loaded.

        Raises:
            CheckpointError: there is none, or its configuration differs.
        """
        if not resume:
            return Progress()
        found = self.ranks.shared(self._newest)
        progress = checkpoint.load(found, self.engine, self.ranks, self._plain)
        self._saved_at, self._before = progress.step, progress.seconds
        return progress

    def _newest(self) -> Path:
        checkpoint.sweep(self.config.run.dir)
        return checkpoint.latest(self.config.run.dir)

    @property
    def seconds(self) -> float:
        """Wall time of the run over all its starts, in seconds."""
        return self._before + time.monotonic() - self._began

    def should_continue(self, progress: Progress, stop: Interrupt) -> bool:
        """Return rank 0's decision whether to make another step: steps, seconds and signals allow it."""
        run = self.config.run
        spent = time.monotonic() - self._began
        over = progress.step >= self.steps or (run.seconds is not None and spent >= run.seconds)
        return not self.ranks.shared(lambda: over or stop.requested)

    def note(self, score: float | None) -> None:
        """Add a step's score (higher is better) to the next checkpoint, unless held-out problems give its score."""
        if score is not None and not self._by_held_out:
            self._scores.append(score)

    def save_if_due(self, progress: Progress, held_out_score: float | None = None) -> None:
        """Write a checkpoint if `checkpoint.every` requires it, or if a policy was evaluated that may be the best.

        Args:
            progress: the run's.
            held_out_score: of the policy after this step, if it was evaluated on held-out problems.
        """
        section = self.config.checkpoint
        due = bool(section.every) and progress.step % section.every == 0
        if due or (held_out_score is not None and section.keep_best > 0):
            self._held_out_score = held_out_score
            self.save(progress)

    def rescore(self, progress: Progress, held_out_score: float | None) -> None:
        """Give the checkpoint of this step the score of an evaluation that came after it."""
        if self._by_held_out and held_out_score is not None and self.ranks.drives:
            checkpoint.set_score(self.config.run.dir, progress.step, held_out_score)

    def save(self, progress: Progress) -> None:
        """Write a checkpoint, unless this step has one."""
        if progress.step == self._saved_at:
            return
        section = self.config.checkpoint
        checkpoint.save(
            self.config.run.dir, self.engine, self.ranks, progress,
            config=self._plain, keep=section.keep, keep_best=section.keep_best,
            score=self._score(), base=self._base,
        )  # fmt: skip
        self._saved_at = progress.step
        self._scores.clear()
        self._held_out_score = None

    def _score(self) -> float | None:
        if self._by_held_out:
            return self._held_out_score
        return fmean(self._scores) if self._scores else None

    def log(self, stack: ExitStack, writer: RunWriter | None = None) -> StepLog | None:
        """Open the step log on rank 0 until `stack` is closed."""
        if not self.ranks.drives:
            return None
        if self._saved_at < 0:
            checkpoint.mark_start(self.config.run.dir, self.ranks, self._plain, self._base)
        if self.config.trackers.otel:
            stack.enter_context(tracing.exported(SERVICE))
        writer = writer or stack.enter_context(RunWriter(self.config.run.dir))
        return stack.enter_context(
            StepLog(writer, self.config.run, self.config.wandb, self.config, self.config.trackers)
        )
