"""Families that move data: transposes, lookups of rows, scans along rows."""

import random
from collections.abc import Iterator
from typing import Final

from warpsmith.rollout.generator.chains import Chain, key, optional_chain, slug_of, torch_lines, triton_lines
from warpsmith.rollout.generator.cuda import patterns
from warpsmith.rollout.generator.cuda import rows as cuda_rows
from warpsmith.rollout.generator.cuda.operations import binary_line, cuda_lines
from warpsmith.rollout.generator.gpu.pointwise import SLOW_BLOCKS
from warpsmith.rollout.generator.gpu.rows import COUNTED_ROW, SHORT_ROW, row_warps, several_rows
from warpsmith.rollout.generator.gpu.sizes import FLOAT_BYTES, Budget, draw_columns
from warpsmith.rollout.generator.gpu.solutions import GpuDraft, Lines, Pattern, SizedInput, graded, uniform
from warpsmith.rollout.generator.operations import BINARY
from warpsmith.rollout.generator.render import Kernel

_WIDEST: Final = 8192
_INDEX_BYTES: Final = 8


def transpose(rng: random.Random, budget: Budget) -> GpuDraft:
    """An operation on a matrix and another one that lies transposed, with zero to two unary operations before.

    The second operand makes the transposition real work: alone, it would be a view.
    """
    operation, chain = rng.choice(BINARY), optional_chain(rng, 2)
    columns = draw_columns(rng, budget, 3, _WIDEST)
    each = 3 * columns * FLOAT_BYTES
    rows = budget.count(rng, each)
    lines = (*triton_lines(chain, "x"), f"x = {operation.triton.format(x='x', y='y')}")
    return GpuDraft(
        composition=f"transpose:{operation.name}({key(chain)})",
        slug=slug_of(chain, operation.name, "transposed"),
        torch=(*torch_lines(chain, "x"), "y = y.t()", f"return {operation.torch.format(x='x', y='y')}"),
        sizes={"ROWS": rows, "COLUMNS": columns},
        inputs=(uniform("x", "ROWS", "COLUMNS"), uniform("y", "COLUMNS", "ROWS")),
        touched=rows * each,
        patterns=tuple(_transpose_patterns(lines)),
        cuda=patterns.transpose((*cuda_lines(chain, "x"), binary_line(operation))),
    )


def _transpose_patterns(lines: Lines) -> Iterator[Pattern]:
    shapes = ("n, c = x.shape", "out = torch.empty_like(x)")
    by_element = (
        *shapes,
        "kernel[(triton.cdiv(n * c, {BLOCK}),)](x, y, out, n, c, BLOCK={BLOCK}, num_warps={num_warps})",
        "return out",
    )
    by_tile = (
        *shapes,
        "grid = (triton.cdiv(n, {BLOCK}), triton.cdiv(c, {BLOCK}))",
        "kernel[grid](x, y, out, n, c, BLOCK={BLOCK}, num_warps={num_warps})",
        "return out",
    )
    flat, tile = _transpose_kernels(lines)
    yield from graded("flat", [flat], by_element, naive={"BLOCK": (64, 128, 1024), "num_warps": (4,)})
    slow, fast = {"BLOCK": (4, 8), "num_warps": (4,)}, {"BLOCK": (32, 64), "num_warps": (4, 8)}
    yield from graded("tile", [tile], by_tile, naive=slow, good=fast)


def _transpose_kernels(lines: Lines) -> tuple[Kernel, Kernel]:
    """Return a kernel whose neighbours read `y` far apart, and one for square tiles, read and written in order."""
    parameters = "x_ptr, y_ptr, out_ptr, n, c, BLOCK: tl.constexpr"
    flat = (
        "i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "m = i < n * c",
        "x = tl.load(x_ptr + i, mask=m)",
        "y = tl.load(y_ptr + i % c * n + i // c, mask=m)",
        *lines,
        "tl.store(out_ptr + i, x, mask=m)",
    )
    tile = (
        "i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]",
        "j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]",
        "m = (i < n) & (j < c)",
        "x = tl.load(x_ptr + i * c + j, mask=m)",
        "y = tl.load(y_ptr + j * n + i, mask=m)",
        *lines,
        "tl.store(out_ptr + i * c + j, x, mask=m)",
    )
    return Kernel("kernel", parameters, flat), Kernel("kernel", parameters, tile)


