"""Tensors with gaps and overlaps keep their strides in shared memory, and bring nothing else along."""

import math

import pytest
import torch

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.errors import LayoutError, WireError
from warpsmith.evaluator.ipc import tensor_slots

LAYOUTS = {
    "chunk": lambda x: x.chunk(3, -1)[1],
    "every second column": lambda x: x[:, ::2],
    "expanded row": lambda x: x[:1].expand(8, -1),
    "expanded column": lambda x: x[:, :1].expand(-1, 24),
    "windows": lambda x: x[0].unfold(0, 4, 2),
    "windows with gaps": lambda x: x[0].unfold(0, 2, 5),
    "transposed": lambda x: x.t(),
    "channels last": lambda x: x.reshape(2, 4, 4, 6).to(memory_format=torch.channels_last),
    "offset": lambda x: x.flatten()[1:].view(1, -1),
    "offset rows": lambda x: x[3:, 1:],
    "empty": lambda x: x[:0, ::2],
}


def stored(tensor):
    slot = tensor_views.slot_of(tensor, keep_layout=True)
    (placed,), size = tensor_slots.pack([slot], 1 << 20)
    flat = torch.zeros(size, dtype=torch.uint8)
    tensor_views.fill(flat, placed, tensor)
    return flat, placed


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float8_e4m3fn, torch.int64, torch.complex64])
def test_values_and_strides_are_kept(name, dtype):
    tensor = LAYOUTS[name](torch.rand(8, 24).mul(100).to(dtype))
    flat, placed = stored(tensor)
    for found in (tensor_views.view(flat, placed), tensor_views.copy_of(flat, placed)):
        assert found.shape == tensor.shape
        assert not tensor.numel() or found.stride() == tensor.stride()
        assert found.storage_offset() * found.itemsize % tensor_slots.ALIGNMENT == placed.lead
        assert torch.equal(found.to(torch.complex64), tensor.to(torch.complex64))


def test_gaps_hold_nothing_of_the_source():
    flat, placed = stored(torch.ones(8, 24)[:, ::2])
    span = flat[placed.offset : placed.offset + placed.nbytes].view(torch.float32)
    assert torch.equal(span.isnan(), torch.arange(span.numel()) % 2 == 1)


def test_what_lies_before_a_tensor_is_no_number():
    flat, placed = stored(torch.arange(64)[5:])
    assert placed.lead == 40
    assert (flat[: placed.lead] == tensor_views.INTEGER_POISON).all()
    assert flat[placed.offset :].view(torch.int64)[:3].tolist() == [5, 6, 7]


@pytest.mark.parametrize("take", [lambda x: x[:, ::2], lambda x: x[1:, :5]])
def test_gaps_can_hold_numbers_like_the_tensor_own(take):
    source = take(torch.arange(8 * 24).view(8, 24))
    (placed,), size = tensor_slots.pack([tensor_views.slot_of(source, keep_layout=True)], 1 << 20)
    flat, again = torch.zeros(2, size, dtype=torch.uint8)
    for memory in (flat, again):
        tensor_views.fill(memory, placed, source, 5)
    assert torch.equal(tensor_views.view(flat, placed), source)
    used = flat[placed.offset - placed.lead : placed.offset + placed.nbytes].view(torch.int64)
    assert set(used.tolist()) <= set(source.flatten().tolist()) and used.numel() > source.numel()
    assert torch.equal(flat, again)


def test_a_lead_is_kept_behind_other_tensors():
    one, two = (tensor_views.slot_of(tensor, keep_layout=True) for tensor in (torch.ones(200), torch.ones(9)[3:]))
    (_, placed), size = tensor_slots.pack([one, two], 1 << 20)
    assert (placed.offset, placed.lead, size) == (1024 + 12, 12, 1536)
    assert tensor_slots.pack([placed], 1 << 20)[0][0].offset == 12


@pytest.mark.parametrize(("view", "better"), [(lambda z: z.conj(), "resolve_conj"), (lambda z: z.conj().imag, "neg")])
def test_a_lazy_view_is_refused_since_a_kernel_would_not_see_it(view, better):
    with pytest.raises(WireError, match=better):
        tensor_views.slot_of(view(torch.zeros(8, dtype=torch.complex64)), keep_layout=True)


def test_many_expanded_tensors_are_bounded_by_what_copies_of_them_take():
    slot = tensor_slots.TensorSlot("float32", (1 << 10,), (0,))
    tensor_slots.pack([slot], 1 << 14)
    with pytest.raises(LayoutError, match="together"):
        tensor_slots.pack([slot] * 5, 1 << 14)


@pytest.mark.parametrize(
    ("shape", "stride", "places"),
    [((8, 4), (4, 1), 32), ((8, 4), (0, 1), 4), ((8, 4), (16, 0), 8), ((10, 4), (2, 1), 22), ((0, 4), (4, 1), 0)],
)
def test_an_expanded_dimension_is_read_once(shape, stride, places):
    slot = tensor_slots.TensorSlot("float32", shape, stride)
    assert slot.value_bytes == 4 * places
    assert slot.dense_bytes >= 4 * math.prod(shape)
