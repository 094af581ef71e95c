"""Fenced twins without a GPU: what is understood, what is refused, and that each access is checked."""

import re
import struct
import subprocess
from pathlib import Path

import fenced_kernels
import pytest
import triton
from fenced_kernels import F32, LAUNCHES, LAUNCHES_90, launch_of
from hypothesis import given
from hypothesis import strategies as st
from unchecked_accesses import unchecked

from warpsmith.evaluator.languages.fencing import fence, ptx
from warpsmith.evaluator.languages.fencing.fence import SIZES, SLOT_BYTES, FenceError, FencePlan, fenced, slots_of
from warpsmith.evaluator.languages.triton import compilation
from warpsmith.evaluator.languages.triton.loaded_kernels import Binary

pytestmark = pytest.mark.usefixtures("own_cache")

HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n"
SLOTS = 3


def module(code: str, *, before: str = "", after: str = "", head: str = HEAD) -> str:
    """Return a kernel with these instructions; `%rd1` holds its first tensor's address."""
    return (
        f"{head}{before}\n.visible .entry k(.param .u64 .ptr .global .align 1 k_param_0, .param .u32 k_param_1,\n"
        "  .param .align 64 .b8 k_param_2[128])\n.reqntid 128\n{\n"
        ".reg .pred %p<4>;\n.reg .b16 %rs<4>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n.reg .f32 %f<4>;\n"
        f"ld.param.b64 %rd1, [k_param_0];\n{code}\nret;\n}}\n{after}"
    )


SHARED = ".extern .shared .align 16 .b8 global_smem[];"


