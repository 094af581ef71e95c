"""Masks that select all of a slice, or none of it: a row without an observation, an image without a mark.

A mask of random numbers below a threshold selects some of each row, and in a million input sets never all of one. So in
two trials the numbers that decide are exchanged for others of their draw.
"""

from collections.abc import Callable
from typing import Final

import torch

from warpsmith.evaluator.reference.mutations import Dice, choices_of_dims, drawn_by

ALL: Final = 1
NONE: Final = 2
SELECTIONS: Final = (ALL, NONE)
BUT_ONE: Final = 2
"""Added to a selection: all but one element of a slice, or none but one, for problems that tolerate no more."""
MOST_SELECTION: Final = NONE + BUT_ONE
WHOLLY: Final = 1 / 6
"""How often all of a draw is selected, or nothing; one of a single dimension always is."""
AT_AN_END: Final = 2.0**-12
"""Remaining spread of numbers whose comparison is not seen: they lie at one end of their draw."""
ORDERINGS: Final = frozenset(
    [f"{mark}{name}{mark}" for name in ("lt", "le", "gt", "ge") for mark in ("", "__")]
    + ["less", "less_equal", "greater", "greater_equal"]
)
"""Comparisons by which a mask is made of floating numbers."""


def selects_all(selection: int) -> bool:
    """Whether a selection is `ALL`, or all but one."""
    return selection in {ALL, ALL + BUT_ONE}


def slices(shape: torch.Size, selection: int, generator: torch.Generator) -> torch.Tensor:
    """Return a mask with one slice of a shape for each choice of dimensions that a reduction can be over."""
    dice = Dice(generator)
    inside = torch.zeros(shape, dtype=torch.bool, device=generator.device)
    long = sum(size > 1 for size in shape)
    whole = long < 2 or float(dice.rand(())) < WHOLLY
    for chosen in choices_of_dims(shape):
        if (len(chosen) == long) == whole:
            at = tuple(slice(None) if dim in chosen else dice.below(size) for dim, size in enumerate(shape))
            inside[at] = True
            if selection > BUT_ONE:
                spared = tuple(dice.below(size) if dim in chosen else at[dim] for dim, size in enumerate(shape))
                inside[spared] = False
    return inside


def select(
    draw: torch.Tensor, mask: torch.Tensor, again: Callable[[], torch.Tensor], selection: int, dice: torch.Generator
) -> None:
    """Exchange numbers of a draw so that a comparison selects all of some slices, or none.

    Args:
        draw: the compared numbers, changed in place; they stay as they are if no others of them would do.
        mask: what the comparison of them gave, of the same shape; changed in place.
        again: repeats the comparison.
        selection: what is selected.
        dice: random generator on the tensor's device.
    """
    wanted, places = selects_all(selection), slices(draw.shape, selection, dice)
    before, wrong = draw.detach().clone(), places & (mask != wanted)
    fitting = before[mask == wanted]
    if not fitting.numel() or not bool(wrong.any()):
        return
    some = fitting[torch.randint(fitting.numel(), draw.shape, **drawn_by(dice))]
    # Where thresholds differ from element to element, an end of the draw is on the same side of most.
    for others in (some, before.min(), before.max()):
        draw.detach().copy_(torch.where(wrong, others, before))
        now = again()
        if bool((now[wrong] == wanted).all()):
            mask.copy_(now)
            return
    draw.detach().copy_(before)


def to_an_end(draw: torch.Tensor, selection: int, dice: torch.Generator) -> None:
    """Move slices of a draw to its low end, or to its high one, for a comparison that is not seen."""
    if not draw.numel() or draw.is_complex():
        return
    end = draw.min() if selects_all(selection) else draw.max()
    draw.copy_(torch.where(slices(draw.shape, selection, dice), end + AT_AN_END * (draw - end), draw))


def toss(tosses: torch.Tensor, selection: int, dice: torch.Generator) -> None:
    """Make tosses of some slices ones, or zeros."""
    if tosses.numel():
        tosses.masked_fill_(slices(tosses.shape, selection, dice), selects_all(selection))
