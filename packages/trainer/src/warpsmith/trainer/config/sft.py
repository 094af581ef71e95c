"""The file of a supervised fine-tuning run."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from warpsmith.policy.config import PolicyConfig
from warpsmith.rollout.prompts import PromptStyle
from warpsmith.trainer.config.sections import (
    CheckpointSection,
    OptimizerSection,
    RunSection,
    Section,
    WandbSection,
    ZeroSection,
)
from warpsmith.trainer.config.tables import trainable


class SftRunSection(RunSection):
    """`[run]` of an SFT file."""

    steps: int = Field(default=300, ge=1, description="Optimizer updates.")
    seconds: float | None = Field(default=None, gt=0, description="Stop after this much wall time, with a checkpoint.")


class SftDataSection(Section):
    """`[data]`: chats to learn from; the loss stands on the assistant's tokens alone."""

    source: Literal["chats", "generated"] = Field(
        default="generated", description="`chats` reads `path`; `generated` makes problems with known solutions."
    )
    path: Path | None = Field(
        default=None,
        description="JSON lines or Parquet with a column `messages`: a list of {role, content}.",
    )
    problems: int = Field(default=2000, ge=1, description="Generated problems.")
    levels: tuple[int, ...] = Field(default=(1, 2, 3), description="Levels of the generated problems.")
    flawed_share: float = Field(
        default=0.0, ge=0, le=1, description="Share of generated answers that carry a common mistake on purpose."
    )
    prompt_style: PromptStyle = Field(default="full", description="Prompt template of the generated examples.")
    max_tokens: int = Field(default=2048, ge=16, description="Longest example; longer ones are left out and counted.")
    batch_size: int = Field(default=16, ge=1, description="Examples of one update, over all ranks.")
    eval_examples: int = Field(default=64, ge=0, description="Examples held out for the evaluation loss.")
    eval_every: int = Field(default=100, ge=0, description="Steps between evaluations; 0 evaluates at the end only.")

    @model_validator(mode="after")
    def _has_a_path(self) -> Self:
        if self.source == "chats" and self.path is None:
            raise ValueError('source = "chats" needs a `path`: a .jsonl or .parquet file with a column `messages`')
        return self


class SftOptimizerSection(OptimizerSection):
    """`[optimizer]` of an SFT file: the same keys, other defaults."""

    lr: float = Field(default=1e-5, gt=0, description="Peak learning rate.")
    schedule: Literal["constant", "cosine", "linear"] = Field(
        default="cosine", description="Course of the learning rate after the warm-up."
    )
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
