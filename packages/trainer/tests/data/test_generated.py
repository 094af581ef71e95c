"""Examples of generated problems: the task's prompt, the solution, and later turns that train answers alone."""

import ast
import random

import pytest
from pydantic import ValidationError

from warpsmith.evaluator.extract import extract_kernel
from warpsmith.rollout.datasets import ProblemRow, from_generated
from warpsmith.rollout.errors import DatasetError
from warpsmith.rollout.generator import generate
from warpsmith.rollout.prompts import Message, PromptStyle, build_prompt
from warpsmith.trainer.config.sources import GeneratedSource
from warpsmith.trainer.data import cuda_bugs
from warpsmith.trainer.data.generated import Repairs, read_generated, sft_examples
from warpsmith.trainer.data.sample import Sample

PROBLEMS = generate(seed=0, count=120)


def attempts_in(messages: list[Message]) -> list[tuple[str, str]]:
    """Return kernel and feedback of each attempt that a compact prompt shows."""
    found = []
    for part in messages[0]["content"].split("# tried\n")[1:]:
        kernel, _, rest = part.rpartition("\n# ")
        found.append((kernel.strip(), rest.splitlines()[0]))
    return found


@pytest.mark.parametrize("style", ["full", "compact"])
def test_first_turns_have_the_prompt_of_the_task_and_an_answer_that_extracts_to_the_solution(
    style: PromptStyle,
) -> None:
    examples = sft_examples(PROBLEMS, 0, style, repairs=Repairs(0.0))
    for problem, messages in zip(PROBLEMS, examples, strict=True):
        assert messages[:-1] == build_prompt(from_generated(problem, "train"), style=style)
        assert messages[-1]["role"] == "assistant"
        assert extract_kernel(messages[-1]["content"]) == problem.solution


def test_second_turns_show_a_broken_attempt_to_the_user_only() -> None:
    examples = sft_examples(PROBLEMS, 1, "compact", repairs=Repairs(1.0))
    for problem, messages in zip(PROBLEMS, examples, strict=True):
        assert [m["role"] for m in messages] == ["user", "assistant"]
        assert extract_kernel(messages[-1]["content"]) == problem.solution
        shown = attempts_in(messages)[0][0]
        assert shown.strip()
        assert shown.strip() != problem.solution.strip()


def test_attempts_break_in_different_ways() -> None:
    examples = sft_examples(PROBLEMS, 2, "compact", repairs=Repairs(1.0))
    feedbacks = {attempts_in(messages)[0][1].split()[0] for messages in examples}
    assert feedbacks == {"incorrect", "incorrect:", "compile", "runtime", "rejected:"}


def test_what_is_called_incorrect_still_parses() -> None:
    parsed = []
    for messages in sft_examples(PROBLEMS, 3, "compact", repairs=Repairs(1.0)):
        shown, verdict = attempts_in(messages)[0]
        if verdict.startswith("incorrect"):
            parsed.append(ast.parse(shown))
    assert parsed
    assert all(tree.body for tree in parsed)


def test_later_turns_show_several_attempts_and_an_answer_that_none_of_them_is() -> None:
    shown = []
    for messages in sft_examples(PROBLEMS, 2, "compact", repairs=Repairs(1.0, attempts=2), flawed_share=1.0):
        attempts = attempts_in(messages)
        shown.append(len(attempts))
        assert messages[-1]["content"].strip() not in [kernel for kernel, _ in attempts]
    assert set(shown) == {1, 2}
    assert 40 <= sum(count == 2 for count in shown) <= 80


def test_the_seed_decides_and_the_share_is_kept() -> None:
    one, again, other = (sft_examples(PROBLEMS, seed, "compact") for seed in (4, 4, 5))
    assert one == again
    assert one != other
    second = sum("# tried" in m[0]["content"] for m in one)
    assert 8 <= second <= 44


def test_a_problem_without_a_solution_is_refused_by_name() -> None:
    with pytest.raises(DatasetError, match="no_answer"):
        sft_examples([ProblemRow("no_answer", "x", 1, "test")], 0, "compact")


def answers(solutions: str) -> list[str]:
    """Return the answers of a source of large problems."""
    section = GeneratedSource(problems=60, size="gpu", solutions=solutions, prompt_style="compact")  # type: ignore[arg-type]
    samples = list(read_generated(section, 7))
    assert all(isinstance(sample, Sample) for sample in samples)
    return [sample.messages[-1]["content"] for sample in samples if isinstance(sample, Sample)]


