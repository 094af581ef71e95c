"""Layout of tensors in an arena: dtype, shape, strides and byte offset, checked without torch.

An arena is one shared buffer that holds several tensors. The process that describes a tensor may be hostile, so every
slot is validated against limits and against its arena before anything is read.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from warpsmith.evaluator.errors import LayoutError

ITEM_BYTES: Final[dict[str, int]] = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "uint16": 2,
    "int16": 2,
    "uint32": 4,
    "int32": 4,
    "uint64": 8,
    "int64": 8,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "complex32": 4,
    "complex64": 8,
    "complex128": 16,
}
"""Bytes of one element by dtype name (torch's names without the `torch.`): every dtype whose numbers can be compared.

Quantised, packed (`float4_e2m1fn_x2`) and raw-bit dtypes are left out: torch does not convert them to numbers.
"""

FLOATING: Final = frozenset(
    {
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
        "float16",
        "bfloat16",
        "float32",
        "float64",
    }
)
"""Dtypes whose values can be varied, and computed in fp64 instead. `float8_e8m0fnu` has no zero and no sign."""

VARIED_STATE: Final = FLOATING | {"complex64", "complex128"}
"""Dtypes of the parameters and buffers whose values can be varied; a complex number as two real ones."""
MAX_RANK: Final = 16
ALIGNMENT: Final = 512
"""Bytes. GPU allocations are aligned to it, so a hint such as `tl.multiple_of(pointer, 256)` holds here too."""


@dataclass(frozen=True, slots=True)
class TensorSlot:
    """One tensor in an arena. `stride` is in elements, `offset` in bytes from the arena's start.

    Strides may leave gaps (a slice, a chunk) or store an element for several indices (an expanded row, windows).
    Memory is aligned to `ALIGNMENT`; a tensor that begins later in its storage (`x[1:]`) has its `lead` there too.
    """

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int = 0

    @property
    def numel(self) -> int:
        return prod(self.shape)

    @property
    def span(self) -> int:
        """Elements from the first to the last one in memory."""
        if not self.numel:
            return 0
        return 1 + sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=True))

    @property
    def lead(self) -> int:
        """Bytes from the last aligned byte to the tensor's first: its storage offset, modulo `ALIGNMENT`."""
        return self.offset % ALIGNMENT

    @property
    def nbytes(self) -> int:
        """Bytes of the span."""
        return self.span * ITEM_BYTES[self.dtype]

    @property
    def value_bytes(self) -> int:
        """Bytes of the elements: an expanded dimension counts once, overlapping windows as far as they reach."""
        places = prod(size for size, step in zip(self.shape, self.stride, strict=True) if step or not size)
        return min(places, self.span) * ITEM_BYTES[self.dtype]

    @property
    def dense_bytes(self) -> int:
        """Bytes of a contiguous copy, or of the span if that is larger."""
        return max(self.span, self.numel) * ITEM_BYTES[self.dtype]

    def at(self, offset: int) -> "TensorSlot":
        return replace(self, offset=offset)

    def same_kind(self, other: "TensorSlot") -> bool:
        """Whether dtype and shape agree; strides and offset are not part of a tensor's value."""
        return self.dtype == other.dtype and self.shape == other.shape

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def contiguous(dtype: str, shape: tuple[int, ...]) -> TensorSlot:
    """Return the slot of a contiguous tensor at offset 0."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return TensorSlot(dtype, shape, tuple(reversed(strides)))


def check_slot(slot: TensorSlot, max_bytes: int) -> TensorSlot:
    """Return `slot` if it describes a tensor of a known dtype within `max_bytes`, else raise LayoutError."""
    if slot.dtype not in ITEM_BYTES:
        raise LayoutError(f"{slot.dtype!r} is not a dtype of the protocol.", f"Use one of {', '.join(ITEM_BYTES)}.")
    if len(slot.shape) > MAX_RANK or len(slot.shape) != len(slot.stride):
        raise LayoutError(
            f"A tensor has rank {len(slot.shape)} and {len(slot.stride)} strides; expected as many, up to {MAX_RANK}."
        )
    if any(size < 0 for size in slot.shape) or any(step < 0 for step in slot.stride):
        raise LayoutError(f"Negative size or stride in shape {slot.shape}, stride {slot.stride}.")
    if slot.offset < 0 or slot.offset % ITEM_BYTES[slot.dtype]:
        raise LayoutError(f"A tensor {slot} begins at byte {slot.offset}; a multiple of its item was expected.")
    # A stride of 0 makes a large tensor from little memory, and computing with it needs memory for all of it.
    size = slot.dense_bytes
    if size > max_bytes:
        raise LayoutError(
            f"A tensor {slot} takes {size} bytes; at most {max_bytes} were expected.",
            "Make the problem's tensors smaller, or raise max_tensor_bytes (--max-tensor-bytes).",
        )
    return slot


def check_in_arena(slot: TensorSlot, arena_bytes: int) -> TensorSlot:
    """Return `slot` if it is valid and lies inside an arena of `arena_bytes`, else raise LayoutError."""
    check_slot(slot, arena_bytes)
    if slot.offset + slot.nbytes > arena_bytes:
        raise LayoutError(f"A tensor {slot} at byte {slot.offset} lies outside its arena of {arena_bytes} bytes.")
    return slot


def pack(slots: Iterable[TensorSlot], max_bytes: int) -> tuple[list[TensorSlot], int]:
    """Place slots consecutively, each its lead behind a multiple of `ALIGNMENT` bytes.

    No two touch: host code can pass the address right behind a tensor, which must not be that of the next one.

    Returns:
        The placed slots in the same order, and the arena's size in bytes (at least one alignment unit).
    """
    placed: list[TensorSlot] = []
    end = copies = gaps = reached = 0
    for slot in slots:
        check_slot(slot, max_bytes)
        if slot.nbytes and 0 < reached == end:
            end += ALIGNMENT
            gaps += ALIGNMENT
        placed.append(slot.at(end + slot.lead))
        reached = placed[-1].offset + slot.nbytes if slot.nbytes else reached
        end += -(-(slot.lead + slot.nbytes) // ALIGNMENT) * ALIGNMENT
        copies += slot.dense_bytes
    taken = max(end - gaps, copies)
    if taken > max_bytes:
        raise LayoutError(
            f"The tensors of one set take {taken} bytes together, with gaps between strided elements; "
            f"at most {max_bytes} were expected.",
            "Make the problem's tensors smaller, or raise max_tensor_bytes (--max-tensor-bytes).",
        )
    return placed, max(end, ALIGNMENT)
