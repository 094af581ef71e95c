"""What host code in C++ does is recorded without a GPU: launches with their arguments, memory, streams, variables.

All candidates here have one build, so it is compiled once.
"""

import struct
from dataclasses import dataclass
from typing import Any

import pytest

from warpsmith.evaluator import EvaluatorConfig, Problem
from warpsmith.evaluator.judge.judge import Judge
from warpsmith.evaluator.judge.recordings_by_form import Recordings
from warpsmith.evaluator.languages.cuda_cpp import toolkit

pytestmark = pytest.mark.slow

BUILD = r'''
import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <ATen/cuda/CUDAContext.h>
#include <thread>

struct Pair { const float* left; const float* right; };
__constant__ float table[8];

__global__ void add(const float* a, const float* b, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i] + table[0];
}
__global__ void add_pair(char flag, Pair pair, double factor, float* out, short n) {
  extern __shared__ float rows[];
  const int i = threadIdx.x;
  rows[i] = flag;
  if (i < n) out[i] = pair.left[i] + factor * pair.right[i] + 0 * rows[i];
}

float* f(const at::Tensor& t) { return t.data_ptr<float>(); }
void launch(const at::Tensor& x, const at::Tensor& y, const at::Tensor& out, cudaStream_t stream = nullptr) {
  add<<<dim3((x.numel() + 31) / 32, 1, 1), dim3(8, 4), 0, stream>>>(f(x), f(y), f(out), x.numel());
}

at::Tensor plain(at::Tensor x, at::Tensor y) {
  auto out = at::empty_like(x);
  launch(x, y, out);
  return out;
}
at::Tensor of_struct(at::Tensor x, at::Tensor y) {
  auto out = at::zeros({x.size(0), x.size(1)}, x.options());
  add_pair<<<1, 64, 512>>>('a', Pair{f(x), f(y) + 2}, 0.5, f(out), x.numel());
  return out;
}
at::Tensor of_runtime_memory(at::Tensor x, at::Tensor y) {
  float* scratch = nullptr;
  cudaMalloc(&scratch, x.nbytes());
  cudaMemsetAsync(scratch, 7, x.nbytes() / 2);
  cudaMemcpyAsync(scratch, f(x), x.nbytes(), cudaMemcpyDeviceToDevice);
  const float host[2] = {1.5f, -2.0f};
  cudaMemcpy(scratch + 1, host, sizeof host, cudaMemcpyHostToDevice);
  auto out = at::empty_like(x);
  add<<<1, 32>>>(scratch, f(y), f(out), x.numel());
  cudaFree(scratch);
  return out;
}
void fill_table(double value) {
  const float narrow = value;
  cudaMemcpyToSymbol(table, &narrow, sizeof narrow, 4);
}
at::Tensor with_table_of_input(at::Tensor x, at::Tensor y) {
  cudaMemcpyToSymbol(table, f(y), 8, 0, cudaMemcpyDeviceToDevice);
  return plain(x, y);
}
at::Tensor on_other_stream(at::Tensor x, at::Tensor y, int kind, bool wait) {
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, kind == 0 ? cudaStreamDefault : cudaStreamNonBlocking);
  auto out = at::empty_like(x);
  launch(x, y, out, kind == 2 ? at::cuda::getStreamFromPool().stream() : stream);
  if (wait) cudaDeviceSynchronize();
  return out;
}
int64_t refused(at::Tensor x, at::Tensor y, int threads, int shared, int64_t blocks) {
  auto out = at::empty_like(x);
  add<<<blocks, threads, shared>>>(f(x), f(y), f(out), x.numel());
  return static_cast<int64_t>(cudaGetLastError());
}
at::Tensor reads(at::Tensor x, at::Tensor y) {
  float first = 0;
  cudaMemcpy(&first, f(x), sizeof first, cudaMemcpyDeviceToHost);
  return first > 0 ? plain(x, y) : plain(y, x);
}
at::Tensor item(at::Tensor x, at::Tensor y) { return plain(x, y * x[0][0].item<float>()); }
at::Tensor computes(at::Tensor x, at::Tensor y) { return plain(x, y) + x; }
at::Tensor of_other_type(at::Tensor x, at::Tensor y) { x.data_ptr<double>(); return plain(x, y); }
at::Tensor checks(at::Tensor x, at::Tensor y) {
  TORCH_CHECK(x.size(0) == 7, "rows of ", x.sizes(), ' ', x.scalar_type(), " are not ", 7);
  return plain(x, y);
}
at::Tensor by_thread(at::Tensor x, at::Tensor y) {
  auto out = at::empty_like(x);
  const float *a = f(x), *b = f(y);
  float* c = f(out);
  std::thread other([=] { add<<<1, 32>>>(a, b, c, 15); });
  other.join();
  return out;
}
std::tuple<at::Tensor, double> with_defaults(at::Tensor x, c10::optional<at::Tensor> y, double scale, std::string name,
                                              std::vector<int64_t> sizes) {
  return {plain(x, y.value_or(x)), scale + name.size() + sizes.size()};
}
"""
CPP = """
#include <string>
at::Tensor plain(at::Tensor x, at::Tensor y);
at::Tensor of_struct(at::Tensor x, at::Tensor y);
at::Tensor of_runtime_memory(at::Tensor x, at::Tensor y);
void fill_table(double value);
at::Tensor with_table_of_input(at::Tensor x, at::Tensor y);
at::Tensor on_other_stream(at::Tensor x, at::Tensor y, int kind, bool wait);
int64_t refused(at::Tensor x, at::Tensor y, int threads, int shared, int64_t blocks);
at::Tensor reads(at::Tensor x, at::Tensor y);
at::Tensor item(at::Tensor x, at::Tensor y);
at::Tensor computes(at::Tensor x, at::Tensor y);
at::Tensor of_other_type(at::Tensor x, at::Tensor y);
at::Tensor checks(at::Tensor x, at::Tensor y);
at::Tensor by_thread(at::Tensor x, at::Tensor y);
std::tuple<at::Tensor, double> with_defaults(at::Tensor x, c10::optional<at::Tensor> y, double scale, std::string name,
                                              std::vector<int64_t> sizes);
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("plain", &plain);
  m.def("of_struct", &of_struct);
  m.def("of_runtime_memory", &of_runtime_memory);
  m.def("fill_table", &fill_table);
  m.def("with_table_of_input", &with_table_of_input);
  m.def("on_other_stream", &on_other_stream);
  m.def("refused", &refused);
  m.def("reads", &reads);
  m.def("item", &item);
  m.def("computes", &computes);
  m.def("of_other_type", &of_other_type);
  m.def("checks", &checks);
  m.def("by_thread", &by_thread);
  m.def("with_defaults", &with_defaults, py::arg("x"), py::arg("y") = py::none(), py::arg("scale") = 2.0,
        py::arg("name") = "four", py::arg("sizes") = std::vector<int64_t>{1, 2, 3});
}
"""
module = load_inline("recorded", CPP, SOURCE)

@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)

@triton.jit
def misspelt(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr, tl.sum(tl.arange(0, BLOCK), 4))

'''
ROWS, COLUMNS = 3, 5
BYTES = 4 * ROWS * COLUMNS
PROBLEM = Problem.from_source(
    "import torch\nimport torch.nn as nn\n\n"
    "class Model(nn.Module):\n    def forward(self, x, y):\n        return x + y\n\n"
    f"def get_inputs():\n    return [torch.randn({ROWS}, {COLUMNS}), torch.randn({ROWS}, {COLUMNS})]\n",
    "recorded",
)
ADD, ADD_PAIR = "_Z3addPKfS0_Pfi", "_Z8add_pairc4PairdPfs"


