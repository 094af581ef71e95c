"""What each trial changes: how far sites go, and what of a module's state a problem bears to be changed."""

import random

import pytest
import torch

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.reference import mutations, variability
from warpsmith.evaluator.reference.draw_plan import LISTS, DrawPlan
from warpsmith.evaluator.reference.levels import ANY_SIGN, ANYWHERE, FAR, IN_RANGE, PLAIN, SAME_SIGN
from warpsmith.evaluator.reference.mutations import DISTANT, LARGE_ROW_OCTAVES, TINY_ROW, vary_draw
from warpsmith.evaluator.reference.trials import GOES_FAR, Trial, one_far, plan, prepare, reorders
from warpsmith.evaluator.reference.variability import REMOTE, REMOTE_AMONG_OTHERS, Learned, learn

STATE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.beta = nn.Parameter(torch.ones(4))
        self.gamma = nn.Parameter(0.1 * torch.eye(4))
        self.bias = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        return x * torch.rsqrt(self.beta + (x * x) @ self.gamma) + self.bias

def get_inputs():
    return [torch.randn(30, 4)]

def get_init_inputs():
    return []
"""


def test_what_must_stay_positive_only_grows_and_the_rest_changes_freely(session_of):
    learned = learn(session_of(STATE), hidden_shapes=False)
    assert learned.state["bias"] == ANYWHERE
    assert {learned.state["beta"], learned.state["gamma"]} <= {IN_RANGE, SAME_SIGN, ANYWHERE}
    assert SAME_SIGN in learned.state.values()


def test_what_all_bear_is_found_at_once(session_of):
    source = STATE.replace("x * torch.rsqrt(self.beta + (x * x) @ self.gamma)", "self.beta * (x @ self.gamma)")
    learned = learn(session_of(source), hidden_shapes=False)
    assert set(learned.state.values()) == {ANYWHERE}


@pytest.mark.parametrize(
    ("forward", "decides"),
    [
        ("return (x @ x.t()).argmax(-1)", True),
        ("return (x.softmax(-1) > 0.1).float()", True),
        ("return torch.round(x.exp())", True),
        ("return x.argmax(-1), x.exp()", False),
        ("return (x @ x.t()).relu()", False),
        ("return torch.where(x > 0, x.exp(), x)", False),
    ],
)
def test_a_problem_decides_if_it_compares_what_it_rounded(session_of, forward, decides):
    source = f"""
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        {forward}

def get_inputs():
    return [torch.randn(24, 16)]

def get_init_inputs():
    return []
