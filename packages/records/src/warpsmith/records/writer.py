"""RunWriter: appends batches to a run so that a kill at any byte loses at most the batch being written."""

import contextlib
import io
import os
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

import pyarrow as pa

from warpsmith.records import layout, schema
from warpsmith.records.errors import WarpsmithError
from warpsmith.records.segments import END_OF_STREAM, Entry, Header, Kind, digest, encode_entry, encode_header

Durability = Literal["process-kill", "power-loss"]
Compression = Literal["lz4", "zstd"]


class RecordWriteError(WarpsmithError):
    """The batch was not recorded: the operating system refused to write. Earlier batches stay readable."""


class RunWriter:
    """Appends batches to the tables of one run.

    Each writer has its own segments, so any number of processes can write one run, and a writer that restarts after
    a kill starts a new segment instead of appending to a torn one. Can be shared between threads.

    Args:
        run_dir: the run's directory; created if absent. Records go to its folder `records/`.
        durability: what a recorded batch survives. "process-kill" (the default) hands it to the operating system:
            SIGKILL, an exception or an out-of-memory kill lose nothing; a power loss can lose the last seconds.
            "power-loss" also waits for the disk, twice per batch.
        compression: codec of the batch bodies, which every Arrow implementation reads; None writes them uncompressed,
            for memory maps. LZ4 is the default: it halves the bytes, at about the cost of hashing and writing them
            (benchmarks/records.py).

    Example:
        with RunWriter("runs/demo") as writer:
            writer.append("turns", turns_batch(rows))
    """

    def __init__(
        self,
        run_dir: str | os.PathLike[str],
        *,
        durability: Durability = "process-kill",
        compression: Compression | None = "lz4",
    ) -> None:
        self.run_dir = Path(run_dir)
        self._sync = durability == "power-loss"
        self._compression = compression
        self._segments: dict[schema.TableName, _Segment] = {}
        self._lock = threading.Lock()
        self._closed = False

    def append(self, table: str, batch: pa.RecordBatch | pa.Table) -> None:
        """Record `batch`. When this returns all of its rows are recorded; on an error or a kill, none are.

        Args:
            table: "turns", "credits" or "steps".
            batch: rows of that table's schema, as `schema.turns_batch` and its siblings make them. A pyarrow.Table is
                recorded as one batch. Without rows nothing is written.

        Raises:
            SchemaError: the rows do not fit the schema; nothing was written.
            RecordWriteError: no space, no permission, or another error of the operating system.
        """
        name = schema.table_name(table)
        rows = _one_batch(name, batch)
        schema.check(name, rows)
        if rows.num_rows == 0:
            return
        payload = _message(rows, self._compression)
        with self._lock, self._refusals_typed(name):
            self._segment(name).add(Kind.BATCH, payload, rows.num_rows)

    def close(self) -> None:
        """End the streams. Without it no recorded batch is lost, but the reader reports the segments as not closed.

        Raises:
            RecordWriteError: the last bytes could not be written.
        """
        with self._lock:
            self._closed = True
            for name in list(self._segments):
                with self._refusals_typed(name):
                    self._segments[name].finish()
                    del self._segments[name]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _segment(self, name: schema.TableName) -> "_Segment":
        if self._closed:
            raise RecordWriteError(f"The writer of {self.run_dir} is closed.", "Create a new RunWriter.")
        segment = self._segments.get(name)
        # After a fork both processes share the open files; the child must not write into its parent's segment.
        if segment is None or segment.pid != os.getpid():
            segment = _Segment(layout.table_dir(self.run_dir, name), name, sync=self._sync)
            self._segments[name] = segment
        return segment

    @contextlib.contextmanager
    def _refusals_typed(self, name: schema.TableName) -> Iterator[None]:
        """Drop the segment on any error, so that the next append starts a new one. Convert OSError to RecordWriteError.

        Any error, because an interrupt (Ctrl-C) between the bytes and their entry makes the file longer than its
        entries say, and every later entry would confirm the wrong bytes.
        """
        try:
            yield
        except BaseException as error:
            segment = self._segments.pop(name, None)
            left = "" if segment is None else segment.take_back()
            if not isinstance(error, OSError):
                raise
            where = error.filename or (segment.path if segment else layout.table_dir(self.run_dir, name))
            raise RecordWriteError(
                f"Could not write `{name}` to {where}: {error.strerror or error}{left}; the batch is not recorded.",
                "Free space or fix the permissions, then append the same batch again.",
            ) from error