@dataclass
class Judged:
    """A verdict, and the events of the recordings of the problem's own form."""

    verdict: Any
    recordings: list[Any]

    @property
    def events(self):
        return self.recordings[0].events

    @property
    def launches(self):
        return [event for event in self.events if event[0] == "launch"]


@pytest.fixture(scope="module")
def judge():
    try:
        toolkit.find()
    except toolkit.ToolkitError as error:
        pytest.skip(str(error))
    config = EvaluatorConfig(language="cuda_cpp", slots=1, ready_workers=1, timeout_s=30, compile_timeout_s=240)
    running = Judge(config)
    yield running
    running.close()


@pytest.fixture
def judged(judge, monkeypatch):
    found = []
    recorded = Recordings._recorded

    def noting(self, answer, placed):
        made = recorded(self, answer, placed)
        found.append(made[0])
        return made

    monkeypatch.setattr(Recordings, "_recorded", noting)

    def run(forward, init="pass"):
        lines = "".join(f"        {line}\n" for line in forward.splitlines())
        source = (
            f"{BUILD}class ModelNew(nn.Module):\n"
            f"    def __init__(self):\n        super().__init__()\n        {init}\n\n"
            f"    def forward(self, x, y):\n{lines}"
        )
        found.clear()
        verdict = judge.evaluate(PROBLEM, source, trials=2, seed=5, timeout_s=30)
        return Judged(verdict, list(found[0]) if found else [])

    return run


