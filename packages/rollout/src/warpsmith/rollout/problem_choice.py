"""Which problems `evaluate` and `generate` sample: generated ones, or those of files, by number and level."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.records.errors import UsageError
from warpsmith.rollout.config import AnyEvaluation
from warpsmith.rollout.datasets import ProblemRow, generated, read_problems
from warpsmith.rollout.generator import Size, SolutionLanguage, Split

GENERATED: Final = "generated"
GENERATED_COUNT: Final = 50
GENERATED_LEVELS: Final = (1, 2, 3)


@dataclass(frozen=True)
class ProblemChoice:
    """Which problems to take.

    Args:
        where: `generated`, a KernelBench directory, or a file of rows.
        count: how many; None for 50 generated ones, or for all of a directory or file.
        split: split of generated problems; None for `default_split`. Files have none.
        levels: levels to take; none for 1, 2 and 3 of the generator, or for all of a directory or file.
        seed: seed of generated problems.
        default_split: see `split`.
        size: size of generated problems; None for `cpu`. Files have none.
        language: of the solutions of generated problems.
    """

    where: str
    count: int | None
    split: Split | None
    levels: tuple[int, ...]
    seed: int
    default_split: Split
    size: Size | None = None
    language: SolutionLanguage = "triton"

    def problems(self) -> list[ProblemRow]:
        """Return the problems; of a directory or file the first ones, in its order.

        Raises:
            UsageError: a file has too few of them, none of these levels, no split, or no size.
            DatasetError: the directory or file cannot be read.
        """
        if self.where == GENERATED:
            count, split = self.count or GENERATED_COUNT, self.split or self.default_split
            levels, size = self.levels or GENERATED_LEVELS, self.size or "cpu"
            return generated(seed=self.seed, count=count, split=split, levels=levels, size=size, language=self.language)
        for option, value in (("split", self.split), ("size", self.size)):
            if value is not None:
                raise UsageError(
                    f"--{option} {value} is for generated problems; those of {self.where} have no {option}.",
                    f"Leave --{option} out, or name another directory or file.",
                )
        return self._first(self._of_levels(read_problems(self.where)))

    def _of_levels(self, rows: Sequence[ProblemRow]) -> list[ProblemRow]:
        found = [row for row in rows if not self.levels or row.level in self.levels]
        if not found:
            there = sorted({row.level for row in rows if row.level is not None})
            have = f"they have the levels {', '.join(map(str, there))}" if there else "they have no levels"
            raise UsageError(
                f"None of the {len(rows)} problems of {self.where} has a level of --levels "
                f"{','.join(map(str, self.levels))}; {have}.",
                "Change --levels, or leave it out to take all.",
            )
        return found

    def _first(self, rows: list[ProblemRow]) -> list[ProblemRow]:
        if self.count is not None and self.count > len(rows):
            of_levels = f" of the levels {','.join(map(str, self.levels))}" if self.levels else ""
            raise UsageError(
                f"--count {self.count} asks for more problems than the {len(rows)}{of_levels} of {self.where}.",
                "Lower --count, or leave it out to take all.",
            )
        return rows[: self.count]


def split_named(name: str | None) -> Split | None:
    """Return the split of a command's option; UsageError if there is none of this name."""
    return None if name is None else one_of(Split, name, "split")


def size_named(name: str | None) -> Size | None:
    """Return the size of a command's option; UsageError if there is none of this name."""
    return None if name is None else one_of(Size, name, "size")


def check_size(size: str | None, evaluator: EvaluatorConfig, evaluation: AnyEvaluation) -> None:
    """Refuse to interpret problems of GPU size. Which devices servers have is not known here.

    Raises:
        UsageError: they would be interpreted.
    """
    if size == "gpu" and evaluator.device == "cpu" and evaluation.type != "server":
        raise UsageError(
            "--size gpu: these problems are too large for the interpreter.",
            "Judge on a GPU with --set evaluator.device=cuda, or leave --size out.",
        )


def one_of(choices: Any, name: str, kind: str) -> Any:
    """Return a name that is one of a `Literal`'s; `kind` is a singular noun for the error."""
    if name in get_args(choices):
        return name
    raise UsageError(f"There is no {kind} {name!r}.", f"Choose one of {', '.join(get_args(choices))}.")
