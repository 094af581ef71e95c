"""The application without a socket: the middleware, error answers, the formats, and bodies that fit nothing.

The evaluator is real and not started: nothing here reaches it.
"""

import asyncio
import functools
import json
from urllib.parse import quote

import httpx
import pytest
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Verdict
from warpsmith.evaluator.server import middleware
from warpsmith.evaluator.server.app import build_app
from warpsmith.evaluator.server.errors import RefusalError
from warpsmith.evaluator.server.kernelbench import EvalBody, answer_of, result_of
from warpsmith.evaluator.server.logs import LOGGER, JsonFormatter
from warpsmith.evaluator.server.responses import WellFormedJSON
from warpsmith.evaluator.server.routes_v1 import BatchBody, EvaluateBody
from warpsmith.evaluator.server.service import Service
from warpsmith.evaluator.server.settings import ServerSettings
from warpsmith.evaluator.verdict import invalid

TOKEN = "0123456789abcdef"
POSTS = ("/eval", "/v1/evaluate", "/v1/evaluate/batch")


def app_with(**settings_):
    service = Service([Evaluator(EvaluatorConfig(slots=1))], ServerSettings(**settings_), "landlock")
    return build_app(service)


@functools.cache
def one_app():
    """One application for many examples: nothing that they ask reaches what belongs to an event loop."""
    return app_with()


def ask(app, method, path, **options):
    async def go():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as client:
            return await client.request(method, path, **options)

    return asyncio.run(go())


@pytest.mark.parametrize("path", ["/", "/gpu_status", "/metrics", "/fault_statistics", "/nowhere"])
@pytest.mark.parametrize("given_header", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}])
def test_without_the_token_nothing_is_disclosed(path, given_header):
    answer = ask(app_with(token=TOKEN), "GET", path, headers=given_header)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert "token" in answer.json()["detail"]
    assert TOKEN not in answer.text


