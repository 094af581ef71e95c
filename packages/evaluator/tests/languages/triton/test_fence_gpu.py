"""Fenced twins on a real GPU: honest kernels give the same bits, and nothing that leaves its tensors comes of it."""

from pathlib import Path
from typing import Any

import fenced_kernels
import pytest
import torch
from fenced_kernels import F32, I32, LAUNCHES, LAUNCHES_90, launch_of, pointer
from triton.tools.tensor_descriptor import TensorDescriptor

from warpsmith.evaluator.devices.cuda import CudaDevice
from warpsmith.evaluator.devices.tensor_views import TORCH_DTYPES
from warpsmith.evaluator.languages.fencing.fence import RECORD_BYTES, FencePlan
from warpsmith.evaluator.languages.triton import compilation
from warpsmith.evaluator.languages.triton.kernel_set import KernelSet
from warpsmith.evaluator.languages.triton.loaded_kernels import ArgumentError, Binary, LoadedKernel

pytestmark = pytest.mark.gpu

SIDE = 256
GRIDS = {
    "add": (4,), "softmax": (8,), "matmul": (4, 4), "matmul_eight_warps": (2, 2), "matmul_two_blocks": (2, 2),
    "counters": (4,), "spin_lock": (8,), "half_sums": (4,), "by_hand": (4,), "loads_by_hand": (4,), "eights": (4,),
    "special": (4,), "hinted": (4,), "noise": (4,), "doubles": (8,), "flags": (8,), "attention": (4,),
    "described": (8, 8), "described_matmul": (4, 4), "described_sum": (8,), "own_descriptor": (2, 2),
}  # fmt: skip
HOSTILE = """\
import triton
import triton.language as tl

@triton.jit
def reads_beyond(x, out, shift, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + shift + at))

@triton.jit
def writes_beyond(x, out, shift, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + shift + at, tl.load(x + at))

@triton.jit
def reads_by_hand(x, out, shift, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.inline_asm_elementwise("ld.global.b32 $0, [$1];", "=r,l", [x + shift + at],
                                      dtype=tl.int32, is_pure=False, pack=1)
    tl.store(out + at, value)

@triton.jit
def reads_generic(x, out, shift, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.inline_asm_elementwise("ld.volatile.b32 $0, [$1];", "=r,l", [x + shift + at],
                                      dtype=tl.int32, is_pure=False, pack=1)
    tl.store(out + at, value)

@triton.jit
def writes_by_hand(x, out, shift, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.inline_asm_elementwise("st.b32 [$1], $2; mov.b32 $0, $2;", "=r,l,r",
                                                 [out + shift + at, tl.load(x + at)],
                                                 dtype=tl.int32, is_pure=False, pack=1))

@triton.jit
def writes_through_a_table(x, out, table, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    found = tl.load(table).to(tl.pointer_type(tl.int32))
    tl.store(found + at, tl.load(x + at))

@triton.jit
def adds_beyond(x, out, shift, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.atomic_add(out + shift + at, tl.load(x + at)))

@triton.jit
def reduces_beyond(x, out, shift, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.atomic_max(out + shift + at, tl.load(x + at))

@triton.jit
def swaps_beyond(x, out, shift, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.atomic_cas(out + shift + at, tl.load(x + at), tl.load(x + at)))

@triton.jit
def copies_beyond(x, out, shift, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    row, column = tl.arange(0, 64), tl.arange(0, 64)
    left = tl.zeros((64, 64), tl.float32)
    for step in range(STEPS):
        part = tl.load(x + shift + step * 4096 + row[:, None] * 64 + column[None, :])
        left = tl.dot(part, part, left)
    tl.store(out + row[:, None] * 64 + column[None, :], left)

@triton.jit
def finds_shared(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    found = tl.inline_asm_elementwise("ld.shared.b32 $0, [$1];", "=r,r", [1024 + 4 * at],
                                      dtype=tl.int32, is_pure=False, pack=1)
    tl.store(out + at, found)
    tl.debug_barrier()
    tl.store(out + BLOCK + at, tl.sort(tl.load(x + at)))

@triton.jit
def finds_registers(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    found = tl.inline_asm_elementwise("{ .reg .b32 kept; mov.b32 $0, kept; }", "=r,r", [at],
                                      dtype=tl.int32, is_pure=False, pack=1)
    tl.store(out + at, found)
"""