class _Segment:
    """One stream and its journal, created and written only by this process."""

    def __init__(self, folder: Path, table: schema.TableName, *, sync: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        segment_id = uuid.uuid4()
        self.pid: Final = os.getpid()
        self._id = segment_id.bytes
        self._sync = sync
        self._sequence = 0
        self._stream_bytes = 0
        self._journal_bytes = 0
        name = layout.new_segment_name(folder, segment_id)
        self.path: Final = folder / (name + layout.STREAM_SUFFIX)
        # The journal comes first, so a stream without a journal is never the result of a kill.
        self._journal = io.FileIO(folder / (name + layout.JOURNAL_SUFFIX), "xb")
        self._stream = io.FileIO(self.path, "xb")
        header = Header(self._id, table, schema.SCHEMA_VERSION, time.time_ns() // 1000)
        self._journal_bytes += _write_all(self._journal, memoryview(encode_header(header)))
        self.add(Kind.SCHEMA, memoryview(schema.TABLES[table].serialize()), 0)
        if sync:
            _sync_folders(folder)

    def add(self, kind: Kind, payload: memoryview, rows: int) -> None:
        """Write the bytes, then the entry that confirms them; this order makes torn batches detectable."""
        entry = Entry(kind, self._sequence, self._stream_bytes, payload.nbytes, rows, digest(payload))
        _write_all(self._stream, payload)
        if self._sync:
            os.fdatasync(self._stream.fileno())
        _write_all(self._journal, memoryview(encode_entry(entry, self._id)))
        if self._sync:
            os.fdatasync(self._journal.fileno())
        self._sequence += 1
        self._stream_bytes = entry.end
        self._journal_bytes = self._journal.tell()

    def finish(self) -> None:
        """Write the end of the stream, unless the segment belongs to a parent process."""
        if self.pid == os.getpid():
            self.add(Kind.END, memoryview(END_OF_STREAM), 0)
        self._close()

    def take_back(self) -> str:
        """Truncate what a failed append left, to free the space; return a note for the error if that fails too.

        Readers do not need this: bytes without an entry are not rows.
        """
        if self.pid != os.getpid():
            return ""
        try:
            self._journal.truncate(self._journal_bytes)
            self._stream.truncate(self._stream_bytes)
            self._close()
        except OSError as error:
            return f" (and the unfinished bytes could not be cut off: {error.strerror or error})"
        return ""

    def _close(self) -> None:
        self._stream.close()
        self._journal.close()


def _one_batch(name: schema.TableName, rows: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
    if isinstance(rows, pa.RecordBatch):
        return rows
    batches = rows.combine_chunks().to_batches()
    if len(batches) > 1:
        raise schema.SchemaError(
            f"{rows.num_rows} rows of `{name}` are too large for one batch (2 GiB of text in a column).",
            "Append them in smaller batches.",
            table=name,
        )
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)


def _message(batch: pa.RecordBatch, compression: Compression | None) -> memoryview:
    """The batch as one encapsulated IPC message."""
    if compression is None:
        return memoryview(batch.serialize())
    # Only a stream writer compresses; its schema message comes first and is already in the segment.
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as stream:
        stream.write_batch(batch)
        end = sink.tell()
    return memoryview(sink.getvalue())[batch.schema.serialize().size : end]


def _write_all(file: io.FileIO, data: memoryview) -> int:
    """Write every byte; one call on a regular file may write fewer (2 GiB limit, or a nearly full disk)."""
    done = 0
    while done < data.nbytes:
        done += file.write(data[done:])
    return done


def _sync_folders(folder: Path) -> None:
    """Make the new names durable: the table's folder and the two above it, which the writer may have created."""
    for path in (folder, folder.parent, folder.parent.parent):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
