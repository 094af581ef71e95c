"""Many episodes at once, as complete groups, in the form of the `turns` table."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from warpsmith.records.errors import UsageError
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.episodes import Chat, Row, Surroundings, run_episode
from warpsmith.rollout.gate import TurnGate
from warpsmith.rollout.judging import CachedJudge, Judge
from warpsmith.rollout.rewardfunction import scorer_for
from warpsmith.rollout.samplers.base import Sampler
from warpsmith.rollout.tasks import task_for

if TYPE_CHECKING:
    import pyarrow as pa

Rows = Sequence[Row]


class Collector:
    """Runs episodes for groups of samples.

    Args:
        sampler: who samples.
        judge: who judges; verdicts are kept by content.
        chat: the policy's chat format.
        config: the rules.
        run: the run's name, for the records.
        on_turn: told each turn's row when the turn ends.
        on_trajectory: told the rows of each trajectory when it ends.
        gate: holds completions while weights change; without one they are to change between two collections.

    Raises:
        UnknownTaskError: the configuration names a task that does not exist.
        BadRewardError: it names a reward function that cannot be used.
    """

    def __init__(
        self,
        sampler: Sampler,
        judge: Judge,
        chat: Chat,
        config: RolloutConfig,
        *,
        run: str,
        on_turn: Callable[[Row], None] | None = None,
        on_trajectory: Callable[[Rows], None] | None = None,
        gate: TurnGate | None = None,
    ) -> None:
        self.judge = CachedJudge(judge)
        task, scorer = task_for(config), scorer_for(config.reward)
        self._around = Surroundings(sampler, self.judge, chat, task, config, scorer, run, on_turn=on_turn)
        if gate is not None:
            self._around = replace(self._around, gate=gate.passage)
        self._on_trajectory = on_trajectory

    async def collect(
        self,
        problems: Sequence[ProblemRow],
        samples: int,
        *,
        label: str,
        seed: int | None = None,
        role: str = "train",
        after_step: int | None = None,
    ) -> "pa.Table":
        """Return all turns of `samples` episodes for each problem, as a table of `TURNS`.

        Rows are in the order of problem, sample and turn. Every group is whole: a sample that was lost is there with
        `valid` false and the reason.

        Args:
            problems: one group each.
            samples: episodes of a group.
            label: names the collection, for example the step; group names begin with it, so it must be new in the run.
            seed: seed of the sampling; with it the same weights give the same completions (exactly so in fp32).
            role: `train` or `held_out`, for the records.
            after_step: training steps finished so far, for the records; None outside of a training run.

        Raises:
            UsageError: no problem or no sample.
            SamplerDiedError: the sampler is gone.
            EvaluatorError: the evaluator is gone or unfit.
            RewardFailedError: the reward function gave no score for a turn.
        """
        import pyarrow as pa

        from warpsmith.records.schema import turns_batch

        rows = await self.collect_rows(problems, samples, label=label, seed=seed, role=role, after_step=after_step)
        return pa.Table.from_batches([turns_batch(rows)])

    async def collect_rows(
        self,
        problems: Sequence[ProblemRow],
        samples: int,
        *,
        label: str,
        seed: int | None = None,
        role: str = "train",
        after_step: int | None = None,
    ) -> list[Row]:
        """Return the same turns as rows."""
        if not problems or samples < 1:
            raise UsageError(
                f"{len(problems)} problems with {samples} samples each give no episode.", "Give at least one of each."
            )
        around = replace(self._around, seed=seed, role=role, after_step=after_step)
        room = asyncio.Semaphore(around.config.concurrency)
        episodes = [
            self._episode(around, problem, f"{label}/{index}", sample, room)
            for index, problem in enumerate(problems)
            for sample in range(samples)
        ]
        return [row for rows in await _all_or_first_error(episodes) for row in rows]

    async def _episode(
        self, around: Surroundings, problem: ProblemRow, group: str, sample: int, room: asyncio.Semaphore
    ) -> list[Row]:
        async with room:
            rows = await run_episode(around, problem, group, sample)
        if self._on_trajectory is not None:
            self._on_trajectory(rows)
        return rows


async def _all_or_first_error(episodes: Sequence[Coroutine[None, None, list[Row]]]) -> list[list[Row]]:
    """Return all results in order; the first error ends all others and is raised as it is."""
    tasks = [asyncio.ensure_future(episode) for episode in episodes]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
