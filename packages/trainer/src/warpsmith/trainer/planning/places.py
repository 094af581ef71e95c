"""Which GPUs of a machine train, sample and evaluate, and why a placement is impossible."""

from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.config.sft import SftConfig


@dataclass(frozen=True)
class Places:
    """GPUs by their use."""

    train: tuple[int, ...] = ()
    rollout: tuple[int, ...] = ()
    evaluation: tuple[int, ...] = ()


def places_of(config: TrainerConfig | SftConfig, gpus: int, processes: int | None = None) -> Places:
    """Return the GPUs of each part; what the file does not set is placed as the commands would place it.

    Args:
        config: the run's configuration.
        gpus: number of GPUs of the machine.
        processes: number of ranks if the file does not name their GPUs; by default one per GPU.
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
        config: the run's configuration.
        places: its placement.
        gpus: number of GPUs of the machine.
        name: the machine's name.
    """
    found = misplaced_gpus(places, gpus, name)
    if isinstance(config, TrainerConfig):
        found += [*_too_few(config, places), *_disturbed(config, places)]
    return found


def misplaced_gpus(places: Places, gpus: int, name: str) -> list[str]:
    """Return which GPUs of a placement the machine `name` with `gpus` of them lacks, one sentence for each use."""
    there = f"{name} has {gpus or 'none'}" + (f", 0 to {gpus - 1}" if gpus else "")
    named = {"train": places.train, "sample": places.rollout, "judge": places.evaluation}
    uses: dict[tuple[int, ...], list[str]] = {}
    for what, numbers in named.items():
        if absent := tuple(sorted(number for number in numbers if number >= gpus)):
            uses.setdefault(absent, []).append(what)
    return [
        f"{_numbered(absent)} to {_listed(whats)} but {'does' if len(absent) == 1 else 'do'} not exist: {there}."
        for absent, whats in uses.items()
    ]


def _numbered(gpus: Sequence[int]) -> str:
    return f"GPU {gpus[0]} is" if len(gpus) == 1 else f"GPUs {_listed(gpus)} are"


def _listed(parts: Sequence[object]) -> str:
    *first, last = map(str, parts)
    return f"{', '.join(first)} and {last}" if first else last


def _too_few(config: TrainerConfig, places: Places) -> list[str]:
    """Yield a misfit if samplers would wait for GPUs: without named ones, a local Ray offers those that train."""
    rollout = config.rollout
    each, have = rollout.sampler.tensor_parallel_size, len(places.rollout)
    if not have or config.run.ray_address is not None or rollout.samplers * each <= have:
        return []
    return [
        f"Samplers need {rollout.samplers * each} GPUs (rollout.samplers = {rollout.samplers}, of {each} each), but "
        f"{have} train: name theirs in placement.rollout, or start fewer."
    ]


def _disturbed(config: TrainerConfig, places: Places) -> list[str]:
    """Yield a misfit if times would include other work: `check_placement` sees only GPUs named in the file."""
    shared = sorted(set(places.evaluation) & {*places.train, *places.rollout})
    if not shared or not config.evaluator.timing or may_time_beside(config):
        return []
    return [
        f"GPU {shared[0]} times candidates but also trains or samples meanwhile: the times would include that work. "
        "Give placement.evaluation its own GPU, or set evaluator.timing = false."
    ]


def may_time_beside(config: TrainerConfig) -> bool:
    """Return whether candidates can be timed on a GPU that trains and samples: it then does one after another."""
    return config.rollout.evaluation.type == "process" and not config.algorithm.max_staleness
