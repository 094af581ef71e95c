"""How values may change so that what they stand for is kept: variances positive, masks masks, indices in their range.

Every function here changes a tensor in place, on the judge's memory.
"""

from typing import Any, Final

import torch

FLIPPED: Final = 0.25
LARGEST_RANGE: Final = 1 << 22
"""The widest range of integers from which values are drawn without repetition."""


def _drawn_by(generator: torch.Generator) -> dict[str, Any]:
    """Return the arguments of a random function of torch that let `generator` draw, where it lives."""
    return {"generator": generator, "device": generator.device}


def stretch(tensor: torch.Tensor, *, centred: bool, factor: float) -> None:
    """Scale a sample, around its mean where `centred`: a sample of positive numbers then has negative ones too.

    A constant is scaled around zero: around its mean it would become zero, and hide what it is multiplied with.
    """
    wide = tensor.double()
    spread = centred and tensor.numel() > 1 and bool((wide != wide.flatten()[0]).any())
    middle = wide.mean() if spread else torch.zeros((), dtype=torch.float64, device=tensor.device)
    tensor.copy_((wide - middle) * factor)


def perturb(tensor: torch.Tensor, generator: torch.Generator) -> None:
    """Add noise of half the tensor's own spread, or of 0.1 where all its elements are equal."""
    wide = tensor.double()
    spread = float(wide.std()) if tensor.numel() > 1 else 0.0
    noise = torch.randn(tensor.shape, dtype=torch.float64, **_drawn_by(generator))
    tensor.copy_(wide + noise * (0.5 * spread if spread > 0 else 0.1))


def vary(tensor: torch.Tensor, generator: torch.Generator) -> None:
    """Change finite floating numbers; leave a tensor with infinities as it is.

    Where none is negative, each is multiplied by a factor in [0.5, 2]. Zeros alone, and signed numbers, get noise.
    """
    wide = tensor.double()
    if not bool(torch.isfinite(wide).all()):
        return
    if bool((wide < 0).any()) or not bool(wide.any()):
        perturb(tensor, generator)
        return
    factor = torch.exp2(torch.rand(tensor.shape, dtype=torch.float64, **_drawn_by(generator)) * 2 - 1)
    tensor.copy_(wide * factor)


def redraw(tensor: torch.Tensor, generator: torch.Generator) -> bool:
    """Change an input that never changes by itself, and return whether that was possible.

    Booleans are flipped here and there, integers drawn anew within their range, floating numbers varied.
    """
    if tensor.dtype.is_complex:
        return False
    before = tensor.double().clone()
    if tensor.dtype == torch.bool:
        _flip(tensor, generator)
    elif tensor.dtype.is_floating_point:
        _vary_table(tensor, generator)
    elif tensor.dtype != torch.uint64:
        values = tensor.flatten().to(torch.int64)
        tensor.copy_(_redrawn(values, generator).reshape(tensor.shape))
    return bool((tensor.double() != before).any())


def _vary_table(tensor: torch.Tensor, generator: torch.Generator) -> None:
    """Change floating numbers that hold more than one value: zeros stay zero, signs stay, sorted rows stay sorted.

    Where zeros and one other number are all there is, a mask, some of the others become zero.
    """
    wide = tensor.double()
    peak = wide.flatten()[wide.abs().argmax()]
    if not bool(torch.isfinite(wide).all()) or bool((wide == peak).all()):
        vary(tensor, generator)
    elif bool(((wide == 0) | (wide == peak)).all()):
        dropped = torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
        _flip(dropped, generator)
        tensor.copy_(wide.masked_fill(dropped, 0))
    else:
        factor = torch.exp2(torch.rand(tensor.shape, dtype=torch.float64, **_drawn_by(generator)) * 2 - 1)
        tensor.copy_(_sorted_like(wide, wide * factor))


def _sorted_like(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """Sort the rows of `after` where all those of `before` are sorted, up or down."""
    steps = before.diff(dim=-1) if before.dim() and before.shape[-1] > 1 else torch.zeros(0)
    if not steps.numel() or bool((steps < 0).any() and (steps > 0).any()):
        return after
    return after.sort(dim=-1, descending=bool((steps < 0).any())).values


def _flip(tensor: torch.Tensor, generator: torch.Generator) -> None:
    flips = torch.rand(tensor.numel(), **_drawn_by(generator)) < FLIPPED
    flips[torch.randint(tensor.numel(), (1,), **_drawn_by(generator))] = True
    tensor.logical_xor_(flips.reshape(tensor.shape))


def _redrawn(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return other values of the same range; distinct ones stay distinct, and sorted ones sorted with their ends."""
    low, high = int(values.min()), int(values.max())
    if low == high:
        return _other_constant(values, generator)
    ordered = bool((values[1:] >= values[:-1]).all())
    in_order = values.sort().values
    distinct = bool((in_order[1:] != in_order[:-1]).all())
    if distinct and not ordered:
        return values[torch.randperm(values.numel(), **_drawn_by(generator))]
    if not ordered:
        return torch.randint(low, high + 1, values.shape, **_drawn_by(generator))
    inner = _between(low, high, values.numel() - 2, distinct, generator)
    return torch.cat([values[:1], inner, values[-1:]])


def _between(low: int, high: int, count: int, distinct: bool, generator: torch.Generator) -> torch.Tensor:
    if not distinct or high - low > LARGEST_RANGE:
        return torch.randint(low, high + 1, (count,), **_drawn_by(generator)).sort().values
    return (torch.randperm(high - low - 1, **_drawn_by(generator))[:count] + low + 1).sort().values


def _other_constant(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return values from one to the constant, a full length then being a shorter one; zeros and ones become both."""
    constant = int(values[0])
    if constant < 0:
        return values
    return torch.randint(1 if constant > 1 else 0, max(constant, 1) + 1, values.shape, **_drawn_by(generator))
