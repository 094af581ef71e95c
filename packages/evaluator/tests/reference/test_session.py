"""Reference sessions on real, contained workers: inputs, answers, trials, and the audit of problems."""

import os
import random
from dataclasses import replace
from itertools import islice, permutations, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.evaluator import BadProblemError
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.devices.host import HostDevice
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.judge.evidence import seeds_for_candidates
from warpsmith.evaluator.judge.problem_audit import audit
from warpsmith.evaluator.processes.worker import Worker
from warpsmith.evaluator.reference import session as session_module
from warpsmith.evaluator.reference import variability
from warpsmith.evaluator.reference.draw_plan import PLAINLY, VARIED, DrawPlan
from warpsmith.evaluator.reference.form import Form
from warpsmith.evaluator.reference.levels import ANYWHERE, SAME_SIGN
from warpsmith.evaluator.reference.session import (
    ReferenceFailedError,
    ReferenceFaultError,
    ReferenceSession,
    ReferenceStore,
)
from warpsmith.evaluator.reference.shape_variation import AnsweredForm, Resizing
from warpsmith.evaluator.reference.trials import Trial, plan, prepare
from warpsmith.evaluator.reference.variability import Learned, learn
from warpsmith.evaluator.workers.gpu_stand_in import GpuHost
from warpsmith.evaluator.workers.reference import Reference

HEAD = "import torch\nimport torch.nn as nn\nclass Model(nn.Module):\n"


def problem(forward: str, inputs: str, head: str = HEAD, init: str = "") -> str:
    body = "".join(f"        {line}\n" for line in forward.split("\n"))
    start = f"    def __init__(self):\n        super().__init__()\n        {init}\n" if init else ""
    arguments = "x, y" if inputs.count("torch.") > 1 else "x"
    return f"{head}{start}    def forward(self, {arguments}):\n{body}\ndef get_inputs():\n    return [{inputs}]\n"


CANCELS = "return torch.cat([x * 1e9, (x + 1e7) - 1e7 - x, (x + 1e7) - 1e7 - x])"


def inputs_of(session):
    return [tensor_views.view(session.inputs_buffer, slot).clone() for slot in session.inputs.slots]


def test_inputs_follow_the_seed_and_answers_follow_the_inputs(session_of):
    session = session_of(problem("return x * 2 + y", "torch.randn(3, 4), torch.randn(4)"))
    session.make_inputs(1)
    first = inputs_of(session)
    session.make_inputs(2)
    assert not torch.equal(first[0], inputs_of(session)[0])
    session.make_inputs(1)
    assert all(torch.equal(one, two) for one, two in zip(first, inputs_of(session), strict=True))
    answer = session.answer(0)
    assert torch.equal(answer.expected[0].value, first[0] * 2 + first[1])
    assert torch.equal(answer.expected[0].exact, first[0].double() * 2 + first[1].double())


def test_an_answer_without_room_for_what_goes_with_it_is_given_without(machine, session_of, monkeypatch):
    elements = 64 * 64
    for each, there in ((4 + 8 + 4, (True, True)), (4 + 4, (False, True)), (4, (False, False))):
        room = {"max_tensor_bytes": each * elements + 4096}
        monkeypatch.setattr(machine, "config", machine.config.model_copy(update=room))
        session = session_of(problem("return x * 2", "torch.randn(64, 64)"))
        session.make_inputs(1)
        for _ in range(2):
            (expected,) = session.answer(0).expected
            assert (expected.exact is not None, expected.spread is not None) == there
            assert torch.equal(expected.value, inputs_of(session)[0] * 2)


def test_an_answer_says_how_far_each_element_moves_under_roundings(session_of):
    session = session_of(problem("return x * 1000.0, x.round(), x[:, 0] > 0.5, x.argmax(1)", "torch.rand(300, 50)"))
    session.make_inputs(1)
    (x,) = inputs_of(session)
    scaled, rounded, above, _ = session.answer(0).expected
    fine = x > 0.1
    assert bool((scaled.spread[fine] > 2.0**-19 * 1000 * x[fine]).all())
    assert bool((scaled.spread <= 2.0**-16 * 1000 * x).all())
    assert set(rounded.spread.unique().tolist()) <= {0.0, 1.0}
    assert bool(((rounded.spread == 0) | ((x - 0.5).abs() < 1e-4)).all())
    assert bool(((above.spread == 0) | ((x[:, 0] - 0.5).abs() < 1e-4)).all())
    assert scaled.inputs_scale == pytest.approx(float(x.mean()))


@pytest.mark.parametrize(
    ("forward", "is_exact"),
    [
        ("return x * 2", True),
        ("return x.argmax(1)", True),
        ("return (x.half() * 2).float()", True),
        ("return (x.float() + torch.zeros(1, dtype=x.dtype)) @ torch.ones(50, 3)", False),
    ],
)
def test_an_answer_without_an_fp64_run_says_so(session_of, forward, is_exact):
    session = session_of(problem(forward, "torch.randn(60, 50)"))
    session.make_inputs(1)
    answer = session.answer(0)
    assert answer.is_exact is is_exact
    assert answer.decidable
    assert answer.expected[0].spread is not None


def test_a_problem_that_raises_on_perturbed_inputs_is_judged_without_its_spread(session_of):
    forward = "if not torch.equal(x, x.half().float()):\n    raise ValueError('no halves')\nreturn x / 3"
    session = session_of(problem(forward, "torch.randn(8, 8).half().float()"))
    session.make_inputs(1)
    (expected,) = session.answer(0).expected
    assert expected.spread is None
    assert expected.exact is not None


def test_no_time_for_more_than_its_own_run_leaves_the_others_out(machine, session_of, monkeypatch):
    session = session_of(problem("return x * 2", "torch.randn(8, 8)"))
    session.make_inputs(1)
    assert session.answer(0, exact=False).expected[0].spread is None
    assert session.answer(0).expected[0].exact is not None
    monkeypatch.setattr(machine, "config", machine.config.model_copy(update={"conditioning_s": 0.0}))
    hurried = session_of(problem("return x * 2", "torch.randn(8, 8)"))
    hurried.make_inputs(1)
    assert hurried.answer(0).expected[0].exact is None


