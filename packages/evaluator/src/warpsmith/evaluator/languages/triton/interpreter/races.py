"""Runs the programs of a launch in a random order, and detects elements that one stores and another accesses.

On a chip the programs of a grid run in any order and concurrently. The interpreter runs one after another, so a sum
without atomics, or a value taken from the previous program, would come out right. The same holds for the lanes of a
program, the elements of its blocks: they are threads that wait for one another only at a barrier.

Between two atomic operations of a program, others can do theirs. So after an atomic operation, at random, other
programs run from start to end before the program continues: an update based on an earlier read is then lost, as on a
chip. Plain loads and stores need no such interruption, since conflicting ones are reported as races.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.random import default_rng  # imported here, before a fork: numpy would import it in each worker
from triton.runtime import interpreter

_NOBODY: Final = 0
_SEVERAL: Final = -1


UNORDERED: Final = (
    "On a chip a lock or a counter can order them, so the kernel may be right; the interpreter does not follow that "
    "order, and a GPU is needed to judge it."
)


class RaceError(RuntimeError):
    """Programs of a launch, or lanes of a program, access the same element, and nothing orders them."""


class UnseenOrderError(RaceError):
    """They access the same element in a launch with atomic operations, which can order them on a chip."""


class Launch:
    """The programs of a launch: their order, and the one that runs now.

    Args:
        sizes: programs along x, y and z.
        place: called with the three indices of a program before it runs.
        body: runs the program that was placed.
        rng: draws the order.
    """

    def __init__(
        self,
        sizes: tuple[int, int, int],
        place: Callable[[int, int, int], None],
        body: Callable[[], None],
        rng: np.random.Generator,
    ) -> None:
        self.size = int(np.prod(sizes))
        self.program = 0
        """Number of the running program, from 1."""
        self.atomics = False
        """Whether any program has done an atomic operation, which can order programs on a chip."""
        self.moment = 0
        """A number unique to each interval of a program between two barriers."""
        self._sizes, self._place, self._body, self._rng = sizes, place, body, rng
        self._pending = list(rng.permutation(self.size))
        self._last_moment = 0
        self._depth = 0
        self._waits = 0

    def run(self) -> None:
        """Run all programs."""
        while self._pending:
            self._run_next()

    def pass_barrier(self) -> None:
        """Note that the running program passed a barrier."""
        self._last_moment += 1
        self.moment = self._last_moment

    def interrupt(self) -> None:
        """At random, run programs that have not started to their end, in the middle of the running one."""
        while self._pending and self._depth < _MAX_DEPTH and self._rng.random() < _INTERRUPTED:
            program, moment = self.program, self.moment
            self._depth += 1
            self._run_next()
            self._depth -= 1
            self.moment = moment
            self._enter(program)

    def compared(self, succeeded: bool) -> None:
        """Note a compare-and-swap; raise if a program retries endlessly while no other can run."""
        self._waits = 0 if succeeded else self._waits + 1
        if self._waits > _MAX_WAITS:
            raise UnseenOrderError(
                "cannot be judged: a program waits in a loop of tl.atomic_cas for another program of the same launch. "
                f"{UNORDERED} Here, update each value by one atomic operation, or use a second launch."
            )

    def _run_next(self) -> None:
        self._waits = 0
        self._enter(int(self._pending.pop()) + 1)
        self.pass_barrier()
        self._body()
        self._waits = 0

    def _enter(self, program: int) -> None:
        _, rows, columns = self._sizes
        self.program = program
        rest, last = divmod(program - 1, columns)
        self._place(*divmod(rest, rows), last)


_INTERRUPTED: Final = 0.5
_MAX_DEPTH: Final = 8
_MAX_WAITS: Final = 256
"""A loop that retries with the value found succeeds at once, since no other program runs meanwhile."""


class Memory:
    """Tracks which program of the launch accessed which element of one storage; programs count from 1.

    Args:
        start: address of the storage.
        size: its size in bytes.
    """

    def __init__(self, start: int, size: int) -> None:
        self._start = start
        self._size = size
        self._shift = 0
        self._marks: dict[str, Any] = {}

    def touched(self, access: str, program: int, pointers: Any, item_bytes: int) -> Any:
        """Note an access (`load`, `store`, `atomic`, `OF_BLOCK`); return which of `pointers` race with another program.

        The result is None or a boolean for each pointer.
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
        """Return the elements at `pointers`, in units of the smallest item accessed so far."""
        shift = item_bytes.bit_length() - 1
        if not self._marks:
            self._shift = shift
        while self._shift > shift:
            self._shift -= 1
            self._marks = {name: np.repeat(marks, 2) for name, marks in self._marks.items()}
        first = (pointers.astype(np.int64) - self._start) >> self._shift
        return first if shift == self._shift else first[:, None] + np.arange(1 << (shift - self._shift))


