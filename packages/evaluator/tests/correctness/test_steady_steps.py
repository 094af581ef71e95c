"""Steps that no rounding reaches have one result in every run; all others follow the numbers of the run."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn

from warpsmith.evaluator.correctness.steady_steps import SteadySteps, StepFinder, WideNumbers
from warpsmith.evaluator.reference.accidental_sizes import RunObserver

X = torch.tensor([[0.1, 0.3, 0.5, 0.2], [0.9, 0.3, 0.7, 0.4]])


def again(forward, x, other, *, tied=False, inexact=()):
    """Return what a forward gives for `other` with the steps that it has for `x`."""
    with StepFinder(inexact) as finder:
        forward(x)
    held = SteadySteps(finder.steps(tied=tied))
    with held:
        found = forward(other)
    return found, held.follows(finder.count), len(finder.steps(tied=tied))


@pytest.mark.parametrize(
    "forward",
    [
        lambda x: x > 0.3,
        lambda x: 2 * x.t()[1:].clone() > 0.6,
        lambda x: x.floor(),
        lambda x: (x / 4).round() > 0.3,
        lambda x: torch.argmax(x, 1),
        lambda x: torch.bucketize(x, torch.tensor([0.2, 0.3])),
        lambda x: torch.where(x > 0.3, 1.0, 2.0),
        lambda x: x.max(1).indices + x.topk(2).indices.sum(),
        lambda x: (x.clamp(min=0.2) >= 0.3).sum(1),
        lambda x: (torch.log(x), (x > 0.3))[1],
        lambda x: (x * 8).to(torch.int64),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_step_of_unrounded_numbers_is_held(forward, dtype):
    found, follows, count = again(forward, X, (X * torch.tensor([2.0, 0.5])[:, None] - 0.1).to(dtype))
    assert torch.equal(found.to(torch.float64), forward(X).to(torch.float64))
    assert follows and count


@pytest.mark.parametrize(
    "forward",
    [
        lambda x: x * 0.7 > 0.3,
        lambda x: torch.exp(x) > 1.3,
        lambda x: (x / 3).floor() + (3 * x).floor(),
        lambda x: torch.argmax(torch.softmax(x, 1), 1),
        lambda x: nn.functional.layer_norm(x, (4,)) > 0,
        lambda x: (x.cumsum(1) > 0.5).float(),
        lambda x: x.half() > 0.3,
        lambda x: nn.functional.scaled_dot_product_attention(*[x[None, None]] * 3) > 0.4,
        lambda x: x.clone().mul_(0.7).gt(0.3).logical_not(),
    ],
)
def test_a_step_of_rounded_numbers_follows_them(forward):
    other = X * 1.9
    found, _, count = again(forward, X, other)
    assert torch.equal(found, forward(other))
    assert not count


def test_what_is_rounded_elsewhere_counts_as_rounded():
    table = torch.tensor([0.1, 0.2, 0.4, 0.8])
    assert again(lambda x: x > table, X, X)[2] == 1
    assert again(lambda x: x > table, X, X, inexact=[table])[2] == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("forward", "count"),
    [
        (lambda x: x > 0.3, 0),
        (lambda x: (x > 0.3).float() > 0.5, 0),
        (lambda x: x > torch.tensor(0.3), 0),
        (lambda x: x.clamp(min=0.3).floor(), 0),
        (lambda x: x == 10001, 0),
        (lambda x: x > 0.25, 1),
        (lambda x: x.floor(), 1),
        (lambda x: x > torch.tensor(0.3, dtype=x.dtype), 1),
        (lambda x: x.argmax(1), 1),
    ],
)
def test_a_number_that_half_precision_rounds_makes_no_steady_step(forward, count, dtype):
    assert again(forward, X.to(dtype), X.to(dtype))[2] == count


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_wide_numbers_are_those_of_the_source(dtype):
    x = X.to(dtype)
    with WideNumbers():
        above, same, other = x > 0.3, x > 0.25, (x > 0.3).float() + x.clamp(min=0.3)
    assert torch.equal(above, x.float() > 0.3)
    assert torch.equal(same, x > 0.25)
    assert torch.equal(other, (x.float() > 0.3).float() + x.clamp(min=0.3))


@pytest.mark.parametrize(
    ("forward", "count"),
    [
        (lambda x: x > x.mean().item(), 0),
        (lambda x: (x > 0.5) & (x > float(x.exp()[0, 0])), 1),
        (lambda x: x > int((x.exp() > 1.2).sum()), 0),
        (lambda x: x > x.amax().item(), 1),
    ],
)
def test_a_rounded_number_that_python_has_been_given_stays_rounded(forward, count):
    assert again(forward, X, X)[2] == count


def test_what_the_finder_computes_is_no_part_of_an_observed_run():
    def observed(finder):
        with RunObserver() as observer, finder:
            (X / 4 > 0.25).logical_not()
            X.half() > 0.3  # noqa: B015
        return observer.run.operations

    assert observed(StepFinder()) == observed(nullcontext())


def test_orders_are_not_held_where_something_is_tied():
    assert again(lambda x: (x.argmax(1), x > 0.3), X, X, tied=True)[2] == 1


def test_a_run_that_takes_another_way_is_noted():
    def forward(x):
        return x > 0.3 if x.sum() < 4 else (x > 0.3) & (x > 0.5)

    assert again(forward, X, X)[1]
    assert not again(forward, X, X + 5)[1]


@pytest.mark.parametrize(
    ("forward", "others"),
    [
        (lambda x: x > 0.3, False),
        (lambda x: torch.exp(x) * (x > 0.3), False),
        (lambda x: torch.relu(torch.exp(x)), False),
        (lambda x: x.softmax(1).cumsum(1) < 0.9, True),
        (lambda x: (x * 0.7).round(), True),
    ],
)
def test_steps_of_rounded_numbers_are_noted(forward, others):
    with StepFinder() as finder:
        forward(X)
    assert finder.others == others