def test_a_perturbed_run_leaves_parameters_buffers_and_inputs_as_they_are(session_of):
    forward = "self.count += 1\nreturn self.layer(x) * self.count"
    session = session_of(
        problem(forward, "torch.randn(6, 4)").replace(
            "def forward",
            "def __init__(self):\n        super().__init__()\n        self.layer = nn.Linear(4, 3)\n"
            "        self.register_buffer('count', torch.zeros(1))\n    def forward",
            1,
        )
    )
    session.make_inputs(1)
    state, inputs = (
        tensor_views.content(session.state_buffer).clone(),
        tensor_views.content(session.inputs_buffer).clone(),
    )
    one, two = session.answer(0), session.answer(0)
    assert torch.equal(tensor_views.content(session.state_buffer), state)
    assert torch.equal(tensor_views.content(session.inputs_buffer), inputs)
    assert torch.equal(one.expected[0].value, two.expected[0].value)
    assert one.expected[1].value.item() == 1.0


def test_the_buffers_and_parameters_of_an_answer_are_those_of_its_own_run(session_of):
    """And their spread, which a run that wrote to the same memory would make zero."""
    session = session_of(
        problem(
            "self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)\nreturn x - self.mean, self.mean, self.layer.weight",
            "torch.randn(300, 4)",
            init="self.layer = nn.Linear(4, 3); self.register_buffer('mean', torch.zeros(4))",
        )
    )
    session.make_inputs(1)
    (x,) = inputs_of(session)
    weight = tensor_views.view(session.state_buffer, session.state.tree["parameters"]["layer.weight"]).clone()
    centred, returned, parameter, kept = session.answer(0).expected
    for buffer in (returned, kept):
        assert torch.equal(buffer.value, torch.zeros(4).mul_(0.9).add_(x.mean(0), alpha=0.1))
        assert buffer.exact is not None
        assert buffer.spread is not None
        assert bool((buffer.exact != buffer.value).any())
        assert bool((buffer.spread > 0).all())
    assert torch.equal(centred.value, x - returned.value)
    assert torch.equal(parameter.value, weight)


@pytest.fixture
def asked(monkeypatch):
    """The kinds of messages that sessions send their workers."""
    sent: list[str] = []
    send = Worker.send

    def noted(self, kind, *arguments):
        # OPEN_DEVICE is for another worker, which starts meanwhile.
        if self.role == "reference" and kind.name != "OPEN_DEVICE":
            sent.append(kind.name)
        send(self, kind, *arguments)

    monkeypatch.setattr(Worker, "send", noted)
    return sent


SIZED = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, x, y):
        return x * 2 + y, x.sum(1)
rows, columns = 3, 5
def get_inputs():
    return [torch.randn(rows, columns), torch.randn(columns)]
"""


def test_a_set_like_the_one_before_takes_one_message_and_so_does_its_answer(session_of, asked):
    session = session_of(SIZED)
    asked.clear()
    for seed in range(3):
        session.make_inputs(seed)
        session.answer(0)
    assert asked == ["MAKE_INPUTS", "FILL", "RUN", "COLLECT"] + 2 * ["MAKE_INPUTS", "RUN"]
    session.make_inputs(3, {"rows": 4})
    session.answer(0)
    assert asked[8:] == ["MAKE_INPUTS", "FILL", "RUN", "COLLECT"]


@pytest.mark.parametrize("reusable", [False, True])
@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 2**20), st.none() | st.integers(1, 60), st.booleans()), min_size=2, max_size=8
    )
)
def test_each_set_and_answer_is_its_own_whatever_came_before(machine, reusable_memory, reusable, steps):
    """Sets of any forms in any order, some without an answer; where memory is used again for others, too."""
    with pytest.MonkeyPatch.context() as patch:
        memory = reusable_memory()
        if reusable:
            patch.setattr(machine, "device", memory)
        session = ReferenceSession(machine, SIZED, init_seed=7)
        try:
            for seed, rows, answered in steps:
                session.make_inputs(seed, None if rows is None else {"rows": rows})
                x, y = inputs_of(session)
                torch.manual_seed(seed)
                assert torch.equal(x, torch.randn(rows or 3, 5))
                assert torch.equal(y, torch.randn(5))
                assert tensor_views.content(session.inputs_buffer).numel() == session.inputs.size
                if answered:
                    found = session.answer(0).expected
                    assert torch.equal(found[0].value, x * 2 + y)
                    assert torch.equal(found[0].exact, x.double() * 2 + y.double())
                    assert torch.allclose(found[1].value, x.sum(1))
        finally:
            session.close()
    # The state, and of inputs and answers no more than grow: 60 rows fit into 16 KiB.
    assert not reusable or len(memory.created) <= 3


class Claiming:
    """Fields of a message of which one flag is set, whatever was sent."""

    def __init__(self, fields, claimed):
        self.fields, self.claimed = fields, claimed

    def __getattr__(self, name):
        return getattr(self.fields, name)

    def flag(self, name):
        return name == self.claimed or self.fields.flag(name)


@pytest.mark.parametrize(("kind", "claimed"), [("MAKE_INPUTS", "filled"), ("RUN", "collected")])
def test_a_worker_that_claims_to_have_filled_another_form_is_not_believed(
    session_of, asked, monkeypatch, kind, claimed
):
    session = session_of(SIZED)
    session.make_inputs(1)
    session.answer(0)
    receive = Worker.receive

    def claims(self, timeout_s):
        message = receive(self, timeout_s)
        return replace(message, fields=Claiming(message.fields, claimed)) if asked[-1] == kind else message

    monkeypatch.setattr(Worker, "receive", claims)
    with pytest.raises(ReferenceFaultError, match="another form"):
        session.make_inputs(1, {"rows": 9})
        session.answer(0)


@pytest.mark.parametrize("reusable", [False, True])
@pytest.mark.parametrize("step", ["FILL", "COLLECT"])
@pytest.mark.parametrize("then", [4, None, 9])
def test_a_session_goes_on_after_a_worker_could_not_map_an_arena(
    machine, reusable_memory, monkeypatch, reusable, step, then
):
    """As where a device is full: the judge takes it for a form that the problem does not bear, and asks for others."""
    if reusable:
        monkeypatch.setattr(machine, "device", reusable_memory())
    session = ReferenceSession(machine, SIZED, init_seed=7)
    original, failing = Worker.send, []

    def send(self, kind, fields, fds, timeout_s):
        if kind.name == step and failing:
            # A descriptor that cannot be mapped: the worker's step fails before anything of its own changes.
            with open(os.devnull) as nothing:
                return original(self, kind, fields, [nothing.fileno()], timeout_s)
        return original(self, kind, fields, fds, timeout_s)

    try:
        session.make_inputs(1)
        session.answer(0)
        monkeypatch.setattr(Worker, "send", send)
        failing.append(step)
        with pytest.raises(ReferenceFailedError):
            session.make_inputs(2, {"rows": 900})
            session.answer(0)
        failing.clear()
        for seed in (3, 4):
            session.make_inputs(seed, None if then is None else {"rows": then})
            x, y = inputs_of(session)
            torch.manual_seed(seed)
            assert torch.equal(x, torch.randn(then or 3, 5))
            assert torch.equal(session.answer(0).expected[0].value, x * 2 + y)
    finally:
        session.close()


CHANGING = """
import math
import torch
import torch.nn as nn
calls = []
class Model(nn.Module):
    def forward(self, x, argument):
        return {{"a": x * 2, "b": x}} if len(calls) % 2 else {{"b": x, "a": x * 2}}
