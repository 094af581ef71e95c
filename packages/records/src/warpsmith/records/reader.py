"""RunReader: reads every recorded batch, and reports what a kill or damage cost."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final, Literal

import pyarrow as pa

from warpsmith.records import keys, layout, schema
from warpsmith.records.errors import WarpsmithError
from warpsmith.records.segments import Entry, Journal, Kind, decode_journal, digest
from warpsmith.records.torn_and_damaged import (
    SALVAGE,
    CorruptSegmentError,
    ForeignFileError,
    NewerFormatError,
    SegmentError,
    Torn,
    TruncatedSegmentError,
    unreadable,
)

OnDamage = Literal["raise", "skip"]

# pyarrow also reports malformed messages as OSError.
_ENTRIES: Final = sys.maxsize
"""More entries than a journal has."""

DECODE_ERRORS: Final = (pa.ArrowException, OSError, ValueError)


class NoRecordsError(WarpsmithError):
    """The directory is not a run, or its run has recorded nothing yet."""


@dataclass(frozen=True)
class SegmentReport:
    """State of one segment.

    Attributes:
        batches, rows, stream_bytes: what the journal confirms.
        closed: whether its writer closed it; otherwise the writer was killed or is still writing.
        torn: bytes after the last recorded batch, or None.
        damage: one error per journal entry or batch that cannot be read.
    """

    table: str
    path: Path
    batches: int
    rows: int
    stream_bytes: int
    closed: bool
    torn: Torn | None
    damage: tuple[SegmentError, ...] = ()


@dataclass(frozen=True)
class Place:
    """Where a recorded batch is: the name of its segment, and the number of its journal entry."""

    segment: str
    entry: int


@dataclass(frozen=True)
class Losses:
    """What a reader has skipped: torn ends and, with on_damage "skip", damaged data."""

    torn: tuple[Torn, ...]
    damage: tuple[SegmentError, ...]


class RunReader:
    """Reads the records of one run, even while writers are writing them.

    Args:
        run_dir: the run's directory.
        on_damage: how to handle recorded bytes that have changed since: "raise" a SegmentError at the first (the
            default), or "skip" what cannot be read and list it in `damage`. Torn ends are not damage.

    Attributes:
        damage: what "skip" has skipped so far, one error each.

    Example:
        turns = RunReader("runs/demo").table("turns")
    """

    def __init__(self, run_dir: str | os.PathLike[str], *, on_damage: OnDamage = "raise") -> None:
        self.run_dir = Path(run_dir)
        self.on_damage = on_damage
        self.damage: list[SegmentError] = []
        if not _is_folder(layout.records_dir(self.run_dir)):
            raise _no_records(self.run_dir)

    def table(self, name: str, *, columns: Sequence[str] | None = None, latest: bool = False) -> pa.Table:
        """Return every recorded row of the table, ordered by the start of its segment, then as appended.

        Args:
            name: "turns", "credits" or "steps"; a table without rows is returned empty.
            columns: the columns to return; all by default.
            latest: keep only the last row of each key (`schema.KEYS`), so that rows of a resumed run replace those
                recorded before the kill.

        Raises:
            SchemaError: no such table or column.
            SegmentError: a file is damaged; the error names it and says what to do.
        """
        wanted = _selection(name, columns)
        return pa.Table.from_batches(self.batches(name, columns=columns, latest=latest), schema=wanted)

    def batches(
        self, name: str, *, columns: Sequence[str] | None = None, latest: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield the recorded batches one by one, with one in memory at a time. Arguments and errors as for `table`."""
        wanted = _selection(name, columns)
        segments = self._snapshot(schema.table_name(name))
        if not latest:
            yield from (batch.select(wanted.names) for batch in self._read(segments))
            return
        key = list(schema.KEYS[schema.table_name(name)])
        needed = [*key, "num_turns"] if name == "turns" else key
        masks = keys.last_of_each([batch.select(needed) for batch in self._read(segments)], key)
        for batch, mask in zip(self._read(segments), masks, strict=True):
            kept = batch.select(wanted.names)
            yield kept if mask is None else kept.filter(mask)

    def recorded_since(
        self, name: str, seen: Mapping[str, int] = MappingProxyType({})
    ) -> Iterator[tuple[Place, pa.RecordBatch]]:
        """Yield the batches recorded after those that were read before, each with its place.

        Args:
            name: "turns", "credits" or "steps".
            seen: of each segment, how many journal entries were read before; absent for none.

        Raises:
            SchemaError: no such table.
            SegmentError: a file is damaged.
        """
        for segment in self._snapshot(schema.table_name(name)):
            for entry, batch in segment.entries(self._meet, range(seen.get(segment.path.stem, 0), _ENTRIES)):
                yield Place(segment.path.stem, entry), batch

    def batch_at(self, name: str, place: Place) -> pa.RecordBatch | None:
        """Read one batch again; None if it was damaged since, and the reader skips damage. Errors as for `table`."""
        folder = layout.table_dir(self.run_dir, schema.table_name(name))
        segment = _open(folder, place.segment, schema.table_name(name))
        found = segment.entries(self._meet, range(place.entry, place.entry + 1))
        return next((batch for _, batch in found), None)

    @property
    def torn(self) -> list[Torn]:
        """Bytes after the last recorded batch of each segment; empty if all writers were closed."""
        return [segment.torn for table in schema.TABLES for segment in self.segments(table) if segment.torn]

    def losses(self) -> Losses:
        """What this reader has skipped so far."""
        return Losses(tuple(self.torn), tuple(self.damage))

    def segments(self, name: str) -> list[SegmentReport]:
        """Report on the table's segments from their journals, without reading the batches."""
        return [segment.report() for segment in self._snapshot(schema.table_name(name))]

    def segment_counts(self) -> dict[str, int]:
        """Number of segments of each table."""
        return {table: len(layout.table_segments(self.run_dir, table)) for table in schema.TABLES}

    def verify(self, progress: Callable[[SegmentReport], None] = lambda report: None) -> list[SegmentReport]:
        """Read every batch of every table and report on each segment; damage is listed, not raised.

        Args:
            progress: called with each segment's report when it is finished.
        """
        reports = []
        for table in schema.TABLES:
            for segment in _snapshot(self.run_dir, table):
                found = list(segment.faults)
                for _ in segment.batches(found.append):
                    pass
                reports.append(segment.report(tuple(found)))
                progress(reports[-1])
        return reports

    def _snapshot(self, table: schema.TableName) -> list["_SegmentFiles"]:
        """The table's segments and their recorded lengths now; later appends are left to the next call."""
        segments = _snapshot(self.run_dir, table)
        for segment in segments:
            for fault in segment.faults:
                self._meet(fault)
        return segments

    def _read(self, segments: Sequence["_SegmentFiles"]) -> Iterator[pa.RecordBatch]:
        for segment in segments:
            yield from segment.batches(self._meet)

    def _meet(self, error: SegmentError) -> None:
        if self.on_damage == "raise":
            raise error
        if str(error) not in map(str, self.damage):
            self.damage.append(error)


