"""In which precision a tensor was computed: a cast to a wider dtype adds no digits, and inputs have no rounding."""

from collections.abc import Callable

import pytest
import torch

from warpsmith.evaluator.correctness.compare import Expected, compare
from warpsmith.evaluator.correctness.computed_precision import PrecisionFinder

HALF, SINGLE, DOUBLE = torch.float16, torch.float32, torch.float64
X = torch.linspace(-2.0, 3.0, 12).reshape(3, 4)
H = X.half()


def into(place: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    place[:2] = source[:2]
    return place


@pytest.mark.parametrize(
    ("function", "given", "last", "narrowest"),
    [
        (lambda: (H @ H.T).to(SINGLE), HALF, HALF, 2),
        (lambda: (H * 3).to(DOUBLE), HALF, HALF, 2),
        (lambda: (H * 3).float().view(4, 3).relu()[:2], HALF, HALF, 2),
        (lambda: (X.exp()).double(), SINGLE, SINGLE, 4),
        (lambda: torch.softmax((H @ H.T).float(), -1), HALF, SINGLE, 2),
        (lambda: H.float() @ H.float().T, HALF, SINGLE, 4),
        (lambda: H.to(SINGLE), HALF, SINGLE, 4),
        (lambda: X.double().sum(), SINGLE, DOUBLE, 8),
        (lambda: torch.cat([(H * 3).float(), X]), HALF, SINGLE, 2),
        (lambda: into(torch.empty(3, 4), (H * 3).float()), HALF, SINGLE, 2),
        (lambda: H.float().exp().half().float(), HALF, HALF, 2),
        (lambda: X.exp().half().float(), SINGLE, SINGLE, 4),
        (lambda: X.exp() * 3, SINGLE, SINGLE, 4),
        (lambda: torch.floor(X), SINGLE, SINGLE, 4),
    ],
)
def test_the_precision_is_that_of_the_arithmetic(
    function: Callable[[], torch.Tensor], given: torch.dtype, last: torch.dtype, narrowest: int
) -> None:
    with PrecisionFinder([given]) as finder:
        found = finder.precision(function())
    assert (found.last, found.narrowest) == (last, narrowest)


def test_memory_that_is_used_again_has_the_precision_of_its_last_numbers() -> None:
    with PrecisionFinder([HALF]) as finder:
        for _ in range(8):
            assert finder.precision((H * 3).float()).last == HALF
            assert finder.precision(X + 1).last == SINGLE


def test_a_number_computed_in_half_precision_has_its_tolerance_in_every_dtype() -> None:
    value = torch.linspace(1.0, 2.0, 64).half().float()
    got = value * (1 + 2.0**-11)
    assert not compare(got, Expected(value, None, torch.zeros(64)), 1.0).ok
    assert compare(got, Expected(value, None, torch.zeros(64), computed="float16"), 1.0).ok
    assert not compare(value * 1.02, Expected(value, None, torch.zeros(64), computed="float16"), 1.0).ok
