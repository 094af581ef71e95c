"""Configuration of the evaluator. Importable without torch."""

from typing import TYPE_CHECKING, Any, Final, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from warpsmith.evaluator.baselines import BASELINE_HELP, EAGER, BaselineName, baselines_of, compiled_ones
from warpsmith.evaluator.devices.kinds import DeviceKind
from warpsmith.evaluator.devices.registry import DeviceName, device_kind
from warpsmith.evaluator.languages.chips import NVIDIA_CHIPS, TARGET_PATTERN, Chip, chip_name, chip_of, is_amd
from warpsmith.evaluator.languages.registry import LanguageName
from warpsmith.evaluator.recordings.library_policy import POLICY_HELP, OperatorPolicy
from warpsmith.records.errors import UsageError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

IsolationTier = Literal["namespaces", "landlock", "none"]
RecordingWay = Literal["detached", "on_device"]
ISOLATION_HELP: Final = (
    "Weakest accepted isolation of workers: namespaces (strongest), landlock, or none (no protection)."
)
RECORDING_WAYS: Final[tuple[RecordingWay, ...]] = get_args(RecordingWay)
RECORDING_HELP: Final = (
    "How host code is recorded: in a process without a device, on zeros, if possible (detached), or always where "
    "kernels run (on_device)."
)
Precision = Literal["ieee", "tf32"]
PRECISION_HELP: Final = (
    "Float32 matrix products: exact (ieee), or TF32 in the reference too, with tolerances to match (tf32)."
)
FOLLOWS_FROM_OTHERS: Final = "default_factory_not_called"
"""pydantic's type of an error of a setting whose default depends on one that is wrong."""
LEAST_TIMED: Final = 10
MOST_TIMED: Final = 10_000
LAST_GPU: Final = 63
FIRST_ARCH: Final = min(NVIDIA_CHIPS)
LAST_ARCH: Final = 130
MAX_TIMEOUT_S: Final = 3600
TIER_STRENGTH: Final[dict[str, int]] = {"none": 0, "landlock": 1, "namespaces": 2}


