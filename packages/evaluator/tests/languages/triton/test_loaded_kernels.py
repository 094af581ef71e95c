"""The bytes of kernel arguments, and compiled kernels as they cross process borders. None of it needs a GPU."""

import math
import struct
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.languages.triton.loaded_kernels import ArgumentError, Binary, Tile, packed_arguments

INTEGERS = {
    **{f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    "i1": np.dtype("int8"),
    "u1": np.dtype("uint8"),
}
FLOATS = {
    "fp16": np.dtype("float16"),
    "fp32": np.dtype("float32"),
    "f32": np.dtype("float32"),
    "fp64": np.dtype("float64"),
}


def packed(kind, value, name="n"):
    return list(packed_arguments([[name, kind]], {name: value}))


@st.composite
def whole_numbers(draw):
    kind = draw(st.sampled_from(sorted(INTEGERS)))
    limits = np.iinfo(INTEGERS[kind])
    return kind, draw(st.integers(int(limits.min), int(limits.max)))


@given(whole_numbers())
def test_whole_numbers_have_the_bytes_of_their_type(number):
    kind, value = number
    assert packed(kind, value) == [np.array(value, INTEGERS[kind]).tobytes()]


@given(whole_numbers(), st.integers(1, 1 << 70))
def test_whole_numbers_beyond_their_type_are_refused(number, beyond):
    kind, _ = number
    limits = np.iinfo(INTEGERS[kind])
    for value in (int(limits.max) + beyond, int(limits.min) - beyond):
        with pytest.raises(ArgumentError, match=rf"Argument n, .* is no {kind}"):
            packed(kind, value)


@pytest.mark.parametrize("value", [True, False])
def test_a_truth_value_is_one_byte(value):
    assert packed("i1", value) == packed("u1", value) == [bytes([value])]


def same_number(one, two):
    return one == two or (np.isnan(one) and np.isnan(two))


@given(st.sampled_from(sorted(FLOATS)), st.floats(width=16))
def test_floats_have_the_bytes_of_their_type(kind, value):
    (found,) = packed(kind, value)
    assert len(found) == FLOATS[kind].itemsize
    assert same_number(np.frombuffer(found, FLOATS[kind])[0], value)
    assert math.copysign(1, np.frombuffer(found, FLOATS[kind])[0]) == math.copysign(1, value) or math.isnan(value)


@given(st.floats())
def test_single_precision_is_what_a_cast_gives(value):
    """Also of what is too large: Triton's own launcher casts, and a kernel is given infinity."""
    with np.errstate(over="ignore"):
        expected = np.float32(value)
    for kind in ("fp32", "f32"):
        (found,) = packed(kind, value)
        assert same_number(np.frombuffer(found, np.float32)[0], expected)


@given(st.floats())
def test_bfloat16_is_the_upper_half_of_single_precision(value):
    (single,), (found,) = packed("fp32", value), packed("bf16", value)
    assert found == single[2:]
    if math.isfinite(value):
        number = torch.frombuffer(bytearray(found), dtype=torch.bfloat16)[0].double().item()
        assert math.isinf(number) or abs(number - value) <= max(abs(value) * 2**-7, 2**-126)


@given(st.sampled_from(["fp32", "fp64", "bf16", "fp16"]), st.integers(-2048, 2048))
def test_whole_numbers_are_floats_too(kind, value):
    assert packed(kind, value) == packed(kind, float(value))


def test_a_number_too_large_for_half_precision_is_refused():
    with pytest.raises(ArgumentError, match="is no fp16"):
        packed("fp16", 70000.0)


@pytest.mark.parametrize("kind", [*INTEGERS, *FLOATS, "bf16"])
@pytest.mark.parametrize("value", [None, "4", (1,), torch.zeros(2)])
def test_what_is_no_number_is_refused(kind, value):
    with pytest.raises(ArgumentError, match=f"is no {kind}"):
        packed(kind, value)


@pytest.mark.parametrize("kind", list(INTEGERS))
def test_a_fraction_is_no_whole_number(kind):
    with pytest.raises(ArgumentError):
        packed(kind, 1.5)


@pytest.mark.parametrize("kind", ["fp8", "nvTmaDesc", ""])
def test_a_type_that_no_launch_passes_is_refused(kind):
    with pytest.raises(ArgumentError, match="Pass tensors, numbers and Triton's tensor descriptors"):
        packed(kind, 1)


@pytest.mark.parametrize("value", [None, 1, (1, 2), torch.zeros(4)])
def test_what_is_no_tensor_descriptor_is_refused(value):
    with pytest.raises(ArgumentError, match="a TensorDescriptor was expected"):
        packed("tensordesc<fp16[64, 64]>", value)


# --- pointers ---


def test_no_pointer_is_null():
    assert packed("*fp32", None) == [bytes(8)]


@given(st.integers(0, 2**64 - 1))
def test_an_address_is_eight_bytes(address):
    assert packed("*i8", address) == [struct.pack("<Q", address)]


@pytest.mark.parametrize("value", [-1, 2**64, 1.0, "x", (1,)])
def test_what_is_no_pointer_is_refused(value):
    with pytest.raises(ArgumentError, match=r"Argument n is .*; a tensor was expected"):
        packed("*fp32", value)


def test_a_tensor_of_the_host_is_refused_with_its_remedy():
    with pytest.raises(ArgumentError, match=r"Argument x is a tensor on cpu.*device=x\.device"):
        packed("*fp32", torch.zeros(3), "x")


# --- several ---


def test_parameters_follow_in_order_and_constants_are_left_out():
    parameters = [["x", "*fp32"], ["n", "i32"], ["BLOCK", "constexpr"], ["eps", "fp32"], ["m", "i64"]]
    values = {"m": 1 << 40, "eps": 0.5, "n": 7, "BLOCK": 64, "x": None}
    expected = [bytes(8), struct.pack("<i", 7), struct.pack("<f", 0.5), struct.pack("<q", 1 << 40)]
    assert list(packed_arguments(parameters, values)) == expected


def test_tuples_are_flattened():
    parameters = [["sizes", ["i32", "constexpr", ["i64", "*fp32"]]], ["n", "i8"]]
    values = {"sizes": (7, 1, (9, None)), "n": 3}
    assert list(packed_arguments(parameters, values)) == [struct.pack("<i", 7), struct.pack("<q", 9), bytes(8), b"\3"]
    assert list(packed_arguments([["sizes", []]], {"sizes": ()})) == []


@pytest.mark.parametrize("value", [(1,), (1, 2, 3), 5, None, "ab"])
def test_a_tuple_of_another_form_is_refused(value):
    with pytest.raises(ArgumentError, match=r"Argument sizes is .*; a tuple of 2 was expected"):
        packed(["i32", "i32"], value, "sizes")


def test_an_item_of_a_tuple_is_named():
    with pytest.raises(ArgumentError, match=r"Argument sizes\[1\]\[0\], 300, is no i8"):
        packed(["i32", ["i8"]], (1, (300,)), "sizes")


# --- compiled kernels ---

BINARY = Binary(
    cubin=b"\x7fELF\0\xff",
    symbol="kernel",
    shared_bytes=1024,
    warps=4,
    blocks=2,
    cooperative=True,
    scratch_bytes=128,
    parameters=[["x", "*fp32"], ["sizes", ["i32", ["i64", "constexpr"]]], ["y", "tensordesc<fp16[32,64]>"]],
    tiles=[Tile(element=6, item_bytes=2, swizzle=3, block=[32, 64])],
)


def test_a_binary_crosses_a_border_as_it_is():
    assert Binary.of(codec.decode(codec.encode(asdict(BINARY)))) == BINARY
    empty = replace(BINARY, cubin=b"", cooperative=False, parameters=[], tiles=[])
    assert Binary.of(codec.decode(codec.encode(asdict(empty)))) == empty


@pytest.mark.parametrize("field", list(asdict(BINARY)))
@pytest.mark.parametrize("wrong", [None, 1.5, {"a": 1}, "absent"])
def test_what_is_no_binary_is_refused(field, wrong):
    values = asdict(BINARY)
    if wrong == "absent":
        del values[field]
    else:
        values[field] = wrong
    with pytest.raises(WireError):
        Binary.of(values)


@pytest.mark.parametrize("wrong", [None, [], "binary", b"cubin"])
def test_what_has_no_fields_is_no_binary(wrong):
    with pytest.raises(WireError):
        Binary.of(wrong)


@pytest.mark.parametrize("wrong", [None, {"element": 6}, {"block": ["32"]}, {"block": 32}, {"swizzle": 1.5}])
def test_a_tile_has_whole_numbers(wrong):
    tile = asdict(BINARY)["tiles"][0]
    with pytest.raises(WireError):
        Binary.of(asdict(BINARY) | {"tiles": [wrong if wrong in (None, {"element": 6}) else tile | wrong]})


@pytest.mark.parametrize("parameter", ["x", ["x"], [1, "i32"], ["x", 4], ["x", "i32", "i32"], None])
def test_a_parameter_has_a_name_and_a_type(parameter):
    with pytest.raises(WireError, match="not a parameter of a kernel"):
        Binary.of(asdict(BINARY) | {"parameters": [parameter]})
