"""Segments: how recorded batches are stored on disk, and how an intact batch is recognised.

A segment is two files of one name. `NAME.arrows` is a plain Arrow IPC stream. `NAME.journal` says which byte ranges
of it are complete: a 64-byte header, then one 64-byte entry per message, written after the message's bytes. Entries
never straddle a disk sector or a page, so each is either present or not. docs/record-spec.md gives the layout.
"""

import enum
import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warpsmith.records.torn_and_damaged import SALVAGE, CorruptSegmentError, ForeignFileError, NewerFormatError

FORMAT_VERSION: Final = 2
SLOT_BYTES: Final = 64
DIGEST_BYTES: Final = 16
END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"

_HEADER_MAGIC: Final = b"WSJOURNL"
_ENTRY_MAGIC: Final = b"WSJE"
_CHECK_BYTES: Final = 8
# Little-endian, no padding; the last eight bytes of a slot are a check of the first 56.
_HEADER: Final = struct.Struct("<8sHHI16s16sq")
_ENTRY: Final = struct.Struct("<4sHHQQQQ16s")
assert _HEADER.size == _ENTRY.size == SLOT_BYTES - _CHECK_BYTES


class Kind(enum.IntEnum):
    """What an entry's byte range holds."""

    SCHEMA = 1
    BATCH = 2
    END = 3


@dataclass(frozen=True)
class Header:
    """First slot of a journal. `format_version` is the version read; the current one is always written."""

    segment_id: bytes
    table: str
    schema_version: int
    created_us: int
    format_version: int = FORMAT_VERSION


@dataclass(frozen=True)
class Entry:
    """One message of the stream: bytes [offset, offset + length) hash to `digest` and hold `rows` rows."""

    kind: Kind
    sequence: int
    offset: int
    length: int
    rows: int
    digest: bytes

    @property
    def end(self) -> int:
        return self.offset + self.length


@dataclass(frozen=True)
class Journal:
    """Contents of a journal.

    Attributes:
        header: None if the segment's writer died before the header was complete; then there are no rows.
        entries: the complete entries, in order.
        torn_bytes: bytes at the end that are not a complete entry: a kill, a power loss, or an append in progress.
        faults: what is wrong with the other slots, one sentence each.
    """

    header: Header | None
    entries: tuple[Entry, ...]
    torn_bytes: int
    faults: tuple[str, ...]

    @property
    def closed(self) -> bool:
        return bool(self.entries) and self.entries[-1].kind is Kind.END

    @property
    def confirmed_bytes(self) -> int:
        """Length of the stream up to the end of the last complete entry."""
        return self.entries[-1].end if self.entries else 0


_KINDS: Final = frozenset(Kind)


def digest(data: bytes | memoryview, format_version: int = FORMAT_VERSION) -> bytes:
    """The 16-byte digest of a message: SHA-256 cut to 16 bytes, BLAKE2b in format version 1.

    A 32-bit cyclic check would miss one damaged batch in four billion. SHA-256 has processor instructions, which make
    it twice as fast as BLAKE2b; hashing is the largest part of recording long turns.
    """
    if format_version == 1:
        return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()
    return hashlib.sha256(data).digest()[:DIGEST_BYTES]


def encode_header(header: Header) -> bytes:
    body = _HEADER.pack(
        _HEADER_MAGIC,
        FORMAT_VERSION,
        header.schema_version,
        0,
        header.segment_id,
        header.table.encode(),
        header.created_us,
    )
    return body + _check(body, b"")


def encode_entry(entry: Entry, segment_id: bytes) -> bytes:
    body = _ENTRY.pack(
        _ENTRY_MAGIC, entry.kind, 0, entry.sequence, entry.offset, entry.length, entry.rows, entry.digest
    )
    return body + _check(body, segment_id)


def decode_journal(data: bytes, path: Path) -> Journal:
    """Decode a journal's bytes; a slot whose check fails is never used.

    Raises:
        ForeignFileError, NewerFormatError, CorruptSegmentError: the header is complete but cannot be used.
    """
    if len(data) < SLOT_BYTES or not any(data):
        return Journal(header=None, entries=(), torn_bytes=len(data), faults=())
    header = _decode_header(data[:SLOT_BYTES], path)
    whole = len(data) // SLOT_BYTES
    last = _last_written_slot(data, whole)
    entries: list[Entry] = []
    faults: list[str] = []
    for slot in range(1, last + 1):
        entry = _decode_entry(data[slot * SLOT_BYTES : (slot + 1) * SLOT_BYTES], header.segment_id, slot - 1)
        if entry is None:
            faults.append(f"journal entry {slot - 1} is damaged")
        else:
            entries.append(entry)
    return Journal(header, tuple(entries), len(data) - (last + 1) * SLOT_BYTES, tuple(faults))


def _decode_header(slot: bytes, path: Path) -> Header:
    body, check = slot[:-_CHECK_BYTES], slot[-_CHECK_BYTES:]
    magic, format_version, schema_version, _, segment_id, table, created_us = _HEADER.unpack(body)
    if magic != _HEADER_MAGIC:
        raise ForeignFileError(path, "this is not a journal of Warpsmith records.", "Move it out of the run's records.")
    if check != _check(body, b""):
        raise CorruptSegmentError(path, "the journal's header is damaged.", SALVAGE)
    if format_version > FORMAT_VERSION:
        raise NewerFormatError(
            path,
            f"the segment has format version {format_version}; this installation reads up to {FORMAT_VERSION}.",
            "Install a newer warpsmith-records.",
        )
    return Header(
        segment_id, table.rstrip(b"\0").decode("ascii", "replace"), schema_version, created_us, format_version
    )


def _decode_entry(slot: bytes, segment_id: bytes, sequence: int) -> Entry | None:
    body, check = slot[:-_CHECK_BYTES], slot[-_CHECK_BYTES:]
    magic, kind, _, found_sequence, offset, length, rows, digest_ = _ENTRY.unpack(body)
    whole = magic == _ENTRY_MAGIC and check == _check(body, segment_id)
    if not whole or found_sequence != sequence or kind not in _KINDS:
        return None
    return Entry(Kind(kind), sequence, offset, length, rows, digest_)


def _last_written_slot(data: bytes, whole: int) -> int:
    """Index of the last slot that is not all zero: a power loss can extend a file with zeros that were not written."""
    last = whole - 1
    while not any(data[last * SLOT_BYTES : (last + 1) * SLOT_BYTES]):
        last -= 1
    return last


def _check(body: bytes, segment_id: bytes) -> bytes:
    """Keyed by the segment, so that an entry of another journal is rejected."""
    return hashlib.blake2b(body, digest_size=_CHECK_BYTES, key=segment_id).digest()
