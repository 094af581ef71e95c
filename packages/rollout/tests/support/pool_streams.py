"""Sends a state dict to a pool of samplers by a stream, as rank 0 does; a hook may interfere before each bucket."""

from collections.abc import Awaitable, Callable

import torch

from warpsmith.rollout.samplers import WeightPayload
from warpsmith.rollout.samplers.base import StreamReceipt
from warpsmith.rollout.samplers.pool import SamplerPool
from warpsmith.rollout.samplers.weights.stream.layout import Bucket, StreamLayout
from warpsmith.rollout.samplers.weights.stream.media import SlotMemory, slot_memory
from warpsmith.rollout.samplers.weights.stream.pool import PoolStream
from warpsmith.rollout.samplers.weights.stream.writer import StreamWriter

Tensors = dict[str, torch.Tensor]
Hook = Callable[[Bucket, SlotMemory], Awaitable[None]]


async def _nothing(_bucket: Bucket, _memory: SlotMemory) -> None:
    return


async def stream_to_pool(
    pool: SamplerPool, tensors: Tensors, version: int, *, bucket_bytes: int = 1 << 18, before: Hook = _nothing
) -> list[StreamReceipt]:
    """Send all tensors; `before` is awaited with each full bucket before the samplers are notified of it."""
    announced = [(name, str(t.dtype).removeprefix("torch."), t.shape) for name, t in tensors.items()]
    layout = StreamLayout.of(version, announced, bucket_bytes)
    memory = slot_memory(next(iter(tensors.values())).device, 2, layout.bucket_bytes)
    update = PoolStream(pool, layout, memory, lambda: WeightPayload.from_state_dict(version, tensors))
    writer = StreamWriter(layout, memory.slots)
    try:
        await update.begin()
        for buckets in (*(writer.add(name, tensor) for name, tensor in tensors.items()), writer.end()):
            for bucket in buckets:
                await before(bucket, memory)
                await update.arrived()
                await update.launch(bucket)
        await update.arrived()
        return await update.finish()
    finally:
        memory.close()