def get_inputs():
    calls.append(1)
    return [torch.ones(3), {argument}]
"""


@pytest.mark.parametrize(
    "argument",
    [
        "math.nan",
        "1 if len(calls) % 2 else True",
        "1 if len(calls) % 2 else 1.0",
        "0.0 if len(calls) % 2 else -0.0",
        "dict(a=torch.ones(2), b=torch.ones(3)) if len(calls) % 2 else dict(b=torch.ones(3), a=torch.ones(2))",
    ],
)
def test_forms_are_the_same_to_the_last_bit_or_others(session_of, argument):
    session = session_of(CHANGING.format(argument=argument))
    for _ in range(3):
        session.make_inputs(1)
        answer = session.answer(0)
        assert answer.output["labels"] == ["'a'", "'b'"]
        values = dict(zip("ab", (one.value for one in answer.expected), strict=True))
        assert torch.equal(values["a"], torch.full((3,), 2.0))
        assert torch.equal(values["b"], torch.ones(3))
        other = session.inputs.tree[1]
        if isinstance(other, dict):
            assert {name: slot.numel for name, slot in other.items()} == {"a": 2, "b": 3}
            assert all(bool((tensor_views.view(session.inputs_buffer, slot) == 1).all()) for slot in other.values())


def test_strides_of_inputs_are_kept(session_of):
    session = session_of(problem("return x.clone()", "torch.randn(3, 4).t()"))
    session.make_inputs(1)
    assert session.inputs.slots[0].stride == (1, 4)


def test_a_problem_that_writes_to_its_inputs_spoils_nothing(session_of):
    session = session_of(problem("return x.mul_(2)", "torch.randn(8)"))
    session.make_inputs(1)
    (before,) = inputs_of(session)
    assert torch.equal(session.answer(0).expected[0].value, before * 2)
    assert torch.equal(inputs_of(session)[0], before)
    assert torch.equal(session.answer(0).expected[0].value, before * 2)


def test_the_judges_changes_of_parameters_reach_the_model(session_of):
    session = session_of(
        problem("return x * self.weight", "torch.randn(4)", init="self.weight = nn.Parameter(torch.ones(4))")
    )
    session.make_inputs(1)
    tensor_views.view(session.state_buffer, session.parameters["weight"]).fill_(3.0)
    assert torch.equal(session.answer(0).expected[0].value, inputs_of(session)[0] * 3)
    session.reset_state()
    assert torch.equal(session.answer(0).expected[0].value, inputs_of(session)[0])


def test_buffers_start_the_same_at_each_answer(session_of):
    forward = "self.count += 1\nreturn x + self.count"
    session = session_of(problem(forward, "torch.randn(4)", init="self.register_buffer('count', torch.zeros(1))"))
    session.make_inputs(1)
    for _ in range(2):
        answer = session.answer(0)
        assert float(answer.expected[1].value) == 1.0
        assert list(answer.buffers) == ["count"]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (problem("return x", "torch.randn(3).bfloat16()"), "bfloat16"),
        (problem("return x", "3"), "no tensor"),
        (problem("return x", "torch.zeros(1).expand(1 << 31)"), "bytes"),
    ],
)
def test_inputs_that_cannot_be_judged_are_refused(session_of, source, reason):
    session = session_of(source)
    with pytest.raises(BadProblemError, match=reason):
        session.make_inputs(1)


@pytest.mark.parametrize("body", ["raise ValueError('mine')", "return undefined"])
def test_what_the_problem_raises_is_reported_with_its_line(session_of, body):
    session = session_of(problem(body, "torch.randn(3)"))
    session.make_inputs(1)
    with pytest.raises(ReferenceFailedError, match="line 5"):
        session.answer(0)


def test_a_problem_that_breaks_at_import_is_reported(machine):
    with pytest.raises(ReferenceFailedError, match="ZeroDivisionError"):
        ReferenceSession(machine, "1 / 0", init_seed=1)


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        (problem("return x + y", "torch.randn(9), torch.randn(9)"), ""),
        (problem("return x.sum()", "torch.randn(9)"), ""),
        (problem("return x * 0", "torch.randn(9)"), "all zeros"),
        (problem("return x * 0 + 3", "torch.randn(9)"), "one constant"),
        (problem("return torch.arange(9.0)", "torch.randn(9)"), "the output for other inputs"),
        (problem("return x.sum().expand(9) * 1", "torch.randn(9)"), "its own output shuffled"),
        (problem("return x", "torch.arange(9.0)"), ""),
        (problem("return x > 0", "torch.randn(99)"), ""),
        (problem("return torch.exp(torch.exp(x))", "torch.randn(999)"), ""),
        (problem("return torch.softmax(x * 100, 0)", "torch.randn(999)"), ""),
        (problem(CANCELS, "torch.randn(10)"), "zeros for the smaller half of its output"),
    ],
)
def test_the_audit_finds_what_a_problem_would_accept(session_of, source, finding):
    assert audit(session_of(source)) == finding


def test_a_random_problem_is_refused(session_of):
    with pytest.raises(BadProblemError, match="randomness"):
        audit(session_of(problem("return torch.nn.functional.dropout(x)", "torch.randn(90)")))


NOTHING = Learned()
FULL = Learned(
    levels={"site": 3},
    state={"bias": 4},
    resizings=(Resizing(AnsweredForm(Form([], 0), (), {}), {"n": 9}),),
    inputs=Form([], 0),
)


def prepared(session, trial, rng):
    return prepare(session, learn(session, hidden_shapes=True), trial, rng)


def test_a_plan_begins_with_a_plain_trial_and_has_one_of_other_shapes_besides_from_five_on():
    for count in (1, 2, 5, 9):
        trials = plan(count, random.Random(count), FULL)
        assert len(trials) == count + (count >= 5)
        assert trials[0] == Trial()
        assert plan(count, random.Random(count), NOTHING) == [Trial()] * count
    assert len({tuple(plan(6, random.Random(seed), FULL)) for seed in range(20)}) > 5


def test_from_six_trials_on_a_plan_has_every_kind_other_parameters_throughout_and_two_of_other_shapes():
    for count, seed in product((6, 7, 11), range(40)):
        _, *later = plan(count, random.Random(seed), FULL)
        assert {trial.kind for trial in later} == set(VARIED)
        assert all(trial.new_parameters for trial in later)
        assert sum(trial.reshaped for trial in later) == count // 5 + 1
        assert len({trial.kind for trial in later if trial.reshaped}) == 2
    positions = {[t.reshaped for t in plan(6, random.Random(seed), FULL)].index(True) for seed in range(60)}
    assert positions == {1, 2, 3, 4, 5}


def test_fewer_trials_than_kinds_have_different_ones_and_none_is_always_left_out():
    plans = [plan(3, random.Random(seed), FULL)[1:] for seed in range(60)]
    assert all(len({trial.kind for trial in later}) == 2 for later in plans)
    assert {trial.kind for later in plans for trial in later} == set(VARIED)
    assert {trial.kind for later in plans for trial in later if trial.reshaped} == set(VARIED)


@pytest.mark.parametrize(("count", "reshaped"), [(1, 0), (2, 0), (3, 1), (4, 1)])
def test_fewer_trials_have_other_shapes_where_there_are_two_to_choose(count, reshaped):
    assert sum(trial.reshaped for trial in plan(count, random.Random(0), FULL)) == reshaped


def test_a_shifted_trial_leaves_the_samples_range(session_of):
    session = session_of(problem("return torch.relu(x)", "torch.rand(500)"))
    came_about, answer = prepared(session, Trial("shifted"), random.Random(1))
    (x,) = inputs_of(session)
    assert "the range of get_inputs() is not promised" in came_about.remark
    assert float(x.min()) < 0
    assert torch.equal(answer.expected[0].value, torch.relu(x))


def test_a_change_that_the_problem_does_not_bear_is_replaced_by_a_milder_one(session_of):
    positive = session_of(problem("return torch.log(x)", "torch.rand(500) + 0.5"))
    came_about, answer = prepared(positive, Trial("shifted"), random.Random(1))
    (x,) = inputs_of(positive)
    assert came_about.kind == "shifted"
    assert answer.finite
    assert float(x.max()) > 1.5
    strict = session_of(problem("assert bool((x < 1).all() and (x >= 0).all())\nreturn x * 2", "torch.rand(500)"))
    came_about, _ = prepared(strict, Trial("shifted"), random.Random(1))
    (x,) = inputs_of(strict)
    assert came_about.kind == "shifted"
    assert abs(float(x.mean()) - 0.5) > 0.1


def test_of_two_draws_one_may_bear_less_than_the_other(session_of):
    session = session_of(problem("return torch.bernoulli(x) * 0 + x * y", "torch.rand(50), torch.rand(50)"))
    prepared(session, Trial("shifted"), random.Random(1))
    share, y = inputs_of(session)
    assert 0 <= float(share.min()) <= float(share.max()) < 1
    assert float(y.min()) < 0


def test_what_a_problem_bears_is_the_same_in_every_session(session_of):
    source = problem("return torch.sqrt(x) + torch.log1p(y)", "torch.rand(50), torch.rand(50)")
    one, two = (replace(learn(session_of(source), hidden_shapes=True), looked=None) for _ in range(2))
    assert one == two
    assert set(one.levels.values()) == {SAME_SIGN}


def test_badly_conditioned_elements_take_no_change_back(session_of):
    forward = "return torch.round(torch.sin(x[:, None] * 3.14159 * 2.0 ** torch.arange(20)) * self.gain * 255) / 255"
    session = session_of(problem(forward, "torch.rand(301)", init="self.gain = nn.Parameter(torch.ones(20))"))
    came_about, _ = prepared(session, Trial("outliers", new_parameters=True), random.Random(1))
    assert came_about == Trial("outliers", new_parameters=True)
    assert float(inputs_of(session)[0].abs().max()) > 1


TRIL = "torch.randn(9, 9), torch.ones(9, 9).tril()"


@pytest.mark.parametrize(
    ("forward", "made", "levels", "constant"),
    [
        ("return x * y", TRIL, {"input 1"}, False),
        ("assert bool((y == y.tril()).all())\nreturn x * y", TRIL, set(), True),
        ("return x[y]", "torch.randn(9), torch.arange(9)", {"input 1"}, False),
        ("return x[y]", "torch.randn(9), torch.arange(0, 9, 3)", set(), True),
        ("return x * y.float()", "torch.randn(9, 9), (torch.rand(9, 9) < 0.5)", set(), False),
    ],
)
def test_inputs_built_of_constants_vary_where_the_problem_allows_it(session_of, forward, made, levels, constant):
    learned = learn(session_of(problem(forward, made)), hidden_shapes=False)
    assert {site for site in learned.levels if site.startswith("input ")} == levels
    assert learned.constant is constant


def test_a_plain_number_is_another_one_in_a_scaled_trial(session_of):
    session = session_of(
        problem("return x * y", "torch.randn(9, 9), 0.5").replace("forward(self, x)", "forward(self, x, y)")
    )
    learned = learn(session, hidden_shapes=False)
    assert not learned.constant
    came_about, answer = prepare(session, learned, Trial("scaled"), random.Random(0))
    assert came_about.rebuilt and "read them" in came_about.remark
    (x,) = inputs_of(session)
    ratio = answer.expected[0].value / x
    assert 0.2 < float(ratio[0, 0]) < 0.48


@pytest.mark.parametrize("inputs", ["torch.ones(9)", "torch.arange(3)", "torch.eye(3)[:, :3], torch.arange(3)"])
def test_a_problem_in_which_nothing_can_change_is_unvaried(session_of, inputs):
    strict = "assert float(x.double().sum()) in (9, 36, 3)\nreturn x * 2"
    assert learn(session_of(problem(strict, inputs)), hidden_shapes=False).unvaried


@pytest.mark.parametrize(
    "source",
    [
        problem("return x * 2", "torch.randn(9)"),
        problem("return x * 2", "torch.linspace(0, 1, 9)"),
        problem("return x * 2", "torch.tensor([3, 1, 2])"),
        problem("return x * self.gain", "torch.arange(9)", init="self.gain = nn.Parameter(torch.ones(9))"),
    ],
)
def test_a_problem_in_which_anything_can_change_is_not(session_of, source):
    assert not learn(session_of(source), hidden_shapes=False).unvaried


def test_a_reference_that_dies_of_a_change_is_loaded_anew_and_the_change_taken_back(session_of):
    forward = "if float(x.min()) < 0: __import__('os').abort()\nreturn x * 2"
    session = session_of(problem(forward, "torch.rand(500)"))
    came_about, answer = prepared(session, Trial("shifted"), random.Random(1))
    (x,) = inputs_of(session)
    assert came_about.kind == "shifted"
    assert float(x.min()) >= 0
    assert torch.equal(answer.expected[0].value, x * 2)


def test_a_parameter_trial_changes_what_construction_left_constant(session_of):
    session = session_of(problem("return self.norm(x)", "torch.randn(6, 9)", init="self.norm = nn.LayerNorm(9)"))
    came_about, _ = prepared(session, Trial(new_parameters=True), random.Random(1))
    weight = tensor_views.view(session.state_buffer, session.parameters["norm.weight"])
    assert came_about.new_parameters
    assert not bool((weight == 1).any())
    prepared(session, Trial(), random.Random(1))
    assert bool((weight == 1).all())


def test_a_state_trial_changes_buffers_and_keeps_what_they_stand_for(session_of):
    init = "self.bn = nn.BatchNorm1d(9).eval(); self.register_buffer('hill', torch.tril(torch.ones(9, 9)))"
    session = session_of(problem("return self.bn(x) @ self.hill", "torch.randn(6, 9)", init=init))
    came_about, answer = prepared(session, Trial(new_parameters=True), random.Random(1))
    buffers = {name: tensor_views.view(session.state_buffer, slot) for name, slot in session.varied_buffers.items()}
    assert came_about.new_parameters
    assert sorted(buffers) == ["bn.running_mean", "bn.running_var"]
    assert not bool((buffers["bn.running_mean"] == 0).any())
    variance = buffers["bn.running_var"]
    assert 0 < float(variance.min()) < 1e-2 < 0.5 < float(variance.median()) < float(variance.max()) <= 2
    hill = tensor_views.view(session.state_buffer, session.state.tree["buffers"]["hill"])
    assert torch.equal(hill, torch.tril(torch.ones(9, 9)))
    after = dict(zip(answer.buffers, answer.expected[1:], strict=True))
    assert all(torch.equal(after[name].value, buffer) for name, buffer in buffers.items())
    session.reset_state()
    assert bool((buffers["bn.running_var"] == 1).all())


def test_buffers_outside_the_state_and_infinite_ones_stay(session_of):
    infinite = "self.register_buffer('b', torch.tensor([0, -torch.inf]))"
    init = f"self.register_buffer('a', torch.ones(4), persistent=False); {infinite}"
    session = session_of(problem("return x + self.a", "torch.randn(4)", init=init))
    prepared(session, Trial(new_parameters=True), random.Random(1))
    before, after = session.state.tree["buffers"], session.state_buffer
    assert bool((tensor_views.view(after, before["a"]) == 1).all())
    assert tensor_views.view(after, before["b"]).tolist() == [0, -float("inf")]


@pytest.mark.parametrize(
    ("made", "varies"),
    [
        ("torch.tensor([-1.0, 0.0, 1.0]) / 3", False),
        ("torch.tensor(0.125)", False),
        ("torch.sin(torch.arange(9.0))", False),
        ("torch.rand(9)", True),
        ("torch.zeros(9)", True),
        ("torch.ones(())", True),
    ],
)
def test_buffers_vary_unless_every_construction_makes_the_same_table(session_of, made, varies):
    session = session_of(
        problem("return x + self.a.sum()", "torch.randn(4)", init=f"self.register_buffer('a', {made})")
    )
    prepared(session, Trial(new_parameters=True), random.Random(1))
    place = session.state.tree["buffers"]["a"]
    now = tensor_views.view(session.state_buffer, place).clone()
    session.reset_state()
    assert torch.equal(now, tensor_views.view(session.state_buffer, place)) is not varies


def test_parameters_that_a_problem_does_not_bear_changed_change_mildly_or_stay(session_of):
    positive = "assert bool((self.w > 0).all())\nreturn x * self.w"
    session = session_of(problem(positive, "torch.randn(900)", init="self.w = nn.Parameter(torch.rand(900))"))
    assert prepared(session, Trial(new_parameters=True), random.Random(1))[0].new_parameters
    strict = session_of(problem(positive.replace("> 0", "== 1"), "torch.randn(9)", init=ONES))
    assert prepared(strict, Trial("rows", new_parameters=True), random.Random(1))[0] == Trial("rows")


ONES = "self.w = nn.Parameter(torch.ones(9))"


def test_inputs_of_another_form_each_time_are_learned_as_such(session_of):
    session = session_of(problem("return x * 2", "torch.randn(__import__('random').randrange(2, 99))"))
    learned = learn(session, hidden_shapes=True)
    assert (learned.inputs, learned.resizings, learned.unvaried) == (None, (), False)
    assert prepared(session, Trial("shifted"), random.Random(1))[0].kind == "shifted"


def shapes_drawn(session):
    """The shapes of inputs that twenty trials of the freest way draw."""
    learned = learn(session, hidden_shapes=True)
    rng, found = random.Random(0), []
    for _ in range(20):
        prepare(session, learned, Trial(reshaped=True), rng)
        found.append([slot.shape for slot in session.inputs.slots])
    return found


SCAN = "return torch.stack([x[t] * y[t].sum() for t in range(x.shape[0])])"


def test_equal_sizes_stay_equal_where_a_part_of_an_input_would_not_be_read(session_of):
    scanned = shapes_drawn(session_of(problem(SCAN, "torch.randn(9, 10), torch.randn(9, 10, 6)")))
    assert {x[0] == y[0] for x, y in scanned} == {True}
    assert len({x[0] for x, _ in scanned}) > 2
    nested = problem(SCAN.replace("y[t]", "y[:, t]"), "torch.randn(9, 10), torch.randn(2, 9, 6)")
    assert {x[0] == y[1] for x, y in shapes_drawn(session_of(nested))} == {True}
    whole = problem("return x.sum(0) + y.sum(1)", "torch.randn(9, 10), torch.randn(10, 9, 6)[..., 0]")
    assert False in {x[0] == y[1] for x, y in shapes_drawn(session_of(whole))}


def test_sizes_are_as_free_as_the_pieces_that_they_are_cut_into_allow(session_of):
    halves = "a, b = x.chunk(2, -1)\nreturn a * y * torch.sigmoid(b)"
    drawn = shapes_drawn(session_of(problem(halves, "torch.randn(40, 96), torch.randn(40, 1)")))
    assert {x[0] % 2 for x, _ in drawn} == {1}
    assert {x[1] % 4 for x, _ in drawn} == {2}
    thirds = "torch.randn(4, 40, 48).chunk(3, -1)"
    drawn = shapes_drawn(session_of(problem("return x * y", f"*{thirds}[:2], *torch.empty(0)")))
    assert {x == y for x, y in drawn} == {True}
    assert 1 in {x[-1] % 2 for x, _ in drawn}
    groups = "return x.view(x.shape[0], 8, -1).sum(-1) * y"
    drawn = shapes_drawn(session_of(problem(groups, "torch.randn(40, 96), torch.randn(40, 1)")))
    assert {x[0] % 2 for x, _ in drawn} == {1}
    assert {x[1] % 16 for x, _ in drawn} == {8}


def test_a_square_stays_one_where_only_one_order_of_its_sides_runs(session_of):
    paths = "for k in range(x.shape[0]):\n    x = torch.minimum(x, x[:, k, None] + x[None, k])\nreturn x"
    assert {x[0] == x[1] for (x,) in shapes_drawn(session_of(problem(paths, "torch.rand(14, 14)")))} == {True}
    assert False in {x[0] == x[1] for (x,) in shapes_drawn(session_of(problem("return x * 2", "torch.rand(14, 14)")))}


def test_a_side_of_the_output_may_equal_one_of_another_input(session_of):
    forward = "return x[:, 2:] * 2 + y[:, :1]"
    drawn = shapes_drawn(session_of(problem(forward, "torch.randn(64, 66), torch.randn(64, 64)")))
    assert len({x for x, _ in drawn}) > 10
    assert any(x[1] % 2 for x, _ in drawn)


def test_odd_sizes_become_even_too(session_of):
    drawn = shapes_drawn(session_of(problem("return x * 2", "torch.randn(41, 63)")))
    assert {x[1] % 2 for (x,) in drawn} == {0, 1}
    drawn = shapes_drawn(session_of(problem("return x * 2", "torch.randn(40, 64)")))
    assert {x[1] % 2 for (x,) in drawn} == {1}


SQUARES = "return x / ((x * x).sum(-1, keepdim=True).sqrt() + 1e-6)"


@pytest.mark.parametrize("kind", ["shifted", "rows", "outliers", "scaled"])
def test_no_trial_overflows_within_a_reference_of_half_precision(session_of, kind):
    session = session_of(problem(SQUARES, "torch.randn(11, 48).half()"))
    learned = learn(session, hidden_shapes=True)
    assert learned.half
    for seed in range(8):
        _, answer = prepare(session, learned, Trial(kind), random.Random(seed))
        assert not answer.strays


def test_parameters_have_a_trial_of_their_own(session_of):
    weighted = problem("return x * torch.softmax(self.w, -1)", "torch.randn(8, 40)", init=ONES.replace("9", "40"))
    learned = learn(session_of(weighted), hidden_shapes=True)
    assert learned.apart == ("w",)
    assert [trial.apart for trial in plan(6, random.Random(0), learned)].count(True) == 1
    assert not any(trial.apart for trial in plan(1, random.Random(0), learned))
    session = session_of(weighted)
    largest = []
    for seed in range(12):
        made, answer = prepare(session, learned, Trial(new_parameters=True, apart=True), random.Random(seed))
        weights = tensor_views.view(session.state_buffer, session.parameters["w"])
        largest.append(float(weights.abs().max()))
        assert answer.finite
        assert made.remark
    assert max(largest) > 89


def test_rows_of_parameters_stay_near_where_the_reference_would_overflow(session_of):
    overflows = problem("return x * self.w.exp()", "torch.randn(8, 40)", init=ONES.replace("9", "40"))
    session = session_of(overflows)
    learned = learn(session, hidden_shapes=True)
    for seed in range(4):
        prepare(session, learned, Trial(new_parameters=True, apart=True), random.Random(seed))
        assert float(tensor_views.view(session.state_buffer, session.parameters["w"]).abs().max()) < 89


def test_numbers_that_make_a_forward_random_stay_zero(session_of):
    for noise, changes in (("torch.randn_like(x) * y", False), ("y * x", True)):
        source = problem(f"return x + {noise}", "torch.randn(8, 4), 0.0").replace(
            "forward(self, x)", "forward(self, x, y)"
        )
        learned = learn(session_of(source), hidden_shapes=False)
        assert ("number 0.0" in learned.levels) is changes


def test_boxes_keep_their_four_numbers(session_of):
    area = "side = x[:, 2:] - x[:, :2]\nreturn side.prod(-1)[:, None] - y[:, :1].t()"
    drawn = shapes_drawn(session_of(problem(area, "torch.randn(12, 4), torch.randn(15, 4)")))
    assert {x[1] for x, _ in drawn} == {4}
    assert len({x[0] for x, _ in drawn}) > 2


def test_the_bound_of_offsets_into_rows_follows_the_rows(session_of):
    inputs = "torch.randn(40, 6), torch.sort(torch.randint(0, 41, (5,)))[0]"
    session = session_of(problem("return x[(y[:, None]).clamp(max=x.shape[0] - 1)].sum(1)", inputs))
    learned = learn(session, hidden_shapes=True)
    rng = random.Random(0)
    rows = set()
    for _ in range(30):
        prepare(session, learned, Trial(reshaped=True), rng)
        x, offsets = inputs_of(session)
        rows.add(len(x))
        assert int(offsets.max()) <= len(x)
    assert len(rows) > 4


def test_divisors_of_compared_quotients_keep_the_sign_of_plain_inputs(session_of):
    session = session_of(problem("return (x / y > 0.5), x + y", "torch.randn(9, 40), torch.rand(9, 40) + 0.1"))
    learned = learn(session, hidden_shapes=False)
    for kind, turn in product(VARIED, range(3)):
        prepare(session, learned, Trial(kind, turn=turn), random.Random(3))
        assert float(inputs_of(session)[1].min()) > 0
    free = session_of(problem("return (x * y > 0.5), x + y", "torch.randn(9, 40), torch.rand(9, 40) + 0.1"))
    learned, lows = learn(free, hidden_shapes=False), []
    for turn in range(3):
        prepare(free, learned, Trial("shifted", turn=turn), random.Random(3))
        lows.append(float(inputs_of(free)[1].min()))
    assert min(lows) < 0


def test_seeds_that_a_candidate_is_given_follow_the_secret_and_do_not_repeat():
    first, again, other = (list(islice(seeds_for_candidates(secret), 100)) for secret in (5, 5, 6))
    assert first == again
    assert not set(first) & set(other)
    assert len(set(first)) == 100
    assert max(first) < 1 << 48


def test_a_timed_call_begins_with_what_the_module_held_at_first(tmp_path):
    # A forward that keeps its result for the next call: a graph that has captured it would meet freed memory.
    source = problem("self.kept.copy_(x)\nself.kept = self.kept * 2\nreturn self.kept + 1", "torch.randn(4)")
    source = source.replace(
        "def forward",
        "def __init__(self):\n        super().__init__()\n        self.kept = torch.zeros(4)\n    def forward",
        1,
    )
    memory = HostDevice()
    reference = Reference(source, tmp_path / "problem.py", 7, memory, EvaluatorConfig())
    inputs = memory.create("inputs", 2 * 4096)
    reference.fill_inputs(Form.of(reference.make_inputs(1, {}), 1 << 20).tree, inputs)
    first = reference.model.kept
    ring = codec.Fields({"sets": 2, "inputs_bytes": 4096})
    calls = reference.ring(ring, [os.dup(inputs.fileno())])
    for call in (*calls, *calls):
        call.reset()
        assert reference.model.kept is first
        call.run()
        assert reference.model.kept is not first


STEPS_IN_FEW_SETS = problem(
    "if float(x[0]) < 0.4: return x.sin()\nif float(x[0]) < 0.7: return (x > 0.5).float() + x.sin()\n"
    "return (x.sin() > 0.5).float() + x",
    "torch.rand(1000).apply_(lambda one: 0.5 if one < 0.01 else one)",
)
"""Without a step, with one that no rounding reaches, and with one of rounded numbers."""


def spread_of_last(tmp_path, *sets):
    """Return the spread of the last of some input sets, in one reference that answered those before."""
    memory = HostDevice()
    reference = Reference(STEPS_IN_FEW_SETS, tmp_path / "problem.py", 7, memory, EvaluatorConfig())
    inputs = memory.create("inputs", 4096)
    for made in sets:
        reference.fill_inputs(Form.of(reference.make_inputs(made, {}), 1 << 20).tree, inputs)
        reference.run(inputs, 3, exact=True, extra_s=600.0)
        assert not reference._steps[0]
    return reference.answers[0].spread


def test_the_steps_of_an_input_set_change_no_bound_of_another(tmp_path):
    memory, kinds = HostDevice(), {}
    reference = Reference(STEPS_IN_FEW_SETS, tmp_path / "problem.py", 7, memory, EvaluatorConfig())
    for seed in range(40):
        reference.make_inputs(seed, {})
        first = float(reference.made[0][0])
        kinds.setdefault((first >= 0.4) + (first >= 0.7), seed)
    alone = {seed: spread_of_last(tmp_path, seed) for seed in kinds.values()}
    for before, last in permutations(alone, 2):
        assert torch.equal(spread_of_last(tmp_path, before, last), alone[last])
    assert 0 < float(alone[kinds[1]].max()) < 1e-3


def test_what_lies_between_the_numbers_of_a_parameter_is_filled_as_in_an_input(session_of):
    source = problem(
        "return x @ self.w", "torch.randn(3, 16)", init="self.w = nn.Parameter(torch.rand(16, 64)[:, ::2])"
    )
    session = session_of(source)
    slot = session.parameters["w"]
    assert slot.stride == (64, 2)
    flat = tensor_views.content(session.state_buffer)[slot.offset : slot.offset + slot.nbytes].view(torch.float32)
    held, gaps = flat[::2], flat[1::2]
    assert 0.3 < gaps.isnan().float().mean() < 0.7
    assert set(gaps[~gaps.isnan()].tolist()) <= set(held.tolist())


@pytest.mark.parametrize(("ranks", "ties"), [(False, True), (True, False)])
def test_no_row_is_tied_where_a_problem_ranks(ranks, ties):
    """`topk` and an unstable `sort` promise no order among equal numbers."""
    planned = plan(9, random.Random(1), Learned(levels={"line 9": 3}, ranks=ranks))
    assert ("rows" in {trial.kind for trial in planned}) == ties


def test_a_problem_that_answers_with_indices_ranks(session_of):
    for forward, ranks in (("return x.topk(3)", True), ("return x * 2", False)):
        learned = learn(session_of(problem(forward, "torch.randn(4, 9)")), hidden_shapes=False)
        assert learned.ranks == ranks


# --- several sessions of one problem, and of many ---

SIMPLE = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size))

    def forward(self, x):
        return x * self.weight

def get_inputs():
    return [torch.randn(16, {size})]

def get_init_inputs():
    return [{size}]
"""


