"""Rows by key: the row of each key that was recorded last, and one string per key for lookups."""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

TRAJECTORY: Final = ("run", "trajectory")


def last_of_each(batches: Sequence[pa.RecordBatch], key: Sequence[str]) -> Iterator[pa.Array | None]:
    """Yield for each batch which of its rows are the last of their key over all batches.

    Of a trajectory recorded twice only the second attempt counts: turns of the first that the second did not reach are
    dropped as well.

    Args:
        batches: the columns of the key, plus `num_turns` for turns, in the order recorded.
        key: the names of the key's columns.

    Yields:
        A boolean array of shape (rows of the batch,), or None if all rows of the batch are kept.
    """
    rows = sum(batch.num_rows for batch in batches)
    if not rows:
        yield from (None for _ in batches)
        return
    table = pa.Table.from_batches(batches)
    last = _last_rows(table, key)
    kept = None if len(last) == rows else pc.is_in(pa.array(range(rows), pa.int64()), value_set=last)
    if kept is not None and "num_turns" in table.column_names:
        kept = pc.and_(kept, _of_last_attempt(table))
    start = 0
    for batch in batches:
        yield None if kept is None else kept.slice(start, batch.num_rows)
        start += batch.num_rows


def _last_rows(table: pa.Table, key: Sequence[str]) -> pa.Array:
    """Return the index of the last row of each key."""
    numbered = table.select(key).append_column("row", pa.array(range(table.num_rows), pa.int64()))
    return numbered.group_by(list(key)).aggregate([("row", "max")]).column("row_max").combine_chunks()


def _of_last_attempt(table: pa.Table) -> pa.Array:
    """Return which turns are below the `num_turns` that their trajectory was last recorded with."""
    names = joined([table.column(name) for name in TRAJECTORY]).combine_chunks()
    last = _last_rows(table, TRAJECTORY)
    place = pc.index_in(names, value_set=names.take(last))
    lengths = table.column("num_turns").combine_chunks().take(last).take(place)
    return pc.less(table.column("turn").combine_chunks(), lengths)


def joined(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """One string per row, equal for two rows exactly if all `columns` (without nulls) are equal.

    Each part starts with its length, so that a separator inside a name cannot make two keys equal.
    """
    parts: list[pa.ChunkedArray] = []
    for column in columns:
        text = pc.cast(column, pa.string())
        parts += [pc.cast(pc.binary_length(text), pa.string()), text]
    return pc.binary_join_element_wise(*parts, ":")
