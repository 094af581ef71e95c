"""Recordings of CUDA C++ played on a real GPU: twins compute what kernels compute, and no call sees another."""

import struct

import pytest
import torch

from warpsmith.evaluator.devices.cuda import CudaDevice
from warpsmith.evaluator.devices.tensor_views import content, view
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc.tensor_slots import contiguous, pack
from warpsmith.evaluator.languages.cuda_cpp import compilation
from warpsmith.evaluator.languages.cuda_cpp.builds import Build
from warpsmith.evaluator.languages.cuda_cpp.language import CUDA_CPP
from warpsmith.evaluator.languages.cuda_cpp.with_triton import CUDA_CPP as WITH_TRITON
from warpsmith.evaluator.recordings.errors import IllegalAccessError
from warpsmith.evaluator.workers.player_cuda import Arena, DeviceReplay

pytestmark = pytest.mark.gpu

N = 256
SOURCE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__device__ int calls = 40;
__device__ float kept[256];
__constant__ float table[4] = {1.f, 2.f, 3.f, 4.f};
extern "C" __global__ void doubled(const float* x, float* y) { y[threadIdx.x] = 2.f * x[threadIdx.x]; }
extern "C" __global__ void counted(const float* x, float* y) {
  __shared__ int now;
  if (threadIdx.x == 0) now = atomicAdd(&calls, 1);
  __syncthreads();
  y[threadIdx.x] = now + kept[threadIdx.x];
  kept[threadIdx.x] += x[threadIdx.x];
}
extern "C" __global__ void scaled(const float* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x] * table[threadIdx.x & 3];
}
extern "C" __global__ void beyond(const float* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x == 0) y[1 << 22] = 1.f;
}
extern "C" __global__ void wide(const float* x, float* y) {
  extern __shared__ float large[];
  const int i = threadIdx.x + threadIdx.y * blockDim.x + threadIdx.z * blockDim.x * blockDim.y;
  for (int k = i; k < 20000; k += 256) large[k] = x[k & 255];
  __syncthreads();
  y[i] = large[19712 + i];
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) neighbours(const float* x, float* y) {
  __shared__ float own[128];
  own[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
  auto cluster = cg::this_cluster();
  cluster.sync();
  y[blockIdx.x * 128 + threadIdx.x] = cluster.map_shared_rank(own, cluster.block_rank() ^ 1)[threadIdx.x];
  cluster.sync();
}
extern "C" __global__ void meeting(const float* x, float* y) {
  y[blockIdx.x * 32 + threadIdx.x] = x[blockIdx.x * 32 + threadIdx.x];
  cg::this_grid().sync();
  const float other = y[(gridDim.x - 1 - blockIdx.x) * 32 + threadIdx.x];
  cg::this_grid().sync();
  y[blockIdx.x * 32 + threadIdx.x] = other;
}
extern "C" __global__ void to_the_end(const float* x, const float* end, float* y) {
  for (const float* at = x + threadIdx.x; at < end; at += 32) y[at - x] = *at;
}
"""
CPP = "#include <torch/extension.h>\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}\n"


@pytest.fixture(scope="module")
def device(gpu) -> CudaDevice:
    return CudaDevice()


@pytest.fixture(scope="module")
def cubins(device, tmp_path_factory):
    build = Build("f", (("main.cpp", CPP), ("f.cu", SOURCE)))
    found = compilation.compile_text(build.text(), tmp_path_factory.mktemp("build"), device.handle.arch, twins=True)
    assert found["ok"], found["message"]
    (one,) = found["binaries"][0]["cubins"]
    assert one["fence_errors"] == {}
    return [one]


def pointer(memory, start, size=4 * N, offset=0):
    return ["raw", bytes(8), [[0, ["tensor", memory, start, "uint8", [size], [1], offset]]]]


X, OUT = pointer("inputs", 0), pointer("fresh", 0)
RESULT = ["tensor", "fresh", 0, "float32", [N], [1], 0]


def launch(kernel, *arguments, grid=(1, 1, 1), block=(N, 1, 1), shared=0, cooperative=False, cluster=(0, 0, 0)):
    options = {"build": "b", "block": list(block), "shared": shared, "stream": 0, "cooperative": cooperative}
    named = {str(number): argument for number, argument in enumerate(arguments or (X, OUT))}
    return ["launch", kernel, list(grid), named, options | {"cluster": list(cluster)}]


def symbol(name, content, offset=0):
    options = {"build": "b", "variable": name, "offset": offset, "size": len(content)}
    return ["launch", "cudaMemcpyToSymbol", [], {"source": ["raw", content, []]}, options]


@pytest.fixture
def game(device, cubins):
    """Returns a function that sets up a recording, and one that plays it and returns the output."""
    slots, size = pack([contiguous("float32", (N,))], 1 << 20)
    inputs, state = device.create("inputs", size), device.create("state", 512)
    answers = device.create("answers", size, writable_by_peer=True)
    x = view(inputs, slots[0])
    x.copy_(torch.arange(N, device="cuda") + 1.0)

    def set_up(*events, language=CUDA_CPP, binaries=None):
        launches = [event for event in events if event[0] == "launch" and event[1] != "cudaMemcpyToSymbol"]
        code = [{"build": "b", "cubins": [] if number else cubins} for number in range(len(launches))]
        replay = DeviceReplay(
            device,
            {"inputs": Arena(inputs, slots), "state": Arena(state, [])},
            [["alloc", 0, 4 * N], *events],
            binaries or code,
            language=language,
            outputs=[RESULT],
            answer=slots,
        )
        replay.set_up(answers)
        return replay

    def play(replay, **options):
        content(answers).zero_()
        replay.play(**options)
        return view(answers, slots[0]).clone()

    return set_up, play, x


def plainly(replay):
    """Play without twins, as timed calls are."""
    call = replay._call
    replay._write_first()
    call.reset()
    call.scrub()
    call.run()
    call.deliver()
    torch.cuda.synchronize()


@pytest.mark.parametrize(
    "event",
    [
        launch("doubled"),
        launch("scaled"),
        launch("wide", block=(8, 8, 4), shared=80000),
        launch("neighbours", grid=(2, 1, 1), block=(128, 1, 1), cluster=(2, 1, 1)),
        launch("meeting", grid=(8, 1, 1), block=(32, 1, 1), cooperative=True),
        launch("to_the_end", X, pointer("inputs", 0, 0, 4 * N), OUT, block=(32, 1, 1)),
    ],
    ids=lambda event: event[1],
)
def test_a_twin_computes_what_its_kernel_computes(game, event):
    set_up, play, x = game
    replay = set_up(event)
    assert replay._call.is_fenced
    found = play(replay)
    expected = {
        "doubled": 2 * x,
        "scaled": x * (torch.arange(N, device="cuda") % 4 + 1),
        "wide": x,
        "neighbours": x.view(2, 128).flip(0).reshape(-1),
        "meeting": x.view(8, 32).flip(0).reshape(-1),
        "to_the_end": x,
    }[event[1]]
    assert torch.equal(found, expected)
    assert torch.equal(play(replay, garbage=True), expected)
    content(replay._call.answers).zero_()
    plainly(replay)
    slot = replay._call.outputs[0][0]
    assert torch.equal(view(replay._call.answers, slot), expected)


def test_variables_hold_at_each_call_what_they_held_after_loading(game):
    set_up, play, x = game
    replay = set_up(launch("counted"), launch("counted"))
    for _ in range(3):
        assert torch.equal(play(replay), 41 + x)
        plainly(replay)
        assert torch.equal(view(replay._call.answers, replay._call.outputs[0][0]), 41 + x)


def test_a_graph_of_calls_resets_variables_too(game):
    set_up, _, x = game
    replay = set_up(launch("counted"))
    plainly(replay)
    call, graph = replay._call, torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for fenced in (False, True, False):
            call.reset()
            call.scrub()
            call.run(fenced=fenced)
            call.deliver()
    for _ in range(2):
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(view(call.answers, call.outputs[0][0]), torch.full_like(x, 40))


def test_a_copy_to_a_variable_comes_after_the_reset_and_only_in_its_call(game):
    set_up, play, x = game
    tens = struct.pack("<2f", 10.0, 20.0)
    replay = set_up(launch("scaled"), symbol("table", tens, 8), launch("scaled"))
    weights = torch.tensor([1.0, 2.0, 10.0, 20.0], device="cuda")
    for _ in range(2):
        assert torch.equal(play(replay), x * weights[torch.arange(N, device="cuda") % 4])
    again = set_up(launch("scaled"))
    assert torch.equal(play(again), x * (torch.arange(N, device="cuda") % 4 + 1))


@pytest.mark.parametrize(("name", "offset"), [("table", 12), ("table", -1), ("nothing", 0)])
def test_a_copy_that_does_not_fit_is_refused(game, name, offset):
    set_up, _, _ = game
    with pytest.raises(WireError, match="does not fit"):
        set_up(launch("scaled"), symbol(name, bytes(8), offset))


def test_an_access_beyond_the_tensors_is_named(game):
    set_up, play, _ = game
    with pytest.raises(IllegalAccessError, match="bytes behind the end of 1 of beyond"):
        play(set_up(launch("beyond")))


def test_without_kernels_nothing_is_computed(game):
    set_up, play, _ = game
    found = play(set_up(launch("doubled")), ghost=True, poison=0)
    assert not found.any()


IN_TRITON = """\
import triton
import triton.language as tl

@triton.jit
def plus_one(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1.0, mask=i < n)
"""


def test_launches_of_both_languages_play_in_their_order(device, cubins, game, tmp_path):
    set_up, play, x = game
    between = ["tensor", "fresh", 1, "float32", [N], [1], 0]
    arguments = {"x_ptr": between, "out_ptr": RESULT, "n": ["value", N], "BLOCK": ["value", N]}
    first = launch("doubled", X, pointer("fresh", 1))
    first[4]["language"] = "cuda_cpp"
    second = ["launch", "plus_one", [1], arguments, {"num_warps": 4, "language": "triton"}]
    events = [["alloc", 1, 4 * N], first, second]
    asked = {name: value for name, value in WITH_TRITON.launches_of(events)[1].items() if name != "language"}
    made = WITH_TRITON.parts["triton"].compile(IN_TRITON, [asked], tmp_path, device.handle.arch, binaries=True)
    assert made["ok"], made["message"]
    code = [{"build": "b", "cubins": cubins}, made["binaries"][0]]
    replay = set_up(*events, language=WITH_TRITON, binaries=code)
    assert replay._call.is_fenced
    assert torch.equal(play(replay), 2 * x + 1)
    assert torch.equal(play(replay, garbage=True), 2 * x + 1)
    content(replay._call.answers).zero_()
    plainly(replay)
    assert torch.equal(view(replay._call.answers, replay._call.outputs[0][0]), 2 * x + 1)
