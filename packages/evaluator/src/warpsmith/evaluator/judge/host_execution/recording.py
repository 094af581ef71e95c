"""A recording: what host code did with inputs of one form; and the limits of a recording."""

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
from warpsmith.evaluator.reference.form import Form

MAX_LAUNCHES: Final = 256
MAX_LAUNCH_BYTES: Final = 128 << 10
MAX_TUNED: Final = 300
MOST_CALL_BYTES: Final = 36 << 20
"""Of the recording of one call: 32 MiB of constants, and the events."""


@dataclass(frozen=True)
class Recording:
    """What host code did with inputs of one form.

    Attributes:
        form: the form of the inputs, with plain arguments.
        events: allocations, fills, copies and launches, in order; see `recordings/recorder.py`.
        outputs: which tensors of the recording are the outputs, then the module's buffers.
        launches: what to compile for each launch, in order.
        way: how it was recorded.
        remark: the configurations of autotuned kernels, for messages; empty if there are none.
        past: the inputs of earlier calls whose memory this call uses; the events of those calls come first.
    """

    form: Form
    events: list[Any]
    outputs: list[Any]
    launches: list[dict[str, Any]]
    way: RecordingWay
    remark: str = ""
    past: tuple[Past, ...] = ()

    @property
    def has_constants(self) -> bool:
        """Whether it includes the values of tensors that were made before the call."""
        return any(event[:1] == ["const"] and event[2:] != [b""] for event in self.events)


@contextmanager
def claims_of_a_recording() -> Iterator[None]:
    """Guard the reading of a recording: a malformed one is the candidate's failure."""
    try:
        yield
    except (WireError, LayoutError) as error:
        raise CandidateFailedError(
            "runtime_error", "process_error", f"The candidate's process sent an invalid recording: {error}"
        ) from error


def constants_of(recording: Recording) -> list[Any]:
    """Return the values of tensors that a recording includes."""
    return [event[2:] for event in recording.events if event[:1] == ["const"]]


def check_size(call: Called) -> None:
    """Raise WireError if a call's recording is larger than MOST_CALL_BYTES."""
    if len(codec.encode([call.events, call.outputs])) > MOST_CALL_BYTES:
        raise WireError(f"a call's recording exceeds {MOST_CALL_BYTES} bytes")


def check_launches(launches: list[dict[str, Any]]) -> None:
    """Raise WireError for more launches than MAX_LAUNCHES or MAX_LAUNCH_BYTES allow."""
    known = {codec.encode([[launch]]) for launch in launches}
    if len(known) > MAX_LAUNCHES or sum(map(len, known)) > MAX_LAUNCH_BYTES:
        raise WireError(f"{len(known)} different launches exceed the limits of a recording")


def no_kernel(evidence: Evidence, language: KernelLanguage) -> CandidateFailedError:
    """Return the failure of a forward that launches nothing."""
    evidence.flags.add("no_kernel")
    return CandidateFailedError(
        "rejected",
        None,
        f"forward launched no {language.title} kernel: compute in {language.kernel_form} that forward launches.",
    )


def overwrites_outputs() -> CandidateFailedError:
    """Return the failure of a forward that returns memory which its next call overwrites."""
    return CandidateFailedError(
        "rejected",
        None,
        "forward returns memory that an earlier call or the constructor made, which the next call overwrites: allocate "
        "the output in each call, for example with torch.empty_like. Only scratch memory can be kept between calls.",
    )


def tuning_remark(done: codec.Fields) -> str:
    """Return a remark on the configurations that ran; empty if no kernel is autotuned."""
    tuned = done.text("tuned", MAX_TUNED)
    if not tuned:
        return ""
    timed = "; it also ran once before, for timing: a kernel that updates memory needs reset_to_zero or restore_value"
    return (
        f" (triton.autotune took {tuned}; on a GPU any configuration can be the fastest"
        f"{timed if done.flag('timed') else ''})"
    )
