"""Decides who caused a failure: the candidate, or possibly other processes on the machine.

A report or the end of a candidate's process becomes one of two errors: `CandidateFailedError`, which is its verdict, or
`SuspectError`, after which it is judged again alone before it is blamed.
"""

from dataclasses import dataclass
from typing import Final, Literal

from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.processes.worker import Worker, WorkerDiedError, WorkerTimeoutError
from warpsmith.evaluator.sandbox.roles import EXHAUSTED_CODE
from warpsmith.evaluator.verdict import ERROR_CATEGORIES

MAX_TEXT: Final = 4000
STARVED_SHARE: Final = 0.2
USED_SHARE: Final = 0.5
_COMPUTED_SHARE: Final = 0.8
UNDECIDED: Final = frozenset({"interpreter_differs", "needs_device"})
"""Categories that only a device can decide."""
UNREPEATABLE: Final = frozenset({"unsupported_feature"})
"""Categories of code that runs on a GPU and cannot be replayed."""
UNCOMPILED: Final = frozenset({"cuda_compilation_error"})
"""Categories of sources that are refused before a compiler sees them, whenever host code requests it."""
_SIGKILL: Final = 9
_SIGXCPU: Final = 24
_FAULTS: Final = {
    4: "an illegal instruction",
    6: "abort()",
    7: "a bus error",
    8: "a floating point exception",
    11: "a segmentation fault",
}


@dataclass(frozen=True)
class Failure:
    """Why a candidate failed: a status of `Verdict`, its category (None if no error was raised) and its message."""

    status: str
    category: str | None
    message: str


class CandidateFailedError(Exception):
    """The candidate failed; `failure` becomes its verdict."""

    def __init__(self, status: str, category: str | None, message: str) -> None:
        super().__init__(message)
        self.failure = Failure(status, category, message[:MAX_TEXT])


class WrongFormError(CandidateFailedError):
    """The output's shape, dtype or structure differs from the reference's, which nobody would overlook."""

    def __init__(self, message: str) -> None:
        super().__init__("incorrect", None, message)


class FallbackError(CandidateFailedError):
    """forward leaves the work to torch, or launches nothing."""

    def __init__(self, message: str) -> None:
        super().__init__("rejected", None, message)


class SuspectError(Exception):
    """The candidate was killed, starved or ran out of memory, possibly because of other processes.

    `killed`: its process was killed, which justifies a retry even if no other evaluation ran.
    """

    def __init__(self, failure: Failure, *, killed: bool = False) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.killed = killed


def reported(fields: codec.Fields, worker: Worker, config: EvaluatorConfig, flags: set[str]) -> Exception:
    """Turn an error report of the candidate's process into its failure; may add to `flags`."""
    kind, message = fields.text("type", 100), fields.text("message", MAX_TEXT)
    category = fields.text("category", 40)
    category = category if category in ERROR_CATEGORIES else "unknown"
    if category == "memory_fault":
        flags.add("input_mutation")
    trace = fields.text("trace", MAX_TEXT)
    text = f"{kind}: {message}" + (f"\n{trace}" if trace else "")
    loading = fields.text("stage", 20) == "load"
    unread = category in UNCOMPILED or (loading and category in {"syntax_error", "parse_error"})
    status = "compile_error" if unread else "runtime_error"
    if category in UNREPEATABLE:
        status = "rejected"
    if category in UNDECIDED:
        status = "undecided"
    if kind == "MemoryError" or "can't allocate memory" in message:
        failure = Failure(status, "out_of_memory", f"out of memory: {text}"[:MAX_TEXT])
        # A candidate that ran out because of others has used much memory itself; otherwise there is only its own claim.
        if worker.used_bytes() >= USED_SHARE * config.memory_bytes:
            return SuspectError(failure)
        return CandidateFailedError(failure.status, failure.category, failure.message)
    if category == "out_of_memory" and config.device_kind.shares_memory:
        # Other processes may hold most of the device's memory.
        return SuspectError(Failure(status, category, text[:MAX_TEXT]))
    return CandidateFailedError(status, category, text)


