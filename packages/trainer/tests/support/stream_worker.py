"""Run by a launcher: the weights of every ZeRO stage through a stream, received by rank 0 itself and written.

Usage: stream_worker.py MODEL OUT.pt STAGE[:FAULT] ..., FAULT the number of the bucket that arrives damaged
"""

import asyncio
import sys
from pathlib import Path

import torch

from warpsmith.policy.loading import load_policy
from warpsmith.rollout.errors import BadPayloadError
from warpsmith.rollout.samplers.base import StreamReceipt
from warpsmith.rollout.samplers.weights.payload import WeightPayload
from warpsmith.rollout.samplers.weights.seconds import UpdateSeconds
from warpsmith.rollout.samplers.weights.stream.layout import Bucket, StreamLayout
from warpsmith.rollout.samplers.weights.stream.media import SlotMemory, open_slots, slot_memory
from warpsmith.rollout.samplers.weights.stream.reader import StreamReader
from warpsmith.trainer.config.sections import OptimizerSection, RunSection, ZeroSection
from warpsmith.trainer.distributed.gathered_weights import whole_on_device
from warpsmith.trainer.distributed.ranks import Ranks, join, leave
from warpsmith.trainer.distributed.zero_engine import ZeroEngine
from warpsmith.trainer.weights.stream import SLOTS, HostCopy, StreamSender, send_all

BUCKET_BYTES = 10_000
"""Less than most matrices of the model: they go on over several buckets."""
GATHER_ELEMENTS = 20_000
CPU = torch.device("cpu")


class Receiver:
    """What the sender uses of `PoolStream`, around a reader in this process. It loads late: when it is awaited."""

    def __init__(self, layout: StreamLayout, memory: SlotMemory, fault: int | None) -> None:
        self.layout, self.fault = layout, fault
        self.tensors: dict[str, torch.Tensor] = {}
        self._memory, self._reader = memory, StreamReader(layout, CPU)
        self._slots: list[torch.Tensor] = []
        self._waiting: list[Bucket] = []

    async def begin(self) -> None:
        self._slots = open_slots(self._memory.kind, self._memory.export(), CPU)

    async def launch(self, bucket: Bucket) -> None:
        self._waiting.append(bucket)

    async def arrived(self) -> None:
        for bucket in self._waiting:
            if bucket.number == self.fault:
                self._slots[bucket.slot][3] ^= 4
            self.tensors.update(self._reader.take(bucket, self._slots))
        self._waiting = []

    async def finish(self) -> list[StreamReceipt]:
        self._reader.finish()
        return [StreamReceipt(UpdateSeconds(), 0)]


def sent(engine: ZeroEngine, ranks: Ranks, fault: int | None) -> tuple[dict[str, torch.Tensor], WeightPayload] | None:
    """Send the weights; return what rank 0 received, and its copy in host memory."""
    parts = engine.weight_parts()
    tensors = whole_on_device(parts, ranks, GATHER_ELEMENTS)
    if not ranks.drives:
        send_all(tensors, None)
        return None
    layout = StreamLayout.of(7, [(part.name, part.dtype, part.shape) for part in parts], BUCKET_BYTES)
    memory = slot_memory(CPU, SLOTS, layout.bucket_bytes)
    copy = HostCopy(layout.nbytes, pinned=False)
    payload = copy.begin(layout)
    receiver = Receiver(layout, memory, fault)
    with asyncio.Runner() as loop:
        try:
            send_all(tensors, StreamSender(receiver, memory, loop, 30.0, copy))  # type: ignore[arg-type]
        finally:
            memory.close()
    return receiver.tensors, payload()


def main() -> None:
    model, out, *cases = sys.argv[1:]
    ranks = join(RunSection(dir=Path("unused"), torch_threads=1), ZeroSection())
    found: dict[str, object] = {}
    for case in cases:
        stage, _, fault = case.partition(":")
        engine = ZeroEngine(
            load_policy(model, "float32").model, zero=ZeroSection(stage=int(stage)), optimizer=OptimizerSection(),
            ranks=ranks, dtype="float32",
        )  # fmt: skip
        try:
            received = sent(engine, ranks, int(fault) if fault else None)
        except BadPayloadError as error:
            found[case] = str(error)
        else:
            if received is not None:
                tensors, payload = received
                payload.check({name: tuple(tensor.shape) for name, tensor in tensors.items()})
                found[case] = tensors, dict(payload.tensors())
    if ranks.drives:
        torch.save(found, out)
    ranks.barrier()
    leave()


if __name__ == "__main__":
    main()
