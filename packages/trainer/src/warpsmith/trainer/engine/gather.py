"""Whole weights out of a ZeRO model, in bounded buckets, in the same order on every rank."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from warpsmith.trainer.engine import valuehead
from warpsmith.trainer.engine.ranks import Ranks


def gathered_weights(module: nn.Module, ranks: Ranks, bucket_elements: int) -> Iterator[tuple[str, Tensor]]:
    """Yield (name, host copy) of every parameter but a value head's; ranks other than 0 iterate too, over empty ones.

    Tied weights come once. Under stage 3 at most `bucket_elements` are gathered at a time (one parameter at least),
    and copied inside the gather: outside of it the memory belongs to somebody else.
    """
    named = [(name, parameter) for name, parameter in module.named_parameters() if not valuehead.belongs(name)]
    for bucket in _buckets(named, bucket_elements):
        with _whole([parameter for _, parameter in bucket]):
            copies = [(name, _copy(parameter, ranks.drives)) for name, parameter in bucket]
        yield from copies


def _buckets(named: list[tuple[str, nn.Parameter]], limit: int) -> Iterator[list[tuple[str, nn.Parameter]]]:
    bucket: list[tuple[str, nn.Parameter]] = []
    elements = 0
    for name, parameter in named:
        size = whole_numel(parameter)
        if bucket and elements + size > limit:
            yield bucket
            bucket, elements = [], 0
        bucket.append((name, parameter))
        elements += size
    if bucket:
        yield bucket


def whole_numel(parameter: nn.Parameter) -> int:
    """Return the elements of the whole parameter; under stage 3 its own `numel` is that of an empty tensor."""
    return int(vars(parameter).get("ds_numel", parameter.numel()))


def _whole(parameters: list[nn.Parameter]) -> AbstractContextManager[Any]:
    import deepspeed

    gather: AbstractContextManager[Any] = deepspeed.zero.GatheredParameters(parameters, modifier_rank=None)
    return gather


def _copy(parameter: nn.Parameter, wanted: bool) -> Tensor:
    return parameter.detach().to("cpu", copy=True) if wanted else torch.empty(0, dtype=parameter.dtype)
