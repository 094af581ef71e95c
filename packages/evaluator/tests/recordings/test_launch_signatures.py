"""What a trace launches is described as the interpreter reports it, and a forged launch is refused."""

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import example, given
from hypothesis import strategies as st
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend
from triton.runtime.jit import create_function_from_signature
from triton.tools.tensor_descriptor import TensorDescriptor

from warpsmith.evaluator import _native
from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.devices.host import HostDevice
from warpsmith.evaluator.devices.mappings import Mappings
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.languages.triton import descriptors
from warpsmith.evaluator.languages.triton.interpreter.tracing import describe_argument
from warpsmith.evaluator.languages.triton.language import TRITON
from warpsmith.evaluator.recordings.launch_signatures import coded, kinds_of, launches_of, same_code
from warpsmith.evaluator.recordings.recorder import Recorder

TENSOR = ["tensor", "inputs", 0, "float32", [16, 16], [16, 1], 0]


def recorded(arguments, options):
    memory = Mappings(HostDevice())
    memory.buffers = {name: _native.Buffer.create(name, 4096) for name in ("inputs", "state")}
    view = tensor_views.view(memory.buffers["inputs"], tensor_views.contiguous("float32", (16, 16)))
    recorder = Recorder(memory, TRITON)
    arguments = arguments | {"x": view, "y": view.flatten()[1:], "z": torch.zeros(8, dtype=torch.int64)[2:]}
    arguments["d"] = TensorDescriptor.from_tensor(view, [16, 4])
    recorder.launch("k", arguments, options)
    return arguments, recorder.events


@given(
    st.dictionaries(
        st.sampled_from("abc"), st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.tuples(st.integers())
    ),
    st.dictionaries(st.sampled_from(["num_warps", "other"]), st.integers(1, 8)),
)
def test_a_traced_launch_has_the_signature_that_was_reported(arguments, options):
    arguments, events = recorded(arguments, options)
    (found,) = launches_of(events)
    expected = {name: describe_argument(value) for name, value in arguments.items()}
    assert repr(found) == repr({"kernel": "k", "arguments": expected, "options": options})
    assert [found["arguments"][name][2] for name in "xyz"] == [True, False, True]


@pytest.mark.parametrize(
    "event",
    [
        ["launch"],
        ["launch", "k", [1], {}],
        ["launch", "k", [1], {}, {}, {}],
        ["launch", 1, [1], {}, {}],
        ["launch", "k", [1], {"x": 1}, {}],
        ["launch", "k", [1], {"x": ["value", [1]]}, {}],
        ["launch", "k", [1], {"x": ["value", 1, 2]}, {}],
        ["launch", "k", [1], {"x": ["tensor", "inputs", 0, "float99", [1], [1], 0]}, {}],
        ["launch", "k", [1], {"x": ["tuple", [["descriptor", "float32", [1]]]]}, {}],
        ["launch", "k", [1], {"x": ["descriptor", TENSOR, [16, 16], [16, 1], [16, True], "zero", False]}, {}],
        ["launch", "k", [1], {"x": ["descriptor", TENSOR, [16, 16], [16, 1], [16, "16"], "zero", False]}, {}],
        ["launch", "k", [1], {"x": ["descriptor", TENSOR, [16, 16], [16, 1], [16, 16], "zero"]}, {}],
        ["launch", "k", [1], {"x": ["descriptor", ["value", 1], [16], [1], [16], "zero", False]}, {}],
    ],
)
def test_a_forged_launch_is_refused(event):
    with pytest.raises(WireError, match="trace"):
        launches_of([["alloc", 0, 64], event])


def test_a_traced_descriptor_is_made_again_as_it_was():
    _, events = recorded({}, {})
    described = events[-1][3]["d"]
    assert described == ["descriptor", TENSOR, [16, 16], [16, 1], [16, 4], "zero", False]
    again = descriptors.made(torch.zeros(16, 16), described[2:])
    assert (list(again.shape), list(again.strides), list(again.block_shape)) == ([16, 16], [16, 1], [16, 4])


