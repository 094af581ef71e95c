"""Where candidates are judged: what the configuration takes and refuses, and the judge in this process."""

import asyncio
from typing import get_args, get_type_hints

import pytest
from pydantic import ValidationError

from warpsmith.evaluator import EvaluatorConfig
from warpsmith.evaluator.client.interface import AsyncEvaluationOptions
from warpsmith.rollout.config import RolloutConfig, ServerEvaluation
from warpsmith.rollout.evaluators.cache import CachedEvaluator
from warpsmith.rollout.evaluators.open import open_evaluator
from warpsmith.rollout.evaluators.ray_actors import RayEvaluator
from warpsmith.rollout.evaluators.servers import ServerEvaluator


def test_candidates_are_judged_in_this_process_by_default():
    assert RolloutConfig().evaluation.type == "process"


def test_servers_are_a_list_or_the_words_of_a_command_line():
    expected = ("http://a:18188", "https://b.example")
    for given in (["http://a:18188/", "https://b.example"], "http://a:18188, https://b.example/"):
        assert ServerEvaluation(servers=given).servers == expected


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"type": "server"}, r"server\.servers\s+Field required"),
        ({"servers": ["http://a"]}, r"process\.servers\s+Extra inputs"),
        ({"type": "server", "servers": ["a:18188"]}, "not an address of a server"),
        ({"type": "server", "servers": ["http://user:secret@a"]}, "not an address of a server"),
        ({"type": "server", "servers": ["http://a:99999"]}, "not an address of a server"),
        ({"type": "server", "servers": "http://a", "token_env": "a token"}, "token_env"),
        ({"type": "cloud"}, "'process', 'ray', 'server'"),
        ({"type": "ray", "actors": 0}, "actors"),
    ],
)
def test_what_does_not_fit_is_refused(settings, part):
    with pytest.raises(ValidationError, match=part):
        RolloutConfig(evaluation=settings)


def test_a_servers_deadline_is_at_most_that_of_an_evaluation():
    with pytest.raises(ValidationError, match=r"deadline_s \(120\) is more than evaluate_timeout_s \(60\)"):
        RolloutConfig(evaluate_timeout_s=60, evaluation={"type": "server", "servers": "http://a"})
    for local in ("process", "ray"):
        assert RolloutConfig(evaluate_timeout_s=60, evaluation=local).evaluation.type == local


@pytest.mark.slow
def test_the_judge_of_this_process_judges(problem):
    with open_evaluator(RolloutConfig(), EvaluatorConfig(slots=1, ready_workers=1)) as judge:
        verdict = asyncio.run(judge.evaluate_async(problem.to_problem(), problem.solution, trials=1))
    assert verdict.status == "correct"


@pytest.mark.parametrize("kind", [CachedEvaluator, RayEvaluator, ServerEvaluator])
def test_each_kind_takes_the_options_of_the_evaluator_interface(kind):
    options = get_type_hints(kind.evaluate_async)["options"]
    assert get_args(options) == (AsyncEvaluationOptions,)
