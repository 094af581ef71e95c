"""A finished turn as environments and rewards see it."""

from dataclasses import dataclass
from typing import Final, Literal

from warpsmith.evaluator.verdict import Verdict

Agent = Literal["generator", "optimizer"]
"""Who takes a turn: the generator writes a correct kernel, the optimizer makes a correct one faster."""
GENERATOR: Final = "generator"
OPTIMIZER: Final = "optimizer"


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of an episode.

    Attributes:
        index: 0 for the first turn of the episode.
        problem: the problem's name.
        source: the data set that the problem comes from.
        level: its level; None if it has none.
        completion: the model's whole answer, thoughts included.
        kernel: the code extracted from it; None if it has none.
        completion_tokens: tokens of the answer.
        truncated: whether the answer was cut off at `sampling.max_tokens`.
        verdict: the result of the evaluation.
        score: the turn's score; None for the turn that is being scored.
        trajectory: the trajectory's name in the records.
        agent: who took the turn; None in an environment without agents.
    """

    index: int
    problem: str
    source: str
    level: int | None
    completion: str
    kernel: str | None
    completion_tokens: int
    truncated: bool
    verdict: Verdict
    score: float | None = None
    trajectory: str = ""
    agent: str | None = None

    @property
    def name(self) -> str:
        """The turn's name in messages."""
        return f"turn {self.index + 1} of {self.problem} in {self.trajectory or 'an episode'}"
