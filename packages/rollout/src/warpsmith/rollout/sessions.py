"""One sampling session of a command: sampler, evaluator and collector, opened and closed together."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path

from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.rollout.collector import Collector, Rows
from warpsmith.rollout.config import RolloutConfig, SamplerConfig
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.errors import SamplerError
from warpsmith.rollout.evaluators.open import open_evaluator
from warpsmith.rollout.samplers.base import Pausable, Sampler
from warpsmith.rollout.samplers.vllm.model_length import check_model_length
from warpsmith.rollout.timing_windows import TimingWindows
from warpsmith.rollout.turn_recording import TurnRow

_PAUSE_S = 60.0
"""Deadline of a pause of the sampler, which waits for one step of its engine."""


def sample_turns(
    checkpoint: Path,
    problems: Sequence[ProblemRow],
    samples: int,
    config: RolloutConfig,
    evaluator_config: EvaluatorConfig,
    *,
    run: str,
    seed: int,
    role: str,
    on_trajectory: Callable[[Rows], None],
) -> list[TurnRow]:
    """Return the turns of `samples` episodes for each problem, sampled by a checkpoint in this process.

    Evaluators in Ray run on the cluster named by `RAY_ADDRESS`, or on a local one that ends with the session.
    """
    from warpsmith.policy.loading import load_chat
    from warpsmith.rollout.samplers.registry import start_sampler

    chat = load_chat(checkpoint)
    beside = _BesideTiming()
    windows = TimingWindows(beside, pause_timeout_s=_PAUSE_S) if _may_share_gpu(config, evaluator_config) else None

    async def collected() -> list[TurnRow]:
        sampler = beside.sampler = start_sampler(checkpoint, config.sampler)
        try:
            collector = Collector(
                sampler, evaluator, chat, config,
                run=run, on_trajectory=on_trajectory, language=evaluator_config.language,
            )  # fmt: skip
            async with nullcontext() if windows is None else windows.served():
                return await collector.collect_rows(problems, samples, label=role, seed=seed, role=role)
        finally:
            await sampler.close()

    with _cluster(config), open_evaluator(config, evaluator_config, windows=windows) as evaluator:
        return asyncio.run(collected())


class _BesideTiming:
    """The sampler of this process, paused while candidates are timed; see `PausableSampler`."""

    in_flight = 1
    """Not counted: a timing waits for others even where nothing is sampled."""

    def __init__(self) -> None:
        self.sampler: Sampler | None = None

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        sampler = self.sampler
        if not isinstance(sampler, Pausable):
            raise SamplerError(
                f"The sampler {type(sampler).__name__} cannot be paused, so nothing can be timed on its GPU.",
                "Judge on another GPU, in Ray or on a server, or set evaluator.timing=false.",
            )
        try:
            await sampler.pause()
            yield
        finally:
            await sampler.resume()


def _may_share_gpu(config: RolloutConfig, evaluator: EvaluatorConfig) -> bool:
    """Return whether this process's evaluator times candidates while a sampler uses a GPU, perhaps the same one."""
    timed = evaluator.device != "cpu" and evaluator.timing and config.evaluation.type == "process"
    return timed and config.sampler.device != "cpu"


def check_policy(checkpoint: Path, sampler: SamplerConfig) -> None:
    """Check a policy's directory before a sampler or an evaluator is started for it.

    Raises:
        policy's CheckpointError, TokenizerError, TemplateError: it cannot be used.
        ModelTooShortError: its context is shorter than vLLM's configured length.
    """
    from warpsmith.policy.loading import check_directory, check_weights, load_chat

    check_weights(check_directory(checkpoint))
    check_model_length(checkpoint, sampler)
    load_chat(checkpoint)


@contextmanager
def _cluster(config: RolloutConfig) -> Iterator[None]:
    """Connect to Ray if the evaluators are actors."""
    if config.evaluation.type != "ray":
        yield
        return
    from warpsmith.rollout.cluster.session import ray_session

    with ray_session(os.environ.get("RAY_ADDRESS")):
        yield
