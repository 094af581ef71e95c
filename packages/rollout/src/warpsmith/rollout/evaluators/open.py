"""Opens the configured evaluator: in this process, in Ray actors, or on evaluation servers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warpsmith.evaluator.client.interface import AsyncEvaluator, WindowKeeper
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.rollout.config import ProcessEvaluation, RayEvaluation, RolloutConfig, ServerEvaluation


@contextmanager
def open_evaluator(
    config: RolloutConfig,
    evaluator: EvaluatorConfig,
    *,
    logs: Path | None = None,
    windows: WindowKeeper | None = None,
) -> Iterator[AsyncEvaluator]:
    """Yield an evaluator that is ready, and stop what was started for it afterwards.

    Args:
        config: where candidates are evaluated (`evaluation`) and how long an evaluation can take. For `ray` this
            process must be connected to a cluster.
        evaluator: how they are evaluated. Servers have their own settings but must meet `minimum_isolation`, and are
            asked for `trials` and `timeout_s`.
        logs: a folder for the logs of evaluator actors, one file each; Ray's own logs if None.
        windows: if the evaluator of this process shares its device, when it may time on it; see `Evaluator`.

    Raises:
        EvaluatorError: the evaluator cannot start, no server can be reached, or one isolates workers too weakly.
        UsageError: the cluster has fewer cores than the actors need.
    """
    match config.evaluation:
        case ProcessEvaluation():
            from warpsmith.evaluator import Evaluator

            with Evaluator(evaluator, windows=windows) as local:
                yield local
        case RayEvaluation() as actors:
            from warpsmith.rollout.evaluators.ray_actors import Limits, RayEvaluator

            limits = Limits(config.evaluate_wait_s, config.evaluate_timeout_s)
            with RayEvaluator(actors, evaluator, limits, logs=logs) as spread:
                yield spread
        case ServerEvaluation() as servers:
            from warpsmith.rollout.evaluators.servers import ServerEvaluator

            with ServerEvaluator(servers, evaluator) as remote:
                yield remote
