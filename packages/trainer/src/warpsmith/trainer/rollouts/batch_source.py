"""Samples the batch of a step: complete groups, with replacements for groups without spread. Rank 0 only."""

import io
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from warpsmith.rollout.datasets import ProblemRow
from warpsmith.trainer.advantage import Estimator, Normalisation, assign
from warpsmith.trainer.advantage.normalization import NoScale
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.errors import CollectionError
from warpsmith.trainer.rollouts.batch import credit_columns
from warpsmith.trainer.rollouts.curriculum import State, make_choice, solved_by_problem
from warpsmith.trainer.rollouts.recorded_batches import RecordedBatches
from warpsmith.trainer.weights.checkpoint import Progress

_SEED_STRIDE = 1_000_003

TRAINING_COLUMNS = [
    "run", "problem", "level", "group", "trajectory", "turn", "agent", "prompt_ids", "completion_ids", "logprobs",
    "weight_versions", "finish_reason", "sampling", "verdict", "reward", "return", "speedup_over_start", "valid",
    "generate_s", "compile_s", "wait_s", "evaluate_s",
]  # fmt: skip


@dataclass(frozen=True)
class Sampled:
    """Rank 0's samples for a step, as sent to the other ranks.

    Attributes:
        stream: TRAINING_COLUMNS of all turns, an Arrow stream.
        problems: number of problems handed out.
        rounds: rounds of dynamic sampling, the first one included.
        seconds: wall time of the sampling.
        recorded: whether a round was recorded by an earlier start, so that `seconds` does not cover its sampling.
        curriculum: the state of the curriculum after these results.
        figures: figures of the curriculum while it chose.
    """

    stream: bytes
    problems: int
    rounds: int
    seconds: float
    recorded: bool = False
    curriculum: State = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)

    def table(self) -> pa.Table:
        """Return the turns."""
        return pa.ipc.open_stream(self.stream).read_all()


class BatchSource:
    """Samples the batch of each step, in one rollout or several, or takes it from the records of an earlier start.

    Args:
        config: the run's configuration.
        problems: the problems to train on, in the order of the source.
        collect: samples and evaluates complete groups, `RolloutSession.collect`.
        recorded: batches that an earlier start recorded after its last checkpoint; None in a new run.
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
        self._choice = make_choice(config.curriculum, problems, config.run.seed)

    def collect(self, step: int, progress: Progress) -> Sampled:
        """Return the turns of step `step`, from 1.

        `progress` determines the next problems (the cursor and the curriculum's state), and the newest weight version
        that a token may have; with `algorithm.max_staleness` tokens may be older by that many versions.

        With `algorithm.dynamic_sampling` groups without spread are replaced, round after round, until
        `prompts_per_step` groups have spread or `refill_rounds` is reached (DAPO, arXiv 2503.14476, section 3.2). A
        round samples as many problems as there are groups missing.

        Raises:
            SyncError, CollectionError: see `RolloutSession.collect`.
        """
        began, algorithm = time.monotonic(), self._config.algorithm
        tables, recorded = self._gathered(step, progress)
        problems, rounds = algorithm.prompts_per_step, 1
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
                rounds += 1
            except CollectionError as error:
                self._say(f"Step {step} replaces no more groups: {error.message}")
                break
            finally:
                problems += missing
        table = pa.concat_tables(tables)
        state, figures = progress.curriculum, self._choice.figures(progress.curriculum)
        learned = self._choice.learn(state, solved_by_problem(table), progress.cursor + problems)
        seconds = time.monotonic() - began
        return Sampled(as_stream(table), problems, rounds, seconds, recorded, learned, figures)

    def _gathered(self, step: int, progress: Progress) -> tuple[list[pa.Table], bool]:
        """Return the rollouts of a step before any replacement, and whether an earlier start recorded one."""
        algorithm = self._config.algorithm
        size = algorithm.prompts_per_rollout or algorithm.prompts_per_step
        tables, recorded = [], False
        for after in range(0, algorithm.prompts_per_step, size):
            label = f"step-{step}/rollout-{after // size + 1}" if after else f"step-{step}"
            table, kept = self._round(label, step, progress, after, min(size, algorithm.prompts_per_step - after))
            tables.append(table)
            recorded |= kept
        return tables, recorded

    def _round(self, label: str, step: int, progress: Progress, after: int, count: int) -> tuple[pa.Table, bool]:
        """Return TRAINING_COLUMNS of the problems that come `after` those already given to the step.

        The second value is whether an earlier start recorded them.
        """
        run = self._config.run
        picked = self._choice.pick(progress.curriculum, progress.cursor, after, count)
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
            rollout_step=step,
            stage=self._choice.stage(progress.curriculum),
            weight_version=progress.weight_version,
            staleness=self._config.algorithm.max_staleness,
            max_turns=[self._choice.turns(progress.curriculum, i) for i in picked],
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
    """Return the names, in order, of the groups in which two samples differ in the value that the estimator compares.

    Uses the evaluator's scores, before penalties. `gae` does not compare samples with one another, so it is not
    supported.
    """
    credit = assign(credit_columns(table), estimator, Normalisation(scale=NoScale()))
    names = table["group"].filter(pa.array(credit.advantage != 0))
    return list(pc.unique(names).to_pylist())


def trained_part(table: pa.Table, estimator: Estimator, wanted: int) -> pa.Table:
    """Return the turns of the first `wanted` groups with spread; of the first groups if none has spread."""
    groups = groups_with_spread(table, estimator) or pc.unique(table["group"]).to_pylist()
    return table.filter(pc.is_in(table["group"], value_set=pa.array(groups[:wanted], pa.string())))


def as_stream(table: pa.Table) -> bytes:
    """Return a table as an Arrow stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()
