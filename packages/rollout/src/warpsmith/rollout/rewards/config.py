"""The table `[rollout.reward]`: presets over figures, a function from a file, or a reward of another package.

Reading it imports no reward; `registry.scorer_for` does.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

from warpsmith.evaluator.baselines import BaselineName
from warpsmith.rollout.registries import RewardName

PresetName = Literal["tritonforge", "kevin", "refinement", "bound", "profiled", "profiled_rejection"]

PRESETS: Final[Mapping[PresetName, Mapping[str, float | None]]] = MappingProxyType(
    {
        "tritonforge": MappingProxyType(
            {"compiled": 0.1, "correct": 0.3, "speedup_weight": 1.0, "speedup_from": 1.0, "speedup_cap": 2.0}
        ),
        "kevin": MappingProxyType(
            {"compiled": 0.0, "correct": 0.3, "speedup_weight": 1.0, "speedup_from": 0.0, "speedup_cap": None}
        ),
        "refinement": MappingProxyType(
            {
                "compiled": 0.1, "correct": 0.3, "speedup_weight": 1.0, "speedup_from": 1.0, "speedup_cap": 2.0,
                "improvement_weight": 0.5, "regression_weight": 0.5,
            }
        ),
        "bound": MappingProxyType(
            {
                "compiled": 0.1, "correct": 0.3, "speedup_weight": 0.0, "speedup_from": 1.0, "speedup_cap": None,
                "bound_weight": 2.0,
            }
        ),
        "profiled": MappingProxyType(
            {
                "compiled": 0.1, "correct": 0.3, "speedup_weight": 1.0, "speedup_from": 1.0, "speedup_cap": 2.0,
                "kernel_share_weight": 0.5,
            }
        ),
        "profiled_rejection": MappingProxyType(
            {
                "compiled": 0.1, "correct": 0.3, "speedup_weight": 1.0, "speedup_from": 1.0, "speedup_cap": 2.0,
                "min_kernel_share": 0.3,
            }
        ),
    }
)  # fmt: skip
"""tritonforge: 0.1 if it only compiles, or 0.3 + min(max(speedup - 1, 0), 2) if correct.
kevin: 0.3 + speedup if correct.
refinement: tritonforge, plus half of what a turn gains on the best turn before it, less half of what it loses to it.
bound: 0.3 + 2 * bound_share if correct: the smaller the gap to the problem's bound on the device, the more.
profiled: tritonforge, plus 0.5 * kernel_share if correct.
profiled_rejection: tritonforge, but a correct candidate with a kernel_share below 0.3 scores as one that only compiles.
Both are tritonforge where no GPU measured the share."""


class PresetRewardConfig(BaseModel):
    """Figures that turn a verdict into a score. One that is not given comes from the preset.

    value = compiled                                                                     if the candidate only compiles
          = correct + speedup_weight * min(max(speedup - speedup_from, 0), speedup_cap)  if it is correct
            + kernel_share_weight * kernel_share + bound_weight * min(bound_share, 1)    where a GPU measured them

    score = turn_weight * value + improvement_weight * max(value - best, 0) - regression_weight * max(best - value, 0)

    `best` is the largest value of the turns before; in the first turn there is none, and the last two terms are 0.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    type: Literal["preset"] = Field(default="preset", description="These figures; `function` names one of your own.")
    preset: PresetName = Field(default="tritonforge", description="Named figures to start from.")
    compiled: float = Field(default=0.1, ge=0, description="Score of a candidate that compiles and is not correct.")
    correct: float = Field(default=0.3, ge=0, description="Score of a correct candidate before any speedup.")
    speedup_weight: float = Field(default=1.0, ge=0, description="Score of each unit of speedup above speedup_from.")
    speedup_from: float = Field(default=1.0, ge=0, description="Speedup up to which nothing is added.")
    speedup_cap: float | None = Field(
        default=2.0, gt=0, description="Maximum speedup above speedup_from that counts; all of it when unset."
    )

    baseline: BaselineName | None = Field(
        default=None,
        description="The reference over which the speedup counts, one of evaluator.baseline; where a verdict has none "
        "over it, nothing is added. When not given, the first of evaluator.baseline.",
    )
    bound_weight: float = Field(
        default=0.0,
        ge=0,
        description="Score of a correct candidate that takes no longer than the problem's bound; a slower one gets "
        "its share of the bound.",
    )

    turn_weights: tuple[Annotated[float, Field(ge=0)], ...] = Field(
        default=(),
        description="Factor of the first turn's value, of the second's, and so on; the last one counts for all later "
        "turns. All 1 when empty.",
    )
    improvement_weight: float = Field(
        default=0.0, ge=0, description="Score of each unit of value above the best turn before."
    )
    regression_weight: float = Field(
        default=0.0, ge=0, description="Score lost with each unit of value below the best turn before."
    )
    min_kernel_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Minimum share of the device's time in the candidate's own kernels; a correct candidate below it "
        "scores as one that only compiles. No effect where no GPU measured it.",
    )
    kernel_share_weight: float = Field(
        default=0.0, ge=0, description="Score of a correct candidate whose own kernels take all of the device's time."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, given: Any) -> Any:
        """Fill in the preset's figures. An unknown preset is left to the field's own check."""
        if not isinstance(given, Mapping):
            return given
        figures = {name: values for name, values in PRESETS.items() if name == given.get("preset", "tritonforge")}
        return {**next(iter(figures.values()), {}), **given}


_PLACE: Final = re.compile(r"(?P<where>.+\.py|[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)", re.DOTALL)


class FunctionRewardConfig(BaseModel):
    """A function from a file or an importable module."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["function"] = Field(description="A function of (verdict, turn, history) that returns a number.")
    path: str = Field(
        description="The function: `my_module.py:score` in a file, or `package.module:score` in an importable module."
    )

    @field_validator("path")
    @classmethod
    def _names_a_function(cls, value: str) -> str:
        if _PLACE.fullmatch(value) is None:
            raise ValueError(f"{value!r} names no function; write it as my_module.py:score or package.module:score")
        return value


class OtherRewardConfig(BaseModel):
    """A reward that an installed package provides. Its own keys are checked by it, at the start of a run."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: RewardName = Field(description="Name of the reward, an entry point in `warpsmith.rewards`.")


def _kind_of(given: Any) -> str:
    """Return which of the three tables this is. Files from before the key `type` leave it out."""
    named = given.get("type") if isinstance(given, Mapping) else getattr(given, "type", None)
    if named is None:
        # For a table with `path` and without `type` the error names the missing `type`, not an unknown `path`.
        return "function" if isinstance(given, Mapping) and "path" in given else "preset"
    return str(named) if named in ("preset", "function") else "other"


AnyReward = Annotated[
    Annotated[PresetRewardConfig, Tag("preset")]
    | Annotated[FunctionRewardConfig, Tag("function")]
    | Annotated[OtherRewardConfig, Tag("other")],
    Discriminator(_kind_of),
]
"""The table `[rollout.reward]`, by its `type`."""
