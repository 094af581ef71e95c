"""Alternative placements of a run on the GPUs of a machine, with their cost."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.planning.places import Places, may_time_beside, places_of

Change = tuple[str, ...]
"""Keys to set together, each as `table.key = value`."""

TRAINS_SOMETHING_ELSE = 100
"""Minimum cost of a change that costs more than time."""

_MOST_OF_A_KIND = 12
"""Maximum number of offered layouts of one kind: the search combines each with every two of the other changes."""


@dataclass(frozen=True)
class _Sizes:
    """Number of GPUs of each part.

    Attributes:
        train: number of ranks.
        samplers: samplers on GPUs of this machine.
        each: GPUs per sampler.
        judges: evaluators with a GPU.
        together: whether samplers share GPUs with training.
        timed: whether candidates are timed.
        apart: whether they are timed on GPUs that do nothing else.
    """

    train: int
    samplers: int
    each: int
    judges: int
    together: bool
    timed: bool
    apart: bool


def layouts(config: TrainerConfig, gpus: int, processes: int | None) -> list[tuple[float, Change]]:
    """Return the cheapest other layouts, each one change of several keys, the cheapest first.

    Fewer samplers and evaluators cost least, then other numbers of training GPUs, then GPUs that train and sample, then
    samplers with fewer GPUs each, then timing on GPUs that do other work in turns. Disabling timing changes the reward,
    which costs most.

    Args:
        config: the run's configuration.
        gpus: number of GPUs of the machine.
        processes: number of ranks given on the command line; layouts then keep it.
    """
    if not gpus:
        return list(_on_the_host(config))
    given = _on_this_machine(config, places_of(config, gpus, processes))
    now = _now(config, given)
    kinds: dict[tuple[bool, int, bool, bool], dict[Change, float]] = {}
    possible = _sizes(now, gpus, processes, may_share=may_time_beside(config))
    for cost, sizes in sorted(((_cost(now, sizes), sizes) for sizes in possible), key=_first):
        found = kinds.setdefault((sizes.together, sizes.each, sizes.timed, sizes.apart), {})
        new = _numbers(sizes, given, gpus, in_ray=config.rollout.evaluation.type == "ray")
        keys = () if new is None else _keys(config, sizes, given, new)
        if keys and len(found) < _MOST_OF_A_KIND:
            found.setdefault(keys, cost)
    return sorted(((cost, keys) for found in kinds.values() for keys, cost in found.items()), key=_first)


def _first(costed: tuple[float, object]) -> float:
    return costed[0]


def _on_this_machine(config: TrainerConfig, places: Places) -> Places:
    """Return the places without those of samplers that a cluster places."""
    return places if config.run.ray_address is None else replace(places, rollout=())


def _now(config: TrainerConfig, given: Places) -> _Sizes:
    rollout, on_gpus = config.rollout, bool(given.rollout)
    timed = bool(given.evaluation) and config.evaluator.timing
    return _Sizes(
        train=len(given.train),
        samplers=rollout.samplers if on_gpus else 0,
        each=rollout.sampler.tensor_parallel_size if on_gpus else 1,
        judges=len(given.evaluation),
        together=bool(set(given.train) & set(given.rollout)),
        timed=timed,
        apart=timed and not set(given.evaluation) & {*given.train, *given.rollout},
    )


def _sizes(now: _Sizes, gpus: int, processes: int | None, *, may_share: bool) -> Iterator[_Sizes]:
    """Yield sizes for which there are enough GPUs; see `layouts` for `processes`."""
    timings = {(False, False), *(((True, True), *([(True, False)] if may_share else [])) if now.timed else ())}
    for (timed, apart), together in itertools.product(timings, (False, True) if now.samplers else (False,)):
        for each in _halvings(now.each):
            found = [
                _Sizes(train, samplers, each, judges, together, timed, apart)
                for train in _ranks(now.train, gpus, fixed=processes is not None)
                for samplers, judges in _beside(now, gpus, _Sizes(train, 0, each, 0, together, timed, apart))
            ]
            yield from found
            # On fewer GPUs a sampler needs more of each: this helps only if there are too few.
            if found:
                break


def _beside(now: _Sizes, gpus: int, rest: _Sizes) -> list[tuple[int, int]]:
    """Return possible numbers of samplers and evaluators besides the rest: the smallest loss, and the fewest.

    Fewer than fit reduce the load of the host, as fewer ranks do.
    """
    pairs = []
    for judges in range(min(now.judges, 1), min(now.judges, gpus) + 1):
        room = gpus - (judges if rest.apart else 0)
        samplers = min(now.samplers, (room if rest.together else room - rest.train) // rest.each)
        if rest.train <= room and (samplers > 0 or not now.samplers):
            pairs.append((samplers, judges))
    best = sorted(pairs, key=lambda pair: _lost(now, *pair))[:1]
    fewest = (min(now.samplers, 1), min(now.judges, 1))
    return list(dict.fromkeys([*best, fewest])) if pairs and rest.train in (1, now.train) else best


def _lost(now: _Sizes, samplers: int, judges: int) -> float:
    """Return the cost of fewer samplers and evaluators: a share of both costs less than twice that share of one."""
    return sum((1 - left / have) ** 2 for have, left in ((now.samplers, samplers), (now.judges, judges)) if have)


def _ranks(now: int, most: int, *, fixed: bool) -> list[int]:
    """Return possible numbers of training GPUs: any up to twice the current one, or 8, and doublings of that."""
    wanted = {now} if fixed else {*range(1, max(2 * now, 8) + 1), *(now << times for times in range(2, 8))}
    return sorted(count for count in wanted if count <= most)


def _halvings(count: int) -> list[int]:
    """Return the count, half of it, and so on down to 1."""
    return [count >> times for times in range(count.bit_length())]


def _cost(now: _Sizes, new: _Sizes) -> float:
    cost = 2 + 0.4 * _lost(now, new.samplers, new.judges)
    if new.train < now.train:
        cost += 1 + (now.train - new.train) / now.train
    elif new.train > now.train:
        cost += 1 + (new.train - now.train) / 10
    if new.together != now.together:
        cost += 3.5 if new.together else 0.2
    cost += 4 * (now.each / new.each - 1)
    if new.timed and new.apart != now.apart:
        cost += 0.2 if new.apart else 10
    return cost + (TRAINS_SOMETHING_ELSE + 9 if new.timed != now.timed else 0)


def _numbers(sizes: _Sizes, given: Places, gpus: int, *, in_ray: bool) -> Places | None:
    """Return GPUs for these sizes, those that the file names first; None if there are too few.

    A GPU that Ray assigns to an evaluator cannot be assigned to a sampler.
    """
    others = {*given.rollout, *given.evaluation} - {*given.train}
    train = _choose(range(gpus), sizes.train, given.train, lambda gpu: gpu in others)
    from_the_last = range(gpus - 1, -1, -1)
    judges = _choose(from_the_last, sizes.judges, given.evaluation, lambda gpu: (gpu in train, gpu in given.rollout))
    apart = judges if sizes.apart or in_ray else ()
    wanted = sizes.samplers * sizes.each
    rollout = _choose(
        [gpu for gpu in range(gpus) if gpu not in apart], wanted, given.rollout,
        lambda gpu: ((gpu in train) != sizes.together, gpu in judges),
    )  # fmt: skip
    if (len(train), len(judges), len(rollout)) != (sizes.train, sizes.judges, wanted):
        return None
    if sizes.timed and not sizes.apart and not {*judges} & {*train, *rollout}:
        # The same as the layout that times apart.
        return None
    return Places(train, rollout, judges)


def _choose(gpus: Iterable[int], count: int, named: tuple[int, ...], against: Callable[[int], Any]) -> tuple[int, ...]:
    """Return this many of `gpus`: those with the fewest objections, then the named ones, then the first."""
    return tuple(sorted(sorted(gpus, key=lambda gpu: (against(gpu), gpu not in named))[:count]))


def _keys(config: TrainerConfig, sizes: _Sizes, given: Places, new: Places) -> Change:
    """Return the keys to set for a layout: those whose values change."""
    placement, rollout = config.placement, config.rollout
    keys = [f"placement.train = {list(new.train)}"] if set(new.train) != set(given.train) else []
    # Samplers without named GPUs use the first training GPUs.
    sampling = placement.rollout or new.train[: len(new.rollout)]
    if set(new.rollout) != set(sampling) and sizes.samplers:
        keys.append(f"placement.rollout = {list(new.rollout)}")
    if set(new.evaluation) != set(given.evaluation):
        # A file uses one of two keys for this, not both.
        own = "gpu" in config.evaluator.model_fields_set
        keys.append(f"evaluator.gpu = {new.evaluation[0]}" if own else f"placement.evaluation = {list(new.evaluation)}")
    if sizes.samplers not in (0, rollout.samplers):
        keys.append(f"rollout.samplers = {sizes.samplers}")
    if sizes.samplers and sizes.each != rollout.sampler.tensor_parallel_size:
        keys.append(f"rollout.sampler.tensor_parallel_size = {sizes.each}")
    if sizes.judges != len(given.evaluation):
        keys.append(f"rollout.evaluation.actors = {sizes.judges}")
    if given.evaluation and sizes.timed != config.evaluator.timing:
        keys.append("evaluator.timing = false")
    return tuple(keys)


def _on_the_host(config: TrainerConfig) -> Iterator[tuple[float, Change]]:
    """Yield the change that moves every part to the CPU, on a machine without GPUs; none if a part needs a GPU."""
    policy, placement, rollout = config.policy, config.placement, config.rollout
    quantized = policy.lora is not None and policy.lora.bits is not None
    if quantized or policy.kernels != "torch" or policy.attention not in ("sdpa", "eager"):
        return
    keys = ["placement.train = []"] if placement.train else []
    if rollout.sampler.device == "cuda":
        keys.append('rollout.sampler.device = "cpu"')
        keys += ["placement.rollout = []"] if placement.rollout else []
        keys += ["rollout.sampler.tensor_parallel_size = 1"] if rollout.sampler.tensor_parallel_size > 1 else []
    judged = config.evaluator.device == "cuda" and rollout.evaluation.type != "server"
    if judged:
        keys.append('evaluator.device = "cpu"')
        keys += ["placement.evaluation = []"] if placement.evaluation else []
    if keys:
        yield 5 + (TRAINS_SOMETHING_ELSE if judged and config.evaluator.timing else 0), tuple(keys)
