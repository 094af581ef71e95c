"""From a verdict to a turn's score: two named presets over five figures, all configurable."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from warpsmith.evaluator.verdict import Verdict

PresetName = Literal["tritonforge", "kevin"]

PRESETS: Mapping[PresetName, Mapping[str, float | None]] = MappingProxyType(
    {
        "tritonforge": MappingProxyType(
            {"compiled": 0.1, "correct": 0.3, "speedup_weight": 1.0, "speedup_from": 1.0, "speedup_cap": 2.0}
        ),
        "kevin": MappingProxyType(
            {"compiled": 0.0, "correct": 0.3, "speedup_weight": 1.0, "speedup_from": 0.0, "speedup_cap": None}
        ),
    }
)
"""tritonforge: 0.1 if it only compiles, or 0.3 + min(max(speedup - 1, 0), 2) if correct.
kevin: 0.3 + speedup if correct."""


class RewardConfig(BaseModel):
    """How a verdict becomes a score. A figure that is not given comes from the preset.

    score = compiled                                                           if the candidate only compiles
          = correct + weight * min(max(speedup - speedup_from, 0), speedup_cap)  if it is correct
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    preset: PresetName = Field(default="tritonforge", description="Named figures to start from.")
    compiled: float = Field(default=0.1, ge=0, description="Score of a candidate that compiles and is not correct.")
    correct: float = Field(default=0.3, ge=0, description="Score of a correct candidate before any speedup.")
    speedup_weight: float = Field(default=1.0, ge=0, description="Worth of one unit of speedup.")
    speedup_from: float = Field(default=1.0, ge=0, description="Speedup that is worth nothing yet.")
    speedup_cap: float | None = Field(default=2.0, gt=0, description="Most speedup, above `speedup_from`, that counts.")

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, given: Any) -> Any:
        """Fill in the preset's figures. An unknown preset is left to the field's own check."""
        if not isinstance(given, Mapping):
            return given
        figures = {name: values for name, values in PRESETS.items() if name == given.get("preset", "tritonforge")}
        return {**next(iter(figures.values()), {}), **given}


@dataclass(frozen=True, slots=True)
class Score:
    """What a turn is worth. `value` is None exactly where the turn is invalid, and `invalid_reason` then says why."""

    value: float | None
    invalid_reason: str | None = None

    @property
    def valid(self) -> bool:
        """Whether the turn may be used for training."""
        return self.invalid_reason is None


def score(verdict: Verdict, config: RewardConfig) -> Score:
    """Return the score of a verdict. An `invalid` verdict is a failure of the evaluator and has none."""
    if verdict.status == "invalid":
        return Score(None, f"evaluation: {verdict.error_message or 'the evaluator gave no cause'}")
    return Score(_value(verdict, config))


def _value(verdict: Verdict, config: RewardConfig) -> float:
    if verdict.correct:
        return config.correct + config.speedup_weight * _gain(verdict.speedup, config)
    # A rejected candidate broke the rules: it must not earn what an honest attempt earns. One that is `undecided` earns
    # what a compiled and wrong one does, so that nobody gains by looking at what only a chip could tell.
    return config.compiled if verdict.compiled and verdict.status != "rejected" else 0.0


def _gain(speedup: float | None, config: RewardConfig) -> float:
    if speedup is None:
        return 0.0
    gain = max(speedup - config.speedup_from, 0.0)
    return gain if config.speedup_cap is None else min(gain, config.speedup_cap)
