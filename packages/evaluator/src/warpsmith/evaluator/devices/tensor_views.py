"""Tensors in shared memory: views of a mapped buffer as torch tensors, and trees of tensors as slots."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy
import torch
from torch.utils.dlpack import from_dlpack

from warpsmith.evaluator import _native
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.tensor_slots import ITEM_BYTES, TensorSlot, contiguous

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.memory import Shared

TORCH_DTYPES: Final[dict[str, torch.dtype]] = {name: getattr(torch, name) for name in ITEM_BYTES}
NAMES: Final[dict[torch.dtype, str]] = {dtype: name for name, dtype in TORCH_DTYPES.items()}

INTEGER_POISON: Final = 0xA5
NAN_BYTE: Final = 0xFF
"""Repeated, it is NaN in every floating dtype except those in NAN_BYTES."""
NAN_BYTES: Final = {"float8_e4m3fnuz": 0x80, "float8_e5m2fnuz": 0x80}

_SEEDING: Final = 64
"""Elements that decide how gaps are filled."""

BITS: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""By element size in bytes, a dtype that torch can move and compare on every device."""

COMPUTABLE: Final = {
    torch.bool: torch.uint8,
    torch.uint16: torch.int32,
    torch.uint32: torch.int64,
    torch.uint64: torch.float64,
    torch.float8_e4m3fn: torch.float32,
    torch.float8_e5m2: torch.float32,
    torch.float8_e4m3fnuz: torch.float32,
    torch.float8_e5m2fnuz: torch.float32,
    torch.float8_e8m0fnu: torch.float32,
    torch.complex32: torch.complex64,
}
"""Dtypes for which torch lacks most operations, each with one that holds its values (uint64: rounded)."""


@dataclass(frozen=True)
class Part:
    """A range of bytes of a buffer, used like a buffer: sharing one large buffer is faster than sharing many."""

    buffer: "Shared"
    start: int
    size: int


def parts(buffer: "Shared", size: int) -> list[Part]:
    """Cut a buffer into as many parts of `size` bytes as fit; `size` is a multiple of `tensor_slots.ALIGNMENT`."""
    return [Part(buffer, start, size) for start in range(0, buffer.size - size + 1, size)]


def content(buffer: "Shared | Part | torch.Tensor") -> torch.Tensor:
    """Return all bytes of a buffer, or of a flat copy of one, as uint8 [bytes] that shares its memory."""
    if isinstance(buffer, torch.Tensor):
        return buffer
    if isinstance(buffer, Part):
        return content(buffer.buffer)[buffer.start : buffer.start + buffer.size]
    if isinstance(buffer, _native.Buffer):
        return _on_host(buffer, torch.uint8, buffer.size, 0)
    return from_dlpack(buffer.dlpack())


def _on_host(buffer: "_native.Buffer", dtype: torch.dtype, count: int, offset: int) -> torch.Tensor:
    if buffer.writable:
        return torch.frombuffer(buffer, dtype=dtype, count=count, offset=offset)
    with warnings.catch_warnings():
        # torch warns that a read-only buffer must not be written; here a write faults on purpose.
        warnings.simplefilter("ignore", UserWarning)
        return torch.frombuffer(buffer, dtype=dtype, count=count, offset=offset)


def view(buffer: "Shared | Part | torch.Tensor", slot: TensorSlot) -> torch.Tensor:
    """Return the tensor that `slot` describes; it shares the memory of a buffer or of a flat copy of one.

    The slot must have been checked against the buffer's size. On the host the tensor has a storage of its own, so that
    accesses beyond it are detected.
    """
    if isinstance(buffer, _native.Buffer):
        dtype = TORCH_DTYPES[slot.dtype]
        if not slot.numel:
            return torch.empty(slot.shape, dtype=dtype)
        return _on_host(buffer, dtype, slot.span, slot.offset).as_strided(slot.shape, slot.stride)
    return placed_in(content(buffer), slot)


