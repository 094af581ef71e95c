"""Patterns of solutions in CUDA C++ that combine the elements of a row: a block for each row, or a thread."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from warpsmith.rollout.generator.cuda.patterns import COUNTED_ROW
from warpsmith.rollout.generator.cuda.render import CudaKernel, CudaPattern, Lines

Operation = Literal["sum", "max"]
_BLOCKS: Final = {"THREADS": (256, 512)}
_SLOW_BLOCKS: Final = {"THREADS": (32,)}
_NEUTRAL: Final[Mapping[Operation, str]] = MappingProxyType({"sum": "0.0f", "max": "-INFINITY"})


@dataclass(frozen=True)
class Loop:
    """A loop over a row, after the chain.

    Args:
        inside: what it does with `x`.
        total: the variable that it reduces into; empty for the loop that stores.
        operation: how.
        after: lines that follow the reduction.
    """

    inside: Lines
    total: str = ""
    operation: Operation = "sum"
    after: Lines = ()


@dataclass(frozen=True)
class Row:
    """A row problem.

    Args:
        columns: length of a row.
        chain: lines on `x` before anything else.
        loops: what is done, in order; without a loop that stores, `result` is the row's value.
        result: an expression; empty if a row's result is a row.
        weight: whether the result is multiplied by `self.weight`.
    """

    columns: int
    chain: Lines
    loops: tuple[Loop, ...]
    result: str = ""
    weight: bool = False


SUM_SQUARES: Final = Loop(("squares += x * x;",), "squares")
TOP: Final = Loop(("top = fmaxf(top, x);",), "top", "max")
TOTAL: Final = Loop(("total += expf(x - top);",), "total")


def softmax(columns: int, chain: Lines, *, logarithm: bool) -> Row:
    """Return softmax or log-softmax."""
    stored = "x = x - top - logf(total);" if logarithm else "x = expf(x - top) / total;"
    return Row(columns, chain, (TOP, TOTAL, Loop((stored,))))


def logsumexp(columns: int, chain: Lines) -> Row:
    """Return the logarithm of the sum of exponentials."""
    return Row(columns, chain, (TOP, TOTAL), "logf(total) + top")


_REDUCTIONS: Final[Mapping[str, tuple[Operation, str, str]]] = MappingProxyType(
    {
        "sum": ("sum", "acc += x;", "acc"),
        "mean": ("sum", "acc += x;", "acc / c"),
        "max": ("max", "acc = fmaxf(acc, x);", "acc"),
        "min": ("max", "acc = fmaxf(acc, -x);", "-acc"),
        "sum_squares": ("sum", "acc += x * x;", "acc"),
        "l1_norm": ("sum", "acc += fabsf(x);", "acc"),
    }
)


def reduction(name: str, columns: int, chain: Lines) -> Row:
    """Return a reduction by its name."""
    operation, inside, result = _REDUCTIONS[name]
    return Row(columns, chain, (Loop((inside,), "acc", operation),), result)


def norm(name: str, columns: int, chain: Lines, *, weight: bool) -> Row:
    """Return a norm by its name: `layer_norm`, `rms_norm` or `l2_norm`."""
    mean = "squares" if name == "l2_norm" else "squares / c"
    scale = (f"const float scale = rsqrtf({mean} + 1e-5f);",)
    if name != "layer_norm":
        squares = Loop(SUM_SQUARES.inside, "squares", after=scale)
        return Row(columns, chain, (squares, Loop(("x = x * scale;",))), weight=weight)
    loops = (
        Loop(("total += x;",), "total", after=("const float mean = total / c;",)),
        Loop(("squares += (x - mean) * (x - mean);",), "squares", after=scale),
        Loop(("x = (x - mean) * scale;",)),
    )
    return Row(columns, chain, loops, weight=weight)


def row_patterns(row: Row) -> tuple[CudaPattern, ...]:
    """Return the patterns of a row problem."""
    return tuple(_row_patterns(row))


def _row_patterns(row: Row) -> Iterator[CudaPattern]:
    passed = {"x": "x"} | ({"weight": "self.weight"} if row.weight else {})
    helpers = tuple(_block_reduction(operation) for operation in dict.fromkeys(_operations(row)))
    block = (*helpers, CudaKernel("kernel", _parameters(row), _lines(row, block=True)))
    yield CudaPattern("block", "good", block, _host(row, "n"), _BLOCKS, passed)
    yield CudaPattern("block_slow", "naive", block, _host(row, "n"), _SLOW_BLOCKS, passed)
    if row.columns <= COUNTED_ROW:
        thread = CudaKernel("kernel", _parameters(row), _lines(row, block=False))
        host = _host(row, "(n + $THREADS - 1) / $THREADS")
        yield CudaPattern("thread", "naive", (thread,), host, {"THREADS": (32, 64)}, passed)


def _operations(row: Row) -> list[Operation]:
    return [loop.operation for loop in row.loops if loop.total]


class _Helper(CudaKernel):
    """A function that kernels call."""

    @property
    def text(self) -> str:
        """The function."""
        return super().text.replace("__global__ void", "__device__ float", 1)


def _block_reduction(operation: Operation) -> CudaKernel:
    """Return the function that reduces one value of each thread of a block; every thread gets the result."""
    combined = "value += {};" if operation == "sum" else "value = fmaxf(value, {});"
    lines = (
        "__shared__ float parts[32];",
        "for (int step = 16; step > 0; step /= 2)",
        f"  {combined.format('__shfl_xor_sync(0xffffffff, value, step)')}",
        "if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;",
        "__syncthreads();",
        f"value = {_NEUTRAL[operation]};",
        f"for (int w = 0; w < blockDim.x / 32; ++w) {combined.format('parts[w]')}",
        "__syncthreads();",
        "return value;",
    )
    return _Helper(f"block_{operation}", "float value", lines)


def _parameters(row: Row) -> str:
    return f"const float* x_ptr, {'const float* w_ptr, ' if row.weight else ''}float* out_ptr, int n, int c"


def _lines(row: Row, *, block: bool) -> Lines:
    start, step = ("threadIdx.x", "blockDim.x") if block else ("0", "1")
    first = ("const int r = blockIdx.x;",) if block else (
        "const int r = blockIdx.x * blockDim.x + threadIdx.x;", "if (r >= n) return;",
    )  # fmt: skip
    lines = list(first)
    for loop in row.loops:
        if loop.total:
            lines.append(f"float {loop.total} = {_NEUTRAL[loop.operation]};")
        scaled = ("x = x * w_ptr[i];",) if row.weight and not loop.total else ()
        stored = () if loop.total else (*scaled, "out_ptr[r * c + i] = x;")
        inside = ("float x = x_ptr[r * c + i];", *row.chain, *loop.inside, *stored)
        lines += [f"for (int i = {start}; i < c; i += {step}) {{", *(f"  {line}" for line in inside), "}"]
        if loop.total and block:
            lines.append(f"{loop.total} = block_{loop.operation}({loop.total});")
        lines += loop.after
    if row.result:
        lines.append(f"{'if (threadIdx.x == 0) ' if block else ''}out_ptr[r] = {row.result};")
    return tuple(lines)


def _host(row: Row, blocks: str) -> Lines:
    shape = "torch::empty({n}, x.options())" if row.result else "torch::empty_like(x)"
    weight = "weight.data_ptr<float>(), " if row.weight else ""
    return (
        "const int n = x.size(0), c = x.size(1);",
        f"auto out = {shape};",
        f"kernel<<<{blocks}, $THREADS>>>(x.data_ptr<float>(), {weight}out.data_ptr<float>(), n, c);",
        "return out;",
    )


def scan(columns: int, chain: Lines) -> tuple[CudaPattern, ...]:
    """Return the patterns of the running sum along each row."""
    block = (
        "__shared__ float parts[32];",
        "const int r = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;",
        "float before = 0.0f;",
        "for (int start = 0; start < c; start += blockDim.x) {",
        "  const int i = start + threadIdx.x;",
        "  float x = i < c ? x_ptr[r * c + i] : 1.0f;",
        *(f"  {line}" for line in chain),
        "  if (i >= c) x = 0.0f;",
        "  for (int step = 1; step < 32; step *= 2) {",
        "    const float other = __shfl_up_sync(0xffffffff, x, step);",
        "    if (lane >= step) x += other;",
        "  }",
        "  if (lane == 31) parts[warp] = x;",
        "  __syncthreads();",
        "  for (int w = 0; w < warp; ++w) x += parts[w];",
        "  if (i < c) out_ptr[r * c + i] = before + x;",
        "  for (int w = 0; w < blockDim.x / 32; ++w) before += parts[w];",
        "  __syncthreads();",
        "}",
    )
    inside = ("float x = x_ptr[r * c + i];", *chain, "total += x;", "out_ptr[r * c + i] = total;")
    thread = (
        "const int r = blockIdx.x * blockDim.x + threadIdx.x;",
        "if (r >= n) return;",
        "float total = 0.0f;",
        "for (int i = 0; i < c; ++i) {",
        *_inside(inside),
        "}",
    )
    row = Row(columns, chain, ())
    kernels = [CudaKernel("kernel", _parameters(row), lines) for lines in (block, thread)]
    by_row, by_thread = _host(row, "n"), _host(row, "(n + $THREADS - 1) / $THREADS")
    found = [
        CudaPattern("block", "good", (kernels[0],), by_row, _BLOCKS, {"x": "x"}),
        CudaPattern("block_slow", "naive", (kernels[0],), by_row, _SLOW_BLOCKS, {"x": "x"}),
    ]
    if columns <= COUNTED_ROW:
        found.append(CudaPattern("thread", "naive", (kernels[1],), by_thread, {"THREADS": (32, 64)}, {"x": "x"}))
    return tuple(found)


def _inside(lines: Sequence[str]) -> Lines:
    return tuple(f"  {line}" for line in lines)
