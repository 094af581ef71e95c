"""Zeros and symmetry that every seed has are found, and kept by every change of an input."""

import random

import pytest
import torch

from warpsmith.evaluator import arenas
from warpsmith.evaluator.audit import audit
from warpsmith.evaluator.reference import ReferenceSession
from warpsmith.evaluator.structure import NONE, Structure
from warpsmith.evaluator.trials import Trial, learn, prepare, prepare_unseen


def drawn(make, seed):
    return make(torch.rand(6, 6, generator=torch.Generator().manual_seed(seed)) - 0.5)


@pytest.mark.parametrize(
    ("make", "symmetric", "zeros"),
    [
        (torch.triu, False, 15),
        (lambda x: x + x.T, True, 0),
        (lambda x: torch.stack([x + x.T, x @ x.T + (x @ x.T).T]), True, 0),
        (lambda x: torch.diag(x[0]), True, 30),
        (lambda x: (x + x.T).half(), True, 0),
        (lambda x: ((x + x.T) * 99).long(), True, 0),
        (lambda x: x, False, 0),
        (lambda x: x[:5], False, 0),
        (lambda x: x * 0, False, 0),
        (lambda x: x * 0 + 1, False, 0),
        (lambda x: (x > 9).to(torch.uint8), False, 0),
        (lambda x: x[0], False, 0),
    ],
)
def test_structure_is_what_samples_have_in_common(make, symmetric, zeros):
    found = Structure.of([drawn(make, 1), drawn(make, 2)])
    assert found.symmetric == symmetric
    assert (0 if found.zeros is None else int(found.zeros.sum())) == zeros


def test_what_one_seed_alone_has_is_no_structure():
    assert Structure.of([torch.eye(5), torch.randn(5, 5)]) == NONE


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float8_e5m2])
def test_structure_is_put_back(dtype):
    lower, mirror = drawn(torch.tril, 1).to(dtype), drawn(lambda x: x + x.T, 1).to(dtype)
    found = Structure.of([lower]), Structure.of([mirror])
    for structure in found:
        changed = torch.rand(6, 6).add(1).to(dtype)
        structure.restore(changed)
        assert Structure.of([changed]).symmetric == structure.symmetric
        assert bool((changed.float() != 0).any())
        if structure.zeros is not None:
            assert torch.equal(changed == 0, lower == 0)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.uint16, torch.int64])
def test_symmetry_of_integers_is_put_back(dtype):
    changed = torch.rand(6, 6).mul(2).to(dtype)
    Structure(symmetric=True).restore(changed)
    assert torch.equal(changed, changed.mT)


def test_zeros_of_the_samples_shape_mean_nothing_in_another():
    found = Structure.of([drawn(torch.tril, 1)])
    other = torch.ones(4, 4)
    found.restore(other)
    assert bool((other == 1).all())


SOURCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, a, b, steady, graph):
        return torch.tril(a) @ (b + b.T) + steady + graph
def symmetric(x): return x + x.T
def get_inputs():
    steady = symmetric(torch.linspace(0, 1, 64).reshape(8, 8))
    graph = symmetric(torch.arange(64).reshape(8, 8) % 7)
    return [torch.tril(torch.rand(8, 8)), symmetric(torch.randn(8, 8)), steady, graph]
"""


@pytest.fixture(scope="module")
def session(machine):
    running = ReferenceSession(machine, SOURCE, init_seed=7)
    yield running
    running.close()


def inputs_of(session):
    return [arenas.view(session.inputs_buffer, slot).clone() for slot in session.inputs.slots]


@pytest.mark.parametrize("content", ["fresh", "near", "shifted", "scaled", "redrawn"])
def test_every_change_of_inputs_keeps_their_structure(session, content):
    learned = learn(session, hidden_shapes=False)
    rng = random.Random(5)
    prepare(session, learned, Trial(), None, rng)
    previous, before = arenas.content(session.inputs_buffer).clone(), inputs_of(session)
    came_about, _ = prepare(session, learned, Trial(content), previous, rng)
    assert came_about.content == content
    lower, *mirrors = inputs_of(session)
    assert not bool(lower.triu(1).any())
    assert bool((lower != before[0]).any())
    assert all(torch.equal(mirror, mirror.T) for mirror in mirrors)
    assert not torch.equal(mirrors[0], before[1])


def test_what_is_unseen_keeps_its_structure(session):
    learned = learn(session, hidden_shapes=False)
    session.make_inputs(3)
    before = inputs_of(session)
    prepare_unseen(session, learned, random.Random(1))
    after = inputs_of(session)
    assert all(torch.equal(mirror, mirror.T) for mirror in after[1:])
    assert not torch.equal(before[2], after[2])
    assert not torch.equal(before[3], after[3])


MASKED = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, scale):
        return x * scale


def get_init_inputs():
    return []


N = 64


def get_inputs():
    x = torch.rand(N, 32)
    return [x * (torch.rand(N, 32) > 0.5), torch.ones(32)]
"""


def test_what_an_audit_has_seen_is_learned_without_another_input_set_and_is_the_same(machine, monkeypatch):
    asked = []
    make_inputs = ReferenceSession.make_inputs

    def counted(self, seed, sizes=None):
        asked.append(dict(sizes or {}))
        make_inputs(self, seed, sizes)

    monkeypatch.setattr(ReferenceSession, "make_inputs", counted)
    found = []
    for audited in (False, True):
        session = ReferenceSession(machine, MASKED, init_seed=7)
        try:
            if audited:
                assert audit(session) == ""
            asked.clear()
            found.append(learn(session, hidden_shapes=True))
        finally:
            session.close()
        assert asked.count({}) == (0 if audited else 3)
        assert any(asked)
    one, other = found
    assert one.constant_inputs == other.constant_inputs == (1,)
    assert one.resizing == other.resizing is not None
    zeros = [learned.structure(0).zeros for learned in found]
    assert 300 < int(zeros[0].sum()) < 700
    assert torch.equal(*zeros)


SCALED = MASKED.replace(
    "return [x * (torch.rand(N, 32) > 0.5), torch.ones(32)]", "return [STEADY, float(torch.rand(())) / 1e5]"
)
SCALED = SCALED.replace("def get_inputs", "STEADY = torch.linspace(1, 2, N * 32).reshape(N, 32)\n\n\ndef get_inputs")
SCALED = SCALED.replace("x * scale", "x + scale")


def test_tensors_that_stay_while_a_number_changes_are_alike(machine):
    """What such a problem's output hangs on is told by changed tensors, not by a number that hardly matters."""
    session = ReferenceSession(machine, SCALED, init_seed=7)
    try:
        assert audit(session) == ""
        assert (session.seen.steady, session.seen.alike) == (False, True)
    finally:
        session.close()