class Exchanges:
    """Tracks atomic exchanges of the programs of a launch in one storage: the values, and what was read before.

    Args:
        start: address of the storage.
        size: its size in bytes.
    """

    def __init__(self, start: int, size: int) -> None:
        self._start = start
        self._size = size
        self._time = 0
        self._writers: dict[int, tuple[Any, Any]] = {}
        self._changes: dict[int, tuple[Any, Any]] = {}
        self._read: dict[tuple[int, int], list[tuple[int, Any]]] = {}

    def update(self, program: int, pointers: Any, item_bytes: int) -> None:
        """Note an atomic operation other than an exchange."""
        indices = self._indices(pointers, item_bytes)
        self._note(program, indices, item_bytes)

    def exchange(self, program: int, pointers: Any, item_bytes: int, values: Any) -> Any:
        """Note an exchange; return for each pointer whether another program's update conflicts with it.

        That is: another program exchanges another value there, or changed the element after this program had read it
        by an atomic operation.
        """
        indices = self._indices(pointers, item_bytes)
        owners, held = self._of(self._writers, item_bytes, np.uint64)
        bits = _bits(values)
        raced = (owners[indices] != _NOBODY) & (owners[indices] != program) & (held[indices] != bits)
        raced |= self._is_lost(program, indices, item_bytes)
        owners[indices], held[indices] = program, bits
        self._note(program, indices, item_bytes)
        return raced

    def _is_lost(self, program: int, indices: Any, item_bytes: int) -> Any:
        changers, times = self._of(self._changes, item_bytes, np.int64)
        lost = np.zeros(indices.shape, dtype=bool)
        for time, read in self._read.get((program, item_bytes), ()):
            lost |= np.isin(indices, read) & (changers[indices] != program) & (times[indices] > time)
        return lost

    def _note(self, program: int, indices: Any, item_bytes: int) -> None:
        self._time += 1
        changers, times = self._of(self._changes, item_bytes, np.int64)
        changers[indices], times[indices] = program, self._time
        read = self._read.setdefault((program, item_bytes), [])
        read.append((self._time, indices))
        del read[:-_REMEMBERED]

    def _of(self, marks: dict[int, tuple[Any, Any]], item_bytes: int, dtype: Any) -> tuple[Any, Any]:
        if item_bytes not in marks:
            length = self._size // item_bytes + 1
            marks[item_bytes] = np.zeros(length, dtype=np.int32), np.zeros(length, dtype=dtype)
        return marks[item_bytes]

    def _indices(self, pointers: Any, item_bytes: int) -> Any:
        return (pointers.astype(np.int64) - self._start) // item_bytes


_REMEMBERED: Final = 16
"""Latest atomic operations of a program that an exchange is compared with; most programs have fewer."""


def _bits(values: Any) -> Any:
    """Return numbers as bits, with all NaN made equal."""
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}").astype(np.uint64)


OF_BLOCK: Final = "atomic of a block"
"""An atomic operation with `scope="cta"`: atomic among the threads of its program alone."""
_CONFLICTS: Final = {
    "load": ("store", "atomic", OF_BLOCK),
    "store": ("store", "load", "atomic", OF_BLOCK),
    "atomic": ("store", "load", OF_BLOCK),
    OF_BLOCK: ("store", "load", "atomic", OF_BLOCK),
}


class Lanes:
    """Tracks which lane of the running program stored which element of one storage since its last barrier.

    A lane is an element's place in its block. Its thread depends on the block's layout, but the same place in two
    equal blocks mostly belongs to the same thread; so a lane can load what it stored itself.

    Args:
        start: address of the storage.
        size: its size in bytes.
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
"""Marks an element that several lanes of one store wrote with the same value, so that any of them can load it."""


def are_distinct(pointers: Any) -> bool:
    """Whether addresses are increasing, so that none occurs twice; False says nothing."""
    return pointers.size < 2 or bool((pointers[1:] > pointers[:-1]).all())


def let_barriers_count() -> None:
    """Let barriers in the interpreter of this process call `pass_barrier`."""
    interpreter.InterpreterBuilder.create_barrier = lambda self: self.launch.pass_barrier()


def shuffle_lanes() -> None:
    """Let atomic operations of the interpreter run lanes that share an element in a random order."""
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
