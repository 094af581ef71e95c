"""What a call changes of its caller's: seen by comparison, and what sets the grad mode by who sets it."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from warpsmith.evaluator.recordings import side_effects
from warpsmith.evaluator.recordings.operators import ExportWatch
from warpsmith.evaluator.recordings.side_effects import (
    CONTAINER,
    FORM,
    GRAD_MODE,
    GRADIENT,
    NAMES,
    RANDOM,
    CallersView,
    message_of,
)


def seeds():
    return (torch.default_generator.initial_seed(),)


@pytest.fixture
def arguments():
    x = torch.randn(4, 4)
    return [x, [x, torch.ones(3), 2], {"a": torch.ones(2), "b": 1}, SimpleNamespace(x=x, n=3), (x, [x])]


@pytest.fixture(autouse=True)
def restored():
    before = {name: read() for name, read in side_effects.SETTINGS.items()}
    yield
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.set_flush_denormal(False)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.enabled = True
    torch.use_deterministic_algorithms(False)
    torch.autograd.set_detect_anomaly(False)
    torch.set_num_threads(before["torch.set_num_threads"])
    assert {name: read() for name, read in side_effects.SETTINGS.items()} == before


CHANGES = {
    "unsqueeze_": (lambda x, *_: x.unsqueeze_(0), FORM),
    "t_ of a square matrix": (lambda x, *_: x.t_(), FORM),
    "swapaxes_": (lambda x, *_: x.swapaxes_(0, 1), FORM),
    "resize_": (lambda x, *_: x.resize_(2, 4), FORM),
    "as_strided_": (lambda x, *_: x.as_strided_((4, 4), (1, 4)), FORM),
    "data": (lambda x, *_: setattr(x, "data", x.clone()), FORM),
    "set_": (lambda x, *_: x.set_(torch.ones(4, 4)), FORM),
    "swap_tensors": (lambda x, *_: torch.utils.swap_tensors(x, torch.ones(4, 4)), FORM),
    "a tensor in a list": (lambda x, some, *_: some[1].unsqueeze_(0), FORM),
    "requires_grad_": (lambda x, *_: x.requires_grad_(), GRADIENT),
    "pop": (lambda x, some, *_: some.pop(), CONTAINER),
    "an equal tensor": (lambda x, some, *_: some.__setitem__(1, torch.ones(3)), CONTAINER),
    "reverse": (lambda x, some, *_: some.reverse(), CONTAINER),
    "popped from a dict": (lambda x, some, named, *_: named.pop("b"), CONTAINER),
    "another order": (lambda x, some, named, *_: named.update(a=named.pop("a")), CONTAINER),
    "an attribute": (lambda x, some, named, one, *_: setattr(one, "n", 4), CONTAINER),
    "a list in a tuple": (lambda *all_: all_[4][1].append(0), CONTAINER),
    "manual_seed": (lambda *_: torch.manual_seed(4321), RANDOM),
    "a generator's own seed": (lambda *_: torch.default_generator.seed(), RANDOM),
    "enabled": (lambda *_: torch.set_grad_enabled(False), GRAD_MODE),
    "default dtype": (lambda *_: torch.set_default_dtype(torch.float64), "torch.set_default_dtype"),
    "denormals": (lambda *_: torch.set_flush_denormal(True), "torch.set_flush_denormal"),
    "cudnn": (lambda *_: setattr(torch.backends.cudnn, "enabled", False), "torch.backends.cudnn.enabled"),
    "benchmark": (lambda *_: setattr(torch.backends.cudnn, "benchmark", True), "torch.backends.cudnn.benchmark"),
    "determinism": (
        lambda *_: torch.use_deterministic_algorithms(True, warn_only=True),
        "torch.use_deterministic_algorithms",
    ),
    "anomalies": (lambda *_: torch.autograd.set_detect_anomaly(True), "torch.autograd.set_detect_anomaly"),
    "threads": (lambda *_: torch.set_num_threads(torch.get_num_threads() + 1), "torch.set_num_threads"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen_and_named(name, arguments):
    change, kind = CHANGES[name]
    view = CallersView(arguments, nn.Linear(2, 2), seeds)
    change(*arguments)
    assert view.changes() == {kind}
    assert kind in message_of(kind) or kind in side_effects.MESSAGES


def test_less_precise_products_are_seen_by_each_name(arguments):
    view = CallersView(arguments, nn.Linear(2, 2), seeds)
    torch.set_float32_matmul_precision("medium")
    assert "torch.set_float32_matmul_precision" in view.changes()


def leave_alone(x, some, named, one, pair):
    x[0] = 1.0
    x.t()
    x.detach().requires_grad_()
    list(some).pop()
    dict(named).pop("a")
    one.cached = 3
    torch.rand(3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
    with torch.no_grad(), torch.autocast("cpu"), torch.backends.cudnn.flags(enabled=False):
        pass
    with torch.inference_mode():
        return x.clone()


def test_values_views_copies_and_contexts_are_no_changes(arguments):
    view = CallersView(arguments, nn.Linear(2, 2), seeds)
    leave_alone(*arguments)
    assert view.changes() == set()


def test_an_inference_mode_left_open_is_seen():
    view = CallersView([], nn.Linear(2, 2), seeds)
    mode = torch.inference_mode()
    mode.__enter__()
    try:
        assert view.changes() >= {"torch.inference_mode"}
    finally:
        mode.__exit__(None, None, None)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda module: module.register_buffer("late", torch.ones(1)), {NAMES}),
        (lambda module: module.register_parameter("late", nn.Parameter(torch.ones(1))), {NAMES}),
        (lambda module: module.add_module("late", nn.Linear(1, 1)), {NAMES}),
        (lambda module: delattr(module, "bias"), {NAMES}),
        (lambda module: module.register_buffer("late", torch.ones(1), persistent=False), set()),
        (lambda module: setattr(module, "announced", torch.ones(1)), set()),
        (lambda module: setattr(module, "late", torch.ones(1)), set()),
    ],
)
def test_names_that_a_module_saves(change, expected):
    module = nn.Linear(2, 2)
    module.register_buffer("announced", None)
    view = CallersView([], module, seeds)
    change(module)
    assert view.changes() == expected


def enter():
    torch.no_grad().__enter__()


def put_back():
    with torch.set_grad_enabled(False), torch.enable_grad():
        torch.no_grad()(torch.ones)(1)


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        (lambda: torch.set_grad_enabled(False), True),
        (lambda: torch._C._set_grad_enabled(False), True),
        (enter, True),
        (put_back, False),
        (lambda: None, False),
    ],
)
def test_who_sets_the_grad_mode_without_gradients(forward, expected):
    with torch.no_grad(), ExportWatch(lambda name: None) as watch:
        forward()
    assert watch.grad_mode.may_stay == expected
