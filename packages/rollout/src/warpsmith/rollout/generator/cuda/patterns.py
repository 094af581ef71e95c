"""Patterns of solutions in CUDA C++ that work element by element, on tiles, and on products."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from warpsmith.rollout.generator.cuda.render import CudaKernel, CudaPattern, Lines

_FAST: Final = {"THREADS": (256, 512)}
_SLOW: Final = {"THREADS": (32,)}
_FLAT_GRID: Final = "<<<(n + $THREADS - 1) / $THREADS, $THREADS>>>"
COUNTED_ROW: Final = 2048
"""Up to this length, a thread may walk along a row of its own: slow, but not for seconds."""


@dataclass(frozen=True)
class CudaStage:
    """What one kernel computes: lines on `x`, after it loaded `y` from an index of its own if there is one."""

    lines: Lines
    index: str = ""


def pointwise(stages: Sequence[CudaStage], passed: Mapping[str, str]) -> tuple[CudaPattern, ...]:
    """Return the patterns of a problem that works on the flat output, element by element.

    Args:
        stages: what is computed, in order.
        passed: what `forward` passes: `x`, of the output's shape, and `y` if a stage loads it.
    """
    whole = CudaStage(
        tuple(line for stage in stages for line in stage.lines),
        next((stage.index for stage in stages if stage.index), ""),
    )
    return tuple(_pointwise(whole, stages, passed))


def _pointwise(whole: CudaStage, stages: Sequence[CudaStage], passed: Mapping[str, str]) -> Iterator[CudaPattern]:
    flat, host = pointwise_kernel("kernel", whole), _pointwise_host([("kernel", whole)])
    yield CudaPattern("flat", "good", (flat,), host, _FAST, passed)
    yield CudaPattern("flat_slow", "naive", (flat,), host, _SLOW, passed)
    yield CudaPattern("runs", "naive", (_in_runs(whole),), host, {"THREADS": (128, 256)}, passed)
    if len(stages) > 1:
        named = [(f"kernel_{number}", stage) for number, stage in enumerate(stages, 1)]
        kernels = tuple(pointwise_kernel(name, stage) for name, stage in named)
        yield CudaPattern("unfused", "naive", kernels, _pointwise_host(named), {"THREADS": (64, 128)}, passed)


def _parameters(stage: CudaStage) -> str:
    second = "const float* y_ptr, " if stage.index else ""
    return f"const float* x_ptr, {second}float* out_ptr, int n{', int c' if ' c' in stage.index else ''}"


def _computed(stage: CudaStage) -> Lines:
    load = (f"float y = y_ptr[{stage.index}];",) if stage.index else ()
    return ("float x = x_ptr[i];", *load, *stage.lines, "out_ptr[i] = x;")


def pointwise_kernel(name: str, stage: CudaStage) -> CudaKernel:
    """Return a kernel whose neighbouring threads compute neighbouring elements."""
    lines = (
        "const int i = blockIdx.x * blockDim.x + threadIdx.x;",
        "if (i < n) {",
        *_inside(_computed(stage)),
        "}",
    )
    return CudaKernel(name, _parameters(stage), lines)


def _in_runs(stage: CudaStage) -> CudaKernel:
    """Return a kernel each of whose threads computes a run of elements: neighbours read far apart."""
    lines = (
        "const int threads = gridDim.x * blockDim.x, run = (n + threads - 1) / threads * 8;",
        "const int first = (blockIdx.x * blockDim.x + threadIdx.x) * run;",
        "for (int i = first; i < first + run && i < n; ++i) {",
        *_inside(_computed(stage)),
        "}",
    )
    return CudaKernel("kernel", _parameters(stage), lines)


def _pointwise_host(stages: Sequence[tuple[str, CudaStage]]) -> Lines:
    lines = ["auto out = torch::empty_like(x);", "const int n = x.numel();"]
    for number, (name, stage) in enumerate(stages):
        second = f"{_data('y')}, " if stage.index else ""
        columns = ", x.size(-1)" if " c" in stage.index else ""
        origin = _data("out" if number else "x")
        lines.append(f"{name}{_FLAT_GRID}({origin}, {second}{_data('out')}, n{columns});")
    return (*lines, "return out;")


def transpose(lines: Lines) -> tuple[CudaPattern, ...]:
    """Return the patterns that combine `x` [n, c] with the transpose of `y` [c, n] by `lines`."""
    parameters, passed = "const float* x_ptr, const float* y_ptr, float* out_ptr, int n, int c", {"x": "x", "y": "y"}
    tile = (
        "__shared__ float tile[32][33];",
        "const int r0 = blockIdx.x * 32, j0 = blockIdx.y * 32;",
        "for (int k = threadIdx.y; k < 32; k += blockDim.y) {",
        "  const int j = j0 + k, r = r0 + threadIdx.x;",
        "  if (j < c && r < n) tile[k][threadIdx.x] = y_ptr[j * n + r];",
        "}",
        "__syncthreads();",
        "for (int k = threadIdx.y; k < 32; k += blockDim.y) {",
        "  const int r = r0 + k, j = j0 + threadIdx.x;",
        "  if (r < n && j < c) {",
        *_inside(("float x = x_ptr[r * c + j], y = tile[threadIdx.x][k];", *lines, "out_ptr[r * c + j] = x;"), 4),
        "  }",
        "}",
    )
    shapes = ("const int n = x.size(0), c = x.size(1);", "auto out = torch::empty_like(x);")
    call = f"({_data('x')}, {_data('y')}, {_data('out')}, n, c);"
    by_tile = (
        *shapes,
        "const dim3 grid((n + 31) / 32, (c + 31) / 32), block(32, $THREADS);",
        f"kernel<<<grid, block>>>{call}",
        "return out;",
    )
    flat = (
        "const int i = blockIdx.x * blockDim.x + threadIdx.x;",
        "if (i < n * c) {",
        *_inside(("float x = x_ptr[i], y = y_ptr[i % c * n + i / c];", *lines, "out_ptr[i] = x;")),
        "}",
    )
    by_element = (*shapes, f"kernel<<<(n * c + $THREADS - 1) / $THREADS, $THREADS>>>{call}", "return out;")
    return (
        CudaPattern("tile", "good", (CudaKernel("kernel", parameters, tile),), by_tile, {"THREADS": (8, 16)}, passed),
        CudaPattern(
            "flat", "naive", (CudaKernel("kernel", parameters, flat),), by_element, {"THREADS": (128, 256)}, passed
        ),
    )


def gather(lines: Lines, columns: int) -> tuple[CudaPattern, ...]:
    """Return the patterns that look up rows of `x` by `index` and then compute `lines`."""
    flat = (
        "const int i = blockIdx.x * blockDim.x + threadIdx.x;",
        "if (i < n * c) {",
        *_inside(("float x = x_ptr[index_ptr[i / c] * c + i % c];", *lines, "out_ptr[i] = x;")),
        "}",
    )
    by_row = (
        "const int r = blockIdx.x * blockDim.x + threadIdx.x;",
        "if (r >= n) return;",
        "for (int i = 0; i < c; ++i) {",
        *_inside(("float x = x_ptr[index_ptr[r] * c + i];", *lines, "out_ptr[r * c + i] = x;")),
        "}",
    )
    parameters = "const float* x_ptr, const int64_t* index_ptr, float* out_ptr, int n, int c"
    kernels = [CudaKernel("kernel", parameters, body) for body in (flat, by_row)]
    hosts = [_gather_host("n * c"), _gather_host("n")]
    passed = {"x": "x", "index": "index"}
    found = [
        CudaPattern("flat", "good", (kernels[0],), hosts[0], _FAST, passed),
        CudaPattern("flat_slow", "naive", (kernels[0],), hosts[0], _SLOW, passed),
    ]
    if columns <= COUNTED_ROW:
        found.append(CudaPattern("columns", "naive", (kernels[1],), hosts[1], {"THREADS": (32, 64)}, passed))
    return tuple(found)


def _gather_host(threads: str) -> Lines:
    return (
        "const int n = index.numel(), c = x.size(1);",
        "auto out = torch::empty({n, c}, x.options());",
        f"kernel<<<({threads} + $THREADS - 1) / $THREADS, $THREADS>>>(",
        f"    {_data('x')}, index.data_ptr<int64_t>(), {_data('out')}, n, c);",
        "return out;",
    )


def product(lines: Lines, *, batched: bool) -> tuple[CudaPattern, ...]:
    """Return the patterns of a product of `x` and `y`, or of a batch of them, followed by `lines`."""
    x, y, out = ("b * m * k + ", "b * k * n + ", "b * m * n + ") if batched else ("", "", "")
    first = ("const int b = blockIdx.z;",) if batched else ()
    axis, grid = (1, ", x.size(0)") if batched else (0, "")
    stored = (*_inside(lines, 0), f"out_ptr[{out}i * n + j] = x;")
    entry = (
        *first,
        "const int i = blockIdx.x, j = blockIdx.y * blockDim.x + threadIdx.x;",
        "if (j < n) {",
        "  float x = 0.0f;",
        f"  for (int p = 0; p < k; ++p) x += x_ptr[{x}i * k + p] * y_ptr[{y}p * n + j];",
        *_inside(stored),
        "}",
    )
    parameters = "const float* x_ptr, const float* y_ptr, float* out_ptr, int m, int k, int n"
    size = f"{{{'x.size(0), ' if batched else ''}m, n}}"
    shapes = (
        f"const int m = x.size({axis}), k = x.size({axis + 1}), n = y.size({axis + 1});",
        f"auto out = torch::empty({size}, x.options());",
    )
    call = f"({_data('x')}, {_data('y')}, {_data('out')}, m, k, n);"
    by_tile = (*shapes, f"const dim3 grid((m + 63) / 64, (n + 63) / 64{grid});", f"kernel<<<grid, 256>>>{call}",
               "return out;")  # fmt: skip
    by_entry = (*shapes, f"const dim3 grid(m, (n + $THREADS - 1) / $THREADS{grid});",
                f"kernel<<<grid, $THREADS>>>{call}", "return out;")  # fmt: skip
    tile = (*first, *_tile_lines(x, y, stored))
    passed = {"x": "x", "y": "y"}
    return (
        CudaPattern("tile", "good", (CudaKernel("kernel", parameters, tile),), by_tile, {"DEPTH": (8, 16)}, passed),
        CudaPattern(
            "entry", "naive", (CudaKernel("kernel", parameters, entry),), by_entry, {"THREADS": (32, 64)}, passed
        ),
    )


def _tile_lines(x: str, y: str, stored: Lines) -> Lines:
    """Return a kernel's lines: 256 threads compute a tile of 64 x 64, 16 entries each, in steps of $DEPTH."""
    return (
        "__shared__ float left[$DEPTH][65], right[$DEPTH][64];",
        "const int row = blockIdx.x * 64, column = blockIdx.y * 64;",
        "const int ty = threadIdx.x / 16 * 4, tx = threadIdx.x % 16;",
        "float sums[4][4] = {};",
        "for (int s = 0; s < k; s += $DEPTH) {",
        "  for (int t = threadIdx.x; t < 64 * $DEPTH; t += 256) {",
        "    const int i = row + t / $DEPTH, p = s + t % $DEPTH, q = s + t / 64, j = column + t % 64;",
        f"    left[t % $DEPTH][t / $DEPTH] = i < m && p < k ? x_ptr[{x}i * k + p] : 0.0f;",
        f"    right[t / 64][t % 64] = q < k && j < n ? y_ptr[{y}q * n + j] : 0.0f;",
        "  }",
        "  __syncthreads();",
        "  for (int p = 0; p < $DEPTH; ++p)",
        "    for (int a = 0; a < 4; ++a)",
        "      for (int d = 0; d < 4; ++d) sums[a][d] += left[p][ty + a] * right[p][tx + 16 * d];",
        "  __syncthreads();",
        "}",
        "for (int a = 0; a < 4; ++a) {",
        "  for (int d = 0; d < 4; ++d) {",
        "    const int i = row + ty + a, j = column + tx + 16 * d;",
        "    if (i < m && j < n) {",
        "      float x = sums[a][d];",
        *_inside(stored, 6),
        "    }",
        "  }",
        "}",
    )


def _data(name: str) -> str:
    return f"{name}.data_ptr<float>()"


def _inside(lines: Sequence[str], spaces: int = 2) -> Lines:
    return tuple(f"{' ' * spaces}{line}" for line in lines)
