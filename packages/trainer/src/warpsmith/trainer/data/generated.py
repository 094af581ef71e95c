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
from warpsmith.trainer.config.problems import byte_range
from warpsmith.trainer.config.sources import AnswerLanguage, ExampleAgent, GeneratedSource
from warpsmith.trainer.data.bugs import bugs_of
from warpsmith.trainer.data.kernel_bugs import with_bug
from warpsmith.trainer.data.sample import Refusal, Sample
from warpsmith.trainer.data.wrong_attempts import wrong_attempt


@dataclass(frozen=True)
class Repairs:
    """Examples whose prompt is that of a later turn.

    Args:
        share: share of them, 0 to 1.
        attempts: maximum wrong attempts that one shows, at least 1; each number up to it is equally likely.
    """

    share: float = 0.2
    attempts: int = 1


def read_generated(section: GeneratedSource, seed: int) -> Iterator[Sample | Refusal]:
    """Yield a sample for each problem of a source; see `sft_examples`."""
    problems = source_problems(section, seed, section.problems)
    for problem, chat in zip(problems, chats_of(section, problems, seed), strict=True):
        yield Sample(chat, problem.text, f"problem {problem.name}")


def chats_of(section: GeneratedSource, problems: Sequence[ProblemRow], seed: int) -> list[list[Message]]:
    """Return the conversations of a source about its problems; see `sft_examples`."""
    return sft_examples(
        problems,
        seed,
        section.prompt_style,
        flawed_share=section.flawed_share,
        repairs=Repairs(section.repair_share, section.repair_attempts),
        agent=section.agent,
        language=section.language,
        timed=section.timed,
    )


def source_problems(section: GeneratedSource, seed: int, count: int) -> list[ProblemRow]:
    """Return the problems of a source, each with the solution to imitate: good, naive, or one of both at even odds."""
    rng = random.Random(f"{seed}/solutions")
    rows = generated(
        seed=seed,
        count=count,
        levels=section.levels,
        size=section.size,
        language=section.language,
        touched=byte_range(section.touched),
    )
    grades: tuple[Grade, ...] = ("good", "naive") if section.solutions == "both" else (section.solutions,)
    return [with_solution(row, rng.choice(grades)) for row in rows]


def sft_examples(
    problems: Sequence[GeneratedProblem | ProblemRow],
    seed: int,
    prompt_style: PromptStyle,
    *,
    repairs: Repairs = Repairs(),
    flawed_share: float = 0.0,
    agent: ExampleAgent | None = None,
    language: AnswerLanguage = "triton",
    timed: bool = True,
) -> list[list[Message]]:
    """Return one conversation per problem: the task's own prompt and the known solution as the answer.

    A share of the conversations has the prompt of a later turn: it carries wrong attempts with the feedback on them.
    They are in the user's message, so a loss on the assistant's turns never trains them.

    Args:
        problems: problems with solutions.
        seed: seed of which problems become later turns and what is wrong with their attempts.
        prompt_style: as in the task that follows.
        repairs: how many conversations are later turns.
        flawed_share: share of answers, 0 to 1, that carry one of `kernel_bugs.BUGS`: a corpus of mixed quality, like
            scraped ones. `seed` draws the problems.
        agent: who is asked; an optimizer starts from the problem's naive solution, with made-up figures. `both` draws
            one of them for each problem from `seed`.
        language: kernel language of the solutions, which prompts ask for.
        timed: whether these figures are times; otherwise bytes moved, as where nothing is timed.

    Raises:
        DatasetError: a problem has no solution, or for an optimizer no naive one.
    """
    rng = random.Random(seed)
    flaws, dice = random.Random(f"{seed}/flaws"), random.Random(f"{seed}/agents")
    agents: tuple[Agent | None, ...] = (GENERATOR, OPTIMIZER) if agent == "both" else (agent,)
    asked = (_asked(_flawed(_row(problem), flaws, flawed_share), dice, agents, timed=timed) for problem in problems)
    return [_example(exercise, rng, prompt_style, repairs, language) for exercise in asked]


def answer_text(solution: str, style: PromptStyle) -> str:
    """Return a solution as an answer in the style: bare code if compact, otherwise in a Python block."""
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
    answer = with_bug(problem.text, problem.solution, rng, bugs_of(problem.solution)) if flawed else problem.solution
    return _Exercise(problem, problem.solution, answer)


def _asked(exercise: _Exercise, rng: random.Random, agents: Sequence[Agent | None], *, timed: bool) -> _Exercise:
    agent = rng.choice(agents)
    if agent != OPTIMIZER:
        return replace(exercise, agent=agent)
    if exercise.problem.naive is None:
        raise DatasetError(
            f"Problem {exercise.problem.name} has no naive solution for an optimizer to start from.",
            'Use generated problems of size "gpu".',
        )
    verdict = _timed(rng) if timed else Verdict("correct", True, True, bytes_moved=4 * rng.randint(1 << 12, 1 << 16))
    return replace(exercise, agent=agent, start=Attempt(exercise.problem.naive, verdict))


def _timed(rng: random.Random) -> Verdict:
    reference_ms, speedup = round(10 ** rng.uniform(-2, 1), 4), round(rng.uniform(0.1, 1.2), 2)
    return Verdict("correct", True, True, speedup=speedup, runtime_ms=reference_ms / speedup, reference_ms=reference_ms)


def _example(
    exercise: _Exercise, rng: random.Random, style: PromptStyle, repairs: Repairs, language: AnswerLanguage
) -> list[Message]:
    # One draw per example, so that the content of one does not change the next.
    own = random.Random(rng.random())
    shown = own.randint(1, repairs.attempts) if own.random() < repairs.share else 0
    attempts = [_attempt(exercise, own) for _ in range(shown)]
    prompt = build_prompt(
        exercise.problem, attempts, style=style, agent=exercise.agent, start=exercise.start, language=language
    )
    return [*prompt, {"role": "assistant", "content": answer_text(exercise.answer, style)}]


def _attempt(exercise: _Exercise, rng: random.Random) -> Attempt:
    """Return a wrong attempt that differs from the answer, which may be flawed: a repair changes something."""
    while True:
        attempt = wrong_attempt(exercise.problem.text, exercise.solution, rng)
        if attempt.kernel != exercise.answer:
            return attempt
