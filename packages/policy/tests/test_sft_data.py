"""Supervised examples: every label in its place."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.policy.errors import MessagesError
from warpsmith.policy.sft_data import IGNORED, Example, encode

THOUGHT = [
    {"role": "user", "content": "Add."},
    {"role": "assistant", "content": "<think>\nlong\n</think>\n\nfirst"},
    {"role": "user", "content": "Wrong."},
    {"role": "assistant", "content": "<think>\nshort\n</think>\n\nsecond"},
]


def trained_text(chat, example: Example) -> str:
    return chat.tokenizer.decode(example.ids[example.labels != IGNORED])


def test_one_example_where_history_is_kept(chat_of):
    chat = chat_of("tiny")
    (example,) = encode(chat, THOUGHT)
    ids, mask = chat.loss_mask(THOUGHT)
    assert example.ids.tolist() == ids
    assert (example.labels != IGNORED).tolist() == [bool(flag) for flag in mask]
    assert example.trained == sum(mask)


def test_one_example_a_turn_where_thoughts_are_dropped(chat_of):
    chat = chat_of("qwen3")
    examples = encode(chat, THOUGHT)
    assert [trained_text(chat, e) for e in examples] == [
        "<think>\nlong\n</think>\n\nfirst<|im_end|>",
        "<think>\nshort\n</think>\n\nsecond<|im_end|>",
    ]
    for example, turn in zip(examples, chat.turns(THOUGHT), strict=True):
        assert example.ids.tolist() == turn.prompt_ids + turn.completion_ids


@pytest.mark.parametrize("name", ["tiny", "qwen3"])
def test_the_last_turn_alone_is_its_prompt_and_its_answer(chat_of, name):
    chat = chat_of(name)
    (example,) = encode(chat, THOUGHT, train_on="last")
    last = chat.turns(THOUGHT)[-1]
    assert example.ids.tolist() == last.prompt_ids + last.completion_ids
    assert example.labels[example.labels != IGNORED].tolist() == last.completion_ids
    assert (example.labels[: len(last.prompt_ids)] == IGNORED).all()


def test_an_answer_that_merges_with_its_header_is_encoded_as_sampled(chat_of):
    chat = chat_of("qwen25")
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "\n\nx"}]
    (example,) = encode(chat, messages)
    assert trained_text(chat, example) == "\n\nx<|im_end|>"


# A thought stands first: what stands before one, Qwen3's template drops, and the answer is refused.
ANSWER = st.builds(
    "{}{}".format,
    st.sampled_from(["", "<think>\nhm\n</think>\n\n"]),
    st.lists(st.sampled_from(["x = 1", "\n", "\n\n", " ", "é", "e\u0301"]), max_size=4).map("".join),
)


@pytest.mark.parametrize("name", ["tiny", "qwen25", "qwen3", "qwen3-silent", "llama3", "llama30"])
@settings(max_examples=60, deadline=None)
@given(pairs=st.lists(st.tuples(st.sampled_from(["Add.", "Fix it.\n"]), ANSWER), min_size=1, max_size=3))
def test_trained_tokens_are_those_of_the_turns_each_once(chat_of, name, pairs):
    """A label stands on each token of each completion, behind its own prompt, and nowhere else."""
    chat = chat_of(name)
    if name == "qwen3-silent":
        pairs = [(question, answer.replace("<think>\nhm\n</think>\n\n", "")) for question, answer in pairs]
    messages = [
        {"role": role, "content": text}
        for pair in pairs
        for role, text in zip(("user", "assistant"), pair, strict=True)
    ]
    examples, turns = encode(chat, messages), chat.turns(messages)
    assert len(examples) in (1, len(turns))
    labelled = [
        (example.ids[:end].tolist(), example.ids[begin:end].tolist())
        for example in examples
        for begin, end in runs(example.labels != IGNORED)
    ]
    assert labelled == [(turn.prompt_ids + turn.completion_ids, turn.completion_ids) for turn in turns]
    for example in examples:
        assert (example.labels[example.labels != IGNORED] == example.ids[example.labels != IGNORED]).all()


def runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """Begin and end of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def test_a_conversation_without_an_answer(chat_of):
    with pytest.raises(MessagesError, match="no assistant's turn"):
        encode(chat_of("tiny"), [{"role": "user", "content": "q"}])