@given(st.lists(st.one_of(st.lists(st.integers(-3, 64), max_size=6), st.text(max_size=4), st.booleans()), max_size=6))
def test_a_forged_descriptor_is_one_that_triton_makes_or_is_refused(rest):
    try:
        found = descriptors.made(torch.zeros(64), rest)
    except WireError:
        return
    assert [list(found.shape), list(found.strides), list(found.block_shape)] == rest[:3]


@given(
    st.lists(
        st.recursive(
            st.none() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner) | st.tuples(st.just("launch"), st.text(max_size=2), inner, inner, inner).map(list)
            ),
            max_leaves=20,
        ),
        max_size=4,
    )
)
def test_any_trace_is_read_or_refused(events):
    try:
        found = launches_of(events)
    except WireError:
        return
    assert len(found) == sum(event[:1] == ["launch"] for event in events)


@pytest.mark.parametrize("event", [("launch", "kernel", [1], {}, {}), ("const", 0, b"1"), None, "launch"])
def test_an_event_of_another_kind_is_refused(event):
    # What plays a trace takes a tuple for a list; what reads it must not pass one over.
    with pytest.raises(WireError, match="is not an event of a trace"):
        launches_of([["alloc", 0, 4], event])


@triton.jit
def numbers(x, n, scale, BLOCK: tl.constexpr, m: tl.int64 = 3):
    tl.store(x, n * scale * BLOCK * m)


BACKEND = make_backend(GPUTarget("cuda", 90, 32))
BIND = create_function_from_signature(numbers.signature, numbers.params, BACKEND)
EDGES = [0, 1, 15, 16, -16, 2**31 - 16, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, 2**63, 2**64 - 16]
NUMBERS = st.booleans() | st.sampled_from(EDGES) | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
ARGUMENTS = st.fixed_dictionaries({"n": NUMBERS, "scale": NUMBERS, "BLOCK": NUMBERS, "m": NUMBERS})


def specialised(values):
    """Return what Triton takes of the arguments: the kinds, and all that the code hangs on."""
    bound, found, rest = BIND(x=torch.zeros(1), **values)
    _, kinds, constants, attributes = numbers._pack_args(BACKEND, rest, bound, found, {})
    # By their text, since to Python 1 is True.
    return kinds, repr((kinds, constants, attributes))


def launch_with(values):
    arguments = {"x": ["tensor", "float32", True]} | {name: ["value", value] for name, value in values.items()}
    return {"kernel": "numbers", "arguments": arguments, "options": {"num_warps": 4}}


@given(ARGUMENTS, st.fixed_dictionaries({}, optional={"n": NUMBERS, "scale": NUMBERS, "BLOCK": NUMBERS, "m": NUMBERS}))
@example({"n": 4096, "scale": 0.5, "BLOCK": 64, "m": 3}, {"n": 2048})
def test_what_is_said_to_have_the_same_code_is_the_same_to_triton(values, changed):
    one, other = launch_with(values), launch_with(values | changed)
    kinds, said = specialised(values)
    if same_code(one, other, kinds):
        assert specialised(values | changed)[1] == said


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({}, True),
        ({"n": 2048}, True),
        ({"n": 0}, True),
        ({"scale": 0.25}, True),
        ({"n": 4095}, False),
        ({"n": 1}, False),
        ({"n": True}, False),
        ({"n": 2**31}, False),
        ({"n": 2**70}, False),
        ({"n": 4096.0}, False),
        ({"scale": 1}, False),
        ({"BLOCK": 128}, False),
        ({"BLOCK": 64.0}, False),
    ],
)
def test_a_size_that_is_no_constant_changes_the_code_by_its_kind_alone(changed, same):
    values = {"n": 4096, "scale": 0.5, "BLOCK": 64, "m": 3}
    kinds, _ = specialised(values)
    assert same_code(launch_with(values), launch_with(values | changed), kinds) == same


