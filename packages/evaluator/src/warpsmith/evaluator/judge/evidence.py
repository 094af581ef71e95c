"""What the judge knows of a candidate while it is judged: what came to light, what is claimed, and what it is told."""

import hashlib
import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from warpsmith.evaluator.config import RecordingWay
from warpsmith.evaluator.correctness.compare import Comparison
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.judge.compiling.service import Compilation
from warpsmith.evaluator.processes.failure_attribution import CandidateFailedError, Failure
from warpsmith.evaluator.timing.clocks import Timing


@dataclass
class Evidence:
    """What one run of a candidate brought to light."""

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
    passes_kernelbench: bool = False
    """Whether KernelBench would accept what it answered to plain inputs."""

    def note(self, comparison: Comparison) -> None:
        # What has no finite element to measure (all NaN) says nothing about the size of an error.
        if not math.isnan(comparison.max_abs_error):
            self.max_abs_error = max(self.max_abs_error or 0.0, comparison.max_abs_error)
        self.mismatched_fraction = max(self.mismatched_fraction or 0.0, comparison.mismatched_fraction)


class TransientError(Exception):
    """A run failed for what others may have caused: to be tried again alone before the candidate is blamed.

    `killed` tells a worker that somebody killed from one that ran out of time or memory.
    """

    def __init__(self, evidence: Evidence, *, killed: bool) -> None:
        super().__init__("to be tried again alone")
        self.evidence = evidence
        self.killed = killed


@contextmanager
def claims() -> Iterator[None]:
    """Read what a candidate's process claims: fields that are missing or malformed are the candidate's failure."""
    try:
        yield
    except WireError as error:
        raise CandidateFailedError(
            "runtime_error", "process_error", f"The candidate's process sent what is no answer: {error}"
        ) from error


def seeds_for_candidates(secret: int) -> Iterator[int]:
    """Yield seeds of 48 bits that a candidate may know: they tell nothing of `secret`, of 256 bits, or of one another.

    The judge's own generator is none to be shown: a few hundred of its numbers give away all the others.
    """
    key = secret.to_bytes(32, "little")
    for number in itertools.count():
        yield int.from_bytes(hashlib.blake2b(number.to_bytes(8, "little"), digest_size=6, key=key).digest(), "little")
