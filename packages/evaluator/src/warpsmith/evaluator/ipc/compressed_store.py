"""Keeps the values used last in little memory: encoded and compressed, up to so many and to so many bytes."""

import zlib
from collections import OrderedDict
from typing import Final

from warpsmith.evaluator.ipc import codec

ENTRY_BYTES: Final = 300
"""What a key and its place take beside the value."""
LEVEL: Final = 1
"""Of compression: machine code takes a third, and a higher level saves a few percent more."""


class PackedStore:
    """Packed values by key, for one thread at a time: what was unused for longest makes room.

    Args:
        entries: how many are kept at most.
        size: bytes that they take at most, packed.
    """

    def __init__(self, entries: int, size: int) -> None:
        self._entries = entries
        self._size = size
        self._packed: OrderedDict[bytes, bytes] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._packed)

    def put(self, key: bytes, packed: bytes) -> None:
        """Keep a packed value under a key that has none, unless it alone is too large."""
        if ENTRY_BYTES + len(packed) > self._size:
            return
        self._packed[key] = packed
        self.bytes += ENTRY_BYTES + len(packed)
        while self._packed and (len(self._packed) > self._entries or self.bytes > self._size):
            _, gone = self._packed.popitem(last=False)
            self.bytes -= ENTRY_BYTES + len(gone)

    def get(self, key: bytes) -> bytes | None:
        """Return what is kept under a key, packed."""
        packed = self._packed.get(key)
        if packed is not None:
            self._packed.move_to_end(key)
        return packed


def pack(value: codec.Value) -> bytes:
    """Return a value in little memory."""
    return zlib.compress(codec.encode(value), LEVEL)


def unpack(packed: bytes) -> codec.Value:
    """Return what `pack` was given."""
    return codec.decode(zlib.decompress(packed))
