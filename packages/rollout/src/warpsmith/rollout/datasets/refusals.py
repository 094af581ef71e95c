"""Rows that are skipped and counted: why, and where."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """A skipped row.

    Attributes:
        reason: the kind of cause, the same for all rows it applies to.
        place: where the row is.
        detail: what is wrong with this row; may be empty.
    """

    reason: str
    place: str
    detail: str = ""


class BadRow(Exception):  # noqa: N818  caught where rows are read, and counted
    """A row that cannot be used."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail

    def at(self, place: str) -> Refusal:
        """Return this as the refusal of the row at `place`."""
        return Refusal(self.reason, place, self.detail)


def checked_text(text: str) -> str:
    """Return a text that can be encoded; JSON can also contain lone surrogates.

    Raises:
        BadRow: it cannot be encoded.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadRow("text that is not valid Unicode", str(error)) from None
    return text
