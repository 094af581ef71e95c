"""Columns as bytes for the page: a JSON header, then each column's values, little-endian and aligned to 8 bytes.

Integers are 32-bit with the smallest for null, floats use NaN for null, strings are codes into a list with -1 for null.
"""

import json
import struct
import zlib
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

CHUNK_ROWS: Final = 8192
NULL: Final = -(2**31)
_ALIGNMENT: Final = 8


@dataclass(frozen=True)
class Chunk:
    """At most `CHUNK_ROWS` rows of a table, encoded; `version` changes if the bytes do."""

    data: bytes
    version: int


def chunks(table: pa.Table) -> list[Chunk]:
    """Encode a table in chunks, in order."""
    starts = range(0, table.num_rows, CHUNK_ROWS)
    encoded = [encode(table.slice(start, CHUNK_ROWS)) for start in starts]
    return [Chunk(data, zlib.crc32(data)) for data in encoded]


def encode(table: pa.Table) -> bytes:
    """Encode a table: u32 length of the header, the header, the buffers.

    The header has `rows` and, per column, `name`, `kind` (`i`, `f`, `d` for 32-bit and 64-bit floats, `s`), `at` (the
    offset from the end of the header) and, for strings, `values`.
    """
    heads: list[dict[str, Any]] = []
    body = bytearray()
    for name in table.column_names:
        kind, values, data = _column(table.column(name))
        heads.append({"name": name, "kind": kind, "at": len(body), **({"values": values} if kind == "s" else {})})
        body += data + bytes(-len(data) % _ALIGNMENT)
    head = json.dumps({"rows": table.num_rows, "columns": heads}, separators=(",", ":")).encode()
    head += b" " * (-(len(head) + 4) % _ALIGNMENT)
    return struct.pack("<I", len(head)) + head + bytes(body)


def flat_steps(steps: pa.Table) -> pa.Table:
    """Return `steps` with `started` in seconds, and each metric that is not a column as its own column."""
    started = pc.divide(pc.cast(pc.cast(steps.column("started_at"), pa.int64()), pa.float64()), 1e6)
    found = steps.drop_columns(["metrics", "started_at"]).append_column("started", started)
    rows = [dict(pairs) for pairs in steps.column("metrics").to_pylist()]
    for name in sorted({name for row in rows for name in row} - set(found.column_names)):
        found = found.append_column(name, pa.array([row.get(name) for row in rows], pa.float64()))
    return found


def _column(column: pa.ChunkedArray) -> tuple[str, list[str], bytes]:
    kind = column.type
    if pa.types.is_string(kind):
        codes = column.combine_chunks().dictionary_encode() if len(column) else pa.array([], kind).dictionary_encode()
        return "s", codes.dictionary.to_pylist(), _bytes(codes.indices, pa.int32(), -1)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return "i", [], _bytes(column, pa.int32(), NULL)
    # Times since 1970 need 64 bits.
    wide = pa.types.is_float64(kind)
    return ("d" if wide else "f"), [], _bytes(column, pa.float64() if wide else pa.float32(), float("nan"))


def _bytes(column: Any, kind: pa.DataType, null: float) -> bytes:
    plain = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    filled = pc.fill_null(pc.cast(plain, kind), pa.scalar(null, kind))
    if not len(filled):
        return b""
    width = kind.bit_width // 8
    start = filled.offset * width
    return bytes(memoryview(filled.buffers()[1])[start : start + len(filled) * width])
