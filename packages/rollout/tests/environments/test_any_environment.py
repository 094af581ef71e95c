"""Episodes with an environment that is not KernelBench: what it is asked, and what bounds it."""

import asyncio

import pytest

from warpsmith.evaluator.verdict import Verdict, invalid
from warpsmith.rollout.completions import ChatSampler
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.environments.base import Environment
from warpsmith.rollout.episodes import EpisodeSetup, run_episode
from warpsmith.rollout.errors import PromptTooLongError
from warpsmith.rollout.rewards.score import Score
from warpsmith.rollout.turn_recording import EpisodeLabels


class Guess:
    """Asks for a number, and says whether it is too large; never done by itself."""

    def __init__(self, number=3):
        self.number = number
        self.asked = []

    def initial_prompt(self, problem):
        return [{"role": "user", "content": "Guess."}]

    def feedback(self, problem, history):
        self.asked.append([(turn.index, turn.kernel, turn.score) for turn in history])
        return [{"role": "user", "content": f"Not {history[-1].kernel}."}]

    def parse(self, completion):
        return completion if completion.isdecimal() else None

    async def evaluate(self, problem, answer):
        if answer is None:
            return Verdict("compile_error", compiled=False, correct=False)
        right = int(answer) == self.number
        return Verdict("correct" if right else "incorrect", compiled=True, correct=right)

    def score(self, turn, history):
        return Score(float(turn.verdict.correct) - len(history))

    def is_done(self, history):
        return history[-1].verdict.correct

    def returns(self, scores):
        return [sum(scores)] * len(scores)


@pytest.fixture
def episode(chat, problem, scripted_sampler):
    def go(environment, *answers, max_turns=5, **settings):
        config = RolloutConfig(evaluate_timeout_s=0.01, evaluate_wait_s=0.01, **{"retries": 1, **settings})
        sampler = ChatSampler(scripted_sampler(*answers), chat, config)
        labels = EpisodeLabels("run", "guess", "train", problem, "g", 0, None)
        return asyncio.run(run_episode(EpisodeSetup(environment, max_turns, sampler), labels))

    return go


def test_the_environment_decides_prompt_answer_score_end_and_return(episode):
    environment = Guess()
    assert isinstance(environment, Environment)
    rows = episode(environment, "I do not know.", "4", "3")
    assert [row["kernel"] for row in rows] == [None, "4", "3"]
    assert [row["messages"][0]["content"] for row in rows] == ["Guess.", "Not None.", "Not 4."]
    assert [row["reward"] for row in rows] == [0.0, -1.0, -1.0]
    assert [row["return"] for row in rows] == [-2.0] * 3
    assert environment.asked == [[(0, None, 0.0)], [(0, None, 0.0), (1, "4", -1.0)]]
    assert {row["task"] for row in rows} == {"guess"}


def test_an_environment_that_is_never_done_stops_at_its_most_turns(episode):
    rows = episode(Guess(), "4", max_turns=3)
    assert [(row["num_turns"], row["valid"]) for row in rows] == [(3, True)] * 3


def test_an_evaluation_that_never_ends_is_late_and_not_scored(episode, monkeypatch, problem):
    monkeypatch.setattr("warpsmith.rollout.episodes.SLACK_FOR_ENVIRONMENTS_S", 0.01)
    environment = Guess()
    calls = []

    async def never(problem, answer):
        calls.append(answer)
        await asyncio.Event().wait()

    environment.evaluate = never
    (row,) = episode(environment, "3")
    assert (row["reward"], row["valid"], len(calls)) == (None, False, 2)
    assert f"the environment's evaluation of an answer to {problem.name}" in row["invalid_reason"]


def test_a_lost_evaluation_is_retried_and_its_score_has_no_value(episode):
    environment = Guess()
    verdicts = [invalid("lost"), invalid("lost again")]

    async def lost(problem, answer):
        return verdicts.pop(0)

    environment.evaluate = lost
    environment.score = lambda turn, history: Score(None, f"evaluation: {turn.verdict.error_message}")
    (row,) = episode(environment, "3")
    assert (row["reward"], row["invalid_reason"]) == (None, "evaluation: lost again")


def test_a_prompt_that_does_not_fit_is_the_problems(episode):
    environment = Guess()

    def too_long(problem):
        raise PromptTooLongError("a long story")

    environment.initial_prompt = too_long
    (row,) = episode(environment, "3")
    assert (row["invalid_reason"], row["completion_ids"]) == ("problem: a long story", [])