"""
    assert learn(session_of(source), hidden_shapes=False).decides is decides


@pytest.mark.parametrize(
    ("forward", "ranks"),
    [
        ("return torch.topk(x, 2).values", True),
        ("return x.argmax(-1)", True),
        ("return x.sort(-1)[0].cumsum(-1)", True),
        ("return x.amax(-1)", False),
        ("return x.max(-1)[1]", True),
        ("return (x > 0).sum(-1), torch.logsumexp(x, -1)", False),
    ],
)
def test_what_ranks_is_known_by_what_it_calls_and_by_what_it_answers(session_of, forward, ranks):
    source = STATE.replace("return x * torch.rsqrt(self.beta + (x * x) @ self.gamma) + self.bias", forward)
    assert learn(session_of(source), hidden_shapes=False).ranks is ranks


def test_of_several_draws_each_is_far_in_its_turn_and_tosses_keep_their_rows_of_zeros():
    levels = {"a": FAR, "b": FAR, "c": IN_RANGE, "d": ANYWHERE, "toss": SAME_SIGN}
    draws = frozenset("abcd")
    chosen = []
    for turn in range(7, 10):
        found = one_far(levels, draws, turn)
        chosen.append([site for site, level in found.items() if level == FAR])
        assert (found["c"], found["toss"]) == (IN_RANGE, SAME_SIGN)
        assert not chosen[-1] or set(found) == {*chosen[-1], "c", "toss"}
    assert sorted(chosen) == [[], ["a"], ["b"]]
    alone = {"a": FAR, "c": IN_RANGE, "toss": SAME_SIGN}
    assert one_far(alone, draws, 0) == alone


def test_in_the_trials_of_one_evaluation_turns_follow_each_other():
    learned = Learned(inputs=None, levels={"a": FAR, "b": FAR}, draws=frozenset("ab"))
    for seed in range(20):
        planned = plan(6, random.Random(seed), learned)
        turns = [trial.turn for trial in planned if trial.kind in GOES_FAR]
        assert len(turns) == 4
        assert turns == list(range(turns[0], turns[0] + 4))


@pytest.mark.parametrize("seed", range(40))
def test_of_far_rows_one_is_as_large_as_any_may_be(seed, monkeypatch):
    monkeypatch.setattr(mutations, "WHOLLY_ALIKE", 0.0)
    rows = torch.randn(20, 64, generator=torch.Generator().manual_seed(seed))
    plain = rows.clone()
    vary_draw(rows, "rows", FAR, torch.Generator().manual_seed(1000 + seed))
    factors = (rows / plain).abs().amax(-1)
    assert factors.max() >= 2.0 ** LARGE_ROW_OCTAVES[1] * 0.99
    assert (rows == 0).all(-1).any()
    assert (rows == 0).all(0).any()


@pytest.mark.parametrize("shape", [(20, 64), (40,), (2, 3, 5, 7)])
def test_now_and_then_all_numbers_of_rows_are_alike(shape):
    alike = 0
    for seed in range(60):
        rows = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
        vary_draw(rows, "rows", ANYWHERE, torch.Generator().manual_seed(seed))
        alike += bool((rows == rows.flatten()[0]).all())
    assert 2 <= alike <= 25


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("shape", [(20, 64), (2, 3, 5, 7)])
def test_of_shifted_rows_one_lies_below_what_kernels_take_for_minus_infinity(shape, seed):
    rows = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    vary_draw(rows, "shifted", FAR, torch.Generator().manual_seed(1000 + seed), remote=REMOTE_AMONG_OTHERS)
    assert (rows.amax(-1) < -1e4).sum() == 1
    assert rows.max() < 0 or (rows.amin(-1) > 1e4).sum() == 1


def test_half_precision_has_no_remote_rows():
    rows = torch.randn(20, 64, dtype=torch.float16)
    vary_draw(rows, "shifted", FAR, torch.Generator().manual_seed(1), remote=REMOTE)
    assert rows.abs().max() < 100


@pytest.mark.parametrize(
    ("forward", "found"),
    [
        ("return x.amax(-1)", {REMOTE}),
        ("return x.amax(-1) + self.bias.sum()", {0}),
        ("return (x @ torch.rand_like(x).T).amax(-1)", {REMOTE}),
    ],
)
def test_remote_rows_are_only_where_no_parameter_multiplies_them(session_of, forward, found):
    source = "import torch\nclass Model(torch.nn.Module):\n"
    if "self.bias" in forward:
        source += "    def __init__(self):\n        super().__init__()\n"
        source += "        self.bias = torch.nn.Parameter(torch.ones(3))\n"
    source += f"    def forward(self, x):\n        {forward}\n"
    source += "def get_inputs():\n    return [torch.randn(16, 24)]\ndef get_init_inputs():\n    return []\n"
    session = session_of(source)
    learned, used = learn(session, hidden_shapes=False), set()
    for seed in range(6):
        prepare(session, learned, Trial("shifted", bool(learned.state)), random.Random(seed))
        used.add(session.made_with.draws.remote)
    assert used == found


def test_what_may_be_far_alone_is_found(session_of):
    """The logarithm of what underflows is infinite, and a target of zero weighs nothing."""
    source = STATE.replace(
        "    def forward(self, x):\n        return x * torch.rsqrt(self.beta + (x * x) @ self.gamma) + self.bias",
        "    def forward(self, x, y):\n        return torch.special.xlogy(y, y).sum(-1) - (y * x.log()).sum(-1)",
    ).replace("[torch.randn(30, 4)]", "[torch.randn(30, 4).softmax(-1), torch.randn(30, 4).softmax(-1)]")
    levels = learn(session_of(source), hidden_shapes=False).levels
    assert sorted(levels.values()) == [ANYWHERE, FAR]


def test_a_trial_says_that_written_lists_are_in_another_order():
    plan = DrawPlan("shifted", {f"{LISTS}4": IN_RANGE})
    assert reorders(plan)
    assert not reorders(DrawPlan("plain", plan.levels))
    assert not reorders(DrawPlan("shifted", {f"{LISTS}4": PLAIN, "7:3 #1": FAR}))
    assert "another order" in Trial("shifted", reordered=True).remark


def test_what_is_divided_by_a_norm_bears_any_sign_and_no_row_of_zeros(session_of):
    source = STATE.replace(
        "return x * torch.rsqrt(self.beta + (x * x) @ self.gamma) + self.bias",
        "return x / x.abs().mean(-1, keepdim=True)",
    ).replace("torch.randn(30, 4)", "torch.rand(30, 4)")
    assert set(learn(session_of(source), hidden_shapes=False).levels.values()) == {ANY_SIGN}


def sets_of(session, kind, *, together=True, count=8, new_parameters=False, shifted=False):
    """Return the trials of several seeds, with their answers and the inputs of each."""
    learned = learn(session, hidden_shapes=False)
    for seed in range(count):
        asked = Trial(kind, new_parameters, turn=seed, together=together, shifted=shifted)
        trial, answer = prepare(session, learned, asked, random.Random(seed))
        inputs = [tensor_views.view(session.inputs_buffer, slot).clone() for slot in session.inputs.slots]
        yield trial, answer, inputs


def problem(forward, inputs, init=""):
    head = "import torch\nimport torch.nn.functional as F\nclass Model(torch.nn.Module):\n"
    constructor = f"    def __init__(self):\n        super().__init__()\n        {init}\n" if init else ""
    rest = f"def get_inputs():\n    return [{inputs}]\ndef get_init_inputs():\n    return []\n"
    return f"{head}{constructor}    def forward(self, *given):\n        {forward}\n{rest}"


def lies_far(tensor):
    return tensor.mean().abs() > DISTANT[FAR] / 4


def test_draws_are_far_together_with_one_sign(session_of):
    forward = "x, y = given; return (x[:, None] - y[None]).square().sum(-1)"
    session = session_of(problem(forward, "torch.randn(20, 8), torch.randn(30, 8)"))
    signs = set()
    for trial, answer, (x, y) in sets_of(session, "distant"):
        assert trial.together and lies_far(x) and lies_far(y)
        assert x.mean().sign() == y.mean().sign()
        assert answer.is_steady
        signs.add(float(x.mean().sign()))
    assert signs == {-1.0, 1.0}


def test_draws_whose_products_rounding_decides_are_far_one_by_one(session_of):
    forward = "q, k = given; return torch.sin(q @ k.T)"
    session = session_of(problem(forward, "torch.randn(20, 8), torch.randn(30, 8)"))
    for trial, _, (q, k) in sets_of(session, "distant"):
        assert not trial.together
        assert not (lies_far(q) and lies_far(k))


def test_an_exponential_is_tried_far_below_zero(session_of):
    session = session_of(problem("(x,) = given; return F.layer_norm(x, x.shape[-1:]), x.exp()", "torch.randn(20, 32)"))
    assert max(learn(session, hidden_shapes=False).levels.values()) < FAR
    far = [float(x.mean()) for _, _, (x,) in sets_of(session, "distant", count=16)]
    assert min(far) < -DISTANT[FAR] / 2


def test_what_ranks_gets_far_rows_without_ties_and_a_tiny_row(session_of):
    forward = "(x,) = given; return torch.topk(F.layer_norm(x, x.shape[-1:]), 2)"
    session = session_of(problem(forward, "torch.randn(64, 40)"))
    for trial, answer, (x,) in sets_of(session, "apart"):
        assert trial.kind == "apart" and lies_far(x)
        assert (x.sort(-1).values.diff(dim=-1) > 0.02).all()
        assert answer.ranks and not answer.tied and answer.is_mostly_steady
    for trial, answer, (x,) in sets_of(session, "tiny"):
        assert trial.kind == "tiny"
        assert (x.abs().amax(-1) < 8 * TINY_ROW).sum() == 1
        assert answer.ranks and not answer.tied


@pytest.mark.parametrize(("kind", "instead"), [("apart", "shifted"), ("tiny", "small")])
def test_no_trial_ranks_equal_numbers(session_of, kind, instead):
    session = session_of(problem("(x,) = given; return torch.topk(torch.sigmoid(x), 2)", "torch.randn(64, 40)"))
    assert {trial.kind for trial, _, _ in sets_of(session, kind)} == {instead}


def test_the_first_bias_lies_far_from_zero(session_of):
    init = "self.fc = torch.nn.Linear(12, 20); self.ln = torch.nn.LayerNorm(20)"
    session = session_of(problem("return self.ln(self.fc(given[0]))", "torch.randn(16, 12)", init))
    assert learn(session, hidden_shapes=False).bias == "fc.bias"
    for trial, answer, _ in sets_of(session, "distant", new_parameters=True, shifted=True):
        assert trial.shifted and "parameters" in trial.remark
        assert lies_far(2 * tensor_views.view(session.state_buffer, session.parameters["fc.bias"]))
        assert answer.expected[0].far > 0


COUNTED = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("ring", torch.zeros(12, 3))
        self.register_buffer("slow", torch.zeros(3))
        self.register_buffer("place", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.step += 1
        self.ring[self.place] = x
        self.place[0] = (self.place[0] + 1) % 12
        if int(self.step) % 7 == 0:
            self.slow.copy_(self.slow + x)
        return self.ring.sum(0) + self.slow

def get_inputs():
    return [torch.randn(3)]
"""


