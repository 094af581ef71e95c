"""Outputs are paired by name at every depth, and a form that differs is explained with its place."""

import math
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.tensor_slots import contiguous
from warpsmith.evaluator.recordings.outputs import (
    MOST,
    Bounded,
    OutputError,
    arranged,
    canonical,
    form_mismatch,
    places,
)

ONE, TWO, THREE = (torch.zeros(2, number) for number in (1, 2, 3))
SLOT = contiguous("float32", (2, 3))


class Pair(NamedTuple):
    mean: Any
    peak: Any


class Riap(NamedTuple):
    peak: Any
    mean: Any


@dataclass
class Stats:
    mean: Any
    peak: Any = None


@dataclass
class OtherStats:
    peak: Any
    mean: Any


@dataclass
class Loss(OrderedDict):
    """As a ModelOutput of transformers: its fields that are not None are its keys too."""

    mean: Any = None
    peak: Any = None

    def __post_init__(self):
        self.update({name: value for name, value in (("mean", self.mean), ("peak", self.peak)) if value is not None})


class Axis(Enum):
    ROWS = 0


def form(value: Any, expected: Any = None) -> tuple[codec.Value, list[torch.Tensor]]:
    """Return the form of an output as a process hands it over, and its tensors in that order."""
    found: list[torch.Tensor] = []
    tree = canonical(value, lambda tensor, place: tensor)
    described = tensor_views.describe(arranged(tree, expected) if expected is not None else tree, found)
    return codec.decode(codec.encode(described)), found


def paired(reference: Any, candidate: Any) -> tuple[str, list[torch.Tensor]]:
    expected, _ = form(reference)
    got, tensors = form(candidate, expected)
    return form_mismatch(got, expected), tensors


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        ({"mean": ONE, "peak": TWO}, {"peak": TWO, "mean": ONE}),
        ({"mean": ONE, "peak": TWO}, OrderedDict(peak=TWO, mean=ONE)),
        (defaultdict(list, mean=ONE, peak=TWO), {"peak": TWO, "mean": ONE}),
        ({"mean": ONE, "peak": TWO}, UserDict(peak=TWO, mean=ONE)),
        ({"mean": ONE, "peak": TWO}, Loss(mean=ONE, peak=TWO)),
        (Loss(mean=ONE, peak=TWO), {"peak": TWO, "mean": ONE}),
        (Loss(mean=ONE, peak=TWO), OtherStats(peak=TWO, mean=ONE)),
        (Loss(peak=TWO), Stats(mean=None, peak=TWO)),
        (Stats(ONE, TWO), OtherStats(peak=TWO, mean=ONE)),
        (Stats(ONE, TWO), Riap(peak=TWO, mean=ONE)),
        (Pair(ONE, TWO), Riap(peak=TWO, mean=ONE)),
        (Pair(ONE, TWO), (ONE, TWO)),
        ((ONE, TWO), [ONE, TWO]),
        ((ONE, TWO), Riap(ONE, TWO)),
        ([{"a": (ONE, Stats(TWO, THREE))}], ({"a": [ONE, OtherStats(THREE, TWO)]},)),
        ({3: ONE, 1: TWO, "1": THREE}, {"1": THREE, 1: TWO, 3: ONE}),
        ({(0, "a"): ONE, None: TWO, Axis.ROWS: THREE}, {Axis.ROWS: THREE, None: TWO, (0, "a"): ONE}),
        ({"a": ONE, "n": 3, "s": "x", "t": True}, {"t": True, "s": "x", "n": 3, "a": ONE}),
        ({"a": ONE, "n": 0.5}, {"n": 0.1 + 0.4, "a": ONE}),
        ({"a": (), "b": {}}, {"b": {}, "a": []}),
        ((torch.float16, ONE.shape, None), [torch.float16, (2, 1), None]),
    ],
)
def test_parts_are_paired_by_name(reference, candidate):
    _, expected = form(reference)
    mismatch, tensors = paired(reference, candidate)
    assert mismatch == ""
    assert [tensor.shape for tensor in tensors] == [tensor.shape for tensor in expected]


