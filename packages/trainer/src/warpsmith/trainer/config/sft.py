"""The file of a supervised fine-tuning run."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from warpsmith.policy.config import PolicyConfig
from warpsmith.rollout.prompts import PromptStyle
from warpsmith.trainer.config.schedule import CosineSchedule, SftSchedule
from warpsmith.trainer.config.sections import (
    CheckpointSection,
    OptimizerSection,
    RunSection,
    WandbSection,
    ZeroSection,
)
from warpsmith.trainer.config.tables import trainable
from warpsmith.trainer.section import Section

SourceName = Literal["chats", "kernelbook", "records", "generated"]
ChatForm = Literal["auto", "messages", "sharegpt", "prompt_completion"]

_FILES = 'a .jsonl, .json or .parquet file, a directory of such files, a pattern such as "data/*.parquet", or a list'
_NEEDED: Final[Mapping[SourceName, str]] = MappingProxyType(
    {"chats": _FILES, "kernelbook": _FILES, "records": "a run's directory, or a list of them"}
)


class SftRunSection(RunSection):
    """`[run]` of an SFT file."""

    steps: int | None = Field(
        default=None,
        ge=1,
        description="Optimizer updates, 300 where `epochs` is not given either; with `epochs`, at most so many.",
    )
    epochs: float | None = Field(
        default=None, gt=0, description="Passes over the training examples, in place of `steps`; 0.5 is half a pass."
    )
    seconds: float | None = Field(default=None, gt=0, description="Stop after this much wall time, with a checkpoint.")

    @model_validator(mode="before")
    @classmethod
    def _some_end(cls, values: Any) -> Any:
        """Put 300 steps where no end is given, so that a checkpoint tells this from a run that `epochs` alone ends."""
        if not isinstance(values, dict) or values.get("steps") is not None or values.get("epochs") is not None:
            return values
        return {**values, "steps": 300}

    def updates(self, examples: int, batch_size: int) -> int:
        """Return how many updates the run makes, where an epoch hands out so many examples."""
        ends = [] if self.steps is None else [self.steps]
        if self.epochs is not None:
            ends.append(max(1, -int(-self.epochs * examples // batch_size)))
        return min(ends)


class SourceSection(Section):
    """One source of examples: `[data]` itself, or one `[[data.sources]]` of several."""

    source: SourceName = Field(
        default="generated",
        description="`chats` and `kernelbook` read files, `records` reads runs; `generated` makes problems with known "
        "solutions.",
    )
    name: str = Field(default="", description="Name in reports and figures; made from `source` when empty.")
    weight: float = Field(
        default=1.0,
        gt=0,
        description="How often each example comes in an epoch; 0.5 takes half of them, the next epoch the others.",
    )
    path: tuple[Path, ...] = Field(
        default=(), description="Of `chats` and `kernelbook`: file, directory, pattern or a list; of `records`: runs."
    )
    form: ChatForm = Field(
        default="auto",
        description="Of `chats`: which columns hold a chat; `auto` takes what a row has, if it has one form alone.",
    )
    problem_column: str = Field(
        default="",
        description="Of `chats`: column that names a row's problem; the first user's message does where it is empty.",
    )
    deduplicate: bool = Field(
        default=True,
        description="Leave out chats that came before, word for word, and of `records` kernels that their problem had.",
    )
    roles: tuple[str, ...] = Field(default=("train",), description="Of `records`: turns sampled for these.")
    statuses: tuple[str, ...] = Field(default=("correct",), description="Of `records`: verdicts that are taken.")
    turns: Literal["all", "final"] = Field(
        default="all", description="Of `records`: every turn that passes, or trajectories' last turns alone."
    )
    min_score: float | None = Field(default=None, description="Of `records`: least reward of a turn.")
    min_speedup: float | None = Field(
        default=None, gt=0, description="Of `records`: least speedup; turns that were not timed are left out."
    )
    without_flags: tuple[str, ...] = Field(
        default=(), description="Of `records`: leave out verdicts with one of these flags, for example torch_fallback."
    )
    best: int = Field(
        default=0, ge=0, description="Of `records`: turns of a problem, best reward first, then speedup; 0 takes all."
    )
    problems: int = Field(default=2000, ge=1, description="Of `generated`: problems.")
    levels: tuple[int, ...] = Field(default=(1, 2, 3), description="Of `generated`: levels of the problems.")
    flawed_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Of `generated`: share of answers that carry a common mistake on purpose.",
    )
    prompt_style: PromptStyle = Field(
        default="full", description="Of `generated` and `kernelbook`: prompt template of the task."
    )

    @field_validator("path", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str | Path) else value

    @model_validator(mode="after")
    def _fits_its_source(self) -> Self:
        if self.source in _NEEDED and not self.path and not self.is_mixed:
            raise ValueError(f'source = "{self.source}" needs a `path`: {_NEEDED[self.source]}')
        for key in sorted(self.model_fields_set & _OWN.keys()):
            if self.source not in _OWN[key]:
                kinds = " and ".join(f'"{kind}"' for kind in _OWN[key])
                raise ValueError(f'`{key}` is a key of source = {kinds}; this one is "{self.source}"')
        return self

    @property
    def is_mixed(self) -> bool:
        """Whether this only holds other sources."""
        return False


_OWN: Final[Mapping[str, tuple[SourceName, ...]]] = MappingProxyType(
    {
        "path": ("chats", "kernelbook", "records"),
        "form": ("chats",),
        "problem_column": ("chats",),
        "deduplicate": ("chats", "kernelbook", "records"),
        **dict.fromkeys(
            ("roles", "statuses", "turns", "min_score", "min_speedup", "without_flags", "best"), ("records",)
        ),
        **dict.fromkeys(("problems", "levels", "flawed_share"), ("generated",)),
        "prompt_style": ("generated", "kernelbook"),
    }
)
"""Which sources know a key; a key that would do nothing is refused."""


class SftDataSection(SourceSection):
    """`[data]`: chats to learn from; the loss stands on the assistant's tokens alone."""

    sources: tuple[SourceSection, ...] = Field(
        default=(), description="Several sources, each a [[data.sources]] with the keys above, in place of them."
    )
    train_on: Literal["all", "last"] = Field(
        default="all", description="Loss on every turn of the assistant, or on the last one of a chat alone."
    )
    max_tokens: int = Field(default=2048, ge=16, description="Longest example; longer ones are left out and counted.")
    batch_size: int = Field(default=16, ge=1, description="Examples of one update, over all ranks.")
    eval_examples: int = Field(
        default=64,
        ge=0,
        description="Examples held out for the evaluation, at least; a problem is held out with all of its examples.",
    )
    eval_every: int = Field(default=100, ge=0, description="Steps between evaluations; 0 evaluates at the end only.")

    @model_validator(mode="after")
    def _one_way_of_naming_sources(self) -> Self:
        doubled = sorted(self.model_fields_set & SourceSection.model_fields.keys()) if self.sources else []
        if doubled:
            raise ValueError(f"`{doubled[0]}` stands beside [[data.sources]]; move it into the source that it is of")
        return self

    @property
    def is_mixed(self) -> bool:
        """Whether [[data.sources]] are given."""
        return bool(self.sources)

    @property
    def parts(self) -> tuple[SourceSection, ...]:
        """The sources, however they were given."""
        return self.sources or (self,)

    @property
    def labels(self) -> tuple[str, ...]:
        """A name of each source, no two the same."""
        named = [part.name or part.source for part in self.parts]
        return tuple(
            name if named.count(name) == 1 else f"{name}-{named[: number + 1].count(name)}"
            for number, name in enumerate(named)
        )


class SftOptimizerSection(OptimizerSection):
    """`[optimizer]` of an SFT file: the same keys, other defaults."""

    lr: float = Field(default=1e-5, gt=0, description="Peak learning rate.")
    schedule: SftSchedule = Field(default=CosineSchedule(), description="Learning rate after the warm-up.")
    warmup_steps: int = Field(default=20, ge=0, description="Updates over which the learning rate rises from 0.")


class SftConfig(Section):
    """A supervised fine-tuning run."""

    run: SftRunSection
    policy: PolicyConfig
    data: SftDataSection = SftDataSection()
    optimizer: SftOptimizerSection = SftOptimizerSection()
    zero: ZeroSection = ZeroSection()
    checkpoint: CheckpointSection = CheckpointSection()
    wandb: WandbSection = WandbSection()

    _trainable = model_validator(mode="after")(trainable)