def test_a_problem_that_counts_its_calls_is_called_until_it_wraps(session_of, monkeypatch):
    monkeypatch.setattr(variability, "MOST_SECONDS", 60.0)
    learned = learn(session_of(COUNTED), hidden_shapes=False)
    assert [int(state["step"]) for state in learned.reached] == [1, 2, 3]
    assert [int(state["step"]) for state in learned.late] == list(range(4, 129))
    turning = {int(state["step"]) for state in learned.turning}
    assert {11, 23, 35, 47, 59} <= turning and {6, 13, 20, 27} <= turning and len(turning) < 32


def test_trials_start_after_few_calls_after_many_and_where_a_counter_wraps(session_of, monkeypatch):
    monkeypatch.setattr(variability, "MOST_SECONDS", 60.0)
    session = session_of(COUNTED)
    learned = learn(session, hidden_shapes=False)
    made = plan(5, random.Random(1), learned)
    assert made[0] == Trial() and {trial.start for trial in made[1:]} == {"few", "many", "turn"}
    steps = {"few": range(1, 4), "many": range(4, 129), "turn": {int(one["step"]) for one in learned.turning}}
    for trial in made[1:]:
        prepare(session, learned, trial, random.Random(2))
        assert int(tensor_views.view(session.state_buffer, session.kept_buffers["step"])) in steps[trial.start]


