"""What differs between the supported versions of Triton's interpreter is the same once `versions` is installed.

What differs was found by comparing the interpreters of Triton 3.6, 3.7, 3.8 and 3.9 method by method. Where an older
one computes unlike the compiler, it takes the place of the installed one here, which the repair must not need.
"""

import ctypes
import inspect
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st
from triton._C.libtriton import ir
from triton.runtime import interpreter

from warpsmith.evaluator.languages.triton.interpreter import chip_numerics, semantics, versions

BUILDER = interpreter.InterpreterBuilder
LOADS = {
    "before 3.9": "ptrs, mask, other, cache_modifier, eviction_policy, is_volatile",
    "3.9": "ptrs, mask, other, cache_policy, is_volatile",
    "another": "ptrs, mask, other, one, two, three, four",
}
"""Parameters of the interpreter's load; of the other methods that are called, none has changed its own since 3.6."""
OURS = """
import ast
import inspect
from pathlib import Path
import triton.language as tl
from triton.runtime import interpreter
from warpsmith.evaluator.languages.triton.interpreter import libdevice, tracing

classes = [kind for kind in vars(interpreter).values() if getattr(kind, "__module__", "") == interpreter.__name__]
classes = [kind for kind in classes if inspect.isclass(kind)]
theirs = {(kind, name): held for kind in classes for name, held in vars(kind).items() if inspect.isfunction(held)}
tracing.keep_language()
tracing.keep_truth_values()
libdevice.install()
tracing.install(tracing.LaunchMonitor(print, print))
ours = {}
for (kind, name), held in theirs.items():
    now = vars(kind)[name]
    if now is not held:
        ours.setdefault(name, []).append(inspect.signature(now, follow_wrapped=False))
        given = inspect.signature(held).parameters.values()
        ours[name][-1].bind(*[None for one in given if one.kind is one.POSITIONAL_OR_KEYWORD],
                            **{one.name: None for one in given if one.kind is one.KEYWORD_ONLY})
assert len(ours) > 40, ours

calls = 0
inside, outside = Path(interpreter.__file__), Path(tl.__file__).parent.glob("*.py")
for path in [inside, *outside]:
    holders = ("self", "builder", "ptr", "desc") if path == inside else "builder"
    for call in ast.walk(ast.parse(path.read_text())):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr not in ours:
            continue
        starred = any(isinstance(one, ast.Starred) for one in call.args)
        if ast.unparse(call.func.value).endswith(holders) and not starred:
            for signature in ours[call.func.attr]:
                signature.bind(None, *call.args, **{one.arg: None for one in call.keywords})
                calls += 1
assert calls > 60, calls
"""
"""Binds the arguments of each call in Triton to the method of ours that takes it, by place and by name."""
WIDE = st.floats(width=32, allow_nan=False, allow_infinity=False)


def handle(values, dtype, kind):
    return interpreter.TensorHandle(np.array(values, dtype=dtype), kind)


@pytest.fixture
def restored(monkeypatch):
    """What the interpreter was comes back after the test."""
    classes = {kind for kind in vars(interpreter).values() if inspect.isclass(kind)}
    for changed in (kind for kind in classes if kind.__module__ == interpreter.__name__):
        for name, held in vars(changed).copy().items():
            if not name.startswith("__"):
                monkeypatch.setattr(changed, name, held)
    monkeypatch.setattr(tl.tensor, "__index__", vars(tl.tensor).get("__index__"), raising=False)
    return monkeypatch


@pytest.fixture
def builder(restored):
    versions.install()
    return BUILDER()


