"""Supervised fine-tuning on chats, with the loss on the assistant's turns."""

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import torch
from torch import Tensor

from warpsmith.policy.loading import chat_of
from warpsmith.records.ownership import owned
from warpsmith.trainer.config.sft import SftConfig
from warpsmith.trainer.data.dataset import SftData, open_data, report_counts
from warpsmith.trainer.distributed.micro_batches import dealt_to, micro_batches_of, padding_share
from warpsmith.trainer.distributed.optimizer import learning_rate
from warpsmith.trainer.distributed.ranks import Ranks, join, leave, peers_needed
from warpsmith.trainer.distributed.rows import Row, pad_rows
from warpsmith.trainer.distributed.trained_policy import load_to_train
from warpsmith.trainer.distributed.zero_engine import ZeroEngine
from warpsmith.trainer.doctor.preflight import preflight
from warpsmith.trainer.launch.launcher import is_launched
from warpsmith.trainer.runs.interrupt import Interrupt
from warpsmith.trainer.runs.run_control import RunControl
from warpsmith.trainer.telemetry import step_spans
from warpsmith.trainer.telemetry.phase_log import PhaseLog
from warpsmith.trainer.telemetry.progress_bar import Bar
from warpsmith.trainer.telemetry.step_log import StepLog
from warpsmith.trainer.weights.checkpoint import Progress, under_recorded_name
from warpsmith.trainer.weights.export import export


