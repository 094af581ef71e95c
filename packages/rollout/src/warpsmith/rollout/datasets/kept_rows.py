"""Writes the rows of a data set that are kept, with all of their columns, in the form in which they were read.

JSON becomes JSON lines, Arrow becomes Parquet; a checkout stays folders of files.
"""

import csv
import json
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from warpsmith.records.errors import UsageError
from warpsmith.rollout.datasets.formats import Entry
from warpsmith.rollout.datasets.refusals import Refusal
from warpsmith.rollout.datasets.row_files import row_batches, stream_rows


def write_kept(kept: Sequence[Entry], root: Path, folder: Path) -> list[Path]:
    """Write the kept rows under `folder`, one file for each source file; return these files.

    Args:
        kept: the rows.
        root: the data set's path; files keep their paths below it.
        folder: an empty folder.

    Raises:
        DatasetError: a file can no longer be read.
        UsageError: two files would get the same name.
    """
    by_file: dict[Path, set[str]] = {}
    for entry in kept:
        by_file.setdefault(entry.file, set()).add(entry.place)
    targets = {file: folder / _name(file, root) for file in by_file}
    if len(set(targets.values())) < len(targets):
        raise UsageError(
            f"Two files of {root} have the same name, apart from their form.",
            "Rename one of them, or clean them one after the other.",
        )
    for file, target in targets.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        _write(file, by_file[file], target)
    return sorted(targets.values())


def _name(file: Path, root: Path) -> Path:
    below = file.relative_to(root) if root.is_dir() else Path(file.name)
    suffix = {".json": ".jsonl", ".arrow": ".parquet"}.get(file.suffix, file.suffix)
    return below.with_suffix(suffix)


def _write(file: Path, places: Collection[str], target: Path) -> None:
    match file.suffix:
        case ".py":
            shutil.copyfile(file, target)
            solution = file.with_name(f"{file.stem}.solution.py")
            if solution.exists():
                shutil.copyfile(solution, target.with_name(solution.name))
        case ".parquet" | ".arrow":
            _write_parquet(file, places, target)
        case ".csv":
            _write_csv(_rows(file, places), target)
        case _:
            with target.open("w", encoding="utf-8") as lines:
                lines.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in _rows(file, places))


def _rows(file: Path, places: Collection[str]) -> list[dict[str, Any]]:
    return [dict(row) for place, row in stream_rows(file, ()) if place in places and not isinstance(row, Refusal)]


def _write_csv(rows: Sequence[dict[str, Any]], target: Path) -> None:
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _write_parquet(file: Path, places: Collection[str], target: Path) -> None:
    """Filter batches without converting them, so that the columns keep their types and metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    number, writer = 0, None
    try:
        for batch in row_batches(file):
            mask = [f"row {number + n} of {file}" in places for n in range(1, len(batch) + 1)]
            number += len(batch)
            writer = writer or pq.ParquetWriter(target, batch.schema)
            writer.write_batch(batch.filter(pa.array(mask, pa.bool_())))
    finally:
        if writer is not None:
            writer.close()
