"""Matrix products in full fp32, one or a batch of them: what counts is reuse of loaded tiles, and a fused epilogue."""

import random
from collections.abc import Iterator
from typing import Final

from warpsmith.rollout.generator.chains import Chain, key, optional_chain, slug_of, torch_lines, triton_lines
from warpsmith.rollout.generator.cuda.operations import cuda_lines
from warpsmith.rollout.generator.cuda.patterns import product
from warpsmith.rollout.generator.gpu.pointwise import Stage, pointwise_kernel
from warpsmith.rollout.generator.gpu.sizes import FLOAT_BYTES, Budget, styled
from warpsmith.rollout.generator.gpu.solutions import GpuDraft, Lines, Pattern, graded, uniform
from warpsmith.rollout.generator.render import Kernel

_REACH: Final = 48.0
"""Expected bound of a product's entries: 256 terms of variance 1/9 have a standard deviation of 5.3."""
_DEPTHS: Final = (16, 256)
_WIDTHS: Final = (32, 1024)
_SIDES: Final = (24, 160)
"""Rows, columns and depth of each matrix of a batch."""
_NARROW: Final = 128
"""Up to this many columns, tiles of 32 waste less than they read twice."""
_SMALL_TILES: Final = {"BLOCK": (16,), "DEPTH": (16,), "num_warps": (4, 8)}
_VECTORS: Final = {"BLOCK": (32, 64), "num_warps": (1, 4)}


def matmul(rng: random.Random, budget: Budget) -> GpuDraft:
    """A product of a tall matrix and a small one, with zero to two unary operations after."""
    chain = optional_chain(rng, 2, reach=_REACH)
    # With little data, depth and width shrink, so that there are still rows.
    most = max(32, min(1024, round((budget.target / FLOAT_BYTES) ** 0.5 / 2)))
    k = _between(rng, _DEPTHS[0], min(_DEPTHS[1], most))
    n = _between(rng, _WIDTHS[0], most)
    each, fixed = (k + n) * FLOAT_BYTES, k * n * FLOAT_BYTES
    m = budget.count(rng, each, fixed)
    return GpuDraft(
        composition=f"matmul({key(chain)})",
        slug=slug_of("matmul", chain),
        torch=("x = torch.matmul(x, y)", *torch_lines(chain, "x"), "return x"),
        sizes={"M": m, "K": k, "N": n},
        inputs=(uniform("x", "M", "K", reach=1.0), uniform("y", "K", "N", reach=1.0)),
        touched=m * each + fixed,
        patterns=tuple(_patterns(chain, n, batched=False)),
        cuda=product(cuda_lines(chain, "x"), batched=False),
    )


def batched_matmul(rng: random.Random, budget: Budget) -> GpuDraft:
    """A batch of products of small matrices, with zero to two unary operations after."""
    chain = optional_chain(rng, 2, reach=_REACH)
    most = max(_SIDES[0], min(_SIDES[1], round((budget.target / FLOAT_BYTES / 12) ** 0.5)))
    m, k, n = (_between(rng, _SIDES[0], most) for _ in range(3))
    each = (m * k + k * n + m * n) * FLOAT_BYTES
    batch = budget.count(rng, each)
    return GpuDraft(
        composition=f"batched_matmul({key(chain)})",
        slug=slug_of("batched_matmul", chain),
        torch=("x = torch.bmm(x, y)", *torch_lines(chain, "x"), "return x"),
        sizes={"BATCH": batch, "M": m, "K": k, "N": n},
        inputs=(uniform("x", "BATCH", "M", "K", reach=1.0), uniform("y", "BATCH", "K", "N", reach=1.0)),
        touched=batch * each,
        patterns=tuple(_patterns(chain, n, batched=True)),
        cuda=product(cuda_lines(chain, "x"), batched=True),
    )


def _between(rng: random.Random, least: int, most: int) -> int:
    """Return a size, half of the time a power of two."""
    size = round(least * (most / least) ** rng.random())
    return max(least, styled(rng, size))


def _patterns(chain: Chain, columns: int, *, batched: bool) -> Iterator[Pattern]:
    lines = triton_lines(chain, "x")
    tile, launch = _tile_kernel(lines, batched), _tile_launch(batched)
    blocks = (32, 64) if columns <= _NARROW else (64,)
    good = {"BLOCK": blocks, "DEPTH": (16, 32), "num_warps": (4, 8)}
    yield from graded("tile", [tile], launch, naive=_SMALL_TILES, good=good)
    yield from graded("vector", [_vector_kernel(lines, batched)], _vector_launch(batched), naive=_VECTORS)
    if chain:
        product = _tile_kernel((), batched, name="kernel_1")
        after = pointwise_kernel("kernel_2", Stage(lines))
        yield from graded("unfused", [product, after], _unfused_launch(batched), naive=_SMALL_TILES)


