"""The interface of a sampler: it samples completions of one model and loads new weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from warpsmith.rollout.samplers.weights.payload import WeightPayload

if TYPE_CHECKING:
    from warpsmith.rollout.config import SamplerConfig

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How one completion is sampled; None turns a setting off.

    Args:
        temperature: 0 takes the likeliest token.
        max_tokens: maximum tokens of the completion, including the stop token.
        seed: makes the completion repeatable regardless of other requests (exactly in fp32).
        stop_token_ids: ids that end the completion; the one that did is its last id.
        agent: the agent that asks; a sampler with an adapter for each agent takes this one's.
    """

    temperature: float = 1.0
    max_tokens: int = 1024
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """A sampled completion. The lists have one entry per token and end with the stop token, if there was one.

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
class Sampler(Protocol):
    """A sampler of one model."""

    @property
    def weight_version(self) -> int:
        """Version of the weights that the next token is sampled with."""

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
        """Sample one completion. Cancelling the call cancels the request.

        Raises:
            SamplerError: the request is rejected (too long, no tokens).
            SamplerDiedError: the sampler is gone.
        """

    async def score(self, ids: Sequence[int], agent: str | None = None) -> list[float]:
        """Return log p(ids[t] | ids[<t]) at temperature 1 for every t; 0 for the first.

        Args:
            ids: the tokens.
            agent: as in `Sampling`.

        Raises:
            SamplerError: the request is rejected.
            SamplerDiedError: the sampler is gone.
        """

    async def update_weights(self, payload: WeightPayload) -> None:
        """Replace all weights, or the adapter, between two steps.

        Running completions continue, and each token records the version that sampled it.

        Raises:
            BadPayloadError: the payload is incomplete, damaged or of another model; nothing was loaded.
            SamplerDiedError: loading failed half way; the sampler is unusable.
        """

    async def close(self) -> None:
        """Stop the sampler; requests in flight fail with SamplerDiedError."""


@runtime_checkable
class Pausable(Protocol):
    """A sampler that can stand still, so that kernels are timed on its device."""

    async def pause(self) -> None:
        """Compute nothing until `resume`: requests stop between two tokens, and later ones wait.

        When this returns, the device does no work of this sampler.

        Raises:
            SamplerDiedError: the sampler is gone.
        """

    async def resume(self) -> None:
        """Continue; without a pause this does nothing.

        Raises:
            SamplerDiedError: the sampler is gone.
        """


class SamplerType(Protocol):
    """The type of entries in `warpsmith.samplers`: a class, or another callable, that starts a sampler."""

    def __call__(self, path: Path, config: "SamplerConfig", *, weight_version: int = 0) -> Sampler:
        """Start a sampler on a Hugging Face directory whose weights have this version.

        Raises:
            SamplerError: it rejects the model or the settings.
        """
