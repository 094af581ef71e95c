"""Parameters and buffers under all their names, and how a module's tensors follow them into other memory."""

import functools
from contextlib import suppress

import pytest
import torch
from torch import nn

from warpsmith.evaluator import Problem
from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.recordings import module_state

HEAD = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl

"""


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight


class Named(nn.Module):
    """One layer, and many ways to call its weight."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 5)
        self.weight = self.linear.weight
        self.plain = self.linear.weight.data
        self.turned = self.linear.weight.detach().t()
        self.kept = [self.linear.weight, self.linear.weight.data[2:]]
        self.wrapped = nn.Parameter(self.linear.weight)
        self.own = torch.ones(5, 3)


def slots_of(model):
    other = module_state.aliases(model)
    named = module_state.parameters(model)
    return {name: tensor_views.slot_of(tensor) for name, tensor in named.items() if name not in other}, other


def bound(model, reference):
    """Bind a model's parameters to new memory that holds 7s; return what came of it, and that memory by name."""
    slots, other = slots_of(reference)
    memory = {name: torch.full(slot.shape, 7.0) for name, slot in slots.items()}
    by_slot = {id(slot): memory[name] for name, slot in slots.items()}
    return module_state.bind(model, slots, other, lambda slot: by_slot[id(slot)]), memory


def test_every_further_name_leads_to_the_first():
    assert module_state.aliases(Tied()) == {"head.weight": "embed.weight"}
    assert module_state.aliases(Named()) == {"wrapped": "weight", "linear.weight": "weight"}
    assert module_state.aliases(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))) == {}


def test_empty_parameters_are_no_names_of_one_another():
    model = nn.ParameterList([torch.empty(0), torch.empty(0)])
    assert module_state.aliases(model) == {}


@pytest.mark.parametrize("reference", [Named(), nn.ModuleDict({"linear": nn.Linear(3, 5)})])
def test_all_names_and_views_of_a_parameter_see_what_it_is_bound_to(reference):
    model = Named()
    binding, memory = bound(model, reference)
    assert (binding.unmatched, binding.hints) == ([], [])
    for tensor in (model.weight, model.linear.weight, model.plain, model.turned, model.kept[1], model.wrapped):
        assert (tensor == 7).all()
    assert model.turned.shape == (3, 5) and model.kept[1].shape == (3, 3)
    assert (model.own == 1).all()
    memory["weight" if "weight" in memory else "linear.weight"][2, 1] = 9.0
    assert model.turned[1, 2] == model.kept[1][0, 1] == model.plain[2, 1] == model.wrapped[2, 1] == 9.0


class Turned(nn.Module):
    def __init__(self, turn):
        super().__init__()
        self.weight = nn.Parameter(turn(torch.ones(4, 6)))
        self.seen = self.weight.data[:2]


LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.t().contiguous().t(),
    "slice": lambda x: torch.cat([x, x], 1)[:, 3:9],
    "behind": lambda x: torch.cat([x, x])[4:],
}


@pytest.mark.parametrize("one", LAYOUTS)
@pytest.mark.parametrize("two", LAYOUTS)
def test_a_parameter_keeps_the_layout_that_its_own_constructor_makes(one, two):
    reference, model = Turned(LAYOUTS[one]), Turned(LAYOUTS[two])
    before = model.weight.stride(), model.weight.storage_offset()
    slot = tensor_views.own_layout(reference.weight.detach())
    flat = torch.zeros(1 << 12, dtype=torch.uint8)
    tensor_views.view(flat, slot).fill_(7)
    binding = module_state.bind(model, {"weight": slot}, {}, lambda slot: tensor_views.view(flat, slot))
    assert binding.unmatched == [] and bool(binding.copied) == (one != two)
    for tensor, of in binding.copied:
        tensor.data.copy_(tensor_views.view(flat, of))
    assert (model.weight.stride(), model.weight.storage_offset()) == before
    assert (model.weight == 7).all() and (model.seen == 7).all()


def test_a_parameter_whose_rows_are_one_memory_is_moved():
    model, reference = Turned(lambda x: x[:1].expand(4, 6)), Turned(lambda x: x)
    binding, memory = bound(model, reference)
    assert binding.copied == [] and model.weight.data_ptr() == memory["weight"].data_ptr()


