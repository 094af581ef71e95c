"""compact: writes a run's segments as a Parquet dataset, for analysis and archiving."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from warpsmith.records import keys, schema
from warpsmith.records.folders import new_directory
from warpsmith.records.reader import Losses, OnDamage, RunReader

TURN_KEY: Final = list(schema.KEYS["turns"])
SUMS_FILE: Final = "SHA256SUMS"
CREDIT_PREFIX: Final = "credit_"
# A few turns fill a row group's pages: a turn has thousands of tokens.
ROWS_PER_GROUP: Final = 10_000
ROWS_PER_FILE: Final = 1_000_000
MAX_PARTITIONS: Final = 2**31 - 1
"""Per batch: as many as it has rows, if each row has a different problem."""


@dataclass(frozen=True)
class Compacted:
    """What was written.

    Attributes:
        out: the dataset's directory.
        rows: number of rows per table.
        losses: what the reader skipped: torn ends and, with on_damage "skip", damaged data.
    """

    out: Path
    rows: dict[str, int]
    losses: Losses


def compact(
    run_dir: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    partition_by: Sequence[str] = ("role",),
    join_credits: bool = False,
    on_damage: OnDamage = "raise",
    progress: Callable[[str, int], None] = lambda table, rows: None,
) -> Compacted:
    """Write OUT/turns, OUT/credits and OUT/steps as Parquet, only the last row of each key, and OUT/SHA256SUMS.

    OUT is written completely or not at all. A table without rows has no folder.

    Args:
        partition_by: columns of `turns` that become directories (`role=train/`); text columns without nulls.
        join_credits: add to each turn the credit of the latest step that used it, as columns `credit_*`
            (null if no step did).
        on_damage: as for RunReader.
        progress: called after each batch with the table and the number of rows written.

    Raises:
        SchemaError: a column cannot be used for partitions.
        UsageError: OUT exists.
        SegmentError: damaged records, with on_damage "raise".
    """
    _check_partition(partition_by)
    reader = RunReader(run_dir, on_damage=on_damage)
    target = Path(out)
    rows: dict[str, int] = {}
    with new_directory(target) as folder:
        for table in schema.TABLES:
            source = _Source(reader, table, join_credits and table == "turns", progress)
            _write(source, folder / table, partition_by if table == "turns" else ())
            rows[table] = source.rows
        _write_sums(folder)
    return Compacted(target, rows, reader.losses())


class _Source:
    """Batches of one table on their way to Parquet, counted on the way."""

    def __init__(
        self, reader: RunReader, table: schema.TableName, join: bool, progress: Callable[[str, int], None]
    ) -> None:
        self._reader = reader
        self._table: schema.TableName = table
        self._progress = progress
        self._credits = _LatestCredits(reader) if join else None
        self.rows = 0
        self.schema = schema.TABLES[table] if self._credits is None else self._credits.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._reader.batches(self._table, latest=True):
            if batch.num_rows == 0:
                continue
            self.rows += batch.num_rows
            yield batch if self._credits is None else self._credits.join(batch)
            self._progress(self._table, self.rows)


class _LatestCredits:
    """The credit of the latest step for each turn, looked up by key.

    Not Table.join: Acero supports list columns only as keys.
    """

    def __init__(self, reader: RunReader) -> None:
        table = reader.table("credits", latest=True).sort_by([("step", "descending")])
        self._keys = keys.joined([table.column(name) for name in TURN_KEY]).combine_chunks()
        self._values = table.drop_columns(TURN_KEY).combine_chunks()
        fields = [field.with_name(CREDIT_PREFIX + field.name).with_nullable(True) for field in self._values.schema]
        self.schema = pa.schema([*schema.TURNS, *fields], metadata=schema.TURNS.metadata)

    def join(self, turns: pa.RecordBatch) -> pa.RecordBatch:
        # index_in returns the first match, and the latest step comes first.
        wanted = keys.joined([pa.chunked_array([turns.column(name)]) for name in TURN_KEY])
        rows = pc.index_in(wanted, value_set=self._keys).combine_chunks()
        found = [self._values.column(name).combine_chunks().take(rows) for name in self._values.column_names]
        return pa.RecordBatch.from_arrays([*turns.columns, *found], schema=self.schema)


def _write(source: _Source, folder: Path, partition_by: Sequence[str]) -> None:
    partitioning = ds.partitioning(pa.schema([schema.TURNS.field(name) for name in partition_by]), flavor="hive")
    parquet = ds.ParquetFileFormat()
    ds.write_dataset(
        iter(source),
        folder,
        schema=source.schema,
        format=parquet,
        file_options=parquet.make_write_options(compression="zstd", write_page_checksum=True),
        partitioning=partitioning if partition_by else None,
        max_partitions=MAX_PARTITIONS,
        basename_template="part-{i}.parquet",
        max_rows_per_group=ROWS_PER_GROUP,
        max_rows_per_file=ROWS_PER_FILE,
        preserve_order=True,
    )


def _write_sums(folder: Path) -> None:
    """Write a file for `sha256sum --check SHA256SUMS`: Parquet's own checksums do not cover headers and footer."""
    lines = []
    for path in sorted(folder.rglob("*.parquet")):
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.relative_to(folder)}\n")
    (folder / SUMS_FILE).write_text("".join(lines), encoding="utf-8")


def _check_partition(columns: Sequence[str]) -> None:
    allowed = [field.name for field in schema.TURNS if pa.types.is_string(field.type) and not field.nullable]
    allowed.remove("completion")
    for column in columns:
        if column not in allowed:
            raise schema.SchemaError(
                f"`turns` cannot be partitioned by `{column}`.",
                f"Choose among {', '.join(allowed)}.",
                table="turns",
                column=column,
            )
