"""A cache of the most recently used values, encoded and compressed, bounded in entries and bytes."""

import zlib
from collections import OrderedDict
from typing import Final

from warpsmith.evaluator.ipc import codec

ENTRY_BYTES: Final = 300
"""Bytes of a key and its entry, added to the value's."""
LEVEL: Final = 1
"""Compression level: machine code shrinks to a third, and a higher level saves only a few percent more."""


class PackedStore:
    """Packed values by key; the least recently used are evicted. Not thread-safe.

    Args:
        entries: most entries.
        size: most bytes of all entries, packed.
    """

    def __init__(self, entries: int, size: int) -> None:
        self._entries = entries
        self._size = size
        self._packed: OrderedDict[bytes, bytes] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._packed)

    def put(self, key: bytes, packed: bytes) -> None:
        """Store a packed value under a new key, unless it alone exceeds the size."""
        if ENTRY_BYTES + len(packed) > self._size:
            return
        self._packed[key] = packed
        self.bytes += ENTRY_BYTES + len(packed)
        while self._packed and (len(self._packed) > self._entries or self.bytes > self._size):
            _, gone = self._packed.popitem(last=False)
            self.bytes -= ENTRY_BYTES + len(gone)

    def get(self, key: bytes) -> bytes | None:
        """Return the packed value of a key, or None."""
        packed = self._packed.get(key)
        if packed is not None:
            self._packed.move_to_end(key)
        return packed


def pack(value: codec.Value) -> bytes:
    """Encode and compress a value."""
    return zlib.compress(codec.encode(value), LEVEL)


def unpack(packed: bytes) -> codec.Value:
    """Return the value that was packed."""
    return codec.decode(zlib.decompress(packed))
