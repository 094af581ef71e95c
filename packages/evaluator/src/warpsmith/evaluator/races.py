"""Runs the programs of a launch in a random order, and finds what one of them stores and another touches.

On a chip the programs of a grid run in any order and at the same time. The interpreter runs one after the other, so
that a sum without atomics, or a value taken from the program before, would come out right.
"""

from typing import Any, Final

import numpy as np
from numpy.random import default_rng  # imported here, before a fork: numpy would import it in each worker
from triton.runtime import interpreter

_NOBODY: Final = 0
_SEVERAL: Final = -1


class RaceError(RuntimeError):
    """Two programs of one launch touch the same element, and one of them stores to it without an atomic operation."""


class Memory:
    """Which program of the launch under way touched which element of one storage; programs count from 1.

    Args:
        start: address of the storage.
        size: its bytes.
    """

    def __init__(self, start: int, size: int) -> None:
        self._start = start
        self._size = size
        self._shift = 0
        self._marks: dict[str, Any] = {}

    def touched(self, access: str, program: int, pointers: Any, item_bytes: int) -> Any:
        """Note an access (`load`, `store` or `atomic`); return which of `pointers` another program races for.

        What is returned is None or a boolean for each pointer.
        """
        indices = self._indices(pointers, item_bytes)
        raced = None
        for other in _CONFLICTS[access]:
            if other in self._marks:
                owners = self._marks[other][indices]
                found = (owners != _NOBODY) & (owners != program)
                if found.any():
                    raced = found if raced is None else raced | found
        self._mark(access, program, indices)
        return raced if raced is None or raced.ndim == 1 else raced.any(axis=1)

    def _mark(self, access: str, program: int, indices: Any) -> None:
        marks = self._marks.get(access)
        if marks is None:
            marks = self._marks[access] = np.zeros((self._size >> self._shift) + 1, dtype=np.int32)
        if access == "store":
            marks[indices] = program
        else:
            owners = marks[indices]
            marks[indices] = np.where((owners == _NOBODY) | (owners == program), program, _SEVERAL)

    def _indices(self, pointers: Any, item_bytes: int) -> Any:
        """Return the elements at `pointers`, in units of the smallest item that was touched."""
        shift = item_bytes.bit_length() - 1
        if not self._marks:
            self._shift = shift
        while self._shift > shift:
            self._shift -= 1
            self._marks = {name: np.repeat(marks, 2) for name, marks in self._marks.items()}
        first = (pointers.astype(np.int64) - self._start) >> self._shift
        return first if shift == self._shift else first[:, None] + np.arange(1 << (shift - self._shift))


_CONFLICTS: Final = {"load": ("store", "atomic"), "store": ("store", "load", "atomic"), "atomic": ("store", "load")}


def shuffle_programs() -> None:
    """Let the interpreter of this process run each launch's programs in an order that nobody can know."""
    builder = interpreter.InterpreterBuilder
    set_size, set_index = builder.set_grid_dim, builder.set_grid_idx
    generator = default_rng()  # seeded by the kernel, after the fork

    def set_grid_dim(self: Any, *sizes: int) -> None:
        set_size(self, *sizes)
        self.order = generator.permutation(int(np.prod(sizes)))

    def set_grid_idx(self: Any, x: int, y: int, z: int) -> None:
        _, rows, columns = self.grid_dim
        self.program = int(self.order[(x * rows + y) * columns + z])
        rest, last = divmod(self.program, columns)
        set_index(self, *divmod(rest, rows), last)

    builder.set_grid_dim, builder.set_grid_idx = set_grid_dim, set_grid_idx
