"""Tensors with gaps and overlaps keep their strides in shared memory, and bring nothing else along."""

import math

import pytest
import torch

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.errors import LayoutError
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
    "empty": lambda x: x[:0, ::2],
}


def stored(tensor):
    slot = tensor_views.slot_of(tensor, keep_strides=True)
    (placed,), size = tensor_slots.pack([slot], 1 << 20)
    flat = torch.zeros(size, dtype=torch.uint8)
    tensor_views.fill(tensor_views.view(flat, placed), tensor)
    return flat, placed


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float8_e4m3fn, torch.int64, torch.complex64])
def test_values_and_strides_are_kept(name, dtype):
    tensor = LAYOUTS[name](torch.rand(8, 24).mul(100).to(dtype))
    flat, placed = stored(tensor)
    for found in (tensor_views.view(flat, placed), tensor_views.copy_of(flat, placed)):
        assert found.shape == tensor.shape
        assert not tensor.numel() or found.stride() == tensor.stride()
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


def test_a_lazy_negation_is_written_out():
    tensor = torch.complex(torch.zeros(8), torch.arange(8.0)).conj().imag
    assert tensor.is_neg()
    flat, placed = stored(tensor[::2])
    assert tensor_views.view(flat, placed).tolist() == [0.0, -2.0, -4.0, -6.0]


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
