"""The part of memory that `wmma.load` and `wmma.store` access: lines of a matrix, a stride apart.

Source: NVIDIA, Parallel Thread Execution ISA, version 9.0, warp-level matrix instructions.
"""

import re
from dataclasses import dataclass
from typing import Final

from warpsmith.evaluator.languages.fencing.ptx import Instruction, PtxError

_SHAPE: Final = re.compile(r"m(\d+)n(\d+)k(\d+)")
_ITEM_BYTES: Final = {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "f64": 8, "s32": 4, "s8": 1, "u8": 1}
_SPACES: Final = frozenset({"global", "shared", "shared::cta"})


@dataclass(frozen=True)
class MatrixAccess:
    """What one instruction of a warp accesses.

    Attributes:
        loads: whether it loads; otherwise it stores.
        space: the state space; "" for a generic address.
        lines: number of rows, or of columns if columns are contiguous.
        length: items of a line.
        item_bytes: size of an item.
    """

    loads: bool
    space: str
    lines: int
    length: int
    item_bytes: int

    @property
    def length_bytes(self) -> int:
        """Size of a line in bytes."""
        return self.length * self.item_bytes


def read_access(one: Instruction) -> MatrixAccess:
    """Return what `wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {...}, [a], stride` and the like access.

    Raises:
        PtxError: its form is not understood.
    """
    words = one.opcode.split(".")
    spaces = [word for word in words if word in _SPACES]
    shape = next((found for word in words if (found := _SHAPE.fullmatch(word))), None)
    kinds = [word for word in words if word in _ITEM_BYTES]
    part = words[2] if len(words) > 2 else ""
    rows = "row" in words
    known = {"wmma", "load", "store", "sync", "aligned", "row", "col", part, *spaces, *kinds}
    unknown = [word for word in words if word not in known and not _SHAPE.fullmatch(word)]
    if shape is None or len(kinds) != 1 or part not in ("a", "b", "c", "d") or len(spaces) > 1 or unknown:
        raise PtxError(f"{one} is not an access to a matrix that is understood here.")
    if rows == ("col" in words) or not 2 <= len(one.operands) <= 3:
        raise PtxError(f"{one} does not say how its matrix lies in memory.")
    m, n, k = (int(size) for size in shape.groups())
    height, width = {"a": (m, k), "b": (k, n)}.get(part, (m, n))
    lines, length = (height, width) if rows else (width, height)
    return MatrixAccess(words[1] == "load", (spaces or [""])[0], lines, length, _ITEM_BYTES[kinds[0]])
