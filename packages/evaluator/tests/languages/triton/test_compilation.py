import subprocess
import sys

import pytest

from warpsmith.evaluator.languages.triton import compilation
from warpsmith.evaluator.languages.triton.compile_source import compile_source
from warpsmith.evaluator.languages.triton.extract.extraction import Extracted
from warpsmith.evaluator.languages.triton.kernel_set import KernelCompilationError

POINTER = ["tensor", "float32", True]
pytestmark = pytest.mark.usefixtures("own_cache")

LAUNCH = {
    "kernel": "add_kernel",
    "arguments": {"x_ptr": POINTER, "y_ptr": POINTER, "out_ptr": POINTER, "n": ["value", 600], "BLOCK": ["value", 256]},
    "options": {"num_warps": 4},
}


def compiled(source, tmp_path, launch=None, arch=90):
    return compile_source(source, [launch or LAUNCH], tmp_path, arch)


@pytest.mark.parametrize("arch", [80, 90])
def test_a_kernel_compiles_for_a_chip_that_is_not_here(tmp_path, arch, add_candidate):
    found = compiled(add_candidate, tmp_path, arch=arch)
    (used,) = found.pop("resources")
    assert (used["name"], used["spill_bytes"]) == ("add_kernel", 0)
    assert used["registers"] > 0
    assert found == {
        "ok": True,
        "category": "",
        "message": "",
        "tf32": False,
        "binaries": [],
        "lost": "",
        "crashed": False,
    }


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"waves_per_eu": 2}, "waves_per_eu"),
        ({"num_stages": ["unsupported", "list"]}, "not a plain value"),
        ({"num_warps": 64}, "2048 threads"),
        ({"num_ctas": 16}, "1 to 8 blocks"),
        ({"launch_cooperative_grid": True}, "launch_cooperative_grid=True; only False is taken"),
        ({"sanitize_overflow": True}, "sanitize_overflow=True; only False is taken"),
        ({"launch_pdl": 2}, "launch_pdl=2; only False or True is taken"),
    ],
)
def test_what_no_launch_takes_does_not_compile(tmp_path, add_candidate, option, message):
    found = compiled(add_candidate, tmp_path, LAUNCH | {"options": option})
    assert not found["ok"]
    assert message in found["message"]


def test_options_without_effect_are_ignored_on_chips_that_have_them(tmp_path, add_candidate):
    without = {"launch_pdl": True, "launch_cooperative_grid": False, "sanitize_overflow": False}
    launches = [LAUNCH, LAUNCH | {"options": LAUNCH["options"] | without}]
    found = compile_source(add_candidate, launches, tmp_path, 90, binaries=True)
    assert found["ok"], found["message"]
    one, other = found["binaries"]
    assert (one["cubin"], one["cooperative"]) == (other["cubin"], False)
    amd = compiled(add_candidate, tmp_path, LAUNCH | {"options": {"launch_pdl": True}}, "gfx942")
    assert "launch_pdl, which is neither an argument" in amd["message"]


def test_the_message_names_the_candidates_own_line(tmp_path, add_candidate):
    broken = add_candidate.replace("offsets < n", "offsets < undefined_name")
    found = compiled(broken, tmp_path)
    assert not found["ok"]
    assert "undefined_name" in found["message"]
    assert "line 9" in found["message"]


def test_a_block_that_is_no_power_of_two_does_not_compile(tmp_path, add_candidate):
    launch = LAUNCH | {"arguments": LAUNCH["arguments"] | {"BLOCK": ["value", 100]}}
    found = compiled(add_candidate, tmp_path, launch)
    assert found["category"] == "triton_compilation_error"
    assert "power of 2" in found["message"]
    assert str(tmp_path) not in found["message"]


def test_shared_memory_beyond_the_chip_is_distinguished(tmp_path):
    source = (
        "import triton\nimport triton.language as tl\n@triton.jit\ndef k(a, b, c, N: tl.constexpr, K: tl.constexpr):\n"
        "    n, k = tl.arange(0, N), tl.arange(0, K)\n"
        "    a, b = a + n[:, None] * K + k[None, :], b + k[:, None] * N + n[None, :]\n"
        "    tl.store(c + n[:, None] * N + n[None, :], tl.dot(tl.load(a), tl.load(b)))\n"
    )
    arguments = {"a": POINTER, "b": POINTER, "c": POINTER, "N": ["value", 64], "K": ["value", 512]}
    found = compiled(source, tmp_path, {"kernel": "k", "arguments": arguments, "options": {"num_warps": 8}})
    assert found["category"] == "shared_memory_exceeded"
    small = {"kernel": "k", "arguments": arguments | {"N": ["value", 32], "K": ["value", 32]}, "options": {}}
    assert compiled(source, tmp_path, small)["tf32"]
    exact = source.replace("tl.load(b))", 'tl.load(b), input_precision="ieee")')
    assert not compiled(exact, tmp_path, small)["tf32"]
    thrice = source.replace("tl.load(b))", 'tl.load(b), input_precision="tf32x3")')
    assert not compiled(thrice, tmp_path, small)["tf32"]
    half = {name: ["tensor", "float16", True] for name in "ab"}
    assert not compiled(source, tmp_path, small | {"arguments": small["arguments"] | half})["tf32"]


