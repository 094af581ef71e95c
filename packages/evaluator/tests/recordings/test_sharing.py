"""How outputs share memory, seen on tensors and on what a recording names."""

import pytest
import torch

from warpsmith.evaluator.recordings.sharing import EXPANDED, INPUT, STATE, TWICE, of_outputs, of_references

X = torch.ones(3, 4)
HELD = torch.zeros(3, 4)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (X + 1, set()),
        ((X + 1, X.clone()), set()),
        (X[1], {INPUT}),
        ({"kind": "dict", "items": (HELD.view(-1), X + 1)}, {STATE}),
        ((X + 1, 2, (X + 2).expand(5, 3, 4)), {EXPANDED}),
        (tuple((X + 1).unbind()), set()),
        ((X[:0], X.clone()), set()),
    ],
)
def test_outputs_share_memory_as_tensors_say(output, expected):
    assert of_outputs(output, [HELD], [X, 3]) == expected


def test_one_tensor_as_two_outputs_is_there_twice():
    made = X + 1
    assert of_outputs((made, made), [], []) == {TWICE}
    assert of_outputs((made, made.detach()), [], []) == {TWICE}


def reference(memory, number, shape=(3, 4), strides=(4, 1), before=0):
    return ["tensor", memory, number, "float32", list(shape), list(strides), before]


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ([reference("fresh", 1), reference("fresh", 2)], set()),
        ([reference("fresh", 1), reference("fresh", 1, before=12)], set()),
        ([reference("fresh", 1), reference("fresh", 1)], {TWICE}),
        ([reference("inputs", 0)], {INPUT}),
        ([reference("inputs", 0, (0, 4))], set()),
        ([reference("fresh", 1, (3, 4), (1, 0))], {EXPANDED}),
        ([reference("fresh", 1, (3, 1), (1, 0))], set()),
    ],
)
def test_a_recordings_outputs_share_memory_as_it_names_them(outputs, expected):
    assert of_references(outputs) == expected
