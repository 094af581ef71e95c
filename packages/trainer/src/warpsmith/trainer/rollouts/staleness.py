"""The staleness bound: which rollouts may start without being too old when they are trained."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Admission:
    """Where training stands, and what follows from it for the rollouts of later steps.

    Batches are trained in the order of their steps, one a step, and a step raises the version of the weights by at
    most one. A turn sampled now is therefore, when step s trains it, at most s - 1 - `step` versions old: the steps
    that come between. Rollouts of step s may start once that is no more than `max_staleness`; what is sampled later
    for the same step is never older.

    Attributes:
        max_staleness: most versions that a token may be older than the weights that its step begins with.
        step: steps whose weights the samplers have.
        version: version of those weights.
    """

    max_staleness: int
    step: int
    version: int

    def admits(self, step: int) -> bool:
        """Whether rollouts that step `step` will train may start now."""
        return step <= self.last

    @property
    def last(self) -> int:
        """The last step whose rollouts may start now."""
        return self.step + 1 + self.max_staleness

    def newest(self, step: int) -> int:
        """Return the highest version that the weights can have when step `step` begins.

        Each of its tokens is of this version or older, by `max_staleness` at most.
        """
        return self.version + step - 1 - self.step

    def after(self, step: int, version: int) -> "Admission":
        """Return how it stands once step `step` is done and the samplers have `version`."""
        return Admission(self.max_staleness, step, version)
