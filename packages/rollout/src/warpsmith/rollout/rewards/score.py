"""A score: what a reward makes of one turn."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a turn. `value` is None exactly if the turn is invalid; `invalid_reason` then says why."""

    value: float | None
    invalid_reason: str | None = None

    @property
    def valid(self) -> bool:
        """Whether the turn can be used for training."""
        return self.invalid_reason is None
