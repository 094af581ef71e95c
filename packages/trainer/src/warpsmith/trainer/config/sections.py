"""Tables that SFT and GRPO files share."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from warpsmith.trainer.config.schedule import ConstantSchedule, GrpoSchedule
from warpsmith.trainer.section import Section, unit

DEFAULT_MICRO_BATCH_TOKENS = 8192
SECONDS_HELP = "Finish the step at hand and stop, with a checkpoint, this long after a start or a resumption."

Decay = Annotated[float, Field(ge=0, lt=1)]
"""Share of a moving average that stays at each update."""


class RunSection(Section):
    """`[run]`: where the run writes, what it is called, how long it lasts."""

    dir: Path = Field(description="Directory of the run: records, checkpoints, logs, final_model.")
    name: str = Field(
        default="", description="Name in the records and in W&B, kept on resume; the directory's name when empty."
    )
    seed: int = Field(
        default=0, ge=0, description="Seed of the order of the data and of every random generator of a rank."
    )
    torch_threads: int = Field(default=0, ge=0, description="CPU threads of torch on each rank; 0 leaves its default.")
    cores: tuple[int, ...] = Field(
        default=(),
        description="CPU cores to bind ranks to: of n cores, rank r gets number r mod n; none binds no rank.",
    )

    @property
    def title(self) -> str:
        """The name that the records carry."""
        return self.name or self.dir.name


class OptimizerSection(Section):
    """`[optimizer]`: AdamW (arXiv 1711.05101) and its learning rate."""

    lr: float = Field(default=1e-6, ge=0, description="Peak learning rate; 0 makes steps that change nothing.")
    betas: tuple[Decay, Decay] = Field(default=(0.9, 0.95), description="Decay of the two moments, each below 1.")
    eps: float = Field(default=1e-8, gt=0, description="Added to the root of the second moment.")
    weight_decay: float = Field(default=0.0, ge=0, description="Decoupled weight decay, on matrices only.")
    max_grad_norm: float = Field(default=1.0, ge=0, description="Clip of the global gradient norm; 0 clips nothing.")
    schedule: GrpoSchedule = Field(default=ConstantSchedule(), description="Learning rate after the warm-up.")
    warmup_steps: int = Field(
        default=0,
        ge=0,
        description="Updates over which the learning rate rises to its peak.",
        json_schema_extra=unit("updates"),
    )
    warmup_ratio: float = Field(
        default=0.0, ge=0, lt=1, description="The same as a share of all updates; above 0 it replaces warmup_steps."
    )
    implementation: Literal["torch", "cpu"] = Field(
        default="torch",
        description="AdamW: torch's fused one, or DeepSpeed's for the CPU, which zero.offload_optimizer needs.",
    )


class ZeroSection(Section):
    """`[zero]`: how DeepSpeed ZeRO (arXiv 1910.02054) spreads the training state over the ranks."""

    stage: Literal[0, 1, 2, 3] = Field(
        default=2,
        description="Splits over the ranks: 0 nothing, 1 optimizer state, 2 also gradients, 3 also parameters.",
    )
    micro_batch_tokens: int = Field(
        default=DEFAULT_MICRO_BATCH_TOKENS,
        ge=16,
        description="Tokens of one micro-batch on one rank, padding included; a longer row is one micro-batch.",
    )
    packing: bool = Field(
        default=False, description="Lay the rows of a micro-batch end to end instead of padding them."
    )
    offload_optimizer: bool = Field(default=False, description="Keep the optimizer state in host memory.")
    offload_parameters: bool = Field(
        default=False, description="Keep the parameters in host memory; only with stage 3."
    )
    bucket_elements: int = Field(
        default=50_000_000, ge=1024, description="Elements of one collective operation on gradients or parameters."
    )
    timeout_minutes: float = Field(
        default=120.0, gt=0, description="How long ranks wait for each other, rollouts included."
    )


class CheckpointSection(Section):
    """`[checkpoint]`: what is kept to resume from."""

    every: int = Field(
        default=50,
        ge=0,
        description="Steps between checkpoints; 0 writes one only at the end.",
        json_schema_extra=unit("steps"),
    )
    keep: int = Field(default=2, ge=1, description="Newest checkpoints to keep.")
    keep_best: int = Field(
        default=0,
        ge=0,
        description="Best checkpoints to keep in addition, by the mean reward (SFT: the least loss) of the steps "
        "since the checkpoint before; with held_out.every by the best scores on held-out problems.",
    )
    export_final: bool = Field(default=True, description="Write final_model, a Hugging Face directory, at the end.")


class WandbSection(Section):
    """`[wandb]`: Weights & Biases. Its files are in the run's directory."""

    mode: Literal["offline", "online", "disabled"] = Field(
        default="offline",
        description="`offline` only writes files and needs no network and no account; `online` needs a login.",
    )
    project: str = Field(default="warpsmith", description="Project name.")
    tags: tuple[str, ...] = Field(default=(), description="Tags of the run.")


class TrackersSection(Section):
    """`[trackers]`: what shows the steps besides W&B. Each needs the extra of its name."""

    tensorboard: bool = Field(default=False, description="Write event files for TensorBoard to RUN/tensorboard.")
    mlflow: str = Field(
        default="", description="Tracking server of MLflow, or sqlite:///FILE; empty logs nothing to it."
    )
    trackio: str = Field(default="", description="Project of Trackio, in TRACKIO_DIR; empty logs nothing to it.")
    otel: bool = Field(
        default=False,
        description="Send spans of steps, episodes, turns and evaluations by OpenTelemetry; its OTEL_... variables say "
        "where.",
    )
