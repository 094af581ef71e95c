"""Settings of the server. Importable without FastAPI."""

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

DEFAULT_PORT: Final = 18188
"""The port of TritonForge's evaluation server, so that its clients find this one."""

DEFAULT_TOKEN_ENV: Final = "WARPSMITH_EVALUATOR_TOKEN"

MOST_TRIALS: Final = 100
"""Maximum trials per request: the reference runs several times for each, on the server's time."""
MOST_QUEUED: Final = 100_000
MOST_CACHED: Final = 1_000_000
MOST_DRAIN_S: Final = 86_400.0


class ServerSettings(BaseModel):
    """Bounds on requests, and options of responses."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    token: str | None = Field(default=None, repr=False, description="Token that clients must send; None requires none.")
    queue: int = Field(
        default=64, ge=0, le=MOST_QUEUED, description="Evaluations of one client that can wait for a slot."
    )
    max_body_bytes: int = Field(default=8 << 20, ge=1024, description="Largest body of a request.")
    max_source_chars: int = Field(default=256 << 10, ge=1024, description="Longest problem or candidate.")
    max_timeout_s: float = Field(
        default=300.0, gt=0, description="Longest deadline of a candidate's run that a request can set."
    )
    drain_s: float = Field(
        default=30.0, ge=0, le=MOST_DRAIN_S, description="Seconds that running evaluations get after SIGTERM."
    )
    max_failures: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Consecutive failures after which a device is probed; if it fails, it is quarantined.",
    )
    cache: bool = Field(default=False, description="Whether to use cached verdicts if a request does not say.")
    cache_entries: int = Field(
        default=4096, ge=0, le=MOST_CACHED, description="Maximum cached verdicts; 0 caches none."
    )
    legacy_errors: bool = Field(default=False, description="Kernel failures on /eval as HTTP 400, 500 and 504.")
