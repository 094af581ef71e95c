"""Fenced twins of nvcc's kernels, without a GPU: each access is checked, and what cannot be checked is refused."""

import re
import subprocess

import pytest
from unchecked_accesses import unchecked_of_nvcc

from warpsmith.evaluator.languages.cuda_cpp import compilation, toolkit, twins
from warpsmith.evaluator.languages.cuda_cpp.builds import Build
from warpsmith.evaluator.languages.cuda_cpp.cubin import Kernel
from warpsmith.evaluator.languages.cuda_cpp.loaded_kernels import Binary
from warpsmith.evaluator.languages.fencing import fence, matrices, ptx

HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"
SLOTS = 3
VARIABLES = (
    ".visible .global .align 4 .u32 counter;\n.const .align 4 .b8 table[64];\n"
    ".extern .shared .align 16 .b8 dynamic[];\n.shared .align 4 .b8 fixed[24];\n"
)


def module(code: str, *, before: str = VARIABLES, after: str = "") -> str:
    """Return a kernel with these instructions; `%rd1` holds its first argument."""
    return (
        f"{HEAD}{before}\n.weak .entry k(.param .u64 k_param_0, .param .u32 k_param_1,\n"
        "  .param .align 8 .b8 k_param_2[24])\n{\n.local .align 8 .b8 __local_depot0[16];\n"
        ".shared .align 4 .b8 own[100];\n.reg .pred %p<4>;\n.reg .b16 %rs<4>;\n.reg .b32 %r<12>;\n.reg .b64 %rd<8>;\n"
        f".reg .f32 %f<9>;\nld.param.u64 %rd1, [k_param_0];\n{code}\nret;\n}}\n{after}"
    )


def twin(text: str) -> fence.Twins:
    return fence.fenced_all(text, SLOTS, twins.RULES, lambda function: [])


@pytest.fixture(scope="module")
def tools():
    try:
        return toolkit.find()
    except toolkit.ToolkitError as error:
        pytest.skip(str(error))


@pytest.fixture
def assembled(tools, tmp_path):
    def run(text):
        source = tmp_path / "twins.ptx"
        source.write_text(text)
        command = [str(tools.root / "bin/ptxas"), "-arch=sm_90", str(source), "-o", str(tmp_path / "twins.cubin")]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return (tmp_path / "twins.cubin").read_bytes()

    return run


FUNCTION = """\
.visible .func (.param .b32 func_retval0) doubled(.param .b64 doubled_param_0)
{
.reg .b32 %r<3>;
.reg .b64 %rd<3>;
ld.param.u64 %rd1, [doubled_param_0];
ld.u32 %r1, [%rd1];
add.s32 %r2, %r1, %r1;
st.global.u32 [%rd1], %r2;
st.param.b32 [func_retval0+0], %r2;
ret;
}
"""
CHECKED = {
    "load": "ld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+16];",
    "store": "@%p1 st.global.cs.u32 [%rd1], %r1;",
    "generic": "ld.f32 %f1, [%rd1];\nst.f32 [%rd1+4], %f1;",
    "atomics": "atom.global.add.f32 %f1, [%rd1], 0f3F800000;\nred.global.max.s32 [%rd1], %r1;\n"
    "atom.cas.b32 %r1, [%rd1], 0, 1;",
    "copy": "cp.async.cg.shared.global [%r1], [%rd1], 16;",
    "bulk": "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 64;",
    "matrix": "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 "
    "{%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%rd1], %r9;\n"
    "wmma.store.d.sync.aligned.col.m16n16k16.f32 [%rd1], {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}, 48;",
    "variable by address": "mov.u64 %rd2, counter;\nst.global.u32 [%rd2], 1;",
    "parameter by address": "mov.b64 %rd2, k_param_2;\nadd.s64 %rd2, %rd2, %rd1;\nld.param.b64 %rd3, [%rd2];",
    "parameter by generic address": "mov.b64 %rd2, k_param_2;\ncvta.param.u64 %rd2, %rd2;\nld.b64 %rd3, [%rd2+8];",
    "local": "mov.u64 %rd2, __local_depot0;\nst.local.u32 [%rd2+4], %r1;\n"
    "add.s64 %rd2, %rd2, %rd1;\nld.local.u32 %r1, [%rd2];",
}  # fmt: skip


