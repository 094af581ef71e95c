"""Candidates in CUDA C++ that read contents on the host, all of one build; the problem is `x + y`.

Each says how it may end on a GPU. The honest ones need a content for a check, or for nothing that decides the output.
"""

from dataclasses import dataclass

from warpsmith.evaluator import Problem

ROWS, COLUMNS = 24, 32
PROBLEM = Problem.from_source(
    "import torch\nimport torch.nn as nn\n\n"
    "class Model(nn.Module):\n    def forward(self, x, y):\n        return x + y\n\n"
    f"def get_inputs():\n    return [torch.randn({ROWS}, {COLUMNS}), torch.randn({ROWS}, {COLUMNS})]\n",
    "sum",
)

KERNELS = r"""
struct Pair { const float* left; const float* right; };
struct Nested { char flag; Pair pair; float* out; int count; };
__constant__ float table[4] = {1.f, 1.f, 1.f, 1.f};
__device__ float scale = 1.f;

__global__ void add(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + y[i];
}
template <typename T, int STEP>
__global__ void add_strided(const T* x, const T* y, T* out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += STEP) out[i] = x[i] + y[i];
}
__global__ void add_nested(Nested given) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (given.flag == 'a' && i < given.count) given.out[i] = given.pair.left[i] + given.pair.right[i];
}
__global__ void add_by_table(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = table[0] * x[i] + table[1] * y[i];
}
__global__ void add_scaled(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = scale * x[i] + y[i];
}
__global__ void add_with(const float* x, float value, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + value;
}
__global__ void to_the_end(const float* x, const float* end, const float* y, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (x + i < end) out[i] = x[i] + y[i];
}
__global__ void set(float* out, float value, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = value;
}
"""
LAUNCHED = (
    "add",
    "add_strided<float, 256>",
    "add_nested",
    "add_by_table",
    "add_scaled",
    "add_with",
    "to_the_end",
    "set",
)
VARIABLES = {"table": 16, "scale": 4}

