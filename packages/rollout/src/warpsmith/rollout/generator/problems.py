"""The generator: seeded, in levels, with train and held-out problems that share no composition."""

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from warpsmith.records.errors import UsageError
from warpsmith.rollout.generator.families import LEVELS
from warpsmith.rollout.generator.gpu.families import GPU_LEVELS
from warpsmith.rollout.generator.gpu.sizes import GPU_BYTES, Budget, ByteRange
from warpsmith.rollout.generator.gpu.solutions import SolutionLanguage, SolutionSpace, first_choices
from warpsmith.rollout.generator.held_out_split import Split, split_of
from warpsmith.rollout.generator.render import Draft, Kernel, ProblemDraft, problem_text, solution_text

Size = Literal["cpu", "gpu"]
"""`cpu`: at most 4,096 elements a tensor, for the interpreter. `gpu`: large enough that speed differs by factors."""

SOLUTION_LANGUAGES: Final[tuple[SolutionLanguage, ...]] = get_args(SolutionLanguage)
"""The kernel languages that solutions can be in; problems themselves have none."""


def solution_language(language: str) -> SolutionLanguage:
    """Return the language of the solutions where `language` is judged: that one, or Triton if it has none."""
    return next((one for one in SOLUTION_LANGUAGES if one == language), "triton")


_PATIENCE = 10_000
"""Consecutive draws without a new problem before the generator gives up."""


@dataclass(frozen=True)
class GeneratedProblem:
    """A problem in KernelBench's form with its solutions.

    Args:
        name: unique among problems with different text; usable as a file name.
        level: difficulty, 1 (pointwise) to 3 (softmax, norms, matrix products).
        source: the problem's text: `Model`, `get_inputs`, `get_init_inputs`.
        solution: the text of a correct answer that defines `ModelNew`.
        composition: what is computed, without constants and shapes; the unit of the split.
        family: the name of its family.
        naive: a correct but slow answer; None for a problem of size `cpu`.
        space: all known solutions with their named choices; None for a problem of size `cpu`.
        touched: bytes of all inputs, parameters and outputs; None for a problem of size `cpu`.
        language: the kernel language of its solutions.
    """

    name: str
    level: int
    source: str
    solution: str
    composition: str
    family: str
    naive: str | None = None
    space: SolutionSpace | None = field(default=None, repr=False)
    touched: int | None = None
    language: SolutionLanguage = "triton"


def generate(
    *,
    seed: int,
    count: int,
    split: Split = "train",
    levels: Sequence[int] = (1, 2, 3),
    size: Size = "cpu",
    touched: ByteRange = GPU_BYTES,
    language: SolutionLanguage = "triton",
) -> list[GeneratedProblem]:
    """Return `count` different problems, cycling through the levels; the same arguments give the same problems.

    Args:
        seed: any number.
        count: how many.
        split: the split of all of them.
        levels: their levels.
        size: `cpu` or `gpu`.
        touched: bytes that a problem of size `gpu` reads and writes; a small range makes them fit an interpreter.
        language: of the solutions. The problems are the same in each.

    Raises:
        UsageError: an unknown split, level, size or language, a negative count, or more problems than the levels have.
    """
    _check(count, split, levels, size, language)
    # One stream per level, so that the problems of a level do not depend on the other requested levels.
    streams = {level: _stream(seed, level, split, None if size == "cpu" else touched, language) for level in levels}
    return [next(streams[levels[i % len(levels)]]) for i in range(count)]


def _stream(
    seed: int, level: int, split: Split, touched: ByteRange | None, language: SolutionLanguage
) -> Iterator[GeneratedProblem]:
    rng = random.Random(f"{seed}/{level}/{split}" + ("" if touched is None else "/gpu"))
    seen: set[str] = set()
    misses = 0
    while misses < _PATIENCE:
        draft, finish = _small(rng, level, language) if touched is None else _large(rng, level, touched, language)
        # Solutions are written last, as most drafts are of the other split where few are held out.
        if split_of(draft.composition) != split or (problem := finish()).source in seen:
            misses += 1
            continue
        seen.add(problem.source)
        misses = 0
        yield problem
    raise UsageError(
        f"Level {level} has no more than about {len(seen)} different problems in the {split} split.",
        "Ask for fewer problems or for more levels.",
    )


Finish = Callable[[], GeneratedProblem]


def _small(rng: random.Random, level: int, language: SolutionLanguage) -> tuple[ProblemDraft, Finish]:
    family = rng.choice(LEVELS[level])
    draft = family(rng)

    def finish() -> GeneratedProblem:
        source = problem_text(draft, draft.inputs)
        return GeneratedProblem(
            name=_name(level, draft, draft.inputs[0].shape, source),
            level=level,
            source=source,
            solution=_only_solution(draft, language),
            composition=draft.composition,
            family=family.__name__,
            language=language,
        )

    return draft, finish


def _only_solution(draft: Draft, language: SolutionLanguage) -> str:
    """Return the one solution of a problem of size `cpu`."""
    if language == "triton":
        kernel = Kernel("kernel", draft.parameters, draft.kernel)
        return solution_text(draft, draft.inputs, [kernel], draft.launch)
    good = next(pattern for pattern in draft.cuda if pattern.grade == "good")
    return good.text(draft, draft.inputs, first_choices(good))


def _large(
    rng: random.Random, level: int, touched: ByteRange, language: SolutionLanguage
) -> tuple[ProblemDraft, Finish]:
    family = rng.choice(GPU_LEVELS[level])
    draft = family(rng, Budget(touched.draw(rng), touched))

    def finish() -> GeneratedProblem:
        source = problem_text(draft, draft.inputs, draft.sizes)
        # The solutions depend on the problem's text alone.
        space, solutions = SolutionSpace(draft, language), random.Random(source)
        return GeneratedProblem(
            name=_name(level, draft, draft.sizes.values(), source),
            level=level,
            source=source,
            solution=space.draw("good", solutions).text,
            composition=draft.composition,
            family=family.__name__,
            naive=space.draw("naive", solutions).text,
            space=space,
            touched=draft.touched,
            language=language,
        )

    return draft, finish


def _name(level: int, draft: ProblemDraft, sizes: Iterable[int], source: str) -> str:
    digest = hashlib.sha256(source.encode()).hexdigest()[:6]
    return f"l{level}_{draft.slug}_{'x'.join(map(str, sizes))}_{digest}"


def _check(count: int, split: str, levels: Sequence[int], size: str, language: str) -> None:
    if count < 0:
        raise UsageError(f"The number of problems is {count}.", "Pass zero or more.")
    if split not in get_args(Split):
        raise UsageError(f"There is no split {split!r}.", f"The splits are {', '.join(get_args(Split))}.")
    if size not in get_args(Size):
        raise UsageError(f"There is no size {size!r}.", f"The sizes are {', '.join(get_args(Size))}.")
    if language not in SOLUTION_LANGUAGES:
        raise UsageError(
            f"There are no solutions in {language!r}.", f"There are some in {', '.join(SOLUTION_LANGUAGES)}."
        )
    unknown = [level for level in levels if level not in LEVELS]
    if unknown or not levels:
        raise UsageError(
            f"There is no level {unknown[0]}." if unknown else "No level was selected.",
            f"The levels are {', '.join(map(str, LEVELS))}.",
        )
