"""`[health]`: thresholds of the warnings."""

from typing import Any

from pydantic import Field, field_validator

from warpsmith.trainer.section import Section


class HealthSection(Section):
    """`[health]`: figures that are warned of in words. The limits are choices, not measured; set them for your runs.

    `false` for one of them never warns.
    """

    baseline_steps: int = Field(default=5, ge=1, description="First steps, which later ones are compared with.")
    patience: int = Field(default=3, ge=1, description="Steps over which a rate is averaged before it is warned of.")
    repeat_every: int = Field(default=10, ge=1, description="Steps until a warning that still holds is said again.")
    entropy_share: float = Field(
        default=0.1, ge=0, description="Warn where the entropy is below this share of the first steps'."
    )
    kl_max: float | None = Field(
        default=0.5, gt=0, description="Warn above this KL to the reference policy, nats a token."
    )
    kl_update_max: float | None = Field(
        default=0.1, gt=0, description="Warn above this KL between a batch's start and its updates, nats a token."
    )
    grad_norm_factor: float | None = Field(
        default=5.0,
        gt=1,
        description="Warn of a gradient norm of so many times its median over `grad_norm_window`.",
    )
    grad_norm_window: int = Field(default=20, ge=3, description="Steps of that median; a quarter must be there.")
    no_spread_max: float | None = Field(
        default=0.9, gt=0, le=1, description="Warn where this share of the groups has no spread, or more."
    )
    sampler_kl_max: float | None = Field(
        default=0.05, gt=0, description="Warn above this KL of sampler and trainer, nats a token."
    )
    sampler_kl_growth: float | None = Field(
        default=10.0, gt=1, description="Warn where it is so many times the first steps', and above sampler_kl_floor."
    )
    sampler_kl_floor: float = Field(default=1e-3, ge=0, description="Below this it is never said to grow.")
    truncated_max: float | None = Field(
        default=0.3, gt=0, le=1, description="Warn where this share of the completions hits max_tokens, or more."
    )
    invalid_max: float | None = Field(
        default=0.1, gt=0, le=1, description="Warn where this share of the turns is invalid, or more."
    )

    @field_validator(
        "kl_max", "kl_update_max", "grad_norm_factor", "no_spread_max", "sampler_kl_max", "sampler_kl_growth",
        "truncated_max", "invalid_max", mode="before",
    )  # fmt: skip
    @classmethod
    def _switched_off(cls, value: Any) -> Any:
        """Take `false` for None, which TOML lacks."""
        return None if value is False else value