@pytest.mark.parametrize(
    "launch",
    [
        LAUNCH | {"kernel": "no_such_kernel"},
        LAUNCH | {"arguments": {}},
        LAUNCH | {"arguments": LAUNCH["arguments"] | {"n": ["unsupported", "dict"]}},
        LAUNCH | {"arguments": LAUNCH["arguments"] | {"n": 3}},
        LAUNCH | {"arguments": LAUNCH["arguments"] | {"x_ptr": ["tensor", "float99", True]}},
    ],
)
def test_a_forged_launch_is_a_failed_compilation(tmp_path, launch, add_candidate):
    assert not compiled(add_candidate, tmp_path, launch)["ok"]


@pytest.mark.parametrize(
    "name",
    ["triton.language.core", "triton.language.core.builtins", "triton.language.nothing", "triton.language.math.wraps"],
)
def test_what_a_kernel_may_not_reach_is_refused(name):
    with pytest.raises(KernelCompilationError):
        compilation.check_reached(name)


@pytest.mark.parametrize(
    "name",
    [
        "triton.language.load",
        "triton.language.float32",
        "triton.language.math.exp",
        "triton.language.core.get_int_dtype",
        "math.pi",
        "triton.cdiv",
    ],
)
def test_what_a_kernel_may_reach_is_let_through(name):
    compilation.check_reached(name)


def test_an_argument_of_one_is_the_constant_that_triton_makes_of_it(tmp_path, add_candidate):
    telling = add_candidate.replace("    mask =", "    tl.static_assert(n == 1)\n    mask =")
    found = [
        compiled(telling, tmp_path, LAUNCH | {"arguments": LAUNCH["arguments"] | {"n": ["value", n]}})["ok"]
        for n in (1, 3)
    ]
    assert found == [True, False]


def test_the_extracted_source_finds_no_other_builtins_and_modules(tmp_path):
    for line in ("open('/dev/null')", "import os", "__import__('os')", "getattr(1, 'real')"):
        forged = Extracted(f"import triton\n{line}\n", (), frozenset())
        with pytest.raises((NameError, ImportError)):
            compilation.execute_kernels(forged, tmp_path)


IDIOMS = """
import triton
import triton.language as tl
from triton.language import core

@triton.jit
def described(given, n):
    if isinstance(given, tl.tensor_descriptor):
        return given
    else:
        return tl.make_tensor_descriptor(given, [n, n], [n, 1], [16, 16])

@triton.jit
def double(x, out, n, signed: tl.constexpr = core.CONSTEXPR_0):
    values = described(x, n).load([0, 0])
    bits = values.to(core.get_int_dtype(values.dtype.primitive_bitwidth, True), bitcast=True)
    tl.static_assert(bits.dtype == tl.int32)
    tl.static_assert(signed == 0)
    described(out, n).store([0, 0], bits.to(tl.float32, bitcast=True) * 2)

triton.set_allocator(lambda size, alignment, stream: None)
"""


@pytest.mark.parametrize("x", [POINTER, ["descriptor", "float32", [16, 16]]])
def test_what_the_libraries_of_others_ask_of_the_language_compiles(tmp_path, x):
    launch = {"kernel": "double", "arguments": {"x": x, "out": POINTER, "n": ["value", 48]}, "options": {}}
    found = compiled(IDIOMS, tmp_path, launch)
    assert found["ok"], found["message"]


STAGED = """
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, {name}):
    tl.store(x_ptr, {name})
"""


def test_a_keyword_that_names_a_parameter_and_an_option_is_both(tmp_path):
    launch = {
        "kernel": "kernel",
        "arguments": {"x_ptr": POINTER, "num_warps": ["value", 64]},
        "options": {"num_warps": 64},
    }
    found = compiled(STAGED.format(name="num_warps"), tmp_path, launch)
    assert "2048 threads" in found["message"]
    assert compiled(STAGED.format(name="num_warps"), tmp_path, launch | {"options": {}})["ok"]


@pytest.mark.parametrize("name", ["backend", "options", "params", "specialize_impl"])
def test_a_parameter_that_triton_cannot_bind_is_refused_by_name(tmp_path, name):
    launch = {"kernel": "kernel", "arguments": {"x_ptr": POINTER, name: ["value", 7]}, "options": {}}
    found = compiled(STAGED.format(name=name), tmp_path, launch)
    assert not found["ok"]
    assert f"a parameter {name}, with which Triton cannot launch it" in found["message"]


TRUSTED = """
import sys
from pathlib import Path
from triton.runtime import cache
digest = cache.triton_key
from warpsmith.evaluator.languages.triton import compilation
compilation.compile_trusted_kernel(90, Path(sys.argv[1]))
print(digest.cache_info().misses, len(list(Path(sys.argv[1]).glob("cache/*/*.cubin"))))
"""


def test_a_start_compiles_without_a_digest_of_the_compiler(tmp_path):
    command = [sys.executable, "-c", TRUSTED, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["0", "1"]
