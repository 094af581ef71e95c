"""Response models of the routes, for /openapi.json: the forms of `Verdict.to_record` and `exec_result.result_of`."""

from dataclasses import MISSING, fields
from typing import Any, Final, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from warpsmith.evaluator.config import RecordingWay
from warpsmith.evaluator.verdict import VERDICT_FORMAT, Status, Verdict


def _of_record() -> dict[str, Any]:
    """Return the fields of `Verdict.to_record` as pydantic takes them: those of a verdict, and what follows from it."""
    hints = get_type_hints(Verdict)
    known: dict[str, Any] = {}
    for one in fields(Verdict):
        default = ... if one.default is MISSING else one.default
        made = one.default_factory
        known[one.name] = hints[one.name], default if made is MISSING else Field(default_factory=made)
    known["bound_share"] = float | None, Field(default=None, description="bound.ms over runtime_ms; 1 is the bound.")
    known["format"] = int, Field(default=VERDICT_FORMAT, description="Version of this object.")
    return known


VerdictRecord: Final[type[BaseModel]] = create_model("Verdict", **_of_record())


class VerdictAnswer(BaseModel):
    """One verdict."""

    verdict: VerdictRecord


class BatchError(BaseModel):
    """Why an item got no verdict."""

    type: str = Field(description="In snake_case, as in the errors of other routes.")
    message: str
    remedy: str


class BatchLine(BaseModel):
    """One line of a batch's response: `verdict` or `error`, for the item with that index."""

    index: int = Field(ge=0)
    verdict: VerdictRecord | None = None
    error: BatchError | None = None


class ExecMetadata(BaseModel):
    """The open part of KernelExecResult; further keys describe the failure."""

    model_config = ConfigDict(extra="allow")

    hardware: str
    device: str
    status: Status
    flags: list[str]
    correctness_trials: str = Field(
        description="`(n / n)` for a correct kernel, else `(0 / n)`: how many passed before is not reported."
    )
    isolation: str = Field(description="The weakest containment that a worker of this evaluation had.")
    recording: RecordingWay | None = Field(
        description="How host code was recorded: without a device and without contents, or where kernels run."
    )
    timing_tier: str
    cached: bool
    cached_age_s: float
    error_category: str | None = Field(default=None, description="One of TritonForge's categories.")
    error_kind: str | None = Field(default=None, description="The finer error category of `/v1/evaluate`.")
    compilation_error: str | None = None
    runtime_error: str | None = None
    correctness_issue: str | None = None
    max_difference: list[str] | None = None


class ExecResult(BaseModel):
    """KernelBench's KernelExecResult. Times in milliseconds, -1 if nothing was timed."""

    compiled: bool
    correctness: bool
    metadata: ExecMetadata
    runtime: float
    runtime_stats: dict[str, Any]
    ref_runtime: float
    ref_runtime_stats: dict[str, Any]


OF_VERDICT: Final[dict[int | str, dict[str, Any]]] = {200: {"model": VerdictAnswer}}
OF_EXEC: Final[dict[int | str, dict[str, Any]]] = {200: {"model": ExecResult}}
OF_LINES: Final[dict[int | str, dict[str, Any]]] = {200: {"model": BatchLine}}
