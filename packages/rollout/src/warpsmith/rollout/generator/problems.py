"""The generator: seeded, in levels, with train and held-out problems that share no composition."""

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from warpsmith.records.errors import UsageError
from warpsmith.rollout.generator.families import LEVELS
from warpsmith.rollout.generator.held_out_split import Split, split_of
from warpsmith.rollout.generator.render import Draft, problem_text, solution_text

_PATIENCE = 10_000
"""Consecutive draws without a new problem before the generator gives up."""


@dataclass(frozen=True)
class GeneratedProblem:
    """A problem in KernelBench's form with its solution.

    Args:
        name: unique among problems with different text; usable as a file name.
        level: difficulty, 1 (pointwise) to 3 (softmax, norms, matrix products).
        source: the problem's text: `Model`, `get_inputs`, `get_init_inputs`.
        solution: the text of a correct Triton answer that defines `ModelNew`.
        composition: what is computed, without constants and shapes; the unit of the split.
    """

    name: str
    level: int
    source: str
    solution: str
    composition: str


def generate(
    *, seed: int, count: int, split: Split = "train", levels: Sequence[int] = (1, 2, 3)
) -> list[GeneratedProblem]:
    """Return `count` different problems, cycling through the levels; the same arguments give the same problems.

    Raises:
        UsageError: an unknown split or level, a negative count, or more problems than the levels have.
    """
    _check(count, split, levels)
    # One stream per level, so that the problems of a level do not depend on the other requested levels.
    streams = {level: _stream(seed, level, split) for level in levels}
    return [next(streams[levels[i % len(levels)]]) for i in range(count)]


def _stream(seed: int, level: int, split: Split) -> Iterator[GeneratedProblem]:
    rng = random.Random(f"{seed}/{level}/{split}")
    seen: set[str] = set()
    misses = 0
    while misses < _PATIENCE:
        draft = rng.choice(LEVELS[level])(rng)
        problem = _finished(draft, level)
        if problem.source in seen or split_of(draft.composition) != split:
            misses += 1
            continue
        seen.add(problem.source)
        misses = 0
        yield problem
    raise UsageError(
        f"Level {level} has no more than about {len(seen)} different problems in the {split} split.",
        "Ask for fewer problems or for more levels.",
    )


def _finished(draft: Draft, level: int) -> GeneratedProblem:
    source = problem_text(draft)
    shape = "x".join(map(str, draft.inputs[0].shape))
    digest = hashlib.sha256(source.encode()).hexdigest()[:6]
    return GeneratedProblem(
        name=f"l{level}_{draft.slug}_{shape}_{digest}",
        level=level,
        source=source,
        solution=solution_text(draft),
        composition=draft.composition,
    )


def _check(count: int, split: str, levels: Sequence[int]) -> None:
    if count < 0:
        raise UsageError(f"The number of problems is {count}.", "Pass zero or more.")
    if split not in get_args(Split):
        raise UsageError(f"There is no split {split!r}.", f"The splits are {', '.join(get_args(Split))}.")
    unknown = [level for level in levels if level not in LEVELS]
    if unknown or not levels:
        raise UsageError(
            f"There is no level {unknown[0]}." if unknown else "No level was selected.",
            f"The levels are {', '.join(map(str, LEVELS))}.",
        )
