"""The file of a supervised fine-tuning run."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from warpsmith.policy.config import PolicyConfig
from warpsmith.trainer.config.parallel import WHOLE, ParallelSection
from warpsmith.trainer.config.schedule import CosineSchedule, SftSchedule
from warpsmith.trainer.config.sections import (
    SECONDS_HELP,
    CheckpointSection,
    OptimizerSection,
    RunSection,
    TrackersSection,
    WandbSection,
    ZeroSection,
)
from warpsmith.trainer.config.sources import AnySource, GeneratedSource, Source
from warpsmith.trainer.config.tables import trainable
from warpsmith.trainer.section import Section, unit


class SftRunSection(RunSection):
    """`[run]`: where an SFT run writes, what it is called, how long it lasts."""

    steps: int | None = Field(
        default=None,
        ge=1,
        description="Optimizer updates; 300 if epochs is not given either, and an upper bound if it is.",
    )
    epochs: float | None = Field(
        default=None, gt=0, description="Passes over the training examples; 0.5 is half a pass."
    )
    seconds: float | None = Field(default=None, gt=0, description=SECONDS_HELP, json_schema_extra=unit("s"))

    @model_validator(mode="before")
    @classmethod
    def _some_end(cls, values: Any) -> Any:
        """Put 300 steps where no end is given, so that a checkpoint can tell this from a run ended only by `epochs`."""
        if not isinstance(values, dict) or values.get("steps") is not None or values.get("epochs") is not None:
            return values
        return {**values, "steps": 300}

    def updates(self, examples: int, batch_size: int) -> int:
        """Return how many updates the run makes, given the examples of an epoch."""
        ends = [] if self.steps is None else [self.steps]
        if self.epochs is not None:
            ends.append(max(1, -int(-self.epochs * examples // batch_size)))
        return min(ends)


class SftDataSection(Section):
    """`[data]`: chats to learn from; the loss is only on the assistant's tokens."""

    source: AnySource = Field(default=GeneratedSource(), description="Where examples come from.")
    sources: tuple[AnySource, ...] = Field(
        default=(), description="Several sources instead of [data.source]; each has the keys of that table."
    )
    limit: int | None = Field(
        default=None, ge=1, description="Maximum examples per source, from its start, for a short trial; all if unset."
    )
    train_on: Literal["all", "last"] = Field(
        default="all", description="The assistant's turns that carry loss: `all`, or the `last` one of a chat."
    )
    max_tokens: int = Field(default=2048, ge=16, description="Longest example; longer ones are skipped and counted.")
    batch_size: int = Field(default=16, ge=1, description="Examples of one update, over all ranks.")
    eval_examples: int = Field(
        default=64,
        ge=0,
        description="Minimum number of held-out examples; a problem is held out with all of its examples.",
    )
    eval_every: int = Field(
        default=100,
        ge=0,
        description="Steps between evaluations; 0 evaluates only at the end.",
        json_schema_extra=unit("steps"),
    )

    @model_validator(mode="after")
    def _one_way_of_naming_sources(self) -> Self:
        if self.sources and "source" in self.model_fields_set and self.source != GeneratedSource():
            raise ValueError("give [data.source], or several [[data.sources]]; not both")
        return self

    @property
    def parts(self) -> tuple[Source, ...]:
        """The sources, however they were given."""
        return self.sources or (self.source,)

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each source, no two the same."""
        named = [part.name or part.type for part in self.parts]
        return tuple(
            name if named.count(name) == 1 else f"{name}-{named[: number + 1].count(name)}"
            for number, name in enumerate(named)
        )


class SftOptimizerSection(OptimizerSection):
    """`[optimizer]`: AdamW (arXiv 1711.05101) and its learning rate."""

    lr: float = Field(default=1e-5, gt=0, description="Peak learning rate.")
    schedule: SftSchedule = Field(default=CosineSchedule(), description="Learning rate after the warm-up.")
    warmup_steps: int = Field(
        default=20,
        ge=0,
        description="Updates over which the learning rate rises to its peak.",
        json_schema_extra=unit("updates"),
    )


class SftConfig(Section):
    """A supervised fine-tuning run."""

    run: SftRunSection
    policy: PolicyConfig
    data: SftDataSection = SftDataSection()
    optimizer: SftOptimizerSection = SftOptimizerSection()
    zero: ZeroSection = ZeroSection()
    parallel: ParallelSection = WHOLE
    checkpoint: CheckpointSection = CheckpointSection()
    wandb: WandbSection = WandbSection()
    trackers: TrackersSection = TrackersSection()

    _trainable = model_validator(mode="after")(trainable)

    @model_validator(mode="after")
    def _trains_one_adapter(self) -> Self:
        if self.policy.adapters:
            raise ValueError(
                "policy.adapters: SFT trains one adapter; remove the key, and train one for each agent with "
                "`warpsmith-trainer sft CONFIG --each-agent`"
            )
        return self
