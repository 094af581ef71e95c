"""Generated problems: the environment's own prompt with a known solution, or with one of the common bugs in it."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.datasets import ProblemRow, from_generated, generated, with_solution
from warpsmith.rollout.errors import DatasetError
from warpsmith.rollout.generator import GeneratedProblem, Grade
from warpsmith.rollout.history import Attempt
from warpsmith.rollout.prompts import Message, PromptStyle, build_prompt
from warpsmith.rollout.turns import GENERATOR, OPTIMIZER, Agent
from warpsmith.trainer.config.sources import ExampleAgent, GeneratedSource
from warpsmith.trainer.data.kernel_bugs import with_bug
from warpsmith.trainer.data.sample import Refusal, Sample


def read_generated(section: GeneratedSource, seed: int) -> Iterator[Sample | Refusal]:
    """Yield a sample for each problem of a source; see `sft_examples`."""
    problems = source_problems(section, seed, section.problems)
    chats = sft_examples(problems, seed, section.prompt_style, flawed_share=section.flawed_share, agent=section.agent)
    for problem, chat in zip(problems, chats, strict=True):
        yield Sample(chat, problem.text, f"problem {problem.name}")


def source_problems(section: GeneratedSource, seed: int, count: int) -> list[ProblemRow]:
    """Return the problems of a source, each with the solution to imitate: good, naive, or one of both at even odds."""
    rng = random.Random(f"{seed}/solutions")
    rows = generated(seed=seed, count=count, levels=section.levels, size=section.size)
    grades: tuple[Grade, ...] = ("good", "naive") if section.solutions == "both" else (section.solutions,)
    return [with_solution(row, rng.choice(grades)) for row in rows]


def sft_examples(
    problems: Sequence[GeneratedProblem | ProblemRow],
    seed: int,
    prompt_style: PromptStyle,
    *,
    second_turn_share: float = 0.2,
    flawed_share: float = 0.0,
    agent: ExampleAgent | None = None,
) -> list[list[Message]]:
    """Return one conversation a problem: the task's own prompt and the known solution as the answer.

    A share of the conversations asks as a second turn does: the prompt carries a broken attempt with the feedback on
    it. The broken attempt is in the user's message, so a loss on the assistant's turns never trains it.

    Args:
        problems: problems with solutions.
        seed: seed of which problems become second turns and how their first attempt is broken.
        prompt_style: as in the task that follows.
        second_turn_share: share of second turns, 0 to 1.
        flawed_share: share of answers, 0 to 1, that carry one of `kernel_bugs.BUGS`: a corpus of
            mixed quality, as scraped ones are. Which problems is drawn from `seed`.
        agent: who is asked; an optimizer starts from the problem's naive solution, with made-up times. `both` draws
            one of them for each problem from `seed`.

    Raises:
        DatasetError: a problem has no solution, or for an optimizer no naive one.
    """
    rng = random.Random(seed)
    flaws, dice = random.Random(f"{seed}/flaws"), random.Random(f"{seed}/agents")
    agents: tuple[Agent | None, ...] = (GENERATOR, OPTIMIZER) if agent == "both" else (agent,)
    asked = (_asked(_flawed(_row(problem), flaws, flawed_share), dice, agents) for problem in problems)
    return [_example(exercise, rng, prompt_style, second_turn_share) for exercise in asked]


def answer_text(solution: str, style: PromptStyle) -> str:
    """Return a solution as an answer of the style: bare code where compact, else in a Python block."""
    return solution.strip() if style == "compact" else f"```python\n{solution.strip()}\n```"


def _row(problem: GeneratedProblem | ProblemRow) -> ProblemRow:
    return problem if isinstance(problem, ProblemRow) else from_generated(problem, "train")


@dataclass(frozen=True)
class _Exercise:
    """A problem, its right solution, the answer to imitate, who is asked for it, and the start of an optimizer."""

    problem: ProblemRow
    solution: str
    answer: str
    agent: Agent | None = None
    start: Attempt | None = None


def _flawed(problem: ProblemRow, rng: random.Random, share: float) -> _Exercise:
    if problem.solution is None:
        raise DatasetError(f"Problem {problem.name} has no solution.", "Use problems that come with solutions.")
    flawed = rng.random() < share
    answer = with_bug(problem.text, problem.solution, rng) if flawed else problem.solution
    return _Exercise(problem, problem.solution, answer)


def _asked(exercise: _Exercise, rng: random.Random, agents: Sequence[Agent | None]) -> _Exercise:
    agent = rng.choice(agents)
    if agent != OPTIMIZER:
        return replace(exercise, agent=agent)
    if exercise.problem.naive is None:
        raise DatasetError(
            f"Problem {exercise.problem.name} has no naive solution for an optimizer to start from.",
            'Use generated problems of size "gpu".',
        )
    reference_ms, speedup = round(10 ** rng.uniform(-2, 1), 4), round(rng.uniform(0.1, 1.2), 2)
    timed = Verdict(
        "correct", True, True, speedup=speedup, runtime_ms=reference_ms / speedup, reference_ms=reference_ms
    )
    return replace(exercise, agent=agent, start=Attempt(exercise.problem.naive, timed))


def _example(exercise: _Exercise, rng: random.Random, style: PromptStyle, share: float) -> list[Message]:
    attempts = [_broken_attempt(exercise.solution, rng)] if rng.random() < share else []
    prompt = build_prompt(exercise.problem, attempts, style=style, agent=exercise.agent, start=exercise.start)
    return [*prompt, {"role": "assistant", "content": answer_text(exercise.answer, style)}]


def _broken_attempt(solution: str, rng: random.Random) -> Attempt:
    breaks = [_skip_a_line, _wrong_operation, _undefined_name, _cut_short]
    rng.shuffle(breaks)
    for broken in breaks:
        attempt = broken(solution, rng)
        if attempt is not None:
            return attempt
    raise AssertionError("cutting a solution short always works")


def _computing_lines(solution: str) -> list[int]:
    """Return the numbers of the lines that compute: assignments to x or y in the kernel that load nothing."""
    lines = solution.splitlines()
    return [
        i
        for i, line in enumerate(lines)
        if line.startswith(("    x = ", "    y = ")) and "tl.load" not in line and "tl.where(m" not in line
    ]


def _skip_a_line(solution: str, rng: random.Random) -> Attempt | None:
    """Leave out one computing line: wrong numbers."""
    candidates = _computing_lines(solution)
    if not candidates:
        return None
    lines = solution.splitlines()
    del lines[rng.choice(candidates)]
    return Attempt("\n".join(lines) + "\n", _incorrect(rng))


_CONFUSED = (
    ("tl.exp(", "tl.log("),
    ("tl.sin(", "tl.cos("),
    ("tl.maximum(", "tl.minimum("),
    ("x + ", "x - "),
    ("tl.sum(", "tl.max("),
)


def _wrong_operation(solution: str, rng: random.Random) -> Attempt | None:
    """Take one operation for its neighbour: wrong numbers."""
    swaps = [(a, b) for pair in _CONFUSED for a, b in (pair, pair[::-1]) if a in solution]
    if not swaps:
        return None
    return Attempt(solution.replace(*rng.choice(swaps), 1), _incorrect(rng))


def _undefined_name(solution: str, rng: random.Random) -> Attempt | None:
    """Use an operation that Triton does not have: no compilation."""
    known = [name for name in ("tl.exp", "tl.abs", "tl.sigmoid", "tl.maximum", "tl.sum", "tl.sqrt") if name in solution]
    if not known:
        return None
    name = rng.choice(known)
    wrong = {"tl.maximum": "tl.relu", "tl.sum": "tl.reduce_sum"}.get(name, name.replace("tl.", "tl.math_"))
    message = f"AttributeError: module 'triton.language' has no attribute '{wrong.removeprefix('tl.')}'"
    verdict = Verdict("compile_error", False, False, error_category="triton_compilation_error", error_message=message)
    return Attempt(solution.replace(name, wrong, 1), verdict)


def _cut_short(solution: str, rng: random.Random) -> Attempt:
    """End early, as a completion that ran out of tokens does."""
    lines = solution.splitlines()
    kept = lines[: rng.randint(len(lines) // 2, len(lines) - 2)]
    message = "The source does not define ModelNew." if "class ModelNew" not in "\n".join(kept) else "SyntaxError"
    verdict = Verdict("compile_error", False, False, error_category="syntax_error", error_message=message)
    return Attempt("\n".join(kept) + "\n", verdict)


def _incorrect(rng: random.Random) -> Verdict:
    return Verdict(
        "incorrect",
        compiled=True,
        correct=False,
        max_abs_error=round(rng.uniform(0.05, 5.0), 4),
        mismatched_fraction=rng.choice((0.5, 0.93, 0.98, 0.99, 1.0)),
        trials=1,
    )
