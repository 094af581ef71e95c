"""The table `[rollout.feedback]`: which of a verdict's figures a prompt shows. Importable without torch."""

from pydantic import BaseModel, ConfigDict, Field


class FeedbackConfig(BaseModel):
    """Figures of a correct kernel in the feedback of the prompt style `full`, each with what follows from it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    baselines: bool = Field(default=True, description="The speedups over compiled references, where they are timed.")
    bound: bool = Field(
        default=True,
        description="The problem's bytes and operations, its least time on the device, and the share that is reached.",
    )
    traffic: bool = Field(
        default=True, description="The bytes that the kernel moves, on a device that interprets kernels."
    )
    kernels: bool = Field(
        default=True,
        description="Grid, registers, spilled bytes, shared memory and theoretical occupancy of each kernel.",
    )


ALL: FeedbackConfig = FeedbackConfig()
