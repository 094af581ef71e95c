"""The result of an evaluation: a status with its evidence. Importable without torch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Literal, get_args

from warpsmith.evaluator.baselines import EAGER, BaselineName, BaselineNote
from warpsmith.evaluator.config import RecordingWay
from warpsmith.evaluator.figures import Bound, Clock, KernelFigures
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy

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
    "unsupported_feature",
    "interpreter_differs",
    "needs_device",
    "triton_compilation_error",
    "cuda_compilation_error",
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
VERDICT_FORMAT: Final = 2
"""Version of the object that `Verdict.to_record` returns. Version 1 had no `format`, no baselines and no figures."""
_LISTS: Final = ("flags", "operators", "baseline_notes", "kernels", "workloads")
UNRECORDED: Final = (
    "compile_cached", "policy", "operators", "kernel_share", "baseline", "speedups", "references_ms", "baseline_notes",
    "bound", "bound_share", "kernels", "bytes_moved", "clock", "format", "workloads",
)  # fmt: skip
"""Fields of a verdict that a run's records do not have."""
ERROR_CATEGORIES: Final[tuple[str, ...]] = get_args(ErrorCategory)

Flag = Literal[
    "other_language",
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
    "constant_input",
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
    """Where an evaluation's time went, in seconds. All but the first two and `age` are parts of `evaluate`.

    From `alone` to `driver_wait` they say how the evaluation had the device, and overlap with the others: `lease` is
    the sum of the three waits. The rest of `evaluate` it spent without the device.

    Attributes:
        compile: compiling its kernels; without a GPU that runs in parallel to the trials.
        wait: waiting for a free slot, before the evaluation began.
        evaluate: the evaluation, from its start to its verdict.
        workers: waiting for ready workers, including their contexts on a device.
        lease: waiting for other evaluations to release the device.
        stall: waiting for kernels to be compiled.
        correctness: trials and replays.
        mapping: giving each tensor of the timed calls its own memory.
        timing: timing candidate and reference.
        baselines: compiling the reference for baselines and timing it, once per problem; or waiting for another thread
            that does.
        alone: having the device alone, to time.
        alone_wait: waiting for that.
        shared: sharing the device with other evaluations.
        shared_wait: waiting for that.
        driver: mapping memory, loading code and capturing graphs, without what runs on the device.
        driver_wait: waiting for that.
        age: time since a cached verdict was reached; 0 for a new one.
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
    baselines: float = 0.0
    alone: float = 0.0
    alone_wait: float = 0.0
    shared: float = 0.0
    shared_wait: float = 0.0
    driver: float = 0.0
    driver_wait: float = 0.0
    age: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkloadResult:
    """What the verdict on a problem with several workloads says about one of them; its fields are those of a `Verdict`.

    Attributes:
        name: the workload's.
    """

    name: str
    status: Status
    compiled: bool
    speedup: float | None = None
    runtime_ms: float | None = None
    reference_ms: float | None = None
    timing_tier: str = "none"
    flags: tuple[str, ...] = ()
    error_category: str | None = None
    error_message: str | None = None
    max_abs_error: float | None = None
    mismatched_fraction: float | None = None
    trials: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of judging one candidate.

    Attributes:
        status: one of STATUSES. `invalid` means that the evaluator failed, never that the candidate did; `undecided`
            that only a device can decide (CPU only): a chip computes something differently from the interpreter, or
            nothing interprets the kernels.
        compiled: whether every kernel that ran on inputs of the problem's own shapes was compiled for the target chip
            by the compile worker.
        correct: whether every trial's output agreed with the reference; true only with status `correct`.
        speedup: reference time over candidate time, of the reference that `baseline` names; None if nothing was timed.
        runtime_ms: the candidate's time in milliseconds; None if nothing was timed.
        reference_ms: that reference's time in milliseconds; None if nothing was timed.
        baseline: the form of the reference that `speedup` compares with: the first one that was asked for.
        speedups: speedup over each form of the reference that was asked for and could be timed, by baseline.
        references_ms: their times in milliseconds.
        baseline_notes: why others have no time.
        bound: the problem's bytes, operations and least time on this device; None unless correct.
        kernels: what the kernels of one call of forward use of the chip that they were compiled for; empty unless
            correct.
        bytes_moved: bytes that one call reads and writes in global memory, on a device that interprets: what all
            programs load and store without masked lanes, atomic operations twice, what host code copies and fills, and
            twice what the chip spills. Nothing is cached: what is loaded again counts again. The most over the trials
            on the problem's own shapes. None unless correct, on other devices, and if library operators run.
        clock: clock of the multiprocessors while the candidate was timed; None if nothing was timed, or unknown.
        timing_tier: how the time was taken: `two_clocks` (the median of the worker's events, confirmed by the judge's
            clock), `graph` (the judge's clock over graph replays, for the shortest), `events` (no graph could be
            captured), or `none` if nothing was timed.
        isolation_tier: the weakest containment that a worker of this evaluation had.
        recording: how host code was recorded: `detached`, in a process without device and without contents, or
            `on_device`, where kernels run (interpreted on a CPU). None if no worker started, or the evaluator lost it.
        flags: observations, from FLAGS.
        policy: which operators of torch the candidate could call besides its kernels: `none`, `library` or `any`.
        operators: those that its recordings call, such as `aten.convolution`; empty if it calls none.
        kernel_share: share of the device's time in the candidate's own kernels, 0 to 1, the rest being library
            operators, copies and fills; None if nothing was timed.
        error_category: one of ERROR_CATEGORIES; None if nothing was raised: the output was right or wrong, or the
            candidate was rejected for how it computed the output.
        error_message: what went wrong, written for the candidate's author.
        max_abs_error: largest absolute error over all trials that ran; None if no output was compared, or none had a
            finite element.
        mismatched_fraction: largest share of elements outside the tolerance in one trial, 0 to 1; None likewise.
        trials: correctness trials that ran.
        cached: whether this is a cached verdict, for which nothing ran.
        compile_cached: whether every kernel's compilation was cached.
        device: what the candidate ran on.
        seconds: where the time went.
        workloads: the results by workload, in order, of a problem that has several (`combined_verdict`); those after
            one that was `invalid` or a `timeout` are missing. Empty for any other problem.
    """

    status: Status
    compiled: bool
    correct: bool
    speedup: float | None = None
    runtime_ms: float | None = None
    reference_ms: float | None = None
    baseline: BaselineName = EAGER
    speedups: dict[str, float] = field(default_factory=dict)
    references_ms: dict[str, float] = field(default_factory=dict)
    baseline_notes: tuple[BaselineNote, ...] = ()
    bound: Bound | None = None
    kernels: tuple[KernelFigures, ...] = ()
    bytes_moved: int | None = None
    clock: Clock | None = None
    timing_tier: str = "none"
    isolation_tier: str = "none"
    recording: RecordingWay | None = None
    flags: tuple[str, ...] = ()
    policy: OperatorPolicy = "none"
    operators: tuple[str, ...] = ()
    kernel_share: float | None = None
    error_category: str | None = None
    error_message: str | None = None
    max_abs_error: float | None = None
    mismatched_fraction: float | None = None
    trials: int = 0
    cached: bool = False
    compile_cached: bool = False
    device: str = "cpu"
    seconds: Seconds = field(default_factory=Seconds)
    workloads: tuple[WorkloadResult, ...] = ()

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"status {self.status!r} is not one of {', '.join(STATUSES)}")
        if self.correct != (self.status == "correct"):
            raise ValueError(f"correct={self.correct} does not fit status {self.status!r}")
        if self.error_message is not None:
            object.__setattr__(self, "error_message", well_formed(self.error_message))

    @property
    def bound_share(self) -> float | None:
        """The problem's least time over the candidate's; None if either is unknown. 1 is the bound."""
        if self.bound is None or self.bound.ms is None or not self.runtime_ms:
            return None
        return self.bound.ms / self.runtime_ms

    def to_record(self) -> dict[str, Any]:
        """Return the verdict as plain values: the object of `--json`."""
        record = asdict(self)
        for name in _LISTS:
            record[name] = list(record[name])
        record["kernels"] = [one | {"grid": list(one["grid"])} for one in record["kernels"]]
        record["workloads"] = [one | {"flags": list(one["flags"])} for one in record["workloads"]]
        return record | {"bound_share": self.bound_share, "format": VERDICT_FORMAT}

    def to_row(self) -> dict[str, Any]:
        """Return the verdict as a row of `warpsmith.records`, with only RECORDED_SECONDS of the seconds."""
        record = self.to_record()
        for name in UNRECORDED:
            del record[name]
        seconds = {name: record["seconds"][name] for name in RECORDED_SECONDS}
        figures = [{"name": name, "value": value} for name, value in self.figures().items()]
        return record | {"seconds": seconds, "figures": figures}

    def figures(self) -> dict[str, float]:
        """Return baselines and absolute figures as numbers by name, without those that are unknown.

        `speedup.NAME` and `reference_ms.NAME` for each baseline; `bytes`, `flops`, `bound_ms`, `bound_share`;
        `bytes_moved`; `kernel_share`; `launches` of all kernels in a call, the most `registers`, `spill_bytes` and
        `shared_bytes` of any kernel and the least `occupancy`; `sm_clock_mhz`.
        """
        bound, kernels = self.bound, self.kernels
        known: dict[str, float | None] = {
            **{f"speedup.{name}": value for name, value in self.speedups.items()},
            **{f"reference_ms.{name}": value for name, value in self.references_ms.items()},
            "bytes": None if bound is None else bound.bytes,
            "flops": None if bound is None else bound.flops,
            "bound_ms": None if bound is None else bound.ms,
            "bound_share": self.bound_share,
            "bytes_moved": self.bytes_moved,
            "kernel_share": self.kernel_share,
            "launches": sum(one.launches for one in kernels) if kernels else None,
            "registers": max((one.registers for one in kernels), default=None),
            "spill_bytes": max((one.spill_bytes for one in kernels), default=None),
            "shared_bytes": max((one.static_shared_bytes + one.dynamic_shared_bytes for one in kernels), default=None),
            "occupancy": min((one.occupancy for one in kernels if one.occupancy is not None), default=None),
            "sm_clock_mhz": None if self.clock is None else self.clock.median_mhz,
        }
        return {name: float(value) for name, value in known.items() if value is not None}

    @staticmethod
    def from_record(record: dict[str, Any]) -> "Verdict":
        """Return the verdict that `to_record` wrote, here or in a later version, whose further fields are left out."""
        values = _known(Verdict, record)
        values["flags"] = tuple(values["flags"])
        values["operators"] = tuple(values.get("operators", ()))
        values["seconds"] = Seconds(**_known(Seconds, values["seconds"]))
        values["baseline_notes"] = tuple(
            BaselineNote(**_known(BaselineNote, note)) for note in values.get("baseline_notes", ())
        )
        kernels = [_known(KernelFigures, one) for one in values.get("kernels", ())]
        values["kernels"] = tuple(KernelFigures(**one | {"grid": tuple(one["grid"])}) for one in kernels)
        workloads = [_known(WorkloadResult, one) for one in values.get("workloads", ())]
        values["workloads"] = tuple(WorkloadResult(**one | {"flags": tuple(one["flags"])}) for one in workloads)
        for name, kind in (("bound", Bound), ("clock", Clock)):
            if values.get(name) is not None:
                values[name] = kind(**_known(kind, values[name]))
        return Verdict(**values)


def _known(kind: Any, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a record has of a dataclass's fields."""
    names = {one.name for one in fields(kind)}
    return {name: value for name, value in record.items() if name in names}


def well_formed(text: str) -> str:
    """Return text that every encoding accepts: foreign code may put half a surrogate pair into it."""
    return text.encode("utf-8", "replace").decode()


def invalid(message: str, category: ErrorCategory = "process_error") -> Verdict:
    """Return the verdict for a failure of the evaluator itself."""
    return Verdict("invalid", compiled=False, correct=False, error_category=category, error_message=message)
