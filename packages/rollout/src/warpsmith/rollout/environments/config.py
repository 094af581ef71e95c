"""The table `[rollout.environment]`: one of this package's environments with its keys, or one of another package.

Reading it imports no environment; `registry.make_environment` does.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from warpsmith.rollout.registries import EnvironmentName


class _EnvironmentConfig(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The keys of the table besides `type`."""
        return self.model_dump(exclude={"type"})


class SingleTurnConfig(_EnvironmentConfig):
    """A kernel for a problem in one turn. The score is the return."""

    type: Literal["kernelbench"] = Field(default="kernelbench", description="One turn; the score is the return.")


class MultiTurnConfig(_EnvironmentConfig):
    """A kernel for a problem in several turns, each with the verdict on the turn before."""

    type: Literal["kernelbench_multiturn"] = Field(
        default="kernelbench_multiturn", description="Several turns, each with the verdict on the turn before."
    )
    max_turns: int = Field(default=3, ge=1, le=64, description="Maximum turns per episode.")
    success_score: float = Field(default=1.3, gt=0, description="A turn with this score or more ends its episode.")
    max_consecutive_failures: int = Field(
        default=2, ge=1, description="An episode ends after this many turns in a row with a score of 0 or less."
    )


class GenerateConfig(_EnvironmentConfig):
    """The generator alone: it writes a correct kernel."""

    type: Literal["kernelbench_generate"] = Field(
        default="kernelbench_generate", description="The generator alone; its first correct kernel ends the episode."
    )
    max_turns: int = Field(default=3, ge=1, le=64, description="Maximum turns of the generator.")
    max_consecutive_failures: int = Field(
        default=2, ge=1, description="An episode ends after this many turns in a row with a score of 0 or less."
    )


class GainKeys(_EnvironmentConfig):
    """The score of an optimizer's turn: log2 of its gain over the kernel it started from, between two bounds.

    The gain is its speedup, or where nothing is timed (on a CPU) the start's bytes moved over its own.
    """

    success_gain: float = Field(
        default=2.0, gt=0, description="An optimizer's turn with this score or more ends its episode; 2 is four times."
    )
    gain_cap: float = Field(
        default=3.0, gt=0, description="Maximum score of an optimizer's turn; 3 is a gain of eight times."
    )
    loss_cap: float = Field(
        default=0.5, ge=0, description="How far below 0 a correct but worse kernel of the optimizer can score."
    )
    wrong_score: float = Field(
        default=-1.0, le=0, description="Score of an optimizer's turn whose kernel is not correct; at most -loss_cap."
    )

    @model_validator(mode="after")
    def _wrong_is_worst(self) -> Self:
        if self.wrong_score > -self.loss_cap:
            raise ValueError(
                f"wrong_score ({self.wrong_score:g}) is above -loss_cap ({-self.loss_cap:g}): a wrong kernel would "
                "score more than a slow one; lower one of them"
            )
        return self


class OptimizeConfig(GainKeys):
    """The optimizer alone: it makes the kernel that a problem comes with faster."""

    type: Literal["kernelbench_optimize"] = Field(
        default="kernelbench_optimize", description="The optimizer alone; it starts from the problem's own kernel."
    )
    max_turns: int = Field(default=3, ge=1, le=64, description="Maximum turns of the optimizer.")
    max_consecutive_failures: int = Field(
        default=2, ge=1, description="An episode ends after this many turns in a row that gain nothing."
    )


class TwoRoleConfig(GainKeys):
    """The generator, then the optimizer, which starts from the generator's first correct kernel."""

    type: Literal["kernelbench_two_role"] = Field(
        default="kernelbench_two_role", description="The generator, then the optimizer from its first correct kernel."
    )
    generator_turns: int = Field(default=3, ge=1, le=64, description="Maximum turns of the generator.")
    generator_failures: int = Field(
        default=2,
        ge=1,
        description="An episode ends after this many generator's turns in a row with a score of 0 or less.",
    )
    optimizer_turns: int = Field(default=2, ge=1, le=64, description="Maximum turns of the optimizer.")
    optimizer_failures: int = Field(
        default=2, ge=1, description="An episode ends after this many optimizer's turns in a row that gain nothing."
    )
    handover_gamma: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Discount of the optimizer's first return in the return of the generator's last turn; 0 keeps "
        "each agent's credit apart.",
    )


class OtherEnvironmentConfig(_EnvironmentConfig):
    """An environment that an installed package provides. Its own keys are checked by it, at the start of a run."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: EnvironmentName = Field(description="Name of the environment, an entry point in `warpsmith.environments`.")


def _as_table(given: Any) -> Any:
    """Read `"name"` as the table `{type = "name"}`, and a table without `type` as `kernelbench_multiturn`."""
    if isinstance(given, str):
        return {"type": given}
    return {"type": "kernelbench_multiturn", **given} if isinstance(given, Mapping) else given


def _kind_of(given: Any) -> str:
    named = given.get("type") if isinstance(given, Mapping) else getattr(given, "type", None)
    return str(named) if named in _OWN else "other"


_OWN: Final = (
    "kernelbench", "kernelbench_multiturn", "kernelbench_generate", "kernelbench_optimize", "kernelbench_two_role",
)  # fmt: skip

EnvironmentConfig = (
    SingleTurnConfig | MultiTurnConfig | GenerateConfig | OptimizeConfig | TwoRoleConfig | OtherEnvironmentConfig
)
AnyEnvironment = Annotated[
    Annotated[SingleTurnConfig, Tag("kernelbench")]
    | Annotated[MultiTurnConfig, Tag("kernelbench_multiturn")]
    | Annotated[GenerateConfig, Tag("kernelbench_generate")]
    | Annotated[OptimizeConfig, Tag("kernelbench_optimize")]
    | Annotated[TwoRoleConfig, Tag("kernelbench_two_role")]
    | Annotated[OtherEnvironmentConfig, Tag("other")],
    Discriminator(_kind_of),
    BeforeValidator(_as_table),
]
"""The table `[rollout.environment]`, by its `type`."""
