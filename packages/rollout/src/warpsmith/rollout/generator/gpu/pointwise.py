"""Families that compute each output element independently: what counts is that memory is read once, in order."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from warpsmith.rollout.generator.chains import (
    Chain,
    Step,
    draw_chain,
    is_well_conditioned,
    key,
    optional_chain,
    slug_of,
    torch_lines,
    triton_lines,
)
from warpsmith.rollout.generator.cuda.operations import binary_line, cuda_lines, step_line
from warpsmith.rollout.generator.cuda.patterns import CudaStage, pointwise
from warpsmith.rollout.generator.gpu.sizes import FLOAT_BYTES, Budget, draw_columns
from warpsmith.rollout.generator.gpu.solutions import GpuDraft, Lines, Pattern, graded, uniform
from warpsmith.rollout.generator.operations import BINARY, UNARY
from warpsmith.rollout.generator.render import Kernel

SLOW_BLOCKS: Final = {"BLOCK": (32, 64, 128), "num_warps": (4, 8)}
FAST_BLOCKS: Final = {"BLOCK": (1024, 2048, 4096), "num_warps": (4, 8)}
_STRIDED: Final = {"BLOCK": (128, 256, 1024), "num_warps": (4,)}
_SEVERAL_PASSES: Final = {"BLOCK": (64, 128, 256), "num_warps": (4,)}
_WIDEST: Final = 65_536


@dataclass(frozen=True)
class Operand:
    """A second operand `y`: the expression in `forward` that passes it, and its index for output element `i`."""

    argument: str
    index: str


@dataclass(frozen=True)
class Stage:
    """What one unfused kernel does: optionally loads `y`, then computes `x`."""

    lines: Lines
    operand: Operand | None = None


def elementwise(rng: random.Random, budget: Budget) -> GpuDraft:
    """A chain of one to four unary operations."""
    chain = draw_chain(rng, rng.randint(1, 4))
    sizes, shape = _any_shape(rng, budget, 2)
    steps = [Stage(triton_lines((step,), "x")) for step in chain]
    return GpuDraft(
        composition=f"elementwise:{key(chain)}",
        slug=slug_of(chain),
        torch=(*torch_lines(chain, "x"), "return x"),
        sizes=sizes,
        inputs=(uniform("x", *shape),),
        touched=2 * _bytes(sizes),
        patterns=tuple(pointwise_patterns(("x",), _merged(steps))),
        cuda=pointwise([CudaStage(cuda_lines(part, "x")) for part in _halves(chain)], {"x": "x"}),
    )


def binary(rng: random.Random, budget: Budget) -> GpuDraft:
    """An operation on two tensors of one shape, with zero to two unary operations on each before."""
    operation = rng.choice(BINARY)
    first, second = optional_chain(rng, 2), optional_chain(rng, 1)
    sizes, shape = _any_shape(rng, budget, 3)
    last = (*triton_lines(second, "y"), f"x = {operation.triton.format(x='x', y='y')}")
    return GpuDraft(
        composition=f"binary:{operation.name}({key(first)},{key(second)})" if first or second
        else f"binary:{operation.name}",
        slug=slug_of(first, second, operation.name),
        torch=(*torch_lines(first, "x"), *torch_lines(second, "y"),
               f"return {operation.torch.format(x='x', y='y')}"),
        sizes=sizes,
        inputs=(uniform("x", *shape), uniform("y", *shape)),
        touched=3 * _bytes(sizes),
        patterns=tuple(pointwise_patterns(
            ("x", "y"), (*_first_stage(first), Stage(last, Operand("y", "i")))
        )),
        cuda=pointwise(
            [*_first_cuda(first), CudaStage((*cuda_lines(second, "y"), binary_line(operation)), "i")],
            {"x": "x", "y": "y"},
        ),
    )  # fmt: skip


def broadcast(rng: random.Random, budget: Budget) -> GpuDraft:
    """A matrix and a row or a column, with zero to two unary operations on the matrix before."""
    operation, along_row, chain = rng.choice(BINARY), rng.random() < 0.5, optional_chain(rng, 2)
    columns = draw_columns(rng, budget, 2, _WIDEST)
    # Each row of the matrix is read and written; the row is fixed, the column grows with the rows.
    each, fixed = (2 * columns, columns) if along_row else (2 * columns + 1, 0)
    rows = budget.count(rng, each * FLOAT_BYTES, fixed * FLOAT_BYTES)
    stage = Stage((f"x = {operation.triton.format(x='x', y='y')}",), Operand("y", "i % c" if along_row else "i // c"))
    return GpuDraft(
        composition=f"broadcast_{'row' if along_row else 'column'}:{operation.name}({key(chain)})",
        slug=slug_of(chain, operation.name, "row" if along_row else "column"),
        torch=(*torch_lines(chain, "x"), f"return {operation.torch.format(x='x', y='y')}"),
        sizes={"ROWS": rows, "COLUMNS": columns},
        inputs=(uniform("x", "ROWS", "COLUMNS"), uniform("y", *(("COLUMNS",) if along_row else ("ROWS", "1")))),
        touched=(rows * each + fixed) * FLOAT_BYTES,
        patterns=tuple(pointwise_patterns(("x", "y"), (*_first_stage(chain), stage))),
        cuda=pointwise(
            [*_first_cuda(chain), CudaStage((binary_line(operation),), "i % c" if along_row else "i / c")],
            {"x": "x", "y": "y"},
        ),
    )


_ACTIVATIONS: Final = ("sigmoid", "tanh", "silu", "relu", "softplus", "softsign", "elu", "leaky_relu")


def epilogue(rng: random.Random, budget: Budget) -> GpuDraft:
    """Up to two unary operations, then a learned bias, an activation and a scale."""
    chain, activation = _draw_activated(rng)
    scale = rng.choice((0.5, 1.5, 2.0, 3.0))
    columns = draw_columns(rng, budget, 2, _WIDEST)
    rows = budget.count(rng, 2 * columns * FLOAT_BYTES, columns * FLOAT_BYTES)
    bias = Stage(("x = x + y",), Operand("self.bias", "i % c"))
    last = Stage((activation.triton("x"), f"x = x * {scale}"))
    return GpuDraft(
        composition=f"epilogue:{activation.operation.name}({key(chain)})",
        slug=slug_of(chain, "bias", activation.operation.name, "scale"),
        torch=(*torch_lines(chain, "x"), "x = x + self.bias", activation.torch("x"), f"return x * {scale}"),
        init=("self.bias = nn.Parameter(torch.rand(columns) - 0.5)",),
        init_arguments=(("columns", "COLUMNS"),),
        sizes={"ROWS": rows, "COLUMNS": columns},
        inputs=(uniform("x", "ROWS", "COLUMNS"),),
        touched=(2 * rows + 1) * columns * FLOAT_BYTES,
        patterns=tuple(pointwise_patterns(("x",), (*_first_stage(chain), bias, last))),
        cuda=pointwise(
            [
                *_first_cuda(chain),
                CudaStage(("x = x + y;",), "i % c"),
                CudaStage((step_line(activation, "x"), f"x = x * {scale}f;")),
            ],
            {"x": "x", "y": "self.bias"},
        ),
    )


def _draw_activated(rng: random.Random) -> tuple[Chain, Step]:
    """Draw a chain and an activation that still changes with what the chain returns."""
    by_name = {operation.name: operation for operation in UNARY}
    while True:
        operation = by_name[rng.choice(_ACTIVATIONS)]
        chain, activation = optional_chain(rng, 2), Step(operation, rng.choice(operation.constants))
        if is_well_conditioned((*chain, activation)):
            return chain, activation


def pointwise_patterns(inputs: tuple[str, ...], stages: tuple[Stage, ...]) -> Iterator[Pattern]:
    """Yield the patterns of a problem that works on the flat output, element by element.

    Args:
        inputs: names of the arguments of `forward`; the first has the output's shape.
        stages: what is computed; every stage may become a kernel of its own.
    """
    whole = Stage(
        tuple(line for stage in stages for line in stage.lines),
        next((stage.operand for stage in stages if stage.operand), None),
    )
    flat, strided = pointwise_kernel("kernel", whole), pointwise_kernel("kernel", whole, strided=True)
    yield from graded("flat", [flat], _launch([("kernel", whole)]), naive=SLOW_BLOCKS, good=FAST_BLOCKS)
    yield from graded("strided", [strided], _launch([("kernel", whole)]), naive=_STRIDED)
    if len(stages) > 1:
        named = [(f"kernel_{number}", stage) for number, stage in enumerate(stages, 1)]
        kernels = [pointwise_kernel(name, stage) for name, stage in named]
        yield from graded("unfused", kernels, _launch(named), naive=_SEVERAL_PASSES)


def pointwise_kernel(name: str, stage: Stage, *, strided: bool = False) -> Kernel:
    """Return a kernel for BLOCK elements per program: next to each other, or strided by the number of programs."""
    offsets = (
        "i = tl.program_id(0) + tl.arange(0, BLOCK) * tl.num_programs(0)"
        if strided
        else "i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)"
    )
    load = (f"y = tl.load(y_ptr + {stage.operand.index}, mask=m)",) if stage.operand else ()
    return Kernel(
        name,
        f"x_ptr, {'y_ptr, ' if stage.operand else ''}out_ptr, n, {'c, ' if _has_columns(stage) else ''}"
        "BLOCK: tl.constexpr",
        (offsets, "m = i < n", "x = tl.load(x_ptr + i, mask=m)", *load, *stage.lines,
         "tl.store(out_ptr + i, x, mask=m)"),
    )  # fmt: skip


def _launch(stages: list[tuple[str, Stage]]) -> Lines:
    lines = ["out = torch.empty_like(x)", "n = x.numel()"]
    for number, (name, stage) in enumerate(stages):
        second = f"{stage.operand.argument}, " if stage.operand else ""
        columns = "x.shape[-1], " if _has_columns(stage) else ""
        lines.append(
            f"{name}[(triton.cdiv(n, {{BLOCK}}),)]({'out' if number else 'x'}, {second}out, n, {columns}"
            "BLOCK={BLOCK}, num_warps={num_warps})"
        )
    return (*lines, "return out")


def _has_columns(stage: Stage) -> bool:
    return stage.operand is not None and " c" in stage.operand.index


def _first_stage(chain: Chain) -> tuple[Stage, ...]:
    return (Stage(triton_lines(chain, "x")),) if chain else ()


def _first_cuda(chain: Chain) -> tuple[CudaStage, ...]:
    return (CudaStage(cuda_lines(chain, "x")),) if chain else ()


def _halves(chain: Chain) -> list[Chain]:
    half = (len(chain) + 1) // 2
    return [chain[:half], chain[half:]] if len(chain) > 1 else [chain]


def _merged(stages: list[Stage]) -> tuple[Stage, ...]:
    """Return at most two stages: more kernels would make long answers."""
    half = (len(stages) + 1) // 2
    parts = [stages[:half], stages[half:]] if len(stages) > 1 else [stages]
    return tuple(Stage(tuple(line for stage in part for line in stage.lines)) for part in parts)


def _any_shape(rng: random.Random, budget: Budget, tensors: int) -> tuple[dict[str, int], tuple[str, ...]]:
    """Draw a vector or a matrix."""
    if rng.random() < 0.5:
        return {"SIZE": budget.count(rng, tensors * FLOAT_BYTES)}, ("SIZE",)
    columns = draw_columns(rng, budget, tensors, _WIDEST)
    rows = budget.count(rng, tensors * columns * FLOAT_BYTES)
    return {"ROWS": rows, "COLUMNS": columns}, ("ROWS", "COLUMNS")


def _bytes(sizes: dict[str, int]) -> int:
    product = FLOAT_BYTES
    for size in sizes.values():
        product *= size
    return product
