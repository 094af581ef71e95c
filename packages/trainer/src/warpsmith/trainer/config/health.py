"""`[health]`: thresholds of the warnings."""

from typing import Any

from pydantic import Field, field_validator

from warpsmith.trainer.section import Section


class HealthSection(Section):
    """`[health]`: thresholds of warnings. The defaults are choices, not measurements; set them for your runs.

    `false` disables a check.
    """

    baseline_steps: int = Field(default=5, ge=1, description="First steps, the baseline for later ones.")
    patience: int = Field(default=3, ge=1, description="Steps over which rates are averaged.")
    repeat_every: int = Field(default=10, ge=1, description="Steps until a continuing warning is repeated.")
    entropy_share: float = Field(
        default=0.1, ge=0, description="Warn if the entropy is below this share of the baseline."
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
        description="Warn if the gradient norm is above this multiple of its median over `grad_norm_window` steps.",
    )
    grad_norm_window: int = Field(default=20, ge=3, description="Steps of that median; a quarter of them is required.")
    no_spread_max: float | None = Field(
        default=0.9, gt=0, le=1, description="Warn if at least this share of the groups has no spread."
    )
    sampler_kl_max: float | None = Field(
        default=0.05, gt=0, description="Warn above this KL of sampler and trainer, nats a token."
    )
    sampler_kl_growth: float | None = Field(
        default=10.0, gt=1, description="Warn if it is above this multiple of the baseline, and above sampler_kl_floor."
    )
    sampler_kl_floor: float = Field(default=1e-3, ge=0, description="Below this, growth is ignored.")
    truncated_max: float | None = Field(
        default=0.3, gt=0, le=1, description="Warn if at least this share of the completions hits max_tokens."
    )
    invalid_max: float | None = Field(
        default=0.1, gt=0, le=1, description="Warn if at least this share of the turns is invalid."
    )

    @field_validator(
        "kl_max", "kl_update_max", "grad_norm_factor", "no_spread_max", "sampler_kl_max", "sampler_kl_growth",
        "truncated_max", "invalid_max", mode="before",
    )  # fmt: skip
    @classmethod
    def _switched_off(cls, value: Any) -> Any:
        """Take `false` for None, which TOML lacks."""
        return None if value is False else value
