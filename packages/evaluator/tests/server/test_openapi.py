"""The server against its own /openapi.json: requests made from it, answers held against it.

The evaluator is real and not started: no problem that is made up here gets as far. The resets, which would start one,
are left out.
"""

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from warpsmith.evaluator import Evaluator, EvaluatorConfig
from warpsmith.evaluator.server.app import build_app
from warpsmith.evaluator.server.service import Service
from warpsmith.evaluator.server.settings import ServerSettings

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]


def app():
    return build_app(Service([Evaluator(EvaluatorConfig(slots=1))], ServerSettings(), "landlock"))


schema = schemathesis.openapi.from_asgi("/openapi.json", app()).exclude(path_regex="reset")


@schema.parametrize()
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_one_that_the_description_names(case):
    assert case.call_and_validate(checks=CHECKS).status_code < 500


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_a_method_that_is_not_there_is_named_as_such(method):
    case = schema["/eval"]["POST"].Case(method=method, body={})
    answer = case.call()
    assert (answer.status_code, answer.json()["error"]["type"]) == (405, "method_not_allowed")