def test_calls_are_followed_no_longer_than_the_time_allows(session_of, monkeypatch):
    monkeypatch.setattr(variability, "MOST_SECONDS", 0.0)
    learned = learn(session_of(COUNTED), hidden_shapes=False)
    assert len(learned.reached) == 3 and not learned.late


MACHINE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("held", torch.zeros(16, 3))
        %s

    def forward(self, x):
        %s
        return x

def get_inputs():
    return [torch.randn(3)]
"""


def test_what_only_changes_at_each_call_is_called_three_times(session_of):
    learned = learn(session_of(MACHINE % ("pass", "self.held.mul_(0.5).add_(x)")), hidden_shapes=False)
    assert len(learned.reached) == 3 and not learned.late and not learned.turning


def test_of_the_states_of_a_machine_the_rare_ones_are_chosen_as_often(session_of, monkeypatch):
    monkeypatch.setattr(variability, "MOST_SECONDS", 60.0)
    patience = (
        'self.register_buffer("bad", torch.zeros((), dtype=torch.int32))',
        "self.bad.copy_(torch.where(x[0] > 0, self.bad + 1, torch.zeros_like(self.bad)))",
    )
    learned = learn(session_of(MACHINE % patience), hidden_shapes=False)
    numbers = [int(state["bad"]) for state in learned.late]
    assert len(set(numbers)) == len(numbers) and max(numbers) >= 3


def test_a_machine_that_seldom_changes_is_followed_and_one_that_never_does_is_no_variation(session_of, monkeypatch):
    monkeypatch.setattr(variability, "MOST_SECONDS", 60.0)
    buffer = 'self.register_buffer("on", torch.zeros((), dtype=torch.bool))'
    seldom = learn(session_of(MACHINE % (buffer, "self.on.copy_(self.on ^ (x[0] > 0.7))")), hidden_shapes=False)
    assert {bool(state["on"]) for state in seldom.late} == {False, True}
    never = learn(session_of(MACHINE % (buffer, "self.on.copy_(self.on & (x[0] > 0.7))")), hidden_shapes=False)
    assert not never.reached and not never.late


@pytest.mark.parametrize(
    ("start", "call"),
    [
        ("torch.zeros(())", "self.step += 0.5"),
        ("torch.zeros(2)", "self.step[0] += 1; self.step[1] = self.step[0] // 10"),
    ],
)
def test_steps_by_halves_and_in_a_vector_count(session_of, monkeypatch, start, call):
    monkeypatch.setattr(variability, "MOST_SECONDS", 60.0)
    learned = learn(session_of(MACHINE % (f'self.register_buffer("step", {start})', call)), hidden_shapes=False)
    assert len(learned.late) == variability.MOST_LATE_CALLS - 3


SHIELDED = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def forward(self, x, a):
        return F.normalize(x, dim=-1), torch.linalg.inv(a)

def get_inputs():
    return [torch.randn(10, 24), torch.randn(2, 2)]
"""


