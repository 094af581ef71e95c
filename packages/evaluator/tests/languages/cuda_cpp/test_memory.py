"""How far a pointer of C++ host code reaches: to the end of the memory that it points into, and of no other."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.ipc.tensor_slots import TensorSlot, contiguous, pack
from warpsmith.evaluator.languages.cuda_cpp.memory import KnownMemory


class Arena:
    """Memory that several tensors lie in, as `_native.DeviceBuffer` gives it to torch."""

    def __init__(self, size):
        # Bytes that make no NaN, and booleans as they are stored.
        self.bytes = np.random.default_rng(0).integers(0, 2, size, dtype=np.uint8)
        self.size = size

    def dlpack(self, start=0, size=None):
        return self.bytes[start:][:size]


@st.composite
def layouts(draw):
    """Slots of an arena, some with strides and with a lead."""
    shapes = draw(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=3), min_size=2, max_size=5))
    found = []
    for shape in shapes:
        plain = contiguous(draw(st.sampled_from(["float32", "int64", "uint8", "bool"])), tuple(shape))
        stretch, lead = draw(st.integers(1, 3)), draw(st.sampled_from([0, 8, 64]))
        found.append(TensorSlot(plain.dtype, plain.shape, tuple(stretch * step for step in plain.stride), lead))
    return pack(found, 1 << 20)


@given(layouts(), st.data())
def test_a_pointer_into_an_arena_reaches_to_the_end_of_its_own_tensor(layout, data):
    slots, size = layout
    arena, memory = Arena(size), KnownMemory()
    tensors = [tensor_views.apart(arena, slot) for slot in slots]
    for tensor, slot in zip(tensors, slots, strict=True):
        assert torch.equal(tensor, tensor_views.view(arena, slot))
        assert tensor.untyped_storage().nbytes() == slot.lead + slot.nbytes
        memory.note(tensor)
    for tensor, slot in zip(tensors, slots, strict=True):
        begin = arena.bytes.ctypes.data + slot.offset
        assert tensor.data_ptr() == begin
        # The address behind the tensor is its end, and never the next tensor.
        inside = data.draw(st.integers(0, slot.nbytes))
        found = memory.tensor(begin + inside)
        assert (found.untyped_storage().data_ptr(), found.numel()) == (begin - slot.lead, slot.nbytes - inside)
        assert memory.tensor(begin + inside, slot.nbytes - inside + 1) is None


def test_without_a_storage_of_its_own_a_pointer_would_reach_to_the_end_of_the_arena():
    """What `apart` is for: the same pointer in the part of an arena that `view` returns on a GPU."""
    slots, size = pack([contiguous("float32", (6,)), contiguous("float32", (4,))], 1 << 20)
    arena, memory = Arena(size), KnownMemory()
    tensor = tensor_views.view(arena, slots[0])
    memory.note(tensor)
    assert memory.tensor(tensor.data_ptr()).numel() == size


def test_a_freed_storage_hides_none_that_took_its_place():
    """An allocator gives a piece of memory out again as a part of a larger one."""
    room, memory = np.zeros(4096, dtype=np.uint8), KnownMemory()
    freed = [torch.from_numpy(room[start : start + 512]) for start in (512, 1024)]
    for one in freed:
        memory.note(one)
    begin = room.ctypes.data
    assert memory.tensor(begin + 600).numel() == 512 - 88
    del freed[:], one
    assert memory.tensor(begin + 600) is None
    larger = torch.from_numpy(room[:2048])
    memory.note(larger)
    for inside in (0, 600, 1100, 2047, 2048):
        assert memory.tensor(begin + inside).numel() == 2048 - inside
    assert memory.tensor(begin + 2049) is None


def test_a_living_storage_behind_freed_ones_is_found_again():
    room, memory = np.zeros(4096, dtype=np.uint8), KnownMemory()
    larger = torch.from_numpy(room[:2048])
    memory.note(larger)
    for start in (64, 128, 256):
        # As a view would be that has a storage of its own, and ends.
        memory.note(torch.from_numpy(room[start : start + 32]))
    assert memory.tensor(room.ctypes.data + 300).numel() == 2048 - 300


@pytest.mark.parametrize("size", [1, 600])
def test_memory_of_the_runtime_ends_where_it_was_asked_to(size):
    memory = KnownMemory()
    address = memory.allocated(torch.empty(size, dtype=torch.uint8))
    assert memory.tensor(address).numel() == size
    assert memory.tensor(address + size).numel() == 0
    assert memory.tensor(address, size + 1) is None
    assert memory.knows(address)
    assert memory.free(address)
    assert not memory.free(address)
    assert memory.tensor(address) is None
    assert not memory.knows(address)
