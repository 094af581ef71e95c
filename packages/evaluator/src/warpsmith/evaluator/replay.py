"""Replays a trace with the kernels of a source and none of its host code: what comes out comes from the kernels."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from warpsmith.evaluator import arenas, compiling, descriptors, wire
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.extract import extract_usable
from warpsmith.evaluator.garbage import Garbage
from warpsmith.evaluator.interpreting import IllegalAccessError
from warpsmith.evaluator.kernels import Binary, LoadedKernel
from warpsmith.evaluator.layout import ALIGNMENT, ITEM_BYTES, TensorSlot, contiguous
from warpsmith.evaluator.memory import DeviceMemory
from warpsmith.evaluator.rounds import Call

if TYPE_CHECKING:
    from warpsmith.evaluator.memory import Shared

MAX_FRESH_BYTES: Final = 4 << 30
MAX_DEVICE_BYTES: Final = 64 << 30
GRAIN: Final = 512
GUARD: Final = 4096
"""Bytes behind each tensor of a replay in which nobody has anything to store."""
GUARDED: Final = 0xC5
CARRIED_BYTES: Final = 16 << 20
"""Up to this size garbage is made on the host."""
POISON: Final = 0xFF
"""The byte that a replay's memory is filled with before each call: NaN in every floating dtype."""


