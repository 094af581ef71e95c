"""`[parallel]`: how ranks share layers and rows. Imports no torch."""

from pydantic import Field

from warpsmith.trainer.errors import ConfigError
from warpsmith.trainer.section import Section


class ParallelSection(Section):
    """`[parallel]`: teams of ranks that compute the same rows together; each team takes its own rows of a batch."""

    tensor: int = Field(
        default=1,
        ge=1,
        description="Ranks that share each layer: every one has a part of its attention heads and of its MLP "
        "(DeepSpeed's AutoTP).",
    )
    sequence: int = Field(
        default=1,
        ge=1,
        description="Ranks that share each row: every one has a part of its tokens, and in attention a part of the "
        "heads of all tokens (DeepSpeed-Ulysses, arXiv 2309.14509).",
    )

    @property
    def team(self) -> int:
        """Ranks of a team."""
        return self.tensor * self.sequence

    def check_world(self, world: int) -> None:
        """Reject a number of ranks that is no multiple of a team's.

        Raises:
            ConfigError: says what would fit.
        """
        if world % self.team:
            raise ConfigError(
                f"The run has {world} {'rank' if world == 1 else 'ranks'}; parallel.tensor = {self.tensor} and "
                f"parallel.sequence = {self.sequence} make teams of {self.team}, and it needs whole ones.",
                f"Start a multiple of {self.team} ranks, by --num-processes or placement.train, or lower the two keys.",
            )
