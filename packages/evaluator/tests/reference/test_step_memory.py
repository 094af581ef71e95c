"""A memory is found by what a change of early steps does, not by words of a source."""

import random

import pytest
import torch

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.reference import step_memory
from warpsmith.evaluator.reference.trials import Trial, plan, prepare
from warpsmith.evaluator.reference.variability import learn

SOURCE = """\
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.part = nn.PARTS

    def forward(self, x):
        return FORWARD

def get_inputs():
    return [INPUT]

def get_init_inputs():
    return []
"""
REMEMBERING = {
    "cumprod": ("torch.cumprod(x, 1)", "Identity()", "torch.randn(5, 300)"),
    "survival of one row": ("torch.exp(-torch.cumsum(F.softplus(x), 0))", "Identity()", "torch.randn(300)"),
    "backwards": ("torch.cumprod(x.flip(1), 1).flip(1)", "Identity()", "torch.rand(5, 300)"),
    "last state": ("self.part(x)[0][:, -1]", "LSTM(6, 8, batch_first=True)", "torch.randn(3, 72, 6)"),
    "tokens": ("self.part(self.linear.weight[x])[0]", "GRU(8, 8, batch_first=True)", "torch.randint(8, (3, 72))"),
}
FORGETTING = {
    "elementwise": ("torch.tanh(x)", "Identity()", "torch.randn(5, 300)"),
    "convolution": ("self.part(x)", "Conv1d(3, 3, 5, padding=2)", "torch.randn(2, 3, 90)"),
    "softmax": ("torch.softmax(x, 1)", "Identity()", "torch.randn(5, 300)"),
    "sum": ("torch.cumsum(x, 1)", "Identity()", "torch.randn(5, 300)"),
    "one row for all": ("torch.cumprod(x, 1)", "Identity()", "torch.randn(1, 300).expand(5, 300)"),
    "windows": ("torch.cumprod(x, 1)", "Identity()", "torch.randn(120).unfold(0, 60, 1)"),
    "layers in a loop": ("[self.linear(x) for _ in range(2)][-1]", "Identity()", "torch.randn(20, 8)"),
}


def source(forward, part, made):
    return SOURCE.replace("FORWARD", forward).replace("PARTS", part).replace("INPUT", made)


@pytest.mark.parametrize("name", REMEMBERING)
def test_what_numbers_can_lengthen_is_a_memory_and_a_trial_shows_it(session_of, name):
    session = session_of(source(*REMEMBERING[name]))
    learned = learn(session, hidden_shapes=False)
    assert len(learned.memory) == 1
    assert learned.memory[0].change.part == ("last" if name == "backwards" else "first")
    (planned,) = (trial for trial in plan(4, random.Random(0), learned) if trial.kind == "lasting")
    for seed in range(4):
        trial, answer = prepare(session, learned, planned, random.Random(seed))
        if trial.kind == "lasting":
            assert trial.remark
            before = [tensor_views.view(session.inputs_buffer, slot).clone() for slot in session.inputs.slots]
            assert step_memory.keeps(session, answer, learned.memory[0])
            after = [tensor_views.view(session.inputs_buffer, slot) for slot in session.inputs.slots]
            assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))
            return
    raise AssertionError("No trial of four remembers.")


@pytest.mark.parametrize("name", FORGETTING)
def test_what_always_reaches_as_far_is_none(session_of, name):
    learned = learn(session_of(source(*FORGETTING[name])), hidden_shapes=False)
    assert learned.memory == ()
    assert Trial("lasting").kind not in {trial.kind for trial in plan(6, random.Random(0), learned)}
