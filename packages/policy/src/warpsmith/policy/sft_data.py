"""Supervised examples: token ids with labels on the assistant's turns, and rows packed from them.

Needs numpy and the tokenizer; no torch.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from warpsmith.policy.chat import ChatFormat, Message
from warpsmith.policy.errors import ExampleTooLongError, MessagesError

IGNORED = -100
"""The label of a token that carries no loss, as torch's cross entropy and transformers have it."""

Ints = npt.NDArray[np.int64]
OverLong = Literal["error", "drop", "split"]


@dataclass(frozen=True)
class Example:
    """One sequence: `ids` [T] and `labels` [T], which repeat the id where the loss counts and are -100 elsewhere."""

    ids: Ints
    labels: Ints

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def trained(self) -> int:
        """How many tokens carry loss."""
        return int((self.labels != IGNORED).sum())


@dataclass(frozen=True)
class PackedRows:
    """Rows of several examples each.

    Attributes:
        input_ids: [R, T] token ids, `pad_id` where no example lies.
        labels: [R, T] -100 where no loss counts.
        attention_mask: [R, T] 1 for tokens, 0 for padding.
        position_ids: [R, T] positions, from 0 at the start of every example; what `token_logprobs` takes.
        dropped: examples left out because they were too long.
        split: examples cut into pieces because they were too long.
    """

    input_ids: Ints
    labels: Ints
    attention_mask: Ints
    position_ids: Ints
    dropped: int = 0
    split: int = 0

    @property
    def fill(self) -> float:
        """Share of the rows that tokens take up."""
        return float(self.attention_mask.mean()) if self.attention_mask.size else 0.0


def encode(chat: ChatFormat, messages: Sequence[Message]) -> list[Example]:
    """Return the examples of one conversation, with a label on every token of an assistant's turn.

    One example where the template keeps earlier turns as they were sampled, token by token; one a turn where it does
    not (Qwen3 drops earlier thoughts), so that the model is trained on what it will be given.

    Raises:
        MessagesError: there is no assistant's turn.
    """
    turns = chat.turns(messages)
    if not turns:
        raise MessagesError("The conversation has no assistant's turn.", "Give one answer at least.")
    ids, mask = chat.loss_mask(messages)
    full = [*turns[-1].prompt_ids, *turns[-1].completion_ids]
    if chat.keeps_history(messages) and ids[: len(full)] == full:
        return [_example(ids, mask)]
    return [
        _example([*t.prompt_ids, *t.completion_ids], [0] * len(t.prompt_ids) + [1] * len(t.completion_ids))
        for t in turns
    ]


def pack(examples: Iterable[Example], max_length: int, *, pad_id: int, over_long: OverLong = "error") -> PackedRows:
    """Lay examples into rows of `max_length` tokens, whole, the longest first, each into the fullest row it fits.

    Args:
        examples: what `encode` returns.
        max_length: tokens a row.
        pad_id: the id that fills the rest of a row.
        over_long: what to do with an example that is longer: `error`, `drop` it, or `split` it into pieces that
            do not see each other. The result counts both.

    Raises:
        ExampleTooLongError: an example is longer than a row and `over_long` is `error`.
    """
    if max_length < 2:
        raise ExampleTooLongError(f"A row of {max_length} tokens holds nothing to predict.", "Give at least 2.")
    pieces: list[Example] = []
    long = 0
    for number, example in enumerate(examples):
        long += len(example) > max_length
        pieces.extend(_fitting(example, max_length, over_long, number))
    rows = _lay_out(pieces, max_length, pad_id)
    counts = {"drop": (long, 0), "split": (0, long), "error": (0, 0)}[over_long]
    return PackedRows(*rows, dropped=counts[0], split=counts[1])


def _example(ids: Sequence[int], mask: Sequence[int]) -> Example:
    array = np.asarray(ids, dtype=np.int64)
    return Example(array, np.where(np.asarray(mask, dtype=bool), array, IGNORED))


def _fitting(example: Example, max_length: int, over_long: OverLong, number: int) -> list[Example]:
    """Return the example, its pieces, or nothing."""
    if len(example) <= max_length:
        return [example]
    if over_long == "error":
        raise ExampleTooLongError(
            f"Example {number} has {len(example)} tokens; a row holds {max_length}.",
            "Raise max_length, or choose over_long='drop' or 'split'.",
        )
    if over_long == "drop":
        return []
    starts = range(0, len(example), max_length)
    pieces = [Example(example.ids[i : i + max_length], _unseen(example.labels[i : i + max_length])) for i in starts]
    return [piece for piece in pieces if piece.trained]


def _unseen(labels: Ints) -> Ints:
    """Take the label off a piece's first token, which nothing in the piece predicts."""
    labels = labels.copy()
    labels[0] = IGNORED
    return labels


def _lay_out(pieces: Sequence[Example], max_length: int, pad_id: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Best fit, longest first; equal lengths keep their order, so the result is the same every time."""
    rows: list[list[Example]] = []
    free: list[int] = []
    for piece in sorted(pieces, key=len, reverse=True):
        fitting = [row for row, space in enumerate(free) if space >= len(piece)]
        if fitting:
            row = min(fitting, key=lambda r: free[r])
        else:
            row = len(rows)
            rows.append([])
            free.append(max_length)
        rows[row].append(piece)
        free[row] -= len(piece)
    return _filled(rows, max_length, pad_id)


def _filled(rows: Sequence[Sequence[Example]], max_length: int, pad_id: int) -> tuple[Ints, Ints, Ints, Ints]:
    shape = (len(rows), max_length)
    ids, labels = np.full(shape, pad_id, np.int64), np.full(shape, IGNORED, np.int64)
    mask, positions = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for r, row in enumerate(rows):
        start = 0
        for piece in row:
            place = slice(start, start + len(piece))
            ids[r, place], labels[r, place], mask[r, place] = piece.ids, piece.labels, 1
            positions[r, place] = np.arange(len(piece))
            start += len(piece)
    return ids, labels, mask, positions
