"""The staleness bound: which rollouts may start now without becoming too old before they are trained."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Admission:
    """The progress of training, and which rollouts of later steps it admits.

    Batches are trained in step order, one per step, and a step raises the weight version by at most one. A turn sampled
    now is therefore at most s - 1 - `step` versions old when step s trains it: the steps in between. Rollouts of step s
    may start once that is at most `max_staleness`; what is sampled later for the same step is never older.

    Attributes:
        max_staleness: maximum number of versions that a token may be older than the weights at the start of its step.
        step: the step whose weights the samplers have.
        version: the version of those weights.
    """

    max_staleness: int
    step: int
    version: int

    def admits(self, step: int) -> bool:
        """Whether rollouts for step `step` may start now."""
        return step <= self.last

    @property
    def last(self) -> int:
        """The last step whose rollouts may start now."""
        return self.step + 1 + self.max_staleness

    def newest(self, step: int) -> int:
        """Return the highest version that the weights can have when step `step` starts.

        Each of its tokens is of this version, or older by at most `max_staleness`.
        """
        return self.version + step - 1 - self.step

    def after(self, step: int, version: int) -> "Admission":
        """Return the state after step `step`, with `version` in the samplers."""
        return Admission(self.max_staleness, step, version)
