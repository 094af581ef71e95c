"""How busy the evaluator was during a step, from the seconds of the verdicts that it gave."""

from collections.abc import Mapping
from dataclasses import dataclass

from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.rollout.config import RayEvaluation, RolloutConfig, ServerEvaluation

BUSY, HELD, WAITED = "evaluator/busy_share", "evaluator/lease_held_share", "evaluator/lease_wait_s"


@dataclass(frozen=True)
class EvaluationPlaces:
    """Where evaluations run.

    Args:
        slots: how many run at once, over all evaluators; None on servers, which do not say.
        devices: how many devices there are, one for each evaluator; None on servers.
    """

    slots: int | None
    devices: int | None


def places_of(rollout: RolloutConfig, evaluator: EvaluatorConfig) -> EvaluationPlaces:
    """Return where the evaluations of a run are made."""
    match rollout.evaluation:
        case ServerEvaluation():
            return EvaluationPlaces(None, None)
        case RayEvaluation(actors=actors, cores=cores):
            slots = evaluator.slots if "slots" in evaluator.model_fields_set else cores
            return EvaluationPlaces(actors * slots, actors)
        case _:
            return EvaluationPlaces(evaluator.slots, 1)


def evaluator_figures(spent: Mapping[str, float], seconds: float, places: EvaluationPlaces) -> dict[str, float]:
    """Return the use of the evaluator during a step.

    `evaluator/busy_share` is the share of its slots' time in which they evaluated. Where candidates were timed,
    `evaluator/lease_held_share` is the share of the time in which a device was timing, which it does for one candidate
    alone, and `evaluator/lease_wait_s` the seconds that evaluations waited together for others to leave the device.
    An evaluation counts where it ends, so a share can be slightly above 1.

    Args:
        spent: seconds of the verdicts by part, as `CachedEvaluator.take_seconds` gives them.
        seconds: wall time of the step.
        places: where evaluations run.
    """
    found = {}
    if places.slots is not None and seconds > 0:
        found[BUSY] = spent.get("evaluate", 0.0) / (places.slots * seconds)
    timing = spent.get("timing", 0.0)
    if timing > 0:
        found[WAITED] = spent.get("lease", 0.0)
        if places.devices is not None and seconds > 0:
            found[HELD] = timing / (places.devices * seconds)
    return found


def in_words(figures: Mapping[str, float]) -> list[str]:
    """Return the use of the evaluator as phrases, for example `evaluator 71 % busy`."""
    found = [f"evaluator {figures[BUSY]:.0%} busy"] if BUSY in figures else []
    if HELD in figures:
        found.append(f"device leased for timing {figures[HELD]:.0%}")
    if WAITED in figures:
        found.append(f"waited for the lease {figures[WAITED]:.1f}s")
    return found