def run_sft(config: SftConfig, *, resume: bool = False) -> Path:
    """Fine-tune as `config` says; every rank calls it, with or without a launcher.

    Returns:
        The run's directory. At the end it has `final_model`, unless `checkpoint.export_final` is off.

    Raises:
        RunInUseError, ConfigError, DataError, NoRecordsError, SegmentError, CheckpointError: the run cannot start.
        DivergenceError: the loss or the gradient is not finite.
        CheckpointWriteError, DataWriteError, RecordWriteError: the disk is full or refuses to write.
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
        with phases.start("data"):
            chat = chat_of(config.policy)
            data = open_data(config, chat, ranks, resume=resume)
        directory = SftRun(config, ranks, data, phases).run(resume)
    leave()
    return directory


class SftRun:
    """One supervised run on one rank."""

    def __init__(self, config: SftConfig, ranks: Ranks, data: SftData, phases: PhaseLog | None = None) -> None:
        self.config, self.ranks, self.data = config, ranks, data
        self.phases = phases = phases or PhaseLog()
        self.steps = config.run.updates(len(data.order), config.data.batch_size)
        with phases.start("loading the policy"):
            self.policy = load_to_train(config.policy, config.run.seed)
        with phases.start("DeepSpeed"):
            self.engine = ZeroEngine(
                self.policy.model, zero=config.zero, optimizer=config.optimizer, ranks=ranks, dtype=config.policy.dtype,
                lora=config.policy.lora,
            )  # fmt: skip
        self.control = RunControl(config, ranks, self.engine, self.steps)

    def run(self, resume: bool) -> Path:
        run, final = self.config.run, self.config.run.dir / "final_model"
        with ExitStack() as stack:
            progress = self.control.begin(resume)
            log = self.control.log(stack)
            bar = stack.enter_context(Bar("sft", self.steps, shown=self.ranks.drives, start=progress.step))
            stop = stack.enter_context(Interrupt(self.ranks.drives, launched=is_launched()))
            report_counts(self.data, bar.say)
            if self.ranks.drives:
                self.phases.keep(run.dir)
                bar.say(self.phases.start_in_words())
            while self.control.should_continue(progress, stop):
                with step_spans.step(progress.step + 1, run.title):
                    progress = self._step(progress, log, bar)
                self.control.save_if_due(progress)
            self.control.save(progress)
            if self.config.checkpoint.export_final and progress.step >= self.steps:
                export(self.policy, self.engine, self.ranks, final, self.config.zero.bucket_elements)
            bar.say(_ending(progress, self.steps, final))
        return run.dir

    def _step(self, progress: Progress, log: StepLog | None, bar: Bar) -> Progress:
        data, order = self.config.data, self.data.order
        began, started_at = time.monotonic(), datetime.now(UTC)
        cursor = progress.cursor + data.batch_size
        figures = self._update(self.data.rows(order.taken(progress.cursor, data.batch_size)), progress.step)
        figures["epoch"] = cursor / len(order)
        self.control.note(-figures["loss"])
        step = progress.step + 1
        if step == self.steps or (data.eval_every and step % data.eval_every == 0):
            figures |= self._evaluate()
        if log is not None:
            seconds = time.monotonic() - began
            log.step(step, weight_version=step, started_at=started_at, seconds=seconds, figures=figures)
        bar.advance(_note(figures))
        return replace(
            progress,
            step=step,
            update=progress.update + 1,
            weight_version=step,
            cursor=cursor,
            seconds=self.control.seconds,
        )

    def _update(self, rows: Sequence[Row], update: int) -> dict[str, float]:
        """Make one optimizer update: mean negative log-likelihood over the batch's trained tokens."""
        began = time.monotonic()
        tokens = sum(int(row.mask.sum()) for row in rows)
        self.engine.train()
        mine = self._share(rows)
        total = torch.zeros(1, dtype=torch.float64)
        for done, micro in enumerate(mine, start=1):
            loss = self._nll(micro) / tokens
            total += float(loss.detach())
            self.engine.accumulate(loss, last=done == len(mine))
        rate = learning_rate(self.config.optimizer, update, self.steps)
        norm = self.engine.step(rate)
        seconds = time.monotonic() - began
        return {
            "loss": float(self.ranks.total(total)),
            "grad_norm": norm,
            "learning_rate": rate,
            "tokens": float(tokens),
            "tokens_per_s": sum(map(len, rows)) / seconds,
            "padding_share": self._padding(rows),
            "train_s": seconds,
        }

    def _evaluate(self) -> dict[str, float]:
        """Return loss, perplexity and token accuracy of the held-out examples; empty if there are none."""
        began = time.monotonic()
        self.engine.train(False)
        sums = {label: self._sums(self.data.rows(examples)) for label, examples in self.data.evaluation.items()}
        if not sums:
            return {}
        figures = _quality(torch.stack(list(sums.values())).sum(0), "")
        if len(self.data.store.tallies) > 1:
            for label, found in sums.items():
                figures |= _quality(found, f"/{label}")
        return {**figures, "eval_s": time.monotonic() - began}

    def _sums(self, rows: Sequence[Row]) -> Tensor:
        """Return the rows' sums over trained tokens of loss, hits and 1; a hit is what greedy sampling would give."""
        sums = torch.zeros(3, dtype=torch.float64)
        with torch.no_grad():
            for micro in self._share(rows):
                padded = pad_rows(micro, self.ranks.device)
                found = self.engine.figures(padded, 1.0, greedy=True)
                assert found.greedy_BT is not None
                sums[0] -= float((found.logprobs_BT * padded.mask_BT).sum())
                sums[1] += float((found.greedy_BT * padded.mask_BT).sum())
                sums[2] += float(sum(int(row.mask.sum()) for row in micro))
        return self.ranks.total(sums)

    def _nll(self, rows: Sequence[Row]) -> Tensor:
        padded = pad_rows(rows, self.ranks.device)
        logprobs_BT, _ = self.engine.logprobs(padded, 1.0)
        return -(logprobs_BT * padded.mask_BT).sum()

    def _share(self, rows: Sequence[Row]) -> list[list[Row]]:
        return [[rows[i] for i in batch] for batch in dealt_to(self.ranks, self._batches(rows))]

    def _batches(self, rows: Sequence[Row]) -> list[list[int]]:
        return micro_batches_of([len(row) for row in rows], self.config.zero, self.ranks)

    def _padding(self, rows: Sequence[Row]) -> float:
        """Return the share of computed positions that is padding."""
        return 0.0 if self.config.zero.packing else padding_share([len(row) for row in rows], self._batches(rows))


def _quality(sums: Tensor, suffix: str) -> dict[str, float]:
    loss, hits, tokens = sums.tolist()
    return {
        f"eval_loss{suffix}": loss / tokens,
        f"eval_perplexity{suffix}": math.exp(min(loss / tokens, 700.0)),
        f"eval_accuracy{suffix}": hits / tokens,
    }


def _note(figures: dict[str, float]) -> str:
    parts = [f"loss {figures['loss']:.4f}", f"{figures['tokens_per_s']:.0f} tok/s"]
    if "eval_loss" in figures:
        parts.append("eval loss {eval_loss:.4f} accuracy {eval_accuracy:.3f}".format_map(figures))
    return ", ".join(parts)


def _ending(progress: Progress, steps: int, final: Path) -> str:
    if progress.step < steps:
        return f"Stopped after step {progress.step} of {steps}; resume with --resume."
    return f"Done: {final if final.exists() else 'the weights are in the last checkpoint'}."
