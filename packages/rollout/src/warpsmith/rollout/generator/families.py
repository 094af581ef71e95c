"""Families of problems: each draws one draft, with a solution that is correct by construction."""

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType

from warpsmith.rollout.generator.chains import (
    Chain,
    draw_chain,
    has_sharp_extremum,
    key,
    optional_chain,
    slug_of,
    torch_lines,
    triton_lines,
)
from warpsmith.rollout.generator.cuda import rows as cuda_rows
from warpsmith.rollout.generator.cuda.operations import binary_line, cuda_lines
from warpsmith.rollout.generator.cuda.patterns import CudaStage, pointwise, product
from warpsmith.rollout.generator.operations import BINARY
from warpsmith.rollout.generator.render import Draft, Tensor

Family = Callable[[random.Random], Draft]

BLOCK = 1024
"""Elements per program of a pointwise kernel."""

ROW_BLOCK = 512
"""The widest row of a row kernel, which processes a row in one program."""

_FLAT = ((256,), (1000,), (1024,), (1536,), (3001,), (4096,))
_MATRICES = ((8, 128), (16, 64), (16, 100), (13, 77), (32, 128), (7, 300), (31, 33), (24, 96))
_NARROW = tuple(shape for shape in _MATRICES if shape[1] <= 128)
"""The softmax of a wider row would differ from a constant by little more than the tolerance."""
_CUBES = ((4, 8, 32), (2, 5, 60), (3, 16, 64), (6, 7, 50))
_PRODUCT_REACH = 48.0
"""Expected bound of a product's entries: 64 terms of variance 16/9 have a standard deviation of 10.7."""
_PRODUCTS = ((16, 16, 16), (32, 16, 48), (33, 20, 17), (24, 40, 30), (64, 32, 64), (20, 64, 50))


def elementwise_1(rng: random.Random) -> Draft:
    """One unary operation."""
    return _elementwise(rng, 1)


def elementwise_2(rng: random.Random) -> Draft:
    """A chain of two unary operations."""
    return _elementwise(rng, 2)


def elementwise_3(rng: random.Random) -> Draft:
    """A chain of three unary operations."""
    return _elementwise(rng, 3)


def _elementwise(rng: random.Random, length: int) -> Draft:
    chain = draw_chain(rng, length)
    return _pointwise(
        composition=f"elementwise:{key(chain)}",
        slug=slug_of(chain),
        inputs=(Tensor("x", _any_shape(rng)),),
        torch=torch_lines(chain, "x"),
        kernel=triton_lines(chain, "x"),
        cuda=CudaStage(cuda_lines(chain, "x")),
    )


def binary(rng: random.Random) -> Draft:
    """One operation on two tensors of one shape."""
    operation, shape = rng.choice(BINARY), _any_shape(rng)
    return _pointwise(
        composition=f"binary:{operation.name}",
        slug=operation.name,
        inputs=(Tensor("x", shape), Tensor("y", shape)),
        torch=(f"x = {operation.torch.format(x='x', y='y')}",),
        kernel=(f"x = {operation.triton.format(x='x', y='y')}",),
        cuda=CudaStage((binary_line(operation),), "i"),
    )


def binary_chain(rng: random.Random) -> Draft:
    """An operation on two tensors, at least one of which went through a unary operation before."""
    operation, shape = rng.choice(BINARY), _any_shape(rng)
    first, second = draw_chain(rng, 1), draw_chain(rng, rng.randint(0, 1)) if rng.random() < 0.5 else ()
    return _pointwise(
        composition=f"binary:{operation.name}({key(first)},{key(second)})",
        slug=slug_of(first, second, operation.name),
        inputs=(Tensor("x", shape), Tensor("y", shape)),
        torch=(*torch_lines(first, "x"), *torch_lines(second, "y"), f"x = {operation.torch.format(x='x', y='y')}"),
        kernel=(*triton_lines(first, "x"), *triton_lines(second, "y"), f"x = {operation.triton.format(x='x', y='y')}"),
        cuda=CudaStage((*cuda_lines(first, "x"), *cuda_lines(second, "y"), binary_line(operation)), "i"),
    )


