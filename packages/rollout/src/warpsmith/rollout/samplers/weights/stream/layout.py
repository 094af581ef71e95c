"""What a stream of weights has, and where: all tensors end to end, cut into buckets of one size."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from warpsmith.rollout.errors import BadPayloadError
from warpsmith.rollout.samplers.weights.payload import ALIGNMENT, TensorEntry, laid_out


@dataclass(frozen=True)
class Span:
    """The part of a tensor that lies in a bucket.

    Attributes:
        number: the tensor's number in the layout.
        entry: the tensor.
        begin: first byte within the tensor.
        end: byte after the last within the tensor.
        at: where the part begins in the bucket, in bytes.
    """

    number: int
    entry: TensorEntry
    begin: int
    end: int
    at: int

    @property
    def completes(self) -> bool:
        """Whether the tensor ends in this bucket."""
        return self.end == self.entry.nbytes

    @property
    def is_whole(self) -> bool:
        """Whether the whole tensor is in this bucket."""
        return self.begin == 0 and self.completes


@dataclass(frozen=True)
class StreamLayout:
    """All tensors of one weight version in their order; a tensor may go on in the next bucket.

    The offsets are those of a `WeightPayload` with the same tensors.

    Args:
        version: the weight version.
        entries: the tensors; their `crc32` is unused.
        bucket_bytes: size of a bucket, a multiple of 64; the last one may be shorter.
    """

    version: int
    entries: tuple[TensorEntry, ...]
    bucket_bytes: int

    @staticmethod
    def of(version: int, tensors: Iterable[tuple[str, str, Sequence[int]]], bucket_bytes: int) -> "StreamLayout":
        """Lay out tensors of these names, dtypes and shapes.

        Raises:
            BadPayloadError: there is no tensor, one is empty, or a name occurs twice.
        """
        listed = [(name, (dtype, tuple(shape))) for name, dtype, shape in tensors]
        named = dict(listed)
        empty = [name for name, (_, shape) in listed if not math.prod(shape)]
        if not named or len(named) < len(listed) or empty:
            wrong = f"{empty[0]} is empty" if empty else "a name occurs twice" if named else "there are no tensors"
            raise BadPayloadError(f"Weight version {version} cannot be sent: {wrong}.", "Send the whole state dict.")
        return StreamLayout(version, tuple(laid_out(named)), -(-max(1, bucket_bytes) // ALIGNMENT) * ALIGNMENT)

    @property
    def nbytes(self) -> int:
        """Bytes of the stream."""
        return self.entries[-1].offset + self.entries[-1].nbytes

    @property
    def buckets(self) -> int:
        """Number of buckets."""
        return -(-self.nbytes // self.bucket_bytes)

    def size_of(self, bucket: int) -> int:
        """Return the bytes of a bucket."""
        return min(self.bucket_bytes, self.nbytes - bucket * self.bucket_bytes)

    def spans(self, bucket: int) -> list[Span]:
        """Return the parts of tensors in a bucket, in order."""
        return self._spans[bucket]

    @cached_property
    def _spans(self) -> list[list[Span]]:
        found: list[list[Span]] = [[] for _ in range(self.buckets)]
        for number, entry in enumerate(self.entries):
            begin = 0
            while begin < entry.nbytes:
                bucket, at = divmod(entry.offset + begin, self.bucket_bytes)
                end = min(entry.nbytes, begin + self.bucket_bytes - at)
                found[bucket].append(Span(number, entry, begin, end, at))
                begin = end
        return found

    def to_wire(self) -> dict[str, Any]:
        """Return the layout as plain values, for vLLM's calls to its workers."""
        tensors = [[entry.name, entry.dtype, list(entry.shape)] for entry in self.entries]
        return {"version": self.version, "tensors": tensors, "bucket_bytes": self.bucket_bytes}

    @staticmethod
    def from_wire(wire: dict[str, Any]) -> "StreamLayout":
        """Return the layout that `to_wire` gave."""
        return StreamLayout.of(wire["version"], wire["tensors"], wire["bucket_bytes"])


@dataclass(frozen=True)
class Bucket:
    """A bucket that is ready to be read.

    Args:
        number: its number in the stream.
        slot: the number of the slot that it is in.
        digests: the digests of the tensors that end in it, of their bytes at the sender; in order.
    """

    number: int
    slot: int
    digests: tuple[int, ...]