def _offsets(batched: bool) -> tuple[Lines, str, str, str]:
    """Return the line that reads the number of the batch, and the offsets of its matrices."""
    if not batched:
        return (), "", "", ""
    return ("b = tl.program_id(0)",), "b * m * k + ", "b * k * n + ", "b * m * n + "


def _tile_kernel(lines: Lines, batched: bool, name: str = "kernel") -> Kernel:
    """Return a kernel that computes a tile of BLOCK x BLOCK in steps of DEPTH."""
    first, x, y, out = _offsets(batched)
    axis = int(batched)
    return Kernel(
        name,
        "x_ptr, y_ptr, out_ptr, m, k, n, BLOCK: tl.constexpr, DEPTH: tl.constexpr",
        (
            *first,
            f"i = tl.program_id({axis}) * BLOCK + tl.arange(0, BLOCK)[:, None]",
            f"j = tl.program_id({axis + 1}) * BLOCK + tl.arange(0, BLOCK)[None, :]",
            "acc = tl.zeros((BLOCK, BLOCK), tl.float32)",
            "for s in range(0, k, DEPTH):",
            "    p = s + tl.arange(0, DEPTH)[None, :]",
            "    q = s + tl.arange(0, DEPTH)[:, None]",
            f"    x = tl.load(x_ptr + {x}i * k + p, mask=(i < m) & (p < k), other=0.0)",
            f"    y = tl.load(y_ptr + {y}q * n + j, mask=(q < k) & (j < n), other=0.0)",
            '    acc += tl.dot(x, y, input_precision="ieee")',
            "x = acc",
            *lines,
            f"tl.store(out_ptr + {out}i * n + j, x, mask=(i < m) & (j < n))",
        ),
    )


def _vector_kernel(lines: Lines, batched: bool) -> Kernel:
    """Return a kernel that computes BLOCK entries of one row, and reads the second matrix again for each row."""
    first, x, y, out = _offsets(batched)
    axis = int(batched)
    return Kernel(
        "kernel",
        "x_ptr, y_ptr, out_ptr, m, k, n, BLOCK: tl.constexpr",
        (
            *first,
            f"i = tl.program_id({axis})",
            f"j = tl.program_id({axis + 1}) * BLOCK + tl.arange(0, BLOCK)",
            "acc = tl.zeros((BLOCK,), tl.float32)",
            "for p in range(0, k):",
            f"    x = tl.load(x_ptr + {x}i * k + p)",
            f"    y = tl.load(y_ptr + {y}p * n + j, mask=j < n, other=0.0)",
            "    acc += x * y",
            "x = acc",
            *lines,
            f"tl.store(out_ptr + {out}i * n + j, x, mask=j < n)",
        ),
    )


_TILE_NUMBERS: Final = "BLOCK={BLOCK}, DEPTH={DEPTH}, num_warps={num_warps}"


def _shapes(batched: bool) -> Lines:
    if batched:
        return ("b, m, k = x.shape", "n = y.shape[2]", "out = torch.empty((b, m, n), device=x.device, dtype=x.dtype)")
    return ("m, k = x.shape", "n = y.shape[1]", "out = torch.empty((m, n), device=x.device, dtype=x.dtype)")


def _tile_grid(batched: bool) -> str:
    return f"({'b, ' if batched else ''}triton.cdiv(m, {{BLOCK}}), triton.cdiv(n, {{BLOCK}}))"


def _tile_launch(batched: bool) -> Lines:
    return (
        *_shapes(batched),
        f"grid = {_tile_grid(batched)}",
        f"kernel[grid](x, y, out, m, k, n, {_TILE_NUMBERS})",
        "return out",
    )


def _vector_launch(batched: bool) -> Lines:
    return (
        *_shapes(batched),
        f"grid = ({'b, ' if batched else ''}m, triton.cdiv(n, {{BLOCK}}))",
        "kernel[grid](x, y, out, m, k, n, BLOCK={BLOCK}, num_warps={num_warps})",
        "return out",
    )


def _unfused_launch(batched: bool) -> Lines:
    return (
        *_shapes(batched),
        f"grid = {_tile_grid(batched)}",
        f"kernel_1[grid](x, y, out, m, k, n, {_TILE_NUMBERS})",
        "kernel_2[(triton.cdiv(out.numel(), 256),)](out, out, out.numel(), BLOCK=256)",
        "return out",
    )
