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


def test_gaps_hold_nothing_of_the_source_but_poison_and_elements_of_the_tensor():
    tensor = torch.arange(1.0, 801.0).reshape(8, 100)
    flat, placed = stored(tensor[:, ::2])
    span = flat[placed.offset : placed.offset + placed.nbytes].view(torch.float32)
    gaps = span[1::2]
    assert set(gaps[~gaps.isnan()].tolist()) <= set(tensor[:, ::2].flatten().tolist())
    assert 0.3 < gaps.isnan().float().mean() < 0.7
    again, _ = stored(tensor[:, ::2])
    assert torch.equal(flat.view(torch.uint8), again.view(torch.uint8))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.float8_e5m2, torch.bfloat16, torch.complex64])
def test_gaps_of_every_dtype_are_filled_element_by_element(dtype):
    tensor = torch.ones(64, 40).to(dtype)[:, :30]
    flat, placed = stored(tensor)
    found = tensor_views.placed_in(flat, placed)
    assert torch.equal(found.to(torch.complex64), tensor.to(torch.complex64))
    item = tensor.element_size()
    places = flat[placed.offset : placed.offset + placed.nbytes].view(-1, item)
    gaps = places[torch.arange(len(places)) % 40 >= 30]
    own = (gaps == tensor[0, :1].view(torch.uint8)).all(1)
    assert 0.3 < own.float().mean() < 0.7


def test_what_lies_before_a_tensor_is_as_in_a_gap():
    flat, placed = stored(torch.arange(64)[5:])
    assert placed.lead == 40
    before = flat[: placed.lead].view(torch.int64)
    poison = torch.full((8,), tensor_views.INTEGER_POISON, dtype=torch.uint8).view(torch.int64)
    assert set(before.tolist()) <= {*range(5, 64), poison.item()}
    assert flat[placed.offset :].view(torch.int64)[:3].tolist() == [5, 6, 7]


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
