"""Completions from the pieces that vLLM delivers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from warpsmith.rollout.errors import SamplerError
from warpsmith.rollout.samplers.base import Completion, FinishReason

_VERSIONS = "Use a vLLM version from 0.26 to 0.32."


@dataclass
class PartialCompletion:
    """The tokens of one completion so far."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    weight_versions: list[int] = field(default_factory=list)

    def extend(self, piece: Any, version: int) -> None:
        """Add the new tokens of a `CompletionOutput`, sampled by weights of `version`."""
        ids = list(piece.token_ids)
        self.ids += ids
        self.logprobs += sampled_logprobs(ids, piece.logprobs)
        self.weight_versions += [version] * len(ids)

    def completion(self, reason: FinishReason) -> Completion:
        """Return the finished completion."""
        return Completion(self.ids, self.logprobs, self.weight_versions, reason)


def finish_reason(given: str | None) -> FinishReason:
    """Translate vLLM's finish reason.

    Raises:
        SamplerError: vLLM aborted the request.
    """
    match given:
        case "stop" | "length":
            return given
        case _:
            raise SamplerError(
                f"vLLM ended a request with reason {given!r}.", "See vLLM's log; the request can be retried."
            )


def sampled_logprobs(ids: Sequence[int], entries: Sequence[Mapping[int, Any]] | None) -> list[float]:
    """Return the log-prob of each sampled id."""
    if entries is None or len(entries) != len(ids):
        found = 0 if entries is None else len(entries)
        raise SamplerError(f"vLLM returned {found} log-probs for {len(ids)} tokens.", _VERSIONS)
    return [entry[token].logprob for token, entry in zip(ids, entries, strict=True)]


def prompt_logprobs(ids: Sequence[int], entries: Sequence[Mapping[int, Any] | None] | None) -> list[float]:
    """Return log p(ids[t] | ids[<t]); 0 for the first."""
    if entries is None or len(entries) != len(ids):
        raise SamplerError("vLLM returned no log-probs of the prompt.", _VERSIONS)
    return [0.0 if entry is None else entry[token].logprob for token, entry in zip(ids, entries, strict=True)]
