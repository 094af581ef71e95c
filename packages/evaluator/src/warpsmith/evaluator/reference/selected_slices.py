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
PART: Final = 1 / 3
"""Share of a draw of one dimension that is selected where a comparison is not seen: it may be of many rows."""
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


def slices(shape: torch.Size, selection: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two masks: the elements to select, or not to, in one slice for each choice of dimensions; and the others.

    A choice is one that a reduction can be over. A vector is selected as a whole.
    """
    dice = Dice(generator)
    inside, spared = (torch.zeros(shape, dtype=torch.bool, device=generator.device) for _ in range(2))
    long = sum(size > 1 for size in shape)
    for chosen in choices_of_dims(shape):
        if len(chosen) < long or long == 1:
            at = tuple(slice(None) if dim in chosen else dice.below(size) for dim, size in enumerate(shape))
            inside[at], spared[at] = True, False
            if selection > BUT_ONE:
                spared[tuple(dice.below(size) if dim in chosen else at[dim] for dim, size in enumerate(shape))] = True
    return inside & ~spared, spared


def _wanted(mask: torch.Tensor, selection: int, dice: torch.Generator) -> torch.Tensor:
    """Return what a mask is to select."""
    inside, spared = slices(mask.shape, selection, dice)
    every = selects_all(selection)
    return mask.bool().masked_fill(inside, every).masked_fill(spared, not every)


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
    wanted, before = _wanted(mask, selection, dice), draw.detach().clone()
    if bool(mask.all()) or not bool(mask.any()):
        return
    some = torch.empty_like(before)
    for side in (True, False):
        fitting = before[mask == side]
        picked = fitting[torch.randint(len(fitting), draw.shape, **drawn_by(dice))]
        some = torch.where(wanted == side, picked, some)
    # Where thresholds differ from element to element, an end of the draw is on the same side of most.
    for others in (some, before.min(), before.max()):
        draw.detach().copy_(torch.where(wanted != mask, others, before))
        now = again()
        if torch.equal(now, wanted):
            mask.copy_(now)
            return
    draw.detach().copy_(before)


def to_an_end(draw: torch.Tensor, selection: int, dice: torch.Generator) -> None:
    """Move slices of a draw to its low end, or to its high one, for a comparison that is not seen."""
    if not draw.numel() or draw.is_complex():
        return
    inside, spared = slices(draw.shape, selection, dice)
    if draw.dim() == 1:
        length = max(1, int(PART * len(draw)))
        begin = Dice(dice).below(len(draw) - length + 1)
        inside[:begin] = inside[begin + length :] = False
    low, high = draw.min(), draw.max()
    end, other = (low, high) if selects_all(selection) else (high, low)
    moved = torch.where(inside, end + AT_AN_END * (draw - end), draw)
    draw.copy_(torch.where(spared, other, moved))


def toss(tosses: torch.Tensor, selection: int, dice: torch.Generator) -> None:
    """Make tosses of some slices ones, or zeros."""
    if tosses.numel():
        tosses.copy_(_wanted(tosses, selection, dice))
