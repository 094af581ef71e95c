"""Runs the programs of a launch in a random order, and finds what one of them stores and another touches.

On a chip the programs of a grid run in any order and at the same time. The interpreter runs one after the other, so
that a sum without atomics, or a value taken from the program before, would come out right. The same holds for the
lanes of one program, the elements of its blocks: they are threads, which wait for one another at a barrier alone.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.random import default_rng  # imported here, before a fork: numpy would import it in each worker
from triton.runtime import interpreter

_NOBODY: Final = 0
_SEVERAL: Final = -1


class RaceError(RuntimeError):
    """Two programs of a launch, or two lanes of one, touch an element that one of them stores without an atomic."""


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


class Lanes:
    """Which lane of the program under way stored which element of one storage, since its last barrier.

    A lane is an element's place in its block. Which thread it belongs to depends on the block, but the same place of
    two equal blocks mostly belongs to the same one; so a lane may load what it stored itself.

    Args:
        start: address of the storage.
        size: its bytes.
    """

    def __init__(self, start: int, size: int) -> None:
        self._start = start
        self._size = size
        self._marks: dict[int, Any] = {}

    def store(self, moment: int, lanes: Any, pointers: Any, item_bytes: int) -> None:
        """Note a store. `moment` counts programs and barriers from 1."""
        marks = self._marks.get(item_bytes)
        if marks is None:
            marks = self._marks[item_bytes] = np.zeros(self._size // item_bytes + 1, dtype=np.int64)
        indices, stamps = self._indices(pointers, item_bytes), moment << _LANE_BITS | lanes
        marks[indices] = stamps
        shared = marks[indices] != stamps
        if shared.any():
            marks[indices[shared]] = moment << _LANE_BITS | _ANY_LANE

    def exchanged(self, moment: int, lanes: Any, pointers: Any, item_bytes: int) -> Any:
        """Return which of the loaded elements another lane stored since the last barrier; None if there is none."""
        marks = self._marks.get(item_bytes)
        if marks is None:
            return None
        found = marks[self._indices(pointers, item_bytes)]
        owner = found & _ANY_LANE
        foreign = (found >> _LANE_BITS == moment) & (owner != lanes) & (owner != _ANY_LANE)
        return foreign if foreign.any() else None

    def _indices(self, pointers: Any, item_bytes: int) -> Any:
        return (pointers.astype(np.int64) - self._start) // item_bytes


_LANE_BITS: Final = 32
_ANY_LANE: Final = (1 << _LANE_BITS) - 1
"""What several lanes of one store have written; they wrote the same, so that any of them may load it."""


def are_distinct(pointers: Any) -> bool:
    """Whether addresses rise, so that none occurs twice; false says nothing."""
    return pointers.size < 2 or bool((pointers[1:] > pointers[:-1]).all())


def shuffle_programs() -> None:
    """Let the interpreter of this process run each launch's programs in an order that nobody can know."""
    builder = interpreter.InterpreterBuilder
    set_size, set_index = builder.set_grid_dim, builder.set_grid_idx
    generator = default_rng()  # seeded by the kernel, after the fork

    def set_grid_dim(self: Any, *sizes: int) -> None:
        set_size(self, *sizes)
        self.order = generator.permutation(int(np.prod(sizes)))
        self.moment = 0

    def set_grid_idx(self: Any, x: int, y: int, z: int) -> None:
        _, rows, columns = self.grid_dim
        self.moment += 1
        self.program = int(self.order[(x * rows + y) * columns + z])
        rest, last = divmod(self.program, columns)
        set_index(self, *divmod(rest, rows), last)

    def create_barrier(self: Any) -> None:
        self.moment += 1

    builder.set_grid_dim, builder.set_grid_idx = set_grid_dim, set_grid_idx
    builder.create_barrier = create_barrier


def shuffle_lanes() -> None:
    """Let atomic operations of the interpreter take their lanes in a random order where several have one element."""
    builder = interpreter.InterpreterBuilder
    rmw, cas = builder.create_atomic_rmw, builder.create_atomic_cas
    generator = default_rng()

    def shuffled(atomic: Callable[..., Any], handles: tuple[Any, ...]) -> Any:
        shape = handles[0].data.shape
        if are_distinct(handles[0].data.ravel()):
            return atomic(*handles)
        order = generator.permutation(handles[0].data.size)
        mixed = (
            interpreter.TensorHandle(np.broadcast_to(handle.data, shape).ravel()[order], handle.dtype)
            for handle in handles
        )
        result = atomic(*mixed)
        return interpreter.TensorHandle(result.data[np.argsort(order)].reshape(shape), result.dtype)

    def create_atomic_rmw(self: Any, op: Any, ptr: Any, val: Any, mask: Any, *rest: Any) -> Any:
        return shuffled(lambda *handles: rmw(self, op, *handles, *rest), (ptr, val, mask))

    def create_atomic_cas(self: Any, ptr: Any, cmp: Any, val: Any, *rest: Any) -> Any:
        return shuffled(lambda *handles: cas(self, *handles, *rest), (ptr, cmp, val))

    builder.create_atomic_rmw, builder.create_atomic_cas = create_atomic_rmw, create_atomic_cas
