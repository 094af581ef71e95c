"""The table `[rollout.environment]`: one of this package's environments with its keys, or one of another package.

Reading it imports no environment; `registry.make_environment` does.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

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
    max_turns: int = Field(default=3, ge=1, le=64, description="Most turns of an episode.")
    success_score: float = Field(default=1.3, gt=0, description="A turn with this score or more ends its episode.")
    max_consecutive_failures: int = Field(
        default=2, ge=1, description="An episode ends after this many turns in a row with a score of 0 or less."
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
    return str(named) if named in ("kernelbench", "kernelbench_multiturn") else "other"


EnvironmentConfig = SingleTurnConfig | MultiTurnConfig | OtherEnvironmentConfig
AnyEnvironment = Annotated[
    Annotated[SingleTurnConfig, Tag("kernelbench")]
    | Annotated[MultiTurnConfig, Tag("kernelbench_multiturn")]
    | Annotated[OtherEnvironmentConfig, Tag("other")],
    Discriminator(_kind_of),
    BeforeValidator(_as_table),
]
"""The table `[rollout.environment]`, by its `type`."""