def test_what_torch_returns_with_names_is_paired_by_these():
    Swapped = namedtuple("Swapped", ["indices", "values"])
    found = torch.max(THREE, dim=1)
    expected, tensors = form(found)
    got, swapped = form(Swapped(found.indices, found.values), expected)
    assert form_mismatch(got, expected) == ""
    assert [tensor.dtype for tensor in swapped] == [tensor.dtype for tensor in tensors] == [torch.float32, torch.int64]
    assert form_mismatch(form((found.values, found.indices), expected)[0], expected) == ""


@pytest.mark.parametrize(
    ("reference", "candidate", "says"),
    [
        (ONE, ONE.double(), "Output has dtype float64; expected float32"),
        (ONE, TWO, "Output has shape [2, 2]; expected [2, 1]"),
        (ONE, (ONE,), "Output is a tuple of 1 items; expected a float32 tensor of shape [2, 1]"),
        (ONE, {"a": ONE}, "Output is a dict with the keys 'a'; expected a float32 tensor"),
        ((ONE,), ONE, "Output is a float32 tensor of shape [2, 1]; expected a tuple of 1 items"),
        ((ONE,), (ONE, ONE), "Output has 2 items; expected 1"),
        ({"a": ONE}, (ONE,), "Output is a tuple of 1 items; expected a dict with the keys 'a'"),
        ({"a": ONE}, {"b": ONE}, "Output has the keys 'b'; expected the keys 'a'"),
        ({"a": ONE, "b": ONE}, {"a": ONE}, "Output has the keys 'a'; expected the keys 'a', 'b'"),
        ({1: ONE}, {"1": ONE}, "Output has the keys '1'; expected the keys 1"),
        ({"a": {"b": (ONE, ONE)}}, {"a": {"b": (ONE, TWO)}}, "Output['a']['b'][1] has shape [2, 2]"),
        ({2: ONE}, {2: TWO}, "Output[2] has shape"),
        (Stats(ONE, TWO), Stats(TWO, ONE), "Output.mean has shape [2, 2]; expected [2, 1]"),
        (Pair(ONE, TWO), Riap(ONE, TWO), "Output.mean has shape [2, 2]; expected [2, 1]"),
        (Pair(ONE, TWO), (TWO, ONE), "Output[0] has shape [2, 2]; expected [2, 1]"),
        (Pair(ONE, TWO), {"mean": ONE, "peak": TWO}, "is a dict; expected a namedtuple with the fields 'mean', 'peak'"),
        (Stats(ONE, TWO), (ONE, TWO), "expected a dataclass with the fields 'mean', 'peak'"),
        (Loss(mean=ONE), Loss(peak=ONE), "expected the fields 'mean'"),
        ((ONE, None), (ONE, ONE), "Output[1] is a float32 tensor of shape [2, 1]; expected None"),
        ((ONE, ONE), (ONE, None), "Output[1] is None; expected a float32 tensor"),
        ((ONE, 2), (ONE, 1), "Output[1] is 1; expected 2"),
        ((ONE, 1.0), (ONE, 1.5), "Output[1] is 1.5; expected 1.0"),
        ((ONE, 1), (ONE, True), "Output[1] is the bool True; expected the int 1"),
        ((ONE, "a"), (ONE, "b"), "Output[1] is 'b'; expected 'a'"),
        ((ONE, torch.float16), (ONE, torch.float32), "Output[1] is torch.float32; expected torch.float16"),
    ],
)
def test_a_form_that_differs_is_explained(reference, candidate, says):
    assert says in paired(reference, candidate)[0]


