"""Data sets by `type`: the entry points in `warpsmith.datasets`."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from warpsmith.records.errors import UsageError, WarpsmithError
from warpsmith.records.registry import Registry
from warpsmith.rollout.datasets.formats import DatasetReader, Entry
from warpsmith.rollout.datasets.refusals import Refusal
from warpsmith.rollout.errors import DatasetError


def _check(part: Any) -> str:
    return "" if isinstance(part, DatasetReader) else "is not a warpsmith.rollout.datasets.formats.DatasetReader"


DATASETS: Final[Registry[DatasetReader]] = Registry("warpsmith.datasets", "data set type", _check)
_GENERIC: Final = frozenset({"pairs", "kernelllm"})
"""Types whose columns have common names; they are guessed only if no other type fits."""


@dataclass(frozen=True)
class Dataset:
    """The rows of a data set.

    Attributes:
        path: where it is.
        type: its type.
        entries: its usable rows, in order.
        refusals: its other rows.
    """

    path: Path
    type: str
    entries: list[Entry]
    refusals: list[Refusal] = field(default_factory=list)

    @property
    def files(self) -> list[Path]:
        """The files with usable rows, in order."""
        return list(dict.fromkeys(entry.file for entry in self.entries))

    def refused(self) -> Iterator[str]:
        """Yield a line for each reason for which rows cannot be used: how many, and the first."""
        firsts: dict[str, Refusal] = {}
        for one in self.refusals:
            firsts.setdefault(one.reason, one)
        for reason, count in Counter(one.reason for one in self.refusals).most_common():
            yield f"{count:,} {'row' if count == 1 else 'rows'} not used: {reason}; first {_shown(firsts[reason])}"


def _shown(one: Refusal) -> str:
    detail = " ".join(one.detail.split())
    return f"{one.place} ({detail[:160]})" if detail else one.place


def read_dataset(
    path: str | Path, type_: str | None = None, *, columns: Mapping[str, str] | None = None, limit: int | None = None
) -> Dataset:
    """Read a data set. Unusable rows are listed, and are not an error unless all rows are unusable.

    Args:
        path: a file, a directory of files, a pattern, or a checkout of KernelBench.
        type_: its type, a name in `DATASETS`; found by the columns if None.
        columns: other names of columns, by field.
        limit: how many usable rows to read; all if None.

    Raises:
        DatasetError: it cannot be read, lacks a column, fits no type or several, or has no usable row.
        RegistryError: there is no such type.
        UsageError: `columns` has an unknown field.
    """
    place, renamed = Path(path), dict(columns or {})
    name = type_ or detect(place)
    refusals: list[Refusal] = []

    def usable() -> Iterator[Entry]:
        for one in DATASETS.get(name).entries(place, renamed):
            if isinstance(one, Refusal):
                refusals.append(one)
            else:
                yield one

    found = Dataset(place, name, list(islice(usable(), limit)), refusals)
    if not found.entries:
        reasons = next(found.refused(), "it has no row")
        raise DatasetError(
            f"No row of {place} can be used as type {name}: {reasons}.",
            "Give the data set as it was published, or name another --type; `warpsmith-rollout datasets` lists them.",
        )
    return found


def detect(path: Path) -> str:
    """Return the type whose columns a data set has.

    Raises:
        DatasetError: it cannot be read, or fits no type or several.
    """
    found, errors = [], []
    for name in DATASETS.names():
        try:
            found += [name] if DATASETS.get(name).reads(path) else []
        except WarpsmithError as error:
            # A checkout has JSON files that are not rows, which only a reader of rows opens.
            errors.append(error)
    if errors and not found:
        raise errors[0]
    chosen = [name for name in found if name not in _GENERIC] or found
    if len(chosen) == 1:
        return chosen[0]
    fits = f"fits several types ({', '.join(chosen)})" if chosen else "has the columns of no known type"
    raise DatasetError(
        f"{path} {fits}.",
        f"Name one with --type: {', '.join(DATASETS.names())}. `warpsmith-rollout datasets` lists their columns.",
    )


def renamed_columns(given: list[str]) -> dict[str, str]:
    """Return the columns of `--column FIELD=NAME` by field; UsageError if one has another form."""
    parts = [text.partition("=") for text in given]
    for text, (field_, _, name) in zip(given, parts, strict=True):
        if not field_ or not name:
            raise UsageError(f"--column {text!r} names no field and column.", "Write --column kernel=completion.")
    return {field_: name for field_, _, name in parts}
