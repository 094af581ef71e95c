"""Configuration of the evaluator. Importable without torch."""

import os
from typing import Any, Final, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from warpsmith.records.errors import UsageError

IsolationTier = Literal["namespaces", "landlock", "none"]
RecordingWay = Literal["detached", "on_device"]
RECORDING_WAYS: Final[tuple[RecordingWay, ...]] = get_args(RecordingWay)
RECORDING_HELP: Final = (
    "How host code is recorded: in a process without device and contents where that is possible (detached), or always "
    "where kernels run (on_device)."
)
Precision = Literal["ieee", "tf32"]
PRECISION_HELP: Final = "Of float32 products: exact (ieee), or TF32 for the reference too, which tolerances then allow."
MAX_TENSOR_BYTES: Final = {"cpu": 1 << 30, "cuda": 16 << 30}
LEAST_TIMED: Final = 10
MOST_TIMED: Final = 10_000
LAST_GPU: Final = 63
MAX_TIMEOUT_S: Final = 3600
GPU_SLOTS: Final = 3
"""More evaluations at once were no faster on an H200: docs/timing.md."""
TIER_STRENGTH: Final[dict[str, int]] = {"none": 0, "landlock": 1, "namespaces": 2}


def _default_slots() -> int:
    return len(os.sched_getaffinity(0))