class Replay:
    """The memory and the kernels of one replay.

    Args:
        source: the candidate's source; only its kernels are taken from it, by syntax.
        folder: where the extracted source may be written.
        buffers: the arenas `inputs` and `state`, read-only.
        slots: what lies in each of them; none where a tensor may reach to the arena's end.
    """

    def __init__(
        self,
        source: str,
        folder: Path,
        buffers: "dict[str, Shared]",
        slots: Mapping[str, Sequence[TensorSlot]] = MappingProxyType({}),
    ) -> None:
        self._kernels = compiling.execute_kernels(extract_usable(source), folder)
        self._buffers = buffers
        self._ends = {(name, slot.offset): slot.offset + slot.nbytes for name in slots for slot in slots[name]}
        self._fresh: dict[int, torch.Tensor] = {}
        self._garbage = Garbage()
        self._unfilled: set[int] = set()
        self._left = MAX_FRESH_BYTES
        self._steps: dict[str, Callable[..., None]] = {
            "alloc": self._allocate,
            "const": self._constant,
            "fill": self._fill,
            "copy": self._copy,
            "launch": self._launch,
        }

    def run(self, events: list[Any]) -> None:
        """Perform every event in order; WireError for one that is none."""
        for event in events:
            match event:
                case [str(kind), *rest] if kind in self._steps:
                    self._steps[kind](*rest)
                case _:
                    raise WireError(f"{str(event)[:80]} is no event of a trace.")

    def _allocate(self, number: int, size: int) -> None:
        if not 0 <= size <= self._left:
            raise WireError(f"The trace allocates {size} bytes; 0 to {self._left} are left to a replay.")
        self._left -= size
        self._fresh[number] = _aligned(size)
        self._unfilled.add(number)

    def _constant(self, number: int, content: bytes) -> None:
        self._fresh[number] = torch.frombuffer(bytearray(content or b"\0"), dtype=torch.uint8)

    def _fill(self, tensor: Any, value: float) -> None:
        self.tensor(tensor).fill_(value)

    def _copy(self, to: Any, origin: Any) -> None:
        self.tensor(to).copy_(self.tensor(origin))

    def tensor(self, described: Any) -> torch.Tensor:
        """Return the tensor that a trace describes; as_strided refuses what lies outside its memory."""
        match described:
            case ["tensor", str(memory), int(start), str(dtype), list(shape), list(stride), int(offset)]:
                base = self._memory(memory, start, dtype)
                return base.as_strided(shape, stride, offset) if all(shape) else base.new_empty(shape)
            case _:
                raise WireError(f"{str(described)[:80]} is no tensor of a trace.")

    def _memory(self, memory: str, start: int, dtype: str) -> torch.Tensor:
        kind, size = arenas.TORCH_DTYPES[dtype], ITEM_BYTES[dtype]
        if memory == "fresh":
            flat = self._fresh[start]
            typed = flat[: flat.numel() // size * size].view(kind)
            if start in self._unfilled:
                # Only now is the dtype known, and with it what is garbage.
                self._unfilled.remove(start)
                self._garbage.fill(typed)
            return typed
        buffer = self._buffers[memory]
        # To its own end, so that an access beyond it is found.
        end = self._ends.get((memory, start), buffer.size)
        return arenas.view(buffer, contiguous(dtype, ((end - start) // size,)).at(start))

    def _launch(self, kernel: str, grid: list[int], arguments: dict[str, Any], options: dict[str, Any]) -> None:
        values = {name: self._argument(value) for name, value in arguments.items()}
        # The interpreter takes no options. As arguments they could differ from the ones that were compiled.
        self._kernels[kernel][tuple(grid)](**values)

    def _argument(self, described: Any) -> Any:
        match described:
            case ["tensor", *_]:
                return self.tensor(described)
            case ["value", value]:
                return value
            case ["dtype", str(name)]:
                return compiling.triton_dtype(name)
            case ["kernel", str(name)]:
                return self._kernels[name]
            case ["descriptor", tensor, *rest]:
                return descriptors.made(self.tensor(tensor), rest)
            case ["tuple", list(items)]:
                return tuple(self._argument(item) for item in items)
            case _:
                raise WireError(f"A kernel argument of kind {str(described)[:40]} cannot be replayed.")

    def deliver(self, outputs: list[Any], tree: wire.Value, arena: "Shared") -> None:
        """Copy the described outputs to the judge's buffer; WireError where their form is not the expected one."""
        for slot, tensor in _paired(tree, [self.tensor(output) for output in outputs]):
            arenas.view(arena, slot).copy_(tensor)


def _paired(tree: wire.Value, tensors: list[torch.Tensor]) -> list[tuple[TensorSlot, torch.Tensor]]:
    """Return each expected slot with its tensor; WireError where the form is not the expected one."""
    slots = list(wire.slots(tree))
    if len(slots) != len(tensors):
        raise WireError(f"The trace has {len(tensors)} outputs; {len(slots)} were expected.")
    for slot, tensor in zip(slots, tensors, strict=True):
        if not arenas.slot_of(tensor).same_kind(slot):
            raise WireError(f"An output of the trace is {arenas.slot_of(tensor)}; {slot} was expected.")
    return list(zip(slots, tensors, strict=True))


def _aligned(size: int) -> torch.Tensor:
    """Return bytes whose first lies where memory of a GPU begins: at a multiple of `ALIGNMENT`."""
    room = np.empty(size + ALIGNMENT, dtype=np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return torch.from_numpy(room[start : start + size])


class DeviceReplay:
    """A trace on a GPU: one sequence of fills, copies and launches for each set of inputs and answers.

    Memory that the trace allocates is allocated once and shared by all calls, which run one after the other.

    Args:
        memory: the device.
        state: the arena of parameters and buffers.
        events: the trace; every launch in it has its machine code in `binaries`, in order.
        binaries: the code of each launch.

    Raises:
        WireError: an event is none, or it needs more memory than a replay may take.
        NativeError: the driver refuses the code.
    """

    def __init__(self, memory: DeviceMemory, state: "Shared", events: list[Any], binaries: list[Binary]) -> None:
        self._memory = memory
        self._state = state
        self._fresh: dict[int, torch.Tensor] = {}
        # What a constant's memory holds before a call, to the end of its guard zone.
        self._constants: dict[int, torch.Tensor] = {}
        self._wholes: dict[int, torch.Tensor] = {}
        self._guards: list[torch.Tensor] = []
        self._left = MAX_DEVICE_BYTES
        self._outputs: list[Any] = []
        self._answer: wire.Value = None
        self._call: ReplayedCall | None = None
        self._dtypes = dict(_dtypes_of([events]))
        loaded: dict[bytes, LoadedKernel] = {}
        kernels = [loaded.get(one.cubin) or self._load(loaded, one) for one in binaries]
        self._events = list(self._with_kernels(events, iter(kernels)))

    def _load(self, loaded: dict[bytes, Any], binary: Binary) -> LoadedKernel:
        kernel = loaded[binary.cubin] = LoadedKernel(self._memory, binary)
        return kernel

    def _with_kernels(self, events: list[Any], kernels: Iterator[LoadedKernel]) -> Iterator[Any]:
        """Allocate what the trace allocates; yield the events that do something, launches with their kernel."""
        for event in events:
            match event:
                case ["alloc", int(number), int(size)]:
                    self._allocate(number, size)
                case ["const", int(number), bytes(content)]:
                    self._allocate(number, len(content))
                    self._constants[number] = self._whole_of(number, content)
                case ["launch", str(), list(grid), dict(arguments), dict()]:
                    yield ["launch", next(kernels), grid, arguments]
                case ["fill" | "copy", *_]:
                    yield event
                case _:
                    raise WireError(f"{str(event)[:80]} is no event of a trace.")

    def _allocate(self, number: int, size: int) -> None:
        if not 0 <= size <= self._left:
            raise WireError(f"The trace allocates {size} bytes; 0 to {self._left} are left to a replay.")
        self._left -= size
        # No slack of torch's allocator lies behind it, where something could be kept from call to call.
        used = max(size, 1)
        room = -(-used // GRAIN) * GRAIN + GUARD
        whole = torch.full((room,), POISON, dtype=torch.uint8, device=self._memory.device)
        self._wholes[number], self._fresh[number] = whole, whole[:used]
        self._guards.append(whole[used:])

    def _whole_of(self, number: int, content: bytes) -> torch.Tensor:
        whole = torch.full((self._wholes[number].numel(),), POISON, dtype=torch.uint8)
        whole[: len(content)] = torch.frombuffer(bytearray(content or b"\0"), dtype=torch.uint8)[: len(content)]
        return whole.to(self._memory.device)

    def set_guards(self) -> None:
        """Fill what lies behind each tensor with what `check_guards` looks for; to be called after a reset."""
        for guard in self._guards:
            guard.fill_(GUARDED)

    def check_guards(self) -> None:
        """Raise IllegalAccessError where something was stored behind a tensor."""
        for guard in self._guards:
            # Compared on the host, so that this process loads no kernels for it.
            stored = guard.cpu().numpy() != GUARDED
            if stored.any():
                first = int(stored.argmax())
                raise IllegalAccessError(
                    f"a kernel stores behind the end of a tensor, first {first} bytes past it. A mask or an offset is "
                    "missing or wrong."
                )

    def set_up(self, inputs: "Shared", answers: "Shared") -> None:
        """Say on what `play` runs the trace, and where its answer goes."""
        self._call = self.call(inputs, answers)

    def clear(self) -> None:
        """Let go of all memory; it is not to be played again."""
        for held in (self._fresh, self._wholes, self._constants, self._guards, self._events):
            held.clear()
        self._call = None

    def play(self, *, ghost: bool = False, garbage: bool = False) -> None:
        """Run the trace on what the inputs hold now and deliver the answer.

        Args:
            ghost: whether no kernel is launched.
            garbage: whether fresh memory holds other garbage in each call, in place of what a reset leaves in it: a
                kernel that counts on that would be right here alone.

        Raises:
            IllegalAccessError: something was stored behind a tensor.
        """
        call = self._call
        if call is None:
            raise WireError("There is no trace to play.")
        if not ghost:
            call.reset()
            self.set_guards()
            call.run()
            self._memory.settle()
            self.check_guards()
        # The answer is that of a call like those that are timed: behind a tensor they find what a reset leaves there.
        call.reset()
        if garbage:
            self._fill_with_garbage()
        call.run(ghost=ghost)
        call.deliver()
        self._memory.settle()

    def _fill_with_garbage(self) -> None:
        drawn = Garbage()
        for number, dtype in self._dtypes.items():
            if number in self._fresh and number not in self._constants:
                flat, size = self._fresh[number], ITEM_BYTES[dtype]
                typed = flat[: flat.numel() // size * size].view(arenas.TORCH_DTYPES[dtype])
                # A device loads a kernel to repeat a tile; what is small is carried over whole. A storage of its own,
                # since all of that is filled: what lies behind a tensor stays as it is.
                made = torch.empty_like(typed, device="cpu" if typed.nbytes <= CARRIED_BYTES else None)
                drawn.fill(made)
                typed.copy_(made)

    def expect(self, outputs: list[Any], answer: wire.Value) -> None:
        """Say which tensors of the trace are the answer."""
        self._outputs, self._answer = outputs, answer
        self._dtypes |= dict(_dtypes_of(outputs))

    def call(self, inputs: "Shared | arenas.Part", answers: "Shared | arenas.Part") -> "ReplayedCall":
        """Return the trace on one set of inputs."""
        place = _Place(self._fresh, {"inputs": inputs, "state": self._state})
        return ReplayedCall(
            steps=[(event[0] == "launch", self._step(place, event)) for event in self._events],
            fresh=[whole for number, whole in self._wholes.items() if number not in self._constants],
            constants=[(self._wholes[number], content) for number, content in self._constants.items()],
            outputs=_paired(self._answer, [place.tensor(output) for output in self._outputs]),
            answers=answers,
        )

    def _step(self, place: "_Place", event: list[Any]) -> Callable[[], Any]:
        match event:
            case ["fill", target, value]:
                return partial(place.tensor(target).fill_, value)
            case ["copy", to, origin]:
                return partial(place.tensor(to).copy_, place.tensor(origin))
            case ["launch", LoadedKernel() as kernel, list(grid), dict(arguments)]:
                values = {name: place.argument(value) for name, value in arguments.items()}
                return self._launch(kernel, [int(size) for size in grid], values)
            case _:
                raise WireError(f"{str(event)[:80]} is no event of a trace.")

    def _launch(self, kernel: LoadedKernel, grid: list[int], values: dict[str, Any]) -> Callable[[], Any]:
        if not all(size > 0 for size in grid):
            return lambda: None
        launch, scratch = kernel.prepared(grid, values)

        def step(_kept: Any = (scratch, values)) -> None:
            launch.launch(torch.cuda.current_stream().cuda_stream)

        return step

    def ring(self, fields: wire.Fields, fds: list[int]) -> list[Call]:
        """Return a call on each set of a ring: the descriptors are those of all inputs and of all answers."""
        sets, sizes = fields.integer("sets"), [fields.integer(name) for name in ("inputs_bytes", "answers_bytes")]
        inputs = self._memory.map(fds[0], sets * sizes[0], writable=False)
        answers = self._memory.map(fds[1], sets * sizes[1], writable=True)
        for fd in fds:
            os.close(fd)
        pairs = zip(arenas.parts(inputs, sizes[0]), arenas.parts(answers, sizes[1]), strict=True)
        return [self.call(own_inputs, own_answers) for own_inputs, own_answers in pairs]


def _dtypes_of(part: Any) -> Iterator[tuple[int, str]]:
    """Yield the numbers of a trace's own tensors, each with a dtype that it is used as."""
    match part:
        case ["tensor", "fresh", int(number), str(dtype), *_] if dtype in ITEM_BYTES:
            yield number, dtype
        case dict():
            for value in part.values():
                yield from _dtypes_of(value)
        case list() | tuple():
            for value in part:
                yield from _dtypes_of(value)


class _Place:
    """Where the tensors of a trace lie in one call."""

    def __init__(self, fresh: dict[int, torch.Tensor], buffers: "dict[str, Shared | arenas.Part]") -> None:
        self._fresh = fresh
        self._flat = {name: arenas.content(buffer) for name, buffer in buffers.items()}

    def tensor(self, described: Any) -> torch.Tensor:
        """Return the tensor that a trace describes; as_strided refuses what lies outside its memory."""
        match described:
            case ["tensor", str(memory), int(start), str(dtype), list(shape), list(stride), int(offset)]:
                flat = self._fresh[start] if memory == "fresh" else self._flat[memory][start:]
                size = ITEM_BYTES[dtype]
                base = flat[: flat.numel() // size * size].view(arenas.TORCH_DTYPES[dtype])
                return base.as_strided(shape, stride, base.storage_offset() + offset)
            case _:
                raise WireError(f"{str(described)[:80]} is no tensor of a trace.")

    def argument(self, described: Any) -> Any:
        """Return a launch argument; what only decides how a kernel is compiled is None here."""
        match described:
            case ["tensor", *_]:
                return self.tensor(described)
            case ["value", value]:
                return value
            case ["tuple", list(items)]:
                return tuple(self.argument(item) for item in items)
            case ["dtype" | "kernel", str()]:
                return None
            case ["descriptor", tensor, *rest]:
                return descriptors.made(self.tensor(tensor), rest)
            case _:
                raise WireError(f"A kernel argument of kind {str(described)[:40]} cannot be replayed.")


@dataclass
class ReplayedCall(Call):
    """One call of a trace: what it does, the memory that it starts from, and where its answer goes.

    `steps` tells of each step whether it launches a kernel.
    """

    steps: list[tuple[bool, Callable[[], Any]]]
    fresh: list[torch.Tensor]
    constants: list[tuple[torch.Tensor, torch.Tensor]]
    outputs: list[tuple[TensorSlot, torch.Tensor]]
    answers: "Shared | arenas.Part"

    def reset(self) -> None:
        # Guard zones included: nothing is to be kept in them, and one fill costs a graph less than two.
        for memory in self.fresh:
            memory.fill_(POISON)
        for memory, content in self.constants:
            memory.copy_(content)

    def run(self, *, ghost: bool = False) -> None:
        for launches, step in self.steps:
            if not (launches and ghost):
                step()

    def deliver(self) -> None:
        for slot, tensor in self.outputs:
            arenas.view(self.answers, slot).copy_(tensor)
