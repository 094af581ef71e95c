"""The sender's side of a stream: tensors go into the slots, bucket by bucket."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from warpsmith.rollout.errors import BadPayloadError
from warpsmith.rollout.samplers.weights.stream.digest import DigestBatch
from warpsmith.rollout.samplers.weights.stream.layout import Bucket, StreamLayout

if TYPE_CHECKING:
    from torch import Tensor


class StreamWriter:
    """Copies tensors into the slots in turn.

    The caller that iterates over `add` and `end` must not continue before the slot after the yielded bucket's has been
    read.

    Args:
        layout: what the stream has.
        slots: memory that the receivers read, uint8, at least `layout.bucket_bytes` each.
    """

    def __init__(self, layout: StreamLayout, slots: Sequence["Tensor"]) -> None:
        self.layout = layout
        self._slots = slots
        self._bucket = 0
        self._next = 0
        self._digests = DigestBatch()

    def add(self, name: str, tensor: "Tensor") -> Iterator[Bucket]:
        """Copy the next tensor; yield each bucket that is full.

        Raises:
            BadPayloadError: it is not the layout's next tensor.
        """
        import torch

        self._check(name, tensor)
        entry = self.layout.entries[self._next]
        flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        begin = 0
        while begin < entry.nbytes:
            bucket, at = divmod(entry.offset + begin, self.layout.bucket_bytes)
            if bucket > self._bucket:
                yield self._full()
            end = min(entry.nbytes, begin + self.layout.bucket_bytes - at)
            self._slot[at : at + end - begin].copy_(flat[begin:end])
            begin = end
        # From the tensor itself, so that an error of the copies above is found by the receiver.
        self._digests.add(tensor)
        self._next += 1

    def end(self) -> Iterator[Bucket]:
        """Yield the last bucket.

        Raises:
            BadPayloadError: tensors of the layout were not added.
        """
        if self._next < len(self.layout.entries):
            raise BadPayloadError(
                f"Weight version {self.layout.version} ended before {self.layout.entries[self._next].name}.",
                "Send the whole state dict again.",
            )
        yield self._full()

    @property
    def _slot(self) -> "Tensor":
        return self._slots[self._bucket % len(self._slots)]

    def _full(self) -> Bucket:
        slot = self._slot
        # Reading them waits for the device only if there are some; the receivers must find the bytes there.
        numbers = self._digests.read()
        if slot.device.type == "cuda":
            import torch

            torch.cuda.current_stream(slot.device).synchronize()
        bucket = Bucket(self._bucket, self._bucket % len(self._slots), tuple(numbers))
        self._bucket, self._digests = self._bucket + 1, DigestBatch()
        return bucket

    def _check(self, name: str, tensor: "Tensor") -> None:
        entries = self.layout.entries
        found = (name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
        wanted = entries[self._next] if self._next < len(entries) else None
        if wanted is None or found != (wanted.name, wanted.dtype, wanted.shape):
            announced = "nothing" if wanted is None else f"{wanted.name} ({wanted.dtype}, {wanted.shape})"
            raise BadPayloadError(
                f"Weight version {self.layout.version} continues with {found[0]} ({found[1]}, {found[2]}); "
                f"announced was {announced}.",
                "Send the tensors in the order of the layout.",
            )
