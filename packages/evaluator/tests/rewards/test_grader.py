"""Grading: real verdicts as scores, and what no verdict becomes."""

import asyncio
import pickle
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator import BadProblemError, Problem, UsageError, Verdict
from warpsmith.evaluator.rewards import (
    BadScoreError,
    Grader,
    GradingRules,
    InvalidVerdictError,
    SpeedScore,
    grade,
    grade_async,
    grade_batch,
    open_grader,
)
from warpsmith.evaluator.verdict import STATUSES, invalid

FENCED = "<think>A draft: ```python\nclass ModelNew: pass\n```</think>\nHere it is:\n```python\n{}\n```\nDone."
RIGHT = Verdict("correct", compiled=True, correct=True, speedup=2.0)
LOST = invalid("the judge died")


class Scripted:
    """Answers with given verdicts in turn, and counts how many it was asked for at once."""

    def __init__(self, *verdicts, gate=None):
        self.verdicts, self.gate = list(verdicts), gate
        self.asked = self.running = self.most = 0

    async def evaluate_async(self, problem, candidate, **options):
        self.running += 1
        verdict = self.verdicts[min(self.asked, len(self.verdicts) - 1)]
        self.asked += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(0.001)
            if self.gate is not None:
                await self.gate.wait()
            if isinstance(verdict, Exception):
                raise verdict
            return verdict
        finally:
            self.running -= 1


def test_completions_are_graded_by_a_real_evaluator(evaluator, add_problem, add_candidate):
    wrong = add_candidate.replace("+ tl.load(y_ptr", "- tl.load(y_ptr")
    completions = [FENCED.format(add_candidate), FENCED.format(wrong), "I cannot do that.", add_candidate]
    with Grader(evaluator, trials=2) as grader:
        right, different, nothing, bare = grader.grade_batch(completions, [add_problem] * 4)
        again = asyncio.run(grader.grade_async(completions[0], add_problem.source))
    assert (right.verdict.status, right.score) == ("correct", SpeedScore().correct)
    assert right.candidate == add_candidate and "Correct: yes" in right.feedback
    assert (different.verdict.status, different.score) == ("incorrect", 0.0)
    assert "Wrong elements" in different.feedback and "Error: " in different.feedback
    assert (nothing.score, nothing.candidate, nothing.verdict.status) == (0.0, None, "compile_error")
    assert bare.score == again.score == right.score


def test_one_completion_in_one_line(evaluator, add_problem, add_candidate):
    assert grade(add_candidate, add_problem, evaluator, trials=1).verdict.correct
    assert asyncio.run(grade_async("no code", add_problem, evaluator)).score == 0.0
    assert [one.score for one in grade_batch(["none", "none"], [add_problem] * 2, evaluator)] == [0.0, 0.0]


def test_a_bad_problem_is_an_error_and_no_score(evaluator):
    source = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x): return x * 0\n"
    problem = Problem.from_source(source + "def get_inputs(): return [torch.randn(8)]\n")
    with Grader(evaluator) as grader, pytest.raises(BadProblemError):
        grader.grade_batch(["class ModelNew: pass"] * 2, [problem] * 2)


@pytest.mark.parametrize("status", [status for status in STATUSES if status != "invalid"])
def test_the_default_score_is_zero_unless_correct(status):
    verdict = Verdict(status, compiled=True, correct=status == "correct")
    assert SpeedScore()(verdict) == (0.3 if status == "correct" else 0.0)


@given(st.floats(min_value=0, max_value=1e6), st.floats(min_value=0, max_value=1e6))
def test_the_default_score_grows_with_speed_and_has_a_bound(slow, fast):
    slow, fast = sorted((slow, fast))
    scores = [SpeedScore()(Verdict("correct", compiled=True, correct=True, speedup=one)) for one in (slow, fast)]
    assert 0.3 <= scores[0] <= scores[1] <= 10.3


def test_a_failure_of_the_evaluator_is_no_score(add_problem):
    evaluator = Scripted(LOST)
    grade_ = grade("class ModelNew: pass", add_problem, evaluator)
    assert grade_.score is None and grade_.verdict == LOST
    assert "says nothing about the kernel" in grade_.feedback and "the judge died" in grade_.feedback
    assert evaluator.asked == 2  # asked once more
    with pytest.raises(InvalidVerdictError, match="the judge died") as caught:
        grade("class ModelNew: pass", add_problem, evaluator, GradingRules(on_invalid="raise"))
    assert pickle.loads(pickle.dumps(caught.value)).verdict == LOST


