"""`[curriculum]`: which problems a step trains on, and for how many turns, by what the policy solves so far."""

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from warpsmith.trainer.section import Section, one_of, unit


class UniformCurriculum(Section):
    """Every problem once an epoch, in shuffled order."""

    type: Literal["uniform"] = "uniform"


class CurriculumStage(Section):
    """`[[curriculum.stages]]`: one stage."""

    levels: tuple[int, ...] = Field(min_length=1, description="Levels of the problems that the stage trains on.")
    turns: int | None = Field(
        default=None,
        ge=1,
        description="Most turns of an episode in this stage; those of the environment when not given.",
        json_schema_extra=unit("turns"),
    )


class StagedCurriculum(Section):
    """Stages, for example by level or number of turns: the solved share of the last steps decides which one is on."""

    type: Literal["stages"]
    stages: tuple[CurriculumStage, ...] = Field(min_length=1, description="The stages, easiest first.")
    advance_at: float = Field(
        default=0.6, gt=0, le=1, description="Solved share of the window from which the next stage begins."
    )
    fall_back_at: float = Field(
        default=0.1, ge=0, lt=1, description="Solved share of the window down to which the stage before begins again."
    )
    window: int = Field(
        default=8,
        ge=1,
        description="Last steps over which the solved share is taken; a stage lasts that long at least.",
        json_schema_extra=unit("steps"),
    )

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.fall_back_at >= self.advance_at:
            raise ValueError(
                f"fall_back_at ({self.fall_back_at}) must be below advance_at ({self.advance_at}): a policy between "
                "them stays in its stage"
            )
        return self


class SolveRateCurriculum(Section):
    """Problems by solve rate: most often those that are solved about half of the time."""

    type: Literal["solve_rate"]
    floor: float = Field(
        default=0.1,
        gt=0,
        le=1,
        description="Weight of a problem that is always or never solved; one that is solved half of the time, or was "
        "never tried, has weight 1.",
    )
    memory: float = Field(
        default=0.5, ge=0, lt=1, description="Share of a problem's earlier solve rate that a new attempt keeps."
    )


Curriculum = UniformCurriculum | StagedCurriculum | SolveRateCurriculum
if TYPE_CHECKING:
    AnyCurriculum = Curriculum
else:
    AnyCurriculum = one_of(UniformCurriculum, StagedCurriculum, SolveRateCurriculum, default="uniform")
