"""Sends a state dict to one sampler by a stream through shared memory."""

from collections.abc import Callable

import torch

from warpsmith.rollout.samplers.base import StreamReceipt, TakesStreams
from warpsmith.rollout.samplers.weights.stream.layout import Bucket, StreamLayout
from warpsmith.rollout.samplers.weights.stream.media import SlotMemory, slot_memory
from warpsmith.rollout.samplers.weights.stream.writer import StreamWriter

Spoil = Callable[[Bucket, SlotMemory], Bucket]


def layout_of(tensors: dict[str, torch.Tensor], version: int, bucket_bytes: int) -> StreamLayout:
    announced = [(name, str(t.dtype).removeprefix("torch."), t.shape) for name, t in tensors.items()]
    return StreamLayout.of(version, announced, bucket_bytes)


async def stream(
    sampler: TakesStreams,
    tensors: dict[str, torch.Tensor],
    version: int,
    *,
    bucket_bytes: int = 1 << 18,
    spoil: Spoil = lambda bucket, memory: bucket,
) -> StreamReceipt:
    """Send all tensors; `spoil` may change a bucket before the sampler is notified of it."""
    layout = layout_of(tensors, version, bucket_bytes)
    memory = slot_memory(next(iter(tensors.values())).device, 2, layout.bucket_bytes)
    writer = StreamWriter(layout, memory.slots)
    try:
        await sampler.begin_stream(layout, memory.kind, [memory.export()])
        for name, tensor in tensors.items():
            for bucket in writer.add(name, tensor):
                await sampler.take_bucket(spoil(bucket, memory))
        for bucket in writer.end():
            await sampler.take_bucket(spoil(bucket, memory))
        return await sampler.finish_stream()
    finally:
        memory.close()