HOST = r"""
static float* f(const at::Tensor& t) { return t.data_ptr<float>(); }
static int n(const at::Tensor& t) { return static_cast<int>(t.numel()); }
static int blocks(int count) { return (count + 127) / 128; }

at::Tensor plain(at::Tensor x, at::Tensor y) {
  auto out = at::empty_like(x);
  add<<<blocks(n(x)), 128>>>(f(x), f(y), f(out), n(x));
  return out;
}
static void check(float value) { TORCH_CHECK(std::isfinite(value) && value > -1e30f, "a number is not finite"); }

// Honest: a content is checked, or decides nothing -------------------------------------------------------------------
at::Tensor item_is_checked(at::Tensor x, at::Tensor y) {
  check(x[1][2].item<float>());
  return plain(x, y);
}
at::Tensor copy_is_checked(at::Tensor x, at::Tensor y) {
  std::vector<float> all(x.numel());
  cudaMemcpy(all.data(), f(x), x.nbytes(), cudaMemcpyDeviceToHost);
  for (float one : all) check(one);
  return plain(x, y);
}
at::Tensor async_copy_is_checked(at::Tensor x, at::Tensor y) {
  float* host = nullptr;
  cudaMallocHost(reinterpret_cast<void**>(&host), x.nbytes());
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaMemcpyAsync(host, f(x), x.nbytes(), cudaMemcpyDeviceToHost, stream);
  cudaStreamSynchronize(stream);
  for (int i = 0; i < n(x); ++i) check(host[i]);
  cudaFreeHost(host);
  cudaStreamDestroy(stream);
  return plain(x, y);
}
at::Tensor host_tensor_is_checked(at::Tensor x, at::Tensor y) {
  auto host = x.cpu();
  const float* all = f(host);
  for (int i = 0; i < n(x); ++i) check(all[i]);
  return plain(x, y);
}
at::Tensor result_is_checked(at::Tensor x, at::Tensor y) {
  auto half = at::empty_like(x);
  set<<<blocks(n(x)), 128>>>(f(half), 7.f, n(x));
  float seen[2] = {0.f, 0.f};
  cudaMemcpy(seen, f(half) + n(x) - 2, sizeof seen, cudaMemcpyDeviceToHost);
  TORCH_CHECK(seen[0] == 7.f && seen[1] == 7.f, "the first launch has not run, or its result was not copied");
  add<<<blocks(n(x)), 128>>>(f(x), f(y), f(half), n(x));
  return half;
}
at::Tensor both_ways(at::Tensor x, at::Tensor y) {
  return x[0][0].item<float>() > 0 ? plain(x, y) : plain(y, x);
}
at::Tensor two_streams(at::Tensor x, at::Tensor y, bool waits) {
  check(x[0][0].item<float>());
  cudaStream_t first, second;
  cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
  cudaEvent_t half;
  cudaEventCreate(&half);
  auto out = at::empty_like(x);
  const int part = n(x) / 2;
  add<<<blocks(part), 128, 0, first>>>(f(x), f(y), f(out), part);
  cudaEventRecord(half, first);
  cudaStreamWaitEvent(second, half, 0);
  add<<<blocks(n(x) - part), 128, 0, second>>>(f(x) + part, f(y) + part, f(out) + part, n(x) - part);
  if (waits) cudaStreamSynchronize(second);
  return out;
}
at::Tensor scratch(at::Tensor x, at::Tensor y) {
  check(x[0][0].item<float>());
  float *small = nullptr, *large = nullptr;
  cudaMalloc(reinterpret_cast<void**>(&small), 512);
  cudaMemsetAsync(small, 0, 512);
  cudaFree(small);
  cudaMalloc(reinterpret_cast<void**>(&large), x.nbytes());
  cudaMemcpyAsync(large, f(x), x.nbytes(), cudaMemcpyDeviceToDevice);
  auto out = at::empty_like(x);
  add<<<blocks(n(x)), 128>>>(large, f(y), f(out), n(x));
  cudaFree(large);
  return out;
}
at::Tensor from_the_middle(at::Tensor x, at::Tensor y) {
  check(x[0][0].item<float>());
  auto out = at::empty_like(x);
  for (int row = 0; row < x.size(0); ++row) {
    const int at = row * static_cast<int>(x.size(1));
    add<<<1, 128>>>(f(x) + at, f(y) + at, f(out) + at, static_cast<int>(x.size(1)));
  }
  return out;
}
at::Tensor of_rows(at::Tensor x, at::Tensor y) {
  check(x[0][0].item<float>());
  auto out = at::empty_like(x);
  for (int64_t row = 0; row < x.size(0); ++row)
    add<<<1, 128>>>(f(x[row]), f(y[row]), f(out[row]), static_cast<int>(x.size(1)));
  return out;
}
at::Tensor to_an_end(at::Tensor x, at::Tensor y) {
  check(x[0][0].item<float>());
  auto out = at::empty_like(x);
  to_the_end<<<blocks(n(x)), 128>>>(f(x), f(x) + n(x), f(y), f(out));
  return out;
}
at::Tensor of_struct(at::Tensor x, at::Tensor y) {
  check(x[0][0].item<float>());
  auto out = at::empty_like(x);
  Nested given;
  std::memset(&given, 0, sizeof given);
  given.flag = 'a';
  given.pair = {f(x), f(y)};
  given.out = f(out);
  given.count = n(x);
  add_nested<<<blocks(n(x)), 128>>>(given);
  return out;
}
at::Tensor of_template(at::Tensor x, at::Tensor y) {
  check(x[0][0].item<float>());
  auto out = at::empty_like(x);
  add_strided<float, 256><<<2, 128>>>(f(x), f(y), f(out), n(x));
  return out;
}
void fill_table(double value) {
  const float narrow[2] = {static_cast<float>(value), static_cast<float>(value)};
  cudaMemcpyToSymbol(table, narrow, sizeof narrow);
}
at::Tensor by_table(at::Tensor x, at::Tensor y) {
  check(x[0][0].item<float>());
  auto out = at::empty_like(x);
  add_by_table<<<blocks(n(x)), 128>>>(f(x), f(y), f(out), n(x));
  return out;
}
at::Tensor by_table_of_tensor(at::Tensor x, at::Tensor y, at::Tensor ones) {
  cudaMemcpyToSymbol(table, f(ones), 8, 0, cudaMemcpyDeviceToDevice);
  return by_table(x, y);
}
at::Tensor made(at::Tensor like, double value) {
  auto out = at::empty_like(like);
  set<<<blocks(n(like)), 128>>>(f(out), static_cast<float>(value), n(like));
  return out;
}
at::Tensor with_host_table(at::Tensor x, at::Tensor y) {
  auto host = at::empty({2}, at::kFloat);
  f(host)[0] = f(host)[1] = 1.f;
  auto ones = host.to(x.device());
  cudaMemcpyToSymbol(table, f(ones), 8, 0, cudaMemcpyDeviceToDevice);
  return by_table(x, y);
}
int64_t processors() {
  int found = 0;
  cudaDeviceGetAttribute(&found, cudaDevAttrMultiProcessorCount, 0);
  return found;
}

// Copies between addresses of the device of which one is none.
at::Tensor copies_of_no_memory(at::Tensor x, at::Tensor y) {
  check(x[0][0].item<float>());
  void* none = reinterpret_cast<void*>(0x1000);
  auto out = at::empty_like(x);
  TORCH_CHECK(cudaMemcpy(f(out), none, 64, cudaMemcpyDeviceToDevice) != cudaSuccess, "no memory was copied");
  TORCH_CHECK(cudaMemcpy(none, f(x), 64, cudaMemcpyDeviceToDevice) != cudaSuccess, "no memory was written");
  TORCH_CHECK(cudaMemcpyToSymbol(table, none, 8, 0, cudaMemcpyDeviceToDevice) != cudaSuccess, "none was a source");
  TORCH_CHECK(cudaMemcpyToSymbol(table, nullptr, 0) == cudaSuccess, "a copy of nothing failed");
  TORCH_CHECK(cudaFree(none) != cudaSuccess, "no memory was freed");
  return plain(x, y);
}

// Not from kernels ---------------------------------------------------------------------------------------------------
at::Tensor item_is_an_argument(at::Tensor x, at::Tensor y) {
  auto out = plain(x, y);
  add_with<<<1, 1>>>(f(x), y[0][0].item<float>(), f(out), 1);
  return out;
}
at::Tensor item_is_a_size(at::Tensor x, at::Tensor y) {
  const float first = std::fabs(x[0][0].item<float>());
  const int count = n(x) - static_cast<int>(first * 1000) % n(x);
  auto out = at::zeros_like(x);
  add<<<blocks(count), 128>>>(f(x), f(y), f(out), count);
  return out;
}
at::Tensor computes_on_the_host(at::Tensor x, at::Tensor y) {
  std::vector<float> a(x.numel()), b(x.numel());
  cudaMemcpy(a.data(), f(x), x.nbytes(), cudaMemcpyDeviceToHost);
  cudaMemcpy(b.data(), f(y), x.nbytes(), cudaMemcpyDeviceToHost);
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  auto out = at::empty_like(x);
  set<<<1, 1>>>(f(out), 0.f, 1);
  cudaMemcpy(f(out), a.data(), x.nbytes(), cudaMemcpyHostToDevice);
  return out;
}
at::Tensor launches_by_content(at::Tensor x, at::Tensor y) {
  auto out = at::zeros_like(x);
  std::vector<float> all(x.numel());
  cudaMemcpy(all.data(), f(x), x.nbytes(), cudaMemcpyDeviceToHost);
  for (int i = 0; i < n(x); ++i)
    if (all[i] > 1.5f) add<<<1, 1>>>(f(x) + i, f(y) + i, f(out) + i, 1);
  return out;
}
at::Tensor table_of_content(at::Tensor x, at::Tensor y) {
  const float read = x[0][0].item<float>();
  const float both[2] = {1.f, 1.f + (read - std::floor(read))};
  cudaMemcpyToSymbol(table, both, sizeof both);
  return by_table(x, y);
}
at::Tensor peeks_then_launches_less(at::Tensor x, at::Tensor y) {
  static float known = 0.f;
  static at::Tensor kept;
  const float first = x[0][0].item<float>();
  if (kept.defined() && known == first) {
    auto out = at::empty_like(x);
    set<<<1, 1>>>(f(out), 0.f, 1);
    cudaMemcpyAsync(f(out), f(kept), x.nbytes(), cudaMemcpyDeviceToDevice);
    return out;
  }
  known = first;
  kept = plain(x, y);
  return kept.clone();
}
at::Tensor static_state(at::Tensor x, at::Tensor y) {
  static int calls = 0;
  check(x[0][0].item<float>());
  if (calls++ == 0) return plain(x, y);
  auto out = at::zeros_like(x);
  add<<<1, 32>>>(f(x), f(y), f(out), 32);
  return out;
}
at::Tensor variable_of_the_constructor(at::Tensor x, at::Tensor y) {
  check(x[0][0].item<float>());
  auto out = at::empty_like(x);
  add_scaled<<<blocks(n(x)), 128>>>(f(x), f(y), f(out), n(x));
  return out;
}

// Attacks on memory --------------------------------------------------------------------------------------------------
at::Tensor fills_an_input(at::Tensor x, at::Tensor y) {
  check(x[0][0].item<float>());
  cudaMemsetAsync(f(x), 0, x.nbytes());
  return plain(x, y);
}
at::Tensor copies_to_an_input(at::Tensor x, at::Tensor y) {
  check(x[0][0].item<float>());
  cudaMemcpyAsync(f(x), f(y), x.nbytes(), cudaMemcpyDeviceToDevice);
  return plain(x, y);
}
at::Tensor writes_to_an_input(at::Tensor x, at::Tensor y) {
  check(x[0][0].item<float>());
  set<<<blocks(n(x)), 128>>>(f(x), 1.f, n(x));
  return plain(x, y);
}
at::Tensor reads_by_address(at::Tensor x, at::Tensor y) {
  check(x[0][0].item<float>());
  check(*f(x));
  return plain(x, y);
}
at::Tensor frees_an_input(at::Tensor x, at::Tensor y) {
  check(x[0][0].item<float>());
  TORCH_CHECK(cudaFree(f(x)) != cudaSuccess, "an input was freed");
  return plain(x, y);
}
at::Tensor beyond_its_tensor(at::Tensor x, at::Tensor y) {
  check(x[0][0].item<float>());
  auto out = plain(x, y);
  add<<<1, 1>>>(f(x) + n(x) + (1 << 20), f(y), f(out), 1);
  return out;
}
"""
_OF_TWO = (
    *("plain", "item_is_checked", "copy_is_checked", "async_copy_is_checked", "host_tensor_is_checked"),
    *("result_is_checked", "both_ways", "scratch", "from_the_middle", "of_rows", "to_an_end", "of_struct"),
    *(
        "of_template",
        "by_table",
        "with_host_table",
        "copies_of_no_memory",
        "item_is_an_argument",
        "item_is_a_size",
        "computes_on_the_host",
    ),
    *("launches_by_content", "table_of_content", "peeks_then_launches_less", "static_state"),
    *("variable_of_the_constructor", "fills_an_input", "copies_to_an_input", "writes_to_an_input"),
    *("reads_by_address", "frees_an_input", "beyond_its_tensor"),
)
CPP = (
    "#include <string>\n"
    + "".join(f"at::Tensor {name}(at::Tensor x, at::Tensor y);\n" for name in _OF_TWO)
    + """\
at::Tensor two_streams(at::Tensor x, at::Tensor y, bool waits);
at::Tensor by_table_of_tensor(at::Tensor x, at::Tensor y, at::Tensor ones);
at::Tensor made(at::Tensor like, double value);
void fill_table(double value);
int64_t processors();
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
"""
    + "".join(
        f'  m.def("{name}", &{name});\n'
        for name in (*_OF_TWO, "two_streams", "by_table_of_tensor", "made", "fill_table", "processors")
    )
    + "}\n"
)
CUDA = f"#include <cmath>\n#include <cstring>\n#include <vector>\n{KERNELS}\n{HOST}"
HEAD = f'''\
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""{CUDA}"""
CPP = r"""{CPP}"""
module = load_inline("readers", CPP, CUDA)

'''