def broadcast(rng: random.Random) -> Draft:
    """A matrix and a row or a column, optionally with a unary operation on the matrix before."""
    operation, (rows, columns) = rng.choice(BINARY), rng.choice(_MATRICES)
    chain = draw_chain(rng, 1) if rng.random() < 0.7 else ()
    along_row = rng.random() < 0.5
    load = "y = tl.load(y_ptr + i % c, mask=m)" if along_row else "y = tl.load(y_ptr + i // c, mask=m)"
    return _pointwise(
        composition=f"broadcast_{'row' if along_row else 'column'}:{operation.name}({key(chain)})",
        slug=slug_of(chain, operation.name, "row" if along_row else "column"),
        inputs=(Tensor("x", (rows, columns)), Tensor("y", (columns,) if along_row else (rows, 1))),
        torch=(*torch_lines(chain, "x"), f"x = {operation.torch.format(x='x', y='y')}"),
        kernel=(*triton_lines(chain, "x"), f"x = {operation.triton.format(x='x', y='y')}"),
        second_load=load,
        cuda=CudaStage((*cuda_lines(chain, "x"), binary_line(operation)), "i % c" if along_row else "i / c"),
    )


_REDUCTIONS: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "sum": ("torch.sum(x, dim=-1)", "0.0", "tl.sum(x, 0)"),
        "mean": ("torch.mean(x, dim=-1)", "0.0", "tl.sum(x, 0) / c"),
        "max": ("torch.amax(x, dim=-1)", 'float("-inf")', "tl.max(x, 0)"),
        "min": ("torch.amin(x, dim=-1)", 'float("inf")', "tl.min(x, 0)"),
        "sum_squares": ("torch.sum(x * x, dim=-1)", "0.0", "tl.sum(x * x, 0)"),
        "l1_norm": ("torch.sum(torch.abs(x), dim=-1)", "0.0", "tl.sum(tl.abs(x), 0)"),
    }
)


def reduction(rng: random.Random) -> Draft:
    """A reduction over the last dimension, with zero to two unary operations before."""
    name = rng.choice(tuple(_REDUCTIONS))
    chain = _reducible_chain(rng, name)
    torch_form, neutral, triton_form = _REDUCTIONS[name]
    return _rowwise(
        composition=f"reduction:{name}({key(chain)})",
        slug=slug_of(chain, "row", name),
        inputs=(Tensor("x", rng.choice(_MATRICES)),),
        torch=(*torch_lines(chain, "x"), f"return {torch_form}"),
        kernel=(
            *triton_lines(chain, "x"),
            f"x = tl.where(m, x, {neutral})",
            f"tl.store(out_ptr + r, {triton_form})",
        ),
        reduces=True,
        cuda=lambda columns: cuda_rows.reduction(name, columns, cuda_lines(chain, "x")),
    )


def _reducible_chain(rng: random.Random, reduction_name: str) -> Chain:
    while True:
        chain = optional_chain(rng, 2)
        if reduction_name not in ("max", "min") or has_sharp_extremum(chain, largest=reduction_name == "max"):
            return chain


_SOFT: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "softmax": ("F.softmax(x, dim=-1)", ("x = x / tl.sum(x, 0)",)),
        "log_softmax": ("F.log_softmax(x, dim=-1)", ()),
    }
)


