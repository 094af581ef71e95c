from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.errors import LayoutError
from warpsmith.evaluator.ipc.tensor_slots import (
    ALIGNMENT,
    ITEM_BYTES,
    TensorSlot,
    check_in_arena,
    check_slot,
    contiguous,
    pack,
)

slots = st.builds(
    lambda dtype, shape: contiguous(dtype, tuple(shape)),
    st.sampled_from(sorted(ITEM_BYTES)),
    st.lists(st.integers(0, 9), max_size=4),
)


@given(st.lists(slots, max_size=8))
def test_packed_slots_lie_apart_aligned_and_inside(found):
    placed, size = pack(found, 1 << 30)
    ends = 0
    for slot in placed:
        assert slot.offset % ALIGNMENT == 0
        # Host code can have the address behind a tensor, but none of a tensor without elements.
        assert slot.offset > ends or not (ends and slot.nbytes)
        ends = slot.offset + slot.nbytes if slot.nbytes else ends
        assert check_in_arena(slot, size) is slot
    assert ends <= size


def test_slots_that_fill_their_units_do_not_touch_and_the_gap_does_not_count():
    whole, empty = contiguous("uint8", (ALIGNMENT,)), contiguous("uint8", (0, 3))
    placed, size = pack([whole, empty, whole, whole], 3 * ALIGNMENT)
    assert [slot.offset for slot in placed] == [0, ALIGNMENT, 2 * ALIGNMENT, 4 * ALIGNMENT]
    assert size == 5 * ALIGNMENT
    with pytest.raises(LayoutError):
        pack([whole, whole, whole], 3 * ALIGNMENT - 1)


@given(slots, st.lists(st.integers(0, 20), min_size=4, max_size=4))
def test_a_slot_takes_the_bytes_from_its_first_to_its_last_element(slot, strides):
    strided = TensorSlot(slot.dtype, slot.shape, tuple(strides[: len(slot.shape)]))
    places = [
        sum(i * s for i, s in zip(index, strided.stride, strict=True)) for index in product(*map(range, slot.shape))
    ]
    assert strided.nbytes == (max(places) + 1 if places else 0) * ITEM_BYTES[slot.dtype]


@pytest.mark.parametrize(
    ("slot", "reason"),
    [
        (TensorSlot("float7", (1,), (1,)), "not a dtype"),
        (TensorSlot("float32", (1,), ()), "strides"),
        (TensorSlot("float32", (1,) * 17, (1,) * 17), "rank"),
        (TensorSlot("float32", (-1,), (1,)), "Negative"),
        (TensorSlot("float32", (2,), (-1,)), "Negative"),
        (TensorSlot("float32", (1 << 40, 1 << 40), (1 << 40, 1)), "bytes"),
        (TensorSlot("float32", (1 << 40,), (0,)), "bytes"),
        (TensorSlot("float32", (4,), (1 << 40,)), "bytes"),
    ],
)
def test_an_unsound_slot_is_refused_with_its_reason(slot, reason):
    with pytest.raises(LayoutError, match=reason):
        check_slot(slot, 1 << 20)


@pytest.mark.parametrize("offset", [-4, 1, 61, 64])
def test_a_slot_outside_its_arena_is_refused(offset):
    with pytest.raises(LayoutError, match=r"lies outside|begins at byte"):
        check_in_arena(TensorSlot("float32", (1,), (1,), offset), 64)


def test_a_set_that_is_too_large_is_refused():
    with pytest.raises(LayoutError, match="together"):
        pack([contiguous("int8", (600,))] * 2, 1000)
