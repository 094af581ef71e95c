"""From sources to what each update takes: encoded once, held out by problem, mixed by weight, shown in advance."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.policy.chat import ChatFormat
from warpsmith.policy.config import PolicyConfig
from warpsmith.policy.loading import load_chat
from warpsmith.trainer.config.sft import SftConfig, SftDataSection, SftRunSection
from warpsmith.trainer.config.sources import ChatsSource
from warpsmith.trainer.data.build import build
from warpsmith.trainer.data.dataset import SftData, arrange
from warpsmith.trainer.data.held_out_examples import held_out
from warpsmith.trainer.data.mixture import Mixture
from warpsmith.trainer.data.show import CLOSE, OPEN, marked, report
from warpsmith.trainer.data.store import TokenStore, writing
from warpsmith.trainer.errors import CheckpointError, DataError, DataWriteError


def chat_row(question: str, *answers: str) -> dict[str, Any]:
    turns = [[{"role": "user", "content": question}, {"role": "assistant", "content": answer}] for answer in answers]
    return {"messages": [message for turn in turns for message in turn]}


ROWS = [chat_row(f"q{i}", f"answer {i}") for i in range(6)]


@pytest.fixture(scope="module")
def chat(tiny: Path) -> ChatFormat:
    return load_chat(tiny)


def as_file(path: Path, rows: list[Any]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def encoded(data: SftDataSection, chat: ChatFormat, folder: Path) -> TokenStore:
    return build(data, chat, 0, folder, lambda label, done, expected: None)


def config_of(data: SftDataSection, **run: Any) -> SftConfig:
    return SftConfig(
        run=SftRunSection(dir=Path("unused"), **run), policy=PolicyConfig(path="unused", dtype="float32"), data=data
    )


def test_rows_train_the_answer_and_its_end(tmp_path: Path, chat: ChatFormat) -> None:
    data = SftDataSection(source=ChatsSource(path=as_file(tmp_path / "c.jsonl", ROWS)), eval_examples=2, max_tokens=64)
    store = encoded(data, chat, tmp_path / "data")
    assert len(store) == 6
    for number in range(6):
        row = store.row(number)
        assert chat.decode(row.ids[row.mask == 1].tolist()) == f"answer {number}"
        assert int(row.ids[row.mask == 1][-1]) in chat.stop_token_ids
    assert store.tallies[0].trained == sum(int(store.row(i).mask.sum()) for i in range(6))


@pytest.mark.parametrize(("train_on", "trained"), [("all", ["one", "two"]), ("last", ["two"])])
def test_every_turn_or_the_last_one_is_trained(
    tmp_path: Path, chat: ChatFormat, train_on: str, trained: list[str]
) -> None:
    path = as_file(tmp_path / "c.jsonl", [chat_row("q", "one", "two")])
    data = SftDataSection(source=ChatsSource(path=path), train_on=train_on)  # type: ignore[arg-type]
    row = encoded(data, chat, tmp_path / "data").row(0)
    shown = marked(row, chat)
    assert [part.partition("<|im_end|>")[0] for part in shown.split(OPEN)[1:]] == trained
    assert shown.replace(OPEN, "").replace(CLOSE, "") == chat.tokenizer.decode(row.ids.tolist())
    assert "one" in shown


def test_what_is_left_out_is_counted_with_its_first_row(tmp_path: Path, chat: ChatFormat) -> None:
    rows = [*ROWS, ROWS[0], chat_row("q" * 200, "long"), {"x": 1}, {"y": 1}]
    path = as_file(tmp_path / "c.jsonl", rows)
    data = SftDataSection(source=ChatsSource(path=path), max_tokens=64)
    (tally,) = encoded(data, chat, tmp_path / "data").tallies
    assert (tally.rows, tally.examples, sum(tally.left_out.values())) == (10, 6, 4)
    lines = "\n".join(tally.lines())
    assert f"1 repeated: the same messages came before (first: line 7 of {path})" in lines
    assert f"longer than 64 tokens (data.max_tokens) (first: line 8 of {path}: " in lines
    assert f"2 no chat: neither messages nor conversations nor prompt and completion (first: line 9 of {path}" in lines


@pytest.mark.parametrize(
    ("whole", "own", "sizes"), [(None, None, [6, 6]), (2, None, [2, 2]), (4, 1, [4, 1]), (None, 99, [6, 6])]
)
def test_a_limit_takes_the_first_examples_of_each_source(
    tmp_path: Path, chat: ChatFormat, whole: int | None, own: int | None, sizes: list[int]
) -> None:
    files = [as_file(tmp_path / f"{name}.jsonl", [chat_row(f"{name}{i}", "a") for i in range(6)]) for name in "cd"]
    sources = (ChatsSource(path=files[0]), ChatsSource(path=files[1], limit=own))
    store = encoded(SftDataSection(sources=sources, limit=whole, eval_examples=0), chat, tmp_path / "data")
    assert [tally.examples for tally in store.tallies] == sizes
    first = chat.tokenizer.decode(store.row(0).ids.tolist())
    assert "c0" in first


def test_nothing_left_is_refused_with_the_commonest_reason_and_leaves_no_files(
    tmp_path: Path, chat: ChatFormat
) -> None:
    path = as_file(tmp_path / "c.jsonl", [{"x": 1}, {"x": 2}, ROWS[0]])
    with pytest.raises(DataError, match=r"2 of 3 rows of chats\): no chat: neither"):
        encoded(SftDataSection(source=ChatsSource(path=path), max_tokens=16), chat, tmp_path / "data")
    assert [one.name for one in tmp_path.iterdir()] == ["c.jsonl"]


def test_examples_that_were_changed_on_disk_are_refused(tmp_path: Path, chat: ChatFormat) -> None:
    data = SftDataSection(source=ChatsSource(path=as_file(tmp_path / "c.jsonl", ROWS)))
    before = encoded(data, chat, tmp_path / "data")
    after = TokenStore.open(tmp_path / "data")
    assert after.digest == before.digest
    assert after.tallies == before.tallies
    ids = bytearray((tmp_path / "data/ids.bin").read_bytes())
    ids[5] ^= 1
    (tmp_path / "data/ids.bin").write_bytes(ids)
    with pytest.raises(CheckpointError, match="digest"):
        TokenStore.open(tmp_path / "data")
    (tmp_path / "data/mask.bin").unlink()
    with pytest.raises(CheckpointError, match=r"mask\.bin"):
        TokenStore.open(tmp_path / "data", check=False)


def test_a_folder_with_files_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples/mine.txt").write_text("mine")
    with pytest.raises(DataWriteError, match=r"contains mine\.txt"), writing(tmp_path / "examples"):
        pass
    assert (tmp_path / "examples/mine.txt").read_text() == "mine"


def test_a_directory_that_takes_no_files_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataWriteError, match="could not be written"), writing(tmp_path / "file/data"):
        pass


# Held-out problems ------------------------------------------------------------------------------------------------

PROBLEMS = st.lists(st.integers(0, 40), min_size=1, max_size=80)


def hashed(problems: list[int]) -> Any:
    return np.asarray([np.uint64(problem * 2654435761 % 2**64) for problem in problems], dtype=np.uint64)


@settings(max_examples=200, deadline=None)
@given(problems=PROBLEMS, more=PROBLEMS, count=st.integers(0, 30), seed=st.integers(0, 2**63))
def test_problems_are_held_out_whole_and_stay_when_others_come(
    problems: list[int], more: list[int], count: int, seed: int
) -> None:
    held = held_out(hashed(problems), count, seed)
    chosen = {problem for problem, out in zip(problems, held, strict=True) if out}
    assert all(out == (problem in chosen) for problem, out in zip(problems, held, strict=True))
    assert held.sum() >= min(count, len(problems))
    assert not chosen or held.sum() - max(problems.count(problem) for problem in chosen) < count
    later = held_out(hashed([*problems, *more]), count, seed)
    moved_in = {p for p, out in zip(problems, later[: len(problems)], strict=True) if out} - chosen
    assert not moved_in


def test_another_seed_holds_out_other_problems() -> None:
    problem = hashed(list(range(1000)))
    one, two = (set(np.flatnonzero(held_out(problem, 100, seed))) for seed in (0, 1))
    assert len(one) == len(two) == 100
    assert len(one & two) < 30


def test_all_held_out_is_refused(tmp_path: Path, chat: ChatFormat) -> None:
    data = SftDataSection(source=ChatsSource(path=as_file(tmp_path / "c.jsonl", ROWS)), eval_examples=6)
    with pytest.raises(DataError, match=r"6 examples of 6 problems leave none"):
        arrange(encoded(data, chat, tmp_path / "data"), config_of(data))


# Order and weights ------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    weights=st.lists(st.sampled_from([0.3, 0.5, 1.0, 2.0]), min_size=3, max_size=3),
    cut=st.integers(0, 60),
    seed=st.integers(0, 5),
)
def test_the_order_hangs_on_the_cursor_alone_and_keeps_the_weights(
    sizes: list[int], weights: list[float], cut: int, seed: int
) -> None:
    edges = np.cumsum([0, *sizes])
    sources = [np.arange(begin, end) for begin, end in pairwise(edges)]
    order = Mixture(sources, weights[: len(sizes)], seed)
    straight = order.taken(0, 80)
    fresh = Mixture(sources, weights[: len(sizes)], seed)
    assert fresh.taken(cut, 80 - cut if cut < 80 else 0) == straight[cut:]
    for epoch in range(80 // len(order)):
        seen = straight[epoch * len(order) : (epoch + 1) * len(order)]
        for source, weight in zip(sources, weights, strict=False):
            counts = Counter(one for one in seen if one in source)
            assert counts.total() == max(1, round(weight * len(source)))
    handed = Counter(order.taken(0, len(order) * 10))
    for source in sources:
        times = [handed[int(example)] for example in source]
        assert max(times) - min(times) <= 1


def test_each_epoch_has_an_order_of_its_own() -> None:
    order = Mixture([np.arange(50)], [1.0], 0)
    first, second = order.taken(0, 50), order.taken(50, 50)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second


def test_sources_are_mixed_by_weight_and_named(tmp_path: Path, chat: ChatFormat) -> None:
    one, two = (as_file(tmp_path / f"{n}.jsonl", [chat_row(f"{n}{i}", "a") for i in range(8)]) for n in "ab")
    parts = (ChatsSource(path=one, weight=2.0), ChatsSource(path=two, weight=0.5))
    data = SftDataSection(sources=parts, eval_examples=4)
    arranged = arrange(encoded(data, chat, tmp_path / "data"), config_of(data))
    held = arranged.evaluation
    assert set(held) <= {"chats-1", "chats-2"}
    assert sum(map(len, held.values())) == 4
    kept = [8 - len(held.get(name, [])) for name in ("chats-1", "chats-2")]
    assert len(arranged.order) == 2 * kept[0] + max(1, round(kept[1] / 2))
    assert not {i for examples in held.values() for i in examples} & set(arranged.order.taken(0, 200))


# Before a run -----------------------------------------------------------------------------------------------------


def shown(tmp_path: Path, chat: ChatFormat, **run: Any) -> tuple[SftData, str]:
    path = as_file(tmp_path / "c.jsonl", [*ROWS, {"x": 1}])
    data = SftDataSection(source=ChatsSource(path=path), eval_examples=2, batch_size=3)
    config = config_of(data, **run)
    arranged = arrange(encoded(data, chat, tmp_path / "data"), config)
    return arranged, "\n".join(report(arranged, config, chat, 2, colour=False))


def test_the_report_counts_and_marks_what_is_trained(tmp_path: Path, chat: ChatFormat) -> None:
    data, text = shown(tmp_path, chat, epochs=3)
    tokens = int(data.store.lengths[data.order.taken(0, 4)].sum())
    assert "chats: 7 rows, 6 examples" in text
    assert "Held out: 2 examples of 2 problems" in text
    assert f"One epoch: 4 examples, 2 updates of 3, {tokens:,} tokens" in text
    assert "The run: 4 updates, 3.00 epochs." in text
    for number in data.order.taken(0, 2):
        assert f"{OPEN}answer {number}<|im_end|>{CLOSE}" in text
    assert sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("     ")) == 6


@pytest.mark.parametrize(
    ("run", "updates"), [({}, 300), ({"epochs": 2}, 13), ({"epochs": 0.01}, 1), ({"epochs": 2, "steps": 5}, 5)]
)
def test_a_run_lasts_steps_or_epochs_or_what_ends_first(run: dict[str, Any], updates: int) -> None:
    assert SftRunSection(dir=Path("x"), **run).updates(examples=50, batch_size=8) == updates
