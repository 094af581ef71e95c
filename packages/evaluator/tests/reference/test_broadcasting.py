"""Tensors that a forward broadcasts in other sizes only."""

import pytest
import torch

from warpsmith.evaluator.reference.broadcasting import BroadcastFinder, broadcasts_more


def operations(forward, *shapes):
    with BroadcastFinder() as finder:
        forward(*(torch.zeros(shape) for shape in shapes))
    return finder.operations


def halves(boxes):
    return boxes[:, 2:] - boxes[:, :2]


def loop(rows, weight):
    total = rows.new_zeros(weight.shape)
    for row in rows:
        total = total + row * weight
    return total


@pytest.mark.parametrize(
    ("forward", "sample", "other", "more"),
    [
        (halves, [(6, 4)], [(5, 4)], False),
        (halves, [(6, 4)], [(6, 3)], True),
        (torch.add, [(6, 4), (6, 4)], [(1, 4), (1, 4)], False),
        (torch.add, [(6, 4), (6, 4)], [(1, 4), (6, 4)], True),
        (torch.add, [(6, 4), (1, 4)], [(5, 4), (1, 4)], False),
        (torch.add, [(6, 4), (4,)], [(5, 3), (3,)], False),
        (torch.where, [(6, 4), (6, 4), (6, 4)], [(6, 1), (6, 4), (6, 4)], True),
        (loop, [(6, 4), (4,)], [(3, 4), (4,)], False),
        (loop, [(6, 4), (4,)], [(3, 1), (4,)], True),
    ],
)
def test_what_is_broadcast_beyond_the_sample_is_found(forward, sample, other, more):
    if forward is torch.where:
        found = [operations(lambda a, b, c: torch.where(a > 0, b, c), *shapes) for shapes in (sample, other)]
    else:
        found = [operations(forward, *shapes) for shapes in (sample, other)]
    assert broadcasts_more(found[1], found[0]) is more
