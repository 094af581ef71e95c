"""Settings of the server. Importable without FastAPI."""

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

DEFAULT_PORT: Final = 18188
"""The port of TritonForge's evaluation server, so that its clients find this one."""

DEFAULT_TOKEN_ENV: Final = "WARPSMITH_EVALUATOR_TOKEN"

MOST_TRIALS: Final = 100
"""Trials that a request may ask for: the reference runs several times for each, on the server's time."""
MOST_QUEUED: Final = 100_000
MOST_KEPT: Final = 1_000_000
MOST_DRAIN_S: Final = 86_400.0


class ServerSettings(BaseModel):
    """Bounds of what the server takes, and how it answers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    token: str | None = Field(default=None, repr=False, description="What clients must show; None asks for nothing.")
    queue: int = Field(default=64, ge=0, le=MOST_QUEUED, description="Evaluations that may wait for a slot.")
    max_body_bytes: int = Field(default=8 << 20, ge=1024, description="Largest body of a request.")
    max_source_chars: int = Field(default=256 << 10, ge=1024, description="Longest problem or candidate.")
    max_timeout_s: float = Field(default=300.0, gt=0, description="Longest run of a candidate that may be asked for.")
    drain_s: float = Field(
        default=30.0, ge=0, le=MOST_DRAIN_S, description="What evaluations under way get after SIGTERM."
    )
    max_failures: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Failures in a row after which a device is probed; quarantined, if it fails.",
    )
    cache: bool = Field(default=False, description="Whether a kept verdict will do for a request that does not say.")
    cache_entries: int = Field(default=4096, ge=0, le=MOST_KEPT, description="Verdicts kept; 0 keeps none.")
    legacy_errors: bool = Field(default=False, description="Kernel failures on /eval as HTTP 400, 500 and 504.")
