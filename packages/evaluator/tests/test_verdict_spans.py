"""Spans of evaluations: where a verdict's seconds lie, what they record, and one trace over a client and a server."""

import asyncio
from dataclasses import fields
from itertools import pairwise

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kept_spans import collector, kept_spans

from warpsmith.evaluator import Client, Evaluator, EvaluatorConfig, ServerUnreachableError
from warpsmith.evaluator.processes.lease import USES
from warpsmith.evaluator.server.app import build_app
from warpsmith.evaluator.server.child import ServerProcess
from warpsmith.evaluator.server.service import Service
from warpsmith.evaluator.server.settings import ServerSettings
from warpsmith.evaluator.verdict import Seconds, Verdict, invalid
from warpsmith.evaluator.verdict_spans import PARTS, add_verdict
from warpsmith.records import tracing

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def exporter():
    with kept_spans() as kept:
        yield kept


@pytest.fixture
def spans(exporter):
    exporter.clear()
    return exporter.get_finished_spans


def named(found):
    return {span.name: span for span in found}


def test_every_second_of_a_verdict_has_its_place():
    # What an evaluation had of the device overlaps with its parts.
    of_device = set(USES) - {"without"}
    assert {one.name for one in fields(Seconds)} - of_device == {*PARTS, "wait", "compile", "evaluate", "age"}


@given(st.builds(Seconds, **{one.name: st.floats(0, 100) for one in fields(Seconds)}), st.floats(0, 100))
def test_parts_lie_within_the_evaluation_one_after_another(exporter, seconds, taken):
    exporter.clear()
    with tracing.span("evaluation") as span:
        ended = span.began_ns + round(taken * 1e9)
        add_verdict(span, Verdict("correct", True, True, seconds=seconds), ended)
    found = named(exporter.get_finished_spans())
    root = found.pop("evaluation")
    assert set(found) == {name for name in (*PARTS, "wait", "compile") if getattr(seconds, name) > 0}
    for name, part in found.items():
        assert part.parent.span_id == root.context.span_id
        assert root.start_time <= part.start_time <= part.end_time <= ended
        assert part.attributes["warpsmith.seconds"] == getattr(seconds, name)
    parts = [found[name] for name in PARTS if name in found]
    assert all(one.end_time <= later.start_time for one, later in pairwise(parts))


def test_a_kept_verdict_has_no_parts_and_a_lost_one_is_an_error(spans):
    with tracing.span("evaluation") as span:
        add_verdict(span, Verdict("correct", True, True, cached=True, seconds=Seconds(age=5, timing=1)), 0)
    with tracing.span("lost") as span:
        add_verdict(span, invalid("The secret judge died."), 0)
    evaluation, lost = spans()
    assert (evaluation.name, evaluation.attributes["warpsmith.cached"]) == ("evaluation", True)
    assert (lost.status.status_code.name, lost.attributes["error.type"]) == ("ERROR", "process_error")
    assert "secret" not in lost.to_json()


def test_an_evaluation_on_this_machine_is_one_span_with_its_parts(spans, evaluator, add_problem, add_candidate):
    # Under this name no other test has compiled it.
    unknown = add_candidate.replace("add_kernel", "kernel_with_spans")

    async def both():
        with tracing.span("mine"):
            sources = [unknown, "x ="]
            await asyncio.gather(*(evaluator.evaluate_async(add_problem, source, trials=1) for source in sources))

    asyncio.run(both())
    evaluator.evaluate(add_problem, add_candidate, trials=1)
    mine = named(spans())["mine"]
    first, second, third = sorted(
        (span for span in spans() if span.name == "evaluation"), key=lambda span: (span.parent is None, span.end_time)
    )
    assert {first.parent.span_id, second.parent.span_id} == {mine.context.span_id}
    assert third.parent is None
    assert {span.attributes["warpsmith.status"] for span in (first, second)} == {"correct", "compile_error"}
    right = first if first.attributes["warpsmith.correct"] else second
    parts = {span.name for span in spans() if span.parent and span.parent.span_id == right.context.span_id}
    assert {"correctness", "compile"} <= parts
    assert add_candidate.splitlines()[-1].strip() not in "".join(span.to_json() for span in spans())


def ask(path, method="GET", **headers):
    service = Service([Evaluator(EvaluatorConfig(slots=1))], ServerSettings(token=TOKEN), "landlock")

    async def go():
        transport = httpx.ASGITransport(build_app(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            return await client.request(method, path, headers={"traceparent": CALLER, **headers})

    return asyncio.run(go())


@pytest.mark.parametrize("path", ["/", "/nowhere", "/v1/evaluate"])
def test_only_who_has_the_token_joins_a_trace(spans, path):
    assert ask(path).status_code == 401
    assert spans() == ()
    code = ask(path, Authorization=f"Bearer {TOKEN}").status_code
    (span,) = spans()
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == tuple(CALLER.split("-")[1:3])
    assert (span.kind.name, span.attributes["http.response.status_code"]) == ("SERVER", code)
    assert span.name == ("GET other" if path == "/nowhere" else f"GET {path}")


@pytest.mark.parametrize("path", ["/health", "/metrics"])
def test_what_is_polled_makes_no_spans(spans, path):
    assert ask(path, Authorization=f"Bearer {TOKEN}").status_code == 200
    assert spans() == ()


def test_each_attempt_of_a_client_is_a_span_without_the_token(spans, add_problem):
    with Client("http://127.0.0.1:9", token=TOKEN, deadline_s=1) as client, pytest.raises(ServerUnreachableError):
        client.evaluate(add_problem, "")
    attempts = spans()
    assert len(attempts) > 1
    for span in attempts:
        assert (span.name, span.kind.name, span.attributes["server.port"]) == ("POST /v1/evaluate", "CLIENT", 9)
        assert (span.status.status_code.name, span.attributes["error.type"]) == ("ERROR", "ConnectError")
        assert TOKEN not in span.to_json()


@pytest.mark.slow
def test_one_trace_leads_from_a_client_over_the_server_to_the_timed_parts(spans, add_problem, add_candidate):
    with collector() as (address, of_server):
        server = ServerProcess("--slots", "1", "--otel", OTEL_EXPORTER_OTLP_ENDPOINT=address)
        with server, Client(server.url) as client, tracing.span("mine") as _:
            assert client.evaluate(add_problem, add_candidate, trials=1).correct
    mine, post = named(spans())["mine"], named(spans())["POST /v1/evaluate"]
    assert post.parent.span_id == mine.context.span_id
    ids = {span.span_id: span for span in of_server}
    joined = {span.name: span for span in of_server if int.from_bytes(span.trace_id) == mine.context.trace_id}
    assert int.from_bytes(joined["POST /v1/evaluate"].parent_span_id) == post.context.span_id
    assert ids[joined["queue"].parent_span_id].name == "POST /v1/evaluate"
    assert ids[joined["evaluation"].parent_span_id].name == "POST /v1/evaluate"
    assert ids[joined["correctness"].parent_span_id].name == "evaluation"
    assert ids[joined["compile"].parent_span_id].name == "evaluation"
