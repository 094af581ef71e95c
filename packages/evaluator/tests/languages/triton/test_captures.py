"""What a launch reports of the names that a kernel does not bind, and what that changes in the kernels of a source."""

import enum
import math

import pytest
import triton
import triton.language as tl

from warpsmith.evaluator.languages.triton import captures
from warpsmith.evaluator.languages.triton.compilation import execute_kernels
from warpsmith.evaluator.languages.triton.extract.extraction import extract_usable
from warpsmith.evaluator.languages.triton.kernel_set import KernelCompilationError, KernelSet

SCALE = tl.constexpr(3)
PAIR = (1, -0.0)
UNREAD = tl.constexpr(4)
exponential = tl.exp


@triton.jit
def scaled(x):
    return exponential(x) * SCALE + math.pi


@triton.jit
def launched(x_ptr, n):
    value = scaled(tl.load(x_ptr))
    if n > PAIR[0]:
        launched(x_ptr, n - 1)
    tl.store(x_ptr, value)


SOURCE = """
import triton
import triton.language as tl
N = tl.constexpr({n})
T = [1]
T.append(2)
M = tl.constexpr(T[1])

@triton.jit
def helper(x):
    return x * N

@triton.jit
def k(x):
    tl.store(x, helper(tl.load(x)))

@triton.jit
def computed(x):
    tl.store(x, M)
"""


@pytest.fixture
def kernels(tmp_path) -> KernelSet:
    return execute_kernels(extract_usable(SOURCE.format(n=3)), tmp_path)


def constant(value: object) -> list[object]:
    return ["constexpr", ["value", value]]


def test_a_launch_reports_what_is_read_and_nothing_else():
    with_captures = captures.with_captured(launched.fn, {"n": 1})
    assert with_captures["n"] == 1
    kind, names = with_captures[captures.ARGUMENT].described()
    assert kind == "captured"
    read = {"exponential": ["library", "triton.language.exp"], "SCALE": constant(3)}
    pair = ["tuple", [["value", 1], ["value", -0.0]]]
    # A kernel that calls itself is described once.
    assert names == {"scaled": ["kernel", "scaled", read], "PAIR": pair, "launched": ["kernel", "launched"]}


def test_a_member_of_an_enumeration_is_its_value():
    class Mode(enum.IntEnum):
        FAST = 2

    class Name(enum.StrEnum):
        ADD = "add"

    assert captures.described_constant(tl.constexpr(Mode.FAST)) == constant(2)
    assert type(captures.described_constant(Mode.FAST)[1]) is int
    assert captures.described_constant(Name.ADD) == ["value", "add"]
    assert captures.described_constant(True) == ["value", True]


def test_a_launch_that_reports_what_the_text_says_uses_the_kernel_of_the_text(kernels):
    same = {"helper": ["kernel", "helper", {"N": constant(3)}]}
    assert kernels.kernel("k", same) is kernels["k"]
    assert kernels.kernel("k") is kernels["k"]


@pytest.mark.parametrize("value", [4, 3.0, True, "3", None])
def test_what_a_launch_reports_counts(kernels, value):
    other = kernels.kernel("k", {"helper": ["kernel", "helper", {"N": constant(value)}]})
    assert other is not kernels["k"]
    assert other.fn.__globals__["helper"].fn.__globals__["N"].value is value
    # The next launch may report the text's value again.
    assert kernels["k"].fn.__globals__["helper"].fn.__globals__["N"].value == 3


def test_two_zeros_differ(tmp_path):
    kernels = execute_kernels(extract_usable(SOURCE.format(n="0.0")), tmp_path)
    assert kernels.kernel("helper", {"N": constant(0.0)}) is kernels["helper"]
    assert kernels.kernel("helper", {"N": constant(-0.0)}) is not kernels["helper"]


def test_a_kernel_under_another_name_counts(kernels):
    other = kernels.kernel("k", {"helper": ["kernel", "computed", {"M": constant(1)}]})
    assert other.fn.__globals__["helper"].fn.__name__ == "computed"


def test_a_value_that_no_kernel_can_read_leaves_the_texts(kernels):
    assert kernels.kernel("helper", {"N": ["unsupported", "dict"]}) is kernels["helper"]


def test_what_the_text_does_not_determine_must_be_reported(kernels):
    assert kernels.kernel("computed", {"M": constant(2)}).fn.__globals__["M"].value == 2
    with pytest.raises(KernelCompilationError, match="uses M, which is not bound"):
        kernels.kernel("computed")
    with pytest.raises(KernelCompilationError, match="uses a dict"):
        kernels.kernel("computed", {"M": ["unsupported", "dict"]})


def test_a_kernel_of_torchs_is_recognized_by_its_name_in_the_rendered_source():
    from torch._inductor.runtime import triton_helpers

    assert captures.described_function(triton_helpers.maximum) == ["kernel", "inductor_maximum"]
