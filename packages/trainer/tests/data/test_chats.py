"""Chats out of files: every form that is common, every bad row counted with its reason, none raised."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.rollout.datasets.row_files import count_rows, find_files, stream_rows
from warpsmith.trainer.config.sources import ChatsSource
from warpsmith.trainer.data.chats import chat_of, read_chats
from warpsmith.trainer.data.sample import BadRow, Refusal, Sample
from warpsmith.trainer.errors import DataError

CHAT = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]


def read(path: Path, **keys: Any) -> list[Sample | Refusal]:
    section = ChatsSource(path=(path,), **keys)
    return list(read_chats(section, find_files(section.path, DataError)))


@pytest.mark.parametrize(
    "row",
    [
        {"messages": CHAT},
        {"messages": CHAT, "prompt": "a prompt alone is no form"},
        {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]},
        {"conversations": CHAT},
        {"prompt": "q", "completion": "a"},
        {"prompt": CHAT[:1], "completion": CHAT[1:]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]}, CHAT[1]]},
        {"messages": [*CHAT, {"role": "user", "content": "thanks"}]},
        {"messages": CHAT, "conversations": None},
    ],
)
def test_each_form_gives_the_same_chat(row: dict[str, Any]) -> None:
    assert chat_of(row) == CHAT


def test_a_system_text_beside_sharegpt_comes_first() -> None:
    row = {"system": "s", "conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]}
    assert chat_of(row) == [{"role": "system", "content": "s"}, *CHAT]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"text": "q"}, "no chat: neither"),
        ({"messages": CHAT, "prompt": "q", "completion": "a"}, "more than one form"),
        ({"messages": []}, "not a list of messages"),
        ({"messages": "q"}, "not a list of messages"),
        ({"messages": ["q"]}, "not an object"),
        ({"messages": [{"role": "user"}]}, "no text"),
        ({"messages": [{"role": "bot", "content": "q"}]}, "no known role"),
        ({"conversations": [{"from": "bing", "value": "q"}]}, "no known role"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "no text"),
        ({"messages": [{"role": "assistant", "content": "x", "tool_calls": [{}]}]}, "calls tools"),
        ({"messages": CHAT[:1]}, "no message of an assistant"),
        ({"messages": CHAT[1:]}, "without a question"),
        ({"messages": [CHAT[0], {"role": "assistant", "content": " \n"}]}, "empty answer"),
        ({"messages": [CHAT[0], {"role": "assistant", "content": "\ud800"}]}, "not valid Unicode"),
    ],
)
def test_a_bad_row_says_why(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadRow) as caught:
        chat_of(row)
    assert reason in caught.value.reason


def test_a_form_that_is_named_is_taken_and_its_lack_is_reported() -> None:
    assert chat_of({"messages": CHAT, "prompt": "p", "completion": "c"}, "prompt_completion")[0]["content"] == "p"
    with pytest.raises(BadRow, match="no column conversations"):
        chat_of({"messages": CHAT}, "sharegpt")


def test_bad_lines_are_counted_and_the_others_read(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    lines = [json.dumps({"messages": CHAT}).encode(), b"{", b"", b'["x"]', b'{"messages": "\xff"}', b"[" * 100_000]
    path.write_bytes(b"\n".join([*lines, json.dumps({"prompt": "p\u2028", "completion": "c"}).encode()]))
    found = read(path)
    assert [one.place for one in found] == [f"line {n} of {path}" for n in (1, 2, 4, 5, 6, 7)]
    assert [one.reason for one in found if isinstance(one, Refusal)] == [
        "not JSON", "not an object with columns as names", "not UTF-8 text", "not JSON",
    ]  # fmt: skip
    assert isinstance(found[-1], Sample)
    assert found[-1].messages[0]["content"] == "p\u2028"


def test_parquet_and_json_lists_are_read_as_lines_are(tmp_path: Path) -> None:
    pq.write_table(pa.table({"messages": [CHAT, None], "other": [1, 2]}), tmp_path / "c.parquet")
    (tmp_path / "c.json").write_text(json.dumps([{"messages": CHAT}, {}]))
    for name in ("c.parquet", "c.json"):
        good, bad = read(tmp_path / name)
        assert isinstance(good, Sample)
        assert list(good.messages) == CHAT
        assert isinstance(bad, Refusal)
        assert bad.place == f"row 2 of {tmp_path / name}"
    assert count_rows(tmp_path / "c.parquet") == count_rows(tmp_path / "c.json") == 2


def test_the_problem_is_the_first_question_or_the_column_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    rows = [{"messages": CHAT, "id": 7}, {"messages": CHAT}]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert [one.problem for one in read(path) if isinstance(one, Sample)] == ["q", "q"]
    named, missing = read(path, problem_column="id")
    assert isinstance(named, Sample)
    assert named.problem == "7"
    assert isinstance(missing, Refusal)
    assert "`id`" in missing.reason


def test_files_are_found_by_name_directory_and_pattern(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.parquet", "sub/c.json", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    names = [path.name for path in find_files([tmp_path])]
    assert names == ["a.parquet", "b.jsonl", "c.json"]
    assert [path.name for path in find_files([tmp_path / "*.jsonl", tmp_path / "**/*.json"])] == ["b.jsonl", "c.json"]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("absent.jsonl", None, "no file"),
        ("*.jsonl", None, "has no file"),
        ("x.txt", "a,b", "unknown format"),
        ("x.parquet", "no parquet", "cannot be read"),
        ("x.json", "{", "is not JSON"),
        ("x.json", "{}", "not a JSON list"),
    ],
)
def test_a_file_that_cannot_be_read_at_all_is_named(tmp_path: Path, name: str, text: str | None, expected: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=expected):
        read(tmp_path / name)


def test_parquet_of_other_columns_is_refused_with_those_it_has(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["x"]}), tmp_path / "x.parquet")
    with pytest.raises(DataError, match="it has text"):
        read(tmp_path / "x.parquet")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(st.characters())
    | st.sampled_from(["user", "assistant", "gpt"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "from", "value", "text", "type"]), inner, max_size=3)
    ),
    max_leaves=12,
)
ROWS = st.dictionaries(
    st.sampled_from(["messages", "conversations", "prompt", "completion", "system", "x"]), JSON, max_size=4
)


@settings(max_examples=300, deadline=None)
@given(row=ROWS)
def test_any_row_gives_a_chat_with_an_answer_or_a_reason(row: dict[str, Any]) -> None:
    try:
        chat = chat_of(row)
    except BadRow as bad:
        assert bad.reason
        return
    assert chat[-1]["role"] == "assistant"
    assert all(isinstance(message["content"], str) for message in chat)


@settings(max_examples=100, deadline=None)
@given(text=st.binary(max_size=200))
def test_any_bytes_give_a_row_or_a_refusal_a_line(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_bytes(text)
    filled = [n for n, line in enumerate(text.split(b"\n"), start=1) if line.strip()]
    assert [place for place, _ in stream_rows(path, ["messages"])] == [f"line {n} of {path}" for n in filled]
