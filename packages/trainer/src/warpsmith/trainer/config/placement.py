"""`[placement]`: which GPUs of this machine train, sample and judge."""

from typing import TYPE_CHECKING

from pydantic import Field, field_validator

from warpsmith.trainer.section import Section

if TYPE_CHECKING:
    from warpsmith.evaluator.config import EvaluatorConfig
    from warpsmith.rollout.config import RolloutConfig


class PlacementSection(Section):
    """`[placement]`: GPUs by their numbers in nvidia-smi. One GPU may train, sample and judge (colocated)."""

    train: tuple[int, ...] = Field(
        default=(), description="GPUs that train, one rank each; every GPU, or --num-processes of them, when not given."
    )
    rollout: tuple[int, ...] = Field(
        default=(), description="GPUs that a local Ray gives to the samplers; those that train when not given."
    )
    evaluation: tuple[int, ...] = Field(
        default=(), description="GPU of the evaluator, or one for each of its Ray actors; evaluator.gpu when not given."
    )

    @field_validator("train", "rollout", "evaluation")
    @classmethod
    def _once_each(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if any(gpu < 0 for gpu in value) or len(set(value)) < len(value):
            raise ValueError(f"{list(value)} is not a list of GPUs; name each once, from 0 up, as nvidia-smi does")
        return value

    def of_ray(self, rollout: "RolloutConfig") -> tuple[int, ...]:
        """Return the GPUs that a local Ray may give away: the samplers', and those of evaluators in its actors.

        Empty where samplers take GPUs and `rollout` names none: Ray then gives away what rank 0 sees.
        """
        if not self.rollout and rollout.sampler.device == "cuda":
            return ()
        ours = self.rollout + (self.evaluation if rollout.evaluation.type == "ray" else ())
        return tuple(sorted(set(ours)))

    def evaluator(self, given: "EvaluatorConfig") -> "EvaluatorConfig":
        """Return the evaluator's settings with the GPU named here."""
        return given.model_copy(update={"gpu": self.evaluation[0]}) if self.evaluation else given


def times_beside_sampling(placement: PlacementSection, rollout: "RolloutConfig", evaluator: "EvaluatorConfig") -> bool:
    """Return whether candidates are timed on a GPU that also samples, so that sampling must pause meanwhile.

    True also where the file does not name the samplers' GPUs.
    """
    if not _times_here(rollout, evaluator) or rollout.sampler.device == "cpu":
        return False
    sampling = placement.rollout or placement.train
    return not sampling or bool(set(sampling) & set(placement.evaluation or (evaluator.gpu,)))


def _times_here(rollout: "RolloutConfig", evaluator: "EvaluatorConfig") -> bool:
    """Return whether rank 0's own evaluator times candidates."""
    return evaluator.device != "cpu" and evaluator.timing and rollout.evaluation.type == "process"


def check_placement(
    placement: PlacementSection,
    rollout: "RolloutConfig",
    evaluator: "EvaluatorConfig",
    ray_address: str | None,
    max_staleness: int = 0,
) -> None:
    """Refuse a placement that cannot work.

    Args:
        placement: what is checked.
        rollout: samplers, and where candidates are judged.
        evaluator: how they are judged.
        ray_address: the cluster of the samplers; None is a local one.
        max_staleness: above 0, candidates are judged while the ranks train.

    Raises:
        ValueError: says which key is wrong, and what it should be.
    """
    if placement.rollout:
        _check_rollout(placement, rollout, ray_address)
    if placement.evaluation:
        _check_evaluation(placement, rollout, evaluator)
    if rollout.evaluation.type == "ray" and evaluator.device == "cuda" and ray_address is None:
        _check_ray_judges(placement, rollout, evaluator, rollout.evaluation.actors)
    _check_timing(placement, rollout, evaluator, max_staleness)


def _check_rollout(placement: PlacementSection, rollout: "RolloutConfig", ray_address: str | None) -> None:
    named, each = len(placement.rollout), rollout.sampler.tensor_parallel_size
    if ray_address is not None:
        raise ValueError("placement.rollout is for a local Ray; the cluster at run.ray_address places the samplers")
    if rollout.sampler.device == "cpu":
        raise ValueError('placement.rollout names GPUs, but rollout.sampler.device is "cpu"; set it to "cuda"')
    if rollout.samplers * each != named:
        raise ValueError(
            f"placement.rollout names {named} GPUs; {rollout.samplers} samplers of {each} GPUs each take "
            f"{rollout.samplers * each}: change it, rollout.samplers or rollout.sampler.tensor_parallel_size"
        )


def _check_evaluation(placement: PlacementSection, rollout: "RolloutConfig", evaluator: "EvaluatorConfig") -> None:
    evaluation, named = rollout.evaluation, len(placement.evaluation)
    if evaluation.type == "server":
        raise ValueError("placement.evaluation: candidates are judged on servers, which have GPUs of their own")
    if evaluator.device == "cpu":
        raise ValueError('placement.evaluation names GPUs, but evaluator.device is "cpu"; set it to "cuda"')
    if "gpu" in evaluator.model_fields_set:
        raise ValueError("placement.evaluation and evaluator.gpu both say where candidates run; remove evaluator.gpu")
    wanted = evaluation.actors if evaluation.type == "ray" else 1
    if named != wanted:
        raise ValueError(
            f"placement.evaluation names {named} GPUs; evaluators take {wanted}"
            + ("" if evaluation.type == "ray" else ', or several with rollout.evaluation.type = "ray" and `actors`')
        )


def _check_ray_judges(
    placement: PlacementSection, rollout: "RolloutConfig", evaluator: "EvaluatorConfig", actors: int
) -> None:
    """Refuse placements where a local Ray gives evaluators GPUs that train, or waits for one that never gets free."""
    unnamed = [] if placement.evaluation else [f"placement.evaluation ({actors} of evaluators)"]
    if rollout.sampler.device == "cuda" and not placement.rollout:
        wanted = rollout.samplers * rollout.sampler.tensor_parallel_size
        unnamed.append(f"placement.rollout ({wanted} of samplers)")
    if unnamed:
        raise ValueError(
            'rollout.evaluation.type = "ray" gives each evaluator a GPU of its own, and a local Ray knows which are '
            f"free by their names alone: give {' and '.join(unnamed)}"
        )
    _check_ray_timing(placement, evaluator)
    shared = sorted(set(placement.rollout) & set(placement.evaluation))
    if shared:
        raise ValueError(
            f"GPU {shared[0]} stands in placement.rollout and in placement.evaluation, and Ray gives a GPU to one "
            'alone: name another, or set rollout.evaluation.type = "process"'
        )


def _check_ray_timing(placement: PlacementSection, evaluator: "EvaluatorConfig") -> None:
    shared = sorted(set(placement.train) & set(placement.evaluation))
    if shared and evaluator.timing:
        raise ValueError(
            f"GPU {shared[0]} times candidates in a Ray actor and stands in placement.train too: its other work would "
            'be in the times, and so in the rewards. Set rollout.evaluation.type = "process", give '
            "placement.evaluation a GPU of its own, or set evaluator.timing = false"
        )


def _check_timing(
    placement: PlacementSection, rollout: "RolloutConfig", evaluator: "EvaluatorConfig", max_staleness: int
) -> None:
    """Refuse to time on a GPU that is training meanwhile; sampling on it can be paused, see `times_beside_sampling`."""
    if not _times_here(rollout, evaluator) or not max_staleness:
        return
    shared = sorted(set(placement.evaluation or (evaluator.gpu,)) & set(placement.train))
    if shared:
        raise ValueError(
            f"GPU {shared[0]} times candidates and stands in placement.train too, and with algorithm.max_staleness = "
            f"{max_staleness} it trains meanwhile: that work would be in the times, and so in the rewards. Set "
            "max_staleness = 0, give placement.evaluation a GPU of its own, or set evaluator.timing = false"
        )