def test_a_label_under_which_another_value_stands_is_seen():
    """As many of the same shape in the same order, under swapped names: what is paired is what has the name."""
    mean, peak = torch.full((2,), 1.0), torch.full((2,), 2.0)
    expected, _ = form({"mean": mean, "peak": peak})
    for swapped in ({"peak": mean, "mean": peak}, {"mean": peak, "peak": mean}):
        got, tensors = form(swapped, expected)
        assert form_mismatch(got, expected) == ""
        assert [float(tensor[0]) for tensor in tensors] == [2.0, 1.0]


def test_each_tensor_has_a_place():
    tree, tensors = form({"a": ONE, 2: [TWO, Stats(THREE, None)], "b c": 1})
    assert list(places(tree)) == ["Output['a']", "Output[2][0]", "Output[2][1].mean"]
    assert len(tensors) == 3
    assert list(places(form(ONE)[0])) == ["Output"]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": {1, 2}}, r"Output\['a'\] is of type set, which cannot be compared. Return tensors"),
        ((ONE, iter(())), r"Output\[1\] is of type tuple_iterator"),
        (Stats(object()), r"Output.mean is of type object"),
        ({"a": {object(): 1}}, r"Output\['a'\] has a key of type object"),
        (Stats, "Output is of type type"),
    ],
)
def test_what_cannot_be_compared_is_named_with_its_place(value, says):
    with pytest.raises(OutputError, match=says):
        canonical(value, lambda tensor, place: tensor)


@pytest.mark.parametrize(
    "forged",
    [
        {"kind": "dict", "labels": ["'a'"], "items": ()},
        {"kind": "dict", "labels": ["'a'", "'a'"], "items": (SLOT, SLOT)},
        {"kind": "dict", "labels": [1], "items": (SLOT,)},
        {"kind": "list", "labels": ["'a'"], "items": (SLOT,)},
        {"kind": [], "labels": {}, "items": 3},
        {"kind": "dict", "labels": ["'a'"], "items": (SLOT,), "more": 1},
        {},
        [SLOT],
        {"'a'": SLOT},
        b"\xff",
    ],
)
def test_a_forged_form_is_a_mismatch_and_no_more(forged):
    for expected in ({"a": SLOT}, (SLOT,), SLOT, 1, None):
        honest, _ = form({"a": torch.zeros(2, 3)} if isinstance(expected, dict) else None)
        wanted = honest if isinstance(expected, dict) else expected
        assert form_mismatch(forged, wanted)
        assert form_mismatch(wanted, forged)
    list(places(forged))


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from([0.1 + 0.2, math.nan, math.inf]),
    st.sampled_from([ONE, TWO, THREE]),
)
KEYS = st.one_of(st.text("ab'.[", max_size=3), st.integers(-2, 3))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(KEYS, inner, max_size=4),
        st.builds(Stats, inner, inner),
        st.builds(Pair, inner, inner),
    ),
    max_leaves=8,
)


def shuffled(value: Any, rng: Any) -> Any:
    """Return the same output with its dicts filled in another order."""
    match value:
        case dict():
            return {key: shuffled(value[key], rng) for key in rng.sample(list(value), len(value))}
        case Pair():
            return Riap(peak=shuffled(value.peak, rng), mean=shuffled(value.mean, rng))
        case list() | tuple():
            return type(value)([shuffled(item, rng) for item in value])
        case Stats():
            return OtherStats(mean=shuffled(value.mean, rng), peak=shuffled(value.peak, rng))
        case _:
            return value


@given(TREES, st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_order_says_nothing_and_names_everything(value, rng):
    expected, wanted = form(value)
    got, tensors = form(shuffled(value, rng), expected)
    assert form_mismatch(got, expected) == ""
    assert [id(tensor) for tensor in tensors] == [id(tensor) for tensor in wanted]
    assert len(list(places(expected))) == len(wanted)


def test_more_tensors_than_an_output_may_have_are_refused():
    held = torch.zeros(1)
    most = {f"part {number}": held for number in range(MOST)}
    assert len(canonical(most, Bounded())["items"]) == MOST
    with pytest.raises(OutputError, match=f"more than {MOST} tensors.*stack"):
        canonical({"most": most, "one": [held]}, Bounded())
