"""Searches for the nearest change that makes a run fit."""

import itertools
from collections.abc import Callable, Iterator, Sequence

from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.config.sft import SftConfig
from warpsmith.trainer.errors import ConfigError
from warpsmith.trainer.planning.layouts import TRAINS_SOMETHING_ELSE, Change, layouts
from warpsmith.trainer.planning.places import misplaced, places_of

_MOST_AT_ONCE = 3

Costed = tuple[float, Change]


def nearest(
    config: TrainerConfig | SftConfig, gpus: int, fits: Callable[[Sequence[str]], bool], processes: int | None = None
) -> Change | None:
    """Return the nearest change with which `fits` is true, of up to three changes at once; None if there is none.

    Changes that keep the training come first, then fewer changes, then cheaper ones.

    Args:
        config: the configuration that does not fit.
        gpus: number of GPUs of the machine.
        fits: whether a run fits with these keys set; a ConfigError counts as false.
        processes: number of ranks given on the command line, or None.
    """
    others = list(_changes(config))
    placed = layouts(config, gpus, processes) if isinstance(config, TrainerConfig) else []
    groups = _groups(placed, others, _MOST_AT_ONCE)
    if not misplaced(config, places_of(config, gpus, processes), gpus, ""):
        groups += [group for count in range(1, _MOST_AT_ONCE + 1) for group in itertools.combinations(others, count)]
    for group in sorted(groups, key=_distance):
        keys = tuple(key for _, change in group for key in change)
        if len({key.split(" = ")[0] for key in keys}) == len(keys) and _holds(fits, keys):
            return keys
    return None


def _groups(placed: list[Costed], others: list[Costed], most: int) -> list[tuple[Costed, ...]]:
    """Return each layout alone and with up to `most` - 1 of the other changes."""
    beside = [group for count in range(most) for group in itertools.combinations(others, count)]
    return [(layout, *group) for layout in placed for group in beside]


def _distance(group: tuple[Costed, ...]) -> tuple[int, int, float]:
    costs = [cost for cost, _ in group]
    return sum(cost >= TRAINS_SOMETHING_ELSE for cost in costs), len(costs), sum(costs)


def _holds(fits: Callable[[Sequence[str]], bool], keys: Change) -> bool:
    try:
        return fits(keys)
    except ConfigError:
        return False


def _changes(config: TrainerConfig | SftConfig) -> Iterator[Costed]:
    """Yield changes other than placement, with their cost: in time, or by training something else."""
    yield from _smaller_batches(config)
    if not config.policy.gradient_checkpointing:
        yield 2, ("policy.gradient_checkpointing = true",)
    for stage in range(config.zero.stage + 1, 4):
        yield 2.5 + stage / 10, (f"zero.stage = {stage}",)
    if not config.zero.offload_optimizer:
        yield 4, ("zero.offload_optimizer = true", 'optimizer.implementation = "cpu"')
    if not config.zero.offload_parameters:
        yield 4.5, ("zero.offload_parameters = true",)
    if isinstance(config, TrainerConfig):
        yield from _of_rollout(config)
    if config.policy.lora is None:
        yield TRAINS_SOMETHING_ELSE + 8, ("policy.lora.rank = 16",)


def _smaller_batches(config: TrainerConfig | SftConfig) -> Iterator[Costed]:
    tokens = config.zero.micro_batch_tokens
    for halvings in range(1, 5):
        if tokens >> halvings >= 512:
            yield 0.5 + halvings / 4, (f"zero.micro_batch_tokens = {tokens >> halvings}",)


def _of_rollout(config: TrainerConfig) -> Iterator[Costed]:
    sampler, sampling = config.rollout.sampler, config.rollout.sampling
    if sampler.device == "cuda":
        for share in (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2):
            cost = 1 + abs(share - sampler.gpu_memory_utilization)
            yield cost, (f"rollout.sampler.gpu_memory_utilization = {share}",)
        if sampler.max_batched_tokens > 8192:
            yield 1.5, ("rollout.sampler.max_batched_tokens = 8192",)
    for halvings in (1, 2):
        length, answer = sampler.max_model_len >> halvings, sampling.max_tokens >> halvings
        cost = TRAINS_SOMETHING_ELSE + 6 + halvings
        yield cost, (f"rollout.sampler.max_model_len = {length}", f"rollout.sampling.max_tokens = {answer}")
