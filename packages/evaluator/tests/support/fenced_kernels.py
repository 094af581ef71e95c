"""Varied kernels, with launches that compile them: what the fence is tried on, with and without a GPU."""

import importlib.util
import re
from pathlib import Path
from typing import Any, Final

from warpsmith.evaluator.languages.triton.extract.extraction import Extracted
from warpsmith.evaluator.languages.triton.kernel_set import KernelSet

SOURCE: Final = '''\
import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n, other=0.0), mask=at < n)

@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * columns + at, mask=at < columns, other=float("-inf"))
    row = tl.exp(row - tl.max(row, 0))
    tl.store(out + tl.program_id(0) * columns + at, row / tl.sum(row, 0), mask=at < columns)

@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        left = tl.load(a + m[:, None] * K + (start + k)[None, :], mask=(start + k)[None, :] < K, other=0.0)
        right = tl.load(b + (start + k)[:, None] * N + n[None, :], mask=(start + k)[:, None] < K, other=0.0)
        total = tl.dot(left, right, total)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c + m[:, None] * N + n[None, :], total.to(c.dtype.element_ty), mask=inside)

@triton.jit
def counters(x, sums, largest, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0)
    tl.atomic_add(sums + at % 16, value, mask=at < n)
    tl.atomic_max(largest, tl.max(value, 0))
    tl.atomic_xchg(largest + 1, 7)

@triton.jit
def spin_lock(lock, total, BLOCK: tl.constexpr):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    at = tl.arange(0, BLOCK)
    tl.store(total + at, tl.load(total + at) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)

@triton.jit
def half_sums(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + at % 64, tl.load(x + at, mask=at < n, other=0.0), mask=at < n, sem="relaxed", scope="cta")

@triton.jit
def described(source, out, BM: tl.constexpr, BN: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    out.store([row, column], source.load([row, column]) * 2)

@triton.jit
def described_matmul(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([tl.program_id(0) * BM, k]), b.load([k, tl.program_id(1) * BN]), total)
    c.store([tl.program_id(0) * BM, tl.program_id(1) * BN], total.to(tl.float16))

@triton.jit
def described_sum(x, out, BM: tl.constexpr, BN: tl.constexpr):
    out.atomic_add([0, 0], x.load([tl.program_id(0) * BM, 0]))

@triton.jit
def described_gather(x, rows, out, BN: tl.constexpr):
    taken = x.gather(tl.load(rows + tl.arange(0, 32)), 0)
    tl.store(out + tl.arange(0, 32)[:, None] * BN + tl.arange(0, BN)[None, :], taken)

@triton.jit
def own_descriptor(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    target = tl.make_tensor_descriptor(out, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    target.store([row, column], source.load([row, column]) + 1)

@triton.jit
def by_hand(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    value = tl.inline_asm_elementwise("""
    {
        .reg .f32 t;
        .reg .pred p;
        mul.f32 t, $1, 0f40000000;   // twice
        setp.gt.f32 p, t, 0f00000000;
        @!p mov.f32 t, 0f00000000;
        mov.f32 $0, t;
    }""", "=f,f", [value], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(out + at, value, mask=at < n)

@triton.jit
def loads_by_hand(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.inline_asm_elementwise("ld.global.nc.L1::no_allocate.b32 $0, [$1];", "=r,l", [x + at],
                                      dtype=tl.int32, is_pure=False, pack=1)
    tl.store(out + at, value)

@triton.jit
def eights(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n).to(tl.float32) * 2
    tl.store(out + at, value.to(tl.float8e5), mask=at < n)

@triton.jit
def halves(x, out, limit):
    value = tl.load(x)
    steps = 0
    while value > limit:
        value = value / 2
        steps += 1
    tl.store(out, steps)

@triton.jit
def joined(x, y, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    both = tl.cat(tl.load(x + at), tl.load(y + at), can_reorder=True)
    tl.store(out + tl.arange(0, 2 * BLOCK), both)
    tl.store(out + 2 * BLOCK + tl.arange(0, 2 * BLOCK), tl.interleave(tl.load(x + at), tl.load(y + at)))

@triton.jit
def counted(x, out, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + tl.arange(0, BINS), tl.histogram(tl.load(x + at, mask=at < n, other=0), BINS))

@triton.jit
def special(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=1.0)
    value = libdevice.pow(libdevice.sin(value), 2.0) + libdevice.erf(value) + libdevice.lgamma(value)
    tl.store(out + at, libdevice.tan(value) + libdevice.j0(value), mask=at < n)

@triton.jit
def printed(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    tl.device_print("value", value)
    tl.device_assert(value > 0, "positive")
    tl.store(out + at, value)

@triton.jit
def hinted(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    first = tl.load(x + at, mask=mask, cache_modifier=".cg")
    second = tl.load(y + at, mask=mask, eviction_policy="evict_last")
    third = tl.load(x + at, mask=mask, volatile=True) + tl.load(y + at + 1, mask=mask, cache_modifier=".ca")
    fourth = tl.load(y + at, mask=mask, cache_modifier=".cv")
    tl.store(out + at, first + second + third + fourth, mask=mask, cache_modifier=".wt")
    tl.store(out + n + at, first, mask=mask, cache_modifier=".cs")

@triton.jit
def combine(a, b):
    return a * 0.5 + b

@triton.jit
def scanned(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    tl.store(out + at, tl.associative_scan(value, 0, combine) + tl.cumsum(value, 0))
    tl.store(out + BLOCK, tl.argmax(value, 0).to(tl.float32))

@triton.jit
def sorted_rows(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.sort(tl.load(x + at)))

@triton.jit
def gathered(x, index, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.gather(tl.load(x + at), tl.load(index + at), 0))
    tl.store(out + BLOCK + at, tl.load(x + tl.load(index + at)))

@triton.jit
def flipped(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m, n = tl.arange(0, BM), tl.arange(0, BN)
    value = tl.load(x + m[:, None] * N + n[None, :], mask=(m[:, None] < M) & (n[None, :] < N))
    tl.store(out + n[:, None] * M + m[None, :], tl.trans(value), mask=(m[None, :] < M) & (n[:, None] < N))

@triton.jit
def noise(out, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.rand(seed, at))

@triton.jit
def doubles(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(out + at, tl.sqrt(value) + libdevice.sin(value * 1e9), mask=at < n)

@triton.jit
def flags(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) > 3, mask=at < n)

@triton.jit
def attention(q, k, v, out, N, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    query = tl.load(q + m[:, None] * D + d[None, :])
    best = tl.full((BM,), float("-inf"), tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for start in range(0, N, BN):
        n = start + tl.arange(0, BN)
        scores = tl.dot(query, tl.trans(tl.load(k + n[:, None] * D + d[None, :]))) * scale
        peak = tl.maximum(best, tl.max(scores, 1))
        shares = tl.exp(scores - peak[:, None])
        shrink = tl.exp(best - peak)
        weight = weight * shrink + tl.sum(shares, 1)
        values = tl.load(v + n[:, None] * D + d[None, :])
        total = total * shrink[:, None] + tl.dot(shares.to(values.dtype), values)
        best = peak
    tl.store(out + m[:, None] * D + d[None, :], (total / weight[:, None]).to(out.dtype.element_ty))
'''


