"""Multi-turn GRPO: collect, write the turns, credit, write the credits, train, sync, probe, write the step."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from warpsmith.policy.chat_checks import sampling_doubts
from warpsmith.policy.dropout import switch_off
from warpsmith.records.live_json import LIVE_FILE
from warpsmith.records.ownership import owned
from warpsmith.records.schema import credits_batch
from warpsmith.records.units import duration
from warpsmith.rollout.environments.registry import max_turns
from warpsmith.trainer.advantage.credit_rows import CreditedBatch
from warpsmith.trainer.advantage.crediting import Crediting
from warpsmith.trainer.advantage.types import Credit
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.distributed.ranks import Ranks, join, leave, peers_needed
from warpsmith.trainer.distributed.trained_policy import load_to_train
from warpsmith.trainer.doctor.files import disk
from warpsmith.trainer.doctor.preflight import preflight
from warpsmith.trainer.launch.launcher import is_launched
from warpsmith.trainer.launch.rank_log import logs_of
from warpsmith.trainer.rollouts.batch import training_turns
from warpsmith.trainer.rollouts.batch_source import BatchSource, Sampled, groups_with_spread, trained_part
from warpsmith.trainer.rollouts.prefetch import RunAhead
from warpsmith.trainer.rollouts.recorded_batches import RecordedBatches, recorded_figures
from warpsmith.trainer.rollouts.session import RolloutSession
from warpsmith.trainer.runs.held_out_evaluation import HeldOutEvaluation
from warpsmith.trainer.runs.interrupt import Interrupt
from warpsmith.trainer.runs.models import policy_engine, reference_policy
from warpsmith.trainer.runs.policy_update import PolicyUpdate, Updated
from warpsmith.trainer.runs.run_control import RunControl
from warpsmith.trainer.telemetry import step_spans
from warpsmith.trainer.telemetry.batch_metrics import (
    batch_figures,
    columns,
    credit_figures,
    level_figures,
    phase_figures,
    spread_figures,
    staleness,
    trained_tokens,
)
from warpsmith.trainer.telemetry.display import RunDisplay
from warpsmith.trainer.telemetry.machine_use import MachineUse
from warpsmith.trainer.telemetry.phase_log import PhaseLog
from warpsmith.trainer.telemetry.step_log import StepLog
from warpsmith.trainer.telemetry.warnings import Watch
from warpsmith.trainer.weights import checkpoint
from warpsmith.trainer.weights.checkpoint import Progress, under_recorded_name
from warpsmith.trainer.weights.export import export
from warpsmith.trainer.weights.transport import choose
from warpsmith.trainer.weights.weight_sync import Synced, WeightSync


def run_grpo(config: TrainerConfig, *, resume: bool = False) -> Path:
    """Train as `config` says; every rank calls it, with or without a launcher.

    Returns:
        The run's directory. At the end it has `final_model`, unless `checkpoint.export_final` is off. If a held-out
        evaluation has no valid turn, `summary.json` says so, and the run still counts as done.

    Raises:
        RunInUseError, ConfigError, CheckpointError, DatasetError: the run cannot start.
        SamplerError, EvaluatorError: the sampler or the judge is gone.
        SyncError: new weights did not arrive.
        DivergenceError: the loss or the gradient is not finite.
        CollectionError: every turn of a batch was lost.
        StalenessError: a batch is older than `algorithm.max_staleness` allows.
        CheckpointWriteError, RecordWriteError: the disk is full or refuses to write.
        LaunchError: another rank has ended.
    """
    phases = PhaseLog()
    with phases.start("process group"):
        ranks = join(config.run, config.zero, config.parallel)
    with peers_needed(), ExitStack() as stack:
        if ranks.drives:
            stack.enter_context(owned(config.run.dir))
            with phases.start("checks"):
                preflight(config, resume)
        ranks.barrier()
        config = under_recorded_name(config) if resume else config
        run = config.run
        machine = stack.enter_context(MachineUse(on=ranks.drives))
        turns = _turns_of_a_step(config)
        display = stack.enter_context(
            RunDisplay(run.title, run.steps, run.console, shown=ranks.drives, machine=machine, step_turns=turns)
        )
        phases.entered = lambda name: display.enter(f"start: {name}")
        if ranks.drives:
            display.say(_opening(config, resume))
        session = stack.enter_context(RolloutSession(config, display, phases)) if ranks.drives else None
        GrpoRun(config, ranks, session, display, phases, machine=machine).run(resume)
    leave()
    return config.run.dir


class GrpoRun:
    """One run on one rank; only rank 0 has a `session`."""

    def __init__(
        self,
        config: TrainerConfig,
        ranks: Ranks,
        session: RolloutSession | None,
        display: RunDisplay,
        phases: PhaseLog,
        *,
        machine: MachineUse,
    ) -> None:
        self.config, self.ranks, self.session, self.display = config, ranks, session, display
        self.phases, self.machine = phases, machine
        with phases.start("loading the policy"):
            self.policy = load_to_train(config.policy, config.run.seed)
        if places := switch_off(self.policy.model):
            display.say(f"Dropout in {places} places of the model is switched off: its samplers have none.")
        for doubt in sampling_doubts(self.policy.chat):
            display.warn(doubt.message)
        with phases.start("DeepSpeed"):
            self.engine = policy_engine(config, self.policy.model, ranks)
            reference = reference_policy(config, self.engine, ranks)
        self.crediting = Crediting(config, self.engine, reference, ranks)
        self.update = PolicyUpdate(self.engine, reference, ranks, config)
        self.control = RunControl(config, ranks, self.engine, config.run.steps)
        self.weights: WeightSync | None = None
        self.log: StepLog | None = None
        self.source: BatchSource | RunAhead | None = None
        self.watch = Watch(config.health)
        self.held_out = HeldOutEvaluation(config, ranks, session, display, self._log_held_out)

    def run(self, resume: bool) -> None:
        with ExitStack() as stack:
            progress = self.control.begin(resume)
            if self.session is not None:
                self.display.enter("start the samplers")
                self.session.ready(self.policy.chat)
                self.phases.keep(self.config.run.dir)
                with self.phases.start("records and W&B"):
                    self.log = self.control.log(stack, self.session.writer)
            stop = stack.enter_context(Interrupt(self.ranks.drives, launched=is_launched()))
            with self.phases.start("first weights and probe"):
                self.weights = self._weight_sync()
                first = self.weights.send(progress.weight_version)
            self._say_gap(progress.weight_version, first.gap)
            if self.session is not None:
                self.session.note_first_token()
                self.display.say(self.phases.start_in_words())
            self._restore_recorded(progress, resume, stack)
            self.held_out.before(progress)
            self.display.work.resume_at(progress.step)
            while self.control.should_continue(progress, stop):
                with step_spans.step(progress.step + 1, self.config.run.title):
                    progress = self._step(progress)
                score = self.held_out.during(progress)
                self.display.enter(f"checkpoint of step {progress.step}")
                self.control.save_if_due(progress, score)
            self._end(progress)

    # One step --------------------------------------------------------------------------------------------------------

    def _step(self, progress: Progress) -> Progress:
        began, started_at = time.monotonic(), datetime.now(UTC)
        step = progress.step + 1
        # What was used since the last step, for example by an evaluation, is not this one's.
        self._use(0.0)
        self.display.enter(f"collect step {step}")
        self.ranks.settle()
        sampled = self.ranks.shared(lambda: self._collected(step, progress))
        collected = time.monotonic()
        self.display.enter(f"train step {step}")
        table = sampled.table()
        batch = self._trained_part(table)
        credit, taken_off = self.crediting.credit(batch)
        credited = CreditedBatch(batch, credit, self.config.algorithm.estimator.type, step, progress.weight_version)
        self._write_credits(credited.rows())
        trained = self.train_on(batch, credit, progress)
        trained_at = time.monotonic()
        self._write_credits(credited.rows_with(trained.rows))
        self.display.enter(f"sync step {step}")
        version = progress.weight_version + (1 if trained.made else 0)
        synced = self._synced(version) if trained.made else Synced(0.0, {})
        synced_at = time.monotonic()
        ahead = self._published(step, version, synced=bool(trained.made))
        phases = {"collect_s": collected - began, "train_s": trained_at - collected, "sync_s": synced_at - trained_at}
        of_batch = self.figures_of(table)
        figures = {
            **of_batch, **staleness(table, progress.weight_version),
            **credit_figures(credit), **trained.figures, **taken_off, **phases,
            **_collect_speed(sampled, of_batch["tokens"]),
            **ahead, **synced.figures, "probe_gap": synced.gap,
            "rounds": float(sampled.rounds), "sample_s": sampled.seconds, **sampled.figures,
        }  # fmt: skip
        self._write_step(step, version, started_at, figures)
        self.control.note(figures.get("reward_mean"))
        return replace(
            progress,
            step=step,
            update=progress.update + trained.made,
            cursor=progress.cursor + sampled.problems,
            weight_version=version,
            seconds=self.control.seconds,
            curriculum=sampled.curriculum,
        )

    def _collected(self, step: int, progress: Progress) -> Sampled:
        if self.source is None:
            raise AssertionError("only rank 0 samples")
        return self.source.collect(step, progress)

    def _trained_part(self, table: pa.Table) -> pa.Table:
        """Return the turns that the step trains; the others stay in the records, without credit."""
        algorithm = self.config.algorithm
        if algorithm.dynamic_sampling is None:
            return table
        return trained_part(table, algorithm.estimator, algorithm.prompts_per_step)

    def figures_of(self, table: pa.Table) -> dict[str, float]:
        """Return the figures of all sampled turns, so that dropped ones do not flatter them."""
        algorithm = self.config.algorithm
        spread = None if algorithm.has_value_head else len(groups_with_spread(table, algorithm.estimator))
        return {**batch_figures(table), **level_figures(table), **spread_figures(table, spread), **phase_figures(table)}

    def train_on(self, batch: pa.Table, credit: Credit, progress: Progress) -> Updated:
        """Make the updates of one step on its turns; collective."""
        algorithm = self.config.algorithm
        turns = training_turns(
            batch, credit, updates=algorithm.updates_per_step, mask_truncated=algorithm.mask_truncated
        )
        began = time.monotonic()
        done = self.update.run(turns, progress.step)
        if not done.made:
            return done
        speed = trained_tokens(turns, done.rows) / (time.monotonic() - began)
        return replace(done, figures={**done.figures, "train_tokens_per_s": speed})

    def _weight_sync(self) -> WeightSync:
        link = None if self.session is None else self.session.link
        transport = choose(self.config, self.ranks, link)
        self.display.say(str(transport))
        return WeightSync(self.config, self.engine, self.ranks, link, transport)

    def _synced(self, version: int) -> Synced:
        """Send the weights to the samplers and check that they arrived."""
        if self.weights is None:
            raise AssertionError("run was not called")
        return self.weights.send(version)

    def _published(self, step: int, version: int, *, synced: bool) -> dict[str, float]:
        """Admit rollouts of later steps that waited for this one; return how far ahead they are, empty off rank 0."""
        if self.session is None or not isinstance(self.source, RunAhead):
            return {}
        self.source.published(step, version)
        return {
            "batches_ahead": float(self.source.waiting),
            "drain_s": self.session.drained_s if synced else 0.0,
        }

    def _say_gap(self, version: int, gap: float) -> None:
        self.display.say(
            f"The samplers have weight version {version}; the largest gap of a log-probability is {gap:.1e}."
        )

    def _restore_recorded(self, progress: Progress, resume: bool, stack: ExitStack) -> None:
        """Resume what an earlier start recorded: batches that are not trained yet, and the figures of its steps.

        Batches that are sampled ahead are dropped when `stack` ends.
        """
        if self.session is None:
            return
        recorded = RecordedBatches(self.config.run.dir, progress.step) if resume else None
        self.source = source = BatchSource(
            self.config, self.session.problems, self.session.collect, recorded=recorded, say=self.display.say
        )
        if self.config.algorithm.max_staleness:
            self.source = ahead = self.session.ahead(source.collect, progress)
            stack.callback(ahead.stop)
        if resume:
            self.watch = Watch(self.config.health, recorded_figures(self.config.run.dir, progress.step))

    # Before and after ------------------------------------------------------------------------------------------------

    def _end(self, progress: Progress) -> None:
        self.display.enter("last checkpoint and final model")
        self.control.save(progress)
        run, final = self.config.run, self.config.run.dir / "final_model"
        if progress.step < run.steps:
            self.display.say(f"Stopped after step {progress.step} of {run.steps}; resume with --resume.")
            return
        # Before anything else that can fail, so that a failing evaluation does not lose the trained weights.
        if self.config.checkpoint.export_final:
            export(self.policy, self.engine, self.ranks, final, self.config.sync.gather_elements)
        self.control.rescore(progress, self.held_out.after(progress))
        self.display.say(_ending(run.dir, final))

    # Small parts -----------------------------------------------------------------------------------------------------

    def _write_credits(self, rows: Sequence[Mapping[str, Any]]) -> None:
        if self.session is not None and rows:
            self.session.writer.append("credits", credits_batch(rows))

    def _log_held_out(self, step: int, figures: Mapping[str, float]) -> None:
        if self.log is not None:
            self.log.held_out(step, figures)

    def _use(self, seconds: float) -> dict[str, float]:
        """Return how busy machine and evaluator were since the last call, `seconds` ago."""
        if self.session is None:
            return {}
        return {**self.machine.figures(), **self.session.use_figures(seconds)}

    def _write_step(self, step: int, version: int, started_at: datetime, figures: dict[str, float]) -> None:
        if self.session is None or self.log is None:
            return
        figures = {**figures, **self.session.cache_figures(), **self.session.window_figures(), **columns(figures)}
        seconds = (datetime.now(UTC) - started_at).total_seconds()
        figures |= self._use(seconds)
        finding = self.watch.look(figures)
        figures |= finding.flags
        self.log.step(step, weight_version=version, started_at=started_at, seconds=seconds, figures=figures)
        self.display.step(step, figures)
        for name, text in finding.messages:
            self.display.warn(f"step {step}, {name}: {text}")
            self.log.warn(name, f"Step {step}: {text}")


def _opening(config: TrainerConfig, resume: bool) -> str:
    """Return what a run will do, where its logs are, the disk space that it needs, and what is known about its time."""
    run, algorithm = config.run, config.algorithm
    said = (
        f"{run.title}: {run.steps} steps of {algorithm.prompts_per_step} problems x {algorithm.samples_per_prompt} "
        f"samples, at most {max_turns(config.rollout)} turns each, in {run.dir}."
    )
    space = " ".join(f"{found.seen}." for found in disk(config, resume))
    live = f"\nLive JSON: {run.dir / LIVE_FILE}, a line for each turn and trajectory." if run.live_json else ""
    time = _expected_time(config, resume)
    return f"{said}\nTime: {time}\nDisk: {space}\nLogs: {logs_of(run.dir)}, a file for each process.{live}"


def _recorded_progress(run_dir: Path) -> Progress:
    return Progress(**checkpoint.read_state(checkpoint.latest(run_dir))["progress"])


def _turns_of_a_step(config: TrainerConfig) -> int:
    algorithm = config.algorithm
    return algorithm.prompts_per_step * algorithm.samples_per_prompt * max_turns(config.rollout)


def _expected_time(config: TrainerConfig, resume: bool) -> str:
    """Return what is known about a run's time before it starts: a limit, and the pace of its earlier starts."""
    run = config.run
    limit = "" if run.seconds is None else f"at most {duration(run.seconds)} (run.seconds), then a checkpoint; "
    before = _recorded_progress(run.dir) if resume else None
    if before is None or not before.step:
        return f"{limit}an estimate follows as soon as an eighth of a batch's turns have ended."
    pace, left = before.seconds / before.step, max(0, run.steps - before.step)
    return f"{limit}about {duration(left * pace)} for {left} steps, at {duration(pace)} a step until now."


def _ending(run_dir: Path, final: Path) -> str:
    """Return where a finished run's results are."""
    model = final if final.exists() else f"in the last checkpoint; `warpsmith-trainer export {run_dir}` writes it"
    return (
        f"Done.\n  model    {model}\n  records  {run_dir / 'records'}\n"
        f"  summary  `warpsmith-records summary {run_dir}`\n  report   `warpsmith-records report {run_dir}`"
    )


def _collect_speed(sampled: Sampled, tokens: float) -> dict[str, float]:
    """Return the speed of sampling a batch; empty if an earlier start recorded it."""
    return {} if sampled.recorded else {"collect_tokens_per_s": tokens / sampled.seconds}
