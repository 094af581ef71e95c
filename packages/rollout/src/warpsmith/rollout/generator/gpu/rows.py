"""Families that combine the elements of a row: what counts is one pass, whole rows in registers, and enough warps."""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from warpsmith.rollout.generator.chains import (
    Chain,
    grows_outwards,
    key,
    optional_chain,
    slug_of,
    torch_lines,
    triton_lines,
)
from warpsmith.rollout.generator.cuda import rows as cuda_rows
from warpsmith.rollout.generator.cuda.operations import cuda_lines
from warpsmith.rollout.generator.gpu.pointwise import Stage, pointwise_kernel
from warpsmith.rollout.generator.gpu.sizes import FLOAT_BYTES, Budget, draw_columns
from warpsmith.rollout.generator.gpu.solutions import GpuDraft, Lines, Pattern, SizedInput, graded, uniform
from warpsmith.rollout.generator.render import Kernel

WHOLE_ROW: Final = 16_384
"""The longest row that one program holds in registers."""
_WIDEST: Final = 65_536
SHORT_ROW: Final = 1024
"""Up to this length, one program should take several rows."""
COUNTED_ROW: Final = 2048
"""Up to this length, a program may walk through its rows one column at a time: slow, but not for seconds."""
_PADDED_BLOCKS: Final = (4096, 8192, 16_384)
"""Blocks that are too large for many rows: most lanes of a program compute nothing."""
_REACH: Final = 6.5
"""The largest of a few hundred million normal numbers is below."""


@dataclass(frozen=True)
class Axis:
    """Which axis of a block is a row: of one row, or the second of several rows."""

    several: bool

    def reduced(self, operation: str, value: str) -> str:
        """Return the reduction of each row, in a shape that broadcasts against the block."""
        return f"tl.{operation}({value}, 1)[:, None]" if self.several else f"tl.{operation}({value}, 0)"


@dataclass(frozen=True)
class Pass:
    """A loop over a row in blocks of BLOCK: lines before it, in it after the chain, and after it."""

    before: Lines
    inside: Lines
    after: Lines = ()


@dataclass(frozen=True)
class RowKernel:
    """What the patterns of a row family share.

    Args:
        columns: length of a row.
        chain: lines on `x` before anything else.
        body: returns the lines after the chain for whole rows; its argument is the axis of a row in a block.
        passes: the loops that do the same in blocks of a row, in order.
        one_value: whether a row's result is one value.
        weight: whether the result is multiplied by `self.weight`.
    """

    columns: int
    chain: Lines
    body: Callable[[Axis], Lines]
    passes: tuple[Pass, ...]
    one_value: bool = False
    weight: bool = False


def row_patterns(row: RowKernel) -> Iterator[Pattern]:
    """Yield the patterns of a row family."""
    block = 1 << (row.columns - 1).bit_length()
    if row.columns <= WHOLE_ROW:
        yield from graded("row", [_whole_row(row)], _row_launch(row, "triton.next_power_of_2(c)"), **row_warps(block))
        padded = tuple(wide for wide in _PADDED_BLOCKS if wide >= 4 * block)
        if padded:
            choices = {"BLOCK": padded, "num_warps": (4,)}
            yield from graded("row_padded", [_whole_row(row)], _row_launch(row, "{BLOCK}"), naive=choices)
        if row.chain:
            yield from _unfused(row)
    if row.columns <= SHORT_ROW:
        choices = {"ROWS": several_rows(block), "num_warps": (4, 8)}
        yield from graded("rows", [_several_rows(row)], _rows_launch(row), good=choices)
    yield from graded(
        "passes",
        [_in_passes(row)],
        _row_launch(row, "{BLOCK}"),
        naive={"BLOCK": (32, 64, 128), "num_warps": (1, 4)},
        good={"BLOCK": (2048, 4096), "num_warps": (8, 16)} if row.columns > WHOLE_ROW else None,
    )