def undecided(found):
    assert (found.verdict.status, found.verdict.error_category) == ("undecided", "needs_device"), found.verdict
    assert found.verdict.compiled
    assert not found.verdict.correct
    assert found.verdict.recording == "detached"
    return found


def pointer(argument):
    """Return what an argument that is one pointer points at: memory, start, and offset in bytes."""
    kind, content, ((place, tensor),) = argument
    assert (kind, content, place) == ("raw", bytes(8), 0)
    name, memory, start, dtype, (size,), stride, offset = tensor
    assert (name, dtype, stride) == ("tensor", "uint8", [1])
    return memory, start, offset, size


def test_a_launch_has_its_kernel_its_grid_and_its_arguments(judged):
    found = undecided(judged("return module.plain(x, y)"))
    (recording,) = found.recordings
    made, launch = found.events
    assert made == ["alloc", made[1], BYTES]
    _, kernel, grid, arguments, options = launch
    assert (kernel, grid) == (ADD, [1, 1, 1])
    assert options.pop("build")
    assert options.pop("language") == "cuda_cpp"
    assert options == {"block": [8, 4, 1], "shared": 0, "stream": 0, "cooperative": False, "cluster": [0, 0, 0]}
    left, right, out = (pointer(arguments[name]) for name in "012")
    assert (left[0], left[2], left[3]) == (right[0], right[2], right[3]) == ("inputs", 0, BYTES)
    assert left[1] != right[1]
    assert out == ("fresh", made[1], 0, BYTES)
    assert arguments["3"] == ["raw", struct.pack("<i", ROWS * COLUMNS), []]
    (output,) = recording.outputs
    assert output[:3] == ["tensor", "fresh", made[1]]
    assert "only a GPU can tell" in found.verdict.error_message


def test_pointers_inside_a_struct_are_found_and_other_bytes_stay(judged):
    found = undecided(judged("return module.of_struct(x, y)"))
    (launch,) = found.launches
    _, kernel, _, arguments, options = launch
    assert (kernel, options["shared"], options["block"]) == (ADD_PAIR, 512, [64, 1, 1])
    assert arguments["0"] == ["raw", b"a", []]
    kind, content, ((first, left), (second, right)) = arguments["1"]
    assert (kind, content, first, second) == ("raw", bytes(16), 0, 8)
    assert (left[1], left[6], right[1], right[6]) == ("inputs", 0, "inputs", 8)
    assert right[4] == [BYTES - 8]
    assert arguments["2"] == ["raw", struct.pack("<d", 0.5), []]
    assert arguments["4"] == ["raw", struct.pack("<h", ROWS * COLUMNS), []]
    assert [event[0] for event in found.events[1::-1]] == ["fill", "alloc"], "zeros is an allocation and a fill"


