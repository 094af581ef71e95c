"""Plays a recording on a GPU: restores the memory that its calls start from, and runs its steps.

Nothing survives a call. Each tensor of a recording (allocations, constants, inputs, state, scratch memory of kernels)
has its own region (`devices/cuda_regions.py`), out of reach of all others. Between two calls all memory that a kernel
can write is rewritten: regions to their last byte, and the state that multiprocessors keep
(`devices/cuda_scrubbing.py`). Inputs and state are read-only for kernels. Other device memory is out of reach:
correctness replays, and some timed calls, run the fenced twin of each kernel, which accesses only the tensors of its
launch and records the first access outside them.

Preparing a replay, or a ring's calls, is work for the driver only: memory is allocated and mapped, code loaded. Initial
memory contents are written with the first work that runs on the device.
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from warpsmith.evaluator import _native
from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.devices.base import Device, OnDevice
from warpsmith.evaluator.devices.cuda_placement import Placement
from warpsmith.evaluator.devices.cuda_regions import Region
from warpsmith.evaluator.devices.uninitialized_memory import Garbage
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.tensor_slots import ALIGNMENT, ITEM_BYTES, TensorSlot
from warpsmith.evaluator.languages.base import HoldsTensors, KernelLanguage, LoadedCode, LoadedKernel
from warpsmith.evaluator.languages.fencing.fence import RECORD_BYTES, FencePlan
from warpsmith.evaluator.recordings import library_calls, movement
from warpsmith.evaluator.recordings.errors import IllegalAccessError, behind_end
from warpsmith.evaluator.timing.worker_rounds import WATCHDOG_S, Call
from warpsmith.evaluator.workers.player_host import paired

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.memory import Shared

MAX_DEVICE_BYTES: Final = 64 << 30
GUARDED: Final = 0xC5
"""Byte around tensors while checking whether a kernel stores there."""
CARRIED_BYTES: Final = 16 << 20
"""Largest garbage that is made on the host."""
FAR: Final = 1 << 30
"""Distance in bytes from the nearest tensor above which a message does not name it."""
_FAULT: Final = "an illegal memory access was encountered"
"""Message of torch and the driver for it."""
_ADDRESSES: Final = (1 << 64) - 1
PROFILE_ATTEMPTS: Final = 3
"""For profiling one call: the gate opens on its own if the host is delayed for longer than the watchdog waits."""
POISON: Final = 0xFF
"""Byte that fills a replay's memory before each call: NaN in every floating dtype."""


@dataclass(frozen=True)
class Arena:
    """Memory that the judge fills, and its tensors."""

    buffer: "Shared | tensor_views.Part"
    slots: list[TensorSlot]


class ReadOnlyTensors:
    """The tensors of an arena, each in its own region that kernels can only read; call `fill` before the first use.

    Args:
        device: that it plays on.
        arena: where their content comes from.
        used: bytes of the arena at which a tensor of the recording begins; tensors without such a byte are left out.
        once: whether the content is copied once and then sealed, instead of being written through a second mapping.
    """

    def __init__(self, device: Device, arena: Arena, used: set[int], *, once: bool = False) -> None:
        self._slots = sorted((slot for slot in arena.slots if slot.numel), key=lambda slot: slot.offset)
        self._starts = [slot.offset for slot in self._slots]
        self._source: Shared | tensor_views.Part | None = arena.buffer
        self._regions: dict[int, Region] = {}
        for byte in used:
            slot = self._slot_at(byte)
            if slot.offset not in self._regions:
                self._regions[slot.offset] = device.region(slot.lead + slot.nbytes, read_only=not once)

    def _slot_at(self, byte: int) -> TensorSlot:
        place = bisect_right(self._starts, byte) - 1
        if place < 0 or byte >= self._slots[place].offset + self._slots[place].nbytes:
            raise WireError(f"A recording has a tensor at byte {byte} of an arena, where there is no tensor.")
        return self._slots[place]

    def at(self, byte: int) -> tuple[torch.Tensor, int]:
        """Return the tensor at a byte of the arena, as bytes, and the index of that byte in it."""
        slot = self._slot_at(byte)
        return self._regions[slot.offset].content, slot.lead + byte - slot.offset

    def fill(self) -> None:
        """Write the memory around the tensors, whose content stays fixed."""
        for region in self._regions.values():
            region.whole.fill_(POISON)

    def update(self) -> None:
        """Copy the arena's current content."""
        if self._source is None:
            raise WireError("The inputs of a timed call cannot change.")
        flat = tensor_views.content(self._source)
        for slot in self._slots:
            if slot.offset in self._regions:
                within = self._regions[slot.offset].within[slot.lead :]
                within.copy_(flat[slot.offset : slot.offset + slot.nbytes])

    def seal(self) -> None:
        """Make all regions read-only, and release the arena, so that no second copy of the content remains."""
        self._source = None
        for region in self._regions.values():
            region.seal()


