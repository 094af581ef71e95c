"""Input sets of another form than most are found and become trials."""

import pytest

from warpsmith.evaluator.reference import varying_forms
from warpsmith.evaluator.reference.tolerated_changes import inputs_seed, tried_inputs
from warpsmith.evaluator.reference.variability import learn

PROBLEM = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, y=None):
        return x * 2

def get_inputs():
    now_and_then = torch.rand(()) < 0.2
    return INPUTS

def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    "inputs",
    [
        "[torch.rand(4, 4).half() if now_and_then else torch.rand(4, 4)]",
        "[torch.rand(5, 5).t() if now_and_then else torch.rand(5, 5)]",
        "[torch.rand(5 if now_and_then else 4, 4)]",
        "[torch.rand(4, 4), torch.rand(4) if now_and_then else None]",
    ],
    ids=["dtype", "layout", "rows", "None"],
)
def test_sets_of_another_form_are_found_and_judged(session_of, inputs, monkeypatch):
    monkeypatch.setattr(varying_forms, "MOST_S", 60.0)
    session = session_of(PROBLEM.replace("INPUTS", inputs))
    usual, unusual = set(), set()
    learned = learn(session, hidden_shapes=True)
    # The two sets of fixed seeds can differ themselves; nothing is promised about the form then.
    assert learned.inputs is None
    for seed in range(12):
        session.make_inputs(seed)
        usual.add(str(session.inputs.tree))
    assert len(usual) == 2
    for seed in learned.forms:
        session.make_inputs(inputs_seed(seed))
        unusual.add(str(session.inputs.tree))
    assert len(learned.forms) == len(unusual) <= 1


def test_a_problem_whose_code_decides_nothing_is_not_looked_at(session_of, monkeypatch):
    source = PROBLEM.replace("    now_and_then = torch.rand(()) < 0.2\n", "").replace("INPUTS", "[torch.rand(4, 4)]")
    session = session_of(source)
    session.make_inputs(1)
    monkeypatch.setattr(session, "make_inputs", None)
    assert varying_forms.other_forms(session, session.inputs) == ()


def test_the_same_form_under_every_seed_is_no_finding(session_of):
    session = session_of(PROBLEM.replace("INPUTS", "[torch.rand(4, 4) + (1 if now_and_then else 0)]"))
    session.make_inputs(1)
    assert varying_forms.other_forms(session, session.inputs) == ()


@pytest.mark.parametrize(
    "failure", ["raise ValueError('unlucky')", "__import__('os')._exit(3)"], ids=["raises", "dies"]
)
def test_a_set_that_cannot_be_made_is_no_finding(session_of, failure, monkeypatch):
    monkeypatch.setattr(varying_forms, "MOST_S", 60.0)
    monkeypatch.setattr(varying_forms, "MOST_SETS", 12)
    source = PROBLEM.replace("INPUTS", "[torch.rand(4, 4)]").replace(
        "< 0.2", f"< 0.5\n    if now_and_then:\n        {failure}"
    )
    session = session_of(source)
    assert any(tried_inputs(session, seed) for seed in range(99))
    assert varying_forms.other_forms(session, session.inputs) == ()
    assert any(tried_inputs(session, seed) for seed in range(99))