def death(error: WorkerDiedError, worker: Worker) -> Exception:
    """Turn a candidate's end into its own failure, or into a suspect one if other processes may have caused it."""
    if error.ended is None:
        return error
    code, signal = error.ended
    if error.out_of_memory:
        message = "The candidate's process was killed: it exceeded the memory limit of a worker. Allocate less."
        return CandidateFailedError("runtime_error", "out_of_memory", message)
    printed = worker.printed().strip()
    output = f" It had printed: {printed[-500:]}" if printed else ""
    if signal in _FAULTS:
        message = (
            f"The candidate's process died of {_FAULTS[signal]}: it touched memory that is not its own. Look for "
            f"accesses outside of tensors, by kernels or through data_ptr().{output}"
        )
        return CandidateFailedError("runtime_error", "segmentation_fault", message)
    if signal == _SIGKILL or code == EXHAUSTED_CODE:
        return SuspectError(_resource_failure(output, killed=signal == _SIGKILL), killed=True)
    if signal == _SIGXCPU:
        message = "The candidate exceeded its CPU time limit. Look for an endless loop."
        return CandidateFailedError("timeout", "timeout", message)
    how = f"signal {signal}" if signal else f"exit code {code}"
    message = f"The candidate's process exited without an answer ({how}): forward must return.{output}"
    return CandidateFailedError("runtime_error", "process_error", message)


def _resource_failure(output: str, *, killed: bool) -> Failure:
    """Return the failure of a candidate that was killed, or lacked a resource, even when running alone."""
    if killed:
        message = (
            "The candidate's process was killed twice, the second time while alone: it takes too much memory. "
            "Allocate less."
        )
        return Failure("runtime_error", "process_error", message)
    message = f"The candidate's process got no memory or descriptors, the second time while alone. Use less.{output}"
    return Failure("runtime_error", "out_of_memory", message)


def overrun(
    error: WorkerTimeoutError, timeout_s: float, *, on_cpu: bool = False, bound_reached: bool = False
) -> Exception:
    """Turn a passed deadline into the candidate's failure, or into a suspect one if others may have starved it.

    Args:
        error: the error raised at the deadline.
        timeout_s: the limit.
        on_cpu: whether time spent waiting for a processor does not count, up to a bound.
        bound_reached: whether its workers waited longer than that bound.
    """
    uncounted = "; time in which it waited for a processor does not count" if on_cpu else ""
    message = (
        f"The candidate did not finish within {timeout_s:g} s{uncounted}. Look for an endless loop, do less "
        "work, or raise timeout_s."
    )
    failure = Failure("timeout", "timeout", message)
    # A sleeping process uses little CPU time too; only one that was ready but not scheduled counts as starved.
    starved = bound_reached if on_cpu else (error.starved_seconds or 0.0) > STARVED_SHARE * timeout_s
    if starved or error.starved_seconds is None:
        return SuspectError(failure)
    return CandidateFailedError(failure.status, failure.category, failure.message)


def fault_of_a_reference(
    error: WorkerDiedError | WorkerTimeoutError, config: EvaluatorConfig
) -> Literal["ended", "waited", "took_deadline"] | None:
    """Say how a reference worker was lost through its problem's own fault; None if others may be to blame.

    `ended`: it died of a fault or at its own memory limit. `took_deadline`: it used the time itself, undisturbed.
    `waited`: it waited, undisturbed, for something other than a processor.
    """
    if isinstance(error, WorkerDiedError):
        lacked = error.ended is not None and error.ended.code == EXHAUSTED_CODE
        own = error.out_of_memory or (error.ended is not None and not error.killed and not lacked)
        return "ended" if own and not error.at_start else None
    if error.cpu_seconds is not None and error.cpu_seconds > _COMPUTED_SHARE * config.reference_timeout_s:
        return "took_deadline"
    starved = error.starved_seconds
    undisturbed = starved is not None and starved < STARVED_SHARE * config.reference_timeout_s
    return "waited" if undisturbed else None
