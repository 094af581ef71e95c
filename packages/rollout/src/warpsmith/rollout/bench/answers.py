"""An answer of an endpoint, whole or in pieces, and its tokens."""

from dataclasses import dataclass, field
from typing import Any, Final

from warpsmith.evaluator.verdict import well_formed
from warpsmith.rollout.prompts import Message

CHARACTERS_PER_TOKEN: Final = 3.0
"""For estimates: code has three to four characters per token in the usual vocabularies."""
TOKENS_PER_MESSAGE: Final = 8
"""What a chat template adds to a message, at most."""


def estimated_tokens(text: str) -> int:
    """Estimate how many tokens a text has; rather too many than too few."""
    return -int(-len(text) // CHARACTERS_PER_TOKEN)


def estimated_prompt(messages: list[Message]) -> int:
    """Estimate how many tokens a prompt has; rather too many than too few."""
    return sum(estimated_tokens(message["content"]) + TOKENS_PER_MESSAGE for message in messages)


_MOST_TOKENS: Final = 2**31


@dataclass(frozen=True)
class Answer:
    """A complete answer.

    Attributes:
        text: what the model said, after thoughts in tags where the endpoint sends them apart.
        finish_reason: why it ended: `stop`, `length`, or another word of the endpoint.
        prompt_tokens, completion_tokens: as the endpoint counts them, or estimated.
        estimated: whether the endpoint did not count them.
        seconds: of the request, with retries and the waits between them, but not its wait for a place.
    """

    text: str
    finish_reason: str | None
    prompt_tokens: int
    completion_tokens: int
    estimated: bool
    seconds: float = 0.0


@dataclass
class Pieces:
    """An answer as it arrives."""

    text: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None

    def take(self, part: dict[str, Any], said: str) -> None:
        """Add a whole answer (`said` is `message`) or a piece of one (`delta`).

        Raises:
            ValueError: it does not have the form that the API promises.
        """
        usage, choices = part.get("usage"), part.get("choices") or []
        if isinstance(usage, dict):
            self.usage = usage
        if not isinstance(choices, list):
            raise ValueError("`choices` is not a list")
        for choice in choices:
            message = _dict(choice, "a choice").get(said)
            message = {} if message is None else _dict(message, f"`{said}`")
            self.text.append(_text(message.get("content"), "`content`"))
            thoughts = message.get("reasoning_content") or message.get("reasoning")
            self.thoughts.append(_text(thoughts, "`reasoning_content`"))
            self.finish_reason = _text(choice.get("finish_reason"), "`finish_reason`") or self.finish_reason

    def answer(self, messages: list[Message]) -> Answer:
        """Return the part of the answer that has arrived."""
        # JSON can hold half a surrogate pair, which no record can.
        text, thoughts = well_formed("".join(self.text)), well_formed("".join(self.thoughts))
        usage = self.usage or {}
        prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
        known = prompt is not None and completion is not None
        return Answer(
            f"<think>\n{thoughts}\n</think>\n\n{text}" if thoughts else text,
            self.finish_reason and well_formed(self.finish_reason),
            prompt if known and prompt is not None else estimated_prompt(messages),
            completion if known and completion is not None else estimated_tokens(thoughts + text),
            estimated=not known,
        )


def _dict(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is not an object")
    return value


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str | None):
        raise ValueError(f"{what} is not text")
    return value or ""


def _count(value: Any) -> int | None:
    """Return a number of tokens; None if it is not a number."""
    return value if isinstance(value, int) and 0 <= value < _MOST_TOKENS else None
