"""Gathers complete weights of a ZeRO model in bounded buckets, in the same order on every rank."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from warpsmith.policy import lowrank
from warpsmith.trainer.distributed import value_head
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.distributed.tensor_parallel import shard_of, whole


@dataclass(frozen=True)
class Part:
    """Parameters that are gathered together, and the result made from them.

    Attributes:
        name: name of the result.
        parameters: the parameters it needs.
        make: returns the result, on the parameters' device.
    """

    name: str
    parameters: list[nn.Parameter]
    make: Callable[[], Tensor]

    @property
    def dtype(self) -> str:
        """Dtype of the result, as `bfloat16`; not for 4-bit weights."""
        return str(self.parameters[0].dtype).removeprefix("torch.")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result, known without a gather; not for 4-bit weights."""
        return whole_shape(self.parameters[0])


def plain_parts(module: nn.Module) -> list[Part]:
    """Return every parameter under its own name, except a value head's. Tied weights are returned once."""
    return [_itself(name, parameter) for name, parameter in _named(module)]


def merged_parts(module: nn.Module, adapter: str = lowrank.ADAPTER) -> list[Part]:
    """Return every weight under its name without adapters; an adapted layer's has this adapter added."""
    sums = {f"{name}.weight": layer for name, layer in lowrank.layers(module).items()}
    return [
        _sum(base_name, sums[base_name], adapter) if base_name in sums else _itself(base_name, parameter)
        for name, parameter in _named(module)
        if not lowrank.is_factor(name)
        for base_name in [lowrank.base_name(name)]
    ]


def factor_parts(module: nn.Module, adapter: str = lowrank.ADAPTER) -> list[Part]:
    """Return the factors of an adapter under their names in peft's files."""
    return [
        _itself(lowrank.file_name(name, adapter), value)
        for name, value in _named(module)
        if lowrank.adapter_of(name) == adapter
    ]


def _named(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, value) for name, value in module.named_parameters() if not value_head.belongs(name)]


def _itself(name: str, parameter: nn.Parameter) -> Part:
    return Part(name, [parameter], lambda: lowrank.whole_weight(parameter))


def _sum(name: str, layer: Any, adapter: str) -> Part:
    factors = [layer.lora_A[adapter].weight, layer.lora_B[adapter].weight]
    return Part(name, [layer.get_base_layer().weight, *factors], lambda: lowrank.merged_weight(layer, adapter))


def gathered(parts: Iterable[Part], ranks: Ranks, bucket_elements: int) -> Iterator[tuple[str, Tensor]]:
    """Yield (name, host copy) of every part; ranks other than 0 iterate too, over empty copies.

    Under stage 3 at most `bucket_elements` are gathered at a time (at least one part), and copied inside the gather:
    outside of it their memory is reused.
    """
    for bucket in _buckets(parts, bucket_elements):
        with _whole([parameter for part in bucket for parameter in part.parameters], ranks):
            copies = [(part.name, _copy(part, ranks.drives)) for part in bucket]
        yield from copies


def whole_on_device(parts: Iterable[Part], ranks: Ranks, bucket_elements: int) -> Iterator[tuple[str, Tensor | None]]:
    """Yield (name, weight) of every part on the parameters' device, None off rank 0, gathered as by `gathered`.

    A weight is valid until the next one is asked for.
    """
    for bucket in _buckets(parts, bucket_elements):
        with _whole([parameter for part in bucket for parameter in part.parameters], ranks):
            for part in bucket:
                yield part.name, part.make() if ranks.drives else None


def _buckets(parts: Iterable[Part], limit: int) -> Iterator[list[Part]]:
    bucket: list[Part] = []
    elements = 0
    for part in parts:
        size = sum(whole_numel(parameter) for parameter in part.parameters)
        if bucket and elements + size > limit:
            yield bucket
            bucket, elements = [], 0
        bucket.append(part)
        elements += size
    if bucket:
        yield bucket


def whole_numel(parameter: nn.Parameter) -> int:
    """Return the number of elements of the complete parameter; under stage 3 its own `numel` is 0."""
    shard = shard_of(parameter)
    return int(vars(parameter).get("ds_numel", parameter.numel()) if shard is None else math.prod(shard.shape))


def whole_shape(parameter: nn.Parameter) -> tuple[int, ...]:
    """Return the shape of the complete parameter."""
    shard = shard_of(parameter)
    return tuple(vars(parameter).get("ds_shape", parameter.shape)) if shard is None else shard.shape


@contextmanager
def _whole(parameters: list[nn.Parameter], ranks: Ranks) -> Iterator[None]:
    """Complete the parameters that ZeRO stage 3 has spread, or that ranks share; never both, by the configuration."""
    import deepspeed

    with deepspeed.zero.GatheredParameters(parameters, modifier_rank=None), whole(parameters, ranks.layers):
        yield


def _copy(part: Part, wanted: bool) -> Tensor:
    return part.make().to("cpu", copy=True) if wanted else torch.empty(0, dtype=part.parameters[0].dtype)
