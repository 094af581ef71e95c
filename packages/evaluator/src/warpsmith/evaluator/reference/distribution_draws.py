"""Which samples of `torch.distributions` vary as a whole, instead of the draws that they are computed from.

A sampler such as Laplace's needs draws within bounds: far beyond them it is not finite, and within them its sample
hardly varies. So it is the sample that is a draw, if each of its elements is drawn by itself or if its rows sum to one.
Samples with other relations between their elements, and discrete ones, are computed from draws that vary.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

import torch
from torch.distributions import Distribution, Independent, constraints
from torch.quasirandom import SobolEngine

Domain = Literal["line", "from zero", "rows of shares"]
"""What a sample's elements are: numbers, numbers of which zero is the least, or rows that sum to one."""
METHODS: Final = ("sample", "rsample")


def domain_of(sampler: Any) -> Domain | None:
    """Return the domain of a sampler whose samples vary as a whole; None for another one."""
    if isinstance(sampler, SobolEngine):
        return "from zero"
    while isinstance(sampler, Independent):
        sampler = sampler.base_dist
    try:
        support = sampler.support
        if support.is_discrete:
            return None
        if isinstance(support, type(constraints.simplex)):
            return "rows of shares"
        if support.event_dim:
            return None
    except (NotImplementedError, AttributeError):  # A class of the problem's own need not have a support.
        return None
    least = getattr(support, "lower_bound", None)
    return "from zero" if isinstance(least, int | float) and least == 0 else "line"


def methods() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield each method of torch that samples: its class, its name, and the function."""
    yield SobolEngine, "draw", SobolEngine.draw
    classes: list[type[Distribution]] = [Distribution]
    for owner in classes:
        own: list[type[Distribution]] = owner.__subclasses__()
        classes.extend(one for one in own if one not in classes)
    for owner in classes:
        if owner.__module__.startswith("torch."):
            yield from ((owner, name, vars(owner)[name]) for name in METHODS if name in vars(owner))


def shaped(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a sampler's arguments with the requested shape in the first place."""
    given = dict(kwargs)
    return ((given.pop("sample_shape"),), given) if "sample_shape" in given else (args, given)


def vary_shares(made: torch.Tensor, dice: torch.Generator) -> None:
    """Change rows that sum to one, in place: some become almost equal shares, in others one share is almost all.

    Args:
        made: rows in the last dimension, none negative.
        dice: random generator on the tensor's device.
    """
    wide = made.detach().double().clamp(min=torch.finfo(made.dtype).tiny)
    power = torch.exp2(6 * torch.rand((*wide.shape[:-1], 1), generator=dice, device=dice.device).double() - 3)
    order = torch.rand(wide.shape, generator=dice, device=dice.device).argsort(-1)
    powered = (wide.log() * power).softmax(-1).gather(-1, order)
    made.detach().copy_(powered.clamp(min=torch.finfo(made.dtype).tiny))