def test_memory_is_shared_by_what_a_call_does_not_restore():
    model = Turned(lambda x: x)
    assert module_state.shared_memory(model, [model.weight, model.seen]) == frozenset()
    assert module_state.shared_memory(model, [model.weight]) == {model.weight.untyped_storage().data_ptr()}


def test_parameters_that_the_reference_ties_are_one_memory_also_where_the_candidate_does_not():
    class Untied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)

    model = Untied()
    assert bound(model, Tied())[0].unmatched == []
    assert model.embed.weight.data_ptr() == model.head.weight.data_ptr()


def test_one_name_of_a_tied_parameter_is_enough():
    class HeadAlone(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(3, 5, bias=False)

    model = HeadAlone()
    assert bound(model, Tied())[0].unmatched == []
    assert (model.head.weight == 7).all()


def test_a_parameter_that_only_the_candidate_ties_is_no_match():
    class Untied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)

    binding, _ = bound(Tied(), Untied())
    assert binding.unmatched == ["head.weight"]
    assert "head.weight is tied to another parameter" in binding.hints[0]


def test_a_buffer_stands_for_a_parameter_and_a_parameter_for_a_buffer():
    one, other = nn.Module(), nn.Module()
    one.register_buffer("scale", torch.ones(3))
    other.scale = nn.Parameter(torch.ones(3))
    assert bound(one, other)[0].unmatched == []
    assert (one.scale == 7).all()
    slot = tensor_views.slot_of(one.scale)
    assert module_state.matching(other, {"scale": slot}, {}) == {"scale": "scale"}
    assert module_state.matching(other, {"scale": slot.at(0), "shift": slot}, {}) == {"scale": "scale"}
    assert module_state.matching(other, {"old": slot}, {"scale": "old"}) == {"old": "scale"}


class Misplaced(nn.Module):
    def __init__(self, kind):
        super().__init__()
        weight = nn.Parameter(torch.ones(5, 3))
        match kind:
            case "list":
                self.held = [weight]
            case "dict":
                self.held = {"weight": weight}
            case "modules":
                self.held = [nn.Linear(3, 5)]
            case "tensor":
                self.held = torch.ones(5, 3)
            case "renamed":
                self.w = weight
            case "turned":
                self.weight = nn.Parameter(torch.ones(3, 5))


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("list", "self.held is a plain list, whose parameters PyTorch does not find: use nn.ParameterList."),
        ("dict", "self.held is a plain dict, whose parameters PyTorch does not find: use nn.ParameterDict."),
        ("modules", "self.held is a plain list, whose modules PyTorch does not find: use nn.ModuleList."),
        ("tensor", "self.held is a plain tensor: make it an nn.Parameter."),
        ("renamed", "It has w [5, 3] float32 instead."),
        ("turned", "It has weight [3, 5] float32 instead."),
    ],
)
def test_a_parameter_that_is_lacking_is_named_with_what_to_do(kind, says):
    reference = nn.Module()
    reference.weight = nn.Parameter(torch.ones(5, 3))
    binding, _ = bound(Misplaced(kind), reference)
    assert binding.hints == [says]
    remark = module_state.unmatched_remark(binding.unmatched, slots_of(reference)[0], binding.hints)
    assert "weight [5, 3] float32 were expected" in remark and remark.endswith(says)


def test_names_that_the_reference_has_not_are_left_out_of_the_message():
    slots, _ = slots_of(nn.Linear(2, 2))
    assert module_state.unmatched_remark(["forged", "other"], slots, ["hint"]) == ""
    many = nn.ModuleList([nn.Linear(2, 2) for _ in range(9)])
    assert "and 10 more were" in module_state.unmatched_remark([*slots_of(many)[0]], slots_of(many)[0], [])


def test_a_module_in_fp64_takes_views_along_and_is_restored():
    model = Named()
    weight, turned, place = model.linear.weight, model.turned.clone(), model.plain.data_ptr()
    with module_state.widened(model):
        assert {model.plain.dtype, model.turned.dtype, model.weight.dtype} == {torch.float64}
        assert model.plain.data_ptr() == model.linear.weight.data_ptr() != place
        assert torch.equal(model.turned.float(), turned)
    assert model.linear.weight is weight
    assert {model.plain.dtype, model.turned.dtype, model.weight.dtype} == {torch.float32}
    assert model.plain.data_ptr() == model.linear.weight.data_ptr() == place
    assert torch.equal(model.turned, turned)