@pytest.fixture(scope="module")
def memory(gpu) -> CudaDevice:
    return CudaDevice()


@pytest.fixture(scope="module")
def arch(memory) -> int:
    major, minor = torch.cuda.get_device_capability()
    return 10 * major + minor


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("fenced")


@pytest.fixture(autouse=True)
def own_cache(folder, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(folder / "cache"))


@pytest.fixture(scope="module")
def honest(folder) -> KernelSet:
    return fenced_kernels.load(folder)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> KernelSet:
    return fenced_kernels.load(tmp_path_factory.mktemp("hostile"), HOSTILE)


def loaded(kernels: KernelSet, launch: dict[str, Any], arch: int, memory: CudaDevice) -> LoadedKernel:
    values = compilation.compile_launch(kernels, launch, arch, binary=True)["binary"]
    assert values["fence_error"] == ""
    return LoadedKernel(memory, Binary.of(values))


def extent(tensor: torch.Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def tensor_of(name: str, dtype: torch.dtype) -> torch.Tensor:
    """Return numbers that no sum rounds, so that the order of atomic operations changes nothing."""
    shape = (SIDE, SIDE)
    if name == "lock" or dtype is torch.bool:
        return torch.zeros(shape, dtype=dtype, device="cuda")
    if dtype.is_floating_point and dtype.itemsize > 1 and name != "sums":
        return torch.randint(1, 9, shape, device="cuda").to(dtype)
    return torch.randint(1, 9, shape, device="cuda").to(dtype)


def argument(name: str, described: Any) -> Any:
    match described:
        case ["tensor", dtype, True]:
            return tensor_of(name, TORCH_DTYPES[dtype])
        case ["tensor", dtype, False]:
            return tensor_of(name, TORCH_DTYPES[dtype]).flatten()[1:]
        case ["descriptor", dtype, block]:
            return TensorDescriptor.from_tensor(tensor_of(name, TORCH_DTYPES[dtype]), block)
        case ["value", value]:
            return value


def copied(value: Any) -> Any:
    match value:
        case torch.Tensor():
            whole = torch.empty(0, dtype=value.dtype, device="cuda").set_(value.untyped_storage().clone())
            return whole.as_strided(value.shape, value.stride(), value.storage_offset())
        case TensorDescriptor():
            return TensorDescriptor(copied(value.base), value.shape, value.strides, value.block_shape)
        case _:
            return value


def bits(value: Any) -> bytes:
    tensor = value.base if isinstance(value, TensorDescriptor) else value
    return tensor.contiguous().view(torch.uint8).cpu().numpy().tobytes() if isinstance(tensor, torch.Tensor) else b""


def fenced_run(kernel: LoadedKernel, grid: tuple[int, ...], values: dict[str, Any]) -> tuple[int, int]:
    """Run the twin; return the first address that it refused and how often it refused one."""
    record = torch.zeros(RECORD_BYTES // 8, dtype=torch.int64, device="cuda")
    tensors = [value.base if isinstance(value, TensorDescriptor) else value for value in values.values()]
    extents = tuple(extent(tensor) for tensor in tensors if isinstance(tensor, torch.Tensor))
    launch, _kept = kernel.prepared(grid, values, FencePlan(record.data_ptr(), extents))
    launch.launch(torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()
    first, count = record.tolist()
    return first, count


@pytest.mark.parametrize("name", [*LAUNCHES, *LAUNCHES_90])
def test_an_honest_kernel_gives_the_same_bits(name, arch, honest, memory):
    launch = {**LAUNCHES, **LAUNCHES_90}[name]
    if name in LAUNCHES_90 and arch < 90:
        pytest.skip("the chip has no clusters and no unit for descriptors")
    torch.manual_seed(5)
    kernel = loaded(honest, launch, arch, memory)
    grid = GRIDS.get(name, GRIDS.get(launch["kernel"], (1,)))
    values = {key: argument(key, described) for key, described in launch["arguments"].items()}
    again = {key: copied(value) for key, value in values.items()}
    kernel.launch(grid, values)
    torch.cuda.synchronize()
    assert fenced_run(kernel, grid, again) == (0, 0)
    for key, value in values.items():
        assert bits(value) == bits(again[key]), key


class Arena:
    """Three tensors of 4096 numbers with a secret between and behind them, all in one piece of memory."""

    def __init__(self) -> None:
        self.whole = torch.arange(1, 8 * 4096 + 1, dtype=torch.int32, device="cuda")
        self.before = self.whole.clone()
        self.x, self.out = self.whole[:4096], self.whole[2 * 4096 : 3 * 4096]

    def run(self, kernel: LoadedKernel, values: dict[str, Any]) -> tuple[int, int]:
        record = torch.zeros(2, dtype=torch.int64, device="cuda")
        extents = tuple(
            (part.data_ptr(), part.data_ptr() + part.nbytes)
            for part in values.values()
            if isinstance(part, torch.Tensor)
        )
        launch, _kept = kernel.prepared((1,), values, FencePlan(record.data_ptr(), extents))
        launch.launch(torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
        first, count = record.tolist()
        return first, count

    def unchanged_outside(self) -> bool:
        mask = torch.ones_like(self.whole, dtype=torch.bool)
        mask[2 * 4096 : 3 * 4096] = False
        return bool((self.whole == self.before)[mask].all())


SHIFT = 5 * 4096 + 64
BEYOND = {
    "reads_beyond": "poison",
    "writes_beyond": "kept",
    "reads_by_hand": "poison",
    "reads_generic": "poison",
    "writes_by_hand": "written",
    "adds_beyond": "poison",
    "reduces_beyond": "kept",
    "swaps_beyond": "poison",
}


@pytest.mark.parametrize("name", list(BEYOND))
@pytest.mark.parametrize("block", [128, 1024])
def test_what_leaves_its_tensors_comes_to_nothing(name, block, arch, hostile, memory):
    kernel = loaded(hostile, launch_of(name, x=I32, out=I32, shift=SHIFT, BLOCK=block), arch, memory)
    arena = Arena()
    first, count = arena.run(kernel, {"x": arena.x, "out": arena.out, "shift": SHIFT, "BLOCK": block})
    assert arena.unchanged_outside()
    base = (arena.x if name.startswith("reads") else arena.out).data_ptr() + 4 * SHIFT
    assert base <= first < base + 4 * block
    assert count >= 1
    expected = {
        "poison": torch.full_like(arena.out[:block], -1),
        "kept": arena.before[2 * 4096 : 2 * 4096 + block],
        "written": arena.x[:block],
    }[BEYOND[name]]
    assert torch.equal(arena.out[:block], expected)


def test_each_byte_at_a_border_is_distinguished(arch, hostile, memory):
    """An access of 16 bytes of which the last lies beyond is refused whole; the one before it is performed."""
    kernel = loaded(hostile, launch_of("reads_beyond", x=I32, out=I32, shift=16, BLOCK=512), arch, memory)
    arena = Arena()
    x = arena.whole[: 512 - 1 + 16]
    first, count = arena.run(kernel, {"x": x, "out": arena.out, "shift": 16, "BLOCK": 512})
    assert count >= 1
    assert x.data_ptr() + 4 * (16 + 508) <= first < x.data_ptr() + x.nbytes + 4
    assert torch.equal(arena.out[:508], arena.before[16 : 16 + 508])
    assert arena.out[511].item() == -1
    assert arena.unchanged_outside()


def test_a_pointer_from_memory_leads_nowhere(arch, hostile, memory):
    launch = launch_of("writes_through_a_table", x=I32, out=I32, table=pointer("int64"), BLOCK=128)
    kernel = loaded(hostile, launch, arch, memory)
    arena = Arena()
    goal = arena.whole[SHIFT:].data_ptr()
    table = torch.tensor([goal], device="cuda")
    first, count = arena.run(kernel, {"x": arena.x, "out": arena.out, "table": table, "BLOCK": 128})
    assert torch.equal(arena.whole, arena.before)
    assert goal <= first < goal + 512
    assert count >= 1


def test_an_asynchronous_copy_from_beyond_brings_zeros(arch, hostile, memory):
    launch = launch_of("copies_beyond", {"num_stages": 3}, x=pointer("float16"), out=F32, shift=0, BLOCK=64, STEPS=4)
    kernel = loaded(hostile, launch, arch, memory)
    whole = torch.ones(16 * 4096, dtype=torch.float16, device="cuda")
    out = torch.zeros(64, 64, device="cuda")
    record = torch.zeros(2, dtype=torch.int64, device="cuda")
    x = whole[: 2 * 4096]
    extents = ((x.data_ptr(), x.data_ptr() + x.nbytes), extent(out))
    values = {"x": x, "out": out, "shift": 0, "BLOCK": 64, "STEPS": 4}
    kernel.prepared((1,), values, FencePlan(record.data_ptr(), extents))[0].launch(
        torch.cuda.current_stream().cuda_stream
    )
    torch.cuda.synchronize()
    first, count = record.tolist()
    # Two of the four steps lie within the tensor: what another step brings is zeros, or NaN where it was no copy.
    assert count >= 1
    assert whole.data_ptr() + 2 * 2 * 4096 <= first < whole.data_ptr() + whole.nbytes
    assert torch.equal(out, torch.full_like(out, 128.0)) or bool(out.isnan().all())


def test_shared_memory_holds_nothing_of_before(arch, hostile, memory):
    kernel = loaded(hostile, launch_of("finds_shared", x=I32, out=I32, BLOCK=128), arch, memory)
    for _ in range(3):
        arena = Arena()
        assert arena.run(kernel, {"x": arena.x, "out": arena.out, "BLOCK": 128}) == (0, 0)
        assert torch.equal(arena.out[:128], torch.full_like(arena.out[:128], -1))
        assert torch.equal(arena.out[128:256], arena.x[:128])


def test_registers_hold_nothing_of_before(arch, hostile, memory):
    kernel = loaded(hostile, launch_of("finds_registers", x=I32, out=I32, BLOCK=128), arch, memory)
    arena = Arena()
    assert arena.run(kernel, {"x": arena.x, "out": arena.out, "BLOCK": 128}) == (0, 0)
    assert not arena.out[:128].any()


def test_a_descriptor_that_leaves_its_tensor_is_refused(arch, honest, memory):
    if arch < 90:
        pytest.skip("the chip has no unit for descriptors")
    kernel = loaded(honest, LAUNCHES["described"], arch, memory)
    source, out = (torch.zeros(SIDE, SIDE, device="cuda") for _ in range(2))
    wide = TensorDescriptor(source, [64 * SIDE, SIDE], [SIDE, 1], [32, 32])
    values = {"source": wide, "out": TensorDescriptor.from_tensor(out, [32, 32]), "BM": 32, "BN": 32}
    with pytest.raises(ArgumentError, match="leave its tensor"):
        fenced_run(kernel, (8, 8), values)


def test_what_the_checks_cost(arch, honest, memory, record_property):
    """No bound but a wide one: correctness replays may be slower, not by orders of magnitude."""
    measured = {}
    for name in ("add", "softmax", "matmul_eight_warps", "attention"):
        launch = LAUNCHES[name]
        kernel = loaded(honest, launch, arch, memory)
        values = {key: argument(key, described) for key, described in launch["arguments"].items()}
        record = torch.zeros(2, dtype=torch.int64, device="cuda")
        extents = tuple(extent(value) for value in values.values() if isinstance(value, torch.Tensor))
        grid = GRIDS.get(name, (1,))
        plain, _ = kernel.prepared(grid, values)
        twin, _ = kernel.prepared(grid, values, FencePlan(record.data_ptr(), extents))
        measured[name] = [seconds(one) for one in (plain, twin)]
        record_property(name, measured[name])
    print({name: [round(1e6 * one, 1) for one in pair] for name, pair in measured.items()})
    assert all(twin < 50 * plain for plain, twin in measured.values())


def seconds(launch: Any, times: int = 200) -> float:
    stream = torch.cuda.current_stream()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    launch.launch(stream.cuda_stream)
    begin.record(stream)
    for _ in range(times):
        launch.launch(stream.cuda_stream)
    end.record(stream)
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1e3 / times
