"""What the judge finds out about a candidate, how it reads a worker's claims, and seeds that a candidate may know."""

import hashlib
import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from warpsmith.evaluator.baselines import BaselineName
from warpsmith.evaluator.config import RecordingWay
from warpsmith.evaluator.correctness.compare import Comparison
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.figures import Bound, Clock, KernelFigures
from warpsmith.evaluator.judge.compiled_baselines import Found
from warpsmith.evaluator.judge.compiling.service import Compilation
from warpsmith.evaluator.processes.failure_attribution import CandidateFailedError, Failure
from warpsmith.evaluator.timing.clocks import Timing


@dataclass
class Evidence:
    """What one attempt learned about a candidate."""

    failure: Failure | None = None
    flags: set[str] = field(default_factory=set)
    trials: int = 0
    max_abs_error: float | None = None
    mismatched_fraction: float | None = None
    compilation: Compilation | None = None
    replayed: bool = False
    timing: Timing | None = None
    tier: str | None = None
    recording: RecordingWay | None = None
    problem_bytes: int = 0
    """Of inputs, parameters, buffers and outputs; 0 until the reference has answered."""
    allocated_bytes: int = 0
    """The most that one of its recordings allocates, outputs included."""
    operators: set[str] = field(default_factory=set)
    """The library operators that its recordings call, with their overloads."""
    kernel_share: float | None = None
    """Share of the device's time of one call in the candidate's own kernels."""
    baselines: Mapping[BaselineName, Found] = field(default_factory=dict)
    """The compiled references' times relative to the eager one's, or why they have none."""
    bound: Bound | None = None
    """The problem's, on this device."""
    kernels: tuple[KernelFigures, ...] = ()
    """Of one call of forward."""
    clock: Clock | None = None
    """Of the multiprocessors while the candidate was timed."""
    bytes_moved: int | None = None
    """The most that a trial on the problem's own shapes read and wrote; None if it was not counted."""
    passes_kernelbench: bool = False
    """Whether KernelBench would accept its output for plain inputs."""

    def note(self, comparison: Comparison) -> None:
        # NaN: there was no finite element to measure.
        if not math.isnan(comparison.max_abs_error):
            self.max_abs_error = max(self.max_abs_error or 0.0, comparison.max_abs_error)
        self.mismatched_fraction = max(self.mismatched_fraction or 0.0, comparison.mismatched_fraction)

    def note_traffic(self, moved: int | None) -> None:
        """Note what a trial moved. The largest counts: a kernel must not gain by moving less on some contents."""
        if moved is not None:
            self.bytes_moved = max(self.bytes_moved or 0, moved)


class TransientError(Exception):
    """A run failed for a reason that other evaluations may have caused; the candidate is judged again alone.

    `killed`: the worker was killed from outside; otherwise it ran out of time or memory.
    """

    def __init__(self, evidence: Evidence, *, killed: bool) -> None:
        super().__init__("to be judged again alone")
        self.evidence = evidence
        self.killed = killed


@contextmanager
def claims() -> Iterator[None]:
    """Guard the reading of a candidate's message: a missing or malformed field is the candidate's failure."""
    try:
        yield
    except WireError as error:
        raise CandidateFailedError(
            "runtime_error", "process_error", f"The candidate's process sent an invalid reply: {error}"
        ) from error


def seeds_for_candidates(secret: int) -> Iterator[int]:
    """Yield 48-bit seeds that a candidate may know: they reveal neither `secret` (256 bits) nor one another.

    The judge's own generator must stay secret: a few hundred of its numbers determine all others.
    """
    key = secret.to_bytes(32, "little")
    for number in itertools.count():
        yield int.from_bytes(hashlib.blake2b(number.to_bytes(8, "little"), digest_size=6, key=key).digest(), "little")
