"""A stream through real shared memory: what comes out is what went in, and every fault on the way is found."""

import subprocess
import sys
import textwrap

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.rollout.errors import BadPayloadError, DeviceTransferError
from warpsmith.rollout.samplers import WeightPayload
from warpsmith.rollout.samplers.weights.stream.layout import Bucket, StreamLayout
from warpsmith.rollout.samplers.weights.stream.media import SharedMemorySlots, host_identity, open_slots
from warpsmith.rollout.samplers.weights.stream.reader import StreamReader
from warpsmith.rollout.samplers.weights.stream.writer import StreamWriter

CPU = torch.device("cpu")
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float16": torch.float16}


def made(shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {
        f"layer.{number}": torch.randn(shape, generator=generator).to(DTYPES[dtype])
        for number, (dtype, shape) in enumerate(shapes)
    }


def layout_of(tensors, bucket_bytes, version=3):
    announced = [(name, str(t.dtype).removeprefix("torch."), t.shape) for name, t in tensors.items()]
    return StreamLayout.of(version, announced, bucket_bytes)


def sent(tensors, layout, slots, *, spoil=lambda bucket, slots: bucket):
    """Send tensors to a reader that takes each bucket when it is full; return what it has at the end."""
    writer, reader, arrived = StreamWriter(layout, slots), StreamReader(layout, CPU), {}

    def take(buckets):
        for bucket in buckets:
            arrived.update(reader.take(spoil(bucket, slots), slots))

    for name, tensor in tensors.items():
        take(writer.add(name, tensor))
    take(writer.end())
    reader.finish()
    return arrived


def slots_of(layout, count=2):
    return [torch.zeros(layout.bucket_bytes, dtype=torch.uint8) for _ in range(count)]


SHAPES = st.lists(
    st.tuples(st.sampled_from(sorted(DTYPES)), st.lists(st.integers(1, 9), max_size=3).map(tuple)),
    min_size=1,
    max_size=8,
)


@given(SHAPES, st.integers(1, 700), st.integers(2, 3))
def test_every_tensor_arrives_whatever_the_size_of_a_bucket(shapes, bucket_bytes, count):
    tensors = made(shapes)
    layout = layout_of(tensors, bucket_bytes)
    arrived = sent(tensors, layout, slots_of(layout, count))
    assert list(arrived) == list(tensors)
    assert all(torch.equal(arrived[name], tensor) and arrived[name].dtype == tensor.dtype
               for name, tensor in tensors.items())  # fmt: skip


@given(SHAPES, st.integers(1, 700))
def test_a_layout_covers_each_byte_once_and_survives_the_wire(shapes, bucket_bytes):
    layout = layout_of(made(shapes), bucket_bytes)
    again = StreamLayout.from_wire(layout.to_wire())
    assert again == layout
    covered = [0] * len(layout.entries)
    for bucket in range(layout.buckets):
        for span in layout.spans(bucket):
            assert span.begin == covered[span.number]
            assert span.at + span.end - span.begin <= layout.size_of(bucket)
            covered[span.number] = span.end
    assert covered == [entry.nbytes for entry in layout.entries]


def test_a_stream_has_the_layout_of_a_payload():
    tensors = made([("bfloat16", (7, 5)), ("float32", (3,)), ("bfloat16", (2, 100))])
    payload = WeightPayload.from_state_dict(3, tensors)
    layout = layout_of(tensors, 128)
    assert [entry.offset for entry in layout.entries] == [entry.offset for entry in payload.manifest]
    assert WeightPayload.of_block(3, layout.entries, payload.data).manifest == payload.manifest


# Faults ----------------------------------------------------------------------------------------------------------

TENSORS = made([("bfloat16", (64, 32)), ("bfloat16", (64, 32)), ("bfloat16", (33,)), ("bfloat16", (64, 64))])
LAYOUT = layout_of(TENSORS, 4096)


def flip(bucket, slots):
    slots[bucket.slot][1234] ^= 1
    return bucket


def stale(bucket, slots):
    """The bytes of another bucket: a slot that was read too late."""
    slots[bucket.slot].copy_(slots[bucket.slot].flip(0))
    return bucket


def half(bucket, slots):
    slots[bucket.slot][2048:] = 0
    return bucket


def rounded(bucket, slots):
    values = slots[bucket.slot].view(torch.bfloat16)
    values.copy_(values.to(torch.float8_e4m3fn))
    return bucket


def swapped(bucket, slots):
    """The first two tensors are of one size and lie in buckets of their own."""
    if bucket.number == 0:
        slots[0].copy_(TENSORS["layer.1"].reshape(-1).view(torch.uint8))
    return bucket


@pytest.mark.parametrize("fault", [flip, stale, half, rounded, swapped], ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("at", [0, 2])
def test_damaged_bytes_are_found_before_anything_of_the_bucket_is_handed_on(fault, at):
    if fault is swapped and at:
        return
    with pytest.raises(BadPayloadError, match=r"version 3: the bytes of layer\.\d arrived damaged"):
        sent(TENSORS, LAYOUT, slots_of(LAYOUT), spoil=lambda b, slots: fault(b, slots) if b.number == at else b)


ANNOUNCED = [
    (lambda b: Bucket(b.number + 1, b.slot, b.digests), r"bucket 1 came .* bucket 0 of 5 was awaited"),
    (lambda b: Bucket(b.number, 2, b.digests), r"in slot 2; .* one of 2 slots"),
    (lambda b: Bucket(b.number, b.slot, b.digests[1:]), r"0 digests of 1 arrived damaged"),
    (lambda b: Bucket(b.number, b.slot, (*b.digests, 7)), r"2 digests of 1 arrived damaged"),
]


@pytest.mark.parametrize(("change", "message"), ANNOUNCED)
def test_buckets_out_of_order_or_without_digests_are_refused(change, message):
    with pytest.raises(BadPayloadError, match=message):
        sent(TENSORS, LAYOUT, slots_of(LAYOUT), spoil=lambda bucket, _: change(bucket))


def test_a_stream_that_stops_is_not_finished():
    slots = slots_of(LAYOUT)
    writer, reader = StreamWriter(LAYOUT, slots), StreamReader(LAYOUT, CPU)
    for name in ("layer.0", "layer.1"):
        for bucket in writer.add(name, TENSORS[name]):
            reader.take(bucket, slots)
    with pytest.raises(BadPayloadError, match=r"ended after bucket 1 of 5"):
        reader.finish()
    with pytest.raises(BadPayloadError, match=r"ended before layer\.2"):
        list(writer.end())


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("layer.1", TENSORS["layer.0"]),
        ("layer.0", TENSORS["layer.0"].float()),
        ("layer.0", TENSORS["layer.0"][:-1]),
        ("layer.0", TENSORS["layer.0"].T),
    ],
    ids=["other name", "other dtype", "other size", "other shape"],
)
def test_a_tensor_that_was_not_announced_is_not_sent(name, tensor):
    writer = StreamWriter(LAYOUT, slots_of(LAYOUT))
    with pytest.raises(BadPayloadError, match=r"announced was layer\.0 \(bfloat16, \(64, 32\)\)"):
        list(writer.add(name, tensor))


