"""`[parallel]`: how ranks share layers and rows. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from warpsmith.trainer.errors import ConfigError
from warpsmith.trainer.section import Section

SPLIT_TYPES = ("llama", "mistral", "qwen2", "qwen3")
"""Model types whose gradients with split layers are compared with those of one rank by the tests."""


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
        """Reject a number of ranks that is not a multiple of a team's.

        Raises:
            ConfigError: says what would fit.
        """
        if world % self.team:
            raise ConfigError(
                f"The run has {world} {'rank' if world == 1 else 'ranks'}; parallel.tensor = {self.tensor} and "
                f"parallel.sequence = {self.sequence} make teams of {self.team}, and it needs whole ones.",
                f"Start a multiple of {self.team} ranks, by --num-processes or placement.train, or lower the two keys.",
            )

    def check_model(self, config: Mapping[str, Any], name: object) -> None:
        """Reject a model whose layers or heads cannot be divided among the ranks.

        Args:
            config: its config.json.
            name: what the error calls it.

        Raises:
            ConfigError: names the key and the number that does not fit.
        """
        text = config.get("text_config") or config
        heads = int(text["num_attention_heads"])
        keys = int(text.get("num_key_value_heads") or heads)
        if self.tensor > 1:
            self._check_layers(text, name, {"attention heads": heads, "key heads": keys})
        if self.sequence > 1:
            self._check_heads(name, heads // self.tensor, keys // self.tensor)

    def _check_layers(self, config: Mapping[str, Any], name: object, counts: Mapping[str, int]) -> None:
        kind = config.get("model_type")
        if kind not in SPLIT_TYPES:
            raise ConfigError(
                f"parallel.tensor: {name} is a model of the type {kind}; layers of {', '.join(SPLIT_TYPES)} can be "
                "split, whose gradients are tested.",
                "Set parallel.tensor = 1; zero.stage = 3 spreads the weights of any model.",
            )
        widths = {**counts, "numbers in its MLP": int(config["intermediate_size"])}
        for what, count in widths.items():
            if count % self.tensor:
                raise ConfigError(
                    f"parallel.tensor: {name} has {count} {what}, which {self.tensor} ranks cannot share evenly.",
                    f"Set a divisor of {count}.",
                )

    def _check_heads(self, name: object, heads: int, keys: int) -> None:
        """Reject heads (of one rank's part of the layers) that cannot be divided among the ranks that share a row."""
        each = " on each rank" if self.tensor > 1 else ""
        if heads % self.sequence:
            raise ConfigError(
                f"parallel.sequence: {name} has {heads} attention heads{each}, which {self.sequence} ranks cannot "
                "share evenly.",
                f"Set a divisor of {heads}.",
            )
        if keys % self.sequence and self.sequence % keys:
            raise ConfigError(
                f"parallel.sequence: {name} has {keys} key heads{each}, and {self.sequence} is neither a divisor nor a "
                "multiple of that.",
                f"Set a divisor of {heads} that is one or the other.",
            )


WHOLE = ParallelSection()
"""Every rank has whole layers and rows of its own."""
