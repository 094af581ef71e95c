"""The receiver's side of a stream: buckets become tensors, which are checked before anything reads them."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpsmith.rollout.errors import BadPayloadError
from warpsmith.rollout.samplers.weights.seconds import UpdateSeconds
from warpsmith.rollout.samplers.weights.stream.digest import digests_of
from warpsmith.rollout.samplers.weights.stream.layout import Bucket, Span, StreamLayout

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class StreamReader:
    """Copies each bucket to its own memory and returns the complete tensors.

    Args:
        layout: what the stream has.
        device: where the tensors are wanted.
        seconds: the times are added to it.
    """

    def __init__(self, layout: StreamLayout, device: "torch.device", seconds: UpdateSeconds | None = None) -> None:
        self.layout = layout
        self.seconds = seconds or UpdateSeconds()
        self.digests: dict[str, int] = {}
        self._device = device
        self._next = 0
        self._begun: Tensor | None = None

    def take(self, bucket: Bucket, slots: Sequence["Tensor"]) -> list[tuple[str, "Tensor"]]:
        """Return the tensors that end in this bucket, by name; the slot may be overwritten afterwards.

        Raises:
            BadPayloadError: it is not the next bucket, or a tensor has other bytes than the sender's; nothing of this
                bucket may be loaded then.
        """
        if bucket.number != self._next or not 0 <= bucket.slot < len(slots):
            raise BadPayloadError(
                f"Weight version {self.layout.version}: bucket {bucket.number} came in slot {bucket.slot}; bucket "
                f"{self._next} of {self.layout.buckets} was awaited in one of {len(slots)} slots.",
                "Send the whole stream again.",
            )
        began = time.monotonic()
        own = self._copied(slots[bucket.slot][: self.layout.size_of(bucket.number)])
        tensors = [found for span in self.layout.spans(bucket.number) if (found := self._part(span, own)) is not None]
        _settle(self._device)
        copied = time.monotonic()
        self._check(tensors, bucket.digests)
        self._next += 1
        self.seconds.send_s += copied - began
        self.seconds.verify_s += time.monotonic() - copied
        return tensors

    def finish(self) -> None:
        """Check that every bucket came.

        Raises:
            BadPayloadError: one is missing.
        """
        if self._next < self.layout.buckets:
            raise BadPayloadError(
                f"Weight version {self.layout.version} ended after bucket {self._next} of {self.layout.buckets}.",
                "Send the whole stream again.",
            )

    def _copied(self, slot: "Tensor") -> "Tensor":
        """Return the receiver's own copy: vLLM keeps tensors until their layer is complete, and slots are reused."""
        import torch

        own = torch.empty(slot.numel(), dtype=torch.uint8, device=self._device)
        own.copy_(slot)
        return own

    def _part(self, span: Span, own: "Tensor") -> "tuple[str, Tensor] | None":
        """Return a tensor that ends here; keep the part of one that continues."""
        import torch

        entry = span.entry
        part = own[span.at : span.at + span.end - span.begin]
        if not span.is_whole:
            if self._begun is None:
                self._begun = torch.empty(entry.nbytes, dtype=torch.uint8, device=self._device)
            self._begun[span.begin : span.end].copy_(part)
            if not span.completes:
                return None
            part, self._begun = self._begun, None
        return entry.name, part.view(getattr(torch, entry.dtype)).reshape(entry.shape)

    def _check(self, tensors: Sequence[tuple[str, "Tensor"]], expected: Sequence[int]) -> None:
        found = digests_of(tensor for _, tensor in tensors)
        wrong = [name for (name, _), is_, due in zip(tensors, found, expected, strict=False) if is_ != due]
        if wrong or len(found) != len(expected):
            what = f"the bytes of {', '.join(wrong[:3])}" if wrong else f"{len(expected)} digests of {len(found)}"
            more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
            raise BadPayloadError(
                f"Weight version {self.layout.version}: {what}{more} arrived damaged.",
                'Nothing of them was loaded. Send the whole stream again; if it recurs, use sync.transport = "host".',
            )
        self.digests.update((name, digest) for (name, _), digest in zip(tensors, found, strict=True))


def _settle(device: "torch.device") -> None:
    if device.type == "cuda":
        import torch

        torch.cuda.current_stream(device).synchronize()
