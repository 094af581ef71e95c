"""One sampling session of a command: engine, evaluator and collector, opened and closed together."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.rollout.collector import Collector, Rows
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.episodes import Row


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
) -> list[Row]:
    """Return the turns of `samples` episodes for each problem, sampled by a checkpoint in this process."""
    from warpsmith.evaluator import Evaluator
    from warpsmith.policy.loading import load_chat
    from warpsmith.rollout.engines.start import start_engine

    chat = load_chat(checkpoint)

    async def collected() -> list[Row]:
        engine = start_engine(checkpoint, config.engine)
        try:
            collector = Collector(engine, judge, chat, config, run=run, on_trajectory=on_trajectory)
            return await collector.collect_rows(problems, samples, label=role, seed=seed, role=role)
        finally:
            await engine.close()

    with Evaluator(evaluator_config) as judge:
        return asyncio.run(collected())
