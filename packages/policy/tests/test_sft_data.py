"""Supervised examples and rows: nothing lost, nothing mixed, every label in its place."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.policy.errors import ExampleTooLongError, MessagesError
from warpsmith.policy.logprobs import sequence_starts
from warpsmith.policy.sft_data import IGNORED, Example, encode, pack

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


def test_an_answer_that_merges_with_its_header_is_encoded_as_sampled(chat_of):
    chat = chat_of("qwen25")
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "\n\nx"}]
    (example,) = encode(chat, messages)
    assert trained_text(chat, example) == "\n\nx<|im_end|>"


ANSWER = st.lists(
    st.sampled_from(["x = 1", "\n", "\n\n", " ", "é", "e\u0301", "<think>\nhm\n</think>\n\n"]), max_size=4
).map("".join)


@pytest.mark.parametrize("name", ["tiny", "qwen25", "qwen3", "qwen3-silent", "llama3", "llama30"])
@settings(max_examples=60, deadline=None)
@given(pairs=st.lists(st.tuples(st.sampled_from(["Add.", "Mend it.\n"]), ANSWER), min_size=1, max_size=3))
def test_trained_tokens_are_those_of_the_turns_each_once(chat_of, name, pairs):
    """A label stands on each token of each completion, behind its own prompt, and nowhere else."""
    chat = chat_of(name)
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


# Packing ---------------------------------------------------------------------------------------------------------


@st.composite
def example_lists(draw) -> list[Example]:
    """Examples whose ids tell which example and position they are."""
    lengths = draw(st.lists(st.integers(1, 30), max_size=12))
    made = []
    for number, length in enumerate(lengths):
        ids = np.arange(length) + 1000 * (number + 1)
        flags = draw(st.lists(st.booleans(), min_size=length, max_size=length))
        made.append(Example(ids, np.where(flags, ids, IGNORED)))
    return made


@given(examples=example_lists(), max_length=st.integers(30, 64))
def test_whole_examples_each_once(examples, max_length):
    rows = pack(examples, max_length, pad_id=0)
    assert rows.input_ids.shape == rows.labels.shape == rows.position_ids.shape == rows.attention_mask.shape
    found = {}
    for ids, labels, positions, mask in zip(
        rows.input_ids, rows.labels, rows.position_ids, rows.attention_mask, strict=True
    ):
        assert not ids[mask == 0].any()
        assert (labels[mask == 0] == IGNORED).all()
        starts = [*np.flatnonzero((positions == 0) & (mask == 1)), int(mask.sum())]
        for a, b in pairwise(starts):
            found[int(ids[a]) // 1000] = (ids[a:b].tolist(), labels[a:b].tolist(), positions[a:b].tolist())
    expected = {int(e.ids[0]) // 1000: (e.ids.tolist(), e.labels.tolist(), list(range(len(e)))) for e in examples}
    assert found == expected
    assert (rows.dropped, rows.split) == (0, 0)


@given(examples=example_lists(), max_length=st.integers(30, 64))
def test_rows_are_well_filled(examples, max_length):
    """Best fit leaves at most one row half empty, since two such rows would have been one."""
    rows = pack(examples, max_length, pad_id=0)
    taken = rows.attention_mask.sum(1)
    assert (taken * 2 <= max_length).sum() <= 1
    assert rows.fill == pytest.approx(taken.sum() / max(1, rows.attention_mask.size))


@given(examples=example_lists(), max_length=st.integers(2, 12))
def test_splitting_loses_only_what_nothing_predicts(examples, max_length):
    rows = pack(examples, max_length, pad_id=0, over_long="split")
    got = sorted(rows.labels[rows.labels != IGNORED].tolist())
    expected = sorted(
        int(label)
        for e in examples
        for i, label in enumerate(e.labels)
        if label != IGNORED and (len(e) <= max_length or i % max_length)
    )
    assert got == expected
    assert rows.split == sum(len(e) > max_length for e in examples)


@given(examples=example_lists(), max_length=st.integers(2, 12))
def test_dropping_counts(examples, max_length):
    rows = pack(examples, max_length, pad_id=0, over_long="drop")
    kept = [e for e in examples if len(e) <= max_length]
    assert rows.dropped == len(examples) - len(kept)
    assert int(rows.attention_mask.sum()) == sum(map(len, kept))


def test_too_long_is_an_error_that_names_the_example():
    short, long = (Example(np.arange(n), np.arange(n)) for n in (3, 9))
    with pytest.raises(ExampleTooLongError, match="Example 1 has 9 tokens; a row holds 8") as caught:
        pack([short, long], 8, pad_id=0)
    assert "over_long" in caught.value.remedy


def test_a_row_too_short_to_predict():
    with pytest.raises(ExampleTooLongError, match="holds nothing"):
        pack([], 1, pad_id=0)


def test_rows_are_what_the_logprobs_expect():
    examples = [Example(np.arange(n), np.arange(n)) for n in (5, 3, 4)]
    rows = pack(examples, 8, pad_id=0)
    starts = sequence_starts(torch.from_numpy(rows.attention_mask), torch.from_numpy(rows.position_ids))
    assert int(starts.sum()) == 3