def test_with_the_token_all_is_disclosed_and_health_needs_none():
    app = app_with(token=TOKEN)
    assert ask(app, "GET", "/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert ask(app, "GET", "/health").status_code == 200
    assert TOKEN not in repr(ServerSettings(token=TOKEN))


def test_web_pages_cannot_post():
    answer = ask(app_with(), "POST", "/cleanup", headers={"Origin": "http://evil.example"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (403, "browser")
    assert ask(app_with(), "POST", "/cleanup").status_code == 200


@given(st.recursive(st.text(st.characters(exclude_categories=[]), max_size=8), lambda inner: st.dictionaries(
    st.text(st.characters(exclude_categories=[]), max_size=4), inner, max_size=3)))  # fmt: skip
def test_every_text_that_foreign_code_can_make_is_answered(content):
    body = WellFormedJSON(content).body
    assert json.loads(body.decode()) == content


def test_every_route_answers_so():
    routes = [route for route in app_with()._app.routes if isinstance(route, APIRoute)]
    made = {route.path: route.response_class for route in routes if route.path != "/metrics"}
    classes = {path: getattr(one, "value", one) for path, one in made.items()}
    # The lines of a batch are escaped one by one.
    assert set(classes.values()) == {WellFormedJSON, StreamingResponse}, classes


@pytest.mark.parametrize("path", POSTS)
def test_a_body_is_bounded_whatever_its_head_says(path):
    async def chunks():
        for _ in range(5):
            yield b" " * 1000

    app = app_with(max_body_bytes=4096)
    for content, refused in ((b" " * 5000, (413, "body_too_large")), (chunks(), (411, "no_length"))):
        answer = ask(app, "POST", path, content=content, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["error"]["type"]) == refused


def test_a_body_of_very_many_fields_is_one_error():
    app = app_with()
    many = {f"field{number}": 0 for number in range(20_000)}
    item = {"problem": {"source": "class Model"}, "candidate": "x"}
    for body in (many, {"items": [{**item, "wrong": 1}] * 500}, {"items": [many] * 20}):
        answer = ask(app, "POST", "/v1/evaluate/batch" if "items" in body else "/v1/evaluate", json=body)
        assert answer.status_code == 422
        assert len(answer.text) < 2000
        assert "unknown fields" in answer.text or "20000 fields" in answer.text


def test_an_item_with_an_unknown_field_is_named():
    item = {"problem": {"source": "class Model"}, "candidate": "x", "trails": 3}
    answer = ask(app_with(), "POST", "/v1/evaluate/batch", json={"items": [item]})
    assert (answer.status_code, "body.items.0.trails" in answer.text) == (422, True)


def test_long_sources_and_long_times_are_refused():
    app = app_with(max_source_chars=1024, max_timeout_s=10)
    long, short = "x" * 2000, "class Model"
    body = {"problem": {"source": long}, "candidate": short}
    assert ask(app, "POST", "/v1/evaluate", json=body).json()["error"]["type"] == "source_too_long"
    body = {"problem": {"source": short}, "candidate": short, "timeout_s": 11}
    assert ask(app, "POST", "/v1/evaluate", json=body).json()["error"]["type"] == "timeout_too_long"
    answer = ask(app, "POST", "/eval", json={"original_model_src": short, "custom_model_src": long})
    assert answer.json()["error"]["type"] == "source_too_long"


@pytest.mark.parametrize(
    ("baseline", "kind"), [(["compile"], "baseline_not_offered"), (["fast"], "bad_request"), ([], "bad_request")]
)
def test_a_baseline_that_the_server_does_not_take_is_refused(baseline, kind):
    body = {"problem": {"source": "x"}, "candidate": "y", "baseline": baseline}
    answer = ask(app_with(), "POST", "/v1/evaluate", json=body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (422, kind)


def test_errors_name_the_field_and_never_quote_its_content():
    body = {"problem": {"source": "secret source"}, "candidate": 7, "trails": 3}
    answer = ask(app_with(), "POST", "/v1/evaluate", json=body)
    assert answer.status_code == 422
    assert "body.candidate" in answer.json()["detail"]
    assert "body.trails" in answer.json()["detail"]
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("content", "header", "says", "remedy"),
    [
        (b"{bad", "application/json", "The body is not JSON: Expecting property name", "/openapi.json"),
        (b'{"candidate": "\xff"}', "application/json", "cannot be read", "UTF-8"),
        (b"[" * 100_000, "application/json", "cannot be read", "UTF-8"),
        (b'{"seed": ' + b"1" * 5000 + b"}", "application/json", "cannot be read", "UTF-8"),
        (
            b'{"problem": {"source": "x"}, "candidate": "y"}',
            "text/plain",
            "valid dictionary",
            "Content-Type: application",
        ),
    ],
)
def test_a_body_that_is_no_json_is_refused_with_why_and_what_to_send(content, header, says, remedy):
    answer = ask(app_with(), "POST", "/v1/evaluate", content=content, headers={"Content-Type": header})
    assert (answer.status_code, answer.json()["error"]["type"]) == (422, "bad_request")
    assert says in answer.json()["error"]["message"]
    assert remedy in answer.json()["error"]["remedy"]


def test_of_a_long_path_little_is_written_down(monkeypatch):
    logged = []
    monkeypatch.setattr(middleware, "log", lambda event, **fields: logged.append(fields))
    assert ask(app_with(token=TOKEN), "GET", "/" + "a" * 60_000).status_code == 401
    assert [len(fields["path"]) for fields in logged] == [200]


def test_a_request_id_is_kept_if_it_is_one_and_made_otherwise():
    app = app_with()
    assert ask(app, "GET", "/health", headers={"X-Request-ID": "abc-1"}).headers["X-Request-ID"] == "abc-1"
    made = ask(app, "GET", "/health", headers={"X-Request-ID": b"a b\xff"}).headers["X-Request-ID"]
    assert len(made) == 16


@pytest.mark.parametrize("backend", ["cuda", "cute", "", "Triton"])
def test_an_unknown_backend_gets_a_typed_answer(backend):
    body = {"original_model_src": "x", "custom_model_src": "y", "backend": backend}
    answer = ask(app_with(), "POST", "/eval", json=body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "unsupported_backend")
    assert answer.json()["supported_backends"] == ["triton"]


def test_invalid_is_never_an_answer_with_a_score():
    for legacy in (False, True):
        with pytest.raises(RefusalError, match="the judge died") as refused:
            answer_of(invalid("the judge died"), legacy_errors=legacy)
        assert (refused.value.status, refused.value.retry_after_s) == (503, 1)


@pytest.mark.parametrize(
    ("status", "category", "code"),
    [
        ("compile_error", "syntax_error", 400),
        ("compile_error", "triton_compilation_error", 500),
        ("runtime_error", "segmentation_fault", 500),
        ("timeout", "timeout", 504),
        ("incorrect", None, 200),
        ("rejected", None, 200),
        ("correct", None, 200),
    ],
)
def test_kernel_failures_are_answers_and_behind_a_switch_http_errors(status, category, code):
    verdict = Verdict(status, False, status == "correct", error_category=category, error_message="the cause")
    assert answer_of(verdict, legacy_errors=False).status_code == 200
    answer = answer_of(verdict, legacy_errors=True)
    assert answer.status_code == code
    if code != 200:
        assert json.loads(answer.body) == {"detail": "the cause"}


def test_times_are_reported_where_there_are_any():
    result = result_of(Verdict("correct", True, True, speedup=2.0, runtime_ms=1.5, reference_ms=3.0))
    assert (result["runtime"], result["ref_runtime"], result["runtime_stats"]) == (1.5, 3.0, {"mean": 1.5})
    untimed = result_of(Verdict("correct", True, True))
    assert (untimed["runtime"], untimed["ref_runtime"], untimed["ref_runtime_stats"]) == (-1.0, -1.0, {})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)
FIELDS = [*EvalBody.model_fields, *EvaluateBody.model_fields, *BatchBody.model_fields, "source", "name"]
BODIES = st.dictionaries(st.sampled_from(FIELDS), JSON | st.text(max_size=30), max_size=8)
EVALUATIONS = st.fixed_dictionaries(
    {
        "problem": st.fixed_dictionaries({"source": st.text(max_size=30)}) | JSON,
        "candidate": st.text(max_size=9) | JSON,
    },
    optional={"seed": JSON, "trials": JSON, "timeout_s": JSON},
)
EVALS = st.fixed_dictionaries(
    {"original_model_src": st.text(max_size=30) | JSON, "custom_model_src": st.text(max_size=9) | JSON},
    optional={"seed": JSON, "seed_num": JSON, "num_correct_trials": JSON, "backend": JSON | st.just("triton")},
)
BATCHES = st.fixed_dictionaries({"items": st.lists(EVALUATIONS, max_size=3) | JSON})
VALUES = JSON | BODIES | EVALUATIONS | EVALS | BATCHES


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    path=st.sampled_from(POSTS),
    content=st.binary(max_size=60)
    | (JSON | BODIES | EVALUATIONS | EVALS | BATCHES).map(lambda v: json.dumps(v).encode()),
)
def test_no_body_makes_the_server_fail_and_every_refusal_says_what_to_do(path, content):
    answer = ask(one_app(), "POST", path, content=content, headers={"Content-Type": "application/json"})
    if path.endswith("batch") and answer.status_code == 200:
        lines = [json.loads(line) for line in answer.text.splitlines()]
        assert {line["error"]["type"] for line in lines} <= {"bad_problem"}
        return
    assert 400 <= answer.status_code < 500, (content, answer.text)
    body = answer.json()
    assert body["error"]["message"]
    assert body["error"]["remedy"]
    assert isinstance(body["detail"], str)


@settings(max_examples=50, deadline=None)
@given(method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD"]), path=st.text(max_size=30))
def test_no_path_makes_the_server_fail(method, path):
    answer = ask(one_app(), method, "/" + quote(path))
    assert answer.status_code in (200, 400, 404, 405, 422), (method, path)


@pytest.mark.parametrize("name", ["n" * 129, "run\tone", "l\u00e4ufer"])
def test_a_clients_name_that_no_log_should_hold_is_refused(name):
    header = {"X-Warpsmith-Client": name.encode()}
    answer = ask(app_with(), "GET", "/gpu_status", headers=header)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "bad_client_name")
    assert "128 printable ASCII" in answer.json()["detail"]
    assert ask(app_with(), "GET", "/health", headers=header).status_code == 200


def test_log_and_metrics_name_the_client(caplog):
    app = app_with(queue=1)
    item = {"problem": {"source": "class Model"}, "candidate": "x"}
    with caplog.at_level("INFO", LOGGER):
        answer = ask(
            app, "POST", "/v1/evaluate/batch", json={"items": [item] * 9}, headers={"X-Warpsmith-Client": "run 7"}
        )
    assert answer.status_code == 413
    (line,) = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
    assert (line["event"], line["client_name"], line["client"], line["code"]) == ("request", "run 7", "127.0.0.1", 413)
    figures = ask(app, "GET", "/metrics").text
    assert 'client_evaluations_total{client="127.0.0.1 run 7",result="refused"} 9.0' in figures
