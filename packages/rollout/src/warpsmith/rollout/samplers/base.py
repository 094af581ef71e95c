"""The interface of a sampler: it samples completions of one model and loads new weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from warpsmith.rollout.samplers.weights.payload import WeightPayload
from warpsmith.rollout.samplers.weights.seconds import UpdateSeconds

if TYPE_CHECKING:
    from warpsmith.rollout.config import SamplerConfig
    from warpsmith.rollout.samplers.weights.stream.layout import Bucket, StreamLayout
    from warpsmith.rollout.samplers.weights.stream.media import Export

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


@dataclass(frozen=True, slots=True)
class StreamReceipt:
    """What a sampler did with a stream of weights.

    Args:
        seconds: the longest of its workers, by phase.
        verified_bytes: bytes that were compared again after loading, where the model keeps them; 0 if it is not known
            where they are.
    """

    seconds: UpdateSeconds
    verified_bytes: int


@runtime_checkable
class TakesStreams(Protocol):
    """A sampler that reads new weights from the trainer's memory, bucket by bucket; see `StreamLayout`.

    From `begin_stream` to the end of `finish_stream` nothing is sampled. A sampler that fails in between has parts of
    two versions, and ends.
    """

    async def stream_host(self) -> str:
        """Return the host on which it loads weights; see `host_identity`."""

    async def try_stream(self, kind: str, exports: "Sequence[Export]") -> list[int]:
        """Return the digests of a sender's slots, read as an update would read them.

        Args:
            kind: the kind of the slots' memory.
            exports: the slots, once for each worker process.

        Raises:
            DeviceTransferError: they cannot be mapped.
        """

    async def begin_stream(self, layout: "StreamLayout", kind: str, exports: "Sequence[Export]") -> None:
        """Stop sampling and get ready for the buckets of a layout.

        Raises:
            BadPayloadError: it has other tensors than the model; the sampler continues with its weights.
            DeviceTransferError: the slots cannot be mapped; the sampler continues too.
            SamplerDiedError: the sampler is gone.
        """

    async def take_bucket(self, bucket: "Bucket") -> None:
        """Check and load the next bucket; its slot is free afterwards.

        Raises:
            BadPayloadError: it is damaged or not the next; the sampler has ended.
            DeadlinePassedError: it took too long; the sampler has ended.
            SamplerDiedError: the sampler is gone.
        """

    async def finish_stream(self) -> StreamReceipt:
        """Check that all is loaded, and sample from it; errors as for `take_bucket`."""


class SamplerType(Protocol):
    """The type of entries in `warpsmith.samplers`: a class, or another callable, that starts a sampler."""

    def __call__(self, path: Path, config: "SamplerConfig", *, weight_version: int = 0) -> Sampler:
        """Start a sampler on a Hugging Face directory whose weights have this version.

        Raises:
            SamplerError: it rejects the model or the settings.
        """
