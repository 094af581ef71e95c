"""Equal numbers are ordered by their index, or backwards, where torch specifies no order."""

import pytest
import torch

from warpsmith.evaluator.correctness.tied_orders import TiedOrder

NUMBERS = torch.tensor([[1.0, 3.0, 2.0, 3.0, 0.0], [0.0, 0.0, 0.0, 5.0, 0.0]])

ORDERS = {
    "topk": (lambda x: torch.topk(x, 2).indices, [[1, 3], [3, 0]], [[3, 1], [3, 4]]),
    "topk of the smallest": (lambda x: x.topk(2, largest=False).indices, [[4, 0], [0, 1]], [[4, 0], [4, 2]]),
    "topk by columns": (lambda x: x.t().topk(2, dim=0).indices.t(), [[1, 3], [3, 0]], [[3, 1], [3, 4]]),
    "sort": (lambda x: torch.sort(x, descending=True).indices[:, :2], [[1, 3], [3, 0]], [[3, 1], [3, 4]]),
    "argsort": (lambda x: torch.argsort(x, -1, True)[:, :2], [[1, 3], [3, 0]], [[3, 1], [3, 4]]),
    "stable sort": (
        lambda x: torch.sort(x, stable=True, descending=True).indices[:, :2],
        [[1, 3], [3, 0]],
        [[1, 3], [3, 0]],
    ),
}


@pytest.mark.parametrize("name", ORDERS)
def test_orders_of_equal_numbers(name):
    function, forwards, backwards = ORDERS[name]
    for way, indices in ((False, forwards), (True, backwards)):
        with TiedOrder(backwards=way):
            assert function(NUMBERS).tolist() == indices


def test_values_agree_with_their_indices_and_with_torch():
    x = torch.randint(0, 9, (7, 33)).half()
    for way in (False, True):
        with TiedOrder(backwards=way):
            values, indices = torch.topk(x, 5)
        assert torch.equal(values, torch.topk(x, 5).values)
        assert torch.equal(values, x.gather(-1, indices))
    with TiedOrder(backwards=True):
        assert torch.topk(torch.tensor(3.0), 1).indices.tolist() == 0
