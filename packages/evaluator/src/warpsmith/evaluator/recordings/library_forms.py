"""The listed library operators, each with a function that allocates its results without computing them.

Detached host code gets such results: their shapes, dtypes and strides follow from the shapes, dtypes and strides of the
arguments and from plain arguments alone. An operator without such a function cannot be on the list.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from warpsmith.evaluator.recordings.library_policy import LISTED

Results = tuple[torch.Tensor, ...]
Tensor = torch.Tensor


def results_of(name: str, arguments: Sequence[Any]) -> Results:
    """Return uninitialised memory with the form of a listed operator's results.

    Args:
        name: with its overload, such as `aten.mm.default`.
        arguments: all arguments that are not keyword-only, in the schema's order.
    """
    found = _FORMS[name](*arguments)
    return (found,) if isinstance(found, torch.Tensor) else tuple(found)


# Matrix products ---------------------------------------------------------------------------------------------------


def _mm(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty((*a.shape[:-1], *b.shape[1:]))


def _bmm(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty((*a.shape[:-1], b.shape[2]))


def _added_to(product: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda added, a, b, *_: product(a, b)


def _matmul(a: Tensor, b: Tensor) -> Tensor:
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])  # type: ignore[no-untyped-call]
    rows, columns = a.shape[-2:-1], b.shape[-1:] if b.dim() > 1 else ()
    return a.new_empty((*batch, *rows, *columns))


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x.new_empty((*x.shape[:-1], *weight.shape[:-1]))


# Convolutions, attention and normalisations ------------------------------------------------------------------------


def _convolution(x: Tensor, weight: Tensor, bias: Tensor | None, *options: Any) -> Tensor:
    *sizes, transposed, added, groups = options
    stride, padding, dilation, more = (_per_side(one, x.dim() - 2) for one in (*sizes, added))
    sides = []
    for side, width, step, pad, apart, extra in zip(
        x.shape[2:], weight.shape[2:], stride, padding, dilation, more, strict=True
    ):
        reach = apart * (width - 1) + 1
        sides.append(
            (side - 1) * step - 2 * pad + reach + extra if transposed else (side + 2 * pad - reach) // step + 1
        )
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    kept = [layout for layout in (_layout_of(x), _layout_of(weight)) if layout != torch.contiguous_format]
    return _empty(x, (x.shape[0], channels, *sides), kept[0] if kept else torch.contiguous_format)


def _attention(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Tensor:
    return q.new_empty((*q.shape[:-1], v.shape[-1]))


def _as_first(x: Tensor, *_: Any) -> Tensor:
    return _empty(x, x.shape, torch.contiguous_format)


def _laid_out_as_first(x: Tensor, *_: Any) -> Tensor:
    return _empty(x, x.shape, _layout_of(x))


# Pooling -----------------------------------------------------------------------------------------------------------


def _max_pooled(rank: int) -> Callable[..., Tensor]:
    def pooled(x: Tensor, *windows: Any) -> Tensor:
        *sizes, ceil_mode = windows
        return _pooled(x, rank, *sizes, ceil_mode=ceil_mode)

    return pooled


def _with_indices(pool: Callable[..., Tensor]) -> Callable[..., Results]:
    def pooled(*arguments: Any) -> Results:
        made = pool(*arguments)
        return made, torch.empty_like(made, dtype=torch.int64)

    return pooled


def _mean_pooled(rank: int) -> Callable[..., Tensor]:
    def pooled(x: Tensor, *windows: Any) -> Tensor:
        kernel, stride, padding, ceil_mode, *_ = windows
        return _pooled(x, rank, kernel, stride, padding, 1, ceil_mode=ceil_mode)

    return pooled


def _pooled(x: Tensor, rank: int, *windows: Any, ceil_mode: bool) -> Tensor:
    kernel, stride, padding, dilation = windows
    kernel = _per_side(kernel, rank)
    stride = _per_side(stride, rank) if stride else kernel
    sides = []
    for side, width, step, pad, apart in zip(
        x.shape[-rank:], kernel, stride, _per_side(padding, rank), _per_side(dilation, rank), strict=True
    ):
        room = side + 2 * pad - apart * (width - 1) - 1
        count = (room + step - 1 if ceil_mode else room) // step + 1
        # The last window must begin inside the tensor or its left padding.
        sides.append(count - 1 if ceil_mode and (count - 1) * step >= side + pad else count)
    return _empty(x, (*x.shape[:-rank], *sides), _layout_of(x))


def _adaptive(x: Tensor, size: Sequence[int]) -> Tensor:
    return _empty(x, (*x.shape[: -len(size)], *size), _layout_of(x))


# Fourier transforms and sorting ------------------------------------------------------------------------------------


def _r2c(x: Tensor, dims: Sequence[int], _: int, onesided: bool) -> Tensor:
    shape = list(x.shape)
    if onesided:
        shape[dims[-1]] = shape[dims[-1]] // 2 + 1
    return x.new_empty(shape, dtype=x.dtype.to_complex())


def _c2r(x: Tensor, dims: Sequence[int], _: int, size: int) -> Tensor:
    shape = list(x.shape)
    shape[dims[-1]] = size
    return x.new_empty(shape, dtype=x.dtype.to_real())


def _sorted(x: Tensor, *_: Any) -> Results:
    return torch.empty_like(x), torch.empty_like(x, dtype=torch.int64)


def _top(x: Tensor, count: int, dim: int, *_: Any) -> Results:
    shape = list(x.shape)
    if shape:
        shape[dim] = count
    return x.new_empty(shape), x.new_empty(shape, dtype=torch.int64)


# -------------------------------------------------------------------------------------------------------------------


def _per_side(sizes: Any, rank: int) -> list[int]:
    listed = [sizes] if isinstance(sizes, int) else list(sizes)
    return listed * rank if len(listed) == 1 else listed


def _layout_of(x: Tensor) -> torch.memory_format:
    """Return the layout of images or volumes that torch would keep in a result."""
    for rank, layout in ((4, torch.channels_last), (5, torch.channels_last_3d)):
        if x.dim() == rank and x.is_contiguous(memory_format=layout) and not x.is_contiguous():
            return layout
    return torch.contiguous_format


def _empty(x: Tensor, shape: Sequence[int], layout: torch.memory_format) -> Tensor:
    # Named, since tensors of detached host code claim to be on a GPU.
    return torch.empty(shape, dtype=x.dtype, device="cpu", memory_format=layout)


_FORMS: Final[dict[str, Callable[..., Tensor | Results]]] = {
    "aten.mm.default": _mm,
    "aten.bmm.default": _bmm,
    "aten.mv.default": _mm,
    "aten.dot.default": lambda a, b: a.new_empty(()),
    "aten.addmm.default": _added_to(_mm),
    "aten.baddbmm.default": _added_to(_bmm),
    "aten.addmv.default": _added_to(_mm),
    "aten.matmul.default": _matmul,
    "aten.linear.default": _linear,
    "aten.convolution.default": _convolution,
    "aten.scaled_dot_product_attention.default": _attention,
    "aten.layer_norm.default": _as_first,
    "aten.rms_norm.default": _as_first,
    "aten.group_norm.default": _laid_out_as_first,
    "aten.batch_norm.default": _laid_out_as_first,
    "aten.instance_norm.default": _laid_out_as_first,
    "aten.max_pool1d.default": _max_pooled(1),
    "aten.max_pool2d.default": _max_pooled(2),
    "aten.max_pool3d.default": _max_pooled(3),
    "aten.max_pool2d_with_indices.default": _with_indices(_max_pooled(2)),
    "aten.max_pool3d_with_indices.default": _with_indices(_max_pooled(3)),
    "aten.avg_pool1d.default": _mean_pooled(1),
    "aten.avg_pool2d.default": _mean_pooled(2),
    "aten.avg_pool3d.default": _mean_pooled(3),
    "aten.adaptive_avg_pool1d.default": _adaptive,
    "aten.adaptive_avg_pool2d.default": _adaptive,
    "aten.adaptive_avg_pool3d.default": _adaptive,
    "aten.adaptive_max_pool2d.default": _with_indices(_adaptive),
    "aten.adaptive_max_pool3d.default": _with_indices(_adaptive),
    "aten._fft_r2c.default": _r2c,
    "aten._fft_c2r.default": _c2r,
    "aten._fft_c2c.default": _as_first,
    "aten.sort.default": _sorted,
    "aten.sort.stable": _sorted,
    "aten.topk.default": _top,
}
assert _FORMS.keys() == LISTED