@dataclass(frozen=True)
class Reader:
    """A candidate, and how it may end on a GPU.

    Attributes:
        forward: the lines of its forward.
        permitted: statuses.
        init: a line of its constructor.
        said: a part of the message, if it does not end as `correct`.
    """

    forward: str
    permitted: tuple[str, ...] = ("correct",)
    init: str = "pass"
    said: str = ""

    @property
    def source(self) -> str:
        lines = "".join(f"        {line}\n" for line in self.forward.splitlines())
        return (
            f"{HEAD}class ModelNew(nn.Module):\n"
            f"    def __init__(self):\n        super().__init__()\n        {self.init}\n\n"
            f"    def forward(self, x, y):\n{lines}"
        )


DEPENDS = ("rejected",)
EITHER = ("rejected", "incorrect")
"""Where host code can act in few ways, the recordings can have all of them: then the replays are merely wrong."""


def _calls(name: str, permitted: tuple[str, ...] = ("correct",), said: str = "") -> Reader:
    return Reader(f"return module.{name}(x, y)", permitted, said=said)


HONEST = {
    **{
        name: _calls(name)
        for name in (
            *("item_is_checked", "copy_is_checked", "async_copy_is_checked", "host_tensor_is_checked"),
            *("result_is_checked", "scratch", "from_the_middle", "of_rows", "to_an_end", "of_struct"),
            *("of_template", "by_table", "variable_of_the_constructor", "frees_an_input", "copies_of_no_memory"),
        )
    },
    "two_streams": Reader("return module.two_streams(x, y, True)"),
    "item_in_python": Reader("assert x[0, 0].item() < 1e30\nreturn module.plain(x, y)"),
    "table_from_host": Reader("return module.by_table(x, y)", init="module.fill_table(1.0)"),
    "table_from_tensor": Reader("return module.by_table_of_tensor(x, y, torch.ones(2, device=x.device))"),
    "kernel_in_the_constructor": Reader(
        "return module.by_table_of_tensor(x, y, self.ones)",
        init='self.ones = module.made(torch.empty(2, device="cuda"), 1.0)',
    ),
    "asks_for_the_device": Reader("assert module.processors() > 0\nreturn module.item_is_checked(x, y)"),
}
DISHONEST = {
    **{
        name: _calls(name, DEPENDS, "depends on the values")
        for name in ("item_is_an_argument", "computes_on_the_host", "launches_by_content", "table_of_content")
    },
    "item_is_a_size": _calls("item_is_a_size", EITHER),
    # Correct only if the recorded calls met contents of both kinds.
    "both_ways": _calls("both_ways", ("correct", "rejected")),
    "peeks_then_launches_less": _calls("peeks_then_launches_less", EITHER),
    "static_state": _calls("static_state", EITHER),
    "kernel_in_the_constructor_of_content": Reader(
        "return module.by_table_of_tensor(x, y, self.table)",
        EITHER,
        init='self.table = module.made(torch.empty(2, device="cuda"), 1.5)',
    ),
}
NOT_AWAITED = Reader("return module.two_streams(x, y, False)", ("incorrect",), said="still running")
ON_MEMORY = {
    "fills_an_input": _calls("fills_an_input", ("runtime_error",), "read-only"),
    "copies_to_an_input": _calls("copies_to_an_input", ("runtime_error",), "read-only"),
    "writes_to_an_input": _calls("writes_to_an_input", ("runtime_error",)),
    "reads_by_address": _calls("reads_by_address", ("runtime_error",)),
    "beyond_its_tensor": _calls("beyond_its_tensor", ("runtime_error",)),
}
WITH_HOST_TABLE = _calls("with_host_table")
"""Needs a device whose memory is not the host's."""
