"""`[problems]`: what the policy is trained on."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from warpsmith.records.errors import UsageError
from warpsmith.rollout.generator import Size
from warpsmith.rollout.generator.gpu.sizes import GPU_BYTES, ByteRange
from warpsmith.trainer.section import Section, one_of

TOUCHED_HELP = (
    'Least and most bytes of inputs and outputs of a problem of size "gpu", such as [16384, 65536] for an interpreter; '
    "[1048576, 268435456] when not given."
)

INTERPRETED_BYTES = 1 << 20
"""Maximum bytes of a problem that is still interpreted in seconds."""


def _permitted(given: tuple[int, int]) -> tuple[int, int]:
    try:
        ByteRange(*given)
    except UsageError as error:
        raise ValueError(f"{error.message} {error.remedy}") from error
    return given


Touched = Annotated[tuple[int, int], AfterValidator(_permitted)]


def check_touched(touched: Touched | None, size: Size) -> None:
    """Refuse the key where it would not be read.

    Raises:
        ValueError: the size is not `gpu`.
    """
    if touched is not None and size != "gpu":
        raise ValueError('touched is read only with size = "gpu"; set that or remove the key')


def byte_range(touched: Touched | None) -> ByteRange:
    """Return the range that a table asks for."""
    return GPU_BYTES if touched is None else ByteRange(*touched)


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
    touched: Touched | None = Field(default=None, description=TOUCHED_HELP)
    seed: int = Field(default=0, ge=0, description="Seed of the problems.")

    @property
    def source(self) -> str:
        """Where the problems come from, in a word."""
        return self.type

    @model_validator(mode="after")
    def _touched_is_read(self) -> Self:
        check_touched(self.touched, self.size)
        return self


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