def test_each_method_that_is_replaced_takes_what_triton_calls_it_with():
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", OURS], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("version", LOADS)
def test_an_atomic_addition_reads_memory_whatever_hints_a_version_has(version, restored):
    native = interpreter._interpreter

    def load(ptrs, mask):
        return interpreter.TensorHandle(
            native.load(ptrs.data, mask.data, np.zeros(3, "f4"), np.dtype("f4")), tl.float32
        )

    space = {"load": load}
    exec(f"def create_masked_load(self, {LOADS[version]}): return load(ptrs, mask)", space)
    restored.setattr(BUILDER, "create_masked_load", space["create_masked_load"])
    chip_numerics.install()
    values = np.array([1e-40, 2.0, 3.0], dtype=np.float32)
    pointers = handle(values.ctypes.data + 4 * np.arange(3), np.uint64, tl.pointer_type(tl.float32))
    mask, added = handle([True, True, False], np.bool_, tl.int1), handle([1e-40, 1, 1], np.float32, tl.float32)
    order, scope = ir.MEM_SEMANTIC.RELAXED, ir.MEM_SYNC_SCOPE.GPU
    BUILDER().create_atomic_rmw(ir.ATOMIC_OP.FADD, pointers, added, mask, order, scope)
    assert values.tolist() == [0.0, 3.0, 3.0]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_scalar_of_any_form_is_an_index(builder, shape):
    scalar = tl.tensor(handle(np.full(shape, 3), np.int32, tl.int32), tl.int32)
    assert tl.tensor.__index__(scalar) == 3


def test_truth_values_wrap(restored):
    restored.setattr(
        BUILDER, "binary_op", lambda _self, lhs, rhs, op: interpreter.TensorHandle(op(lhs.data, rhs.data), tl.int1)
    )
    versions.install()
    yes, no = handle([True, True], np.bool_, tl.int1), handle([True, False], np.bool_, tl.int1)
    assert BUILDER().create_add(yes, no).data.tolist() == [False, True]
    assert BUILDER().create_sub(no, yes).data.tolist() == [False, True]
    assert BUILDER().create_icmpEQ(yes, no).data.tolist() == [True, False]


def test_a_shift_leaves_its_operands(restored):
    def create_ashr(self, lhs, rhs):
        lhs.data, rhs.data = lhs.data.astype(np.int32), rhs.data.astype(np.int32)
        return self.binary_op(lhs, rhs, np.right_shift)

    restored.setattr(BUILDER, "create_ashr", create_ashr)
    versions.install()
    by = handle([3], np.uint32, tl.uint32)
    assert BUILDER().create_ashr(handle([-64], np.int32, tl.int32), by).data.tolist() == [-8]
    assert by.data.dtype == np.uint32


def test_a_clamp_drops_a_nan_unless_told_to_keep_it(builder):
    value, low, high = (handle(values, np.float32, tl.float32) for values in ([np.nan, 9, -9, 0.5], [-1], [1]))
    assert builder.create_clampf(value, low, high, ir.PROPAGATE_NAN.NONE).data.tolist() == [-1, 1, -1, 0.5]
    kept = builder.create_clampf(value, low, high, ir.PROPAGATE_NAN.ALL).data.tolist()
    assert kept[0] != kept[0] and kept[1:] == [1, -1, 0.5]


