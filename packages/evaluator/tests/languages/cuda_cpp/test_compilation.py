"""Compiling builds: what comes out, what is refused, and what the author of a source reads about its errors."""

import subprocess
import sys

import pytest

from warpsmith.evaluator.languages.cuda_cpp import compilation, cubin, diagnostics, toolkit
from warpsmith.evaluator.languages.cuda_cpp.builds import Build, BuildError
from warpsmith.evaluator.languages.cuda_cpp.extension_loader import _joined
from warpsmith.evaluator.languages.cuda_cpp.language import CudaCpp

pytestmark = pytest.mark.slow

CPP = """#include <torch/extension.h>
at::Tensor run(at::Tensor x);
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
"""
CUDA = """#include <torch/types.h>
struct Pair { const float* data; short rows; double scale; };
__device__ int counter;
__constant__ float table[6];
__global__ void __launch_bounds__(128) kernel(char flag, Pair pair, float* out) {
  __shared__ float kept[32];
  kept[threadIdx.x] = pair.data[threadIdx.x] * table[flag];
  __syncthreads();
  out[threadIdx.x] = kept[31 - threadIdx.x] + counter;
}
at::Tensor run(at::Tensor x) {
  kernel<<<1, 32>>>(1, Pair{x.data_ptr<float>(), 2, 3.0}, x.data_ptr<float>());
  return x;
}
"""


@pytest.fixture(scope="module")
def tools():
    try:
        return toolkit.find()
    except toolkit.ToolkitError as error:
        pytest.skip(str(error))


@pytest.fixture
def compiled(tools, tmp_path):
    return lambda *files, flags=(): compilation.compile_text(
        Build("tried", files, flags).text(), tmp_path, 90, twins=False
    )


@pytest.fixture
def ways(monkeypatch):
    """The ways in which a build is compiled, one after the other."""
    found, built = [], compilation.Compilers._built
    monkeypatch.setattr(
        compilation.Compilers,
        "_built",
        lambda compilers, build, own, way: found.append(way) or built(compilers, build, own, way),
    )
    return found


@pytest.fixture(scope="module")
def built(tools, tmp_path_factory):
    """The two sources, compiled."""
    build = Build("tried", (("main.cpp", CPP), ("cuda.cu", CUDA)), ("-O3",))
    return compilation.compile_text(build.text(), tmp_path_factory.mktemp("built"), 90, twins=False)


def refused(compiled, cuda, *, flags=()):
    found = compiled(("main.cpp", CPP), ("cuda.cu", cuda), flags=flags)
    assert not found["ok"]
    assert found["binaries"] == []
    return found["message"]


def test_a_build_becomes_a_library_and_a_cubin_with_the_layout_of_its_kernels(built):
    assert built["ok"], built["message"]
    (binary,) = built["binaries"]
    assert binary["library"][:4] == b"\x7fELF"
    (code,) = binary["cubins"]
    assert cubin.kernels_of(code["code"], 90).keys() == {"_Z6kernelc4PairPf"}
    fields = code["kernels"]["_Z6kernelc4PairPf"]
    assert fields["parameters"] == [[0, 1], [8, 24], [32, 8]]
    assert (fields["shared_bytes"], fields["max_threads"], fields["cluster"]) == (128, 128, [0, 0, 0])
    assert 0 < fields["registers"] <= 255
    assert code["variables"] == {"counter": 4, "table": 24}


@pytest.mark.parametrize("garbage", [b"", b"\x7fELF", b"\x7fELF" + bytes(60), b"\x7fELF" + bytes(range(200))])
def test_what_is_no_cubin_is_refused(garbage):
    with pytest.raises(cubin.CubinError):
        cubin.kernels_of(garbage, 90)


def test_what_a_kernel_uses_is_reported_for_each_launch(built):
    (binary,) = built["binaries"]
    name = "_Z6kernelc4PairPf"
    resources = CudaCpp().resources_of({"kernel": name, "options": {"build": "b"}}, binary)
    assert (resources["name"], resources["static_shared_bytes"], resources["spill_bytes"]) == ("kernel", 128, 0)
    assert resources["registers"] > 0
    assert CudaCpp().resources_of({"kernel": "_Z5otherv", "options": {}}, binary) == {}


