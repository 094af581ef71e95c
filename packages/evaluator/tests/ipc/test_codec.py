import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.tensor_slots import ITEM_BYTES, TensorSlot

sizes = st.lists(st.integers(0, 1 << 40), max_size=5)
slots = st.builds(
    lambda dtype, pairs, offset: TensorSlot(dtype, tuple(a for a, _ in pairs), tuple(b for _, b in pairs), offset),
    st.sampled_from(sorted(ITEM_BYTES)),
    st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 40)), max_size=5),
    st.integers(0, 1 << 50),
)
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 400), 1 << 400)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.builds(codec.DType, st.sampled_from(sorted(ITEM_BYTES)))
    | slots
)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=5).map(tuple)
        | st.dictionaries(st.text(max_size=8), inner, max_size=5)
        | st.builds(
            codec.Record,
            st.text(max_size=8),
            st.text(max_size=8),
            st.dictionaries(st.text(max_size=8), inner, max_size=3),
            st.dictionaries(st.text(max_size=8), inner, max_size=3),
        )
    ),
    max_leaves=30,
)


@given(values)
def test_what_is_encoded_is_decoded_the_same(value):
    decoded = codec.decode(codec.encode(value))
    assert decoded == value
    assert repr(decoded) == repr(value)  # tells True from 1, and a tuple from a list


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0])
def test_special_floats_survive(value):
    assert struct.pack("<d", codec.decode(codec.encode(value))) == struct.pack("<d", value)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_value_or_a_wire_error(payload):
    try:
        value = codec.decode(payload)
    except WireError:
        return
    assert codec.decode(codec.encode(value)) == value or value != value or "nan" in repr(value)


@given(values, st.data())
def test_a_changed_or_cut_payload_is_a_value_or_a_wire_error(value, data):
    payload = bytearray(codec.encode(value))
    at = data.draw(st.integers(0, len(payload) - 1))
    payload[at] ^= data.draw(st.integers(1, 255))
    for broken in (bytes(payload), bytes(payload[:at])):
        try:
            codec.decode(broken)
        except WireError as error:
            assert error.message


def test_a_promise_of_many_items_allocates_nothing():
    with pytest.raises(WireError, match="promised"):
        codec.decode(b"l\xff\xff\xff\xff")


def test_depth_is_bounded_both_ways():
    deep = None
    for _ in range(codec.MAX_DEPTH + 2):
        deep = [deep]
    with pytest.raises(WireError, match="deeper"):
        codec.encode(deep)
    with pytest.raises(WireError, match="deeper"):
        codec.decode(b"l\x01\x00\x00\x00" * 5000 + b"n")


@pytest.mark.parametrize("parts", [(1, "C", {}, {}), ("k", None, {}, {}), ("k", "C", [], {}), ("k", "C", {}, "x")])
def test_a_record_has_a_kind_a_name_fields_and_others(parts):
    payload = b"r" + b"".join(map(codec.encode, parts))
    with pytest.raises(WireError, match="A record must have"):
        codec.decode(payload)
    assert codec.decode(b"r" + b"".join(map(codec.encode, ("k", "C", {"a": 1}, {})))).fields == {"a": 1}


def test_a_repeated_key_is_refused():
    key = b"s\x01\x00\x00\x00a"
    with pytest.raises(WireError, match="once"):
        codec.decode(b"m\x02\x00\x00\x00" + key + b"n" + key + b"n")


@pytest.mark.parametrize("value", [object(), {1: 2}, 1 << 600, {"a": {3}}])
def test_what_has_no_form_is_refused_by_name(value):
    with pytest.raises(WireError):
        codec.encode(value)


@given(values)
def test_slots_are_replaced_in_the_order_they_are_found(value):
    count = len(list(codec.slots(value)))
    replaced = codec.replace_slots(value, iter(TensorSlot("int8", (number,), (1,)) for number in range(count)))
    assert [slot.shape[0] for slot in codec.slots(replaced)] == list(range(count))


def test_fields_check_the_type_of_each_field():
    fields = codec.Fields({"a": 1, "b": "x", "c": True, "d": ["x", 1]})
    assert fields.integer("a") == 1
    for read in (
        lambda: fields.text("a"),
        lambda: fields.integer("c"),
        lambda: fields.integer("missing"),
        lambda: fields.flag("a"),
        lambda: fields.texts("d"),
        lambda: fields.mapping("b"),
        lambda: fields.slot_map("b"),
        lambda: fields.value("missing"),
        lambda: fields.sequence("d", limit=1),
    ):
        with pytest.raises(WireError):
            read()
    with pytest.raises(WireError, match="dict"):
        codec.Fields([1])