def _unfused(row: RowKernel) -> Iterator[Pattern]:
    """Yield the pattern that first writes the result of the chain to memory."""
    first = pointwise_kernel("kernel_1", Stage(row.chain))
    second = replace(_whole_row(replace(row, chain=())), name="kernel_2")
    launch = (
        "n, c = x.shape",
        "y = torch.empty_like(x)",
        f"out = {_allocated(row)}",
        "kernel_1[(triton.cdiv(n * c, {BLOCK}),)](x, y, n * c, BLOCK={BLOCK}, num_warps=4)",
        f"kernel_2[(n,)](y, {'self.weight, ' if row.weight else ''}out, c, BLOCK=triton.next_power_of_2(c))",
        "return out",
    )
    yield from graded("unfused", [first, second], launch, naive={"BLOCK": (32, 64, 128)})


def row_warps(block: int) -> dict[str, Mapping[str, tuple[int, ...]] | None]:
    """Return choices of warps for a row of a block's length: too few spill a long one, too many idle on a short one."""
    if block > 4096:
        # Up to 128 elements a thread fit into registers; more are spilled.
        return {"naive": {"num_warps": (1,) if block == 8192 else (1, 2)}, "good": {"num_warps": (8, 16)}}
    if block > SHORT_ROW:
        return {"naive": None, "good": {"num_warps": (4, 8)}}
    many = (32,) if block > 256 else (16, 32)
    return {"naive": {"num_warps": many}, "good": {"num_warps": (1, 2, 4)} if block > 128 else None}


