"""The one interface to a sampler."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from warpsmith.rollout.engines.weights import WeightPayload

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How one completion is sampled; None leaves a setting off.

    Args:
        temperature: 0 takes the likeliest token.
        max_tokens: most tokens of the completion, the stop token included.
        seed: makes the completion repeatable, whatever else is sampled beside it (exactly so in fp32).
        stop_token_ids: ids that end the completion; the one that did is its last id.
    """

    temperature: float = 1.0
    max_tokens: int = 1024
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    stop_token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """What was sampled. The lists have one entry a token and end with the stop token where there was one.

    Args:
        ids: token ids as sampled.
        logprobs: natural log of the probability each token was sampled with, after temperature and truncation.
        weight_versions: version of the weights that sampled each token.
        finish_reason: `stop` at a stop token, `length` at the token limit.
    """

    ids: list[int]
    logprobs: list[float]
    weight_versions: list[int]
    finish_reason: FinishReason


@runtime_checkable
class Engine(Protocol):
    """A sampler of one model."""

    @property
    def weight_version(self) -> int:
        """Version of the weights that the next token is sampled with."""

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
        """Sample one completion.

        Raises:
            EngineError: the request is refused (too long, no tokens).
            EngineDiedError: the sampler is gone.
        """

    async def score(self, ids: Sequence[int]) -> list[float]:
        """Return log p(ids[t] | ids[<t]) at temperature 1 for every t; 0 for the first."""

    async def update_weights(self, payload: WeightPayload) -> None:
        """Replace all weights, or the adapter on them, between two steps.

        Running completions go on, each token with its own version.

        Raises:
            BadPayloadError: the payload is incomplete, damaged or of another model; nothing was loaded.
        """

    async def close(self) -> None:
        """Stop the sampler; requests in flight fail with EngineDiedError."""
