"""Whose fault a failure is: the candidate's own, or perhaps that of others on the machine.

What a candidate's process says or does ends as one of two errors: `CandidateFailedError`, which is its verdict, or
`SuspectError`, for which it is judged again alone before it is blamed.
"""

from dataclasses import dataclass
from typing import Final, Literal

from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.processes.pool import Worker, WorkerDiedError, WorkerTimeoutError
from warpsmith.evaluator.sandbox.roles import EXHAUSTED_CODE
from warpsmith.evaluator.verdict import ERROR_CATEGORIES

MAX_TEXT: Final = 4000
STARVED_SHARE: Final = 0.2
USED_SHARE: Final = 0.5
_COMPUTED_SHARE: Final = 0.8
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
    """Why a candidate failed: a status of `Verdict`, its category (None where no error was raised) and its message."""

    status: str
    category: str | None
    message: str


class CandidateFailedError(Exception):
    """The candidate failed; the evaluation ends with what it carries."""

    def __init__(self, status: str, category: str | None, message: str) -> None:
        super().__init__(message)
        self.failure = Failure(status, category, message[:MAX_TEXT])


class SuspectError(Exception):
    """The candidate was killed, starved or ran out of memory, for which others may be to blame.

    `killed`: its process ended, which deserves another attempt also where nobody else ran.
    """

    def __init__(self, failure: Failure, *, killed: bool = False) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.killed = killed


def reported(fields: codec.Fields, worker: Worker, config: EvaluatorConfig, flags: set[str]) -> Exception:
    """Turn what the candidate's process says went wrong into its failure; `flags` are added to."""
    kind, message = fields.text("type", 100), fields.text("message", MAX_TEXT)
    category = fields.text("category", 40)
    category = category if category in ERROR_CATEGORIES else "unknown"
    if category == "memory_fault":
        flags.add("input_mutation")
    trace = fields.text("trace", MAX_TEXT)
    text = f"{kind}: {message}" + (f"\n{trace}" if trace else "")
    loading = fields.text("stage", 20) == "load"
    status = "compile_error" if loading and category in {"syntax_error", "parse_error"} else "runtime_error"
    if category == "interpreter_differs":
        status = "undecided"
    if kind == "MemoryError" or "can't allocate memory" in message:
        failure = Failure(status, "out_of_memory", f"out of memory: {text}"[:MAX_TEXT])
        # Who ran into others' use of the memory has used much of it; who says so alone has only said so.
        if worker.used_bytes() >= USED_SHARE * config.memory_bytes:
            return SuspectError(failure)
        return CandidateFailedError(failure.status, failure.category, failure.message)
    if category == "out_of_memory" and config.device_kind.shares_memory:
        # Of a device's memory others may have held the most.
        return SuspectError(Failure(status, category, text[:MAX_TEXT]))
    return CandidateFailedError(status, category, text)


def death(error: WorkerDiedError, worker: Worker) -> Exception:
    """Tell a candidate's own end from one that others brought about."""
    if error.ended is None:
        return error
    code, signal = error.ended
    if error.out_of_memory:
        message = "The candidate's process was killed: it took more memory than a worker may. Allocate less."
        return CandidateFailedError("runtime_error", "out_of_memory", message)
    printed = worker.printed().strip()
    said = f" It had printed: {printed[-500:]}" if printed else ""
    if signal in _FAULTS:
        message = (
            f"The candidate's process died of {_FAULTS[signal]}: it touched memory that is not its own. Look for "
            f"accesses outside of tensors, by kernels or through data_ptr().{said}"
        )
        return CandidateFailedError("runtime_error", "segmentation_fault", message)
    if signal == _SIGKILL or code == EXHAUSTED_CODE:
        return SuspectError(_out_of_something(said, killed=signal == _SIGKILL), killed=True)
    if signal == _SIGXCPU:
        message = "The candidate used more CPU time than it may. Look for a loop without an end."
        return CandidateFailedError("timeout", "timeout", message)
    how = f"signal {signal}" if signal else f"exit code {code}"
    message = f"The candidate's process left without an answer ({how}): forward must return.{said}"
    return CandidateFailedError("runtime_error", "process_error", message)


def _out_of_something(said: str, *, killed: bool) -> Failure:
    """Return what a candidate is told that was killed, or lacked something, while it was alone as well."""
    if killed:
        message = (
            "The candidate's process was killed twice, the second time while alone: it takes too much memory. "
            "Allocate less."
        )
        return Failure("runtime_error", "process_error", message)
    message = f"The candidate's process got no memory or descriptors, the second time while alone. Use less.{said}"
    return Failure("runtime_error", "out_of_memory", message)


def overrun(
    error: WorkerTimeoutError, timeout_s: float, *, on_cpu: bool = False, bound_reached: bool = False
) -> Exception:
    """Tell a candidate that took too long from one that others kept from running.

    Args:
        error: what was raised at the deadline.
        timeout_s: the limit.
        on_cpu: whether time without a processor does not count for it, up to a bound.
        bound_reached: whether it waited for longer than that bound, in whichever of its workers.
    """
    uncounted = "; time in which it waited for a processor does not count" if on_cpu else ""
    message = (
        f"The candidate did not finish within {timeout_s:g} s{uncounted}. Look for a loop without an end, do less "
        "work, or raise timeout_s."
    )
    failure = Failure("timeout", "timeout", message)
    # A sleeper has used little CPU time as well; only one that could have run and was not let is to be pitied.
    starved = bound_reached if on_cpu else (error.starved_seconds or 0.0) > STARVED_SHARE * timeout_s
    if starved or error.starved_seconds is None:
        return SuspectError(failure)
    return CandidateFailedError(failure.status, failure.category, failure.message)


def fault_of_a_reference(
    error: WorkerDiedError | WorkerTimeoutError, config: EvaluatorConfig
) -> Literal["ended", "waited", "took_deadline"] | None:
    """Tell how a reference worker was lost by its problem's own doing; None where others may be to blame.

    It died of a fault or at its own memory limit, or its deadline passed undisturbed: it used the time itself
    (`took_deadline`), or waited for something else than a processor.
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