def test_memory_of_the_runtime_is_allocated_filled_and_copied_in_the_recording(judged):
    found = undecided(judged("return module.of_runtime_memory(x, y)"))
    kinds = [event[0] for event in found.events]
    assert kinds == ["alloc", "fill", "copy", "literal", "copy", "alloc", "launch"]
    scratch, fill, copied, literal, written, _, launch = found.events
    assert scratch[2] == BYTES
    assert fill[1][1:3] == ["fresh", scratch[1]]
    assert (fill[1][4], fill[2]) == ([BYTES // 2], 7)
    assert copied[1][1:3] == ["fresh", scratch[1]]
    assert copied[2][1] == "inputs"
    assert literal[2] == struct.pack("<ff", 1.5, -2.0)
    assert (written[1][4], written[1][6]) == ([8], 4)
    assert pointer(launch[3]["0"])[:2] == ("fresh", scratch[1])


def test_what_the_constructor_copied_to_a_variable_is_in_each_recording(judged):
    found = undecided(judged("return module.plain(x, y)", init="module.fill_table(2.5)"))
    symbol, launch = found.launches
    assert (symbol[1], launch[1]) == ("cudaMemcpyToSymbol", ADD)
    assert symbol[3] == {"source": ["raw", struct.pack("<f", 2.5), []]}
    places = {"variable": "table", "offset": 4, "size": 4}
    assert symbol[4] == {"build": launch[4]["build"], "language": "cuda_cpp"} | places
    assert len(found.recordings) == 1


def test_a_tensor_copied_to_a_variable_is_copied_in_the_recording(judged):
    symbol, _ = undecided(judged("return module.with_table_of_input(x, y)")).launches
    assert pointer(symbol[3]["source"])[0] == "inputs"
    assert (symbol[4]["variable"], symbol[4]["offset"], symbol[4]["size"]) == ("table", 0, 8)


@pytest.mark.parametrize(("kind", "waits"), [(0, False), (1, True), (2, True)])
def test_work_on_a_stream_that_is_waited_for_is_recorded(judged, kind, waits):
    """The default stream, on which the caller goes on, waits for one that is made without flags."""
    (launch,) = undecided(judged(f"return module.on_other_stream(x, y, {kind}, {waits})")).launches
    assert launch[4]["stream"] > 0


@pytest.mark.parametrize("kind", [1, 2])
def test_work_on_a_stream_that_nobody_waits_for_is_wrong(judged, kind):
    verdict = judged(f"return module.on_other_stream(x, y, {kind}, False)").verdict
    assert verdict.status == "incorrect"
    assert "still running" in verdict.error_message


@pytest.mark.parametrize(
    ("threads", "shared", "blocks", "code"),
    [(1025, 0, 1, 9), (32, 60_000, 1, 1), (32, 0, 0, 9), (0, 0, 1, 9), (32, 48_000, 2, 0)],
)
def test_a_launch_that_no_gpu_accepts_returns_the_error_code_of_one(judged, threads, shared, blocks, code):
    forward = f"assert module.refused(x, y, {threads}, {shared}, {blocks}) == {code}\nreturn module.plain(x, y)"
    assert len(undecided(judged(forward)).launches) == (2 if code == 0 else 1)


@pytest.mark.parametrize(("function", "said"), [("reads", "copies a tensor's content to the host"), ("item", "reads")])
def test_host_code_that_reads_a_content_needs_a_gpu_and_is_not_recorded(judged, function, said):
    verdict = judged(f"return module.{function}(x, y)").verdict
    assert (verdict.status, verdict.error_category) == ("undecided", "needs_device")
    assert said in verdict.error_message
    assert verdict.compiled


@pytest.mark.parametrize("capture", ["torch.cuda.CUDAGraph()", "torch.cuda.graph(None)"])
def test_host_code_that_captures_a_graph_is_rejected_with_what_to_write_instead(judged, capture):
    verdict = judged(f"{capture}\nreturn module.plain(x, y)").verdict
    assert (verdict.status, verdict.error_category) == ("rejected", "unsupported_feature")
    assert "Launch the kernels themselves" in verdict.error_message


def test_host_code_that_computes_with_torch_is_refused_with_its_line(judged):
    verdict = judged("return module.computes(x, y)").verdict
    assert (verdict.status, verdict.flags) == ("rejected", ("torch_fallback",))
    assert "computes with torch instead of CUDA C++: aten::add (line" in verdict.error_message


@pytest.mark.parametrize(
    ("call", "category", "said"),
    [
        ("module.of_other_type(x, y)", "dtype_error", "expected scalar type Double but found Float"),
        ("module.checks(x, y)", "runtime_error", "rows of [3, 5] Float are not 7"),
        ("module.plain(x)", "type_error", "plain(): argument 2 is missing"),
        ("module.plain(x, 1.5)", "type_error", "a Tensor was expected, got a float"),
        ("module.plain(x, y, y)", "type_error", "takes 2 arguments; 3 were given"),
        ("module.plain(x, z=y)", "type_error", "unexpected keyword argument 'z'"),
        ("module.by_thread(x, y)", "argument_error", "from a thread of its own"),
        ("module.absent(x, y)", "attribute_error", "absent"),
    ],
)
def test_errors_of_host_code_are_those_of_torch(judged, call, category, said):
    verdict = judged(f"return {call}").verdict
    assert (verdict.status, verdict.error_category) == ("runtime_error", category), verdict
    assert said in verdict.error_message
    assert verdict.compiled


def test_defaults_optional_arguments_and_tuples_cross_in_both_directions(judged):
    forward = "out, number = module.with_defaults(x, scale=0.5, y=y)\nassert number == 7.5, number\n"
    forward += "assert module.with_defaults(x)[1] == 9.0\nreturn out"
    first, second = undecided(judged(forward)).launches
    assert pointer(first[3]["0"]) == pointer(second[3]["0"]) == pointer(second[3]["1"])
    assert pointer(first[3]["1"]) != pointer(first[3]["0"])


def test_a_launch_in_the_constructor_needs_a_gpu(judged):
    verdict = judged("return module.plain(x, y)", init="module.plain(torch.ones(3, 5), torch.ones(3, 5))").verdict
    assert (verdict.status, verdict.error_category) == ("undecided", "needs_device")
    assert "outside forward" in verdict.error_message


def test_forward_without_a_launch_is_rejected(judged):
    verdict = judged("return torch.zeros_like(x)").verdict
    assert (verdict.status, verdict.flags) == ("rejected", ("no_kernel",))
    assert "launched no CUDA C++ kernel" in verdict.error_message


def test_a_workspace_that_the_constructor_makes_is_a_constant_of_the_recording(judged):
    found = undecided(judged("return module.plain(x, self.ones)", init='self.ones = torch.ones(3, 5, device="cuda")'))
    constants = [event for event in found.events if event[0] == "const"]
    assert [event[2] for event in constants] == [struct.pack("<15f", *[1.0] * 15)]


def test_a_wrong_output_form_is_seen_without_a_gpu(judged):
    verdict = judged("return module.plain(x, y).view(-1)").verdict
    assert verdict.status == "incorrect"
    assert "has shape [15]; expected [3, 5]" in verdict.error_message


OTHER = '''
OTHER = """
__constant__ float table[8];
__global__ void add(const float* a, const float* b, float* out, int n) { out[threadIdx.x] = a[0] + b[0] + n; }
at::Tensor other(at::Tensor x, at::Tensor y, double value) {
  const float narrow = value;
  cudaMemcpyToSymbol(table, &narrow, sizeof narrow);
  auto out = at::empty_like(x);
  add<<<1, 15>>>(x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), 0);
  return out;
}
"""
other = load_inline("other", "at::Tensor other(at::Tensor x, at::Tensor y, double value);", OTHER, functions=["other"])

'''


def test_kernels_and_variables_of_one_name_in_two_builds_are_distinguished(judged, monkeypatch):
    """And a variable that is written in each call has one value in each recording."""
    monkeypatch.setitem(globals(), "BUILD", BUILD + OTHER)
    found = undecided(judged("return other.other(module.plain(x, y), y, 4.0)", init="module.fill_table(2.5)"))
    first, plain, second, other = found.launches
    assert (plain[1], other[1]) == (ADD, ADD)
    assert plain[4]["build"] == first[4]["build"] != second[4]["build"] == other[4]["build"]
    assert second[3] == {"source": ["raw", struct.pack("<f", 4.0), []]}
    assert len(found.recordings) == 1


def test_launches_of_both_languages_are_recorded_in_their_order_each_with_its_own(judged):
    forward = """\
first = module.plain(x, y)
second = torch.empty_like(first)
copy[(1,)](first, second, first.numel(), BLOCK=16, num_warps=1)
return module.plain(second, y)"""
    found = undecided(judged(forward))
    kernels = [(event[1].rpartition(" ")[0] or event[1], event[4]["language"]) for event in found.launches]
    assert [language for _, language in kernels] == ["cuda_cpp", "triton", "cuda_cpp"]
    assert [event[1] for event in found.launches[::2]] == [ADD, ADD]
    first, second, third = found.launches
    assert second[4] == {"num_warps": 1, "language": "triton"}
    assert second[3]["n"] == ["value", ROWS * COLUMNS]
    assert second[3]["x_ptr"][1:3] == list(pointer(first[3]["2"])[:2])
    assert second[3]["out_ptr"][1:3] == list(pointer(third[3]["0"])[:2])
    (recording,) = found.recordings
    assert [launch["language"] for launch in recording.launches] == ["cuda_cpp", "triton", "cuda_cpp"]


def test_a_triton_kernel_beside_a_build_has_the_compile_errors_of_triton(judged):
    found = judged("out = module.plain(x, y)\nmisspelt[(1,)](out, BLOCK=16)\nreturn out")
    assert (found.verdict.status, found.verdict.error_category) == ("compile_error", "triton_compilation_error")
    assert "misspelt" in found.verdict.error_message
    assert not found.verdict.compiled


def test_a_candidate_whose_build_is_not_launched_from_is_judged_by_its_triton_kernels(judged):
    found = undecided(judged("out = torch.empty_like(x)\ncopy[(1,)](x, out, x.numel(), BLOCK=16)\nreturn out"))
    assert [event[4]["language"] for event in found.launches] == ["triton"]
