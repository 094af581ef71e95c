"""What a source yields for each row: a chat, or the reason why the row is skipped."""

from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.rollout.datasets.refusals import BadRow, Refusal, checked_text

__all__ = ["BadRow", "Chat", "Message", "Refusal", "Sample", "checked_text"]

Message = dict[str, str]
Chat = Sequence[Message]


@dataclass(frozen=True)
class Sample:
    """A chat to learn from.

    Attributes:
        messages: role and content; the last one is an assistant's.
        problem: identifies its problem; chats of one problem are held out together.
        place: where it comes from, for example `row 3 of chats.parquet`.
    """

    messages: Chat
    problem: str
    place: str
