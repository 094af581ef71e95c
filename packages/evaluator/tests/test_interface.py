"""There is one way to ask for a verdict: whatever answers has the parameters of the interface."""

import inspect
from typing import Unpack, get_args, get_type_hints

import pytest

from warpsmith.evaluator.client.evaluator import Evaluator
from warpsmith.evaluator.client.interface import (
    AsyncEvaluationOptions,
    AsyncEvaluator,
    EvaluationOptions,
    SyncEvaluator,
)
from warpsmith.evaluator.client.remote import Client
from warpsmith.evaluator.server.devices import Device


def parameters(method) -> dict[str, object]:
    """Name and type of each parameter; keyword arguments that are handed on count as those of their type."""
    hints = get_type_hints(method)
    found = {name: hints[name] for name in inspect.signature(method).parameters if name not in {"self", "options"}}
    if "options" in hints:
        assert hints["options"].__origin__ is Unpack
        (options,) = get_args(hints["options"])
        found |= get_type_hints(options)
    return found


@pytest.mark.parametrize("kind", [Evaluator, Client])
def test_what_blocks_has_the_parameters_of_the_interface(kind):
    assert parameters(kind.evaluate) == parameters(SyncEvaluator.evaluate)


@pytest.mark.parametrize("kind", [Evaluator, Client, Device])
def test_what_is_awaited_has_the_parameters_of_the_interface(kind):
    assert parameters(kind.evaluate_async) == parameters(AsyncEvaluator.evaluate_async)


def test_options_that_are_handed_on_are_those_of_the_interface():
    given = {"problem", "candidate"}
    assert set(get_type_hints(EvaluationOptions)) == set(parameters(SyncEvaluator.evaluate)) - given
    assert set(get_type_hints(AsyncEvaluationOptions)) == set(parameters(AsyncEvaluator.evaluate_async)) - given