@pytest.fixture
def store(machine):
    store = ReferenceStore(machine, lambda session: "")
    yield store
    store.close()


def taken(store, size):
    source = SIMPLE.format(size=size)
    return store.take(f"{size:012x}", source)


def test_a_second_session_of_a_problem_learns_nothing_anew(store, monkeypatch):
    first = taken(store, 8)
    known = learn(first, hidden_shapes=True)
    store.give_back(f"{8:012x}", first)
    again, second = taken(store, 8), taken(store, 8)
    assert again is first
    assert second is not first
    monkeypatch.setattr(variability, "_learn", None)
    adopted = learn(second, hidden_shapes=True)
    assert replace(adopted, looked=known.looked) == known
    assert len(adopted.looked.looked) >= len(known.looked.looked)
    second.reset_state()
    second.make_inputs(5)
    (x,) = (tensor_views.view(second.inputs_buffer, slot) for slot in second.inputs.slots)
    weight = tensor_views.view(second.state_buffer, second.parameters["weight"])
    assert torch.equal(second.answer(1).expected[0].value, x * weight)
    for session in (again, second):
        session.close()


def test_what_belongs_to_another_state_is_not_adopted(store):
    first, other = taken(store, 8), taken(store, 24)
    learn(first, hidden_shapes=True)
    other.adopt(first.knowledge())
    assert other.learned is None
    assert other.knowledge() is None
    for session in (first, other):
        session.close()


