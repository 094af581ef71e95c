"""A score: what a reward makes of one turn."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a turn.

    Attributes:
        value: the score; None exactly if the turn is invalid.
        invalid_reason: why it is invalid.
        speedup_over_start: speedup of an optimizer's kernel over that of its start, for the records; None if unknown.
        start_bytes_moved: bytes that the start of a correct optimizer's kernel moves, likewise; None if unknown.
    """

    value: float | None
    invalid_reason: str | None = None
    speedup_over_start: float | None = None
    start_bytes_moved: int | None = None

    @property
    def valid(self) -> bool:
        """Whether the turn can be used for training."""
        return self.invalid_reason is None
