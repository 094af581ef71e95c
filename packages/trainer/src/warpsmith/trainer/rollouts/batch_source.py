"""Samples the batch of a step: whole groups, with replacements for groups without spread. Rank 0 only."""

import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from warpsmith.rollout.datasets import ProblemRow
from warpsmith.trainer.advantage import Estimator, Normalisation, assign
from warpsmith.trainer.advantage.normalization import NoScale
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.data.order import taken
from warpsmith.trainer.errors import CollectionError
from warpsmith.trainer.rollouts.batch import credit_columns
from warpsmith.trainer.rollouts.recorded_batches import RecordedBatches
from warpsmith.trainer.weights.checkpoint import Progress

_SEED_STRIDE = 1_000_003

TRAINING_COLUMNS = [
    "run", "group", "trajectory", "turn", "prompt_ids", "completion_ids", "logprobs", "weight_versions",
    "finish_reason", "sampling", "verdict", "reward", "return", "valid", "generate_s", "compile_s", "wait_s",
    "evaluate_s",
]  # fmt: skip


@dataclass(frozen=True)
class Sampled:
    """What rank 0 sampled for a step, as it goes to the other ranks.

    Attributes:
        stream: TRAINING_COLUMNS of all turns, an Arrow stream.
        problems: how many problems were handed out.
        rounds: in how many rounds; more than 1 only with dynamic sampling.
        seconds: wall time that it took.
        recorded: whether a round of it is of an earlier start, so that `seconds` says nothing of its sampling.
    """

    stream: bytes
    problems: int
    rounds: int
    seconds: float
    recorded: bool = False

    def table(self) -> pa.Table:
        """Return the turns."""
        return pa.ipc.open_stream(self.stream).read_all()


class BatchSource:
    """Samples the batch of each step, or takes it from the records of an earlier start.

    Args:
        config: the run's configuration.
        problems: what the policy is trained on, in the order of the source.
        collect: samples and judges whole groups, `RolloutSession.collect`.
        recorded: what an earlier start recorded and no checkpoint covers; None in a new run.
        say: prints a line.
    """

    def __init__(
        self,
        config: TrainerConfig,
        problems: Sequence[ProblemRow],
        collect: Callable[..., pa.Table],
        *,
        recorded: RecordedBatches | None,
        say: Callable[[str], None],
    ) -> None:
        self._config, self._problems, self._sample = config, problems, collect
        self._recorded, self._say = recorded, say

    def collect(self, step: int, progress: Progress) -> Sampled:
        """Return the turns of step `step`, from 1.

        `progress` says which problems come next, and the newest weight version that a token may have; with
        `algorithm.max_staleness` tokens may be so much older.

        With `algorithm.dynamic_sampling` groups without spread are made up for by others, round after round, until
        `prompts_per_step` groups have spread or its `refill_rounds` are over (DAPO, arXiv 2503.14476, section 3.2). A
        round samples as many problems as there are groups missing.

        Raises:
            SyncError, CollectionError: see `RolloutSession.collect`.
        """
        began, algorithm = time.monotonic(), self._config.algorithm
        first, recorded = self._round(f"step-{step}", step, progress, 0, algorithm.prompts_per_step)
        tables = [first]
        problems = algorithm.prompts_per_step
        for number in range(1, 1 + (algorithm.dynamic_sampling.refill_rounds if algorithm.dynamic_sampling else 0)):
            missing = algorithm.prompts_per_step - len(
                groups_with_spread(pa.concat_tables(tables), algorithm.estimator)
            )
            if not missing:
                break
            try:
                more, kept = self._round(f"step-{step}/refill-{number}", step, progress, problems, missing)
                tables.append(more)
                recorded |= kept
            except CollectionError as error:
                self._say(f"Step {step} makes up for no more groups: {error.message}")
                break
            finally:
                problems += missing
        stream = as_stream(pa.concat_tables(tables))
        return Sampled(stream, problems, len(tables), time.monotonic() - began, recorded)

    def _round(self, label: str, step: int, progress: Progress, after: int, count: int) -> tuple[pa.Table, bool]:
        """Return TRAINING_COLUMNS of the problems that come `after` those that the step was given before.

        The second is whether they are of an earlier start's records.
        """
        run = self._config.run
        picked = taken(progress.cursor + after, count, len(self._problems), run.seed)
        problems = [self._problems[i] for i in picked]
        kept = self._kept(label, progress.weight_version, problems)
        if kept is not None:
            self._say(f"{label} trains the {kept.num_rows} turns that were recorded before the run stopped.")
            return kept.select(TRAINING_COLUMNS), True
        table = self._sample(
            problems,
            self._config.algorithm.samples_per_prompt,
            label=label,
            seed=run.seed * _SEED_STRIDE + step if run.repeatable else None,
            role="train",
            after_step=step - 1,
            weight_version=progress.weight_version,
            staleness=self._config.algorithm.max_staleness,
        )
        return table.select(TRAINING_COLUMNS), False

    def _kept(self, label: str, weight_version: int, problems: list[ProblemRow]) -> pa.Table | None:
        if self._recorded is None:
            return None
        return self._recorded.take(
            label,
            weight_version=weight_version,
            staleness=self._config.algorithm.max_staleness,
            problems=[problem.name for problem in problems],
            samples=self._config.algorithm.samples_per_prompt,
        )


def groups_with_spread(table: pa.Table, estimator: Estimator) -> list[str]:
    """Return the names of the groups in which two samples differ in what the estimator judges by, in their order.

    By the scores as the evaluator gave them, before anything is taken off. `gae` compares no samples with one another,
    so there is no answer for it.
    """
    credit = assign(credit_columns(table), estimator, Normalisation(scale=NoScale()))
    names = table["group"].filter(pa.array(credit.advantage != 0))
    return list(pc.unique(names).to_pylist())


def trained_part(table: pa.Table, estimator: Estimator, wanted: int) -> pa.Table:
    """Return the turns of the first `wanted` groups with spread; of the first groups where none has spread."""
    groups = groups_with_spread(table, estimator) or pc.unique(table["group"]).to_pylist()
    return table.filter(pc.is_in(table["group"], value_set=pa.array(groups[:wanted], pa.string())))


def as_stream(table: pa.Table) -> bytes:
    """Return a table as an Arrow stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()
