"""A recording: what host code did with inputs of one form; and what no recording may be."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from warpsmith.evaluator.config import RecordingWay
from warpsmith.evaluator.errors import LayoutError, WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.judge.evidence import Evidence
from warpsmith.evaluator.languages.base import KernelLanguage
from warpsmith.evaluator.processes.failure_attribution import CandidateFailedError
from warpsmith.evaluator.recordings.history import Called, Past
from warpsmith.evaluator.reference.session import Placed

MAX_LAUNCHES: Final = 256
MAX_LAUNCH_BYTES: Final = 128 << 10
MAX_TUNED: Final = 300
MOST_CALL_BYTES: Final = 36 << 20
"""Of the recording of one call: constants of 32 MiB, and events."""


@dataclass(frozen=True)
class Recording:
    """What host code did with inputs of one form.

    Attributes:
        form: of the inputs, plain arguments included.
        events: allocations, fills, copies and launches, in order: `trace.py` describes them.
        outputs: which tensors of the recording are the outputs, and the module's buffers after them.
        launches: what each launch compiles to, in order.
        way: how it was made.
        remark: the configurations of autotuned kernels, for people; empty where there are none.
        past: the inputs of earlier calls, whose events come first, in a call that uses memory of theirs.
    """

    form: Placed
    events: list[Any]
    outputs: list[Any]
    launches: list[dict[str, Any]]
    way: RecordingWay
    remark: str = ""
    past: tuple[Past, ...] = ()

    @property
    def has_constants(self) -> bool:
        """Whether it brings along the content of tensors that were made before the call."""
        return any(event[:1] == ["const"] and event[2:] != [b""] for event in self.events)


@contextmanager
def claims_of_a_recording() -> Iterator[None]:
    """Read what a worker of the candidate claims: what is malformed is the candidate's failure."""
    try:
        yield
    except (WireError, LayoutError) as error:
        raise CandidateFailedError(
            "runtime_error", "process_error", f"The candidate's process sent what is no recording: {error}"
        ) from error


def constants_of(recording: Recording) -> list[Any]:
    """Return the contents that a recording brings along."""
    return [event[2:] for event in recording.events if event[:1] == ["const"]]


def check_size(call: Called) -> None:
    """Raise WireError for more calls, or larger ones, than the judge keeps of a module."""
    if len(codec.encode([call.events, call.outputs])) > MOST_CALL_BYTES:
        raise WireError("a call brings along more than a recording may")


def check_launches(launches: list[dict[str, Any]]) -> None:
    """Raise WireError for more launches, or larger ones, than anybody needs."""
    known = {codec.encode([[launch]]) for launch in launches}
    if len(known) > MAX_LAUNCHES or sum(map(len, known)) > MAX_LAUNCH_BYTES:
        raise WireError(f"{len(known)} different launches are more than anybody needs")


def no_kernel(evidence: Evidence, language: KernelLanguage) -> CandidateFailedError:
    """Return the failure of a forward that launches nothing."""
    evidence.flags.add("no_kernel")
    return CandidateFailedError(
        "rejected",
        None,
        f"forward launched no {language.title} kernel: compute in {language.kernel_form} that forward launches.",
    )


def overwrites_outputs() -> CandidateFailedError:
    """Return the failure of a forward whose answer the next call would change in its caller's hands."""
    return CandidateFailedError(
        "rejected",
        None,
        "forward returns memory that an earlier call or the constructor made, which the next call overwrites: allocate "
        "the output in each call, as by torch.empty_like. What is kept from call to call may be scratch memory.",
    )


def tuning_remark(done: codec.Fields) -> str:
    """Return what a writer should know about the configurations that ran; nothing where no kernel is autotuned."""
    tuned = done.text("tuned", MAX_TUNED)
    if not tuned:
        return ""
    timed = "; it ran once beforehand too, as to be timed: what updates its output needs reset_to_zero or restore_value"
    return (
        f" (triton.autotune took {tuned}; on a GPU any configuration may be the fastest"
        f"{timed if done.flag('timed') else ''})"
    )