def softmax(rng: random.Random) -> Draft:
    """Softmax or log-softmax over the last dimension, with zero to two unary operations before."""
    chain = optional_chain(rng, 2)
    name = rng.choice(tuple(_SOFT))
    shift = ('x = tl.where(m, x, float("-inf"))', "x = x - tl.max(x, 0)")
    finish = (
        ("x = tl.exp(x)", "x = x / tl.sum(x, 0)") if name == "softmax" else ("x = x - tl.log(tl.sum(tl.exp(x), 0))",)
    )
    return _rowwise(
        composition=f"{name}({key(chain)})",
        slug=slug_of(chain, name),
        inputs=(Tensor("x", rng.choice(_NARROW)),),
        torch=(*torch_lines(chain, "x"), f"return {_SOFT[name][0]}"),
        kernel=(*triton_lines(chain, "x"), *shift, *finish, _STORE_ROW),
        cuda=lambda columns: cuda_rows.softmax(columns, cuda_lines(chain, "x"), logarithm=name == "log_softmax"),
    )


_STORE_ROW = "tl.store(out_ptr + r * c + i, x, mask=m)"
_CENTRE = ("x = tl.where(m, x, 0.0)", "x = tl.where(m, x - tl.sum(x, 0) / c, 0.0)")
_NORMS: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "layer_norm": (
            "F.layer_norm(x, (x.shape[-1],))",
            (*_CENTRE, "x = x / tl.sqrt(tl.sum(x * x, 0) / c + 1e-5)"),
        ),
        "rms_norm": (
            "x * torch.rsqrt(torch.mean(x * x, dim=-1, keepdim=True) + 1e-5)",
            ("x = tl.where(m, x, 0.0)", "x = x / tl.sqrt(tl.sum(x * x, 0) / c + 1e-5)"),
        ),
        "l2_norm": (
            "x * torch.rsqrt(torch.sum(x * x, dim=-1, keepdim=True) + 1e-5)",
            ("x = tl.where(m, x, 0.0)", "x = x / tl.sqrt(tl.sum(x * x, 0) + 1e-5)"),
        ),
    }
)


def norm(rng: random.Random) -> Draft:
    """A norm over the last dimension, optionally with a unary operation before and a learned scale after."""
    chain = optional_chain(rng, 1)
    name, shape, scaled = rng.choice(tuple(_NORMS)), rng.choice(_MATRICES), rng.random() < 0.4
    torch_form, body = _NORMS[name]
    scale = ("x = x * tl.load(w_ptr + i, mask=m)",) if scaled else ()
    return _rowwise(
        composition=f"{name}{'_scaled' if scaled else ''}({key(chain)})",
        slug=slug_of(chain, name, "scaled" if scaled else ""),
        inputs=(Tensor("x", shape),),
        torch=(*torch_lines(chain, "x"), f"x = {torch_form}", "return x * self.weight" if scaled else "return x"),
        kernel=(*triton_lines(chain, "x"), *body, *scale, _STORE_ROW),
        weight=scaled,
        cuda=lambda columns: cuda_rows.norm(name, columns, cuda_lines(chain, "x"), weight=scaled),
    )


def matmul(rng: random.Random) -> Draft:
    """A product of two small matrices in full fp32, with zero to two unary operations after."""
    chain = optional_chain(rng, 2, reach=_PRODUCT_REACH)
    m, k, n = rng.choice(_PRODUCTS)
    return Draft(
        composition=f"matmul({key(chain)})",
        slug=slug_of("matmul", chain),
        inputs=(Tensor("x", (m, k)), Tensor("y", (k, n))),
        torch=("x = torch.matmul(x, y)", *torch_lines(chain, "x"), "return x"),
        parameters="x_ptr, y_ptr, out_ptr, m, k, n, BLOCK: tl.constexpr",
        kernel=(
            "i = tl.arange(0, BLOCK)[:, None]",
            "j = tl.arange(0, BLOCK)[None, :]",
            "x = tl.load(x_ptr + i * k + j, mask=(i < m) & (j < k), other=0.0)",
            "y = tl.load(y_ptr + i * n + j, mask=(i < k) & (j < n), other=0.0)",
            'x = tl.dot(x, y, input_precision="ieee")',
            *triton_lines(chain, "x"),
            "tl.store(out_ptr + i * n + j, x, mask=(i < m) & (j < n))",
        ),
        launch=(
            "m, k = x.shape",
            "n = y.shape[1]",
            "out = torch.empty((m, n), device=x.device, dtype=x.dtype)",
            "kernel[(1,)](x, y, out, m, k, n, BLOCK=64)",
            "return out",
        ),
        cuda=product(cuda_lines(chain, "x"), batched=False),
    )


