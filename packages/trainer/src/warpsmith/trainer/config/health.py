"""`[health]`: thresholds of the warnings."""

from typing import Any

from pydantic import Field, field_validator

from warpsmith.trainer.section import Section, unit


class HealthSection(Section):
    """`[health]`: thresholds of warnings. `false` disables a check. The defaults are choices, not measurements."""

    baseline_steps: int = Field(
        default=5, ge=1, description="First steps of a run; their mean is the baseline for later ones."
    )
    patience: int = Field(
        default=3, ge=1, description="Steps over which rates are averaged.", json_schema_extra=unit("steps")
    )
    repeat_every: int = Field(
        default=10, ge=1, description="Steps until a continuing warning is repeated.", json_schema_extra=unit("steps")
    )
    entropy_share: float = Field(
        default=0.1, ge=0, description="Warn if the entropy is below this share of the baseline."
    )
    kl_max: float | None = Field(
        default=0.5,
        gt=0,
        description="Warn above this KL to the reference policy, nats a token.",
        json_schema_extra={"unit": "nats a token", "switch": True},
    )
    kl_update_max: float | None = Field(
        default=0.1,
        gt=0,
        description="Warn above this KL between a batch's start and its updates, nats a token.",
        json_schema_extra={"unit": "nats a token", "switch": True},
    )
    grad_norm_factor: float | None = Field(
        default=5.0,
        gt=1,
        description="Warn if the gradient norm is above this multiple of its median over `grad_norm_window` steps.",
        json_schema_extra={"switch": True},
    )
    grad_norm_window: int = Field(
        default=20,
        ge=3,
        description="Steps of that median; no warning before a quarter of them was made.",
        json_schema_extra=unit("steps"),
    )
    no_spread_max: float | None = Field(
        default=0.9,
        gt=0,
        le=1,
        description="Warn if at least this share of the groups has no spread.",
        json_schema_extra={"switch": True},
    )
    sampler_kl_max: float | None = Field(
        default=0.05,
        gt=0,
        description="Warn above this KL of sampler and trainer, nats a token.",
        json_schema_extra={"unit": "nats a token", "switch": True},
    )
    sampler_kl_growth: float | None = Field(
        default=10.0,
        gt=1,
        description="Warn if that KL is above this multiple of the baseline, and above sampler_kl_floor.",
        json_schema_extra={"switch": True},
    )
    sampler_kl_floor: float = Field(
        default=1e-3,
        ge=0,
        description="Growth of that KL is ignored below this.",
        json_schema_extra=unit("nats a token"),
    )
    truncated_max: float | None = Field(
        default=0.3,
        gt=0,
        le=1,
        description="Warn if at least this share of the completions hits max_tokens.",
        json_schema_extra={"switch": True},
    )
    invalid_max: float | None = Field(
        default=0.1,
        gt=0,
        le=1,
        description="Warn if at least this share of the turns is invalid.",
        json_schema_extra={"switch": True},
    )

    @field_validator(
        "kl_max", "kl_update_max", "grad_norm_factor", "no_spread_max", "sampler_kl_max", "sampler_kl_growth",
        "truncated_max", "invalid_max", mode="before",
    )  # fmt: skip
    @classmethod
    def _switched_off(cls, value: Any) -> Any:
        """Take `false` for None, which TOML lacks."""
        return None if value is False else value
