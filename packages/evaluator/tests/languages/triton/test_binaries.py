"""The machine code of launches, and that a launch's packed arguments are what it takes. None of it needs a GPU."""

import re
import subprocess
from pathlib import Path

import pytest
import torch
import triton
from triton.runtime.jit import MockTensor
from triton.tools.tensor_descriptor import TensorDescriptor

from warpsmith.evaluator.languages.triton.compile_source import compile_source
from warpsmith.evaluator.languages.triton.descriptors import FLAGS
from warpsmith.evaluator.languages.triton.loaded_kernels import Binary, Tile, packed_arguments

pytestmark = pytest.mark.usefixtures("own_cache")

HEAD = "import triton\nimport triton.language as tl\n\n@triton.jit\n"
ALIGNED, SHIFTED = ["tensor", "float32", True], ["tensor", "float32", False]


def compiled(folder: Path, source: str, *launches: dict, arch: int = 90) -> list[Binary]:
    found = compile_source(source, list(launches), folder, arch, binaries=True)
    assert found["ok"], found["message"]
    return [Binary.of(values) for values in found["binaries"]]


def launch(arguments: dict, **options) -> dict:
    return {"kernel": "kernel", "arguments": arguments, "options": options}


def sizes_in(cubin: bytes, folder: Path) -> list[int]:
    """Return the bytes of each parameter in order, as the code itself declares them."""
    path = folder / "kernel.cubin"
    path.write_bytes(cubin)
    command = [triton.knobs.nvidia.cuobjdump.path, "-elf", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    declared = re.findall(r"KPARAM_INFO.*?Ordinal : (0x\w+)\s.*?Size    : (0x\w+)", text, flags=re.DOTALL)
    sizes = {int(ordinal, 16): int(size, 16) for ordinal, size in declared}
    return [sizes[ordinal] for ordinal in range(len(sizes))]


def value_of(described):
    """Return an argument that is described so, as a replay has it; a pointer is null."""
    match described:
        case ["tensor", *_]:
            return None
        case ["value", value]:
            return value
        case ["tuple", items]:
            return tuple(value_of(item) for item in items)
        case ["dtype" | "kernel", _]:
            return None


ADD = HEAD + (
    "def kernel(x, out, n, BLOCK: tl.constexpr):\n"
    "    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
    "    tl.store(out + o, tl.load(x + o, mask=o < n) * 2, mask=o < n)\n"
)
SCALARS = HEAD + (
    "def kernel(x, i, wide, unsigned, flag, f, half: tl.float16, brain: tl.bfloat16, double: tl.float64,"
    " byte: tl.int8, BLOCK: tl.constexpr):\n"
    "    o = tl.arange(0, BLOCK)\n"
    "    v = tl.load(x + o) * f + half + brain + double\n"
    "    tl.store(x + o, v + i + wide + unsigned + byte, mask=(o < 3) & flag)\n"
)
TUPLES = HEAD + (
    "def kernel(tensors, sizes, BLOCK: tl.constexpr):\n"
    "    o = tl.arange(0, BLOCK)\n"
    "    v = tl.load(tensors[0] + o) * sizes[0] + sizes[1][1]\n"
    "    tl.store(tensors[1] + o, v, mask=o < sizes[1][0])\n"
)
OPTIONAL = HEAD + (
    "def kernel(x, bias, out, ACT: tl.constexpr, DTYPE: tl.constexpr):\n"
    "    o = tl.arange(0, 64)\n"
    "    v = tl.load(x + o)\n"
    "    if bias is not None:\n"
    "        v += tl.load(bias + o)\n"
    "    if ACT == 'relu':\n"
    "        v = tl.maximum(v, 0.0)\n"
    "    tl.store(out + o, v.to(DTYPE))\n"
)
DESCRIPTORS = HEAD + (
    "def kernel(x, out, rows, columns, BLOCK: tl.constexpr):\n"
    "    one = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [BLOCK, BLOCK])\n"
    "    two = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [BLOCK, BLOCK])\n"
    "    two.store([0, 0], one.load([0, 0]))\n"
    "\n# triton.set_allocator(...)\ndef allocate():\n    triton.set_allocator(None)\n"
)
SCALAR_VALUES = {
    "i": 7,
    "wide": 1 << 40,
    "unsigned": (1 << 63) + 1,
    "flag": True,
    "f": 0.5,
    "half": 0.5,
    "brain": 0.5,
    "double": 0.5,
    "byte": 5,
    "BLOCK": 64,
}
CASES = {
    "add": (ADD, {"x": ALIGNED, "out": ALIGNED, "n": ["value", 600], "BLOCK": ["value", 256]}, [8, 8, 4]),
    "one is a constant": (ADD, {"x": ALIGNED, "out": ALIGNED, "n": ["value", 1], "BLOCK": ["value", 256]}, [8, 8]),
    "a wide count": (ADD, {"x": ALIGNED, "out": SHIFTED, "n": ["value", 1 << 33], "BLOCK": ["value", 32]}, [8, 8, 8]),
    "scalars": (
        SCALARS,
        {"x": ALIGNED} | {name: ["value", value] for name, value in SCALAR_VALUES.items()},
        [8, 4, 8, 8, 1, 4, 2, 2, 8, 1],
    ),
    "tuples": (
        TUPLES,
        {
            "tensors": ["tuple", [ALIGNED, SHIFTED]],
            "sizes": ["tuple", [["value", 3], ["tuple", [["value", 1 << 40], ["value", 1]]]]],
            "BLOCK": ["value", 64],
        },
        [8, 8, 4, 8],
    ),
    "nothing for a tensor": (
        OPTIONAL,
        {"x": ALIGNED, "bias": ["value", None], "out": ALIGNED, "ACT": ["value", "relu"], "DTYPE": ["dtype", "fp32"]},
        [8, 8],
    ),
    "all tensors": (
        OPTIONAL,
        {"x": ALIGNED, "bias": ALIGNED, "out": ALIGNED, "ACT": ["value", None], "DTYPE": ["dtype", "fp16"]},
        [8, 8, 8],
    ),
    "descriptors": (
        DESCRIPTORS,
        {"x": ALIGNED, "out": ALIGNED, "rows": ["value", 64], "columns": ["value", 96], "BLOCK": ["value", 32]},
        [8, 8, 4, 4],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_packed_arguments_are_what_the_code_declares(name, tmp_path):
    source, arguments, sizes = CASES[name]
    (binary,) = compiled(tmp_path, source, launch(arguments))
    values = {key: value_of(described) for key, described in arguments.items()}
    packed = [len(parameter) for parameter in packed_arguments(binary.parameters, values)]
    assert packed == sizes
    # Two pointers of Triton's own follow: to scratch memory, and to the profiler's.
    assert sizes_in(binary.cubin, tmp_path) == [*sizes, 8, 8]
    assert binary.symbol == "kernel"
    assert binary.cubin.startswith(b"\x7fELF")


HOST_DESCRIPTORS = HEAD + (
    "def kernel(x, pair, BLOCK: tl.constexpr):\n    pair[0].store([0, 0], x.load([0, 0]) + pair[1])\n"
)
ON_HOST = {
    "x": ["descriptor", "float16", [32, 64]],
    "pair": ["tuple", [["descriptor", "float16", [32, 64]], ["value", 3]]],
    "BLOCK": ["value", 32],
}


def test_descriptors_of_the_host_are_what_the_code_declares(tmp_path):
    values = {"x": descriptor(), "pair": (descriptor(), 3), "BLOCK": 32}
    (tiled,) = compiled(tmp_path, HOST_DESCRIPTORS, launch(ON_HOST))
    # 64 elements of 16 bits are 128 bytes, which shared memory swizzles as a whole (CU_TENSOR_MAP_SWIZZLE_128B).
    assert tiled.tiles == [Tile(element=6, item_bytes=2, swizzle=3, block=[32, 64])] * 2
    sizes = [len(part) for part in packed_arguments(tiled.parameters, values, lambda _: bytes(128))]
    assert sizes == [128, 4, 4, 8, 8, 128, 4, 4, 8, 8, 4]
    assert sizes_in(tiled.cubin, tmp_path) == [*sizes, 8, 8]


def test_descriptors_of_the_host_are_taken_apart_for_a_chip_without_a_unit_for_them(tmp_path):
    values = {"x": descriptor(), "pair": (descriptor(), 3), "BLOCK": 32}
    (plain,) = compiled(tmp_path, HOST_DESCRIPTORS, launch(ON_HOST), arch=80)
    assert plain.tiles == []
    sizes = [len(part) for part in packed_arguments(plain.parameters, values)]
    one = [8, 8, 8, 8, 8, *[1] * FLAGS, 4, 4, 8, 8]
    assert sizes == [*one, *one, 4]
    assert sizes_in(plain.cubin, tmp_path) == [*sizes, 8, 8]


def descriptor():
    """A descriptor on memory that nobody reads."""
    made = TensorDescriptor(MockTensor(torch.float16), [40, 96], [96, 1], [32, 64])
    made.base = None
    return made


def test_the_facts_of_a_launch_are_those_of_its_options(tmp_path):
    arguments = CASES["add"][1]
    options = ({}, {"num_warps": 8}, {"num_ctas": 2})
    plain, wide, clustered = compiled(tmp_path, ADD, *(launch(arguments, **one) for one in options))
    assert [(one.warps, one.blocks) for one in (plain, wide, clustered)] == [(4, 1), (8, 1), (4, 2)]
    assert not any(one.cooperative or one.scratch_bytes for one in (plain, wide, clustered))


def test_memory_that_a_launch_needs_is_reported(tmp_path):
    (binary,) = compiled(tmp_path, DESCRIPTORS, launch(CASES["descriptors"][1]))
    # Two descriptors of 128 bytes for each program.
    assert binary.scratch_bytes >= 256
    assert binary.shared_bytes >= 32 * 32 * 4


def test_code_is_given_for_each_launch_in_order(tmp_path):
    arguments = CASES["add"][1]
    launches = [launch(arguments | {"BLOCK": ["value", block]}) for block in (32, 64, 32)]
    one, two, three = compiled(tmp_path, ADD, *launches)
    assert one == three
    assert one.cubin != two.cubin


def test_no_code_is_given_unasked_or_beside_a_failure(tmp_path):
    good, bad = launch(CASES["add"][1]), launch({})
    assert compile_source(ADD, [good], tmp_path, 90)["binaries"] == []
    assert compile_source(ADD, [good, bad], tmp_path, 90, binaries=True)["binaries"] == []
