"""Evaluators in Ray actors: real verdicts, an actor killed in the middle, and what does not fit."""

import asyncio
import sys

import pytest

from warpsmith.evaluator import BadProblemError, EvaluatorConfig, JudgeUnavailableError
from warpsmith.evaluator.problem import Problem
from warpsmith.records.errors import UsageError
from warpsmith.rollout.cluster.session import ray_session
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.errors import DeadlinePassedError
from warpsmith.rollout.evaluators.open import open_evaluator
from warpsmith.rollout.evaluators.ray_actors import RayEvaluator, on_assigned_gpu

pytestmark = pytest.mark.slow

EVALUATOR = EvaluatorConfig(ready_workers=1, memory_bytes=1 << 30)
SLEEPER = """
import time
import torch.nn as nn
class ModelNew(nn.Module):
    def forward(self, *inputs):
        time.sleep(60)
"""


@pytest.fixture(scope="module")
def ray():
    with ray_session(num_cpus=4, object_store_bytes=128 << 20):
        import ray

        # What actors call is sent by value: their import path depends on where pytest has its root.
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        yield ray


def config(evaluate_timeout_s=120, **settings):
    evaluation = {"type": "ray", "actors": 2, "start_timeout_s": 300, **settings}
    return RolloutConfig(evaluation=evaluation, evaluate_timeout_s=evaluate_timeout_s)


async def until_running(judge, count):
    async with asyncio.timeout(60):
        while sum(member.running for member in judge.members) < count:
            await asyncio.sleep(0.01)


def lose_the_judge(actor):
    """End the judge inside an actor, and see to it that this actor starts none any more."""

    actor.evaluator._judge.process.kill()
    actor.evaluator._judge.process.wait()
    sys.executable = "/bin/false"


async def until_serving(judge, number):
    async with asyncio.timeout(60):
        while not judge.members[number].serves:
            await asyncio.sleep(0.01)


def test_two_actors_judge_share_the_work_and_survive_a_death_in_the_middle_and_the_loss_of_a_judge(ray, problem):
    broken = problem.solution.replace("tl.store(", "tl.stor(")

    async def go(judge):
        verdicts = await asyncio.gather(
            *(judge.evaluate_async(problem.to_problem(), source, trials=1) for source in [problem.solution, broken] * 2)
        )
        assert [v.correct for v in verdicts] == [True, False] * 2
        asked = [
            asyncio.ensure_future(judge.evaluate_async(problem.to_problem(), f"{problem.solution}\n# {n}", trials=5))
            for n in range(4)
        ]
        await until_running(judge, 4)
        dead = judge.members[0].actor
        ray.kill(dead)
        assert {v.status for v in await asyncio.gather(*asked)} == {"correct"}
        assert judge.lost >= 1
        await until_serving(judge, 0)
        assert judge.members[0].actor is not dead
        assert [member.restarts for member in judge.members] == [1, 0]
        with pytest.raises(BadProblemError, match="KeyError"):
            source = "import torch\nclass Model(torch.nn.Module): pass\ndef get_inputs(): raise KeyError('x')\n"
            await judge.evaluate_async(Problem.from_source(source), problem.solution)
        broken_actor, lost = judge.members[1].actor, judge.lost
        await broken_actor.__ray_call__.remote(lose_the_judge)
        asked = (judge.evaluate_async(problem.to_problem(), f"{problem.solution}\n# {n}", trials=1) for n in range(4))
        assert all(verdict.correct for verdict in await asyncio.gather(*asked))
        await until_serving(judge, 1)
        assert judge.members[1].actor is not broken_actor
        assert judge.lost > lost
        assert [member.restarts for member in judge.members] == [1, 1]

    with open_evaluator(config(), EVALUATOR) as judge:
        assert isinstance(judge, RayEvaluator)
        asyncio.run(go(judge))


@pytest.mark.long
def test_a_request_whose_actors_die_every_time_is_invalid_and_actors_that_may_not_die_again_are_an_error(ray, problem):
    async def killed_twice(judge):
        waiting = asyncio.ensure_future(judge.evaluate_async(problem.to_problem(), SLEEPER, timeout_s=100))
        for _ in range(2):
            await until_running(judge, 1)
            (actor,) = [member.actor for member in judge.members if member.running]
            ray.kill(actor)
            async with asyncio.timeout(60):
                while any(member.running and member.actor is actor for member in judge.members):
                    await asyncio.sleep(0.01)
        verdict = await waiting
        assert (verdict.status, verdict.correct) == ("invalid", False)
        assert "in 2 attempts" in verdict.error_message
        with pytest.raises(JudgeUnavailableError, match="All 2 evaluator actors are gone"):
            await judge.evaluate_async(problem.to_problem(), problem.solution)

    with open_evaluator(config(retries=1, max_restarts=0), EVALUATOR) as judge:
        asyncio.run(killed_twice(judge))


@pytest.mark.long
def test_a_late_verdict_is_not_waited_for_and_an_evaluator_that_cannot_start_says_why(ray, problem):
    with (
        open_evaluator(config(actors=1, evaluate_timeout_s=0.5), EVALUATOR) as judge,
        pytest.raises(DeadlinePassedError, match=r"0\.5 s for a verdict"),
    ):
        asyncio.run(judge.evaluate_async(problem.to_problem(), SLEEPER))
    impossible = EvaluatorConfig(start_timeout_s=0.01)
    with pytest.raises(JudgeUnavailableError, match="did not start"), open_evaluator(config(actors=1), impossible):
        pass


def test_more_cores_than_the_cluster_has_are_refused_at_once(ray):
    with (
        pytest.raises(UsageError, match="need 200 cores; the Ray cluster has 4"),
        open_evaluator(config(actors=100, cores=2), EVALUATOR),
    ):
        pass


def test_gpus_that_the_cluster_lacks_are_refused_at_once(ray):
    with (
        pytest.raises(UsageError, match="need a GPU each; the Ray cluster has 0"),
        open_evaluator(config(), EvaluatorConfig(device="cuda")),
    ):
        pass


def test_each_actor_judges_on_the_gpu_that_ray_gave_it():
    on_gpu = EvaluatorConfig(device="cuda")
    assert on_assigned_gpu(EVALUATOR, []) is EVALUATOR
    assert [on_assigned_gpu(on_gpu, given).gpu for given in ([3], ["5"])] == [3, 5]
    for given in ([], [0, 1], ["GPU-8f6e"]):
        with pytest.raises(JudgeUnavailableError, match="one, by its number, was expected"):
            on_assigned_gpu(on_gpu, given)
