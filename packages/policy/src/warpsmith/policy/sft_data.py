"""Supervised examples: token ids with labels on the assistant's turns.

Needs numpy and the tokenizer; no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from warpsmith.policy.chat import ChatFormat, Message, Turn, extends
from warpsmith.policy.errors import MessagesError

IGNORED = -100
"""The label of a token that is not trained, as in torch's cross entropy and transformers."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Example:
    """One sequence: `ids` [T] and `labels` [T], which equal the id where the token is trained, and -100 elsewhere."""

    ids: Ints
    labels: Ints

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def trained(self) -> int:
        """Number of trained tokens."""
        return int((self.labels != IGNORED).sum())


def encode(chat: ChatFormat, messages: Sequence[Message], *, train_on: Literal["all", "last"] = "all") -> list[Example]:
    """Return the examples of one conversation, with a label on every token of an assistant's turn.

    One example if the template keeps earlier turns token by token as they were sampled, else one per turn (Qwen3 drops
    earlier thoughts), so that training sees the same prompts as sampling.

    Args:
        chat: the chat format.
        messages: the conversation.
        train_on: `last` gives one example, the last turn after its prompt, without labels on earlier turns.

    Raises:
        MessagesError: there is no assistant's turn.
    """
    turns = chat.turns(messages)
    if not turns:
        raise MessagesError("The conversation has no assistant's turn.", "Include at least one answer.")
    if train_on == "last" or len(turns) == 1:
        return [_of_turn(turns[-1])]
    ids, mask = chat.loss_mask(messages)
    full = _whole(turns[-1])
    kept = all(extends(later.prompt_ids, _whole(earlier)) for earlier, later in pairwise(turns))
    if kept and ids[: len(full)] == full:
        return [_example(ids, mask)]
    return [_of_turn(turn) for turn in turns]


def _whole(turn: Turn) -> list[int]:
    return [*turn.prompt_ids, *turn.completion_ids]


def _of_turn(turn: Turn) -> Example:
    return _example(_whole(turn), [0] * len(turn.prompt_ids) + [1] * len(turn.completion_ids))


def _example(ids: Sequence[int], mask: Sequence[int]) -> Example:
    array = np.asarray(ids, dtype=np.int64)
    return Example(array, np.where(np.asarray(mask, dtype=bool), array, IGNORED))
