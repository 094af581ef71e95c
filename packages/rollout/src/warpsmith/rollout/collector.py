"""Runs many episodes at once, as complete groups, and returns them as rows of the `turns` table."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from warpsmith.evaluator.client.interface import AsyncEvaluator
from warpsmith.records.errors import UsageError
from warpsmith.rollout.completions import Chat, ChatSampler
from warpsmith.rollout.concurrency import all_or_first_error
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.environments.base import EnvironmentContext
from warpsmith.rollout.environments.registry import make_environment, max_turns
from warpsmith.rollout.episodes import EpisodeSetup, run_episode
from warpsmith.rollout.evaluators.cache import CachedEvaluator
from warpsmith.rollout.rewards.registry import scorer_for
from warpsmith.rollout.samplers.base import Sampler
from warpsmith.rollout.sampling_pause import SamplingPause
from warpsmith.rollout.turn_recording import EpisodeLabels, TurnRow

if TYPE_CHECKING:
    import pyarrow as pa

Rows = Sequence[TurnRow]


class Collector:
    """Runs episodes for groups of samples.

    Args:
        sampler: samples completions.
        evaluator: judges candidates; its verdicts are cached by content.
        chat: the policy's chat format.
        config: settings of the rollouts.
        run: the run's name, for the records.
        on_turn: called with each turn's row when the turn ends.
        on_trajectory: called with the rows of each trajectory when it ends.
        pause: holds completions back while weights change; without it weights must only change between collections.
        language: kernel language that `evaluator` judges, and that prompts ask for.

    Attributes:
        evaluator: the cache in front of `evaluator`, which counts hits and misses.

    Raises:
        RegistryError: the environment or the reward cannot be imported.
        BadRewardError: the reward cannot be used.
        UsageError: the environment does not support the settings.
    """

    def __init__(
        self,
        sampler: Sampler,
        evaluator: AsyncEvaluator,
        chat: Chat,
        config: RolloutConfig,
        *,
        run: str,
        on_turn: Callable[[TurnRow], None] | None = None,
        on_trajectory: Callable[[Rows], None] | None = None,
        pause: SamplingPause | None = None,
        language: str = "triton",
    ) -> None:
        self.evaluator = CachedEvaluator(evaluator)
        self._config, self._run = config, run
        self._setup = EpisodeSetup(
            make_environment(EnvironmentContext(config, self.evaluator, chat, scorer_for(config.reward), language)),
            max_turns(config),
            ChatSampler(sampler, chat, config),
            on_turn=on_turn,
        )
        if pause is not None:
            self._setup = replace(self._setup, sampling_allowed=pause.sampling)
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
        rollout_step: int | None = None,
        stage: int | None = None,
        max_turns: Sequence[int | None] | None = None,
    ) -> "pa.Table":
        """Return all turns of `samples` episodes for each problem, as a table of `TURNS`.

        Rows are ordered by problem, sample and turn. Every group is complete: a lost sample is included with `valid`
        false and the reason.

        Args:
            problems: one group per problem.
            samples: episodes per group.
            label: names the collection, for example the step; group names start with it, so it must be new in the run.
            seed: seed of the sampling; with the same weights it gives the same completions (exactly in fp32).
            role: `train` or `held_out`, for the records.
            after_step: training steps finished so far, for the records; None outside of a training run.
            rollout_step: the training step whose batch this is, for the records; None for an evaluation.
            stage: the stage of the curriculum, from 1, for the records; None without stages.
            max_turns: for each problem the most turns of its episodes, None for the environment's, which are the most
                in any case; None for all problems.

        Raises:
            UsageError: no problems or no samples.
            SamplerDiedError: the sampler is gone.
            EvaluatorError: the evaluator is gone or unusable.
            RewardFailedError: the reward gave no score for a turn.
        """
        import pyarrow as pa

        from warpsmith.records.schema import turns_batch

        rows = await self.collect_rows(
            problems, samples, label=label, seed=seed, role=role, after_step=after_step, rollout_step=rollout_step,
            stage=stage, max_turns=max_turns,
        )  # fmt: skip
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
        rollout_step: int | None = None,
        stage: int | None = None,
        max_turns: Sequence[int | None] | None = None,
    ) -> list[TurnRow]:
        """Return the same turns as a list of rows."""
        if not problems or samples < 1:
            raise UsageError(
                f"{len(problems)} problems with {samples} samples each give no episodes.", "Pass at least one of each."
            )
        setup = replace(self._setup, sampler=replace(self._setup.sampler, seed=seed))
        limits = max_turns or [None] * len(problems)
        setups = [setup if most is None else replace(setup, max_turns=min(most, setup.max_turns)) for most in limits]
        free = asyncio.Semaphore(self._config.concurrency)
        episodes = [
            self._episode(
                own,
                EpisodeLabels(
                    run=self._run,
                    task=self._config.environment.type,
                    role=role,
                    problem=problem,
                    group=f"{label}/{index}",
                    sample=sample,
                    after_step=after_step,
                    rollout_step=rollout_step,
                    stage=stage,
                ),
                free,
            )
            for index, (problem, own) in enumerate(zip(problems, setups, strict=True))
            for sample in range(samples)
        ]
        return [row for rows in await all_or_first_error(episodes) for row in rows]

    async def _episode(self, setup: EpisodeSetup, labels: EpisodeLabels, free: asyncio.Semaphore) -> list[TurnRow]:
        async with free:
            rows = await run_episode(setup, labels)
        if self._on_trajectory is not None:
            self._on_trajectory(rows)
        return rows