def placed_in(flat: torch.Tensor, slot: TensorSlot) -> torch.Tensor:
    """Return the tensor that a checked slot describes; it shares the memory of `flat`, uint8 [bytes]."""
    dtype = TORCH_DTYPES[slot.dtype]
    if not slot.numel:
        return torch.empty(slot.shape, dtype=dtype, device=flat.untyped_storage().device)
    return flat[slot.offset : slot.offset + slot.nbytes].view(dtype).as_strided(slot.shape, slot.stride)


def raw(buffer: "Shared | Part", slot: TensorSlot) -> torch.Tensor:
    """Return the slot's bytes as uint8 [bytes] that shares the buffer's memory."""
    return view(buffer, TensorSlot("uint8", (slot.nbytes,), (1,), slot.offset))


def computable(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's values in a dtype with which torch can compare and compute."""
    return tensor.to(COMPUTABLE.get(tensor.dtype, tensor.dtype))


def equal(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Whether two tensors of one dtype have the same shape and values, in any dtype; NaN equals nothing."""
    if one.dtype == torch.uint64:
        one, two = one.view(torch.int64), two.view(torch.int64)
    return torch.equal(computable(one), computable(two))


def slot_of(tensor: torch.Tensor, *, keep_strides: bool = False) -> TensorSlot:
    """Return the slot of a tensor at offset 0: contiguous, or with its own strides if `keep_strides`."""
    name = NAMES.get(tensor.dtype)
    if name is None:
        raise WireError(
            f"A tensor of dtype {tensor.dtype} cannot be sent to another process.",
            f"Use one of {', '.join(NAMES.values())}.",
        )
    if tensor.layout != torch.strided:
        raise WireError(f"A tensor of layout {tensor.layout} cannot be sent to another process.", "Use a dense tensor.")
    shape = tuple(tensor.shape)
    if keep_strides and tensor.numel():
        return TensorSlot(name, shape, tuple(tensor.stride()))
    return contiguous(name, shape)


def copy_of(buffer: "Shared | Part", slot: TensorSlot) -> torch.Tensor:
    """Return a copy of a slot's tensor with its strides: torch's own of one with gaps or overlaps is contiguous."""
    tensor = view(buffer, slot)
    if not tensor.numel() or torch.ops.aten.is_non_overlapping_and_dense(tensor):
        return tensor.clone()
    return _span(tensor).clone().as_strided(tensor.shape, tensor.stride())


def overlaps(slot: TensorSlot) -> bool:
    """Whether several indices of a slot's tensor share a place in memory, as far as its size and strides tell."""
    expanded = any(size > 1 and not step for size, step in zip(slot.shape, slot.stride, strict=True))
    return expanded or slot.numel > slot.span


def fill(target: torch.Tensor, source: torch.Tensor) -> None:
    """Copy `source` into the tensor of its slot with its own strides; fill their gaps with what no kernel may read.

    About half of the gaps get poison, half get elements of the tensor: an error that NaN or an improbable integer
    hides, since it is never equal to anything or is no maximum, shows with numbers such as the others. What lies in
    the gaps of `source` is not copied: it may be memory that another computation left.
    """
    dense = not source.numel() or torch.ops.aten.is_non_overlapping_and_dense(source)
    if dense or target.stride() != source.stride():
        target.copy_(source)
        return
    places, item = _places(source), source.element_size()
    into, taken = (_span(one).view(torch.uint8).view(-1, item) for one in (target, _plain_bits(source)))
    into.fill_(poison_byte(NAMES[source.dtype]))
    into[places] = taken[places]
    gaps = torch.ones(len(into), dtype=torch.bool, device=into.device).index_fill_(0, places, False).nonzero()[:, 0]
    # Reproducible, and not the same for other contents.
    drawn = torch.Generator().manual_seed(int(taken[places[:_SEEDING]].sum()) + len(gaps))
    lively = gaps[torch.rand(len(gaps), generator=drawn).to(gaps.device) < 0.5]
    into[lively] = taken[places[torch.randint(len(places), (len(lively),), generator=drawn).to(places.device)]]


def _plain_bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor whose memory holds its numbers: a conjugate or a negation may not be written out yet."""
    if not (tensor.is_conj() or tensor.is_neg()):
        return tensor
    plain = _span(tensor).resolve_conj().resolve_neg()
    return plain.as_strided(tensor.shape, tensor.stride())


def _places(tensor: torch.Tensor) -> torch.Tensor:
    """Return the places of a tensor's elements in its span, int64 [places], some of them repeatedly."""
    places = torch.zeros((), dtype=torch.int64, device=tensor.device)
    for size, step in zip(tensor.shape, tensor.stride(), strict=True):
        if step:
            places = (places[..., None] + torch.arange(size, device=tensor.device) * step).flatten()
    return places.flatten()


def _span(tensor: torch.Tensor) -> torch.Tensor:
    """Return the memory from a tensor's first to its last element as [span]."""
    span = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((span,), (1,))


def describe(tree: Any, found: list[torch.Tensor], *, keep_strides: bool = False) -> codec.Value:
    """Return `tree` with each tensor replaced by its slot, appending the tensors to `found` from left to right.

    Raises:
        WireError: a leaf is neither a plain value nor a tensor that can be sent to another process.
    """
    match tree:
        case torch.Tensor():
            found.append(tree)
            return slot_of(tree, keep_strides=keep_strides)
        case torch.dtype():
            return codec.DType(NAMES.get(tree, str(tree)))
        case list():
            return [describe(item, found, keep_strides=keep_strides) for item in tree]
        case tuple():
            return tuple(describe(item, found, keep_strides=keep_strides) for item in tree)
        case dict():
            return {str(key): describe(item, found, keep_strides=keep_strides) for key, item in tree.items()}
        case _:
            return _plain(tree)


def _plain(value: Any) -> codec.Value:
    """Return a plain value, a NumPy scalar as Python's; WireError for anything else."""
    match value:
        case numpy.bool_() | numpy.integer() | numpy.floating() if not isinstance(value.item(), numpy.generic):
            return value.item()
        case None | bool() | int() | float() | str() | bytes():
            return value
        case _:
            raise WireError(
                f"A value of type {type(value).__module__}.{type(value).__name__} cannot be sent to another process.",
                "Return tensors, numbers, strings, None, or lists, tuples and dicts of them.",
            )


def materialise(tree: codec.Value, tensor_for: Callable[[TensorSlot], torch.Tensor]) -> Any:
    """Return `tree` with each slot replaced by `tensor_for(slot)` and each dtype by torch's."""
    return _with_dtypes(codec.replace_slots(tree, _each(tree, tensor_for)))


def _each(tree: codec.Value, tensor_for: Callable[[TensorSlot], torch.Tensor]) -> Iterator[torch.Tensor]:
    for slot in codec.slots(tree):
        yield tensor_for(slot)


def _with_dtypes(tree: Any) -> Any:
    match tree:
        case codec.DType(name=name):
            return TORCH_DTYPES[name]
        case list():
            return [_with_dtypes(item) for item in tree]
        case tuple():
            return tuple(_with_dtypes(item) for item in tree)
        case dict():
            return {key: _with_dtypes(item) for key, item in tree.items()}
        case _:
            return tree


def poison(buffer: "Shared | Part", slots: list[TensorSlot]) -> None:
    """Fill a buffer so that no slot holds a plausible output: NaN for floats, a fixed pattern for other dtypes."""
    content(buffer).fill_(NAN_BYTE)
    for slot in slots:
        if poison_byte(slot.dtype) != NAN_BYTE:
            raw(buffer, slot).fill_(poison_byte(slot.dtype))


def poison_byte(dtype: str) -> int:
    """Return the byte that, repeated, is NaN in a dtype, or an unlikely number for integers and booleans."""
    if dtype.startswith(("float", "bfloat", "complex")):
        return NAN_BYTES.get(dtype, NAN_BYTE)
    return INTEGER_POISON
