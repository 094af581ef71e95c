"""Sizes found in a problem's source, and the inputs and answers that other sizes give."""

import random
from pathlib import Path

import pytest
import torch

from warpsmith.evaluator.reference import ReferenceSession
from warpsmith.evaluator.resizing import learn, smaller
from warpsmith.evaluator.sizes import InputSizes
from warpsmith.evaluator.trials import learn as learn_problem

HEAD = "import torch\nimport torch.nn as nn\nclass Model(nn.Module):\n    def forward(self, *x):\n        "


def sizes_of(source: str) -> InputSizes:
    namespace: dict = {}
    exec(source, namespace)
    return InputSizes(source, namespace, Path("problem.py"))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("N = 16\ndef get_inputs(): return [N]", {"N": 16}),
        ("B, N = 8, 2 * 64\ndef get_inputs(): return [B, N]", {"B": 8, "N": 128}),
        ("N: int = 16\nshape = (N, 3)\ndef get_inputs(): return [shape]", {"N": 16}),
        ("def get_inputs(): return [16, 16, 40, 3]", {"literal 16": 16, "literal 40": 40}),
        ("N = 16\ndef make(): return N\ndef get_inputs(): return [make()]", {"N": 16}),
        ("N = 16\ndef get_inputs(): return [N]\ndef get_init_inputs(): return [N]", {}),
        ("N = 16\nD = N * 2\ndef get_inputs(): return [N]\ndef get_init_inputs(): return [D]", {}),
        ("N = 16\nclass Model:\n    n = N\ndef get_inputs(): return [N]", {}),
        ("N = 16\ndef helper(): return N\nclass Model:\n    n = helper()\ndef get_inputs(): return [N]", {}),
        ("N = 16\nN = 32\ndef get_inputs(): return [N]", {}),
        ("N = 16\nfor N in range(30): pass\ndef get_inputs(): return [N]", {}),
        ("N = 16\ndef get_inputs():\n    global N\n    return [N]", {}),
        ("def get_inputs(): return [16]\ndef get_init_inputs(): return [16]", {}),
        ("N = True\nF = 16.0\nS = 3\ndef get_inputs(): return [N, F, S, 1 << 40]", {"literal 40": 40}),
        ("N = 16\nM = 32\ndef get_inputs(): return [M]", {"M": 32}),
        ("get_inputs = lambda: [16]", {}),
    ],
)
def test_sizes_are_what_get_inputs_alone_depends_on(source, found):
    assert sizes_of(source).values == found


def test_other_sizes_reach_constants_helpers_and_literals_and_nothing_else():
    source = (
        "calls = []\nN = 16\nshape = (N, 2 * N)\ndef make(): return list(shape)\n"
        "def get_inputs(): return make() + [N, 40, 40, len(calls)]\n"
    )
    sizes = sizes_of(source)
    assert sizes.get_inputs({"N": 9, "literal 40": 31})() == [9, 18, 9, 31, 31, 0]
    assert sizes.get_inputs({"N": 11})() == [11, 22, 11, 40, 40, 0]


@pytest.mark.parametrize(("size", "step"), [(4, 1), (5, 1), (16, 1), (1000, 1), (64, 16), (48, 4), (1 << 30, 1)])
def test_a_smaller_size_is_an_odd_multiple_of_its_step_and_half_the_size_at_least(size, step):
    for seed in range(50):
        found = smaller(size, step, random.Random(seed))
        assert size / 2 <= found < size
        assert found % step == 0 and found // step % 2 == 1


def test_a_size_that_cannot_be_smaller_stays():
    assert smaller(16, 16, random.Random(0)) == 16


@pytest.fixture
def session_of(machine):
    opened = []

    def start(source: str) -> ReferenceSession:
        opened.append(ReferenceSession(machine, source, init_seed=7))
        return opened[-1]

    yield start
    for session in opened:
        session.close()


def inputs(*made: str) -> str:
    return f"\ndef get_inputs():\n    return [{', '.join(made)}]\n"


@pytest.mark.parametrize(
    ("forward", "made", "found"),
    [
        ("return x[0] + x[1]", ("torch.randn(20, 30)", "torch.randn(30)"), {20, 30}),
        ("return x[0] @ x[1]", ("torch.randn(20, 30)", "torch.randn(30, 40)"), {20, 30, 40}),
        ("return x[0] @ torch.ones(30, 5)", ("torch.randn(20, 30)",), {20}),
        ("return x[0].view(-1, 2, 4).sum(1)", ("torch.randn(32, 8)",), {32}),
        ("return x[0].view(20, -1) * 2", ("torch.randn(20, 30)",), {30}),
        ("return x[0][x[1]]", ("torch.randn(64, 8)", "torch.randint(0, 64, (50,))"), {64, 8, 50}),
        ("return x[0] * 2", ("torch.randn(3)",), set()),
        ("assert x[0].shape == (20, 30)\n        return x[0] * 2", ("torch.randn(20, 30)",), set()),
        ("return x[0] * 2", ("torch.randn(__import__('random').randrange(9, 99), 16)",), set()),
    ],
)
def test_a_problem_lets_change_what_its_answer_follows(session_of, forward, made, found):
    learned = learn_problem(session_of(HEAD + forward + inputs(*made)), hidden_shapes=True)
    assert set(learned.resizing.sizes.values() if learned.resizing else ()) == found


def test_a_problem_that_halves_a_dimension_gets_even_sizes(session_of):
    session = session_of(HEAD + "return x[0].view(x[0].shape[0], 2, -1).sum(1)" + inputs("torch.randn(20, 32)"))
    found = learn(session, random.Random(0))
    assert found.coarse
    assert all(size % 2 == 0 for size in found.draw(random.Random(1)).values())


def test_hidden_shapes_can_be_left_out(session_of):
    session = session_of(HEAD + "return x[0] * 2" + inputs("torch.randn(20, 32)"))
    assert learn_problem(session, hidden_shapes=False).resizing is None


def test_inputs_too_large_for_the_judge_leave_the_session_usable(session_of):
    session = session_of(HEAD + "return x[0] * 2" + inputs("torch.randn(20, 32)"))
    session.make_inputs(1)
    limit, session._limit = session._limit, 64
    with pytest.raises(Exception, match="bytes"):
        session.make_inputs(2)
    session._limit = limit
    session.make_inputs(1)
    assert torch.isfinite(session.answer(0).expected[0].value).all()
