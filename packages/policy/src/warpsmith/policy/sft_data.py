"""Supervised examples: token ids with labels on the assistant's turns.

Needs numpy and the tokenizer; no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpsmith.policy.chat import ChatFormat, Message
from warpsmith.policy.errors import MessagesError

IGNORED = -100
"""The label of a token that carries no loss, as torch's cross entropy and transformers have it."""

Ints = npt.NDArray[np.int64]


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


def _example(ids: Sequence[int], mask: Sequence[int]) -> Example:
    array = np.asarray(ids, dtype=np.int64)
    return Example(array, np.where(np.asarray(mask, dtype=bool), array, IGNORED))
