"""Rows by key: which row of a key was recorded last, and one string a key to look rows up by."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc


def last_of_each(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.Array | None]:
    """Yield for each batch which of its rows are the last of their key over all batches.

    Args:
        batches: the key columns alone, in the order recorded.

    Yields:
        A boolean array of shape (rows of the batch,), or None where every row of the batch is kept.
    """
    rows = sum(batch.num_rows for batch in batches)
    if not rows:
        yield from (None for _ in batches)
        return
    table = pa.Table.from_batches(batches)
    numbered = table.append_column("row", pa.array(range(rows), pa.int64()))
    last = numbered.group_by(table.column_names).aggregate([("row", "max")]).column("row_max")
    kept = None if len(last) == rows else pc.is_in(pa.array(range(rows), pa.int64()), value_set=last.combine_chunks())
    start = 0
    for batch in batches:
        yield None if kept is None else kept.slice(start, batch.num_rows)
        start += batch.num_rows


def joined(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """One string a row that is equal for two rows exactly where all `columns` (without nulls) are.

    Each part carries its length, so that no separator inside a name can make two keys one.
    """
    parts: list[pa.ChunkedArray] = []
    for column in columns:
        text = pc.cast(column, pa.string())
        parts += [pc.cast(pc.binary_length(text), pa.string()), text]
    return pc.binary_join_element_wise(*parts, ":")
