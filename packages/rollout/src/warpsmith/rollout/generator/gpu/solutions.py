"""Solutions as patterns with numbers to choose: what a policy can vary while the result stays right.

A pattern is a way to write the kernels of a problem (one pass or three, one row in a program or many), graded `naive`
(right but slow) or `good`. Its choices are named numbers (`BLOCK`, `ROWS`, `num_warps`) with the values to draw from.
"""

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from warpsmith.rollout.generator.render import Input, Kernel, ProblemDraft, SolutionPattern, solution_text

Grade = Literal["naive", "good"]
Lines = tuple[str, ...]

SolutionLanguage = Literal["triton", "cuda_cpp"]
LONGEST: Final[Mapping[SolutionLanguage, int]] = MappingProxyType({"triton": 1200, "cuda_cpp": 2400})
"""Characters of a solution: in Triton some 450 tokens, so that it fits an answer of 512; in CUDA C++ twice as many."""


@dataclass(frozen=True)
class SizedInput:
    """An argument of `forward`, made with the constants of the problem's module."""

    name: str
    maker: str


def uniform(name: str, *sizes: str, reach: float = 2.0) -> SizedInput:
    """Return an fp32 tensor, uniform in [-reach, reach); `sizes` are names of constants."""
    return SizedInput(name, f"torch.rand({', '.join(sizes)}) * {2 * reach} - {reach}")


@dataclass(frozen=True)
class Pattern:
    """A way to write a solution.

    Args:
        name: unique in its problem.
        grade: whether its choices are slow or fast.
        kernels: its kernels.
        launch: lines of `forward`; `{BLOCK}` and the like are filled with the choices.
        choices: values to draw, by name.
    """

    name: str
    grade: Grade
    kernels: tuple[Kernel, ...]
    launch: Lines
    choices: Mapping[str, tuple[int, ...]]

    def text(self, draft: ProblemDraft, inputs: Sequence[Input], choices: Mapping[str, int]) -> str:
        """Return the solution with these choices."""
        return solution_text(draft, inputs, self.kernels, tuple(line.format(**choices) for line in self.launch))


@dataclass(frozen=True)
class Solution:
    """A solution's text, and how it was chosen."""

    text: str
    grade: Grade
    pattern: str
    choices: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class GpuDraft(ProblemDraft):
    """A problem of GPU size with the patterns that solve it.

    Args:
        sizes: constants of the problem's module.
        inputs: the arguments of `forward`.
        touched: bytes of all inputs, parameters and outputs.
        patterns: at least one of each grade.
    """

    sizes: Mapping[str, int]
    inputs: tuple[SizedInput, ...]
    touched: int
    patterns: tuple[Pattern, ...]


@dataclass(frozen=True)
class SolutionSpace:
    """All solutions that the generator knows to a problem, up to `LONGEST` characters if there is one of each grade.

    Args:
        draft: the problem.
        language: of the solutions' kernels.
    """

    draft: GpuDraft
    language: SolutionLanguage = "triton"

    @property
    def patterns(self) -> tuple[SolutionPattern, ...]:
        """The patterns that are short enough for a small model's answer; if none of a grade is, its shortest."""
        patterns: tuple[SolutionPattern, ...] = self.draft.patterns if self.language == "triton" else self.draft.cuda
        lengths = [len(self._text(one, first_choices(one))) for one in patterns]
        longest = LONGEST[self.language]
        limits = {one.grade: max(longest, _shortest(patterns, lengths, one.grade)) for one in patterns}
        return tuple(one for one, length in zip(patterns, lengths, strict=True) if length <= limits[one.grade])

    def draw(self, grade: Grade, rng: random.Random) -> Solution:
        """Return one solution of a grade: any pattern, any choices."""
        pattern = rng.choice([one for one in self.patterns if one.grade == grade])
        return self._solution(pattern, {name: rng.choice(values) for name, values in pattern.choices.items()})

    def solutions(self, grade: Grade | None = None) -> Iterator[Solution]:
        """Yield every solution of a grade, or of both: each pattern with each combination of its choices."""
        for pattern in self.patterns:
            if grade in (None, pattern.grade):
                for values in itertools.product(*pattern.choices.values()):
                    yield self._solution(pattern, dict(zip(pattern.choices, values, strict=True)))

    def _solution(self, pattern: SolutionPattern, choices: Mapping[str, int]) -> Solution:
        return Solution(self._text(pattern, choices), pattern.grade, pattern.name, choices)

    def _text(self, pattern: SolutionPattern, choices: Mapping[str, int]) -> str:
        return pattern.text(self.draft, self.draft.inputs, choices)


def _shortest(patterns: Sequence[SolutionPattern], lengths: Sequence[int], grade: Grade) -> int:
    return min(length for one, length in zip(patterns, lengths, strict=True) if one.grade == grade)


def first_choices(pattern: SolutionPattern) -> dict[str, int]:
    """Return the first value of each choice."""
    return {name: values[0] for name, values in pattern.choices.items()}


def graded(
    name: str,
    kernels: Sequence[Kernel],
    launch: Lines,
    *,
    naive: Mapping[str, tuple[int, ...]] | None = None,
    good: Mapping[str, tuple[int, ...]] | None = None,
) -> Iterator[Pattern]:
    """Yield a pattern with its naive choices, with its good choices, or one of each."""
    if naive is not None:
        yield Pattern(f"{name}_slow" if good is not None else name, "naive", tuple(kernels), launch, naive)
    if good is not None:
        yield Pattern(name, "good", tuple(kernels), launch, good)
