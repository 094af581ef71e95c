"""Bugs put in on purpose: each still parses, none is judged correct, and a corpus carries the share asked for."""

import ast
import random
import re
from collections.abc import Iterator

import pytest

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem
from warpsmith.evaluator.extract import extract_kernel
from warpsmith.rollout.datasets import generated
from warpsmith.rollout.generator import GeneratedProblem, generate
from warpsmith.rollout.prompts import compact_feedback
from warpsmith.trainer.data.generated import Repairs, sft_examples
from warpsmith.trainer.data.kernel_bugs import BUGS, KernelBug, with_bug

PROBLEMS = generate(seed=3, count=120)
POINTWISE = next(p for p in generate(seed=4, count=12, levels=(1,)) if "1000" in p.source)
"""1,000 elements: no multiple of the block, so that a missing mask and a short grid show."""


@pytest.fixture(scope="module")
def judge() -> Iterator[Evaluator]:
    with Evaluator(EvaluatorConfig(slots=2)) as evaluator:
        yield evaluator


@pytest.fixture(scope="module")
def pointwise(judge: Evaluator) -> Problem:
    """A problem whose solution is correct."""
    problem = Problem(POINTWISE.name, POINTWISE.source)
    assert judge.evaluate(problem, POINTWISE.solution, trials=2).status == "correct"
    return problem


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_evaluator_takes_no_mistake_for_correct_and_says_of_it_what_examples_say(
    judge: Evaluator, pointwise: Problem, bug: KernelBug
) -> None:
    wrong = bug.make(POINTWISE.source, POINTWISE.solution)
    assert wrong != POINTWISE.solution
    found, made = judge.evaluate(pointwise, wrong, trials=2), bug.verdict(wrong, random.Random(0))
    assert found.status not in {"correct", "invalid"}
    assert (made.status, made.compiled, made.error_category) == (found.status, found.compiled, found.error_category)
    said = [re.sub(r"\d+", "#", compact_feedback(verdict)) for verdict in (made, found)]
    # A figure of another length moves the place where the message is cut.
    assert said[0][:70] == said[1][:70]


LARGE = generate(seed=3, count=60, size="gpu")


@pytest.mark.parametrize("problems", [PROBLEMS, LARGE], ids=["small", "large"])
def test_every_solution_can_be_got_wrong_and_still_parses(problems: list[GeneratedProblem]) -> None:
    for problem in problems:
        for seed in range(4):
            wrong = with_bug(problem.source, problem.solution, random.Random(seed))
            assert wrong != problem.solution
            ast.parse(wrong)


def test_every_mistake_is_made() -> None:
    texts = [m.make(POINTWISE.source, POINTWISE.solution) for m in BUGS]
    drawn = {with_bug(POINTWISE.source, POINTWISE.solution, random.Random(seed)) for seed in range(100)}
    assert drawn == set(texts)
    assert len(drawn) == len(BUGS)


@pytest.mark.parametrize(("share", "fewest", "most"), [(0.0, 0, 0), (0.5, 40, 80), (1.0, 120, 120)])
def test_the_corpus_carries_the_share_and_the_prompts_do_not_change(share: float, fewest: int, most: int) -> None:
    plain = sft_examples(PROBLEMS, 0, "compact")
    mixed = sft_examples(PROBLEMS, 0, "compact", flawed_share=share)
    first = [place for place, messages in enumerate(plain) if "# tried" not in messages[0]["content"]]
    # Of later turns, an attempt that happens to be the flawed answer is replaced.
    assert [mixed[place][:-1] for place in first] == [plain[place][:-1] for place in first]
    answers = [extract_kernel(messages[-1]["content"]) for messages in mixed]
    flawed = sum(answer != problem.solution for answer, problem in zip(answers, PROBLEMS, strict=True))
    assert fewest <= flawed <= most


@pytest.mark.slow
def test_most_broken_attempts_of_second_turns_are_not_correct(judge: Evaluator) -> None:
    problems = generated(seed=22, count=20)
    examples = sft_examples(problems, 0, "compact", repairs=Repairs(1.0))
    attempts = [m[0]["content"].partition("# tried\n")[2].rpartition("\n# ")[0] for m in examples]
    found = [judge.evaluate(Problem(p.name, p.text), a, trials=2) for p, a in zip(problems, attempts, strict=True)]
    assert sum(verdict.correct for verdict in found) <= 2
