"""`[curriculum]`: which problems a step trains on, and for how many turns, by what the policy has solved so far."""

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from warpsmith.trainer.section import Section, one_of, switched, unit

Turns = Annotated[int, Field(ge=1)]


class HorizonSection(Section):
    """`[curriculum.horizon]`: turns of an episode by its problem's level and solve rate.

    Without this table every episode has those of its stage or of the environment, which are the most in any case.
    """

    levels: dict[int, Turns] = Field(
        default_factory=dict, description="Maximum turns by level, as `{1 = 2, 2 = 4}`; omitted levels have no limit."
    )
    easy_at: float = Field(default=0.9, gt=0, le=1, description="Solve rate from which a problem is easy.")
    easy_turns: Turns | None = Field(
        default=1, description="Maximum turns for an easy problem of any level; its level's when unset."
    )
    hard_at: float = Field(default=0.1, ge=0, lt=1, description="Solve rate down to which a problem is hard.")
    hard_turns: Turns | None = Field(
        default=None, description="Maximum turns for a hard problem of any level; its level's when unset."
    )
    memory: float = Field(
        default=0.5, ge=0, lt=1, description="Share of a problem's earlier solve rate that a new attempt keeps."
    )

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.hard_at >= self.easy_at:
            raise ValueError(f"hard_at ({self.hard_at}) must be below easy_at ({self.easy_at})")
        return self


class _Curriculum(Section):
    horizon: Annotated[HorizonSection | None, BeforeValidator(switched)] = Field(
        default=None, description="Turns of an episode by its problem's level and solve rate."
    )


class UniformCurriculum(_Curriculum):
    """Every problem once an epoch, in shuffled order."""

    type: Literal["uniform"] = "uniform"


class CurriculumStage(Section):
    """`[[curriculum.stages]]`: one stage."""

    levels: tuple[int, ...] = Field(
        default=(), description="Levels of the problems that the stage trains on; any, or none, when not given."
    )
    operations: int | None = Field(
        default=None,
        ge=1,
        description="Size of the largest problems that the stage trains on: calls and operators in their modules' "
        "source; any when not given.",
    )
    turns: int | None = Field(
        default=None,
        ge=1,
        description="Maximum turns per episode in this stage; by default the environment's.",
        json_schema_extra=unit("turns"),
    )


class StagedCurriculum(_Curriculum):
    """Stages by level, size or number of turns: the solved share of the last steps decides which one is on."""

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

    def obstacle(self, steps: int) -> str | None:
        """Return why a run of `steps` cannot reach the last stage, as a sentence; None if it can."""
        if steps > (needed := self.window * (len(self.stages) - 1)):
            return None
        return (
            f"curriculum: a stage lasts curriculum.window ({self.window}) steps at least, so stage {len(self.stages)} "
            f"can begin after step {needed}, and run.steps is {steps}; lower the window, or make more steps"
        )


class SolveRateCurriculum(_Curriculum):
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
