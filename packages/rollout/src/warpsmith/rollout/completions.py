"""From messages to a sampled completion: the chat format, the sampler and its settings behind one call."""

import hashlib
import time
from dataclasses import dataclass
from typing import Protocol

from warpsmith.rollout import retries
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.deadlines import within
from warpsmith.rollout.prompts import Message
from warpsmith.rollout.samplers.base import Completion, Sampler, Sampling


class Chat(Protocol):
    """The part of `warpsmith.policy.chat.ChatFormat` that rollouts need."""

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """Ids that end a turn."""

    @property
    def opens_thoughts(self) -> bool:
        """Whether the generation prompt ends inside thoughts, so that a completion starts in them."""

    def prompt_ids(self, messages: list[Message]) -> list[int]:
        """Return the ids of a conversation and the generation prompt."""

    def decode(self, ids: list[int]) -> str:
        """Return the text of ids without control tokens."""

    def inert(self, text: str) -> str:
        """Return text with its control tokens broken up."""


@dataclass(frozen=True)
class ChatSampler:
    """Samples answers to conversations.

    Args:
        sampler: the sampler.
        chat: the policy's chat format.
        config: sampling settings, deadline and retries.
        seed: base of the seeds of all completions; None samples without seeds.
    """

    sampler: Sampler
    chat: Chat
    config: RolloutConfig
    seed: int | None = None

    def sampling(self, trajectory: str, turn: int) -> Sampling:
        """Return how a turn is sampled; if there is a base seed, with its own seed."""
        settings = self.config.sampling
        return Sampling(
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            top_p=settings.top_p,
            top_k=settings.top_k,
            min_p=settings.min_p,
            seed=None if self.seed is None else _seed(self.seed, trajectory, turn),
            stop_token_ids=self.chat.stop_token_ids,
        )

    async def complete(self, prompt_ids: list[int], sampling: Sampling, what: str) -> tuple[Completion, float]:
        """Return a completion and its duration in seconds, retries included.

        Args:
            prompt_ids: the prompt.
            sampling: how to sample.
            what: names the completion in errors.

        Raises:
            SamplerDiedError: the sampler is gone.
            SamplerError, DeadlinePassedError: every attempt failed.
        """
        begin = time.monotonic()
        completion = await retries.with_retries(
            lambda: within(self.config.generate_timeout_s, self.sampler.generate(prompt_ids, sampling), what),
            retries.for_completions(self.config.retries),
        )
        return completion, time.monotonic() - begin


def _seed(seed: int, trajectory: str, turn: int) -> int:
    digest = hashlib.sha256(f"{seed}/{trajectory}/{turn}".encode()).digest()
    return int.from_bytes(digest[:4], "little") >> 1
