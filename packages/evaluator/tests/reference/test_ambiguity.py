"""What of a problem's forward has no one answer."""

import pytest
import torch

from warpsmith.evaluator.reference.ambiguity import AmbiguityFinder

FINITE = torch.tensor([0.0, 200.9, 255.9])


def seen(forward):
    with AmbiguityFinder() as finder:
        forward()
    return finder.found, finder.undefined, finder.ranks


@pytest.mark.parametrize(
    "cast",
    [
        lambda x: x.to(torch.uint8),
        lambda x: x.to(device="cpu", dtype=torch.uint8),
        lambda x: x.type(torch.uint8),
        lambda x: x.byte(),
        lambda x: torch.empty(3, dtype=torch.uint8).copy_(x),
        lambda x: x.type_as(torch.zeros(1, dtype=torch.uint8)),
    ],
)
@pytest.mark.parametrize(
    ("numbers", "undefined"),
    [
        (FINITE, False),
        (FINITE.double(), False),
        (FINITE + 0.1, True),
        (FINITE - 1.0, True),
        (FINITE * float("nan"), True),
        (FINITE + float("inf"), True),
    ],
)
def test_a_cast_of_what_the_integers_do_not_reach_is_undefined(cast, numbers, undefined):
    assert seen(lambda: cast(numbers)) == (True, undefined, False)


@pytest.mark.parametrize(("number", "undefined"), [(-(2.0**63), False), (2.0**63, True), (2.0**62, False)])
def test_the_ends_of_int64(number, undefined):
    assert seen(lambda: torch.tensor([number]).long()) == (True, undefined, False)


@pytest.mark.parametrize(
    "other", [lambda x: x.to(torch.float16), lambda x: x.bool(), lambda x: x.int().float().int().to(torch.int64)]
)
def test_other_casts_are_defined(other):
    assert not seen(lambda: other(FINITE))[1]


@pytest.mark.parametrize("ranking", ["topk", "sort", "argsort", "argmax", "argmin", "kthvalue"])
def test_what_puts_numbers_in_order_is_seen(ranking):
    arguments = (1,) if ranking in {"topk", "kthvalue"} else ()
    assert seen(lambda: getattr(FINITE, ranking)(*arguments)) == (False, False, True)
    assert seen(lambda: getattr(torch, ranking)(FINITE, *arguments)) == (False, False, True)
    assert seen(FINITE.sum) == (False, False, False)


@pytest.mark.parametrize(
    "search",
    [
        lambda numbers: torch.searchsorted(numbers, FINITE),
        lambda numbers: torch.searchsorted(sorted_sequence=numbers, input=FINITE),
        lambda numbers: torch.bucketize(FINITE, numbers),
        lambda numbers: torch.bucketize(FINITE, boundaries=numbers),
    ],
)
def test_a_search_in_numbers_that_are_not_sorted_is_undefined(search):
    assert seen(lambda: search(torch.tensor([0.0, 1.0, 1.0, 7.0]))) == (True, False, False)
    assert seen(lambda: search(torch.tensor([0.0, 1.0, 0.9, 7.0]))) == (True, True, False)


EQUAL = torch.tensor([[1.0, 2.0, 2.0], [3.0, 4.0, 5.0]])


@pytest.mark.parametrize(
    ("ranking", "tied"),
    [
        (lambda x: x.argmax(-1), True),
        (lambda x: x.argmax(0), False),
        (lambda x: x[1:].sort(), False),
        (lambda x: x.sort(dim=1), True),
        (lambda x: torch.topk(x, 2), True),
        (lambda x: torch.topk(x, 2, 0), False),
        (lambda x: x.max(dim=0), False),
        (torch.argmin, True),
        (lambda x: x.amax(-1), False),
    ],
)
def test_equal_numbers_that_are_ordered_are_noticed(ranking, tied):
    with AmbiguityFinder() as finder:
        ranking(EQUAL)
    assert finder.tied is tied
