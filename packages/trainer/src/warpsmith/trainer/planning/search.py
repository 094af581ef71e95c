"""The nearest change under which a run fits."""

import itertools
from collections.abc import Callable, Iterator, Sequence

from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.config.sft import SftConfig
from warpsmith.trainer.errors import ConfigError

Change = tuple[str, ...]
"""Keys to set together, each as `table.key = value`."""

_MOST_AT_ONCE = 3


def nearest(config: TrainerConfig | SftConfig, gpus: int, fits: Callable[[Sequence[str]], bool]) -> Change | None:
    """Return the least costly change under which `fits` holds, of up to three changes at once; None where none does.

    Args:
        config: what does not fit.
        gpus: of the machine.
        fits: whether a run fits with these keys set; a ConfigError of it counts as no.
    """
    single = list(_changes(config, gpus))
    for count in range(1, _MOST_AT_ONCE + 1):
        for chosen in sorted(itertools.combinations(single, count), key=lambda group: sum(cost for cost, _ in group)):
            keys = tuple(key for _, change in chosen for key in change)
            if len({key.split(" = ")[0] for key in keys}) == len(keys) and _holds(fits, keys):
                return keys
    return None


def _holds(fits: Callable[[Sequence[str]], bool], keys: Change) -> bool:
    try:
        return fits(keys)
    except ConfigError:
        return False


def _changes(config: TrainerConfig | SftConfig, gpus: int) -> Iterator[tuple[float, Change]]:
    """Yield changes with their cost: first what costs nothing but time, last what trains something else."""
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
        yield from _of_rollout(config, gpus)
    if config.policy.lora is None:
        yield 8, ("policy.lora.rank = 16",)


def _smaller_batches(config: TrainerConfig | SftConfig) -> Iterator[tuple[float, Change]]:
    tokens = config.zero.micro_batch_tokens
    for halvings in range(1, 5):
        if tokens >> halvings >= 512:
            yield 0.5 + halvings / 4, (f"zero.micro_batch_tokens = {tokens >> halvings}",)


def _of_rollout(config: TrainerConfig, gpus: int) -> Iterator[tuple[float, Change]]:
    engine, sampling, placement = config.rollout.engine, config.rollout.sampling, config.placement
    if engine.device == "cuda":
        for share in (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2):
            cost = 1 + abs(share - engine.gpu_memory_utilization)
            yield cost, (f"rollout.engine.gpu_memory_utilization = {share}",)
        if engine.max_batched_tokens > 8192:
            yield 1.5, ("rollout.engine.max_batched_tokens = 8192",)
    used = {*placement.train, *placement.rollout, *placement.evaluation}
    free = [gpu for gpu in range(gpus) if gpu not in used]
    for more in range(1, len(free) + 1) if placement.train else ():
        yield 3 + more / 10, (f"placement.train = {sorted([*placement.train, *free[:more]])}",)
    for halvings in (1, 2):
        length, answer = engine.max_model_len >> halvings, sampling.max_tokens >> halvings
        yield 6 + halvings, (f"rollout.engine.max_model_len = {length}", f"rollout.sampling.max_tokens = {answer}")