@pytest.mark.parametrize("name", ["int32", "uint32", "int64", "uint64"])
def test_the_high_half_of_a_product_is_that_of_the_bits(builder, name):
    kind, dtype = getattr(tl, name), np.dtype(name)
    bits, limits = 8 * dtype.itemsize, np.iinfo(dtype)
    some = [limits.min, limits.max, 0, 1, limits.max // 3, limits.max // 7 * 3]
    x, y = (np.array(values, dtype=dtype) for values in zip(*((a, b) for a in some for b in some), strict=True))
    found = builder.create_umulhi(interpreter.TensorHandle(x, kind), interpreter.TensorHandle(y, kind)).data
    exact = [(int(a) % 2**bits) * (int(b) % 2**bits) >> bits for a, b in zip(x, y, strict=True)]
    assert found.dtype == dtype
    assert [int(value) % 2**bits for value in found] == exact


@given(WIDE, WIDE, WIDE)
def test_a_fused_product_and_sum_of_float32_is_rounded_once(x, y, z):
    with np.errstate(all="ignore"):
        found = versions.fused(*(np.array([value], dtype=np.float32) for value in (x, y, z)))[0]
    function = ctypes.CDLL("libm.so.6").fmaf
    function.argtypes, function.restype = [ctypes.c_float] * 3, ctypes.c_float
    assert found.tobytes() == np.float32(function(x, y, z)).tobytes()


def test_the_tie_that_a_second_rounding_breaks_the_wrong_way():
    x, y, z = np.float32(1 + 2**-12), np.float32(1 + 2**-12), np.float32(2**-40)
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    found = versions.fused(*(np.array([value], dtype=np.float32) for value in (x, y, z)))[0]
    neighbours = (np.nextafter(found, np.float32(direction)) for direction in (0, 2))
    assert all(abs(Fraction(float(found)) - exact) < abs(Fraction(float(one)) - exact) for one in neighbours)


def test_fused_doubles_and_halves_are_rounded_once():
    tiny = 2.0**-53
    doubles = (np.array(value) for value in (1 + 2 * tiny, 1 - 2 * tiny, -1.0))
    assert versions.fused(*doubles) == -4 * tiny * tiny
    halves = (np.array([value], dtype=np.float16) for value in (1 + 2**-10, 1 - 2**-10, -1.0))
    assert versions.fused(*halves)[0] == np.float16(-(2.0**-20))


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_fused_numbers_are_those_of_tritons_own_code_where_it_has_some(name):
    generator, dtype = np.random.default_rng(0), np.dtype(name)
    bits = generator.integers(0, 2**63, (3, 9999), dtype=np.uint64) << 1 | generator.integers(0, 2, (3, 9999)).astype(
        "u8"
    )
    x, y, z = (np.resize(one, 9999) for one in bits.view(dtype))
    with np.errstate(all="ignore"):
        for sums in (z, -(x * y)):
            np.testing.assert_array_equal(versions.fused(x, y, sums), versions.fma(x, y, sums))


def test_a_histogram_counts_only_what_lies_in_its_bins(builder):
    data = handle([-1, 0, 1, 1, 3, 4, 5], np.int64, tl.int64)
    assert builder.create_histogram(data, 4, None).data.tolist() == [1, 2, 0, 1]
    mask = handle([True, False, True, False, True, True, True], np.bool_, tl.int1)
    masked = builder.create_histogram(data, 4, mask).data
    assert (masked.tolist(), masked.dtype) == ([0, 1, 0, 1], np.int32)


@pytest.mark.parametrize("kind", [tl.int1, tl.int8, tl.int32, tl.int64, tl.uint8, tl.uint16, tl.uint32, tl.uint64])
def test_all_ones_are_all_bits(builder, kind):
    found = builder.get_all_ones_value(kind).data
    assert (np.invert(found) == 0).all()


def test_a_result_of_a_reduction_wraps_and_keeps_its_shape(restored):
    versions.install()
    reduction = interpreter.ReduceOps(0, None, False)
    scalar = reduction.to_tensor(2**31 + 1, tl.int32)
    assert (scalar.handle.data.tolist(), scalar.type) == ([-(2**31) + 1], tl.int32)
    block = reduction.to_tensor(np.arange(4), tl.int16)
    assert (block.handle.data.dtype, block.type) == (np.int16, tl.block_type(tl.int16, [4]))


def test_a_descriptor_gives_its_mask_as_a_handle(restored):
    own = interpreter.TensorDescHandle.materialize_pointers

    def bare(self, offsets):
        pointers, mask = own(self, offsets)
        return pointers, np.asarray(mask.data)

    restored.setattr(interpreter.TensorDescHandle, "materialize_pointers", bare)
    versions.install()
    base = handle(np.array([0]), np.uint64, tl.pointer_type(tl.float32))
    numbers = [handle([value], np.int64, tl.int64) for value in (6, 1, 0)]
    block = interpreter.TensorDescHandle(base, numbers[:1], numbers[1:2], [8], "zero")
    _, mask = block.materialize_pointers(numbers[2:])
    assert (mask.data.tolist(), mask.dtype) == ([True] * 6 + [False] * 2, tl.int1)


def test_a_truth_value_is_an_argument_of_one_bit():
    found = semantics.number_argument(lambda _: pytest.fail("the interpreter's own"))(True)
    assert (found.handle.data.dtype, found.type) == (np.bool_, tl.int1)