@dataclass(frozen=True)
class Step:
    """One step of a recording.

    Attributes:
        run: enqueues it.
        launches: whether it launches a kernel.
        fenced: enqueues the kernel's fenced twin instead; None if there is none.
        check: raises if the step cannot move its data; None if nothing can go wrong.
    """

    run: Callable[[], Any]
    launches: bool = False
    fenced: Callable[[], Any] | None = None
    check: Callable[[], None] | None = None


class DeviceReplay:
    """A recording on a GPU: one sequence of fills, copies and launches for each set of inputs and answers.

    Memory that the recording allocates is allocated once and shared by all calls, which run one after another.

    Args:
        device: that it plays on.
        arenas: the arenas of inputs, of parameters and buffers (`state`), and of earlier calls' inputs.
        events: the recording; every launch in it has its machine code in `binaries`, in order.
        binaries: the code of each launch, as its fields.
        language: loads it.
        outputs: tensors of the recording that form the answer.
        answer: form of the answer.

    Raises:
        WireError: an event is invalid, or needs more memory than a replay may take.
        FenceError: a kernel has no fenced twin; the message says why, and how to change it.
        NativeError: the driver rejects the code, or the device is out of memory.
    """

    def __init__(
        self,
        device: Device,
        arenas: Mapping[str, Arena],
        events: list[Any],
        binaries: list[Any],
        *,
        language: KernelLanguage,
        outputs: list[Any],
        answer: codec.Value,
    ) -> None:
        self._device = device
        self._language = language
        self._outputs, self._answer = outputs, answer
        self._fresh: dict[int, Region] = {}
        self._scratch: dict[int, Region] = {}
        self._placements: dict[int, Placement] = {}
        # The initial content of the whole region of each constant.
        self._images: dict[int, Region] = {}
        self._left = MAX_DEVICE_BYTES
        # Initial memory contents, which are written when something runs on the device.
        self._writes: list[Callable[[], Any]] = []
        self._call: ReplayedCall | None = None
        self._dtypes = dict(dtypes_of([events, outputs]))
        self._used = _used_of([events, outputs])
        self._arenas = arenas
        self._read_only = {
            name: ReadOnlyTensors(device, arena, self._used.get(name, set())) for name, arena in arenas.items()
        }
        self._writes += [tensors.fill for tensors in self._read_only.values()]
        launches = [event for event in events if event[:1] == ["launch"] and not self._sets_variable(event)]
        self._code = language.load(device, launches, binaries)
        kernels = self._code.kernels
        self._variables = list(self._kept(self._code.variables))
        self._watch = Watch(device)
        self._writes.append(self._watch.begin)
        self._scrub = device.scrub(max((kernel.local_bytes for kernel in kernels), default=0))
        self._events = list(self._with_kernels(events, iter(kernels)))

    def _sets_variable(self, event: list[Any]) -> bool:
        return bool(self._language.copy_to_variable) and event[1:2] == [self._language.copy_to_variable]

    def _kept(self, variables: Sequence[torch.Tensor]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield each variable of a module with a copy of its value before the first call."""
        sizes = [-(-variable.numel() // ALIGNMENT) * ALIGNMENT for variable in variables]
        kept = self._region(sum(sizes)).content if sizes else None
        for variable, start in zip(variables, accumulate(sizes, initial=0), strict=False):
            assert kept is not None
            own = kept[start : start + variable.numel()]
            self._writes.append(partial(own.copy_, variable))
            yield variable, own

    def _with_kernels(self, events: list[Any], kernels: Iterator[LoadedKernel]) -> Iterator[Any]:
        """Make the recording's allocations; yield the other events, launches with their loaded kernel."""
        for event in events:
            match event:
                case ["alloc", int(number), int(size)]:
                    self._fresh[number] = self._region(size)
                case ["const" | "literal", int(number), bytes(content)]:
                    self._fresh[number] = region = self._region(len(content))
                    self._images[number] = self._image(region, content)
                case ["launch", str(), list(), dict(arguments), dict(options)] if self._sets_variable(event):
                    yield ["set", arguments, options]
                case ["launch", str(), list(grid), dict(arguments), dict()]:
                    yield ["launch", next(kernels), grid, arguments]
                case ["fill" | "copy" | "call" | "operator", *_]:
                    yield event
                case _:
                    raise WireError(f"{str(event)[:80]} is not an event of a trace.")

    def _region(self, size: int) -> Region:
        if not 0 <= size <= self._left:
            raise WireError(f"The trace allocates {size} bytes; 0 to {self._left} remain for the replay.")
        region = self._device.region(size)
        self._left -= region.whole.numel()
        return region

    def _image(self, region: Region, content: bytes) -> Region:
        whole = torch.full((region.whole.numel(),), POISON, dtype=torch.uint8)
        if content:
            flat = torch.frombuffer(bytearray(content), dtype=torch.uint8)
            whole[region.start : region.start + len(content)] = flat
        image = self._device.region(region.whole.numel())
        self._writes.append(partial(image.whole.copy_, whole))
        return image

    def _write_first(self) -> None:
        """Write the initial memory contents that have not been written yet."""
        writes, self._writes = self._writes, []
        for write in writes:
            write()

    def clear(self) -> None:
        """Release all memory; the replay cannot be played again."""
        self._call, self._code = None, LoadedCode()
        # Placements before the regions that they give to torch.
        for held in (self._placements, self._fresh, self._scratch, self._images, self._read_only, self._events):
            held.clear()
        self._variables.clear()
        self._writes.clear()

    # Playing -------------------------------------------------------------------------------------------------------

    def set_up(self, answers: "Shared") -> None:
        """Set the destination of the answers of `play`."""
        self._call = self._called(self._read_only, answers)

    def play(self, *, ghost: bool = False, garbage: bool = False, poison: int = POISON) -> None:
        """Run the recording on the current content of the arenas and deliver the answer.

        Args:
            ghost: whether no kernel is launched.
            garbage: whether fresh memory holds different garbage in each call instead of the reset's pattern: a kernel
                that relies on that pattern would be right only here.
            poison: initial byte of fresh memory without garbage.

        Raises:
            IllegalAccessError: a kernel accesses memory outside its tensors.
            BooleanBytesError: host code casts booleans that hold neither 0 nor 1.
        """
        call = self._call
        if call is None:
            raise WireError("There is no trace to play.")
        self._write_first()
        for tensors in self._read_only.values():
            tensors.update()
        if not ghost and not call.is_fenced:
            self._check_stores(call)
        call.reset(poison)
        if garbage:
            self._fill_with_garbage()
        call.scrub()
        call.run(ghost=ghost, fenced=True, checked=not ghost)
        call.deliver()
        self._device.settle()
        call.check()

    def _check_stores(self, call: "ReplayedCall") -> None:
        """Make a call of kernels without twins, and raise if one stores outside a tensor."""
        call.reset()
        regions = [*self._fresh.values(), *self._scratch.values()]
        for slack in (slack for region in regions for slack in region.slack):
            slack.fill_(GUARDED)
        call.scrub()
        call.run()
        self._device.settle()
        for region in regions:
            check_slack(region)

    def _fill_with_garbage(self) -> None:
        drawn = Garbage()
        for number, dtype in self._dtypes.items():
            if number in self._fresh and number not in self._images:
                flat, size = self._fresh[number].content, ITEM_BYTES[dtype]
                typed = flat[: flat.numel() // size * size].view(tensor_views.TORCH_DTYPES[dtype])
                # Repeating a tile would need another kernel on the device, so small garbage is copied whole.
                made = torch.empty_like(typed, device="cpu") if typed.nbytes <= CARRIED_BYTES else typed
                drawn.fill(made)
                if made is not typed:
                    typed.copy_(made)

    # Calls ---------------------------------------------------------------------------------------------------------

    def _called(self, read_only: dict[str, ReadOnlyTensors], answers: "Shared | tensor_views.Part") -> "ReplayedCall":
        """Return the recording's call on one set of inputs."""
        place = _Place(self._device, self._language, self._fresh, read_only)
        # Steps first: they determine the scratch memory.
        steps = [self._step(place, number, event) for number, event in enumerate(self._events)]
        fresh = [region for number, region in self._fresh.items() if number not in self._images]
        return ReplayedCall(
            steps=steps,
            fresh=[*fresh, *self._scratch.values()],
            constants=[
                *((self._fresh[number].whole, image.whole) for number, image in self._images.items()),
                *self._variables,
            ],
            outputs=paired(self._answer, [place.tensor(output) for output in self._outputs]),
            answers=answers,
            scrubs=self._scrub,
            watch=self._watch,
        )

    def _step(self, place: "_Place", number: int, event: list[Any]) -> Step:
        match event:
            case ["fill", target, value]:
                return Step(partial(place.tensor(target).fill_, value))
            case ["copy", to, origin]:
                pair = place.tensor(to), place.tensor(origin)
                return Step(partial(movement.copy, *pair), check=partial(movement.check_booleans, *pair))
            case ["call", str(operator), list(arguments), to]:
                operands = [place.argument(argument) for argument in arguments]
                return Step(partial(movement.call, operator, operands, place.tensor(to)))
            case ["operator", str(name), list(arguments), dict(keywords), list(results)]:
                placed = partial(self._placement, number)
                return Step(library_calls.repeated(name, arguments, keywords, results, place.tensor, placement=placed))
            case ["set", dict(arguments), dict(options)]:
                return self._set(place.argument(arguments.get("source")), options)
            case ["launch", kernel, list(grid), dict(arguments)]:
                values = {name: place.argument(value) for name, value in arguments.items()}
                return self._launch(kernel, [int(size) for size in grid], values, number)
            case _:
                raise WireError(f"{str(event)[:80]} is not an event of a trace.")

    def _placement(self, number: int, into: torch.Tensor) -> Placement:
        """Return the placement of an event's result, the same in each call: all calls share its memory."""
        if number not in self._placements:
            self._placements[number] = Placement(self._device, into)
        return self._placements[number]

    def _launch(self, kernel: LoadedKernel, grid: list[int], values: dict[str, Any], number: int) -> Step:
        if not all(size > 0 for size in grid):
            return Step(lambda: None, launches=True)
        allocate = partial(self._scratch_for, number)
        launch, _ = kernel.prepared(grid, values, allocate=allocate)
        fenced = None
        if kernel.has_twin:
            plan = self._watch.plan(kernel.symbol, values)
            twin, _ = kernel.prepared(grid, values, plan, allocate=allocate)
            fenced = _enqueuer(self._device, twin, values)
        return Step(_enqueuer(self._device, launch, values), launches=True, fenced=fenced)

    def _set(self, source: Any, options: dict[str, Any]) -> Step:
        """Return the step that copies bytes, or a tensor's, to a variable of a module."""
        if not isinstance(source, HoldsTensors):
            raise WireError("A copy to a variable has no source.")
        targets = self._code.targets(options)
        tensors = list(source.tensors)
        origin = tensors[0] if tensors else self._literal(source.packed())
        if any(target.numel() > origin.numel() for target in targets):
            raise WireError(f"A copy to a variable has {origin.numel()} bytes; more were expected.")

        def enqueue() -> None:
            for target in targets:
                target.copy_(origin[: target.numel()])

        return Step(enqueue)

    def _literal(self, content: bytes) -> torch.Tensor:
        """Return bytes of the recording in memory that no kernel can reach."""
        held = self._region(len(content)).content
        flat = torch.frombuffer(bytearray(content or b"\0"), dtype=torch.uint8)[: len(content)]
        self._writes.append(partial(held[: len(content)].copy_, flat))
        return held

    def _scratch_for(self, number: int, size: int) -> torch.Tensor:
        """Return scratch memory for an event's launch, the same in every call."""
        if number not in self._scratch:
            self._scratch[number] = self._region(size)
        return self._scratch[number].content

    def ring(self, fields: codec.Fields, fds: list[int], on_device: OnDevice = nullcontext) -> list[Call]:
        """Return a call on each set of a ring; the descriptors are those of all inputs and of all answers.

        The content of all sets is copied to their own regions, `on_device`, and the arena is released.
        """
        sets, sizes = fields.integer("sets"), [fields.integer(name) for name in ("inputs_bytes", "answers_bytes")]
        inputs = self._device.map(fds[0], sets * sizes[0], writable=False)
        answers = self._device.map(fds[1], sets * sizes[1], writable=True)
        for fd in fds:
            os.close(fd)
        own = [self._own_inputs(part) for part in tensor_views.parts(inputs, sizes[0])]
        rooms = tensor_views.parts(answers, sizes[1])
        given = [self._read_only | {"inputs": tensors} for tensors in own]
        calls: list[Call] = [self._called(*one) for one in zip(given, rooms, strict=True)]
        with on_device():
            self._write_first()
            for tensors in own:
                tensors.fill()
            for tensors in (*(tensors for name, tensors in self._read_only.items() if name != "inputs"), *own):
                tensors.update()
            self._device.settle()
        for tensors in own:
            tensors.seal()
        # Free torch's own memory, in which a kernel could keep data.
        self._call = None
        self._read_only.pop("inputs", None)
        self._device.release()
        return calls

    def _own_inputs(self, inputs: "tensor_views.Part") -> ReadOnlyTensors:
        arena = replace(self._arenas["inputs"], buffer=inputs)
        return ReadOnlyTensors(self._device, arena, self._used.get("inputs", set()), once=True)


def step_times(device: Device, call: "ReplayedCall") -> tuple[float, float]:
    """Return the device's milliseconds for the kernels and for all steps of one call; zeros if it was delayed.

    Each step runs between two events, without a graph. A gate holds the stream until all are enqueued, so that no host
    time lies between the events.
    """
    gate, stream = device.gate(), device.current_stream()
    events = [(device.event(), device.event()) for _ in call.steps]
    for _ in range(PROFILE_ATTEMPTS):
        call.reset()
        call.scrub()
        gate.close(stream, WATCHDOG_S)
        for step, (start, end) in zip(call.steps, events, strict=True):
            start.record(stream)
            step.run()
            end.record(stream)
        held = gate.open()
        device.settle()
        if held:
            spans = [end.elapsed_ms(start) for start, end in events]
            own = sum(span for span, step in zip(spans, call.steps, strict=True) if step.launches)
            return own, sum(spans)
    return 0.0, 0.0


def _enqueuer(device: Device, launch: "_native.Launch", values: dict[str, Any]) -> Callable[[], None]:
    """Return a function that enqueues a launch, and keeps its tensors alive."""

    def enqueue(_alive: Any = values) -> None:
        launch.launch(device.current_stream())

    return enqueue


class Watch:
    """Memory in which fenced twins record the first access outside their launch's tensors.

    Args:
        device: that it plays on.
    """

    def __init__(self, device: Device) -> None:
        self._record = device.region(RECORD_BYTES).content
        self._extents: set[tuple[int, int, str]] = set()

    def begin(self) -> None:
        """Mark that nothing was accessed; needed once, before the first twin runs."""
        self._record.zero_()

    def plan(self, kernel: str, values: dict[str, Any]) -> FencePlan:
        """Return the memory that a launch with these arguments may access: each tensor's whole storage."""
        extents = {(*extent, f"{name} of {kernel}") for name, value in values.items() for extent in _extents(value)}
        self._extents |= extents
        return FencePlan(self._record.data_ptr(), tuple((begin, end) for begin, end, _ in extents))

    def check(self) -> None:
        """Raise IllegalAccessError for the first access that a twin recorded; the device must be idle."""
        address, count = (int(word) for word in self._record.view(torch.int64).cpu())
        if count:
            self._record.zero_()
            raise IllegalAccessError(
                f"a kernel accesses memory outside its tensors, first {self._where(address & _ADDRESSES)}. A mask or "
                "an offset is missing or wrong."
            )

    def _where(self, address: int) -> str:
        """Describe an address relative to the nearest tensor."""
        distances = [
            (begin - address if address < begin else address - end, address < begin, name)
            for begin, end, name in self._extents
        ]
        distance, before, name = min(distances, default=(FAR, False, ""))
        if distance >= FAR:
            return "far from all of them"
        return f"{distance} bytes before the start of {name}" if before else behind_end(distance, name)


def _extents(value: Any) -> Iterator[tuple[int, int]]:
    """Yield start and end of the storage of each tensor in an argument."""
    match value:
        case torch.Tensor():
            storage = value.untyped_storage()
            yield storage.data_ptr(), storage.data_ptr() + storage.nbytes()
        case TensorDescriptor():
            yield from _extents(value.base)
        case tuple():
            for item in value:
                yield from _extents(item)
        case HoldsTensors():
            for item in value.tensors:
                yield from _extents(item)


@contextmanager
def faults_named() -> Iterator[None]:
    """Explain the device's illegal access in terms of the kernel; the context is lost.

    Raises:
        IllegalAccessError: a kernel accessed unmapped memory, or wrote to read-only memory.
    """
    try:
        yield
    except RuntimeError as error:
        if _FAULT not in str(error):
            raise
        raise IllegalAccessError(
            "a kernel accesses memory outside its tensors, or writes to an input, a parameter or a buffer of "
            "the problem, which are read-only. A mask or an offset is missing or wrong."
        ) from None


def check_slack(region: Region) -> None:
    """Raise IllegalAccessError if a byte around a tensor differs from GUARDED."""
    before, behind = region.slack
    # Compared on the host, so that this process does not load kernels for it.
    stored = (behind.cpu().numpy() != GUARDED).nonzero()[0]
    if stored.size:
        raise IllegalAccessError(
            f"a kernel stores {behind_end(int(stored[0]), 'a tensor')}. A mask or an offset is missing or wrong."
        )
    stored = (before.cpu().numpy() != GUARDED).nonzero()[0]
    if stored.size:
        raise IllegalAccessError(
            f"a kernel stores before the start of a tensor, {before.numel() - int(stored[-1])} bytes away from it. "
            "An offset is wrong."
        )


Tensor: TypeAlias = tuple[str, int, str, list[int], int]
"""A described tensor: memory, start, dtype, shape, offset."""


def _described(part: Any) -> Iterator[Tensor]:
    """Yield the tensors described in a part of a recording."""
    match part:
        case ["tensor", str(memory), int(start), str(dtype), list(shape), list(), int(offset)] if dtype in ITEM_BYTES:
            yield memory, start, dtype, shape, offset
        case dict():
            for value in part.values():
                yield from _described(value)
        case list() | tuple():
            for value in part:
                yield from _described(value)


def dtypes_of(part: Any) -> Iterator[tuple[int, str]]:
    """Yield the numbers of a recording's own tensors, each with a dtype in which it is used."""
    return ((start, dtype) for memory, start, dtype, _, _ in _described(part) if memory == "fresh")


def _used_of(part: Any) -> dict[str, set[int]]:
    """Return, by arena, the bytes at which tensors of a recording begin, except tensors without elements."""
    used: dict[str, set[int]] = {}
    for memory, start, dtype, shape, offset in _described(part):
        # For an address right after a tensor, the tensor's last item is used.
        first = offset if all(shape) else offset - 1
        if memory != "fresh" and first >= 0:
            used.setdefault(memory, set()).add(start + ITEM_BYTES[dtype] * first)
    return used


class _Place:
    """Resolves the tensors of a recording in one call."""

    def __init__(
        self,
        device: Device,
        language: KernelLanguage,
        fresh: dict[int, Region],
        read_only: dict[str, ReadOnlyTensors],
    ) -> None:
        self._device = device.torch_device
        self._language = language
        self._fresh = fresh
        self._read_only = read_only

    def tensor(self, described: Any) -> torch.Tensor:
        """Return the tensor that a recording describes; as_strided rejects a tensor outside its memory."""
        match described:
            case ["tensor", str(memory), int(start), str(dtype), list(shape), list(stride), int(offset)]:
                if not all(shape):
                    return torch.empty(shape, dtype=tensor_views.TORCH_DTYPES[dtype], device=self._device)
                flat, first = self._memory(memory, start, ITEM_BYTES[dtype] * offset)
                size = ITEM_BYTES[dtype]
                if first % size:
                    raise WireError(f"A tensor of {dtype} begins {first} bytes after the start of its memory.")
                base = flat[: flat.numel() // size * size].view(tensor_views.TORCH_DTYPES[dtype])
                return base.as_strided(shape, stride, first // size)
            case _:
                raise WireError(f"{str(described)[:80]} is not a tensor of a trace.")

    def _memory(self, memory: str, start: int, offset: int) -> tuple[torch.Tensor, int]:
        """Return the bytes of a tensor's memory, and the index of its first byte in them."""
        if memory == "fresh" and start in self._fresh:
            return self._fresh[start].content, offset
        if memory not in self._read_only:
            raise WireError(f"A recording names memory {memory[:40]} {start}, which it does not have.")
        return self._read_only[memory].at(start + offset)

    def argument(self, described: Any) -> Any:
        """Return a launch argument; None for one that only affects compilation."""
        match described:
            case ["tensor", *_]:
                return self.tensor(described)
            case ["value", value]:
                return value
            case ["tuple", list(items)] | ["named", str(), list(items)]:
                return tuple(self.argument(item) for item in items)
            case _:
                return self._language.device_argument(described, self.tensor)


@dataclass
class ReplayedCall(Call):
    """One call of a recording: its steps, its initial memory, and the destination of its answer."""

    steps: list[Step]
    fresh: list[Region]
    constants: list[tuple[torch.Tensor, torch.Tensor]]
    outputs: list[tuple[TensorSlot, torch.Tensor]]
    answers: "Shared | tensor_views.Part"
    scrubs: Callable[[], None]
    watch: "Watch"

    @property
    def is_fenced(self) -> bool:
        """Whether every kernel has a fenced twin."""
        return all(step.fenced is not None for step in self.steps if step.launches)

    def reset(self, poison: int = POISON) -> None:
        # To the last mapped byte: a kernel must not keep data there, and one fill costs a graph less than two.
        for region in self.fresh:
            region.whole.fill_(poison)
        for memory, content in self.constants:
            memory.copy_(content)

    def scrub(self) -> None:
        self.scrubs()

    def run(self, *, ghost: bool = False, fenced: bool = False, checked: bool = False) -> None:
        for step in self.steps:
            if checked and step.check is not None:
                # Now, since a later step may write to the same memory. Waits for the device where booleans are cast.
                step.check()
            if not (step.launches and ghost):
                (step.fenced if fenced and step.fenced is not None else step.run)()

    def deliver(self) -> None:
        for slot, tensor in self.outputs:
            tensor_views.view(self.answers, slot).copy_(tensor)

    def check(self) -> None:
        self.watch.check()