class EvaluatorConfig(BaseModel):
    """Sizes of the pool, containment of workers, and limits of an evaluation."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    device: DeviceName = Field(
        default="cpu", description="Where candidates run: under Triton's interpreter (`cpu`), or on a GPU (`cuda`)."
    )
    language: LanguageName = Field(
        default="triton", description="Kernel language of candidates; docs/extending.md says how to add one."
    )
    gpu: int = Field(
        default=0, ge=0, le=LAST_GPU, description="Number of the GPU, as nvidia-smi counts; workers see no other."
    )
    slots: int = Field(
        default_factory=lambda fields: device_kind(fields.get("device", "cpu")).default_slots(),
        ge=1,
        le=256,
        description="Evaluations that run at once: one per core; three on a GPU.",
    )
    judges: int = Field(
        default=1,
        ge=1,
        le=16,
        description="Judge processes that share slots and device; one is a single Python process, which bounds it.",
    )
    ready_workers: int = Field(default=2, ge=1, le=64, description="Idle workers kept forked and sandboxed, per slot.")
    reference_sessions: int = Field(
        default=8, ge=1, le=256, description="Reference workers kept for the next evaluation of their problem."
    )
    minimum_isolation: IsolationTier = Field(
        default="landlock", description="Weakest accepted containment; a machine that supports less is refused."
    )
    strongest_isolation: IsolationTier = Field(
        default="namespaces", description="Containment tried first; lower it only if that one misbehaves."
    )
    cgroups: Literal["auto", "required", "off"] = Field(
        default="auto",
        description="Whether each worker gets a cgroup of its own: if a subtree is delegated (`auto`), or never "
        "(`off`). `required` refuses a machine without one. docs/threat-model.md says what it bounds.",
    )
    target_arch: int = Field(
        default=90,
        ge=FIRST_ARCH,
        le=LAST_ARCH,
        description="Chip that kernels are compiled for: 90 is sm_90. Ignored on a GPU, whose own chip is used.",
    )
    target: str = Field(
        default="",
        pattern=TARGET_PATTERN,
        description="The same by name, and AMD's chips, such as gfx942: kernels are then compiled by Triton's compiler "
        "for AMD. target_arch when empty. Not for a GPU.",
    )
    trials: int = Field(default=6, ge=1, le=1000, description="Correctness trials, each with a fresh secret seed.")
    timed_trials: int = Field(
        default=100, ge=LEAST_TIMED, le=MOST_TIMED, description="Timed calls of candidate and reference each."
    )
    sequential_timing: bool = Field(
        default=False,
        description="Whether timing ends sooner where that suffices (docs/timing-design.md). Times are less precise.",
    )
    contexts_beside_timing: bool = Field(
        default=False,
        description="Whether workers make their contexts on a GPU while candidates are timed on it "
        "(docs/timing-design.md): times are less precise.",
    )
    driver_beside_timing: bool = Field(
        default=False,
        description="Whether memory is mapped, code loaded and graphs captured while candidates are timed on a GPU "
        "(docs/timing-design.md). What that does to times was not measured.",
    )
    timing: bool = Field(default=True, description="Whether a correct candidate is timed on a GPU.")
    baseline: tuple[BaselineName, ...] = Field(default=(EAGER,), description=BASELINE_HELP)
    baseline_timeout_s: float = Field(
        default=180.0,
        gt=0,
        le=MAX_TIMEOUT_S,
        description="Deadline of compiling and tuning a problem's reference for one baseline.",
    )
    timeout_s: float = Field(
        default=30.0,
        gt=0,
        le=MAX_TIMEOUT_S,
        description="Deadline of the candidate's whole run; on a CPU without the time in which it waits for a "
        "processor.",
    )
    compile_timeout_s: float = Field(
        default=60.0,
        gt=0,
        le=MAX_TIMEOUT_S,
        description="Deadline of compiling one candidate, without the time in which the compiler waits for a "
        "processor.",
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
        default=0, ge=0, le=19, description="Niceness of judge and workers: higher yields the processors to others."
    )
    memory_bytes: int = Field(default=4 << 30, ge=64 << 20, description="Memory limit of one worker.")
    scratch_bytes: int = Field(default=256 << 20, ge=1 << 20, description="Scratch space of one worker.")
    processes: int = Field(default=64, ge=4, description="Processes and threads of one worker.")
    max_tensor_bytes: int = Field(
        default_factory=lambda fields: device_kind(fields.get("device", "cpu")).max_tensor_bytes,
        ge=1 << 16,
        description="Maximum bytes of one set of inputs or outputs; by default 1 GiB on a CPU, 16 GiB on a GPU.",
    )
    allow_degenerate: bool = Field(
        default=False,
        description="Flag a problem that a constant passes (`degenerate_problem`) instead of refusing it.",
    )
    allow_unreplayed: bool = Field(
        default=False,
        description="If a problem's input shapes change at each call, its launches cannot be replayed on other inputs: "
        "flag its verdicts (`not_replayed`) instead of refusing the problem.",
    )
    precision: Precision = Field(
        default="ieee",
        description="Precision of float32 products: exact, or TF32, which the reference may then use too and the "
        "tolerance of a problem with such products allows.",
    )
    conditioning_s: float = Field(
        default=5.0,
        gt=0,
        le=MAX_TIMEOUT_S,
        description="Seconds per input set that the reference may take beyond its own run, for a run in fp64 and runs "
        "on perturbed inputs, which determine the tolerance of each element.",
    )
    hidden_shapes: bool = Field(
        default=True,
        description="Give one trial inputs of other shapes than get_inputs() gives, if the problem allows it.",
    )
    recording: RecordingWay = Field(
        default="detached",
        description="How host code is recorded. `detached`: in a process without device and without contents; falls "
        "back to `on_device` if host code reads a content, tunes on a GPU or queries a compiled kernel. "
        "`on_device`: always where kernels run. Verdicts are based on replays either way.",
    )
    operators: OperatorPolicy = Field(default="none", description=POLICY_HELP)

    @field_validator("baseline", mode="before")
    @classmethod
    def _named_baselines(cls, given: Any) -> tuple[BaselineName, ...]:
        return baselines_of(given)

    @property
    def chip(self) -> Chip:
        """What kernels are compiled for."""
        return chip_of(self.target, self.target_arch)

    @property
    def compiled_baselines(self) -> tuple[BaselineName, ...]:
        """Baselines that torch.compile makes; none if nothing is to be timed."""
        return compiled_ones(self.baseline) if self.timing else ()

    @property
    def most_judges(self) -> int:
        """How many judges run: a copy of a configuration can have fewer slots than judges."""
        return min(self.judges, self.slots)

    def of_judge(self, place: int) -> Self:
        """Return the configuration of one of `most_judges`: it has a share of the slots."""
        judges = self.most_judges
        slots = self.slots // judges + (place < self.slots % judges)
        return self.model_copy(update={"slots": slots, "judges": 1})

    @property
    def device_kind(self) -> DeviceKind:
        """What is known about the device before it is opened."""
        return device_kind(self.device)

    @model_validator(mode="after")
    def _check_target(self) -> Self:
        if self.target and not self.device_kind.interprets:
            raise ValueError(f"target {self.target!r} is for the device cpu; a GPU's own chip is used on it")
        if self.device_kind.interprets and not is_amd(self.chip) and self.chip not in NVIDIA_CHIPS:
            known = ", ".join(map(chip_name, NVIDIA_CHIPS))
            raise ValueError(f"the target {chip_name(self.chip)} is not a chip that is known here: {known}")
        return self

    @model_validator(mode="after")
    def _check_judges(self) -> Self:
        if self.judges > self.slots:
            raise ValueError(f"judges is {self.judges}, and slots {self.slots}; each judge needs a slot of its own")
        return self

    @model_validator(mode="after")
    def _check_tiers(self) -> Self:
        if TIER_STRENGTH[self.strongest_isolation] < TIER_STRENGTH[self.minimum_isolation]:
            raise ValueError(
                f"strongest_isolation {self.strongest_isolation!r} is weaker than minimum_isolation "
                f"{self.minimum_isolation!r}; lower the minimum too, or raise the strongest"
            )
        return self


def configured(**options: Any) -> EvaluatorConfig:
    """Return the configuration of a command's options; None means the setting's default.

    Raises:
        UsageError: settings are out of bounds; it names each.
    """
    try:
        return EvaluatorConfig(**{name: value for name, value in options.items() if value is not None})
    except ValidationError as error:
        causes = [_in_words(one) for one in error.errors() if one["type"] != FOLLOWS_FROM_OTHERS]
        raise UsageError(
            f"The evaluator cannot be configured like this: {'; '.join(causes)}.",
            "Change the option of that name; docs/evaluator-reference.md has the bounds.",
        ) from error


def _in_words(error: "ErrorDetails") -> str:
    where, what = ".".join(map(str, error["loc"])), error["msg"].removeprefix("Value error, ")
    return f"{where}: {what}" if where else what


def tiers_of(isolation: str) -> dict[str, Any]:
    """Return the settings that `--isolation` stands for."""
    return {"minimum_isolation": isolation, "strongest_isolation": "none" if isolation == "none" else "namespaces"}


def timing_of(timed_trials: int) -> dict[str, Any]:
    """Return the settings of `--timed-trials`; 0 disables timing.

    Raises:
        UsageError: too few calls for a meaningful median.
    """
    if 0 < timed_trials < LEAST_TIMED:
        raise UsageError(
            f"--timed-trials is {timed_trials}; 0, or {LEAST_TIMED} and more were expected.",
            f"The median of fewer than {LEAST_TIMED} calls says little; 0 disables timing.",
        )
    return {"timing": timed_trials > 0, "timed_trials": timed_trials or LEAST_TIMED}
