"""`[problems]`: what the policy is trained on."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from warpsmith.rollout.generator import Size
from warpsmith.trainer.section import Section, one_of


class GeneratedProblems(Section):
    """Generated problems of the split `train`."""

    type: Literal["generated"] = "generated"
    count: int = Field(default=512, ge=1, description="Number of problems.")
    levels: tuple[int, ...] = Field(default=(1, 2, 3), description="Levels of the problems.")
    size: Size = Field(
        default="cpu",
        description="`cpu`: up to 4,096 elements a tensor, for the interpreter. `gpu`: 1 to 256 MiB a problem, so that "
        "times differ.",
    )
    seed: int = Field(default=0, ge=0, description="Seed of the problems.")

    @property
    def source(self) -> str:
        """Where the problems come from, in a word."""
        return self.type


class ProblemFiles(Section):
    """KernelBench's problems, or others in its form."""

    type: Literal["files"] = "files"
    path: Path = Field(
        description="A directory in KernelBench's layout, or its rows in a file (.jsonl, .json, .parquet)."
    )
    levels: tuple[int, ...] = Field(
        default=(1, 2, 3), description="Levels of the problems that are taken; those without a level are taken too."
    )

    @property
    def source(self) -> str:
        """Where the problems come from."""
        return str(self.path)


class GeneratedHeldOut(Section):
    """Generated problems of the split `held_out`: no problem of the split `train` has their compositions."""

    type: Literal["generated"] = "generated"
    levels: tuple[int, ...] | None = Field(
        default=None, description="Levels of the problems; those of `[problems]` when not given."
    )
    size: Size | None = Field(
        default=None, description="`cpu` or `gpu`, see problems.size; that of `[problems]` when not given."
    )


Problems = GeneratedProblems | ProblemFiles
HeldOutSource = GeneratedHeldOut | ProblemFiles
if TYPE_CHECKING:
    AnyProblems = Problems
    AnyHeldOut = HeldOutSource
else:
    AnyProblems = one_of(GeneratedProblems, ProblemFiles, default="generated")
    AnyHeldOut = one_of(GeneratedHeldOut, ProblemFiles, default="generated")
