"""What `get_inputs` makes under every plan: the relations that its code builds hold, and the numbers are others."""

import pytest
import torch

from warpsmith.evaluator import EvaluatorConfig
from warpsmith.evaluator.devices.host import HostDevice
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.reference.draw_plan import KINDS, PLAIN_INTEGERS, PLAINLY, VARIED, DrawPlan
from warpsmith.evaluator.reference.levels import ANY_SIGN, ANYWHERE, FAR, IN_RANGE, SAME_SIGN
from warpsmith.evaluator.workers.reference import Reference

MODEL = """
import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
class Model(nn.Module):
    def forward(self, *inputs):
        return inputs[0]
"""
PLANS = [
    DrawPlan(kind, default=level) for kind in VARIED for level in (IN_RANGE, SAME_SIGN, ANY_SIGN, ANYWHERE, FAR)
] + [PLAINLY]


@pytest.fixture
def maker(tmp_path):
    """Return what makes the inputs of a problem, given the lines of its get_inputs()."""

    def start(*lines, module=""):
        body = "".join(f"    {line}\n" for line in lines)
        source = f"{MODEL}{module}\ndef get_inputs():\n{body}"
        reference = Reference(source, tmp_path / "problem.py", 7, HostDevice(), EvaluatorConfig())

        def make(seed, plan=PLAINLY, sizes=None):
            reference.make_inputs(seed, sizes or {}, plan)
            make.sites, make.built = reference.sites, reference.built_sites
            make.tree = codec.decode(reference.inputs_form)
            return [tensor.clone() for tensor in reference.made]

        make.reference = reference
        return make

    return start


CHANGING = [kind for kind in KINDS[1:] if kind != "selected"]
"""Kinds that change draws that no mask is made of."""


def every_set(make, seeds):
    make(0)
    sites = make.sites
    for asked in PLANS:
        plan = DrawPlan(asked.kind, {site: min(most, asked.default) for site, most in sites.items()})
        for seed in range(seeds):
            try:
                yield make(seed, plan)
            except RuntimeError:
                # A change that the code itself refuses is taken back by the judge; the mildest one is refused nowhere.
                assert asked.default > IN_RANGE


def rows_sum_to_one(x):
    return torch.allclose(x.sum(-1), torch.ones(x.shape[:-1], dtype=x.dtype), atol=1e-4)


