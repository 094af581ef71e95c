"""The table `[strategy]`, by its `type`. Reading it imports no strategy; `registry.make_strategy` does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from warpsmith.rollout.registries import StrategyName


class _Strategy(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SingleConfig(_Strategy):
    """One attempt; `samples` independent ones give pass@k."""

    type: Literal["single"] = Field(default="single", description="One attempt.")


class RefineConfig(_Strategy):
    """Attempts one after another, each with the verdicts on those before it."""

    type: Literal["refine"] = Field(default="refine", description="Attempts that each see the verdicts before them.")
    attempts: int = Field(default=4, ge=1, le=1000, description="Maximum attempts per search.")


class BestOfNConfig(_Strategy):
    """Independent attempts; the best one by its verdict is the search's answer."""

    type: Literal["best_of_n"] = Field(default="best_of_n", description="Independent attempts; the best one counts.")
    attempts: int = Field(default=8, ge=1, le=1000, description="Attempts of a search.")


class EvolveConfig(_Strategy):
    """A population of attempts: the best survive, and new ones are asked for as changes of chosen parents."""

    type: Literal["evolve"] = Field(default="evolve", description="A population whose best attempts are changed.")
    attempts: int = Field(default=16, ge=1, le=10_000, description="Maximum attempts per search, first ones included.")
    population: int = Field(default=4, ge=1, le=1000, description="First attempts, and survivors, of each island.")
    children: int = Field(default=4, ge=1, le=1000, description="New attempts of each island in a generation.")
    islands: int = Field(default=1, ge=1, le=100, description="Populations that evolve apart.")
    migrate_every: int = Field(
        default=2, ge=1, description="With several islands: generations after which the best of each joins the next."
    )
    tournament: int = Field(
        default=2, ge=1, description="Survivors drawn for each child; the best of them is its parent; 1 draws evenly."
    )
    inspirations: int = Field(
        default=1, ge=0, le=16, description="Other survivors, the best ones, that a child's prompt shows as well."
    )
    mutations: Path | None = Field(
        default=None, description="TOML file of mutation prompts; those of this package when not given."
    )

    @model_validator(mode="after")
    def _first_attempts_fit(self) -> Self:
        if self.islands * self.population > self.attempts:
            raise ValueError(
                f"attempts ({self.attempts}) are fewer than the first ones of {self.islands} islands with a population "
                f"of {self.population}: raise attempts, or lower one of the others"
            )
        return self


class OtherStrategyConfig(BaseModel):
    """A strategy that an installed package provides. Its own keys are checked by it, before anything starts."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: StrategyName = Field(description="Name of the strategy, an entry point in `warpsmith.strategies`.")


def _as_table(given: Any) -> Any:
    """Read `"name"` as the table `{type = "name"}`, and a table without `type` as `single`."""
    if isinstance(given, str):
        return {"type": given}
    return {"type": "single", **given} if isinstance(given, Mapping) else given


def _kind_of(given: Any) -> str:
    named = given.get("type") if isinstance(given, Mapping) else getattr(given, "type", None)
    return str(named) if named in _OWN else "other"


_OWN: Final = ("single", "refine", "best_of_n", "evolve")

StrategyConfig = SingleConfig | RefineConfig | BestOfNConfig | EvolveConfig | OtherStrategyConfig
AnyStrategy = Annotated[
    Annotated[SingleConfig, Tag("single")]
    | Annotated[RefineConfig, Tag("refine")]
    | Annotated[BestOfNConfig, Tag("best_of_n")]
    | Annotated[EvolveConfig, Tag("evolve")]
    | Annotated[OtherStrategyConfig, Tag("other")],
    Discriminator(_kind_of),
    BeforeValidator(_as_table),
]
"""The table `[strategy]`, by its `type`."""
