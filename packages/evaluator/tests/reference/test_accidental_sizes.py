"""Tensors that a forward broadcasts or clips in other sizes only."""

import pytest
import torch

from warpsmith.evaluator.reference.accidental_sizes import RunObserver, is_accident, pieces_of


def observed(forward, *shapes):
    with RunObserver() as observer:
        forward(*(torch.zeros(shape) for shape in shapes))
    return observer.run


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
def test_what_is_broadcast_beyond_the_sample_is_an_accident(forward, sample, other, more):
    if forward is torch.where:
        found = [observed(lambda a, b, c: torch.where(a > 0, b, c), *shapes) for shapes in (sample, other)]
    else:
        found = [observed(forward, *shapes) for shapes in (sample, other)]
    assert is_accident(found[1], found[0]) is more


@pytest.mark.parametrize(
    ("forward", "sample", "other", "accident"),
    [
        (lambda x: x[:8], (10, 3), (9, 3), False),
        (lambda x: x[:8], (10, 3), (7, 3), True),
        (lambda x: x[:8], (7, 3), (5, 3), False),
        (lambda x: x[-8:], (10, 3), (8, 3), False),
        (lambda x: x[-8:], (10, 3), (7, 3), True),
        (lambda x: x[..., 2:], (10, 3), (10, 2), False),
        (lambda x: x[..., 3:], (10, 3), (10, 2), True),
        (lambda x: x[1:], (10, 3), (1, 3), False),
        (lambda x: x[: x.shape[0]], (10, 3), (4, 3), False),
        (lambda x: x[:, ::2], (10, 3), (10, 1), False),
        (lambda x: x.narrow(0, 0, 4), (10, 3), (4, 3), False),
        (lambda x: [x[i : i + 4] for i in range(0, len(x), 4)], (10, 3), (7, 3), False),
        (lambda x: (x[:, :3], x[:6]), (8, 3), (5, 3), True),
        (lambda x: x[None, :6], (8, 3), (5, 3), True),
        (lambda x: x[..., :3], (8, 3), (8, 2), True),
        (lambda x: x[x[:, 0] == 0, 1:3], (8, 3), (8, 2), True),
        (lambda x: x[[0, 1], : torch.tensor(3)], (8, 3), (8, 2), True),
        (lambda x: x[..., None, 0:2], (8, 3), (8, 2), False),
    ],
)
def test_what_is_clipped_beyond_the_sample_is_an_accident(forward, sample, other, accident):
    assert is_accident(observed(forward, other), observed(forward, sample)) is accident


@pytest.mark.parametrize(
    ("forward", "sample", "other", "accident"),
    [
        (lambda x: x.chunk(3, -1), (4, 48), (4, 46), True),
        (lambda x: x.chunk(3, -1), (4, 48), (4, 45), False),
        (lambda x: x.chunk(3, -1), (4, 47), (4, 46), False),
        (lambda x: torch.chunk(x, 2), (4, 48), (3, 48), True),
        (lambda x: torch.tensor_split(x, 3, dim=1), (4, 48), (4, 46), True),
        (lambda x: x.split(8), (16, 3), (12, 3), True),
        (lambda x: x.split(8), (12, 3), (11, 3), False),
        (lambda x: x.split([8, 4]), (12, 3), (12, 5), False),
        (lambda x: x.tensor_split((5,)), (10, 3), (9, 3), False),
        (lambda x: x.split(split_size=8, dim=0), (16, 3), (12, 3), True),
        (lambda x: x.unbind(0), (16, 3), (12, 3), False),
        (lambda x: (x.hsplit(2), x.chunk(1)), (16, 4), (15, 4), False),
    ],
)
def test_pieces_that_are_uneven_where_those_of_the_sample_are_not_are_an_accident(forward, sample, other, accident):
    assert is_accident(observed(forward, other), observed(forward, sample)) is accident


def test_sides_are_noted_with_the_number_of_equal_pieces():
    def forward(x):
        return x.chunk(3, -1), x[:, :24].chunk(2, 1), x[:, :24].tensor_split(3, 1), x.split(2), x.chunk(3)

    run = observed(forward, (4, 48))
    assert run.pieces == {48: 3, 24: 6, 4: 2}
    assert pieces_of({str(side): count for side, count in run.pieces.items()}) == run.pieces
    assert pieces_of({"x": 3, "8": "2", "16": 0, "24": 4}) == {24: 4}