def assembled(text: str, folder: Path, arch: str = "sm_90a") -> bytes:
    """Return the machine code that Triton's own assembler makes of a text."""
    nvidia = triton.knobs.nvidia
    tool = nvidia.ptxas if arch == "sm_80" or not hasattr(nvidia, "ptxas_blackwell") else nvidia.ptxas_blackwell
    source, made = folder / "twin.ptx", folder / "twin.cubin"
    source.write_text(text)
    command = [tool.path, f"--gpu-name={arch}", str(source), "-o", str(made)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return made.read_bytes()


ZOO_90 = {**LAUNCHES, **LAUNCHES_90}
EVERY = [
    *((90, name) for name in ZOO_90),
    *(pytest.param(80, name, marks=pytest.mark.long) for name in LAUNCHES),
    *(pytest.param(100, name, marks=pytest.mark.long) for name in ZOO_90),
]
QUICK_80 = ["matmul", "described", "half_sums", "doubles"]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    return fenced_kernels.load(tmp_path_factory.mktemp("kernels"))


@pytest.mark.parametrize(("arch", "name"), [*EVERY, *((80, name) for name in QUICK_80)])
def test_every_access_of_a_real_kernel_is_checked_and_assembles(arch, name, kernels):
    launch = ZOO_90[name]
    if name == "own_descriptor":
        pytest.skip("has a test of its own")
    prepared = compilation.prepare(kernels, launch, arch)
    compiled = prepared.compiled()
    slots = slots_of(prepared.parameters)
    text = fenced(compiled.asm["ptx"], compiled.metadata.name, slots)
    assert unchecked(text, slots) == []
    # The twin and the record of violations, as a launch of the real thing would have it.
    binary = Binary.of(compilation.compile_launch(kernels, launch, arch, binary=True)["binary"])
    assert binary.fence_error == ""
    assert binary.fenced[:4] == b"\x7fELF"
    assert binary.fenced_tiled


def test_the_reader_of_these_tests_finds_what_is_unchecked():
    text = fenced(module("@%p1 st.global.b32 [%rd1+4], %r1;"), "k", SLOTS)
    assert unchecked(text, SLOTS) == []
    assert unchecked(text, SLOTS + 1) != []
    for wrong in (
        text.replace("@%warpsmith_1 st.global", "@%p1 st.global"),
        text.replace("st.global.b32 [%warpsmith_a]", "st.global.b32 [%rd1]"),
        text.replace("sub.s64 %warpsmith_d, %warpsmith_a, %warpsmith_low1;", ""),
        text.replace("ret;", "ld.global.b32 %r1, [%rd1];\nret;"),
        text.replace("ret;", "red.global.add.u32 [%rd1], 1;\nret;"),
    ):
        assert wrong != text
        assert len(unchecked(wrong, SLOTS)) == 1


def test_a_kernel_that_makes_its_descriptors_is_fenced_by_pointers(kernels):
    launch = LAUNCHES_90["own_descriptor"]
    compiled = compilation.prepare(kernels, launch, 90).compiled()
    with pytest.raises(fence.OwnDescriptorError, match="TensorDescriptor, or use pointers"):
        fenced(compiled.asm["ptx"], "own_descriptor", SLOTS)
    binary = Binary.of(compilation.compile_launch(kernels, launch, 90, binary=True)["binary"])
    assert binary.fence_error == ""
    assert binary.fenced
    assert not binary.fenced_tiled
    assert triton.knobs.runtime.add_stages_inspection_hook is None


def test_a_kernel_that_cannot_be_fenced_compiles_and_says_why(tmp_path):
    source = (
        "import triton\nimport triton.language as tl\n\n@triton.jit\ndef k(x, BLOCK: tl.constexpr):\n"
        "    at = tl.arange(0, BLOCK)\n"
        '    y = tl.inline_asm_elementwise("multimem.ld_reduce.global.add.f32 $0, [$1];", "=f,l", [x + at],\n'
        "                                  dtype=tl.float32, is_pure=False, pack=1)\n    tl.store(x + at, y)\n"
    )
    found = compilation.compile_launch(
        fenced_kernels.load(tmp_path, source), launch_of("k", x=F32, BLOCK=128), 90, binary=True
    )["binary"]
    assert found["cubin"]
    assert found["fenced"] == b""
    assert "multimem.ld_reduce.global.add.f32" in found["fence_error"]
    assert "Leave that inline assembly out" in found["fence_error"]


# --- what is written by hand ---

CHECKED = {
    "load": "ld.global.b32 %r1, [%rd1+4];",
    "predicated": "@!%p1 ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1+-16];",
    "sink": "ld.global.v2.b32 {_, %r2}, [%rd1];",
    "own address": "ld.global.b64 %rd1, [%rd1];",
    "narrow": "ld.global.u8 %rs1, [%rd1];",
    "signed": "ld.global.s8 %r1, [%rd1];",
    "uncached": "ld.global.nc.L1::no_allocate.L2::128B.v2.f32 {%f1, %f2}, [%rd1];",
    "generic load": "ld.b32 %r1, [%rd1];",
    "generic store": "st.b32 [%rd1], %r1;",
    "volatile": "ld.volatile.global.b32 %r1, [ %rd1 + 0 ];",
    "acquire": "ld.acquire.gpu.global.b32 %r1, [%rd1];",
    "ldu": "ldu.global.b32 %r1, [%rd1];",
    "policy": "createpolicy.fractional.L2::evict_first.b64 %rd2, 1.0;\nld.global.L2::cache_hint.b32 %r1, [%rd1], %rd2;",
    "atom": "atom.global.gpu.acq_rel.add.u32 %r1, [%rd1], 1;",
    "generic atom": "atom.add.u32 %r1, [%rd1+8], 1;",
    "cas": "atom.global.cas.b64 %rd2, [%rd1], 0, 1;",
    "wide exch": "{ .reg .b128 q, s; mov.b128 q, {%rd1, %rd1}; atom.global.exch.b128 s, [%rd1], q; }",
    "red": "red.global.add.noftz.f16 [%rd1], %rs1;",
    "vector red": "red.global.add.v2.f32 [%rd1], {%f1, %f2};",
    "cp.async": "cp.async.cg.shared.global [%r1], [%rd1], 16;",
    "cp.async with size": "@%p1 cp.async.ca.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x4, %r2;",
    "bulk load": "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 64, [%r2];",
    "bulk store": "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], %r2;",
    "bulk reduction": "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r1], 64;",
    "tensor load": "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
    "[%r1], [%rd1, {%r2, %r3}], [%r4];",
    "tensor store": "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd1, {%r2}], [%r1];",
    "tensor reduction": "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group [%rd1, {%r2}], [%r1];",
    "discard": "discard.global.L2 [%rd1], 128;",
    "local": "cvt.u32.u64 %r1, %rd1;\nld.local.b32 %r2, [%r1];\nst.local.b32 [%r1+4], %r2;",
}  # fmt: skip


@pytest.mark.parametrize("code", list(CHECKED.values()), ids=list(CHECKED))
def test_what_reaches_memory_is_checked(code, tmp_path):
    text = fenced(module(code, before=SHARED), "k", SLOTS)
    assert unchecked(text, SLOTS) == []
    assert "warpsmith_fence" in text
    assembled(text, tmp_path)


AS_IT_IS = {
    "parameter": "ld.param.b32 %r1, [k_param_1];",
    "bytes of a descriptor": "ld.param.b32 %r1, [k_param_2+124];",
    "shared": "st.shared.b32 [%r1], %r2;\nld.shared::cta.v2.b32 {%r1, %r2}, [%r3+8];",
    "shared atomic": "atom.shared.add.u32 %r1, [%r2], 1;",
    "barrier": "mbarrier.init.shared::cta.b64 [%r1], 1;\nmbarrier.inval.shared::cta.b64 [%r1];",
    "matrix": "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];",
    "clock": "mov.u64 %rd2, %clock64;",
    "loop": "again:\nadd.s32 %r1, %r1, 1;\nsetp.lt.s32 %p1, %r1, 9;\n@%p1 bra again;",
    "switch": "list: .branchtargets one, two;\nbrx.idx %r1, list;\none:\ntwo:\nmov.b32 %r1, 0;",
    "fences": "fence.proxy.async.shared::cta;\nmembar.gl;\nfence.acq_rel.gpu;",
    "floats": "mov.f32 %f1, 0f3F800000;\nadd.f32 %f1, %f1, 1.5;",
}


@pytest.mark.parametrize("code", list(AS_IT_IS.values()), ids=list(AS_IT_IS))
def test_what_reaches_nothing_that_lasts_stays(code, tmp_path):
    text = fenced(module(code, before=SHARED), "k", SLOTS)
    assert re.sub(r"\s+", "", code) in re.sub(r"\s+", "", text)
    assembled(text, tmp_path)


def test_a_barrier_by_a_generic_address_must_lie_in_shared_memory(tmp_path):
    head = HEAD.replace("sm_90a", "sm_100a")
    text = fenced(module("tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%rd1];", head=head), "k", SLOTS)
    assert "isspacep.shared::cluster %warpsmith_0, %warpsmith_a;" in text
    assert "@%warpsmith_1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%warpsmith_a];" in text
    assembled(text, tmp_path, "sm_100a")


def test_hints_are_left_out(tmp_path):
    code = "prefetch.global.L2 [%rd1];\nprefetchu.L1 [%rd1];\napplypriority.global.L2::evict_normal [%rd1], 128;"
    text = fenced(module(code), "k", SLOTS)
    assert "prefetch" not in text
    assert "applypriority" not in text
    assembled(text, tmp_path)


REFUSED = {
    "multimem": "multimem.red.global.add.f32 [%rd1], %f1;",
    "texture": "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f1}, [%rd1, {%r1}];",
    "surface": "sust.b.1d.b32.trap [%rd1, {%r1}], {%r2};",
    "wmma": "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1}, [%rd1], 16;",
    "alloca": "alloca.u64 %rd2, 64;",
    "no such": "frobnicate.global.b32 %r1, [%rd1];",
    "qualifier": "ld.global.frob.b32 %r1, [%rd1];",
    "two spaces": "ld.shared.global.b32 %r1, [%rd1];",
    "fixed address": "ld.global.b32 %r1, [0x1000];",
    "short address": "ld.global.b32 %r1, [%r2];",
    "computed offset": "ld.global.b32 %r1, [%rd1+(4+4)];",
    "parameter by address": "mov.b64 %rd2, k_param_0;\nld.param.b64 %rd3, [%rd2];",
    "beyond a parameter": "ld.param.b64 %rd3, [k_param_0+8];",
    "before a parameter": "ld.param.b64 %rd3, [k_param_0+-8];",
    "beyond a descriptor": "ld.param.b64 %rd3, [k_param_2+124];",
    "own parameter": "st.param.b32 [k_param_1], 1;",
    "fence itself": "ld.param.b64 %rd3, [warpsmith_fence];",
    "its address": "mov.b64 %rd3, warpsmith_fence;",
    "its register": "mov.b64 %rd3, %warpsmith_record;",
    "its predicate": "{ .reg .pred %warpsmith_1; mov.pred %p1, %p2; }",
    "its label": "$warpsmith_fill:\nmov.b32 %r1, 0;",
    "shadowed register": "{ .reg .b64 %rd1; ld.global.b32 %r1, [%rd1]; }",
    "shadowed parameter": "{ .reg .b64 k_param_2; mov.b64 %rd2, 0; }",
    "shadowed special": "{ .reg .b32 %ctaid; mov.b32 %r1, 0; }",
    "label of a name": "k_param_2:\nmov.b32 %r1, 0;",
    "dynamic size": "mov.u32 %r1, %dynamic_smem_size;",
    "counter": "mov.u32 %r1, %pm0;",
    "environment": "mov.b32 %r1, %envreg3;",
    "unknown register": "mov.b32 %r1, %nothing;",
    "own shared memory": ".shared .align 4 .b8 kept[64];",
    "own global memory": ".global .align 4 .b8 kept[64];",
    "own local memory": "mov.b32 %r1, 0;\n.local .align 4 .b8 kept[64];",
    "vector register": ".reg .v4 .f32 four;",
    "call": "call (%r1), malloc, (%rd1);",
    "indirect call": "call (%r1), %rd1, (%rd2), proto;",
    "barrier anywhere": "mbarrier.init.b64 [%rd1], 1;",
    "matrix anywhere": "ldmatrix.sync.aligned.m8n8.x1.b16 {%r1}, [%rd1];",
    "st.async to global": "st.async.release.global.b32 [%rd1], %r1;",
    "shared atomic by name of another": "atom.local.add.u32 %r1, [%r2], 1;",
    "copy anywhere": "cp.async.ca.b32 [%r1], [%rd1], 4;",
    "ignored source": "cp.async.ca.shared.global [%r1], [%rd1], 4, %p1;",
    "hash": "#define ld.shared ld.global\nmov.b32 %r1, 0;",
    "pragma of lines": "#line 3\nmov.b32 %r1, 0;",
    "location with code": ".loc 1 2 3 st.global.b32 [%rd1], %r1;",
    "second kernel": "ret;\n}\n.visible .entry other()\n{",
    "weak function": "ret;\n}\n.weak .func other()\n{",
    "texture reference": "ret;\n}\n.global .texref t;\n.visible .entry other()\n{",
    "alias": "ret;\n}\n.alias a, b;\n.visible .entry other()\n{",
    "unfinished": "{ mov.b32 %r1, 0;",
    "not ASCII": "mov.b32 %r\u0661, 0;",
    "backslash": "mov.b32 %r1, \\\n0;",
}  # fmt: skip


@pytest.mark.parametrize("code", list(REFUSED.values()), ids=list(REFUSED))
def test_what_is_not_understood_is_refused(code):
    with pytest.raises(FenceError, match=r"(?i)inline assembly|names") as caught:
        fenced(module(code, before=SHARED), "k", SLOTS)
    assert len(str(caught.value)) < 600


def test_a_refusal_names_the_instruction():
    with pytest.raises(FenceError, match=re.escape("multimem.red.global.add.f32 [%rd1], %f1;")):
        fenced(module(REFUSED["multimem"]), "k", SLOTS)


@pytest.mark.parametrize(
    "before",
    [
        ".extern .global .b8 elsewhere[8];",
        ".global .align 4 .b8 warpsmith_fence[8];",
        ".const .align 4 .b8 sized[];",
        ".shared .align 4 .b8 kept[64];",
        ".extern .func (.param .b64 result) malloc (.param .b64 size);",
        ".func vprintf(.param .b64 a)\n{\nret;\n}",
        ".global .attribute(.managed) .b32 shared_with_host;",
        ".version 8.0, 9.0",
    ],
)
def test_what_stands_before_a_kernel_is_refused(before):
    with pytest.raises(FenceError):
        fenced(module("", before=before), "k", SLOTS)


TABLE = ".global .align 8 .b8 table[16] = {1, 2, 3};"


def test_a_table_of_the_module_is_read_and_never_written(tmp_path):
    by_register = "mov.b64 %rd2, table;\nld.global.nc.b64 %rd3, [%rd2];"
    text = fenced(module(by_register, before=TABLE), "k", SLOTS)
    assert "setp.lt.or.u64 %warpsmith_0, %warpsmith_d, 9, %warpsmith_0;" in text
    assembled(text, tmp_path)
    stored = fenced(module("mov.b64 %rd2, table;\nst.global.b64 [%rd2], %rd3;", before=TABLE), "k", SLOTS)
    assert "mov.b64 %warpsmith_t, table;" not in stored
    assert "ld.global.b64 %rd3, [table+8];" in fenced(module("ld.global.b64 %rd3, [table+8];", before=TABLE), "k", 3)
    refused = ["ld.global.b64 %rd3, [table+9];", "st.global.b64 [table], %rd3;", "red.global.add.u32 [table], 1;"]
    for code in refused:
        with pytest.raises(FenceError):
            fenced(module(code, before=TABLE), "k", SLOTS)


FUNCTION = """
.func (.param .b64 result) slow(.param .b64 given)
{{
.local .align 8 .b8 kept[16];
.reg .b64 %rd<4>;
ld.param.b64 %rd1, [given];
{}
st.param.b64 [result], %rd2;
ret;
}}
"""
CALL = "{ .param .b64 a; .param .b64 b; st.param.b64 [a], %rd1; call.uni (b), slow, (a); ld.param.b64 %rd2, [b]; }"


def test_a_function_reaches_tables_and_local_memory_alone(tmp_path):
    code = FUNCTION.format("ld.global.b64 %rd2, [%rd1];\nst.local.b64 [kept+8], %rd2;")
    text = fenced(module(CALL, before=TABLE + code), "k", SLOTS)
    function = text[text.index(".func") : text.index(".visible")]
    assert "%warpsmith_low" not in function
    assert "@%warpsmith_1 ld.global.b64 %rd2, [%warpsmith_a];" in function
    assembled(text, tmp_path)
    for refused in (
        "st.global.b64 [%rd1], %rd2;",
        "atom.global.add.u64 %rd2, [%rd1], 1;",
        "cp.async.cg.shared.global [%rd2], [%rd1], 16;",
        "st.local.b64 [kept+9], %rd2;",
    ):
        with pytest.raises(FenceError):
            fenced(module(CALL, before=TABLE + FUNCTION.format(refused)), "k", SLOTS)


@pytest.mark.parametrize(
    ("store", "low"),
    [
        ("st.b64 [%rd1], %rd2;", "%warpsmith_caller_low"),
        ("cvta.to.local.u64 %rd3, %rd1;\nst.local.b64 [%rd3+8], %rd2;", "%warpsmith_t"),
    ],
    ids=["generic", "local"],
)
def test_a_function_may_be_given_local_memory_of_its_caller(tmp_path, store, low):
    code = FUNCTION.format(f"mov.b64 %rd2, 7;\n{store}")
    call = CALL.replace(
        "st.param.b64 [a], %rd1;", "mov.b64 %rd3, own; cvta.local.u64 %rd3, %rd3; st.param.b64 [a], %rd3;"
    )
    text = fenced(module(call, before=code).replace("{\n.reg", "{\n.local .align 8 .b8 own[16];\n.reg"), "k", SLOTS)
    assert "call.uni (b), slow, (a, warpsmith_caller_low, warpsmith_caller_size);" in text.replace(",", ", ").replace(
        ",  ", ", "
    )
    assert "mov.b64 %warpsmith_n, 16;" in text
    assert f"sub.s64 %warpsmith_d, %warpsmith_a, {low};" in text
    assert "setp.lt.and.u64 %warpsmith_4, %warpsmith_d, %warpsmith_caller_size, %warpsmith_4;" in text
    assert unchecked(text, SLOTS) == []
    assembled(text, tmp_path)


def test_what_a_block_starts_with_is_of_its_own(tmp_path):
    text = fenced(module("st.global.b32 [%rd1], %r1;", before=SHARED), "k", SLOTS)
    body = text[text.index("{") :]
    assert "st.shared.v2.b64" in body
    assert body.index("st.shared.v2.b64") < body.index("barrier.cluster.wait") < body.index("@%warpsmith_1 st.global")
    for register in ("mov.b32 %r7, 0;", "mov.b64 %rd7, 0;", "setp.ne.b32 %p3, 0, 0;", "mov.b16 %rs3, 0;"):
        assert register in body
    nested = fenced(module("{ .reg .b32 t; .reg .u8 c; mov.b32 %r1, t; }"), "k", SLOTS)
    assert "mov.b32 t, 0;" in nested
    assembled(nested, tmp_path)


def test_the_twin_takes_one_parameter_more():
    text = fenced(module("ld.global.b32 %r1, [%rd1];"), "k", 5)
    assert f".param .align 8 .b8 warpsmith_fence[{16 + 5 * SLOT_BYTES}])" in text
    assert "%warpsmith_low4" in text
    assert "%warpsmith_low5" not in text


def test_the_largest_twin_assembles(tmp_path):
    assembled(fenced(module("ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];"), "k", fence.MOST_SLOTS), tmp_path)


def test_another_kernel_than_the_expected_is_refused():
    with pytest.raises(FenceError, match="expected other"):
        fenced(module(""), "other", SLOTS)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text):
    with pytest.raises(FenceError):
        fenced(text, "k", SLOTS)


