"""Names of baselines, in a configuration and in a request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem, UsageError
from warpsmith.evaluator.baselines import (
    BASELINES,
    NOTE_KINDS,
    BaselineNote,
    ReferenceTime,
    ReferenceTimes,
    baselines_of,
)
from warpsmith.evaluator.client.request import EvaluationRequest
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.sandbox.roles import roles_of

PROBLEM = Problem.from_source(
    "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n", "a problem that is never run"
)

names = st.lists(st.sampled_from(BASELINES), min_size=1, max_size=6)


@given(names, st.booleans())
def test_names_keep_their_order_and_occur_once_however_they_are_written(given_names, as_list):
    written = [", ".join(given_names[:2]), *given_names[2:]] if as_list else ",".join(given_names)
    assert baselines_of(written) == tuple(dict.fromkeys(given_names))


@given(st.one_of(st.text(), st.integers(), st.none(), st.lists(st.one_of(st.text(max_size=9), st.integers()))))
def test_anything_else_is_refused_with_the_names_that_there_are(value):
    try:
        found = baselines_of(value)
    except ValueError as error:
        assert "expected some of eager, compile, compile_max_autotune" in str(error)
    else:
        assert set(found) <= set(BASELINES)
        assert found


def test_a_configuration_takes_one_name_or_several():
    assert EvaluatorConfig().baseline == ("eager",)
    assert EvaluatorConfig(baseline="compile,eager").baseline == ("compile", "eager")
    assert EvaluatorConfig.model_validate_json(EvaluatorConfig(baseline=["compile"]).model_dump_json()).baseline == (
        "compile",
    )
    with pytest.raises(ValidationError, match="'fast' is no baseline"):
        EvaluatorConfig(baseline="eager,fast")


def test_a_request_takes_some_of_the_configured_baselines():
    request = EvaluationRequest.of(PROBLEM, "class ModelNew: ...", baseline="compile, eager")
    assert request.baseline == ("compile", "eager")
    assert EvaluationRequest.from_options(request.problem, request.candidate, request.options) == request
    assert "baseline" not in EvaluationRequest.of(PROBLEM, "class ModelNew: ...").options
    with pytest.raises(UsageError, match="'fast' is no baseline"):
        EvaluationRequest.of(PROBLEM, "class ModelNew: ...", baseline=["fast"])
    with pytest.raises(UsageError, match="baseline compile is asked for; this evaluator takes eager"):
        Evaluator(EvaluatorConfig(slots=1)).evaluate(PROBLEM, "class ModelNew: ...", baseline="compile")


def test_only_an_evaluator_of_compiled_baselines_has_a_worker_that_may_run_compilers():
    assert "baseline" not in roles_of(EvaluatorConfig(device="cuda"))["plain"]
    assert "baseline" in roles_of(EvaluatorConfig(device="cuda", baseline="compile"))["plain"]
    assert "baseline" not in roles_of(EvaluatorConfig(device="cuda", baseline="compile", timing=False))["plain"]


positive = st.floats(min_value=1e-6, max_value=1e6)
reference_times = st.builds(
    ReferenceTimes,
    times=st.dictionaries(
        st.sampled_from(BASELINES),
        st.builds(ReferenceTime, positive, positive, positive, st.none() | positive, st.integers(1, 1000), positive),
    ),
    notes=st.lists(st.builds(BaselineNote, st.sampled_from(BASELINES), st.sampled_from(NOTE_KINDS), st.text())).map(
        tuple
    ),
)


@given(reference_times)
def test_times_of_references_are_the_same_after_the_wire(found):
    fields = codec.decode(codec.encode(found.to_fields()))
    assert ReferenceTimes.from_fields(fields) == found


def test_references_are_timed_on_a_gpu_alone():
    with pytest.raises(UsageError, match="References are timed on a GPU, and this evaluator has the device 'cpu'"):
        Evaluator(EvaluatorConfig(slots=1)).reference_times(PROBLEM)
    untimed = EvaluatorConfig(device="cuda", timing=False)
    with pytest.raises(UsageError, match="timing False"):
        Evaluator(untimed).reference_times(PROBLEM)
    with pytest.raises(UsageError, match="baseline compile is asked for; this evaluator takes eager"):
        Evaluator(EvaluatorConfig(device="cuda")).reference_times(PROBLEM, baseline="compile")