LEVELS: Mapping[int, tuple[Family, ...]] = MappingProxyType(
    {
        1: (elementwise_1, elementwise_2, elementwise_2, binary),
        2: (elementwise_3, binary_chain, broadcast, reduction),
        3: (softmax, norm, matmul),
    }
)
"""Families by level of difficulty; a family that is listed twice is drawn twice as often."""


def _pointwise(
    *,
    composition: str,
    slug: str,
    inputs: tuple[Tensor, ...],
    torch: tuple[str, ...],
    kernel: tuple[str, ...],
    cuda: CudaStage,
    second_load: str = "y = tl.load(y_ptr + i, mask=m)",
) -> Draft:
    """One program per BLOCK elements of the flattened output."""
    broadcasts = " c" in second_load
    two = len(inputs) == 2
    pointers = "x_ptr, y_ptr, out_ptr" if two else "x_ptr, out_ptr"
    tensors = "x, y, out" if two else "x, out"
    return Draft(
        composition=composition,
        slug=slug,
        inputs=inputs,
        torch=(*torch, "return x"),
        parameters=f"{pointers}, n, {'c, ' if broadcasts else ''}BLOCK: tl.constexpr",
        kernel=(
            "i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
            "m = i < n",
            "x = tl.load(x_ptr + i, mask=m)",
            *((second_load,) if two else ()),
            *kernel,
            "tl.store(out_ptr + i, x, mask=m)",
        ),
        launch=(
            "out = torch.empty_like(x)",
            "n = x.numel()",
            f"kernel[(triton.cdiv(n, {BLOCK}),)]({tensors}, n, {'x.shape[1], ' if broadcasts else ''}BLOCK={BLOCK})",
            "return out",
        ),
        cuda=pointwise([cuda], {one.name: one.name for one in inputs}),
    )


def _rowwise(
    *,
    composition: str,
    slug: str,
    inputs: tuple[Tensor, ...],
    torch: tuple[str, ...],
    kernel: tuple[str, ...],
    cuda: Callable[[int], cuda_rows.Row],
    reduces: bool = False,
    weight: bool = False,
) -> Draft:
    """One program per row of a matrix."""
    allocation = "torch.empty(x.shape[0], device=x.device, dtype=x.dtype)" if reduces else "torch.empty_like(x)"
    columns = inputs[0].shape[1]
    return Draft(
        composition=composition,
        slug=slug,
        inputs=inputs,
        torch=torch,
        parameters=f"x_ptr, {'w_ptr, ' if weight else ''}out_ptr, c, BLOCK: tl.constexpr",
        kernel=(
            "r = tl.program_id(0)",
            "i = tl.arange(0, BLOCK)",
            "m = i < c",
            "x = tl.load(x_ptr + r * c + i, mask=m, other=1.0)",
            *kernel,
        ),
        launch=(
            f"out = {allocation}",
            f"kernel[(x.shape[0],)](x, {'self.weight, ' if weight else ''}out, x.shape[1], BLOCK={ROW_BLOCK})",
            "return out",
        ),
        init=("self.weight = nn.Parameter(torch.rand(columns) + 0.5)",) if weight else (),
        init_arguments=(("columns", columns),) if weight else (),
        cuda=cuda_rows.row_patterns(cuda(columns)),
    )


def _any_shape(rng: random.Random) -> tuple[int, ...]:
    return rng.choice(rng.choice((_FLAT, _MATRICES, _CUBES)))