@pytest.mark.parametrize(
    ("short", "nearly_full", "kept"), [(False, False, {8, 4096}), (True, False, {8}), (True, True, set())]
)
def test_sessions_end_where_that_frees_what_is_needed(store, machine, monkeypatch, short, nearly_full, kept):
    monkeypatch.setattr(session_module, "SMALL_BYTES", 64 << 10)
    sessions = {size: taken(store, size) for size in (8, 4096)}
    for size, session in sessions.items():
        session.make_inputs(1)
        session.answer(1)
        store.give_back(f"{size:012x}", session)
    assert sessions[8].held_bytes < 64 << 10 < sessions[4096].held_bytes
    monkeypatch.setattr(machine.device, "is_short", lambda: short)
    monkeypatch.setattr(machine.device, "is_nearly_full", lambda: nearly_full)
    store._make_room()
    assert {size for size, session in sessions.items() if session.worker.alive} == kept
    assert {session for _, session in store._idle} == {sessions[size] for size in kept}


class _Counting(GpuHost):
    """Counts the calls of torch that pass through it."""

    calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        _Counting.calls += 1
        return super().__torch_function__(func, types, args, kwargs)


def test_only_the_problems_own_calls_pass_through_the_stand_in_for_a_gpu(tmp_path):
    source = problem(
        "y = torch.zeros(4, 8, device='cuda')\nreturn (x + y).to('cuda')", "torch.randn(4, 8, device='cuda')"
    )
    source += "TABLE = torch.ones(3, device='cuda')\n"
    memory = HostDevice()
    reference = Reference(source, tmp_path / "problem.py", 7, memory, EvaluatorConfig(), as_on_gpu=_Counting)
    inputs = memory.create("inputs", 4096)
    counts = []
    for draws in (PLAINLY, DrawPlan("scaled", default=ANYWHERE)):
        before = _Counting.calls
        reference.fill_inputs(Form.of(reference.make_inputs(1, {}, draws), 1 << 20).tree, inputs)
        counts.append(_Counting.calls - before)
    assert counts == [1, 1]
    before = _Counting.calls
    reference.run(inputs, 3, exact=False, extra_s=0.0)
    own = _Counting.calls - before
    assert own == 3
    reference.run(inputs, 3, exact=True, extra_s=600.0)
    assert reference.answers[0].spread is not None
    assert (_Counting.calls - before) % own == 0
