"""What a supervised run learns from: chats read or generated, as token rows with the loss on the assistant's turns."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpsmith.policy.chat import ChatFormat
from warpsmith.policy.sft_data import IGNORED, Example, encode
from warpsmith.rollout.datasets import generated
from warpsmith.rollout.sft import sft_examples
from warpsmith.trainer.config.sft import SftDataSection
from warpsmith.trainer.engine.rows import Row
from warpsmith.trainer.errors import DataError

Chat = Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class SftData:
    """Token sequences to train and to evaluate on, and how many were left out for their length."""

    train: Sequence[Example]
    evaluation: Sequence[Example]
    dropped: int


def load_sft_data(data: SftDataSection, chat: ChatFormat, seed: int) -> SftData:
    """Read or generate the chats, encode them, and hold out the evaluation's share by seed.

    Raises:
        DataError: the file cannot be read, or leaves nothing to train on.
    """
    chats = _generated(data, seed) if data.source == "generated" else read_chats(_path(data))
    encoded = [encode(chat, messages) for messages in chats]
    examples = [[e for e in pieces if len(e) <= data.max_tokens and e.trained] for pieces in encoded]
    dropped = sum(map(len, encoded)) - sum(map(len, examples))
    # A conversation is held out whole: its turns repeat one another.
    shuffled = np.random.default_rng(seed).permutation(len(examples))
    evaluation = [e for i in shuffled[: data.eval_examples] for e in examples[i]]
    train = [e for i in sorted(shuffled[data.eval_examples :]) for e in examples[i]]
    if not train:
        raise DataError(
            f"{len(chats)} conversations leave no example to train on: {dropped} are longer than "
            f"{data.max_tokens} tokens and {data.eval_examples} are held out.",
            "Raise data.max_tokens, lower data.eval_examples, or give more conversations.",
        )
    return SftData(train, evaluation, dropped)


def token_rows(examples: Sequence[Example]) -> list[Row]:
    """Return the examples as rows of ids, 1 in the mask where a label stands."""
    return [Row(ids=e.ids, mask=np.asarray(e.labels != IGNORED, dtype=np.int64)) for e in examples]


def read_chats(path: Path) -> list[Chat]:
    """Read the column `messages` of a .jsonl or .parquet file.

    Raises:
        DataError: naming the first row that is not a list of {role, content}.
    """
    if not path.is_file():
        raise DataError(f"There is no file {path}.", "Set data.path to a .jsonl or .parquet file of chats.")
    rows = _parquet(path) if path.suffix == ".parquet" else _json_lines(path)
    for number, row in enumerate(rows, start=1):
        if not _is_chat(row):
            raise DataError(
                f"Row {number} of {path} is no chat: `messages` must be a list of objects with text under role and "
                "content.",
                'Example: {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}',
            )
    return rows


def _generated(data: SftDataSection, seed: int) -> list[Chat]:
    problems = generated(seed=seed, count=data.problems, levels=data.levels)
    return list(sft_examples(problems, seed, data.prompt_style, flawed_share=data.flawed_share))


def _path(data: SftDataSection) -> Path:
    if data.path is None:
        raise DataError('source = "chats" needs data.path.', "Name a .jsonl or .parquet file.")
    return data.path


def _parquet(path: Path) -> list[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path, columns=["messages"])["messages"].to_pylist()  # type: ignore[no-any-return]
    except (pa.ArrowException, OSError, KeyError) as error:
        raise DataError(f"{path} cannot be read: {error}.", "Give a Parquet file with a column `messages`.") from None


def _json_lines(path: Path) -> list[Any]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}.", "Give a UTF-8 text file, one object a line.") from None
    return [_messages(line, f"Line {n} of {path}") for n, line in enumerate(lines, start=1) if line.strip()]


def _messages(line: str, where: str) -> Any:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{where} is not JSON: {error}.", "Give one object a line.") from None
    return value.get("messages") if isinstance(value, dict) else None


def _is_chat(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(m, dict) and isinstance(m.get("role"), str) for m in value)
        and all(isinstance(m.get("content"), str) for m in value)
    )
