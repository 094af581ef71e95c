"""What a source yields for each row: a chat, or the reason why the row is skipped."""

from collections.abc import Sequence
from dataclasses import dataclass

Message = dict[str, str]
Chat = Sequence[Message]


@dataclass(frozen=True)
class Sample:
    """A chat to learn from.

    Attributes:
        messages: role and content; the last one is an assistant's.
        problem: names what the chat is about; chats of one problem are held out together.
        place: where it stands, for example `row 3 of chats.parquet`.
    """

    messages: Chat
    problem: str
    place: str


@dataclass(frozen=True)
class Refusal:
    """A row that is left out.

    Attributes:
        reason: the kind of cause, the same for every row it holds for.
        place: where the row stands.
        detail: what is wrong with this row; may be empty.
    """

    reason: str
    place: str
    detail: str = ""


class BadRow(Exception):  # noqa: N818  caught where rows are read, and counted
    """A row that gives no chat."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail

    def at(self, place: str) -> Refusal:
        """Return it as the refusal of the row at `place`."""
        return Refusal(self.reason, place, self.detail)


def checked_text(text: str) -> str:
    """Return a text that can be encoded; JSON can also spell halves of characters.

    Raises:
        BadRow: it cannot.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadRow("text that is no Unicode", str(error)) from None
    return text