def test_a_source_of_large_problems_has_answers_of_the_grade_that_is_asked_for() -> None:
    problems = generate(seed=7, count=60, size="gpu")
    good, naive, both = answers("good"), answers("naive"), answers("both")
    assert good == [problem.solution.strip() for problem in problems]
    assert naive == [(problem.naive or "").strip() for problem in problems]
    assert all(answer in pair for answer, *pair in zip(both, good, naive, strict=True))
    assert 15 <= sum(answer == one for answer, one in zip(both, good, strict=True)) <= 45
    assert answers("both") == both


def of_agent(agent: str, style: PromptStyle = "full") -> list[list[Message]]:
    """Return the examples of a source of large problems that ask an agent."""
    section = GeneratedSource(problems=40, size="gpu", agent=agent, prompt_style=style)  # type: ignore[arg-type]
    return [sample.messages for sample in read_generated(section, 7) if isinstance(sample, Sample)]


def test_an_optimizers_examples_make_the_naive_solution_the_good_one() -> None:
    problems = generate(seed=7, count=40, size="gpu")
    for problem, messages in zip(problems, of_agent("optimizer"), strict=True):
        assert "the optimizer" in messages[0]["content"]
        start = messages[1]["content"].partition("The module to make faster:\n```python\n")[2].partition("\n```")
        assert start[0] == (problem.naive or "").strip()
        assert start[2].startswith("\nCompiled: yes\nCorrect: yes\nRuntime: ")
        assert extract_kernel(messages[-1]["content"]) == problem.solution


def test_a_generators_examples_have_its_prompt_and_both_have_some_of_each() -> None:
    generator, optimizer, both = of_agent("generator"), of_agent("optimizer"), of_agent("both")
    assert all("the generator" in messages[0]["content"] for messages in generator)
    assert all("to make faster" not in messages[1]["content"] for messages in generator)
    drawn = ["the optimizer" in messages[0]["content"] for messages in both]
    assert 10 <= sum(drawn) <= 30
    assert len(generator) == len(optimizer) == len(both) == 40
    compact = of_agent("optimizer", "compact")
    assert all("\n# make faster\n" in messages[0]["content"] for messages in compact)


def test_an_optimizer_needs_problems_with_a_naive_solution() -> None:
    with pytest.raises(ValidationError, match='agent = "both" needs size = "gpu"'):
        GeneratedSource(agent="both")
    with pytest.raises(DatasetError, match="has no naive solution"):
        sft_examples(PROBLEMS, 0, "compact", agent="optimizer")


def test_second_turns_of_large_problems_break_their_own_solution() -> None:
    problems = generate(seed=8, count=60, size="gpu")
    for problem, messages in zip(problems, sft_examples(problems, 1, "compact", repairs=Repairs(1.0)), strict=True):
        shown = attempts_in(messages)[0][0]
        assert shown.strip()
        assert shown.strip() != problem.solution.strip()
        assert extract_kernel(messages[-1]["content"]) == problem.solution


def test_examples_in_cuda_ask_for_cuda_and_answer_in_it() -> None:
    section = GeneratedSource(problems=40, language="cuda_cpp", size="gpu", solutions="both", repair_share=0.5)
    for sample in read_generated(section, 0):
        assert isinstance(sample, Sample)
        asked, answered = sample.messages[-2]["content"], sample.messages[-1]["content"]
        assert "load_inline" in asked
        assert "__global__" in answered
        assert "@triton.jit" not in asked + answered
        assert extract_kernel(answered)


def test_wrong_attempts_in_cuda_break_in_different_ways() -> None:
    problems = generate(seed=0, count=120, language="cuda_cpp")
    feedbacks = set()
    for problem, messages in zip(
        problems, sft_examples(problems, 2, "compact", repairs=Repairs(1.0), language="cuda_cpp"), strict=True
    ):
        shown, verdict = attempts_in(messages)[0]
        assert shown.strip() != problem.solution.strip()
        feedbacks.add(verdict.split()[0])
    assert feedbacks >= {"incorrect", "compile", "runtime", "rejected:"}


def test_flawed_answers_in_cuda_differ_from_the_solutions() -> None:
    problems = generate(seed=1, count=60, language="cuda_cpp", size="gpu")
    for problem in problems:
        for bug in cuda_bugs.BUGS:
            wrong = bug.make(problem.source, problem.solution)
            if wrong != problem.solution:
                assert bug.verdict(wrong, random.Random(0)).status != "correct"
    examples = sft_examples(problems, 0, "full", flawed_share=1.0, repairs=Repairs(0.0), language="cuda_cpp")
    for problem, messages in zip(problems, examples, strict=True):
        assert extract_kernel(messages[-1]["content"]) != problem.solution
