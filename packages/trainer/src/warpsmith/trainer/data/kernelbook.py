"""Turns KernelBook's pairs into chats of the task: the module as `Model` in the prompt, the kernels as `ModelNew`."""

import io
import keyword
import re
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.prompts import PromptStyle, build_prompt
from warpsmith.trainer.config.sources import KernelbookSource
from warpsmith.trainer.data.files import Row, stream_rows
from warpsmith.trainer.data.generated import answer_text
from warpsmith.trainer.data.sample import BadRow, Message, Refusal, Sample, checked_text

_COLUMNS = ("entry_point", "python_code", "triton_code")


def read_kernelbook(section: KernelbookSource, files: Sequence[Path]) -> Iterator[Sample | Refusal]:
    """Yield a sample, or the reason why there is none, for each row of files with KernelBook's columns.

    Raises:
        DataError: a file as a whole cannot be read.
    """
    for file in files:
        for place, row in stream_rows(file, _COLUMNS):
            yield row if isinstance(row, Refusal) else _sample(row, section.prompt_style, place)


def _sample(row: Row, style: PromptStyle, place: str) -> Sample | Refusal:
    try:
        module, kernels = as_task(row)
    except BadRow as bad:
        return bad.at(place)
    prompt = build_prompt(ProblemRow("kernelbook", module, None, "kernelbook"), style=style)
    messages: list[Message] = [*prompt, {"role": "assistant", "content": answer_text(kernels, style)}]
    return Sample(messages, module, place)


def as_task(row: Row) -> tuple[str, str]:
    """Return a row's module and its Triton code under the names of the task.

    KernelBook names the module by `entry_point`, and the class around the kernels by the same with `New` appended.

    Raises:
        BadRow: a column is missing, or the classes are missing or cannot be renamed.
    """
    entry = _text(row, "entry_point")
    if not entry.isidentifier() or keyword.iskeyword(entry):
        raise BadRow("entry_point is not a class name", repr(entry))
    module = with_class(_text(row, "python_code"), entry, "Model", "python_code")
    return module, with_class(_text(row, "triton_code"), f"{entry}New", "ModelNew", "triton_code")


def _text(row: Row, column: str) -> str:
    value: Any = row.get(column)
    if not isinstance(value, str) or not value.strip():
        raise BadRow(f"no text under {column}")
    return checked_text(value)


def with_class(code: str, name: str, new: str, column: str) -> str:
    """Return `code` with its class `name` renamed to `new` wherever it is used; attributes keep their names.

    Raises:
        BadRow: the code is not Python, has no such class, or already uses `new`.
    """
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(code).readline))
    except (tokenize.TokenError, SyntaxError) as error:
        raise BadRow(f"{column} is not Python", str(error)) from None
    # `nn.Linear` is not the class `Linear` of this file.
    names = [
        token for before, token in zip([None, *tokens], tokens, strict=False)
        if token.type == tokenize.NAME and not (before is not None and before.string == ".")
    ]  # fmt: skip
    if not re.search(rf"^class\s+{re.escape(name)}\b", code, re.MULTILINE):
        raise BadRow(f"no class of that name in {column}", f"`class {name}` is not there")
    if name != new and any(token.string == new for token in names):
        raise BadRow(f"{column} already has a `{new}`", f"`{name}` cannot be renamed to it")
    return _replaced(code, [token.start for token in names if token.string == name], len(name), new)


def _replaced(code: str, starts: Sequence[tuple[int, int]], length: int, new: str) -> str:
    """Replace `length` characters at each (line from 1, column) by `new`."""
    # Split only at newlines, as the tokenizer counts lines.
    lines = code.split("\n")
    for line, column in reversed(starts):
        text = lines[line - 1]
        lines[line - 1] = text[:column] + new + text[column + length :]
    return "\n".join(lines)
