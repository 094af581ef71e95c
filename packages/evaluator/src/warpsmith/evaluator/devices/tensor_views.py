"""Tensors in shared memory: views of a mapped buffer as torch tensors, and trees of tensors as slots."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy
import torch
from torch.utils.dlpack import from_dlpack

from warpsmith.evaluator import _native
from warpsmith.evaluator.devices import records
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.tensor_slots import ALIGNMENT, ITEM_BYTES, TensorSlot, contiguous

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

    The slot must have been checked against the buffer's size. On the host the tensor has a storage of its own, which
    begins with the slot's lead, so that accesses beyond it are detected.
    """
    if isinstance(buffer, _native.Buffer):
        dtype = TORCH_DTYPES[slot.dtype]
        if not slot.numel:
            return torch.empty(slot.shape, dtype=dtype)
        before = slot.lead // ITEM_BYTES[slot.dtype]
        flat = _on_host(buffer, dtype, before + slot.span, slot.offset - slot.lead)
        return flat.as_strided(slot.shape, slot.stride, before)
    return placed_in(content(buffer), slot)


def apart(buffer: "Shared", slot: TensorSlot) -> torch.Tensor:
    """Return the tensor that a checked slot describes, with a storage of its own that begins with the slot's lead.

    On a GPU `view` returns a part of the whole buffer: an address in it would reach to the end of all tensors there.
    """
    if isinstance(buffer, _native.Buffer) or not slot.numel:
        return view(buffer, slot)
    start = slot.offset - slot.lead
    flat: torch.Tensor = from_dlpack(buffer.dlpack(start, slot.lead + slot.nbytes))
    dtype = TORCH_DTYPES[slot.dtype]
    whole = flat[: flat.numel() // ITEM_BYTES[slot.dtype] * ITEM_BYTES[slot.dtype]].view(dtype)
    return whole.as_strided(slot.shape, slot.stride, slot.lead // ITEM_BYTES[slot.dtype])


def placed_in(flat: torch.Tensor, slot: TensorSlot) -> torch.Tensor:
    """Return the tensor that a checked slot describes; it shares the memory of `flat`, uint8 [bytes]."""
    dtype = TORCH_DTYPES[slot.dtype]
    if not slot.numel:
        return torch.empty(slot.shape, dtype=dtype, device=flat.untyped_storage().device)
    return flat[slot.offset : slot.offset + slot.nbytes].view(dtype).as_strided(slot.shape, slot.stride)


def raw(buffer: "Shared | Part", slot: TensorSlot) -> torch.Tensor:
    """Return the slot's bytes as uint8 [bytes] that shares the buffer's memory."""
    return _bytes(buffer, slot.offset, slot.nbytes)


def _bytes(buffer: "Shared | Part", start: int, size: int) -> torch.Tensor:
    return view(buffer, TensorSlot("uint8", (size,), (1,), start))


def computable(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's values in a dtype with which torch can compare and compute."""
    return tensor.to(COMPUTABLE.get(tensor.dtype, tensor.dtype))


def equal(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Whether two tensors of one dtype have the same shape and values, in any dtype; NaN equals nothing."""
    if one.dtype == torch.uint64:
        one, two = one.view(torch.int64), two.view(torch.int64)
    return torch.equal(computable(one), computable(two))


def slot_of(tensor: torch.Tensor, *, keep_layout: bool = False) -> TensorSlot:
    """Return the slot of a tensor in an arena of its own: contiguous, or with its strides and lead if `keep_layout`.

    Raises:
        WireError: its dtype or layout is none that another process can get, or its memory does not hold its numbers.
    """
    name = NAMES.get(tensor.dtype)
    if name is None:
        raise WireError(
            f"A tensor of dtype {tensor.dtype} cannot be sent to another process.",
            f"Use one of {', '.join(NAMES.values())}.",
        )
    if tensor.layout != torch.strided:
        raise WireError(f"A tensor of layout {tensor.layout} cannot be sent to another process.", "Use a dense tensor.")
    shape = tuple(tensor.shape)
    if not keep_layout:
        return contiguous(name, shape)
    if tensor.is_conj() or tensor.is_neg():
        # A kernel would read what lies in memory, and torch's own functions something else.
        change, better = ("conjugated", "resolve_conj") if tensor.is_conj() else ("negated", "resolve_neg")
        raise WireError(
            f"A tensor is a lazily {change} view: a kernel reads its memory, in which the numbers are not {change}.",
            f"Return tensor.{better}(), which writes them out.",
        )
    if not tensor.numel():
        return contiguous(name, shape)
    lead = int(tensor.storage_offset()) * tensor.element_size() % ALIGNMENT
    return TensorSlot(name, shape, tuple(tensor.stride()), lead)


def own_layout(tensor: torch.Tensor) -> TensorSlot:
    """Return the slot of a tensor that is written in place: with its layout, unless indices share a place there."""
    kept = slot_of(tensor, keep_layout=True)
    return slot_of(tensor) if overlaps(kept) else kept


def copy_of(buffer: "Shared | Part", slot: TensorSlot) -> torch.Tensor:
    """Return a copy of a slot's tensor with its layout: torch's own of one with gaps or overlaps is contiguous."""
    tensor = view(buffer, slot)
    if not tensor.numel() or torch.ops.aten.is_non_overlapping_and_dense(tensor):
        copied = tensor.clone()
    else:
        copied = _span(tensor).clone().as_strided(tensor.shape, tensor.stride())
    return copied if not slot.lead else _behind(copied, slot.lead // copied.element_size())


def _behind(tensor: torch.Tensor, before: int) -> torch.Tensor:
    """Return a copy with the same strides that begins `before` elements after the start of its storage."""
    flat = _span(tensor)
    room = torch.empty(before + flat.numel(), dtype=flat.dtype, device=flat.device)
    room[before:] = flat
    return room.as_strided(tensor.shape, tensor.stride(), before)


def overlaps(slot: TensorSlot) -> bool:
    """Whether several indices of a slot's tensor share a place in memory, as far as its size and strides tell."""
    expanded = any(size > 1 and not step for size, step in zip(slot.shape, slot.stride, strict=True))
    return expanded or slot.numel > slot.span


def fill(buffer: "Shared | Part", slot: TensorSlot, source: torch.Tensor) -> None:
    """Copy `source` into its slot, which has its strides; fill their gaps and the slot's lead with what none may read.

    About half of that gets poison, half get elements of the tensor: an error that NaN or an improbable integer hides,
    since it never equals anything or is never a maximum, shows with numbers such as the others. What lies in the
    gaps of `source` is not copied: it may be memory that another computation left.
    """
    target = view(buffer, slot)
    if slot.lead:
        before = _bytes(buffer, slot.offset - slot.lead, slot.lead).view(-1, source.element_size())
        before.copy_(_unread(source, len(before)))
    dense = not source.numel() or torch.ops.aten.is_non_overlapping_and_dense(source)
    if dense or target.stride() != source.stride():
        target.copy_(source)
        return
    places = _places(source)
    into, taken = (_items(_span(one)) for one in (target, source))
    into.copy_(_unread(source, len(into)))
    into[places] = taken[places]


def _unread(source: torch.Tensor, count: int) -> torch.Tensor:
    """Return the bytes of `count` elements of a tensor or of poison, at random: uint8 [count, item]."""
    places, taken = _places(source), _items(_span(source))
    # Reproducible, and not the same for other contents.
    drawn = torch.Generator().manual_seed(int(taken[places[:_SEEDING]].sum()) + count)
    lively = torch.rand(count, generator=drawn) < 0.5
    made = taken[places[torch.randint(len(places), (count,), generator=drawn).to(places.device)]]
    made[~lively.to(made.device)] = poison_byte(NAMES[source.dtype])
    return made


def _items(flat: torch.Tensor) -> torch.Tensor:
    """Return the bytes of each element of a flat tensor: uint8 [elements, item], in its memory."""
    return flat.view(torch.uint8).view(-1, flat.element_size())


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


def describe(
    tree: Any, found: list[torch.Tensor], *, keep_layout: bool = False, keep_records: bool = False
) -> codec.Value:
    """Return `tree` with each tensor replaced by its slot, appending the tensors to `found` from left to right.

    Args:
        tree: tensors and plain values in lists, tuples and dicts.
        found: gets the tensors.
        keep_layout: whether a slot has the strides of its tensor.
        keep_records: whether records (`records.py`) may stand in it and stay records.

    Raises:
        WireError: a leaf is neither a plain value nor a tensor that can be sent to another process.
    """
    below = partial(describe, found=found, keep_layout=keep_layout, keep_records=keep_records)
    if keep_records:
        tree = records.taken(tree) or tree
    match tree:
        case torch.Tensor():
            found.append(tree)
            return slot_of(tree, keep_layout=keep_layout)
        case list():
            return [below(item) for item in tree]
        case tuple():
            return tuple(below(item) for item in tree)
        case dict():
            return {str(key): below(item) for key, item in tree.items()}
        case codec.Record():
            fields, others = ({key: below(item) for key, item in part.items()} for part in (tree.fields, tree.others))
            return codec.Record(tree.kind, tree.name, fields, others)
        case _:
            return _plain(tree)


def _plain(value: Any) -> codec.Value:
    """Return a plain value or a dtype, a NumPy scalar as Python's; WireError for anything else."""
    match value:
        case torch.dtype():
            return codec.DType(NAMES.get(value, str(value)))
        case numpy.bool_() | numpy.integer() | numpy.floating() if not isinstance(value.item(), numpy.generic):
            return value.item()
        case None | bool() | int() | float() | str() | bytes():
            return value
        case _:
            raise WireError(
                f"A value of type {type(value).__module__}.{type(value).__name__} cannot be sent to another process.",
                "Return tensors, numbers, strings, None, or lists, tuples, dicts, dataclasses and namespaces of them.",
            )


def materialise(tree: codec.Value, tensor_for: Callable[[TensorSlot], torch.Tensor]) -> Any:
    """Return `tree` with each slot replaced by `tensor_for(slot)`, each dtype by torch's, and each record made.

    Raises:
        WireError: a record cannot be made.
    """
    return _as_objects(codec.replace_slots(tree, _each(tree, tensor_for)))


def _each(tree: codec.Value, tensor_for: Callable[[TensorSlot], torch.Tensor]) -> Iterator[torch.Tensor]:
    for slot in codec.slots(tree):
        yield tensor_for(slot)


def _as_objects(tree: Any) -> Any:
    match tree:
        case codec.DType(name=name):
            return TORCH_DTYPES[name]
        case list():
            return [_as_objects(item) for item in tree]
        case tuple():
            return tuple(_as_objects(item) for item in tree)
        case dict():
            return {key: _as_objects(item) for key, item in tree.items()}
        case codec.Record():
            fields, others = _as_objects(tree.fields), _as_objects(tree.others)
            return records.made(codec.Record(tree.kind, tree.name, fields, others))
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