def test_errors_name_the_line_of_the_candidates_own_file_and_what_to_write_instead(compiled):
    wrong = CUDA.replace("counter;", "counter").replace("return x;", "x.spectrum(); return torch::fft_of(x);")
    message = refused(compiled, _joined([wrong], "cuda", "", f'import torch\n\nSOURCE = """{wrong}"""\n'))
    assert message.startswith("candidate.py(6): error: expected a")
    assert "float table[6];" in message
    for said in ("torch::fft_of is not among the functions", "spectrum is not among the functions", "TORCH_CHECK"):
        assert said in message
    assert message.count("\n") <= 12


def test_errors_in_several_sources_are_all_reported_once(compiled, ways):
    found = compiled(("main.cpp", CPP.replace("&run", "&ran")), ("cuda.cu", CUDA.replace("run(at", "(at")))
    assert not found["ok"]
    assert "main.cpp(3): error: " in found["message"]
    assert "cuda.cu(12): error: " in found["message"]
    assert len(found["message"]) < diagnostics.MOST_CHARACTERS
    assert ways == [compilation.LEAN, compilation.WHOLE]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        pytest.param(
            *("return x;", "cudaGraph_t g; cudaGraphCreate(&g, 0); return x;", "cudaGraphCreate cannot be used"),
            marks=pytest.mark.long,
        ),
        ("#include", "#include <cublas_v2.h>\n#include", "Libraries such as cublas_v2.h are not available"),
        pytest.param(
            *("#include", "#include </absent/file>\n#include", "/absent/file is not available. There are"),
            marks=pytest.mark.long,  # tests/attacks/cuda_cpp/include_host_file.py is in every run
        ),
        pytest.param(
            *("#include", "#include <absent.h>\n#include", "absent.h is not available. There are the CUDA toolkit's"),
            marks=pytest.mark.long,
        ),
        ("#include", 'asm(".incbin \\"/etc/hostname\\"");\n#include', "an assembler directive that reads a file"),
    ],
)
def test_what_a_source_cannot_have_is_reported_with_what_to_do(compiled, before, after, said):
    assert said in refused(compiled, CUDA.replace(before, after, 1))


def test_shared_memory_beyond_the_chips_has_a_category_of_its_own_and_no_header_is_missing(compiled, ways):
    found = compiled(("main.cpp", CPP), ("cuda.cu", CUDA.replace("float kept[32]", "float kept[20000]")))
    assert found["category"] == "shared_memory_exceeded"
    assert "too much shared data" in found["message"]
    assert ways == [compilation.LEAN]


@pytest.mark.long  # four compilations; tests/attacks/cuda_cpp/include_host_file.py is in every run
def test_a_header_of_the_machine_that_is_no_compilers_is_refused(compiled, tmp_path):
    header = tmp_path / "secret.h"
    header.write_text("int secret = 1;\n")
    for files in (
        (("main.cpp", CPP), ("cuda.cu", f'#include "{header}"\n{CUDA}')),
        (("main.cpp", f'#include "{header}"\n{CPP}'), ("cuda.cu", CUDA)),
    ):
        found = compiled(*files)
        assert "belongs neither to the candidate nor to the toolkit" in found["message"]


@pytest.mark.long  # the corpus of CUDA C++ includes headers of torch and of C++ in every run
def test_a_source_that_needs_all_of_torchs_headers_and_cpp_20_compiles(compiled):
    source = CUDA.replace("at::Tensor run", "template <typename T> concept Small = sizeof(T) < 9;\nat::Tensor run")
    source = source.replace("return x;", "std::function<void()> say = [&] { std::cout << x.sizes(); };\n  return x;")
    assert compiled(("main.cpp", CPP), ("cuda.cu", source))["ok"]


def test_a_module_without_functions_says_how_to_export_them(compiled, ways):
    found = compiled(("main.cpp", CPP.partition("PYBIND11")[0]))
    assert ways == [compilation.LEAN]
    assert "No functions are exported" in found["message"]


