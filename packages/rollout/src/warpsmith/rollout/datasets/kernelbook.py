"""GPUMODE's KernelBook: modules of PyTorch with the Triton code that TorchInductor made of them."""

import io
import keyword
import re
import tokenize
from collections.abc import Sequence
from typing import ClassVar, Final

from warpsmith.rollout.datasets.formats import Cells, Column, DatasetReader, Entry
from warpsmith.rollout.datasets.refusals import BadRow, checked_text
from warpsmith.rollout.datasets.row_files import Row


class KernelbookReader(DatasetReader):
    """Renames the classes of each row: the module is `Model`, the class around the kernels `ModelNew`."""

    name = "kernelbook"
    title = "GPUMODE/KernelBook: modules with TorchInductor's Triton code (torch 2.5)"
    schema: ClassVar = (
        Column("entry_point", "entry_point", "text", "name of the module's class; `<name>New` has the kernels"),
        Column("problem", "python_code", "text", "the module, with get_inputs() and get_init_inputs()"),
        Column("kernel", "triton_code", "text", "the class around the kernels"),
        Column("label", "uuid", "object", "number of the row", required=False),
        Column("repository", "repo_name", "text", "repository of the module", required=False),
    )

    def entry(self, cells: Cells) -> Entry:
        """See `DatasetReader`."""
        entry_point = cells.text("entry_point")
        problem, kernel = renamed(entry_point, cells.text("problem"), cells.text("kernel"))
        label = cells.value("label")
        repository = cells.text("repository")
        # A repository can have several modules of one name, but a name must identify one problem.
        key = Entry("", problem).problem_key[:8]
        name = f"{repository or 'kernelbook'}/{entry_point}-{key}"
        return Entry(name, problem, kernel=kernel, label="" if label is None else str(label))


def as_task(row: Row) -> tuple[str, str]:
    """Return a row's module and its Triton code under the names of the task.

    KernelBook names the module by `entry_point`, and the class around the kernels by the same with `New` appended.

    Raises:
        BadRow: a column is missing, or the classes are missing or cannot be renamed.
    """
    return renamed(_text(row, "entry_point"), _text(row, "python_code"), _text(row, "triton_code"))


def renamed(entry: str, module: str, kernels: str) -> tuple[str, str]:
    """Return a module and its kernels with their classes `entry` and `<entry>New` as `Model` and `ModelNew`.

    Raises:
        BadRow: the classes are missing or cannot be renamed.
    """
    if not entry.isidentifier() or keyword.iskeyword(entry):
        raise BadRow("entry_point is not a class name", repr(entry))
    return (
        with_class(module, entry, "Model", "python_code"),
        with_class(kernels, f"{entry}New", "ModelNew", "triton_code"),
    )


def _text(row: Row, column: str) -> str:
    value = row.get(column)
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


KERNELBOOK: Final = KernelbookReader()