@pytest.mark.parametrize(
    "changed",
    [
        {"kernel": "others"},
        {"options": {"num_warps": 8}},
        {"options": {}},
        {"arguments": {"x": ["tensor", "float32", False], "n": ["value", 4096]}},
        {"arguments": {"n": ["value", 4096], "x": ["tensor", "float32", True]}},
        {"arguments": {"x": ["tensor", "float32", True]}},
        {"arguments": {"x": ["tensor", "float32", True], "n": ["tuple", [["value", 4096]]]}},
    ],
)
def test_another_kernel_option_or_argument_is_other_code(changed):
    known = {"x": ["tensor", "float32", True], "n": ["value", 4096]}
    one = {"kernel": "numbers", "arguments": known, "options": {"num_warps": 4}}
    kinds = {"x": "*fp32", "n": "i32"}
    assert same_code(one, one, kinds)
    assert not same_code(one, one | changed, kinds)


@pytest.mark.parametrize("refused", [2**64, 2**70, -(2**63) - 16])
def test_what_triton_refuses_has_no_code(refused):
    values = {"n": 2**40, "scale": 0.5, "BLOCK": 64, "m": 3}
    kinds, _ = specialised(values)
    assert same_code(launch_with(values), launch_with(values | {"n": 2**41}), kinds)
    assert not same_code(launch_with(values), launch_with(values | {"n": refused}), kinds)
    assert not same_code(launch_with(values | {"n": refused}), launch_with(values | {"n": 2 * refused}), kinds)
    with pytest.raises(OverflowError):
        specialised(values | {"n": refused})


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from(["n", "x", "i32", "fp32"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(PLAIN | st.fixed_dictionaries({"parameters": st.lists(st.lists(PLAIN, max_size=3) | PLAIN, max_size=4)}))
@example({"parameters": [["n", ["i32", "i32"]], ["x"], [["n"], "i32"], "n", ["x", "*fp32"]]})
def test_whatever_a_compile_worker_tells_of_its_code_is_borne(binary):
    kinds = kinds_of(binary)
    assert all(isinstance(name, str) for name in kinds)
    values = {"n": 4096, "scale": 0.5, "BLOCK": 64, "m": 3}
    assert same_code(launch_with(values), launch_with(values), kinds)
    same_code(launch_with(values), launch_with(values | {"n": 2048, "scale": 1.5}), kinds)


def test_the_kinds_are_those_of_the_code():
    signature = {"parameters": [["x", "*fp32"], ["n", "i32"], ["BLOCK", "constexpr"], ["t", ["i32", "*fp32"]]]}
    assert kinds_of(signature) == {"x": "*fp32", "n": "i32", "BLOCK": "constexpr", "t": ["i32", "*fp32"]}


SOME = st.sampled_from([0, 1, 2, 16, 17, 32, 2**31, 2**31 + 16, 2**40, 2**63, -1, -16]) | st.integers(-(2**40), 2**40)


@given(SOME | st.floats(allow_nan=False), SOME | st.floats(allow_nan=False))
def test_numbers_that_share_code_are_described_alike(one, other):
    kinds = {"n": specialised({"n": one, "scale": 0.5, "BLOCK": 64, "m": 3})[0]["n"]}
    alike = same_code(launch_with({"n": one}), launch_with({"n": other}), kinds)
    assert (coded(["value", one]) == coded(["value", other])) is alike


def test_what_is_no_number_stays_and_numbers_in_tuples_do_not():
    for kept in (["value", True], ["value", None], ["value", "relu"], ["tensor", "float32", True], ["dtype", "int8"]):
        assert coded(kept) == kept
    pairs = [["named", "Pair", [["value", number], ["value", 0.5]]] for number in (7, 9)]
    assert coded(["tuple", pairs[:1]]) == coded(["tuple", pairs[1:]])