def pointer(dtype: str = "float32", *, aligned: bool = True) -> list[Any]:
    """Return a described tensor argument."""
    return ["tensor", dtype, aligned]


def described(dtype: str, *block: int) -> list[Any]:
    """Return a described tensor descriptor."""
    return ["descriptor", dtype, list(block)]


def _launch(kernel: str, options: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    values = {name: value if isinstance(value, list) else ["value", value] for name, value in arguments.items()}
    return {"kernel": kernel, "arguments": values, "options": options or {}}


F16, F32, I32 = pointer("float16"), pointer(), pointer("int32")
_BLOCKS: Final = {"BM": 64, "BN": 64, "BK": 32}
_SIZES: Final = {"M": 256, "N": 256, "K": 256}

LAUNCHES: Final[dict[str, dict[str, Any]]] = {
    "add": _launch("add", x=F32, y=F32, out=F32, n=1000, BLOCK=256),
    "add_unaligned": _launch("add", x=pointer(aligned=False), y=F32, out=F32, n=1001, BLOCK=256),
    "add_bytes": _launch("add", x=pointer("int8"), y=pointer("int8"), out=pointer("int8"), n=1000, BLOCK=256),
    "add_wide": _launch("add", x=pointer("int64"), y=pointer("int64"), out=pointer("int64"), n=1000, BLOCK=1024),
    "softmax": _launch("softmax", x=F32, out=F32, columns=1000, BLOCK=1024),
    "matmul": _launch("matmul", {"num_stages": 4}, a=F16, b=F16, c=F16, **_SIZES, **_BLOCKS),
    "matmul_eight_warps": _launch(
        "matmul", {"num_stages": 3, "num_warps": 8}, a=F16, b=F16, c=F32, **_SIZES, BM=128, BN=128, BK=64
    ),
    "matmul_tf32": _launch("matmul", {"num_stages": 3}, a=F32, b=F32, c=F32, **_SIZES, **_BLOCKS),
    "matmul_bf16": _launch(
        "matmul", {"num_stages": 3}, a=pointer("bfloat16"), b=pointer("bfloat16"), c=F32, **_SIZES, **_BLOCKS
    ),
    "counters": _launch("counters", x=I32, sums=I32, largest=I32, n=1000, BLOCK=256),
    "spin_lock": _launch("spin_lock", lock=I32, total=F32, BLOCK=128),
    "half_sums": _launch("half_sums", x=F16, out=F16, n=1000, BLOCK=256),
    "by_hand": _launch("by_hand", x=F32, out=F32, n=1000, BLOCK=256),
    "loads_by_hand": _launch("loads_by_hand", x=I32, out=I32, BLOCK=256),
    "eights": _launch("eights", x=pointer("float8_e5m2"), out=pointer("float8_e5m2"), n=1000, BLOCK=256),
    "halves": _launch("halves", x=F32, out=I32, limit=1.5),
    "joined": _launch("joined", x=F32, y=F32, out=F32, BLOCK=128),
    "counted": _launch("counted", x=I32, out=I32, n=1000, BLOCK=1024, BINS=64),
    "special": _launch("special", x=F32, out=F32, n=1000, BLOCK=256),
    "printed": _launch("printed", {"debug": True}, x=I32, out=I32, BLOCK=128),
    "hinted": _launch("hinted", x=F32, y=F32, out=F32, n=1000, BLOCK=256),
    "scanned": _launch("scanned", x=F32, out=F32, BLOCK=256),
    "sorted_rows": _launch("sorted_rows", x=F32, out=F32, BLOCK=256),
    "gathered": _launch("gathered", x=F32, index=I32, out=F32, BLOCK=256),
    "flipped": _launch("flipped", x=F32, out=F32, M=60, N=50, BM=64, BN=64),
    "noise": _launch("noise", out=F32, seed=7, BLOCK=256),
    "doubles": _launch("doubles", x=pointer("float64"), out=pointer("float64"), n=1000, BLOCK=128),
    "flags": _launch("flags", x=I32, out=pointer("bool"), n=1000, BLOCK=128),
    "attention": _launch("attention", q=F16, k=F16, v=F16, out=F16, N=256, scale=0.125, BM=64, BN=64, D=64),
    "described": _launch(
        "described", source=described("float32", 32, 32), out=described("float32", 32, 32), BM=32, BN=32
    ),
}
"""What compiles for every chip."""

LAUNCHES_90: Final[dict[str, dict[str, Any]]] = {
    "matmul_two_blocks": _launch("matmul", {"num_ctas": 2}, a=F16, b=F16, c=F16, **_SIZES, BM=128, BN=128, BK=64),
    "described_matmul": _launch(
        "described_matmul",
        {"num_stages": 3},
        a=described("float16", 64, 64),
        b=described("float16", 64, 64),
        c=described("float16", 64, 64),
        K=256,
        BM=64,
        BN=64,
        BK=64,
    ),
    "described_sum": _launch(
        "described_sum", x=described("float32", 32, 32), out=described("float32", 32, 32), BM=32, BN=32
    ),
    "own_descriptor": _launch("own_descriptor", x=F32, out=F32, M=64, N=64, BM=32, BN=32),
}
"""What is compiled otherwise for a chip with tensor memory accelerator or clusters."""


def load(folder: Path, source: str = SOURCE) -> KernelSet:
    """Return the kernels of a source, unchecked; Triton reads their text from a file in `folder`."""
    path = folder / "fenced_source.py"
    path.write_text(source, encoding="utf-8")
    found = importlib.util.spec_from_file_location("fenced_source", path)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    names = tuple(re.findall(r"^def (\w+)", source, flags=re.MULTILINE))
    kernels = KernelSet(Extracted(source, names, frozenset()))
    for name in names:
        kernel = getattr(module, name)
        kernels.jit(kernel.fn, noinline=kernel.noinline)
    return kernels


def launch_of(kernel: str, options: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    """Return a described launch; an argument that is no description is a plain value."""
    return _launch(kernel, options, **arguments)
