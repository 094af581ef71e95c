"""What an evaluation ends in: a status with its evidence. Importable without torch."""

from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, get_args

from warpsmith.evaluator.config import RecordingWay

Status = Literal[
    "correct", "incorrect", "compile_error", "runtime_error", "timeout", "rejected", "undecided", "invalid"
]
STATUSES: Final[tuple[str, ...]] = get_args(Status)

ErrorCategory = Literal[
    "shared_memory_exceeded",
    "illegal_memory_access",
    "memory_fault",
    "out_of_memory",
    "segmentation_fault",
    "unsupported_architecture",
    "unsupported_dtype",
    "interpreter_differs",
    "triton_compilation_error",
    "triton_jit_error",
    "syntax_error",
    "timeout",
    "process_error",
    "parse_error",
    "name_error",
    "import_error",
    "attribute_error",
    "type_error",
    "value_error",
    "index_error",
    "key_error",
    "argument_error",
    "shape_error",
    "dtype_error",
    "device_error",
    "output_error",
    "arithmetic_error",
    "assertion_error",
    "not_implemented_error",
    "recursion_error",
    "os_error",
    "system_exit",
    "runtime_error",
    "recording_limit",
    "unknown",
]
RECORDED_SECONDS: Final = ("compile", "wait", "evaluate")
ERROR_CATEGORIES: Final[tuple[str, ...]] = get_args(ErrorCategory)

Flag = Literal[
    "torch_fallback",
    "no_kernel",
    "decoy_kernel",
    "not_from_kernels",
    "not_replayed",
    "input_mutation",
    "degenerate_problem",
    "unvaried",
    "returns_input",
    "host_memory",
    "missing_buffers",
    "unvaried",
    "unmatched_parameters",
    "tf32_dot",
    "no_fp64",
    "kernelbench_passes",
    "wrong_when_timed",
    "impossible_time",
    "clocks_disagree",
    "retried",
]
FLAGS: Final[tuple[str, ...]] = get_args(Flag)


@dataclass(frozen=True, slots=True)
class Seconds:
    """Where an evaluation's time went, in seconds.

    Attributes:
        compile: compiling its kernels, which goes on beside the trials where no GPU is there to launch them.
        wait: waiting for a free slot, before the evaluation began.
        evaluate: the evaluation, from its beginning to its verdict.
        workers: of `evaluate`, waiting for workers that are ready, contexts on a device included.
        lease: of `evaluate`, waiting for others to leave the device.
        stall: of `evaluate`, standing still until kernels were compiled.
        correctness: of `evaluate`, trials and replays.
        mapping: of `evaluate`, giving each tensor of the timed calls memory of its own.
        timing: of `evaluate`, timing candidate and reference.
        age: since a verdict that was kept was reached; 0 for a new one.
    """

    compile: float = 0.0
    wait: float = 0.0
    evaluate: float = 0.0
    workers: float = 0.0
    lease: float = 0.0
    stall: float = 0.0
    correctness: float = 0.0
    mapping: float = 0.0
    timing: float = 0.0
    age: float = 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of judging one candidate.

    Attributes:
        status: one of STATUSES. `invalid` means that the evaluator failed, never that the candidate did; `undecided`
            that the candidate looks at what a chip computes otherwise than the interpreter, which no GPU ever answers.
        compiled: whether every kernel that ran on inputs of the problem's own shapes was compiled for the target chip
            by the compile worker.
        correct: whether every trial's output agreed with the reference; true only with status `correct`.
        speedup: reference time over candidate time; None where nothing is timed.
        runtime_ms: the candidate's time in milliseconds; None where nothing is timed.
        reference_ms: the reference's time in milliseconds; None where nothing is timed.
        timing_tier: how the time was taken: `two_clocks` (the median of the worker's events, supported by the judge's
            clock), `graph` (the judge's clock over graph replays, for the shortest), `events` (no graph could be
            captured), or `none` where nothing is timed.
        isolation_tier: the weakest containment that a worker of this evaluation had.
        recording: how host code was recorded: `detached`, in a process without device and without contents, or
            `on_device`, where kernels run (on a CPU interpreted). None where no worker was asked, or the evaluator lost
            it.
        flags: what was noticed, from FLAGS.
        error_category: one of ERROR_CATEGORIES; None where nothing was raised: a right output, a wrong one, and what
            was rejected for how it was computed.
        error_message: what went wrong, written to be shown to whoever wrote the candidate.
        max_abs_error: largest absolute error over all trials that ran; None if no output was compared, or none had a
            finite element.
        mismatched_fraction: largest share of elements outside the tolerance in one trial, 0 to 1; None likewise.
        trials: correctness trials that ran.
        cached: whether all of this is a kept verdict, for which nothing was run.
        compile_cached: whether every kernel's compilation was known.
        device: what the candidate ran on.
        seconds: where the time went.
    """

    status: Status
    compiled: bool
    correct: bool
    speedup: float | None = None
    runtime_ms: float | None = None
    reference_ms: float | None = None
    timing_tier: str = "none"
    isolation_tier: str = "none"
    recording: RecordingWay | None = None
    flags: tuple[str, ...] = ()
    error_category: str | None = None
    error_message: str | None = None
    max_abs_error: float | None = None
    mismatched_fraction: float | None = None
    trials: int = 0
    cached: bool = False
    compile_cached: bool = False
    device: str = "cpu"
    seconds: Seconds = field(default_factory=Seconds)

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"status {self.status!r} is none of {', '.join(STATUSES)}")
        if self.correct != (self.status == "correct"):
            raise ValueError(f"correct={self.correct} does not fit status {self.status!r}")
        if self.error_message is not None:
            object.__setattr__(self, "error_message", well_formed(self.error_message))

    def to_record(self) -> dict[str, Any]:
        """Return the verdict as plain values: the object of `--json`."""
        record = asdict(self)
        record["flags"] = list(self.flags)
        return record

    def to_row(self) -> dict[str, Any]:
        """Return the verdict as the tables of `warpsmith.records` hold it: of the seconds, these three."""
        record = self.to_record()
        del record["compile_cached"]
        return record | {"seconds": {name: record["seconds"][name] for name in RECORDED_SECONDS}}

    @staticmethod
    def from_record(record: dict[str, Any]) -> "Verdict":
        """Return the verdict that `to_record` wrote."""
        values = dict(record)
        values["flags"] = tuple(values["flags"])
        values["seconds"] = Seconds(**values["seconds"])
        return Verdict(**values)


def well_formed(text: str) -> str:
    """Return text that every encoding takes: foreign code may have put half of a surrogate pair into it."""
    return text.encode("utf-8", "replace").decode()


def invalid(message: str, category: ErrorCategory = "process_error") -> Verdict:
    """Return the verdict for a failure of the evaluator itself."""
    return Verdict("invalid", compiled=False, correct=False, error_category=category, error_message=message)
