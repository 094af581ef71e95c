"""Supervised fine-tuning on chats, with the loss on the assistant's turns."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import torch
from torch import Tensor

from warpsmith.policy.loading import Policy
from warpsmith.policy.sft_data import Example
from warpsmith.trainer.checkpoint import Progress
from warpsmith.trainer.config.sft import SftConfig
from warpsmith.trainer.control import RunControl
from warpsmith.trainer.engine.optimizer import learning_rate
from warpsmith.trainer.engine.plan import deal, micro_batches
from warpsmith.trainer.engine.ranks import Ranks, join, leave, peers_needed
from warpsmith.trainer.engine.rows import Row, pad_rows
from warpsmith.trainer.engine.zero import ZeroEngine
from warpsmith.trainer.export import export
from warpsmith.trainer.interrupt import Interrupt
from warpsmith.trainer.launch.launcher import is_launched
from warpsmith.trainer.order import taken
from warpsmith.trainer.preflight import preflight
from warpsmith.trainer.progress import Bar
from warpsmith.trainer.sft_data import SftData, load_sft_data, token_rows
from warpsmith.trainer.steplog import StepLog


def run_sft(config: SftConfig, *, resume: bool = False) -> Path:
    """Fine-tune as `config` says; every rank calls it, with or without a launcher.

    Returns:
        The run's directory. At the end it holds `final_model`, unless `checkpoint.export_final` is off.

    Raises:
        ConfigError, DataError, CheckpointError: the run cannot start.
        DivergenceError: the loss or the gradient is no finite number.
        CheckpointWriteError, RecordWriteError: the disk takes no more.
        LaunchError: another rank has ended.
    """
    ranks = join(config.run, config.zero)
    if ranks.drives:
        preflight(config, resume)
    ranks.barrier()
    with peers_needed():
        directory = _Sft(config, ranks).run(resume)
    leave()
    return directory


class _Sft:
    """One supervised run on one rank."""

    def __init__(self, config: SftConfig, ranks: Ranks) -> None:
        self.config, self.ranks = config, ranks
        self.policy = Policy.from_config(config.policy)
        self.data: SftData = load_sft_data(config.data, self.policy.chat, config.run.seed)
        self.engine = ZeroEngine(
            self.policy.model, zero=config.zero, optimizer=config.optimizer, ranks=ranks, dtype=config.policy.dtype
        )
        self.control = RunControl(config, ranks, self.engine)

    def run(self, resume: bool) -> Path:
        run, final = self.config.run, self.config.run.dir / "final_model"
        with ExitStack() as stack:
            progress = self.control.begin(resume)
            log = self.control.log(stack)
            bar = stack.enter_context(Bar("sft", run.steps, shown=self.ranks.drives, start=progress.step))
            stop = stack.enter_context(Interrupt(self.ranks.drives, launched=is_launched()))
            if self.data.dropped:
                bar.say(f"{self.data.dropped} examples are longer than {self.config.data.max_tokens} tokens: left out")
            while self.control.goes_on(progress, stop):
                progress = self._step(progress, log, bar)
                self.control.save_if_due(progress)
            self.control.save(progress)
            if self.config.checkpoint.export_final and progress.step >= run.steps:
                export(self.policy, self.engine, self.ranks, final, self.config.zero.bucket_elements)
            bar.say(_ending(progress, run.steps, final))
        return run.dir

    def _step(self, progress: Progress, log: StepLog | None, bar: Bar) -> Progress:
        run, data = self.config.run, self.config.data
        began, started_at = time.monotonic(), datetime.now(UTC)
        picked = taken(progress.cursor, data.batch_size, len(self.data.train), run.seed)
        figures = self._update([self.data.train[i] for i in picked], progress.update)
        self.control.note(-figures["loss"])
        step = progress.step + 1
        if step == run.steps or (data.eval_every and step % data.eval_every == 0):
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
            cursor=progress.cursor + data.batch_size,
            seconds=self.control.seconds,
        )

    def _update(self, examples: Sequence[Example], update: int) -> dict[str, float]:
        """Make one optimizer update: mean negative log-likelihood over the batch's trained tokens."""
        began = time.monotonic()
        rows = token_rows(examples)
        tokens = sum(int(row.mask.sum()) for row in rows)
        self.engine.train()
        mine = self._share(rows)
        total = torch.zeros(1, dtype=torch.float64)
        for done, micro in enumerate(mine, start=1):
            loss = self._nll(micro) / tokens
            total += float(loss.detach())
            self.engine.accumulate(loss, last=done == len(mine))
        rate = learning_rate(self.config.optimizer, update, self.config.run.steps)
        norm = self.engine.step(rate)
        seconds = time.monotonic() - began
        return {
            "loss": float(self.ranks.total(total)),
            "grad_norm": norm,
            "learning_rate": rate,
            "tokens": float(tokens),
            "tokens_per_s": sum(map(len, rows)) / seconds,
            "train_s": seconds,
        }

    def _evaluate(self) -> dict[str, float]:
        """Return the mean negative log-likelihood of the held-out examples; nothing where there are none."""
        if not self.data.evaluation:
            return {}
        rows = token_rows(self.data.evaluation)
        self.engine.train(False)
        total = torch.zeros(1, dtype=torch.float64)
        with torch.no_grad():
            for micro in self._share(rows):
                total += float(self._nll(micro))
        return {"eval_loss": float(self.ranks.total(total)) / sum(int(row.mask.sum()) for row in rows)}

    def _nll(self, rows: Sequence[Row]) -> Tensor:
        padded = pad_rows(rows, self.ranks.device)
        logprobs_BT, _ = self.engine.logprobs(padded, 1.0)
        return -(logprobs_BT * padded.mask_BT).sum()

    def _share(self, rows: Sequence[Row]) -> list[list[Row]]:
        zero, world = self.config.zero, self.ranks.world
        lengths = [len(row) for row in rows]
        batches = micro_batches(lengths, zero.micro_batch_tokens, packed=zero.packing, world=world)
        return [[rows[i] for i in batch] for batch in deal(batches, world)[self.ranks.rank]]


def _note(figures: dict[str, float]) -> str:
    parts = [f"loss {figures['loss']:.4f}", f"{figures['tokens_per_s']:.0f} tok/s"]
    if "eval_loss" in figures:
        parts.append(f"eval loss {figures['eval_loss']:.4f}")
    return ", ".join(parts)


def _ending(progress: Progress, steps: int, final: Path) -> str:
    if progress.step < steps:
        return f"Stopped after step {progress.step} of {steps}; go on with --resume."
    return f"Done: {final if final.exists() else 'the last checkpoint holds the weights'}."
