"""What of a problem's forward has no one answer."""

import math

import pytest
import torch
import torch.nn.functional as F

from warpsmith.evaluator.reference.ambiguity import AmbiguityFinder

FINITE = torch.tensor([0.0, 200.9, 255.9])


def seen(forward):
    with AmbiguityFinder() as finder:
        forward()
    return finder.found, finder.undefined, finder.ranks


@pytest.mark.parametrize(
    ("ranking", "unordered"),
    [
        (lambda x: x.argmax(0), False),
        (lambda x: x.argmin(), False),
        (lambda x: x.max(0), False),
        (lambda x: torch.min(x, 0), False),
        (lambda x: x.sort(stable=True), False),
        (lambda x: x.sort(), True),
        (lambda x: x.topk(1), True),
        (lambda x: x.median(0), True),
        (lambda x: x.cummax(0), True),
        (lambda x: (x.argmax(0), x.topk(1)), True),
    ],
)
def test_which_of_equal_numbers_comes_first_is_specified_for_some_functions(ranking, unordered):
    with AmbiguityFinder() as finder:
        ranking(torch.tensor([1.0, 2.0, 2.0]))
    assert (finder.ranks, finder.tied, finder.unordered) == (True, True, unordered)


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
    ("ranking", "ranks"),
    [
        (lambda marks: marks.int().argmax(-1), False),
        (lambda marks: marks.long().max(-1), False),
        (lambda marks: torch.argmin(marks.to(torch.uint8), -1), False),
        (lambda marks: marks.float().argmax(-1), True),
        (lambda marks: marks.int().topk(1), True),
        (lambda marks: marks.int().sort(), True),
    ],
)
def test_the_first_of_equal_integers_is_no_accident(ranking, ranks):
    assert seen(lambda: ranking(torch.tensor([[False, True, True]])))[2] is ranks


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
        (lambda x: F.max_pool1d(x, 2, return_indices=True), True),
        (lambda x: F.max_pool1d(x[1:], 2, return_indices=True), False),
        (lambda x: F.max_pool2d(x[None], 2, return_indices=True), True),
        (lambda x: F.adaptive_max_pool2d(x[None, :, 1:] + torch.tensor([[0.0], [9.0]]), 2, return_indices=True), True),
        (lambda x: F.max_pool2d(x[None, :, :2], 2, return_indices=True), False),
    ],
)
def test_equal_numbers_that_are_ordered_are_noticed(ranking, tied):
    with AmbiguityFinder() as finder:
        ranking(EQUAL)
    assert finder.tied is tied


TWICE, ONCE = torch.tensor([3, 0, 3]), torch.tensor([3, 0, 1])
WRITES = {
    "scatter": lambda index: torch.zeros(5).scatter(0, index, torch.arange(3.0)),
    "scatter_ by rows": lambda index: torch.zeros(2, 5).scatter_(1, index.expand(2, 3), torch.arange(6.0).view(2, 3)),
    "index_copy": lambda index: torch.zeros(5, 2).index_copy(0, index, torch.ones(3, 2)),
    "index_put": lambda index: torch.zeros(5).index_put((index,), torch.arange(3.0)),
    "assignment": lambda index: torch.zeros(5, 2).__setitem__(index, torch.ones(3, 2)),
    "index_put without a sum": lambda index: torch.zeros(5).index_put((index,), torch.arange(3.0), False),
    "assignment from the end": lambda index: torch.zeros(4).__setitem__(
        torch.where(index == 3, torch.tensor([3, 0, -1]), index), torch.arange(3.0)
    ),
    "assignment to pairs": lambda index: torch.zeros(5, 5).__setitem__((index, index), torch.ones(3)),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("index", [ONCE, TWICE], ids=["once", "twice"])
def test_two_writes_to_one_place_have_no_order(name, index):
    assert seen(lambda: WRITES[name](index)) == (True, index is TWICE, False)


@pytest.mark.parametrize(
    "write",
    [
        lambda: torch.zeros(5).scatter_add(0, TWICE, torch.ones(3)),
        lambda: torch.zeros(5).scatter(0, TWICE, 1.0),
        lambda: torch.zeros(5).scatter(0, TWICE, torch.ones(3), reduce="add"),
        lambda: torch.zeros(5).index_put((TWICE,), torch.ones(3), accumulate=True),
        lambda: torch.zeros(5).index_put((TWICE,), torch.ones(3), True),
        lambda: torch.zeros(5).__setitem__(TWICE, 2.0),
        lambda: torch.zeros(5).__setitem__(slice(1, 3), torch.ones(2)),
        lambda: torch.zeros(5).__setitem__(torch.ones(5, dtype=torch.bool), torch.ones(5)),
    ],
)
def test_sums_and_one_number_for_all_places_have_an_answer(write):
    assert seen(write) == (False, False, False)


@pytest.mark.parametrize(("written", "undefined"), [([5.0, 1.0, 5.0], False), ([5.0, 1.0, 4.0], True)])
def test_writing_the_same_number_twice_has_an_answer(written, undefined):
    rows, numbers = TWICE.expand(2, 3), torch.tensor(written).expand(2, 3)
    assert seen(lambda: torch.zeros(2, 5).scatter(1, rows, numbers)) == (True, undefined, False)
    assert seen(lambda: torch.zeros(5, 2).scatter_(0, rows.T, numbers.T)) == (True, undefined, False)


ROWS = torch.linspace(1.0, 2.0, 20).reshape(10, 2)


@pytest.mark.parametrize(
    "compared",
    [
        lambda x, y: x / y > 0.5,
        lambda x, y: (x / y)[3] > 0.5,
        lambda x, y: (1 / y).reshape(-1) <= 2,
        lambda x, y: torch.lt(torch.div(x, y).t(), x.t()),
        lambda x, y: y.reciprocal().ge(x),
    ],
)
def test_a_compared_quotient_is_defined_where_its_divisors_have_the_sign_of_plain_inputs(compared):
    with AmbiguityFinder() as plain:
        compared(ROWS, ROWS)
    sign = plain.quotients.of_one_sign
    assert (plain.found, plain.undefined, sign) == (True, False, "+")
    for divisors, undefined in ((2 * ROWS, False), (-ROWS, True), (ROWS - 1, True), (ROWS - 1.5, True)):
        with AmbiguityFinder(sign) as finder:
            compared(ROWS, divisors)
        assert finder.undefined is undefined


@pytest.mark.parametrize(
    "forward",
    [
        lambda x: x / x.abs(),
        lambda x: (x / x.abs()).exp() > 2,
        lambda x: x > x / 2,
        lambda x: x.sum() / x[0, :1] > 1,
        lambda x: x / (x - 1.5) > 1,
    ],
)
def test_other_quotients_say_nothing_of_a_sign(forward):
    with AmbiguityFinder() as finder:
        forward(ROWS)
    assert not finder.quotients.of_one_sign


@pytest.mark.parametrize("rank", [torch.argmax, torch.argsort, lambda x: x.topk(1).indices, lambda x: x.max(0)[1]])
def test_numbers_that_are_none_are_noticed_where_they_are_ordered(rank):
    for numbers, of_nan in (([1.0, 2.0], False), ([1.0, math.nan], True)):
        with AmbiguityFinder() as finder:
            rank(torch.tensor(numbers))
        assert finder.of_nan is of_nan