@pytest.mark.parametrize(
    "files",
    [
        (("main.py", "x"),),
        (("../main.cpp", "x"),),
        (("only.h", "x"),),
        (("a.cpp", "x"), ("a.cpp", "y")),
        tuple((f"{n}.cpp", "") for n in range(40)),
        (("a.cpp", " " * (3 << 20)),),
    ],
)
def test_files_of_another_form_are_refused(files):
    with pytest.raises(BuildError):
        Build("x", files)
    assert Build.of(Build("x", (("a.cpp", "int a;"),), ("-O3",)).text()).cuda_flags == ("-O3",)


REAL = """extern "C" const char* cudaGetErrorString(int) { return "of the real runtime"; }
namespace at { namespace detail { int kept() { return 1; } } }
"""
ASKING = """
import ctypes, sys
ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
module = ctypes.CDLL(sys.argv[2])
for name in ("said", "said_by_launch"):
    asked = getattr(module, name)
    asked.restype = ctypes.c_char_p
    print(asked().decode())
"""


def test_the_real_runtime_in_a_process_does_not_take_the_place_of_ours(compiled, tools, tmp_path):
    """A CUDA build of torch loads it with global symbols, and so would every call of host code reach it."""
    own = 'extern "C" const char* said() { return cudaGetErrorString(cudaSuccess); }\n'
    other = 'extern "C" const char* said_by_launch() { return cudaGetErrorName(cudaErrorInvalidValue); }\n'
    found = compiled(("main.cpp", "#include <cuda_runtime.h>\n" + CPP + own), ("cuda.cu", CUDA + other))
    assert found["ok"], found["message"]
    library, real = tmp_path / "module.so", tmp_path / "real.so"
    library.write_bytes(found["binaries"][0]["library"])
    (tmp_path / "real.cpp").write_text(REAL)
    command = [str(tools.compiler), "-shared", "-fPIC", str(tmp_path / "real.cpp"), "-o", str(real)]
    subprocess.run(command, check=True, timeout=60)
    done = subprocess.run(
        [sys.executable, "-c", ASKING, str(real), str(library)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == ["no error", "invalid argument"]


@pytest.mark.parametrize(
    ("printed", "instead"),
    [
        (
            "cuda.cu(3): error: kernel launch from __device__ or __global__ functions requires separate compilation",
            "launch both from host code",
        ),
        (
            "undefined reference to `cudaStreamBeginCapture'\nundefined reference to `cudaGraphLaunch'",
            "graph of the whole",
        ),
        ("undefined reference to `cudaMallocManaged'", "cudaMalloc"),
        ("undefined reference to `cudaMemcpyFromSymbol'", "to a tensor"),
        ("undefined reference to `cudaCreateTextureObject'", "__ldg"),
    ],
)
def test_what_no_replay_can_repeat_is_no_mistake_of_c_and_has_another_way(printed, instead):
    shown = diagnostics.shortened(printed, frozenset({"cuda.cu"}))
    assert instead in shown.splitlines()[-1]
    assert diagnostics.category_of(shown) == "unsupported_feature"


def test_an_ordinary_mistake_stays_one():
    shown = diagnostics.shortened('cuda.cu(3): error: expected a ";"', frozenset({"cuda.cu"}))
    assert diagnostics.category_of(shown) == "cuda_compilation_error"


KEEPS = """#include <torch/extension.h>
static at::Tensor kept;
at::Tensor keep(at::Tensor x) { kept = x; return x.abs(); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("keep", &keep); }
"""
PROGRAM = """
import sys, torch
from pathlib import Path
from warpsmith.evaluator.languages.cuda_cpp import host_library, tensor_calls
bridge = host_library.Bridge(tensor_calls.operations(print), tensor_calls.otherwise)
module = host_library.HostLibrary(Path(sys.argv[1]), bridge).module("keeps", {})
print(module.keep(torch.tensor([-2.0])).item())
"""


def test_a_process_ends_with_tensors_in_static_variables(compiled, tmp_path):
    (binary,) = compiled(("main.cpp", KEEPS))["binaries"]
    library = tmp_path / "keeps.so"
    library.write_bytes(binary["library"])
    ended = subprocess.run([sys.executable, "-c", PROGRAM, library], check=False, capture_output=True, text=True)
    assert (ended.stdout, ended.returncode) == ("2.0\n", 0), ended.stderr