@dataclass(frozen=True)
class _SegmentFiles:
    """A segment as its journal described it at one moment; `journal` is empty if the journal cannot be read."""

    table: schema.TableName
    path: Path
    journal: Journal
    faults: tuple[SegmentError, ...]
    size: int

    def report(self, damage: tuple[SegmentError, ...] | None = None) -> SegmentReport:
        batches = [entry for entry in self.journal.entries if entry.kind is Kind.BATCH]
        return SegmentReport(
            table=self.table,
            path=self.path,
            batches=len(batches),
            rows=sum(entry.rows for entry in batches),
            stream_bytes=self.journal.confirmed_bytes,
            closed=self.journal.closed,
            torn=self._torn(),
            damage=self.faults if damage is None else damage,
        )

    def _torn(self) -> Torn | None:
        if self.faults:
            return None
        behind = max(self.size - self.journal.confirmed_bytes, 0)
        if behind or self.journal.torn_bytes:
            return Torn(self.table, self.path, behind, self.journal.torn_bytes)
        return None

    def batches(self, meet: Callable[[SegmentError], None]) -> Iterator[pa.RecordBatch]:
        """Yield the batches whose bytes are unchanged; call `meet` with an error for each other batch."""
        yield from (batch for _, batch in self.entries(meet, range(_ENTRIES)))

    def entries(self, meet: Callable[[SegmentError], None], numbers: range) -> Iterator[tuple[int, pa.RecordBatch]]:
        """As `batches`, but only of the journal entries with these numbers, and with the number of each."""
        wanted = self.journal.entries[max(numbers.start, 1) : numbers.stop]
        if not self.journal.entries or (numbers.start and not wanted):
            return
        first = self.journal.entries[0]
        try:
            with self.path.open("rb") as stream:
                written = self._schema(stream, first)
                for number, entry in enumerate(wanted, max(numbers.start, 1)):
                    if entry.kind is not Kind.BATCH:
                        continue
                    try:
                        batch = self._batch(stream, entry, written)
                    except SegmentError as error:
                        meet(error)
                    else:
                        yield number, batch
        except FileNotFoundError:
            meet(TruncatedSegmentError(self.path, "the stream is missing, but its journal exists.", SALVAGE))
        except OSError as error:
            meet(unreadable(self.path, error))
        except SegmentError as error:
            meet(error)

    def _schema(self, stream: BinaryIO, first: Entry) -> pa.Schema:
        if first.kind is not Kind.SCHEMA:
            raise CorruptSegmentError(self.path, "the journal has no complete entry for the stream's schema.", SALVAGE)
        data = pa.py_buffer(self._bytes(stream, first))
        try:
            return pa.ipc.read_schema(data)
        except DECODE_ERRORS as error:
            raise CorruptSegmentError(
                self.path, f"the stream's schema cannot be decoded ({error}).", SALVAGE
            ) from error

    def _batch(self, stream: BinaryIO, entry: Entry, written: pa.Schema) -> pa.RecordBatch:
        data = pa.py_buffer(self._bytes(stream, entry))
        try:
            batch = pa.ipc.read_record_batch(data, written)
            batch.validate(full=True)
        except DECODE_ERRORS as error:
            raise CorruptSegmentError(self.path, f"{_named(entry)} cannot be decoded ({error}).", SALVAGE) from error
        if batch.num_rows != entry.rows:
            raise CorruptSegmentError(
                self.path, f"{_named(entry)} has {batch.num_rows} rows; the journal says {entry.rows}.", SALVAGE
            )
        return self._current(batch)

    def _current(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch, migrated to the current schema."""
        assert self.journal.header is not None
        current = schema.migrate(self.table, batch, self.journal.header.schema_version)
        expected = schema.TABLES[self.table]
        if not current.schema.equals(expected, check_metadata=False):
            raise ForeignFileError(
                self.path,
                f"the stream's columns differ from those of `{self.table}`.",
                "Compare them with `warpsmith-records schema`; move the file out of the run's records.",
            )
        return current.replace_schema_metadata(expected.metadata)

    def _bytes(self, stream: BinaryIO, entry: Entry) -> bytes:
        """The entry's bytes, checked. The size is compared first, so that missing bytes are never allocated."""
        if entry.end > os.fstat(stream.fileno()).st_size:
            raise TruncatedSegmentError(
                self.path, f"the file ends before {_named(entry)} does (at byte {entry.end}).", SALVAGE
            )
        data = os.pread(stream.fileno(), entry.length, entry.offset)
        while len(data) < entry.length:
            more = os.pread(stream.fileno(), entry.length - len(data), entry.offset + len(data))
            if not more:
                raise TruncatedSegmentError(self.path, f"{_named(entry)} was truncated while being read.", SALVAGE)
            data += more
        assert self.journal.header is not None
        if digest(data, self.journal.header.format_version) != entry.digest:
            raise CorruptSegmentError(self.path, f"the bytes of {_named(entry)} differ from those written.", SALVAGE)
        return data


def runs_of(folder: Path) -> list[Path]:
    """Return the runs that a directory stands for: itself, or those directly in it, for example of a demo.

    Raises:
        NoRecordsError: neither it nor a folder directly in it has records.
    """
    if _is_folder(layout.records_dir(folder)):
        return [folder]
    found = layout.runs_below(folder)
    if not found:
        raise _no_records(folder)
    return found


def _no_records(folder: Path) -> NoRecordsError:
    below = layout.runs_below(folder)
    if below:
        return NoRecordsError(
            f"{folder} is not a run: it has no folder `{layout.RECORDS_DIR}`, but {len(below)} of its folders have.",
            f"Pass one of them: {', '.join(map(str, below))}.",
        )
    return NoRecordsError(
        f"{folder} has no records: the folder `{layout.RECORDS_DIR}` is missing, and no folder in it has one.",
        "Pass a run's directory, as passed to its RunWriter, or a folder of runs, for example a demo's.",
    )


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError as error:
        raise unreadable(path, error) from error


def _named(entry: Entry) -> str:
    return "the schema" if entry.kind is Kind.SCHEMA else f"batch {entry.sequence - 1}"


def _selection(name: str, columns: Sequence[str] | None) -> pa.Schema:
    whole = schema.TABLES[schema.table_name(name)]
    if columns is None:
        return whole
    unknown = [column for column in columns if column not in whole.names]
    if unknown:
        raise schema.SchemaError(
            f"`{name}` has no column `{unknown[0]}`.",
            f"Its columns are {', '.join(whole.names)}.",
            table=name,
            column=unknown[0],
        )
    return pa.schema([whole.field(column) for column in columns], metadata=whole.metadata)


def _snapshot(run_dir: Path, table: schema.TableName) -> list[_SegmentFiles]:
    folder = layout.table_dir(run_dir, table)
    return [_open(folder, name, table) for name in layout.table_segments(run_dir, table)]


def _open(folder: Path, name: str, table: schema.TableName) -> _SegmentFiles:
    stream, journal = folder / (name + layout.STREAM_SUFFIX), folder / (name + layout.JOURNAL_SUFFIX)
    # Read before the stream's size, so that the stream already has all bytes that the journal confirms.
    found, faults = _read_journal(stream, journal, table)
    size = _size(stream)
    if _is_empty(found) and size:
        # A writer may have started between the two reads; it writes the journal's header first.
        found, faults = _read_journal(stream, journal, table)
        if _is_empty(found):
            # Not the effect of a kill: the header is complete before the first byte of the stream.
            faults = (CorruptSegmentError(journal, "the journal is empty, but its stream is not.", SALVAGE_JOURNAL),)
        size = _size(stream)
    return _SegmentFiles(table, stream, found, faults, size)


def _read_journal(stream: Path, journal: Path, table: schema.TableName) -> tuple[Journal, tuple[SegmentError, ...]]:
    try:
        found = decode_journal(journal.read_bytes(), journal)
        return found, _journal_faults(found, journal, table)
    except FileNotFoundError:
        return _NOTHING, (ForeignFileError(stream, "an Arrow stream without its journal.", SALVAGE_JOURNAL),)
    except OSError as error:
        return _NOTHING, (unreadable(journal, error),)
    except SegmentError as error:
        return _NOTHING, (error,)


def _is_empty(journal: Journal) -> bool:
    """Whether the journal was read and is still empty."""
    return journal is not _NOTHING and journal.header is None


def _size(stream: Path) -> int:
    """The stream's size in bytes; 0 if it cannot be read, which reading it reports later."""
    try:
        return stream.stat().st_size
    except OSError:
        return 0


_NOTHING = Journal(header=None, entries=(), torn_bytes=0, faults=())

SALVAGE_JOURNAL = (
    "Copy the .journal file of the same name back next to it, or move the stream away. A stream alone is still an "
    "Arrow IPC stream, which pyarrow.ipc.open_stream reads without checks."
)


def _journal_faults(found: Journal, path: Path, table: schema.TableName) -> tuple[SegmentError, ...]:
    """Return the damaged entries; raises if the whole segment cannot be read."""
    if found.header is None:
        return ()
    if found.header.table != table:
        raise ForeignFileError(
            path, f"the segment belongs to `{found.header.table}`, not to `{table}`.", "Move it to its own folder."
        )
    if found.header.schema_version > schema.SCHEMA_VERSION:
        raise NewerFormatError(
            path,
            f"the segment has schema version {found.header.schema_version}; "
            f"this installation reads up to {schema.SCHEMA_VERSION}.",
            "Install a newer warpsmith-records.",
        )
    return tuple(CorruptSegmentError(path, f"{fault}.", SALVAGE) for fault in found.faults)