@pytest.mark.parametrize("code", CHECKED.values(), ids=list(CHECKED))
def test_what_reaches_memory_is_checked(code, assembled):
    found = twin(module(code))
    assert found.errors == {}
    loads = [line for line in unchecked_of_nvcc(found.text, found.slots) if ".param" not in line]
    assert loads == []
    assembled(found.text)


def test_a_function_reaches_what_its_caller_reaches_and_nothing_else(assembled):
    call = (
        "{\n.param .b64 param0;\nst.param.b64 [param0+0], %rd1;\n.param .b32 retval0;\n"
        "call.uni (retval0), doubled, (param0);\nld.param.b32 %r1, [retval0+0];\n}"
    )
    before = f"{VARIABLES}.visible .func (.param .b32 func_retval0) doubled(.param .b64 doubled_param_0);\n{FUNCTION}"
    found = twin(module(call, before=before))
    assert found.errors == {}
    assert unchecked_of_nvcc(found.text, found.slots) == []
    handed = "warpsmith_caller_low,warpsmith_caller_size,warpsmith_caller_fence"
    assert f"call.uni (retval0), doubled, (param0,{handed})" in found.text
    assembled(found.text)


def test_a_kernel_without_a_twin_keeps_no_other_from_one(assembled):
    text = module("ld.global.u32 %r1, [%rd1];", after="")
    other = ".visible .entry texture(.param .u64 t)\n{\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [t];\nbrkpt;\nret;\n}\n"
    found = twin(text + other)
    assert set(found.errors) == {"texture"}
    assert "brkpt" in found.errors["texture"]
    assert ".entry k(" in found.text
    assert ".entry texture" not in found.text
    assembled(found.text)


def test_variables_may_be_written_by_name_within_their_size():
    found = twin(module("st.global.u32 [counter], %r1;\natom.global.add.u32 %r1, [counter], 1;"))
    assert found.errors == {}
    assert "\nst.global.u32 [counter], %r1;" in found.text
    beyond = twin(module("st.global.u32 [counter+4], %r1;"))
    assert "It leaves counter, which has 4 bytes" in beyond.errors["k"]


REFUSED = {
    "texture": "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f1}, [%rd1, {%r1}];",
    "descriptor": "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [k_param_2, {%r2}], [%r1];",
    "own descriptor": "tensormap.replace.tile.global_address.global.b1024.b64 [%rd1], %rd2;",
    "fixed address": "ld.global.u32 %r1, [0x1000];",
    "fence": "ld.param.u64 %rd2, [warpsmith_fence];",
    "its register": "mov.u64 %rd2, %warpsmith_low0;",
    "its size of shared memory": "mov.u32 %r1, %dynamic_smem_size;",
    "all of it": "mov.u32 %r1, %total_smem_size;",
    "environment": "mov.u32 %r1, %envreg3;",
    "half of the workspace elsewhere": "add.u32 %r1, %envreg1, 1;",
    "workspace under a condition": "@%p1 mov.u32 %r1, %envreg2;",
    "store to a parameter": "mov.b64 %rd2, k_param_2;\nst.param.b64 [%rd2], %rd1;",
    "call by address": "call (%r1), %rd1, (%rd2), prototype;",
    "other function": "call.uni malloc;",
    "matrix of another form": "wmma.load.a.sync.aligned.row.m16n16k16.global.f16.frob {%r1}, [%rd1], 16;",
    "matrix of no order": "wmma.load.a.sync.aligned.m16n16k16.global.f16 {%r1}, [%rd1], 16;",
}


@pytest.mark.parametrize("code", REFUSED.values(), ids=list(REFUSED))
def test_what_cannot_be_checked_is_refused_and_says_what_to_write(code):
    found = twin(module(code))
    assert "Use C++ and CUDA's own functions" in found.errors["k"]


def test_a_block_finds_no_shared_memory_of_another(assembled):
    text = twin(module("ld.shared.u32 %r1, [fixed+4];\nst.shared.u32 [own], %r1;")).text
    fill = text[: text.index("$warpsmith_fill:")]
    for name in ("fixed", "own"):
        assert f"mov.b64 %warpsmith_d, {name};" in fill
    assert "mov.b64 %warpsmith_a, warpsmith_dynamic;" in fill
    assert "%tid.z" in fill
    assembled(text)


