"""Spans of episodes: their turns, what each turn did, and that nothing shows what was asked and answered."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from warpsmith.evaluator.verdict import Seconds
from warpsmith.evaluator.verdict_spans import evaluation
from warpsmith.records import tracing
from warpsmith.rollout.collector import Collector
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.errors import SamplerError

GOOD, WRONG = "class ModelNew: good", "class ModelNew: wrong"


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


class TracedJudge:
    """Judges as another, and traces it as every evaluator does."""

    def __init__(self, judge) -> None:
        self.judge = judge

    async def evaluate_async(self, problem, candidate, **options):
        from warpsmith.evaluator.client.request import EvaluationRequest

        options.pop("baseline", None)
        with evaluation(EvaluationRequest.of(problem, candidate)) as noted:
            return noted(await self.judge.evaluate_async(problem, candidate, **options))


@pytest.fixture
def collect(chat, problem, scripted_judge, verdicts):
    def rule(kernel):
        took = Seconds(compile=0.5, wait=0.25, evaluate=1.0, correctness=0.75)
        return replace(verdicts["correct" if kernel.endswith("good") else "wrong"], seconds=took)

    async def go(sampler, samples):
        config = RolloutConfig(prompt_style="compact", prompt_tokens=2000, sampler={"max_model_len": 4096})
        judge = TracedJudge(scripted_judge(lambda kernel: rule(kernel.strip())))
        collector = Collector(sampler, judge, chat, config, run="r")
        with tracing.span("rollout"):
            return await collector.collect_rows([problem], samples, label="step-4", rollout_step=4)

    return lambda sampler, samples=1: asyncio.run(go(sampler, samples))


def path_of(span, found):
    by_id = {one.context.span_id: one for one in found}
    names = [span.name]
    while span.parent is not None:
        span = by_id[span.parent.span_id]
        names.append(span.name)
    return "/".join(reversed(names))


def test_each_turn_of_an_episode_generates_and_is_judged_within_it(exporter, collect, scripted_sampler, problem):
    rows = collect(scripted_sampler(WRONG, GOOD))
    found = exporter.get_finished_spans()
    paths = Counter(path_of(span, found) for span in found)
    turn = "rollout/episode/turn"
    assert paths == {
        "rollout": 1, "rollout/episode": 1, turn: 2, f"{turn}/generate": 2, f"{turn}/judge": 2,
        f"{turn}/judge/evaluation": 2, f"{turn}/judge/evaluation/wait": 2, f"{turn}/judge/evaluation/compile": 2,
        f"{turn}/judge/evaluation/correctness": 2,
    }  # fmt: skip
    (episode,) = (span for span in found if span.name == "episode")
    expected = {
        "warpsmith.problem": problem.name, "warpsmith.step": 4, "warpsmith.turns": 2, "warpsmith.valid": True,
        "warpsmith.return": rows[0]["return"], "warpsmith.trajectory": "step-4/0/0",
    }  # fmt: skip
    assert expected.items() <= dict(episode.attributes).items()
    turns = [span.attributes for span in found if span.name == "turn"]
    assert [attributes["warpsmith.turn"] for attributes in turns] == [1, 2]
    assert [attributes["warpsmith.status"] for attributes in turns] == ["incorrect", "correct"]
    assert [attributes["warpsmith.reward"] for attributes in turns] == [row["reward"] for row in rows]
    assert [attributes["warpsmith.completion_tokens"] for attributes in turns] == [
        len(row["completion_ids"]) for row in rows
    ]
    assert "ModelNew" not in "".join(span.to_json() for span in found)


def test_episodes_at_once_do_not_mix(exporter, collect, scripted_sampler):
    collect(scripted_sampler(GOOD), samples=5)
    found = exporter.get_finished_spans()
    by_id = {span.context.span_id: span for span in found}
    trajectories = [
        by_id[span.parent.span_id].attributes["warpsmith.trajectory"] for span in found if span.name == "turn"
    ]
    assert sorted(trajectories) == [f"step-4/0/{sample}" for sample in range(5)]


def test_a_lost_turn_is_invalid_and_its_reason_is_not_quoted(exporter, collect, scripted_sampler):
    collect(scripted_sampler(SamplerError("the secret engine failed", "")))
    turns = [span for span in exporter.get_finished_spans() if span.name == "turn"]
    assert [span.attributes["warpsmith.valid"] for span in turns] == [False]
    assert "secret" not in turns[0].to_json()


def test_without_a_provider_rows_are_the_same(collect, scripted_sampler):
    (row,) = collect(scripted_sampler(GOOD))
    assert row["valid"]
