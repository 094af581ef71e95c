"""From a verdict to a turn's score: named presets over five figures, or a function of the user's own.

Importable without the user's module: a configuration names the function, `rewardfunction` loads it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

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

    type: Literal["preset"] = Field(default="preset", description="These figures; `function` names one of your own.")
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


_PLACE: Final = re.compile(r"(?P<where>.+\.py|[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)", re.DOTALL)


class FunctionRewardConfig(BaseModel):
    """A score from a function of the user's own. Reading this imports nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["function"] = Field(description="A function of (verdict, turn, history) that returns a number.")
    path: str = Field(description="`my_module.py:score`, a file, or `package.module:score`, an importable module.")

    @field_validator("path")
    @classmethod
    def _names_a_function(cls, value: str) -> str:
        if _PLACE.fullmatch(value) is None:
            raise ValueError(f"{value!r} names no function; write it as my_module.py:score or package.module:score")
        return value

    @property
    def place(self) -> tuple[str, str]:
        """The file or module, and the function's name in it."""
        where, _, name = self.path.rpartition(":")
        return where, name


def _type_of(given: Any) -> str:
    """Return the `type` of a table, which files that are older than the key leave out."""
    if not isinstance(given, Mapping):
        return str(getattr(given, "type", "preset"))
    # A table with `path` and without `type` is told of the missing `type`, not of an unknown `path`.
    return str(given.get("type", "function" if "path" in given else "preset"))


AnyReward = Annotated[
    Annotated[RewardConfig, Tag("preset")] | Annotated[FunctionRewardConfig, Tag("function")],
    Discriminator(
        _type_of,
        custom_error_type="reward_type",
        custom_error_message='type must be "preset" or "function"',
    ),
]
"""The table `[rollout.reward]`, by its `type`."""


@dataclass(frozen=True, slots=True)
class RewardTurn:
    """A turn as a reward function sees it.

    Attributes:
        index: 0 for the first turn of the episode.
        problem: the problem's name.
        source: where the problem comes from.
        level: its level; None where it has none.
        completion: the model's whole answer, thoughts included.
        kernel: the code taken out of it; None where there was none.
        completion_tokens: tokens of the answer.
        truncated: whether the answer was cut off at `sampling.max_tokens`.
        verdict: what the evaluator found.
        score: what the function gave it; None for the turn that is being scored.
    """

    index: int
    problem: str
    source: str
    level: int | None
    completion: str
    kernel: str | None
    completion_tokens: int
    truncated: bool
    verdict: Verdict
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """What a turn is worth. `value` is None exactly where the turn is invalid, and `invalid_reason` then says why."""

    value: float | None
    invalid_reason: str | None = None

    @property
    def valid(self) -> bool:
        """Whether the turn may be used for training."""
        return self.invalid_reason is None


def refusal(verdict: Verdict) -> Score | None:
    """Return the score of an `invalid` verdict, a failure of the evaluator, which has no value; None for others."""
    if verdict.status == "invalid":
        return Score(None, f"evaluation: {verdict.error_message or 'the evaluator gave no cause'}")
    return None


def score(verdict: Verdict, config: RewardConfig) -> Score:
    """Return the score of a verdict. An `invalid` verdict is a failure of the evaluator and has none."""
    return refusal(verdict) or Score(_value(verdict, config))


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
