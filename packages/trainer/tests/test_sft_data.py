"""Chats from files and from the generator, as rows with the loss on the answers."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warpsmith.policy.loading import load_chat
from warpsmith.trainer.config.sft import SftDataSection
from warpsmith.trainer.errors import DataError
from warpsmith.trainer.sft_data import load_sft_data, read_chats, token_rows

CHATS = [[{"role": "user", "content": f"q{i}"}, {"role": "assistant", "content": f"answer {i}"}] for i in range(6)]


def as_file(chats: list[object], path: Path) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"messages": chats}), path)
    else:
        path.write_text("\n".join(json.dumps({"messages": chat}) for chat in chats) + "\n\n")
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_chats_are_read(tmp_path: Path, suffix: str) -> None:
    assert [list(chat) for chat in read_chats(as_file(CHATS, tmp_path / f"chats{suffix}"))] == CHATS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "Line 1 of"),
        ('{"messages": [{"role": "user", "content": "q"}]}\n{"messages": [{"role": "user"}]}', "Row 2"),
        ('{"chat": []}', "Row 1"),
        ('["x"]', "Row 1"),
        ('{"messages": []}', "Row 1"),
    ],
)
def test_the_first_bad_row_is_named(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "chats.jsonl"
    path.write_text(text)
    with pytest.raises(DataError, match=expected):
        read_chats(path)


def test_a_file_that_is_not_there_or_not_parquet_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file"):
        read_chats(tmp_path / "absent.jsonl")
    (tmp_path / "x.parquet").write_text("no parquet")
    with pytest.raises(DataError, match="cannot be read"):
        read_chats(tmp_path / "x.parquet")


def test_rows_train_the_answer_and_its_end(tmp_path: Path, tiny: Path) -> None:
    chat = load_chat(tiny)
    section = SftDataSection(source="chats", path=as_file(CHATS, tmp_path / "c.jsonl"), eval_examples=2, max_tokens=64)
    data = load_sft_data(section, chat, seed=0)
    assert (len(data.train), len(data.evaluation), data.dropped) == (4, 2, 0)
    for row in token_rows(data.train):
        trained = chat.decode([int(i) for i in row.ids[row.mask == 1]])
        assert trained.startswith("answer ")
        assert int(row.ids[row.mask == 1][-1]) in chat.stop_token_ids


def test_long_examples_are_counted_and_nothing_left_is_refused(tmp_path: Path, tiny: Path) -> None:
    long = [{"role": "user", "content": "q" * 200}, {"role": "assistant", "content": "a"}]
    path = as_file([*CHATS, long], tmp_path / "c.jsonl")
    section = SftDataSection(source="chats", path=path, eval_examples=0, max_tokens=64)
    assert load_sft_data(section, load_chat(tiny), seed=0).dropped == 1
    with pytest.raises(DataError, match="no example to train on"):
        load_sft_data(section.model_copy(update={"eval_examples": 7}), load_chat(tiny), seed=0)


def test_generated_examples_are_the_same_every_time(tiny: Path) -> None:
    section = SftDataSection(problems=12, prompt_style="compact", eval_examples=3)
    one, two = (load_sft_data(section, load_chat(tiny), seed=4) for _ in range(2))
    assert [e.ids.tolist() for e in one.train] == [e.ids.tolist() for e in two.train]
    assert len(one.train) == 9
