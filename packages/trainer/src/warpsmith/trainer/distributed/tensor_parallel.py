"""Layers that are split over ranks by DeepSpeed's AutoTP: which ones, and their whole parameters."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch import distributed as dist

from warpsmith.policy.sequence_parallel import Split
from warpsmith.trainer.errors import ConfigError

if TYPE_CHECKING:
    from warpsmith.trainer.distributed.ranks import Ranks

_REDUCED = "replicated_with_grad_allreduce"
_SPECS: dict[str, dict[str, Any]] = {
    "colwise": {"partition_type": "column"},
    "rowwise": {"partition_type": "row"},
    # The layer's norms of heads: every rank has them whole, and sees only its own heads.
    _REDUCED: {"partition_type": "skip", "grad_allreduce": True},
    # What transformers would do with an embedding that is the output layer too.
    "embedding_rowwise": {"partition_type": "skip"},
}


def tensor_parallel(model: nn.Module, ranks: "Ranks") -> dict[str, Any]:
    """Return what DeepSpeed's configuration needs in addition to split a model's layers; empty if ranks share none.

    The split is that of transformers' own plan for the architecture.

    Only the layers of the blocks are split. Embedding and output layer stay whole on every rank: `policy.logprobs`
    reads log-probabilities off the output layer in chunks, and needs all of its rows for that.

    Args:
        model: a transformers model, whole.
        ranks: the processes.

    Raises:
        ConfigError: layers of this architecture cannot be split, or its heads not dealt to the ranks.
    """
    if ranks.layers is None:
        return {}
    config: Any = model.config
    ranks.parallel.check_model(config.to_dict(), type(model).__name__)
    plan: Mapping[str, str] = config.base_model_tp_plan or {}
    unknown = sorted(set(plan.values()) - _SPECS.keys())
    if not plan or unknown:
        why = f"its plan has {', '.join(unknown)}" if unknown else "transformers has no plan for it"
        raise ConfigError(
            f"parallel.tensor: {type(model).__name__} cannot be split over ranks: {why}.",
            "Set parallel.tensor = 1; zero.stage = 3 spreads the weights of any model.",
        )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        # DeepSpeed would hook into gradients that a frozen model has not.
        plan = {name: style for name, style in plan.items() if style != _REDUCED}
    specs = [{"patterns": [_pattern(name)], **_SPECS[style]} for name, style in plan.items()]
    partition = {"use_default_specs": False, "layer_specs": specs}
    return {"tensor_parallel": {"autotp_size": ranks.layers.size, "partition_config": partition}}


def _pattern(name: str) -> str:
    """Return the expression for the weight of a layer whose name has `*` for numbers."""
    return rf"(.*\.)?{re.escape(name).replace(re.escape('*'), '[0-9]+')}\.weight$"


# Parameters ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shard:
    """How DeepSpeed has split a parameter.

    Attributes:
        shape: of the whole parameter.
        dim: the dimension that is split.
        sizes: of each rank's part in that dimension.
    """

    shape: tuple[int, ...]
    dim: int
    sizes: tuple[int, ...]


def shard_of(parameter: nn.Parameter) -> Shard | None:
    """Return how a parameter is split over ranks; None if every rank has it whole."""
    from deepspeed.checkpoint.constants import DS_AUTOTP_UC_META

    metadata = vars(parameter).get(DS_AUTOTP_UC_META)
    if metadata is None or metadata["replicated"]:
        return None
    return Shard(tuple(metadata["logical_shape"]), metadata["partition_dim"], tuple(metadata["partition_sizes"]))


@contextmanager
def whole(parameters: Sequence[nn.Parameter], layers: Split | None) -> Iterator[None]:
    """Give each parameter its complete value inside the block; collective.

    DeepSpeed's own context (`GatherReplacedLayerParams`) makes a new copy of the part at the end; the parameter would
    then no longer lie in the buffer that ZeRO updates, and would never change again. Here it gets back the same memory.

    Args:
        parameters: those to complete, the same on every rank.
        layers: the ranks that share layers; None changes nothing.
    """
    if layers is None:
        yield
        return
    parts = [(parameter, parameter.data, shard) for parameter in parameters if (shard := shard_of(parameter))]
    try:
        for parameter, part, shard in parts:
            parameter.data = joined(part, shard, layers)
        yield
    finally:
        for parameter, part, _ in parts:
            parameter.data = part


def joined(part: Tensor, shard: Shard, layers: Split) -> Tensor:
    """Return the whole tensor; its parts have the same size, by `ParallelSection.check_model`."""
    parts = [torch.empty_like(part, memory_format=torch.contiguous_format) for _ in shard.sizes]
    dist.all_gather(parts, part.contiguous(), group=layers.group)
    return torch.cat(parts, shard.dim)


def joined_states(states: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
    """Return the whole weights from the files in which DeepSpeed's checkpoint has them, one for each part.

    Args:
        states: the contents of `mp_rank_00_model_states.pt` and so on, in order.

    Raises:
        KeyError: a file does not say how its weights were split.
    """
    from deepspeed.checkpoint.constants import (
        PARAMETER_WITH_ROW_PARALLELISM_PATTERNS,
        TP_REPLICATED_PARAMETER_PATTERNS,
        UNIVERSAL_CHECKPOINT_INFO,
    )

    first: dict[str, Tensor] = dict(states[0]["module"])
    if len(states) == 1:
        return first
    info = states[0][UNIVERSAL_CHECKPOINT_INFO]
    rows, same = info[PARAMETER_WITH_ROW_PARALLELISM_PATTERNS], info[TP_REPLICATED_PARAMETER_PATTERNS]
    aliases = {value.data_ptr(): name for name, value in reversed(list(first.items()))}
    found = {}
    for name, value in first.items():
        # A tied weight is described under its first name.
        described = aliases[value.data_ptr()]
        if _matches(same, described):
            found[name] = value
        else:
            found[name] = torch.cat([state["module"][name] for state in states], int(_matches(rows, described)))
    return found


def _matches(patterns: Iterable[str], name: str) -> bool:
    return any(re.match(pattern, name) for pattern in patterns)


def total_norm(parameters: Iterable[nn.Parameter], layers: Split | None) -> Tensor:
    """Return the norm of complete, reduced gradients over the whole model; collective."""
    given = [parameter for parameter in parameters if parameter.grad is not None]
    whole_ones = [parameter.grad for parameter in given if layers is None or shard_of(parameter) is None]
    norm = nn.utils.get_total_norm([grad for grad in whole_ones if grad is not None])
    if layers is None:
        return norm
    parts = [parameter.grad for parameter in given if shard_of(parameter) is not None]
    squared = nn.utils.get_total_norm([grad for grad in parts if grad is not None]) ** 2
    dist.all_reduce(squared, group=layers.group)
    return (norm**2 + squared).sqrt()