def several_rows(block: int) -> tuple[int, ...]:
    """Return how many rows of a block's length one program may take: 1,024 to 4,096 elements, at least two rows."""
    return tuple(sorted({max(2, 1024 // block), max(2, 4096 // block)}))


def _parameters(row: RowKernel, sizes: str) -> str:
    return f"x_ptr, {'w_ptr, ' if row.weight else ''}out_ptr, {sizes}"


def _whole_row(row: RowKernel) -> Kernel:
    return Kernel(
        "kernel",
        _parameters(row, "c, BLOCK: tl.constexpr"),
        (
            "r = tl.program_id(0)",
            "i = tl.arange(0, BLOCK)",
            "m = i < c",
            "x = tl.load(x_ptr + r * c + i, mask=m, other=1.0)",
            *row.chain,
            *row.body(Axis(several=False)),
            *_stored(row, "r"),
        ),
    )


def _several_rows(row: RowKernel) -> Kernel:
    return Kernel(
        "kernel",
        _parameters(row, "n, c, ROWS: tl.constexpr, BLOCK: tl.constexpr"),
        (
            "r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]",
            "i = tl.arange(0, BLOCK)[None, :]",
            "m = (r < n) & (i < c)",
            "x = tl.load(x_ptr + r * c + i, mask=m, other=1.0)",
            *row.chain,
            *row.body(Axis(several=True)),
            *_stored(row, "r", rows=True),
        ),
    )


def _stored(row: RowKernel, place: str, *, rows: bool = False) -> Lines:
    if row.one_value:
        return (f"tl.store(out_ptr + {place}, x{', mask=r < n' if rows else ''})",)
    weight = ("x = x * tl.load(w_ptr + i, mask=i < c)",) if row.weight else ()
    return (*weight, f"tl.store(out_ptr + {place} * c + i, x, mask=m)")


def _in_passes(row: RowKernel) -> Kernel:
    lines: list[str] = ["r = tl.program_id(0)"]
    last = len(row.passes) - 1
    for number, one in enumerate(row.passes):
        stores = _stored(row, "r") if number == last and not row.one_value else ()
        loop = (
            "i = s + tl.arange(0, BLOCK)",
            "m = i < c",
            "x = tl.load(x_ptr + r * c + i, mask=m, other=1.0)",
            *row.chain,
            *one.inside,
            *stores,
        )
        lines += [*one.before, "for s in range(0, c, BLOCK):", *(f"    {line}" for line in loop), *one.after]
    if row.one_value:
        lines.append("tl.store(out_ptr + r, x)")
    return Kernel("kernel", _parameters(row, "c, BLOCK: tl.constexpr"), tuple(lines))


def _allocated(row: RowKernel) -> str:
    return "torch.empty(n, device=x.device, dtype=x.dtype)" if row.one_value else "torch.empty_like(x)"


def _row_launch(row: RowKernel, block: str) -> Lines:
    return (
        "n, c = x.shape",
        f"out = {_allocated(row)}",
        f"kernel[(n,)](x, {'self.weight, ' if row.weight else ''}out, c, BLOCK={block}, num_warps={{num_warps}})",
        "return out",
    )


def _rows_launch(row: RowKernel) -> Lines:
    return (
        "n, c = x.shape",
        f"out = {_allocated(row)}",
        "b = triton.next_power_of_2(c)",
        f"kernel[(triton.cdiv(n, {{ROWS}}),)](x, {'self.weight, ' if row.weight else ''}out, n, c, "
        "ROWS={ROWS}, BLOCK=b, num_warps={num_warps})",
        "return out",
    )


@dataclass(frozen=True)
class _Reduction:
    """A reduction: its PyTorch form, Triton's operation, lines before it, its neutral element, and what follows it."""

    torch: str
    operation: str = "sum"
    prepare: Lines = ()
    neutral: str = "0.0"
    finish: Lines = ()

    @property
    def combine(self) -> str:
        return "acc = tl.maximum(acc, x)" if self.operation == "max" else "acc += x"


_REDUCTIONS: Final[Mapping[str, _Reduction]] = MappingProxyType(
    {
        "sum": _Reduction("torch.sum(x, dim=-1)"),
        "mean": _Reduction("torch.mean(x, dim=-1)", finish=("x = x / c",)),
        "max": _Reduction("torch.amax(x, dim=-1)", "max", neutral='float("-inf")'),
        "sum_squares": _Reduction("torch.sum(x * x, dim=-1)", prepare=("x = x * x",)),
        "l1_norm": _Reduction("torch.sum(torch.abs(x), dim=-1)", prepare=("x = tl.abs(x)",)),
    }
)


def reduction(rng: random.Random, budget: Budget) -> GpuDraft:
    """A reduction of each row, with zero to two unary operations before."""
    name = rng.choice(tuple(_REDUCTIONS))
    found = _REDUCTIONS[name]
    chain = _growing_chain(rng) if name == "max" else optional_chain(rng, 2)
    columns = draw_columns(rng, budget, 1, _WIDEST)
    each = (columns + 1) * FLOAT_BYTES
    rows = budget.count(rng, each)
    return GpuDraft(
        composition=f"reduction:{name}({key(chain)})",
        slug=slug_of(chain, "row", name),
        torch=(*torch_lines(chain, "x"), f"return {found.torch}"),
        sizes={"ROWS": rows, "COLUMNS": columns},
        inputs=(_normal("x") if name == "max" else _matrix(),),
        touched=rows * each,
        patterns=(*_by_column(found, chain, columns), *row_patterns(_reduced(found, chain, columns))),
        cuda=cuda_rows.row_patterns(cuda_rows.reduction(name, columns, cuda_lines(chain, "x"))),
    )


def _reduced(found: _Reduction, chain: Chain, columns: int) -> RowKernel:
    masked = f"x = tl.where(m, x, {found.neutral})"

    def body(axis: Axis) -> Lines:
        return (*found.prepare, masked, f"x = {axis.reduced(found.operation, 'x')}", *found.finish)

    one = Pass(
        (f"acc = tl.full((BLOCK,), {found.neutral}, tl.float32)",),
        (*found.prepare, masked, found.combine),
        (f"x = tl.{found.operation}(acc, 0)", *found.finish),
    )
    return RowKernel(columns, triton_lines(chain, "x"), body, (one,), one_value=True)


def _by_column(found: _Reduction, chain: Chain, columns: int) -> Iterator[Pattern]:
    """Yield the pattern whose lanes each walk along a row of their own: neighbours read far apart."""
    if columns > COUNTED_ROW:
        return
    kernel = Kernel(
        "kernel",
        "x_ptr, out_ptr, n, c, BLOCK: tl.constexpr",
        (
            "r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
            "m = r < n",
            f"acc = tl.full((BLOCK,), {found.neutral}, tl.float32)",
            "for j in range(0, c):",
            *(
                f"    {line}"
                for line in (
                    "x = tl.load(x_ptr + r * c + j, mask=m, other=1.0)",
                    *triton_lines(chain, "x"),
                    *found.prepare,
                    found.combine,
                )
            ),
            "x = acc",
            *found.finish,
            "tl.store(out_ptr + r, x, mask=m)",
        ),
    )
    launch = (
        "n, c = x.shape",
        "out = torch.empty(n, device=x.device, dtype=x.dtype)",
        "kernel[(triton.cdiv(n, {BLOCK}),)](x, out, n, c, BLOCK={BLOCK}, num_warps={num_warps})",
        "return out",
    )
    yield from graded("columns", [kernel], launch, naive={"BLOCK": (32, 64, 128), "num_warps": (1, 4)})


_SHIFT: Final = ('x = tl.where(m, x, float("-inf"))',)
_TOP: Final = Pass(
    ('acc = tl.full((BLOCK,), float("-inf"), tl.float32)',),
    (*_SHIFT, "acc = tl.maximum(acc, x)"),
    ("top = tl.max(acc, 0)",),
)
_TOTAL: Final = Pass(
    ("acc = tl.full((BLOCK,), 0.0, tl.float32)",), (*_SHIFT, "acc += tl.exp(x - top)"), ("total = tl.sum(acc, 0)",)
)


def logsumexp(rng: random.Random, budget: Budget) -> GpuDraft:
    """The logarithm of the sum of exponentials of each row, with zero to two unary operations before."""
    chain = optional_chain(rng, 2)
    columns = draw_columns(rng, budget, 1, WHOLE_ROW)
    each = (columns + 1) * FLOAT_BYTES
    rows = budget.count(rng, each)

    def body(axis: Axis) -> Lines:
        return (
            *_SHIFT,
            f"top = {axis.reduced('max', 'x')}",
            "x = tl.exp(x - top)",
            f"x = tl.log({axis.reduced('sum', 'x')}) + top",
        )

    passes = (_TOP, Pass(_TOTAL.before, _TOTAL.inside, ("x = tl.log(tl.sum(acc, 0)) + top",)))
    return GpuDraft(
        composition=f"reduction:logsumexp({key(chain)})",
        slug=slug_of(chain, "row", "logsumexp"),
        torch=(*torch_lines(chain, "x"), "return torch.logsumexp(x, dim=-1)"),
        sizes={"ROWS": rows, "COLUMNS": columns},
        inputs=(_matrix(),),
        touched=rows * each,
        patterns=tuple(row_patterns(RowKernel(columns, triton_lines(chain, "x"), body, passes, one_value=True))),
        cuda=cuda_rows.row_patterns(cuda_rows.logsumexp(columns, cuda_lines(chain, "x"))),
    )


def softmax(rng: random.Random, budget: Budget) -> GpuDraft:
    """Softmax or log-softmax of each row, with zero to two unary operations before."""
    name, chain = rng.choice(("softmax", "log_softmax")), optional_chain(rng, 2)
    columns = draw_columns(rng, budget, 2, WHOLE_ROW)
    each = 2 * columns * FLOAT_BYTES
    rows = budget.count(rng, each)

    def body(axis: Axis) -> Lines:
        shift = (*_SHIFT, f"x = x - {axis.reduced('max', 'x')}")
        if name == "softmax":
            return (*shift, "x = tl.exp(x)", f"x = x / {axis.reduced('sum', 'x')}")
        return (*shift, f"x = x - tl.log({axis.reduced('sum', 'tl.exp(x)')})")

    written = Pass((), ("x = tl.exp(x - top) / total" if name == "softmax" else "x = x - top - tl.log(total)",))
    row = RowKernel(columns, triton_lines(chain, "x"), body, (_TOP, _TOTAL, written))
    return GpuDraft(
        composition=f"{name}({key(chain)})",
        slug=slug_of(chain, name),
        torch=(*torch_lines(chain, "x"), f"return F.{name}(x, dim=-1)"),
        sizes={"ROWS": rows, "COLUMNS": columns},
        inputs=(_matrix(),),
        touched=rows * each,
        patterns=tuple(row_patterns(row)),
        cuda=cuda_rows.row_patterns(
            cuda_rows.softmax(columns, cuda_lines(chain, "x"), logarithm=name == "log_softmax")
        ),
    )


_MASKED: Final = "x = tl.where(m, x, 0.0)"
_SUM_SQUARES: Final = Pass(("acc = tl.full((BLOCK,), 0.0, tl.float32)",), (_MASKED, "acc += x * x"))
_NORMS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "layer_norm": ("F.layer_norm(x, (x.shape[-1],))", "{} / c"),
        "rms_norm": ("x * torch.rsqrt(torch.mean(x * x, dim=-1, keepdim=True) + 1e-5)", "{} / c"),
        "l2_norm": ("x * torch.rsqrt(torch.sum(x * x, dim=-1, keepdim=True) + 1e-5)", "{}"),
    }
)
"""The PyTorch form, and from the sum of squares what epsilon is added to."""


def norm(rng: random.Random, budget: Budget) -> GpuDraft:
    """A norm of each row, optionally with a unary operation before and a learned scale after."""
    name, chain, scaled = rng.choice(tuple(_NORMS)), optional_chain(rng, 1), rng.random() < 0.5
    columns = draw_columns(rng, budget, 2, WHOLE_ROW)
    each, fixed = 2 * columns * FLOAT_BYTES, columns * FLOAT_BYTES * scaled
    rows = budget.count(rng, each, fixed)
    torch_form, _ = _NORMS[name]
    return GpuDraft(
        composition=f"{name}{'_scaled' if scaled else ''}({key(chain)})",
        slug=slug_of(chain, name, "scaled" if scaled else ""),
        torch=(
            *torch_lines(chain, "x"),
            *((f"x = {torch_form}", "return x * self.weight") if scaled else (f"return {torch_form}",)),
        ),
        init=("self.weight = nn.Parameter(torch.rand(columns) + 0.5)",) if scaled else (),
        init_arguments=(("columns", "COLUMNS"),) if scaled else (),
        sizes={"ROWS": rows, "COLUMNS": columns},
        inputs=(_matrix(),),
        touched=rows * each + fixed,
        patterns=tuple(row_patterns(_normed(name, chain, columns, scaled))),
        cuda=cuda_rows.row_patterns(cuda_rows.norm(name, columns, cuda_lines(chain, "x"), weight=scaled)),
    )


def _normed(name: str, chain: Chain, columns: int, scaled: bool) -> RowKernel:
    _, mean = _NORMS[name]
    centred = name == "layer_norm"

    def body(axis: Axis) -> Lines:
        centre = (f"x = tl.where(m, x - {axis.reduced('sum', 'x')} / c, 0.0)",) if centred else ()
        squares = axis.reduced("sum", "x * x")
        return (_MASKED, *centre, f"x = x / tl.sqrt({mean.format(squares)} + 1e-5)")

    scale = f"scale = 1.0 / tl.sqrt({mean.format('tl.sum(acc, 0)')} + 1e-5)"
    if not centred:
        two = (Pass(_SUM_SQUARES.before, _SUM_SQUARES.inside, (scale,)), Pass((), ("x = x * scale",)))
        return RowKernel(columns, triton_lines(chain, "x"), body, two, weight=scaled)
    zeros = _SUM_SQUARES.before
    three = (
        Pass(zeros, (_MASKED, "acc += x"), ("mean = tl.sum(acc, 0) / c",)),
        Pass(zeros, ("x = tl.where(m, x - mean, 0.0)", "acc += x * x"), (scale,)),
        Pass((), ("x = (x - mean) * scale",)),
    )
    return RowKernel(columns, triton_lines(chain, "x"), body, three, weight=scaled)


def _matrix() -> SizedInput:
    return uniform("x", "ROWS", "COLUMNS")


def _normal(name: str) -> SizedInput:
    """Return a matrix of normal numbers: the largest of a long row of uniform ones is the same in every row."""
    return SizedInput(name, "torch.randn(ROWS, COLUMNS)")


def _growing_chain(rng: random.Random) -> Chain:
    """Draw a chain whose largest values lie where normal numbers are rare."""
    while True:
        chain = optional_chain(rng, 2, reach=_REACH)
        if grows_outwards(chain, _REACH):
            return chain
