"""Spans: nothing without a provider, the tree with one, and exporters that are missing, wrong or unreachable."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.records import tracing


@pytest.fixture(scope="module")
def exporter():
    pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk")
    import opentelemetry.trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    with pytest.MonkeyPatch.context() as patch:
        # A process can set a provider only once, and other tests run in it without one.
        patch.setattr(opentelemetry.trace, "get_tracer_provider", lambda: provider)
        yield kept


@pytest.fixture
def spans(exporter):
    exporter.clear()
    return lambda: {span.name: span for span in exporter.get_finished_spans()}


def program(text, **environment):
    """Run a program in a process of its own, without the variables of OpenTelemetry that this one has."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    command, variables = [sys.executable, "-c", text], {**plain, **environment}
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)


def test_without_a_provider_nothing_is_imported():
    done = program("""
import sys
from warpsmith.records import tracing
with tracing.span("a", {"x": 1}) as span, tracing.at(tracing.here()):
    span.note({"y": 2}); span.rename("b"); span.fail("E"); span.add("c", 0, 1); tracing.current().note({"z": 3})
    assert not span.records and tracing.headers() == {} and tracing.sent({"traceparent": "00-1-1-01"}) is None
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
""")
    assert done.returncode == 0, done.stderr


def test_without_the_package_the_export_is_refused_with_the_extra():
    done = program("""
import sys
from warpsmith.records import tracing

class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Nowhere())
try:
    with tracing.exported("warpsmith-trainer"):
        pass
except tracing.TracingError as error:
    print(error.message, error.remedy)
""")
    assert "./packages/trainer[otel]" in done.stdout, done.stderr


def test_children_are_those_of_the_span_around_them_in_threads_and_loops_too(spans):
    loop = asyncio.Runner()
    loop.run(asyncio.sleep(0))  # from here on it has a context of its own

    async def work(place):
        with tracing.at(place):
            await asyncio.gather(*map(one, "ab"))

    async def one(name):
        with tracing.span(name):
            await asyncio.sleep(0.01)

    def elsewhere(place):
        with tracing.span("thread", parent=place):
            pass

    with tracing.span("outer", {"kept": 1, "left out": None}), loop:
        loop.run(work(tracing.here()))
        thread = threading.Thread(target=elsewhere, args=(tracing.here(),))
        thread.start()
        thread.join()
        tracing.current().add("past", 10, 5)
    found = spans()
    outer = found["outer"].context
    assert {name: span.parent and span.parent.span_id for name, span in found.items()} == {
        "a": outer.span_id, "b": outer.span_id, "thread": outer.span_id, "past": outer.span_id, "outer": None,
    }  # fmt: skip
    assert {span.context.trace_id for span in found.values()} == {outer.trace_id}
    assert dict(found["outer"].attributes) == {"kept": 1}
    assert (found["past"].start_time, found["past"].end_time) == (10, 10), "no span ends before it began"


def test_an_error_marks_its_span_and_is_not_quoted(spans):
    with pytest.raises(ValueError, match="secret"), tracing.span("failing"):
        raise ValueError("secret")
    span = spans()["failing"]
    assert (span.status.status_code.name, span.attributes["error.type"]) == ("ERROR", "ValueError")
    assert "secret" not in span.to_json()


def test_a_server_joins_the_span_of_its_caller(spans):
    with tracing.span("request", kind="client"):
        sent = tracing.headers()
    assert set(sent) == {"traceparent"}
    with tracing.span("elsewhere"), tracing.span("answer", kind="server", parent=tracing.sent(sent)):
        pass
    found = spans()
    assert found["answer"].parent.span_id == found["request"].context.span_id
    assert (found["answer"].kind.name, found["request"].kind.name) == ("SERVER", "CLIENT")
    assert found["elsewhere"].context.trace_id != found["request"].context.trace_id


@given(
    st.dictionaries(
        st.sampled_from(["traceparent", "tracestate"]), st.text() | st.from_regex(r"00-[0-9a-f]+-[0-9a-f]+-0[01]")
    )
)
def test_whatever_a_client_sends_a_span_begins(exporter, headers):
    exporter.clear()
    with tracing.span("answer", kind="server", parent=tracing.sent(headers)):
        pass
    assert [span.name for span in exporter.get_finished_spans()] in (["answer"], []), "a caller may decline sampling"


EXPORTING = """
from warpsmith.records import tracing
with tracing.exported("warpsmith-trainer"), tracing.span("step", {"warpsmith.step": 3}):
    pass
print("ended")
"""


@pytest.mark.parametrize(
    ("named", "name"),
    [({}, "warpsmith-trainer"), ({"OTEL_SERVICE_NAME": "mine"}, "mine"),
     ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=ours,team=kernels"}, "ours")],
)  # fmt: skip
def test_spans_are_sent_where_the_variables_say_before_the_block_ends(exporter, named, name):
    done = program(EXPORTING, OTEL_TRACES_EXPORTER="console", **named)
    text, _, rest = done.stdout.rpartition("ended")
    assert rest.strip() == "", done.stderr
    span = json.loads(text)
    assert (span["name"], span["attributes"]) == ("step", {"warpsmith.step": 3})
    assert span["resource"]["attributes"]["service.name"] == name


@pytest.mark.parametrize("silent", [True, False], ids=["it never answers", "nothing listens"])
def test_a_collector_that_is_down_costs_its_spans_alone(exporter, silent):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        if not silent:
            listener.close()
        hurried = EXPORTING.replace("with", "tracing.FLUSH_S = 0.5\nwith", 1)
        done = program(hurried, OTEL_EXPORTER_OTLP_ENDPOINT=address)
    assert (done.returncode, done.stdout.strip()) == (0, "ended"), done.stderr


@pytest.mark.parametrize(
    ("variables", "said"),
    [({"OTEL_TRACES_EXPORTER": "carrier_pigeon"}, "no exporter of spans 'carrier_pigeon'"),
     ({"OTEL_EXPORTER_OTLP_PROTOCOL": "smoke"}, "http/protobuf or grpc was expected")],
)  # fmt: skip
def test_a_variable_without_a_meaning_is_refused(exporter, variables, said):
    done = program(EXPORTING, **variables)
    assert done.returncode == 1
    assert "TracingError" in done.stderr
    assert said in done.stderr


def test_a_programs_own_provider_is_kept(exporter):
    done = program("""
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from warpsmith.records import tracing
own = TracerProvider()
trace.set_tracer_provider(own)
with tracing.exported("warpsmith-trainer"):
    assert trace.get_tracer_provider() is own
""")
    assert (done.returncode, done.stderr) == (0, "")