class EvaluatorConfig(BaseModel):
    """How candidates are judged: the pool's size, how far workers are contained, and what an evaluation may take."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    device: Literal["cpu", "cuda"] = Field(
        default="cpu", description="Where candidates run: under Triton's interpreter (`cpu`), or on a GPU (`cuda`)."
    )
    gpu: int = Field(
        default=0, ge=0, le=LAST_GPU, description="Number of the GPU, as nvidia-smi counts; workers see no other."
    )
    slots: int = Field(
        default_factory=lambda fields: GPU_SLOTS if fields.get("device") == "cuda" else _default_slots(),
        ge=1,
        le=256,
        description="Evaluations that run at once; by default one for each core, and three on a GPU.",
    )
    ready_workers: int = Field(
        default=2, ge=1, le=64, description="Workers that wait forked and sandboxed, for each slot."
    )
    reference_sessions: int = Field(
        default=8,
        ge=1,
        le=256,
        description="Most reference workers that are kept, each for the next evaluation of its problem.",
    )
    minimum_isolation: IsolationTier = Field(
        default="landlock", description="Weakest containment that is accepted; a machine that can do less is refused."
    )
    strongest_isolation: IsolationTier = Field(
        default="namespaces",
        description="Strongest containment that is tried; lower it only where that one misbehaves.",
    )
    cgroups: Literal["auto", "required", "off"] = Field(
        default="auto",
        description="Whether each worker gets a cgroup of its own: where a subtree is delegated (`auto`), or never "
        "(`off`). `required` refuses a machine that gives none. docs/threat-model.md says what it bounds.",
    )
    target_arch: int = Field(
        default=90,
        ge=75,
        le=130,
        description="Chip that kernels are compiled for: 90 is sm_90. On a GPU it is that one's, whatever this says.",
    )
    trials: int = Field(default=5, ge=1, le=1000, description="Correctness trials, each with a fresh secret seed.")
    timed_trials: int = Field(
        default=100, ge=LEAST_TIMED, le=MOST_TIMED, description="Timed calls of candidate and reference each."
    )
    timing: bool = Field(default=True, description="Whether a correct candidate is timed, where a GPU is there for it.")
    timeout_s: float = Field(
        default=30.0,
        gt=0,
        le=MAX_TIMEOUT_S,
        description="Deadline of the candidate's whole run; on a CPU without the time in which it waits for a "
        "processor.",
    )
    compile_timeout_s: float = Field(
        default=60.0, gt=0, le=MAX_TIMEOUT_S, description="Deadline of compiling one candidate."
    )
    reference_timeout_s: float = Field(
        default=60.0,
        gt=0,
        le=MAX_TIMEOUT_S,
        description="Deadline of one step of the reference: making inputs, or one run.",
    )
    start_timeout_s: float = Field(
        default=120.0, gt=0, le=MAX_TIMEOUT_S, description="Deadline of starting judge and zygotes."
    )
    nice: int = Field(
        default=0,
        ge=0,
        le=19,
        description="Niceness of judge and workers: the higher, the more they yield to other processes.",
    )
    memory_bytes: int = Field(default=4 << 30, ge=64 << 20, description="Most memory of one worker.")
    scratch_bytes: int = Field(default=256 << 20, ge=1 << 20, description="Most scratch space of one worker.")
    processes: int = Field(default=64, ge=4, description="Most processes and threads of one worker.")
    max_tensor_bytes: int = Field(
        default_factory=lambda fields: MAX_TENSOR_BYTES[fields.get("device", "cpu")],
        ge=1 << 16,
        description="Most bytes of one set of inputs or outputs; by default 1 GiB on a CPU, 16 GiB on a GPU.",
    )
    allow_degenerate: bool = Field(
        default=False,
        description="Flag a problem that a constant passes (`degenerate_problem`) instead of refusing it.",
    )
    allow_unreplayed: bool = Field(
        default=False,
        description="Flag verdicts on a problem whose inputs have other shapes each time (`not_replayed`), where the "
        "launches cannot be replayed on other inputs, instead of refusing the problem.",
    )
    precision: Precision = Field(
        default="ieee",
        description="Precision of float32 products: exact, or TF32, which torch may then use for the reference too "
        "and which the tolerance of a problem with such products allows.",
    )
    conditioning_s: float = Field(
        default=5.0,
        gt=0,
        le=MAX_TIMEOUT_S,
        description="Seconds that the reference may take beyond its own run, for each input set, for a run in fp64 "
        "and runs on perturbed inputs, from which the tolerance of each element is found.",
    )
    hidden_shapes: bool = Field(
        default=True,
        description="Give one trial inputs of other shapes than get_inputs() gives, where the problem allows that.",
    )
    recording: RecordingWay = Field(
        default="detached",
        description="How host code is recorded. `detached`: in a process without device and without contents; falls "
        "back to `on_device` where host code reads a content, tunes on a GPU or asks for facts of a compiled kernel. "
        "`on_device`: always where kernels run. Verdicts rest on replays either way.",
    )
    extra_operators: tuple[str, ...] = Field(
        default=(), description="ATen operators that candidates may use beyond the list in operators.py: `aten::cat`."
    )

    @model_validator(mode="after")
    def _check_tiers(self) -> Self:
        if TIER_STRENGTH[self.strongest_isolation] < TIER_STRENGTH[self.minimum_isolation]:
            raise ValueError(
                f"strongest_isolation {self.strongest_isolation!r} is weaker than minimum_isolation "
                f"{self.minimum_isolation!r}; lower the minimum too, or raise the strongest"
            )
        return self


def configured(**given: Any) -> EvaluatorConfig:
    """Return the configuration of a command's options, of which None leaves a setting as it is by default.

    Raises:
        UsageError: settings are out of bounds; it names each.
    """
    try:
        return EvaluatorConfig(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        causes = [f"{'.'.join(map(str, one['loc'])) or 'the settings'}: {one['msg']}" for one in error.errors()]
        raise UsageError(
            f"The evaluator cannot be set up like this: {'; '.join(causes)}.",
            "Change the option of that name; docs/evaluator-reference.md has the bounds.",
        ) from error


def timing_of(timed_trials: int) -> dict[str, Any]:
    """Return the settings that `--timed-trials` stands for; 0 times nothing.

    Raises:
        UsageError: so few calls have no median worth its name.
    """
    if 0 < timed_trials < LEAST_TIMED:
        raise UsageError(
            f"--timed-trials is {timed_trials}; 0, or {LEAST_TIMED} and more were expected.",
            f"The median of fewer than {LEAST_TIMED} calls says little; 0 times nothing.",
        )
    return {"timing": timed_trials > 0, "timed_trials": timed_trials or LEAST_TIMED}