def test_the_workspace_of_a_grid_is_the_twins_own(assembled):
    found = twin(
        module("mov.u32 %r1, %envreg1;\nmov.u32 %r2, %envreg2;\nmov.b64 %rd2, {%r2, %r1};\nld.u32 %r3, [%rd2];")
    )
    assert found.errors == {}
    assert found.workspaces == {"k"}
    assert "%envreg" not in found.text
    assembled(found.text)


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        ("wmma.load.a.sync.aligned.row.m16n16k16.global.f16", ("global", 16, 32)),
        ("wmma.load.a.sync.aligned.col.m32n8k16.shared.bf16", ("shared", 16, 64)),
        ("wmma.load.b.sync.aligned.row.m16n16k8.tf32", ("", 8, 64)),
        ("wmma.load.b.sync.aligned.col.m8n32k16.global.u8", ("global", 32, 16)),
        ("wmma.load.c.sync.aligned.row.m16n16k16.global.f32", ("global", 16, 64)),
        ("wmma.store.d.sync.aligned.col.m8n8k4.global.f64", ("global", 8, 64)),
    ],
)
def test_lines_of_a_matrix_are_those_of_the_instruction_set(opcode, expected):
    place = ("[", "%rd1", "]")
    operands = (place, ("{", "%r1", "}"), ("%r2",)) if "store" in opcode else (("{", "%r1", "}"), place, ("%r2",))
    found = matrices.read_access(ptx.Instruction("", opcode, operands))
    assert (found.space, found.lines, found.length_bytes) == expected


@pytest.mark.parametrize(("used", "most"), [(16, 64), (64, 64), (65, 72), (96, 96), (128, 128), (168, 168), (255, 255)])
def test_a_twin_can_launch_as_many_threads_as_its_kernel(used, most):
    known = {"k": Kernel((), used, 0, 0)}
    directives = twins._registers(ptx.Function("k"), known)
    assert directives == [f".maxnreg {most}"]
    assert twins._registers(ptx.Function("k", directives=[".maxntid 256, 1, 1"]), known) == []


@pytest.mark.parametrize(
    ("name", "said"), [("vprintf", "printf"), ("malloc", "malloc, new or free"), ("cudaLaunchDeviceV2", "host code")]
)
def test_the_devices_runtime_is_refused(name, said):
    assert said in twins.why_unusable(f"{HEAD}.extern .func  (.param .b32 func_retval0) {name}\n(\n)\n;\n")
    assert twins.why_unusable(module(f"// {name}")) == ""


BUILD = """\
#include <torch/extension.h>
#include <mma.h>
__constant__ float scale[4];
__device__ int calls;
template <int N>
__global__ void __launch_bounds__(128) scaled(const float* x, float* y, int n) {
  extern __shared__ float row[];
  __shared__ float other[N];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  row[threadIdx.x] = i < n ? x[i] : 0.f;
  other[threadIdx.x % N] = row[threadIdx.x];
  __syncthreads();
  atomicAdd(&calls, 1);
  if (i < n) y[i] = other[i % N] * scale[i % 4];
}
__global__ void product(const half* a, const half* b, float* c) {
  using namespace nvcuda;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.f);
  wmma::load_matrix_sync(left, a, 16);
  wmma::load_matrix_sync(right, b, 16);
  wmma::mma_sync(sum, left, right, sum);
  wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}
at::Tensor f(at::Tensor x) {
  scaled<32><<<1, 128, 512>>>(x.data_ptr<float>(), x.data_ptr<float>(), 4);
  product<<<1, 32>>>(nullptr, nullptr, x.data_ptr<float>());
  return x;
}
"""
CPP = """\
#include <torch/extension.h>
at::Tensor f(at::Tensor x);
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("f", f); }
"""


@pytest.mark.slow
def test_the_twins_of_a_build_are_one_module_and_every_access_is_checked(tools, tmp_path, monkeypatch):
    texts = []
    real = compilation.Compilers.assembled
    monkeypatch.setattr(
        compilation.Compilers, "assembled", lambda self, text, how: texts.append(text) or real(self, text, how)
    )
    found = compilation.compile_text(Build("f", (("main.cpp", CPP), ("f.cu", BUILD))).text(), tmp_path, 90, twins=True)
    assert found["ok"], found["message"]
    (binary,) = [Binary.of(one) for one in found["binaries"][0]["cubins"]]
    assert binary.fence_errors == {}
    assert binary.fenced[:4] == b"\x7fELF"
    assert set(binary.variables) == {"scale", "calls"}
    assert unchecked_of_nvcc(texts[0], binary.slots) == []
    assert len(re.findall(r"^\.visible \.entry", texts[0], flags=re.MULTILINE)) == len(binary.kernels) == 2