RELATIONS = {
    "sorted rows": (["return [torch.randn(5, 17).sort(dim=-1).values]"], lambda x: (x.diff(dim=-1) >= 0).all()),
    "boundaries": (
        ["b = torch.sort(torch.rand(9)).values", "return [torch.randn(40), b]"],
        lambda _, b: (b.diff() >= 0).all(),
    ),
    "softmaxed targets": (["return [torch.softmax(torch.randn(6, 10), -1)]"], rows_sum_to_one),
    "unit norms": (
        ["x = torch.randn(6, 10) + 0.01 * torch.rand(6, 10)", "return [F.normalize(x, dim=-1, eps=0)]"],
        lambda x: (x.isnan().any(-1) | ((x.norm(dim=-1) - 1).abs() < 1e-4)).all(),
    ),
    "equal halves": (
        [
            "e = torch.outer(torch.arange(6).float(), 1 / 10000 ** (torch.arange(0, 8, 2) / 8))",
            "e = torch.cat((e, e), -1)",
            "return [torch.randn(2, 6, 8), e.cos(), e.sin()]",
        ],
        lambda _, c, s: (
            torch.equal(c[:, :4], c[:, 4:])
            and torch.equal(s[:, :4], s[:, 4:])
            and torch.allclose(c * c + s * s, torch.ones(6, 8), atol=1e-4)
        ),
    ),
    "one-hots": (
        ["return [F.one_hot(torch.randint(0, 7, (9,)), 7).float()]"],
        lambda x: set(x.unique().tolist()) == {0.0, 1.0} and (x.sum(-1) == 1).all(),
    ),
    "one-hots by scatter": (
        ["return [torch.zeros(9, 7).scatter_(1, torch.randint(0, 7, (9, 1)), 1.0)]"],
        lambda x: (x.sum(-1) == 1).all() and ((x == 0) | (x == 1)).all(),
    ),
    "written one-hots": (
        ["x = torch.zeros(3, 5)", "x[0, 3] = x[1, 2] = x[2, 4] = 1", "return [x, torch.rand(3)]"],
        lambda x, _: x.argmax(-1).tolist() == [3, 2, 4] and x.sum() == 3,
    ),
    "offsets of drawn lengths": (
        [
            "n = torch.randint(1, 9, (6,))",
            "o = torch.cat([torch.zeros(1, dtype=torch.long), n.cumsum(0)])",
            "return [n, o]",
        ],
        lambda n, o: torch.equal(o.diff(), n) and o[0] == 0 and (n >= 1).all() and (n < 9).all(),
    ),
    "written offsets": (
        ["return [torch.randn(9, 4), torch.tensor([0, 4, 5, 9])]"],
        lambda _, o: o[0] == 0 and o[-1] == 9 and sorted(o.diff().tolist()) == [1, 4, 4],
    ),
    "written lengths and offsets": (
        ["n, o = torch.tensor([3, 5, 2]), torch.tensor([0, 3, 8, 10])", "return [n, o]"],
        lambda n, o: torch.equal(o.diff(), n) and o[0] == 0,
    ),
    "group sizes": (
        ["return [torch.randn(64, 8), torch.tensor([8, 24, 16, 16], dtype=torch.int32)]"],
        lambda _, n: sorted(n.tolist()) == [8, 16, 16, 24],
    ),
    "lengths in a padded batch": (
        ["return [torch.randn(4, 128, 3), torch.tensor([100, 128, 40, 90])]"],
        lambda x, n: sorted(n.tolist()) == [40, 90, 100, 128],
    ),
    "descending lengths": (
        ["return [torch.randn(3, 9), torch.tensor([9, 5, 2])]"],
        lambda _, n: n.tolist() == [9, 5, 2],
    ),
    "rows by a written list": (
        ["n = [3, 5, 2]", "return [torch.cat([torch.full((k,), i) for i, k in enumerate(n)]), torch.tensor(n)]"],
        lambda ids, n: torch.equal(ids.bincount(minlength=3), n),
    ),
    "block tables": (
        ["return [torch.randperm(12).reshape(3, 4), torch.randn(12, 2)]"],
        lambda t, _: sorted(t.flatten().tolist()) == list(range(12)),
    ),
    "written block tables": (
        ["t = torch.tensor([[0, 2, -1], [3, 5, 4], [1, -1, -1]])", "return [t, torch.tensor([2, 3, 1])]"],
        lambda t, n: torch.equal((t >= 0).sum(-1), n) and sorted(t[t >= 0].tolist()) == list(range(6)),
    ),
    "causal masks": (
        ["return [torch.randn(6, 6), torch.triu(torch.full((6, 6), float('-inf')), 1)]"],
        lambda _, m: torch.equal(m == 0, torch.ones(6, 6).tril().bool()),
    ),
    "causal masks of booleans": (
        ["i = torch.arange(6)", "return [torch.randn(6), i[:, None] >= i[None]]"],
        lambda _, m: torch.equal(m, torch.ones(6, 6).tril().bool()),
    ),
    "masks by lengths": (
        ["n = torch.randint(1, 8, (5,))", "return [torch.arange(7)[None] < n[:, None], n]"],
        lambda m, n: torch.equal(m.sum(-1), n.clamp(max=7)),
    ),
    "symmetric": (
        ["a = torch.randn(6, 6)", "return [(a + a.T) / 2]"],
        lambda a: torch.equal(a, a.T),
    ),
    "triangular": (["return [torch.tril(torch.randn(6, 6))]"], lambda a: (a.triu(1) == 0).all()),
    "positive semidefinite": (
        ["a = torch.randn(6, 6, dtype=torch.float64)", "return [a @ a.T]"],
        lambda a: torch.linalg.eigvalsh(a).min() > -1e-9 * float(a.abs().max()),
    ),
    "permutations": (["return [torch.randperm(31)]"], lambda p: sorted(p.tolist()) == list(range(31))),
    "inverse permutations": (
        ["p = torch.randperm(31)", "return [p, p.argsort()]"],
        lambda p, q: torch.equal(p[q], torch.arange(31)),
    ),
    "indices of the largest": (
        ["x = torch.randn(4, 20)", "v, i = x.topk(3)", "return [x, v, i]"],
        lambda x, v, i: torch.equal(x.gather(-1, i), v),
    ),
    "complex": (
        ["x = torch.randn(6, dtype=torch.complex64)", "return [x.real.clone(), x.imag.clone(), x.abs()]"],
        lambda re, im, size: torch.allclose(torch.hypot(re, im), size),
    ),
    "rotations": (
        [
            "f = torch.outer(torch.arange(5).float(), torch.linspace(0.1, 1, 4))",
            "z = torch.polar(torch.ones_like(f), f)",
            "return [z.real.contiguous(), z.imag.contiguous()]",
        ],
        lambda c, s: torch.allclose(c * c + s * s, torch.ones(5, 4), atol=1e-5),
    ),
    "masks by comparison": (
        ["x = torch.rand(40)", "return [x, x > 0.5]"],
        lambda x, m: torch.equal(x > 0.5, m),
    ),
    "quantised": (
        [
            "x = torch.randn(5, 8)",
            "s = x.abs().amax(-1, keepdim=True).clamp(min=1e-8) / 127",
            "return [(x / s).round().to(torch.int8), s]",
        ],
        lambda q, s: q.abs().max() <= 127 and (s > 0).all(),
    ),
    "indices by a cast": (
        ["return [(torch.rand(50) * 10).long()]"],
        lambda i: (i >= 0).all() and (i < 10).all(),
    ),
    "indices within bounds": (
        ["return [torch.randint(3, 11, (40,)), torch.randint(high=5, size=(4, 4))]"],
        lambda i, j: (i >= 3).all() and (i < 11).all() and (j >= 0).all() and (j < 5).all(),
    ),
    "distinct indices": (
        ["i = torch.randint(0, 10**9, (6,))", "return [i]"],
        lambda i: i.unique().numel() == 6 and (i >= 0).all() and (i < 10**9).all(),
    ),
    "coin tosses": (
        ["p = torch.rand(40)", "return [torch.bernoulli(p)]"],
        lambda x: ((x == 0) | (x == 1)).all(),
    ),
    "dropout masks": (
        ["return [torch.empty(40).bernoulli_(0.9) / 0.9]"],
        lambda x: ((x == 0) | ((x - 1 / 0.9).abs() < 1e-6)).all(),
    ),
    "samples without repetition": (
        ["return [torch.multinomial(torch.rand(12) + 0.1, 6)]"],
        lambda i: i.unique().numel() == 6,
    ),
    "dirichlet": (
        ["return [torch.distributions.Dirichlet(torch.ones(5)).sample((4,))]"],
        rows_sum_to_one,
    ),
    "written probabilities": (
        ["return [torch.tensor([0.1, 0.2, 0.7]), torch.randn(3)]"],
        lambda p, _: sorted(round(v, 5) for v in p.tolist()) == [0.1, 0.2, 0.7],
    ),
    "written filters": (
        ["return [torch.tensor([[1.0, 0.0, -1.0], [2.0, 0.0, -2.0], [1.0, 0.0, -1.0]])]"],
        lambda k: k.sum() == 0 and torch.equal(k, -k.flip(1)) and torch.allclose(k[1], 2 * k[0]),
    ),
    "windows": (["return [torch.hann_window(16, periodic=False)]"], lambda w: torch.allclose(w, w.flip(0), atol=1e-6)),
    "identities": (["return [torch.eye(5), torch.randn(5)]"], lambda e, _: torch.equal(e, torch.eye(5))),
    "numpy's own": (
        ["x = np.random.randn(6, 9).astype('float32')", "return [torch.from_numpy(np.sort(x, axis=-1))]"],
        lambda x: (x.diff(dim=-1) >= 0).all(),
    ),
    "a generator of numpy": (
        [
            "g = np.random.default_rng(0) ",
            "x = g.normal(size=(6, 9))",
            "return [torch.tensor(x), torch.tensor(x.sum(1))]",
        ],
        lambda x, s: torch.allclose(x.sum(1), s),
    ),
    "integers of numpy": (
        ["g = np.random.RandomState(0)", "return [torch.from_numpy(g.randint(2, 9, size=30))]"],
        lambda i: (i >= 2).all() and (i < 9).all(),
    ),
    "positions in both forms": (
        ["i = torch.arange(2, 20, 3)", "return [i, i.float() / 4, torch.rand(6)]"],
        lambda i, f, _: torch.equal(i / 4, f),
    ),
    "lengths in both forms": (
        ["n = torch.tensor([3, 5, 2])", "return [n, 1 / n.float()]"],
        lambda n, f: torch.equal(1 / n, f),
    ),
    "numbers computed in Python": (
        ["x = [random.uniform(0, 1) for _ in range(5)]", "return [torch.tensor(x), torch.tensor(sum(x))]"],
        lambda x, s: torch.allclose(x.sum(), s),
    ),
    "pairs": (
        ["x = torch.randn(9)", "return [x, x.clone(), -x]"],
        lambda x, y, z: torch.equal(x, y) and torch.equal(-x, z),
    ),
}