@pytest.mark.parametrize(("kind", "on_grid"), [("rows", False), ("outliers", True)])
def test_an_input_that_tolerates_little_keeps_nothing_from_the_others(session_of, kind, on_grid):
    session = session_of(SHIELDED)
    learned = learn(session, hidden_shapes=False)
    made = 0
    for seed in range(6):
        trial, _ = prepare(session, learned, Trial(kind, on_grid=on_grid), random.Random(seed))
        x = tensor_views.view(session.inputs_buffer, session.inputs.slots[0])
        zero_rows, gridded = bool((x == 0).all(-1).any()), bool((x * 2**16 % 1 == 0).float().mean() > 0.5)
        made += (gridded if on_grid else zero_rows) and trial.kind == kind and trial.on_grid == on_grid
    assert made >= 5


POLES = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, n):
        return 1.0 / (256.0 * x - 105.0), 1000 // (n - 7 * 11)

def get_inputs():
    n = torch.randint(0, 90000, (12,))
    return [torch.rand(30, 40), n]
"""


def test_a_number_of_the_candidate_at_which_the_reference_fails_costs_no_trial(session_of):
    # 105 / 256 is a pole of the reference, and neither a number of its source nor one on a grid.
    session = session_of(POLES)
    learned = learn(session, hidden_shapes=False)
    for kind in ("outliers", "scaled"):
        for seed in range(3):
            wanted = Trial(kind, on_grid=kind == "outliers", written=(105 / 256, 77))
            made, answer = prepare(session, learned, wanted, random.Random(seed))
            assert made.kind == kind and made.on_grid is wanted.on_grid
            assert answer.finite


LAYERS = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(12, 20)

    def forward(self, x):
        return torch.tanh(self.up(x))

def get_inputs():
    return [torch.randn(16, 12)]

def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("layers", ["alike", "unbiased", "negative"])
def test_layers_are_special_as_a_whole(session_of, layers):
    session = session_of(LAYERS)
    learned = learn(session, hidden_shapes=False)
    (wanted,) = [one for one in plan(6, random.Random(1), learned) if one.layers == layers]
    for seed in range(4):
        trial, answer = prepare(session, learned, wanted, random.Random(seed))
        assert trial == wanted
        weight, bias = (
            tensor_views.view(session.state_buffer, session.parameters[name]) for name in ("up.weight", "up.bias")
        )
        match layers:
            case "alike":
                assert len(torch.unique(weight, dim=0)) == 1 or len(torch.unique(weight, dim=1)[0]) == 1
                assert len(torch.unique(bias)) == 1
            case "unbiased":
                assert not bias.any()
                assert bool((answer.expected[0].value == 0).all(-1).any())
            case "negative":
                assert bool((bias <= -3).all())


def test_problems_without_such_parameters_have_no_such_trials():
    assert not any(one.layers for one in plan(6, random.Random(0), Learned()))
    assert [one.layers for one in plan(1, random.Random(0), Learned(apart=("a",), biases=("b",)))] == [None]
