"""Which GPUs of a machine train, sample and judge, and why a placement is impossible."""

from dataclasses import dataclass

from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.config.sft import SftConfig


@dataclass(frozen=True)
class Places:
    """GPUs by what they do."""

    train: tuple[int, ...] = ()
    rollout: tuple[int, ...] = ()
    evaluation: tuple[int, ...] = ()


def places_of(config: TrainerConfig | SftConfig, gpus: int, processes: int | None = None) -> Places:
    """Return the GPUs of each part; what the file leaves open is as the commands would place it.

    Args:
        config: the run's.
        gpus: of the machine.
        processes: ranks, where the file does not name their GPUs; one a GPU when not given.
    """
    every = tuple(range(processes or gpus)) if gpus else ()
    if isinstance(config, SftConfig):
        return Places(every)
    given, rollout = config.placement, config.rollout
    train = given.train or every
    wanted = rollout.samplers * rollout.sampler.tensor_parallel_size
    sampling = given.rollout or (train or tuple(range(wanted)))[:wanted]
    judging = given.evaluation or ((config.evaluator.gpu,) if rollout.evaluation.type == "process" else ())
    return Places(
        train,
        sampling if rollout.sampler.device == "cuda" else (),
        judging if config.evaluator.device == "cuda" else (),
    )


def misplaced(config: TrainerConfig | SftConfig, places: Places, gpus: int, name: str) -> list[str]:
    """Return what is wrong with the placement, one sentence each.

    Args:
        config: the run's.
        places: that it has.
        gpus: of the machine.
        name: the machine's.
    """
    there = f"{name} has {gpus or 'none'}" + (f", 0 to {gpus - 1}" if gpus else "")
    named = {"train": places.train, "sample": places.rollout, "judge": places.evaluation}
    found = [
        f"{_numbered(absent)} to {what} and {'is' if len(absent) == 1 else 'are'} not there: {there}."
        for what, numbers in named.items()
        if (absent := sorted(number for number in numbers if number >= gpus))
    ]
    if isinstance(config, TrainerConfig):
        found += [*_too_few(config, places), *_disturbed(config, places)]
    return found


def _numbered(gpus: list[int]) -> str:
    if len(gpus) == 1:
        return f"GPU {gpus[0]} is"
    return f"GPUs {', '.join(map(str, gpus[:-1]))} and {gpus[-1]} are"


def _too_few(config: TrainerConfig, places: Places) -> list[str]:
    """Say where samplers would wait for GPUs: a local Ray gives away those that train, where no others are named."""
    rollout = config.rollout
    each, have = rollout.sampler.tensor_parallel_size, len(places.rollout)
    if not have or config.run.ray_address is not None or rollout.samplers * each <= have:
        return []
    return [
        f"Samplers take {rollout.samplers * each} GPUs (rollout.samplers = {rollout.samplers}, of {each} each), and "
        f"{have} train: name theirs in placement.rollout, or start fewer."
    ]


def _disturbed(config: TrainerConfig, places: Places) -> list[str]:
    """Say where times would hold other work: `check_placement` knows only the GPUs that a file names."""
    shared = sorted(set(places.evaluation) & {*places.train, *places.rollout})
    if not shared or not config.evaluator.timing:
        return []
    return [
        f"GPU {shared[0]} times candidates and trains or samples too: the times would hold that work. Give "
        "placement.evaluation a GPU of its own, or set evaluator.timing = false."
    ]