WORDS = re.findall(
    r"\S+",
    "ld.global.b32 st.shared.b32 %r1 %rd1 [ ] { } , ; @ ! %p1 + 4 0x10 .reg .b32 .pred < > : x .loc bra call ( ) | - "
    "ret mov.b64",
)


@given(st.lists(st.sampled_from([*WORDS, "\n"]), max_size=30))
def test_any_code_is_checked_or_refused(words):
    try:
        text = fenced(module(" ".join(words)), "k", SLOTS)
    except FenceError:
        return
    assert unchecked(text, SLOTS) == []


@given(st.lists(st.sampled_from(WORDS), max_size=30))
def test_what_is_written_reads_back_as_it_was(words):
    text = ptx.written(tuple(words))
    assert [token for token in ptx.tokens(text) if token != "\n"] == words


# --- what a launch may reach ---

extents = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 400)).map(lambda pair: (min(pair), max(pair))), max_size=8
)


@given(extents, st.integers(0, 440), st.sampled_from(SIZES))
def test_an_access_is_allowed_where_one_extent_holds_it(ranges, address, size):
    """The comparison that the code makes, `address - low < room`, in unsigned numbers of 64 bits."""
    plan = FencePlan(7, tuple(ranges))
    packed = plan.packed(8)
    assert struct.unpack_from("<QQ", packed) == (7, 0)
    allowed = False
    for slot in range(8):
        low, *rooms = struct.unpack_from(f"<{SLOT_BYTES // 8}Q", packed, 16 + slot * SLOT_BYTES)
        allowed |= (address - low) % (1 << 64) < rooms[SIZES.index(size)]
    held = set()
    for low, high in ranges:
        held |= set(range(low, high))
    assert allowed == all(byte in held for byte in range(address, address + size))
    assert plan.covers(address, address + size) == allowed


def test_more_extents_than_slots_are_refused():
    plan = FencePlan(0, ((0, 8), (16, 24), (32, 40)))
    assert len(plan.packed(3)) == 16 + 3 * SLOT_BYTES
    with pytest.raises(FenceError, match="3 separate extents"):
        plan.packed(2)
    assert FencePlan(0, ((0, 8), (8, 16), (4, 40))).merged() == [(0, 40)]


def test_each_tensor_has_a_slot_and_scratch_memory_one():
    parameters = [["x", "*fp32"], ["n", "i32"], ["parts", ["*i8", "i32", ["*fp16"]]], ["d", "tensordesc<fp16[32, 32]>"]]
    assert slots_of(parameters) == 5
    assert slots_of([]) == 1
    with pytest.raises(FenceError, match="takes 64 tensors"):
        slots_of([["all", ["*fp32"] * 64]])
