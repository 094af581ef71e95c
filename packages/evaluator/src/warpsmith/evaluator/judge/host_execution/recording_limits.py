"""The limits of a recording, and the failures of host code that exceeds them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from warpsmith.evaluator.errors import LayoutError, WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.judge.evidence import Evidence
from warpsmith.evaluator.languages.base import KernelLanguage
from warpsmith.evaluator.processes.failure_attribution import CandidateFailedError, FallbackError
from warpsmith.evaluator.recordings import operators, sharing, side_effects
from warpsmith.evaluator.recordings.history import Called
from warpsmith.evaluator.recordings.library_policy import ALLOWED_BY, OperatorPolicy
from warpsmith.evaluator.recordings.recording import Recording

MAX_LAUNCHES: Final = 256
MAX_LAUNCH_BYTES: Final = 128 << 10
MAX_TUNED: Final = 300
MOST_CALL_BYTES: Final = 36 << 20
"""Of the recording of one call: 32 MiB of constants, and the events."""


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
    return FallbackError(
        f"forward launched no {language.title} kernel: compute in {language.kernel_form} that forward launches."
    )


def refused_operators(
    evidence: Evidence, language: KernelLanguage, policy: OperatorPolicy, used: str
) -> CandidateFailedError:
    """Return the failure of a forward that computes with torch where the policy does not allow it.

    Args:
        evidence: gets the flag.
        language: of the candidate's kernels.
        policy: in force.
        used: the operators, with the lines that use them.
    """
    evidence.flags.add("torch_fallback")
    advice = operators.COMPILER_ADVICE if operators.COMPILER in used else operators.ADVICE
    return FallbackError(
        f"forward computes with torch instead of {language.title}: {used}. "
        f"{advice.format(kernels=language.kernel_form)} The policy is {ALLOWED_BY[policy]}.",
    )


def overwrites_outputs() -> CandidateFailedError:
    """Return the failure of a forward that returns memory which its next call overwrites."""
    return CandidateFailedError(
        "rejected",
        None,
        "forward returns memory that an earlier call or the constructor made, which the next call overwrites: allocate "
        "the output in each call, for example with torch.empty_like. Only scratch memory can be kept between calls.",
    )


def shares_memory(way: str) -> CandidateFailedError:
    """Return the failure of a forward whose outputs share memory in a way that the problem's do not."""
    return CandidateFailedError("rejected", None, sharing.MESSAGES[way])


def changes_the_callers(kind: str) -> CandidateFailedError:
    """Return the failure of a forward that changes what belongs to its caller, as the problem's does not."""
    return CandidateFailedError("rejected", None, side_effects.message_of(kind))


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