@pytest.mark.parametrize("seeds", [4, pytest.param(20, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", RELATIONS)
def test_a_relation_that_the_code_builds_holds_under_every_plan(maker, name, seeds):
    lines, holds = RELATIONS[name]
    sets = list(every_set(maker(*lines), seeds))
    assert len(sets) >= seeds
    for inputs in sets:
        assert holds(*inputs)


def test_plain_inputs_are_those_of_the_seed_whatever_the_problem_seeds(maker):
    make = maker(
        "torch.manual_seed(0)",
        "np.random.seed(0)",
        "random.seed(0)",
        "g = torch.Generator().manual_seed(1)",
        "return [torch.randn(9), torch.tensor(np.random.rand(9)), torch.rand(9, generator=g), "
        "torch.tensor(random.random()), torch.tensor(np.random.default_rng(5).normal(size=4)), "
        "torch.tensor(random.Random(4).random())]",
    )
    first, again, other = make(1), make(1), make(2)
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    assert not any(torch.equal(one, two) for one, two in zip(first, other, strict=True))


def test_a_seed_set_twice_gives_the_same_numbers_twice(maker):
    make = maker("torch.manual_seed(3)", "x = torch.rand(9)", "torch.manual_seed(3)", "return [x, torch.rand(9)]")
    assert torch.equal(*make(1))


def test_what_the_module_draws_for_get_inputs_is_drawn_anew(maker):
    make = maker("return [X + 1, Y]", module="X = torch.randn(9)\nY = X.sort().values\n")
    (x, y), (other, _) = make(1), make(2)
    assert not torch.equal(x, other)
    assert torch.allclose((x - 1).sort().values, y)


def test_a_draw_leaves_its_range_unless_its_level_keeps_it(maker):
    make = maker("return [torch.rand(40, 50)]")
    make(0)
    (site,) = make.sites
    assert make.sites[site] == FAR
    for kind in CHANGING:
        sets = [
            [make(seed, DrawPlan(kind, {site: level}))[0] for seed in range(10)]
            for level in (IN_RANGE, SAME_SIGN, ANY_SIGN)
        ]
        assert all(float(x.min()) >= 0 and float(x.max()) < 1 for x in sets[0])
        assert all(float(x.min()) >= 0 for x in sets[1])
        if kind not in {"rows", "small", "tiny"}:
            assert any(float(x.min()) < 0 or float(x.max()) > 1 for x in sets[2])
    rows = torch.stack([make(seed, DrawPlan("rows", {site: ANYWHERE}))[0] for seed in range(5)])
    assert all(bool((x == 0).all(-1).any()) for x in rows)
    outliers = make(1, DrawPlan("outliers", {site: ANYWHERE}, lasting=0))[0]
    large = outliers.abs() > 1
    assert 0 < int(large.sum()) <= 30
    # The least and the most stand where rows and columns begin and end.
    assert bool((outliers[:, -1] > 1).any()) and bool((outliers[-1] > 1).any()) and float(outliers[-1, -1]) > 1
    assert bool((outliers[:, 0] < -1).any()) and bool((outliers[0] < -1).any()) and float(outliers[0, 0]) < -1


def test_each_draw_has_a_level_of_its_own(maker):
    make = maker("p, x = torch.rand(50), torch.rand(50)", "return [torch.bernoulli(p), p, x]")
    make(0)
    levels = dict(zip(make.sites, (IN_RANGE, ANYWHERE, IN_RANGE), strict=True))
    for seed in range(20):
        _, p, x = make(seed, DrawPlan("shifted", levels))
        assert float(p.min()) >= 0 and float(p.max()) < 1
        assert float(x.min()) < 0


def test_constants_that_are_inputs_as_they_were_made_change(maker):
    make = maker(
        "k, h = torch.ones(6, 9, dtype=torch.bool), torch.zeros(9)",
        "return [torch.randn(6, 9), k, h, torch.full((6,), 9), torch.ones(9), torch.full((9,), 0.5)]",
    )
    make(0)
    plan = DrawPlan("shifted", dict(make.sites))
    _, keep, start, lengths, gain, share = make(1, plan)
    assert 0 < int(keep.sum()) < keep.numel()
    assert bool(keep[:, 0].all())
    assert bool((start != 0).any())
    assert 1 <= int(lengths.min()) < int(lengths.max()) == 9
    assert bool((gain == 0).any()) and bool((gain == 1).any())
    assert bool(((share >= 0.25) & (share <= 1)).all()) and share.unique().numel() > 1
    milder = DrawPlan("shifted", {site: min(most, IN_RANGE) for site, most in make.sites.items()})
    assert bool((make(1, milder)[4] > 0).all())


@pytest.mark.parametrize("use", ["k[0] = False", "k.logical_and_(x > 0)", "y = k & (x > 0)", "n = k.numpy()"])
def test_constants_of_which_anything_is_made_stay(maker, use):
    make = maker("x, k = torch.randn(9), torch.ones(9, dtype=torch.bool)", use, "return [x, k]")
    _, plain = make(0)
    for seed in range(5):
        x, k = make(seed, DrawPlan("rows", dict.fromkeys(make.sites, 2)))
        assert torch.equal(k, x > 0) if "and_" in use else torch.equal(k, plain)


def test_written_tables_change_their_scale_and_bend(maker):
    make = maker("return [torch.linspace(-1, 1, 9), torch.tensor([0.25, 4.0]), torch.arange(5).float(), torch.rand(2)]")
    plain = make(0)
    for kind, bent in (("outliers", True), ("rows", False)):
        for one, other in zip(plain[:3], make(0, DrawPlan(kind, dict(make.sites)))[:3], strict=True):
            ratio = (other / one)[one != 0]
            assert torch.allclose(ratio, ratio[0].expand(ratio.shape)) is not bent
            assert torch.equal(one.sign(), other.sign()) and bool((other.diff() > 0).all())
            assert abs(float(other.abs().max() / one.abs().max()) - 1) >= 0.09


def test_written_lists_take_other_orders(maker):
    make = maker("return [torch.randn(64, 8), torch.tensor(SIZES)]", module="SIZES = [8, 24, 16, 16]\n")
    _, plain = make(0)
    assert make.sites["list 4"] == IN_RANGE
    found = {tuple(make(seed, DrawPlan("rows", dict(make.sites)))[1].tolist()) for seed in range(20)}
    assert len(found) > 5
    assert tuple(plain.tolist()) not in found
    assert make(3)[1].tolist() == plain.tolist()


@pytest.mark.parametrize("size", [64, 128])
def test_a_size_that_bounds_a_written_list_is_none(maker, size):
    make = maker(f"return [torch.randn(32, {size}), torch.tensor([100, {size}, 40, 90])]")
    assert make.reference.sizes.values == {"literal 32": 32}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "complex64"])
def test_every_kind_of_number_changes_and_stays_finite(maker, dtype):
    make = maker(f"return [torch.randn(5, 40, dtype=torch.{dtype})]")
    (plain,) = make(0)
    for kind in CHANGING:
        (x,) = make(0, DrawPlan(kind, dict(make.sites)))
        # No slice of complex numbers keeps a memory.
        same = kind == "lasting" and plain.is_complex()
        assert x.dtype == plain.dtype and bool(torch.isfinite(x).all()) and torch.equal(x, plain) is same


NUMBERS_THAT_ARE_COMPARED = "class Rule:\n    limit = 30.0\n    pad = 4242\n"


def test_a_scaled_draw_on_a_grid_meets_numbers_of_the_source_and_a_product_keeps_its_symmetry(maker):
    make = maker(
        "x, a = torch.randn(48, 64), torch.randn(6, 6)",
        "return [x * 100.0, (a @ a.T) * 100.0]",
        module=NUMBERS_THAT_ARE_COMPARED,
    )
    make(0)
    for seed in range(4):
        x, a = make(seed, DrawPlan("outliers", dict(make.sites), on_grid=True))
        assert (x == 30.0).sum() >= 4
        assert torch.allclose(a, a.T)


def test_integers_meet_those_of_the_source_and_of_an_earlier_draw(maker):
    make = maker(
        "return [torch.randint(0, 50000, (8,)), torch.randint(0, 50000, (8, 4)), torch.randint(0, 10**9, (4,))]",
        module=NUMBERS_THAT_ARE_COMPARED,
    )
    make(0)
    for seed in range(4):
        one, other, apart = make(seed, DrawPlan("scaled", dict(make.sites)))
        assert (other == 4242).any()
        assert (other == one[:, None]).any()
        assert apart.unique().numel() == 4


def test_a_plan_survives_the_wire_and_refuses_what_is_no_number():
    plan = DrawPlan("rows", {"1:2 #1": 3}, 1, True, 2, 17, 5, (1, 2.5, 1 << 61), "1:2 #1")
    sent = codec.decode(codec.encode(plan.to_wire()))
    assert DrawPlan.from_wire(codec.Fields(sent)) == plan
    for wrong in (["1"], [True], [1] * 1000):
        with pytest.raises(WireError):
            DrawPlan.from_wire(codec.Fields({**sent, "written": wrong}))


def test_draws_meet_the_numbers_of_the_candidate(maker):
    make = maker(
        "x, some = torch.rand(40, 50), np.random.choice(900, 40, replace=False)",
        "return [torch.randint(0, 50000, (40,)), x + 1.0, x, torch.from_numpy(some)]",
    )
    make(0)
    for seed in range(4):
        plan = DrawPlan("outliers", dict(make.sites), on_grid=True, written=(31_337, 1.625, 777))
        ids, moved, x, some = make(seed, plan)
        assert (ids == 31_337).any() and (some == 777).any() and some.unique().numel() == 40
        assert (moved == 1.625).any()
        assert torch.allclose(moved, x + 1.0)


RARE = [
    ("random.random() < 0.98", True),
    ("np.random.rand() < 0.98", True),
    ("random.choice(['sum'] * 60 + ['max']) == 'sum'", True),
    ("random.randint(1, 60) < 60", True),
    ("random.gauss(0, 1) < 2.5", True),
]


@pytest.mark.parametrize(("condition", "usual"), RARE)
def test_a_branch_that_few_input_sets_take_is_taken_in_some_trials(maker, condition, usual):
    make = maker(f"return [torch.zeros(3), torch.tensor({condition})]")
    make(0)
    taken = [bool(make(seed, DrawPlan("shifted", dict(make.sites)))[1]) for seed in range(24)]
    assert taken.count(not usual) in range(3, 20)
    assert all(bool(make(seed)[1]) is usual for seed in range(3))


def test_plain_integers_and_truth_values_change_only_where_the_plan_says_so(maker):
    make = maker("return [torch.randn(4), 7, True, 0.5, 'text', None, 1]")
    make(0)
    sites = {f"{PLAIN_INTEGERS}7": IN_RANGE, f"{PLAIN_INTEGERS}True": IN_RANGE}
    assert {**sites, f"{PLAIN_INTEGERS}7": SAME_SIGN}.items() <= make.built.items()
    make(1, DrawPlan("scaled", sites))
    assert make.tree[1:] == [3, False, 0.5, "text", None, 1]
    make(1, DrawPlan("scaled", dict(make.sites)))
    assert make.tree[1:] == [7, True, 0.5, "text", None, 1]


@pytest.mark.parametrize(
    ("value", "halved", "other"), [(0, 1, 3), (1, 2, 3), (2, 1, 3), (8, 4, 6), (9, 4, 6), (12, 6, 6)]
)
def test_plain_integers_are_halved_in_range_and_no_powers_of_two_beyond(maker, value, halved, other):
    make = maker(f"return [torch.randn(4), {value}]")
    make(0)
    for level, expected in ((IN_RANGE, halved), (SAME_SIGN, other)):
        make(1, DrawPlan("scaled", {f"{PLAIN_INTEGERS}{value}": level}))
        assert make.tree[1] == expected


@pytest.mark.parametrize(
    "expression",
    ["torch.rand(40)", "torch.empty(40).uniform_(0, 1)", "torch.rand(5, 9)", "torch.rand(3, 8, dtype=torch.float64)"],
)
def test_uniform_draws_reach_the_ends_of_their_range(maker, expression):
    make = maker(f"return [{expression}]")
    make(0)
    for kind in ("shifted", "outliers", "scaled", "distant"):
        (x,) = make(1, DrawPlan(kind, dict.fromkeys(make.sites, IN_RANGE), ends=True))
        assert x.min() == 0
        assert 1 - torch.finfo(x.dtype).eps / 2 == x.max() < 1


def test_zeros_and_ones_become_another_and_numbers_of_a_list_each_another(maker):
    make = maker("return [torch.randn(4), 0, 1, 0.0, (0.5, 0.5), [1.0, 2]]")
    make(0)
    make(1, DrawPlan("scaled", dict(make.built)))
    _, zero, one, number, pair, mixed = make.tree
    assert (zero, one, mixed) == (3, 3, [1.0, 2])
    assert 0.5 <= number < 1
    assert len(set(pair)) == 2
    assert all(0.25 <= part < 0.5 for part in pair)


def test_draws_cast_to_half_precision_stay_finite_however_far_they_go(maker):
    make = maker("return [(torch.randn(16, 40) * 300).half(), torch.tensor([float('inf')]).half()]")
    make(0)
    for kind in VARIED:
        x, bound = make(2, DrawPlan(kind, dict.fromkeys(make.sites, FAR), remote=17))
        assert torch.isfinite(x).all() and torch.isinf(bound).all()