@pytest.mark.parametrize(
    ("tensors", "message"),
    [([], "there are no tensors"), ([("a", "float32", [2, 0])], "a is empty"), ([("a", "float32", [1])] * 2, "twice")],
)
def test_a_layout_of_nothing_is_refused(tensors, message):
    with pytest.raises(BadPayloadError, match=message):
        StreamLayout.of(1, tensors, 64)


# Memory ----------------------------------------------------------------------------------------------------------

OTHER_PROCESS = """
import json, sys, torch
from warpsmith.rollout.samplers.weights.stream.digest import digests_of
from warpsmith.rollout.samplers.weights.stream.media import host_identity, open_slots
kind, export, device = json.loads(sys.argv[1])
slots = open_slots(kind, export, torch.device(device))
print(json.dumps([host_identity(), digests_of(slot.to(device, copy=True) for slot in slots)]))
"""


def test_another_process_reads_what_is_written_to_shared_slots():
    import json

    from warpsmith.rollout.samplers.weights.stream.digest import digests_of

    memory = SharedMemorySlots(2, 4096)
    for slot in memory.slots:
        slot.copy_(torch.randint(256, (4096,), dtype=torch.uint8))
    there = json.dumps([memory.kind, memory.export(), "cpu"])
    code = textwrap.dedent(OTHER_PROCESS)
    out = subprocess.run([sys.executable, "-c", code, there], check=True, capture_output=True, text=True, timeout=60)
    assert json.loads(out.stdout) == [host_identity(), digests_of(memory.slots)]
    memory.close()
    with pytest.raises(DeviceTransferError, match=r"cannot be mapped.*one machine"):
        open_slots("shared_memory", json.loads(there)[1], CPU)
    with pytest.raises(DeviceTransferError, match="no slots of the kind 'nvlink'"):
        open_slots("nvlink", [], CPU)