def gather(rng: random.Random, budget: Budget) -> GpuDraft:
    """Rows of a table, looked up by index, with zero to two unary operations after."""
    chain = optional_chain(rng, 2)
    columns = draw_columns(rng, budget, 2, _WIDEST)
    row = columns * FLOAT_BYTES
    # The table has a quarter to a half of the bytes.
    table = max(4, round(budget.target * rng.uniform(0.25, 0.5)) // row)
    each = row + _INDEX_BYTES
    count = budget.count(rng, each, table * row)
    return GpuDraft(
        composition=f"gather({key(chain)})",
        slug=slug_of("gather", chain),
        torch=("x = torch.index_select(x, 0, index)", *torch_lines(chain, "x"), "return x"),
        sizes={"ROWS": table, "COLUMNS": columns, "COUNT": count},
        inputs=(uniform("x", "ROWS", "COLUMNS"), SizedInput("index", "torch.randint(0, ROWS, (COUNT,))")),
        touched=count * each + table * row,
        patterns=tuple(_gather_patterns(chain, columns)),
        cuda=patterns.gather(cuda_lines(chain, "x"), columns),
    )


def _gather_patterns(chain: Chain, columns: int) -> Iterator[Pattern]:
    lines, block = triton_lines(chain, "x"), 1 << (columns - 1).bit_length()
    yield from _flat_gather(lines)
    yield from _strided_gather(lines)
    row = Kernel(
        "kernel",
        "x_ptr, index_ptr, out_ptr, c, BLOCK: tl.constexpr",
        (
            "r = tl.program_id(0)",
            "i = tl.arange(0, BLOCK)",
            "m = i < c",
            "k = tl.load(index_ptr + r)",
            "x = tl.load(x_ptr + k * c + i, mask=m, other=1.0)",
            *lines,
            _STORE,
        ),
    )
    launch = (
        *_GATHERED,
        "b = triton.next_power_of_2(c)",
        "kernel[(index.numel(),)](x, index, out, c, BLOCK=b, num_warps={num_warps})",
        "return out",
    )
    yield from graded("row", [row], launch, **row_warps(block))
    if columns <= SHORT_ROW:
        yield from _several_rows_gather(lines, block)


def _flat_gather(lines: Lines) -> Iterator[Pattern]:
    """Yield a pattern that looks the index up again for each element."""
    flat = Kernel(
        "kernel",
        "x_ptr, index_ptr, out_ptr, n, c, BLOCK: tl.constexpr",
        (
            "i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
            "m = i < n",
            "k = tl.load(index_ptr + i // c, mask=m, other=0)",
            "x = tl.load(x_ptr + k * c + i % c, mask=m, other=1.0)",
            *lines,
            "tl.store(out_ptr + i, x, mask=m)",
        ),
    )
    launch = (
        *_GATHERED,
        "n = out.numel()",
        "kernel[(triton.cdiv(n, {BLOCK}),)](x, index, out, n, c, BLOCK={BLOCK}, num_warps={num_warps})",
        "return out",
    )
    yield from graded("flat", [flat], launch, naive=SLOW_BLOCKS)


_STORE: Final = "tl.store(out_ptr + r * c + i, x, mask=m)"
_GATHERED: Final = (
    "c = x.shape[1]",
    "out = torch.empty((index.numel(), c), device=x.device, dtype=x.dtype)",
)


def _strided_gather(lines: Lines) -> Iterator[Pattern]:
    """Yield a pattern whose lanes each copy a row of their own, one column after another."""
    kernel = Kernel(
        "kernel",
        "x_ptr, index_ptr, out_ptr, n, c, BLOCK: tl.constexpr",
        (
            "r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
            "m = r < n",
            "k = tl.load(index_ptr + r, mask=m, other=0)",
            "for i in range(0, c):",
            *(
                f"    {line}"
                for line in ("x = tl.load(x_ptr + k * c + i, mask=m, other=1.0)", *lines, _STORE)
            ),
        ),
    )  # fmt: skip
    launch = (
        *_GATHERED,
        "n = index.numel()",
        "kernel[(triton.cdiv(n, {BLOCK}),)](x, index, out, n, c, BLOCK={BLOCK}, num_warps={num_warps})",
        "return out",
    )
    yield from graded("columns", [kernel], launch, naive={"BLOCK": (32, 64), "num_warps": (1,)})


def _several_rows_gather(lines: Lines, block: int) -> Iterator[Pattern]:
    kernel = Kernel(
        "kernel",
        "x_ptr, index_ptr, out_ptr, n, c, ROWS: tl.constexpr, BLOCK: tl.constexpr",
        (
            "r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]",
            "i = tl.arange(0, BLOCK)[None, :]",
            "m = (r < n) & (i < c)",
            "k = tl.load(index_ptr + r, mask=r < n, other=0)",
            "x = tl.load(x_ptr + k * c + i, mask=m, other=1.0)",
            *lines,
            _STORE,
        ),
    )
    launch = (
        *_GATHERED,
        "n = index.numel()",
        "b = triton.next_power_of_2(c)",
        "kernel[(triton.cdiv(n, {ROWS}),)](x, index, out, n, c, ROWS={ROWS}, BLOCK=b, num_warps={num_warps})",
        "return out",
    )
    yield from graded("rows", [kernel], launch, good={"ROWS": several_rows(block), "num_warps": (4, 8)})


def scan(rng: random.Random, budget: Budget) -> GpuDraft:
    """The running sum along each row, with zero to two unary operations before."""
    chain = optional_chain(rng, 2)
    columns = draw_columns(rng, budget, 2, _WIDEST)
    each = 2 * columns * FLOAT_BYTES
    rows = budget.count(rng, each)
    return GpuDraft(
        composition=f"scan:cumsum({key(chain)})",
        slug=slug_of(chain, "cumsum"),
        torch=(*torch_lines(chain, "x"), "return torch.cumsum(x, dim=-1)"),
        sizes={"ROWS": rows, "COLUMNS": columns},
        inputs=(uniform("x", "ROWS", "COLUMNS"),),
        touched=rows * each,
        patterns=tuple(_scan_patterns(triton_lines(chain, "x"), columns)),
        cuda=cuda_rows.scan(columns, cuda_lines(chain, "x")),
    )


_SHAPES: Final = ("n, c = x.shape", "out = torch.empty_like(x)")


def _scan_patterns(lines: Lines, columns: int) -> Iterator[Pattern]:
    block = 1 << (columns - 1).bit_length()
    row = Kernel(
        "kernel",
        "x_ptr, out_ptr, c, BLOCK: tl.constexpr",
        (
            "r = tl.program_id(0)",
            "i = tl.arange(0, BLOCK)",
            "m = i < c",
            "x = tl.load(x_ptr + r * c + i, mask=m, other=1.0)",
            *lines,
            "x = tl.cumsum(tl.where(m, x, 0.0), 0)",
            _STORE,
        ),
    )
    launch = (
        *_SHAPES,
        "kernel[(n,)](x, out, c, BLOCK=triton.next_power_of_2(c), num_warps={num_warps})",
        "return out",
    )
    yield from graded("row", [row], launch, **row_warps(block))
    if columns <= SHORT_ROW:
        yield from _scan_of_several_rows(lines, block)
    yield from _scan_in_steps(lines, columns)
    if columns <= COUNTED_ROW:
        yield from _scan_by_column(lines)


def _scan_of_several_rows(lines: Lines, block: int) -> Iterator[Pattern]:
    kernel = Kernel(
        "kernel",
        "x_ptr, out_ptr, n, c, ROWS: tl.constexpr, BLOCK: tl.constexpr",
        (
            "r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]",
            "i = tl.arange(0, BLOCK)[None, :]",
            "m = (r < n) & (i < c)",
            "x = tl.load(x_ptr + r * c + i, mask=m, other=1.0)",
            *lines,
            "x = tl.cumsum(tl.where(m, x, 0.0), 1)",
            _STORE,
        ),
    )
    launch = (
        *_SHAPES,
        "b = triton.next_power_of_2(c)",
        "kernel[(triton.cdiv(n, {ROWS}),)](x, out, n, c, ROWS={ROWS}, BLOCK=b, num_warps={num_warps})",
        "return out",
    )
    yield from graded("rows", [kernel], launch, good={"ROWS": several_rows(block), "num_warps": (4, 8)})


def _scan_in_steps(lines: Lines, columns: int) -> Iterator[Pattern]:
    """Yield a pattern that carries the sum from one small block of a row to the next."""
    kernel = Kernel(
        "kernel",
        "x_ptr, out_ptr, c, BLOCK: tl.constexpr",
        (
            "r = tl.program_id(0)",
            "total = 0.0",
            "for s in range(0, c, BLOCK):",
            *(
                f"    {line}"
                for line in (
                    "i = s + tl.arange(0, BLOCK)",
                    "m = i < c",
                    "x = tl.load(x_ptr + r * c + i, mask=m, other=1.0)",
                    *lines,
                    "x = tl.where(m, x, 0.0)",
                    "tl.store(out_ptr + r * c + i, tl.cumsum(x, 0) + total, mask=m)",
                    "total += tl.sum(x, 0)",
                )
            ),
        ),
    )
    launch = (*_SHAPES, "kernel[(n,)](x, out, c, BLOCK={BLOCK}, num_warps={num_warps})", "return out")
    good = {"BLOCK": (1024, 2048), "num_warps": (4, 8)} if columns > COUNTED_ROW else None
    yield from graded("steps", [kernel], launch, naive={"BLOCK": (32, 64, 128), "num_warps": (1, 4)}, good=good)


def _scan_by_column(lines: Lines) -> Iterator[Pattern]:
    """Yield the pattern whose lanes each walk along a row of their own: neighbours read and write far apart."""
    kernel = Kernel(
        "kernel",
        "x_ptr, out_ptr, n, c, BLOCK: tl.constexpr",
        (
            "r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
            "m = r < n",
            "total = tl.zeros((BLOCK,), tl.float32)",
            "for i in range(0, c):",
            *(
                f"    {line}"
                for line in (
                    "x = tl.load(x_ptr + r * c + i, mask=m, other=1.0)",
                    *lines,
                    "total += x",
                    "tl.store(out_ptr + r * c + i, total, mask=m)",
                )
            ),
        ),
    )
    launch = (
        *_SHAPES,
        "kernel[(triton.cdiv(n, {BLOCK}),)](x, out, n, c, BLOCK={BLOCK}, num_warps={num_warps})",
        "return out",
    )
    yield from graded("columns", [kernel], launch, naive={"BLOCK": (32, 64), "num_warps": (1,)})
