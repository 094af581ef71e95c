"""Reads chats from rows in the common formats."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from warpsmith.rollout.datasets.row_files import Row, stream_rows
from warpsmith.trainer.config.sources import ChatForm, ChatsSource
from warpsmith.trainer.data.sample import BadRow, Message, Refusal, Sample, checked_text
from warpsmith.trainer.errors import DataError

_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"messages": ("messages",), "sharegpt": ("conversations",), "prompt_completion": ("prompt", "completion")}
)
_SHAREGPT_ROLES: Final[Mapping[str, str]] = MappingProxyType(
    {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}
)
_ROLES: Final = ("system", "user", "assistant", "tool")


def read_chats(section: ChatsSource, files: Sequence[Path]) -> Iterator[Sample | Refusal]:
    """Yield a sample, or the reason why there is none, for each row of the files.

    Raises:
        DataError: a file as a whole cannot be read.
    """
    wanted = ["messages", "conversations", "prompt", "completion", "system", section.problem_column]
    for file in files:
        for place, row in stream_rows(file, [name for name in wanted if name], DataError):
            yield row if isinstance(row, Refusal) else _sample(row, section, place)


def _sample(row: Row, section: ChatsSource, place: str) -> Sample | Refusal:
    try:
        messages = chat_of(row, section.form)
        return Sample(messages, _problem(row, messages, section.problem_column), place)
    except BadRow as bad:
        return bad.at(place)


def chat_of(row: Row, form: ChatForm = "auto") -> list[Message]:
    """Return the chat of a row, cut after its last answer.

    Args:
        row: `messages`, a list of {role, content}; `conversations`, a list of {from, value}, with an optional
            `system`; or `prompt` and `completion`, each a text or a list of {role, content}.
        form: one of these; `auto` takes the one that the row has.

    Raises:
        BadRow: the row has none of them or several, or what it has is not a chat with an answer.
    """
    chosen = form if form != "auto" else _only_form(row)
    missing = [name for name in _COLUMNS[chosen] if row.get(name) is None]
    if missing:
        raise BadRow(f"no column {' and '.join(missing)}", f"its columns are {', '.join(row)}")
    match chosen:
        case "messages":
            messages = _messages(row["messages"], "messages")
        case "sharegpt":
            messages = [*_system(row), *_messages(row["conversations"], "conversations")]
        case _:
            messages = [*_side(row, "prompt", "user"), *_side(row, "completion", "assistant")]
    return _ending_in_an_answer(messages)


def _only_form(row: Row) -> str:
    found = [form for form, names in _COLUMNS.items() if all(row.get(name) is not None for name in names)]
    if len(found) > 1:
        raise BadRow("more than one form of chat: set `form` of the source", f"the row has {' and '.join(found)}")
    if not found:
        raise BadRow(
            "no chat: neither messages nor conversations nor prompt and completion",
            f"its columns are {', '.join(map(str, row))}",
        )
    return found[0]


def _system(row: Row) -> list[Message]:
    text = row.get("system")
    return [{"role": "system", "content": checked_text(text)}] if isinstance(text, str) and text else []


def _side(row: Row, name: str, role: str) -> list[Message]:
    value = row[name]
    return [{"role": role, "content": checked_text(value)}] if isinstance(value, str) else _messages(value, name)


def _messages(value: Any, column: str) -> list[Message]:
    if not isinstance(value, list) or not value:
        raise BadRow(f"`{column}` is not a list of messages", f"it is {_kind(value)}")
    return [_message(item, f"message {number} of `{column}`") for number, item in enumerate(value, start=1)]


def _message(item: Any, where: str) -> Message:
    if not isinstance(item, dict):
        raise BadRow("a message is not an object", f"{where} is {_kind(item)}")
    if item.get("tool_calls"):
        raise BadRow("a message calls tools, which no template here renders", where)
    if item.get("role") is not None:
        role, text = item["role"], item.get("content")
    else:
        role, text = _SHAREGPT_ROLES.get(str(item.get("from")), item.get("from")), item.get("value")
    if role not in _ROLES:
        raise BadRow("a message has no known role", f"{where} has {role!r}; known are {', '.join(_ROLES)}")
    return {"role": str(role), "content": _text(text, where)}


def _text(value: Any, where: str) -> str:
    """Return a content: a text, or the joined parts of one that are all text."""
    if isinstance(value, str):
        return checked_text(value)
    if isinstance(value, list) and value and all(isinstance(part, dict) for part in value):
        texts = [part.get("text") for part in value if part.get("type") == "text"]
        if len(texts) == len(value) and all(isinstance(text, str) for text in texts):
            return checked_text("".join(map(str, texts)))
    raise BadRow("a message has no text", f"{where} has {_kind(value)}")


def _ending_in_an_answer(messages: list[Message]) -> list[Message]:
    """Cut what follows the last answer, which is not trained; reject empty answers and answers without a question."""
    answers = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
    if not answers:
        raise BadRow("no message of an assistant")
    if all(message["role"] == "system" for message in messages[: answers[0]]):
        raise BadRow("an answer without a question before it")
    if not all(messages[number]["content"].strip() for number in answers):
        raise BadRow("an empty answer")
    return messages[: answers[-1] + 1]


def _problem(row: Row, messages: Sequence[Message], column: str) -> str:
    if not column:
        return next(message["content"] for message in messages if message["role"] != "system")
    value = row.get(column)
    if not isinstance(value, str | int) or value == "":
        raise BadRow(f"no problem name under `{column}`", f"it is {_kind(value)}")
    return str(value)


def _kind(value: Any) -> str:
    return "empty" if value in ([], "", {}) else f"a {type(value).__name__}" if value is not None else "missing"