class Closures(nn.Module):
    """Calls its submodules by what a copy of it would share with it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        first, norm = self.first, self.norm
        self.by_lambda = lambda x: norm(first(x))
        self.by_partial = functools.partial(nn.functional.linear, weight=self.first.weight)
        self.bound = self.first.forward
        self.cache, self.seen = {}, []

    def forward(self, x):
        self.made = x
        self.seen.append(x.dtype)
        self.cache.setdefault("x", x)
        self.first.register_buffer("late", x)
        return self.by_lambda(x) + self.by_partial(x) + self.bound(x) + self.cache["x"]


def test_a_module_in_fp64_computes_in_it_through_closures_too():
    model = Closures()
    x = torch.randn(5, 3)
    plain, before = model(x), model.state_dict()
    model.cache.clear()
    with module_state.widened(model):
        wide = model(x.double())
    assert wide.dtype == torch.float64
    assert torch.allclose(wide.float(), plain, atol=1e-5)
    assert model.seen == [torch.float32]
    assert model.made.dtype == model.first.late.dtype == torch.float32
    assert not model.cache
    assert {tensor.dtype for tensor in model.state_dict().values()} <= {torch.float32, torch.int64}
    assert before.keys() == model.state_dict().keys()


@pytest.mark.parametrize("fails", [False, True])
def test_parameters_changed_within_a_context_are_restored(fails):
    model = Closures()
    weight, own = model.first.weight, model.first.weight.clone()
    with suppress(KeyError), module_state.changed(model, lambda tensor: tensor + 1):
        assert torch.equal(model.by_partial(torch.eye(3)), (own + 1).T)
        if fails:
            raise KeyError
    assert model.first.weight is weight
    assert torch.equal(weight, own)


# --- end to end ---

STATISTICS = """
@triton.jit
def stats_kernel(x_ptr, mean_ptr, peak_ptr, low_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    x = tl.load(x_ptr + row * cols + at, mask=mask, other=0.0)
    tl.store(mean_ptr + row, tl.sum(x, axis=0) / cols)
    tl.store(peak_ptr + row, tl.max(tl.where(mask, x, -float("inf")), axis=0))
    tl.store(low_ptr + row, tl.min(tl.where(mask, x, float("inf")), axis=0))

class ModelNew(nn.Module):
    def forward(self, x):
        mean, peak, low = (torch.empty(x.shape[0], device=x.device) for _ in range(3))
        stats_kernel[(x.shape[0],)](x, mean, peak, low, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return RETURNED
"""
TYPES = """
from collections import namedtuple
from dataclasses import dataclass

@dataclass
class Stats:
    mean: torch.Tensor
    peak: torch.Tensor

Both = namedtuple("Both", ["mean", "peak"])
Htob = namedtuple("Htob", ["peak", "mean"])
"""
PROBLEM = """
class Model(nn.Module):
    def forward(self, x):
        mean, peak, low = x.mean(dim=1), x.amax(dim=1), x.amin(dim=1)
        return RETURNED

def get_inputs():
    return [torch.randn(21, 133) * 2.0 + 0.5]
"""


@pytest.mark.parametrize(
    ("expected", "returned", "status", "says"),
    [
        ('{"s": {"a": mean, "b": peak}, "l": [low]}', '{"l": (low,), "s": {"b": peak, "a": mean}}', "correct", ""),
        ('{"s": {"mean": mean, "peak": peak}}', '{"s": {"peak": mean, "mean": peak}}', "incorrect", "Output['s']['"),
        ("Stats(mean, peak)", "Stats(peak=peak, mean=mean)", "correct", ""),
        ("Stats(mean, peak)", "Stats(peak, mean)", "incorrect", "Output.mean: "),
        ("Both(mean, peak)", "Htob(peak, mean)", "correct", ""),
        ("Both(mean, peak)", "Htob(mean, peak)", "incorrect", "Output.mean: "),
        ("Both(mean, peak)", "(mean, peak)", "correct", ""),
        ('{"mean": mean}', "(mean,)", "incorrect", "tuple of 1 items; expected a dict with the keys 'mean'"),
        ("(mean, peak)", "{'mean': mean, 'peak': peak}", "incorrect", "expected a tuple of 2 items"),
        ("(mean, x.shape[1])", "(mean, x.shape[1])", "correct", ""),
        ("(mean, x.shape[1])", "(mean, 7)", "incorrect", "Output[1] is 7; expected 133"),
    ],
)
def test_a_verdict_is_by_names(evaluator, expected, returned, status, says):
    problem = Problem.from_source(HEAD + TYPES + PROBLEM.replace("RETURNED", expected))
    verdict = evaluator.evaluate(problem, HEAD + TYPES + STATISTICS.replace("RETURNED", returned))
    assert verdict.status == status, verdict
    assert says in (verdict.error_message or "")


SCALED = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(48)
        NAMES

    def forward(self, x):
        return x * self.norm.weight + self.norm.bias

def get_inputs():
    return [torch.randn(21, 48)]
"""
SCALING = """
@triton.jit
def scale_kernel(x_ptr, w_ptr, b_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    x = tl.load(x_ptr + row * cols + at, mask=mask)
    w, b = tl.load(w_ptr + at, mask=mask), tl.load(b_ptr + at, mask=mask)
    tl.store(out_ptr + row * cols + at, x * w + b, mask=mask)

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        NAMES

    def forward(self, x):
        out = torch.empty_like(x)
        weight, bias = USED
        scale_kernel[(x.shape[0],)](x, weight, bias, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
"""
NORM = "self.norm = nn.LayerNorm(48)"


@pytest.mark.parametrize(
    ("theirs", "names", "used"),
    [
        ("", f"{NORM}; self.weight = self.norm.weight; self.bias = self.norm.bias", "self.weight, self.bias"),
        ("", f"{NORM}; self.w, self.b = self.norm.weight.data, self.norm.bias.detach()", "self.w, self.b"),
        ("", f"{NORM}; self.all = [self.norm.weight.data, self.norm.bias.data]", "self.all"),
        ("self.weight = self.norm.weight", f"{NORM}", "self.norm.weight, self.norm.bias"),
        ("self.alias = self.norm.weight.data", f"{NORM}", "self.norm.weight, self.norm.bias"),
        (
            "self.weight = self.norm.weight",
            "self.weight = nn.Parameter(torch.ones(48)); self.norm = nn.Module(); "
            "self.norm.bias = nn.Parameter(torch.zeros(48))",
            "self.weight, self.norm.bias",
        ),
    ],
)
def test_a_parameter_counts_under_any_of_its_names(evaluator, theirs, names, used):
    problem = Problem.from_source(HEAD + SCALED.replace("NAMES", theirs))
    verdict = evaluator.evaluate(problem, HEAD + SCALING.replace("NAMES", names).replace("USED", used))
    assert verdict.status == "correct", verdict
    assert "unmatched_parameters" not in verdict.flags


def test_a_wrong_output_names_the_parameters_that_are_lacking(evaluator):
    names = "self.held = {'w': nn.Parameter(torch.ones(48))}; self.b = nn.Parameter(torch.zeros(48))"
    source = HEAD + SCALING.replace("NAMES", names).replace("USED", "self.held['w'], self.b")
    verdict = evaluator.evaluate(Problem.from_source(HEAD + SCALED.replace("NAMES", "")), source)
    # Detached, the constants of the constructor show that the parameters are its own.
    assert verdict.status in {"incorrect", "rejected"}, verdict
    assert "unmatched_parameters" in verdict.flags
    for part in (
        "norm.weight [48] float32, norm.bias [48] float32 were expected",
        "nn.ParameterDict",
        "b [48] float32",
    ):
        assert part in (verdict.error_message or "")


def test_parameters_under_other_names_are_reported_with_the_names_to_keep(evaluator):
    """Their content is another in each process that constructs them, as that of any constant of the constructor."""
    problem = HEAD + SCALED.replace("NAMES", "torch.nn.init.normal_(self.norm.weight)")
    names = "norm = nn.LayerNorm(48); self.w = nn.Parameter(torch.randn(48)); self.b = nn.Parameter(norm.bias.clone())"
    source = HEAD + SCALING.replace("NAMES", names).replace("USED", "self.w, self.b")
    verdict = evaluator.evaluate(Problem.from_source(problem), source)
    assert verdict.status == "rejected", verdict
    assert "unmatched_parameters" in verdict.flags
    message = verdict.error_message or ""
    assert message.startswith(
        "ModelNew lacks parameters of Model and computes with values of its own: norm.weight [48]"
    )
    for part in ("norm.bias [48] float32 were expected", "Give each the name", "It has b [48] float32, w [48] float32"):
        assert part in message
