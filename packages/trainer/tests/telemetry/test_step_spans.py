"""Spans of steps: phases from the recorded figures, and rollouts within the step that waits for them."""

import asyncio
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from warpsmith.records import RunReader, tracing
from warpsmith.records.writer import RunWriter
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.config.sections import RunSection, WandbSection
from warpsmith.trainer.doctor import services
from warpsmith.trainer.doctor.checks import checks_without_torch
from warpsmith.trainer.rollouts.event_loop import BackgroundLoop
from warpsmith.trainer.rollouts.session import RolloutSession
from warpsmith.trainer.telemetry import step_spans
from warpsmith.trainer.telemetry.display import RunDisplay
from warpsmith.trainer.telemetry.phase_log import PhaseLog
from warpsmith.trainer.telemetry.run_facts import ProblemLog
from warpsmith.trainer.telemetry.step_log import StepLog


@pytest.fixture
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


def log_step(folder, number, figures):
    run, began = RunSection(dir=folder), datetime.now(UTC) - timedelta(seconds=10)
    with (
        RunWriter(folder) as writer,
        StepLog(writer, run, WandbSection(mode="disabled"), run) as log,
        step_spans.step(number, "run"),
    ):
        log.step(number, weight_version=number, started_at=began, seconds=10.0, figures=figures)
    return round(began.timestamp() * 1e9)


def test_the_phases_of_a_step_follow_one_another_from_its_begin(exporter, tmp_path):
    figures = {"collect_s": 6.0, "train_s": 3.0, "sync_s": 0.5, "reward_mean": 0.25, "loss": float("nan")}
    began = log_step(tmp_path / "run", 7, figures)
    found = {span.name: span for span in exporter.get_finished_spans()}
    step = found.pop("step")
    assert dict(step.attributes) == {"warpsmith.step": 7, "warpsmith.run": "run", "warpsmith.reward_mean": 0.25}
    assert {name: ((span.start_time - began) / 1e9, (span.end_time - began) / 1e9) for name, span in found.items()} == {
        "collect": (0.0, 6.0), "train": (6.0, 9.0), "sync": (9.0, 9.5),
    }  # fmt: skip
    assert {span.parent.span_id for span in found.values()} == {step.context.span_id}


def test_a_step_of_sft_has_only_what_it_measured(exporter, tmp_path):
    log_step(tmp_path / "run", 1, {"train_s": 3.0, "loss": 0.5})
    assert [span.name for span in exporter.get_finished_spans()] == ["train", "step"]


def test_without_a_provider_the_records_are_the_same(tmp_path):
    log_step(tmp_path / "run", 1, {"train_s": 3.0})
    (row,) = RunReader(tmp_path / "run").table("steps").to_pylist()
    assert row["train_s"] == 3.0


class TracedCollector:
    """Returns turns, and traces an episode for them."""

    def __init__(self, table):
        self.table = table

    async def collect(self, *_problems, **_options):
        with tracing.span("episode"):
            await asyncio.sleep(0)
        return self.table


@pytest.mark.parametrize("loop", [asyncio.Runner, BackgroundLoop])
def test_a_rollout_lies_in_the_step_that_waits_for_it_whichever_loop_runs_it(exporter, turns_table, tmp_path, loop):
    config = TrainerConfig.model_validate(
        {"run": {"dir": tmp_path / "run"}, "policy": {"path": "none"}, "problems": {"count": 4, "levels": [1]}}
    )
    (tmp_path / "run").mkdir()
    display = RunDisplay("run", 1, "steps", shown=False)
    session = RolloutSession(config, display, PhaseLog())
    with loop() as session._loop, RunWriter(tmp_path / "run") as session.writer:
        session._loop.run(asyncio.sleep(0))  # from here on it has a context of its own
        session._problem_log, session._collector = ProblemLog(tmp_path / "run"), TracedCollector(turns_table([{}]))
        for number in (1, 2):
            with step_spans.step(number, "run"):
                session.collect(
                    session.problems[:1], 1, label=f"step-{number}", seed=None, role="train", after_step=0,
                    weight_version=0, rollout_step=number,
                )  # fmt: skip
    found = exporter.get_finished_spans()
    assert [span.name for span in found] == ["episode", "rollout", "step"] * 2
    for episode, rollout, step in (found[:3], found[3:]):
        assert episode.parent.span_id == rollout.context.span_id
        assert rollout.parent.span_id == step.context.span_id
        assert rollout.attributes["warpsmith.step"] == step.attributes["warpsmith.step"]
        assert step.parent is None


SWITCHED = """
import sys
from contextlib import ExitStack
from datetime import UTC, datetime

from warpsmith.trainer.config.sft import SftConfig
from warpsmith.trainer.distributed.ranks import join, leave
from warpsmith.trainer.runs.run_control import RunControl
from warpsmith.trainer.telemetry import step_spans

config = SftConfig.model_validate({
    "run": {"dir": sys.argv[1]}, "policy": {"path": "none"}, "wandb": {"mode": "disabled"},
    "trackers": {"otel": sys.argv[2] == "on"},
    "data": {"sources": [{"type": "generated", "problems": 1}]},
})
ranks = join(config.run, config.zero)
with ExitStack() as stack:
    log = RunControl(config, ranks, None, 1).log(stack)
    with step_spans.step(1, "run"):
        log.step(1, weight_version=1, started_at=datetime.now(UTC), seconds=1.0, figures={"train_s": 1.0})
leave()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("switch", "sent"), [("on", ["train", "step"]), ("off", [])])
def test_a_run_sends_spans_where_its_file_says_so(exporter, tmp_path, switch, sent):
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "RANK", "WORLD_SIZE"))}
    done = subprocess.run(
        [sys.executable, "-c", SWITCHED, str(tmp_path / "run"), switch],
        env={**plain, "OTEL_TRACES_EXPORTER": "console"}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.findall(r'^    "name": "(\w+)"', done.stdout, flags=re.MULTILINE) == sent
    assert done.stdout.count('"service.name": "warpsmith-trainer"') == len(sent)


def test_exporters_that_are_not_there_are_found_before_a_run_starts(monkeypatch):
    pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk")
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_PROTOCOL", raising=False)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console, none")
    assert [finding.seen for finding in services.spans()] == ["exported by console"]
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "carrier_pigeon")
    with pytest.raises(tracing.TracingError, match="carrier_pigeon"):
        list(services.spans())


@pytest.mark.parametrize("switched", [True, False])
def test_only_a_run_that_sends_spans_is_checked_for_them(switched):
    fields = {"run": {"dir": "run"}, "policy": {"path": "none"}, "trackers": {"otel": switched}}
    config = TrainerConfig.model_validate(fields | {"problems": {"count": 4}})
    assert ("spans" in [check.what for check in checks_without_torch(config, False)]) == switched