def test_a_second_verdict_counts(add_problem):
    assert grade("class ModelNew: pass", add_problem, Scripted(LOST, RIGHT)).score == 2.3
    rules = GradingRules(retries=0)
    assert grade("class ModelNew: pass", add_problem, Scripted(LOST, RIGHT), rules).score is None


def test_a_score_never_sees_an_invalid_verdict(add_problem):
    seen = []
    rules = GradingRules(score=lambda verdict: seen.append(verdict.status) or 1)
    grades = grade_batch(["class ModelNew: pass"] * 2, [add_problem] * 2, Scripted(RIGHT, LOST), rules)
    assert seen == ["correct"] and [one.score for one in grades] == [1.0, None]


@pytest.mark.parametrize("returned", [None, float("nan"), float("inf"), "0.5"])
def test_a_score_that_is_no_finite_number_is_an_error(add_problem, returned):
    with pytest.raises(BadScoreError, match="finite number"):
        grade("class ModelNew: pass", add_problem, Scripted(RIGHT), GradingRules(score=lambda verdict: returned))


def test_callers_of_all_threads_together_stay_within_the_bound(add_problem):
    evaluator = Scripted(RIGHT)
    with Grader(evaluator, concurrency=3) as grader:
        batch = ["class ModelNew: pass"] * 12

        def ask():
            assert len(asyncio.run(grader.grade_batch_async(batch, [add_problem] * 12))) == 12

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        grader.grade_batch(batch, [add_problem] * 12)
        for thread in threads:
            thread.join()
    assert evaluator.asked == 48 and evaluator.most == 3


def test_the_first_error_cancels_the_rest(add_problem):
    evaluator = Scripted(BadProblemError("no Model", ""), RIGHT)
    with Grader(evaluator, concurrency=1) as grader, pytest.raises(BadProblemError):
        grader.grade_batch(["class ModelNew: pass"] * 50, [add_problem] * 50)
    assert evaluator.asked <= 2 and evaluator.running == 0


def test_a_cancelled_call_frees_its_place(add_problem):
    async def main(grader, evaluator):
        evaluator.gate = asyncio.Event()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(grader.grade_async("class ModelNew: pass", add_problem), 0.2)
        evaluator.gate = None
        return await asyncio.wait_for(grader.grade_async("class ModelNew: pass", add_problem), 10)

    evaluator = Scripted(RIGHT)
    with Grader(evaluator, concurrency=1) as grader:
        assert asyncio.run(main(grader, evaluator)).score == 2.3


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda problem: grade_batch(["a", "b"], [problem], Scripted(RIGHT)), "2 completions and 1 problems"),
        (lambda problem: grade_batch("ab", [problem] * 2, Scripted(RIGHT)), "one text"),
        (lambda problem: Grader(Scripted(RIGHT), concurrency=0), "concurrency"),
        (lambda problem: GradingRules(on_invalid="zero"), "on_invalid"),
        (lambda problem: GradingRules(retries=-1), "retries"),
        (lambda problem: SpeedScore(cap=float("inf")), "cap"),
        (lambda problem: open_grader({"slots": 0}), "slots"),
        (lambda problem: open_grader("localhost"), "address"),
    ],
)
def test_wrong_arguments_are_refused(add_problem, attempt, message):
    with pytest.raises(UsageError, match=message):
        attempt(add_problem)


def test_servers_come_from_the_environment(server, monkeypatch, add_problem, add_candidate):
    monkeypatch.setenv("WARPSMITH_EVALUATOR_SERVERS", f" {server.url},")
    with open_grader(trials=1) as grader:
        assert grader.grade(add_candidate, add_problem).verdict.correct
    with pytest.raises(Exception, match="grader is closed"):
        grader.grade(add_candidate, add_problem)


def test_a_client_and_its_rewards_import_nothing_large():
    code = "import sys; from warpsmith.evaluator import Client; import warpsmith.evaluator.rewards; "
    code += "import warpsmith.evaluator.integrations.trl, warpsmith.evaluator.integrations.verl; "
    code += "print({'torch', 'triton', 'numpy', 'pyarrow', 'httpx'} & set(sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout == "set()\n"
    )
