"""Plays a recording on a GPU: the memory that its calls start from, and what each of them does.

Nothing survives a call. Each tensor of a recording (allocations, constants, inputs, state, scratch memory of kernels)
has a region of its own (`regions.py`), out of reach from any other. Between two calls all that a kernel can write is
rewritten: regions to their last byte, and what the multiprocessors keep (`scrubbing.py`). Inputs and state are
read-only for kernels. What else lies in the device's memory is out of reach: correctness replays, and some timed calls,
run the fenced twin of each kernel, which accesses the tensors of its launch alone and notes where it was about to do
otherwise.
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from warpsmith.evaluator import _native
from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.devices.base import Device
from warpsmith.evaluator.devices.cuda_regions import Region
from warpsmith.evaluator.devices.uninitialized_memory import Garbage
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.tensor_slots import ITEM_BYTES, TensorSlot
from warpsmith.evaluator.languages.base import KernelLanguage, LoadedKernel
from warpsmith.evaluator.languages.triton.fence import RECORD_BYTES, FencePlan
from warpsmith.evaluator.recordings import movement
from warpsmith.evaluator.recordings.errors import IllegalAccessError, behind_end
from warpsmith.evaluator.timing.worker_rounds import Call
from warpsmith.evaluator.workers.player_host import paired

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.memory import Shared

MAX_DEVICE_BYTES: Final = 64 << 30
GUARDED: Final = 0xC5
"""What lies around tensors while it is looked at whether a kernel stores there."""
CARRIED_BYTES: Final = 16 << 20
"""Up to this size garbage is made on the host."""
FAR: Final = 1 << 30
"""Bytes from a tensor from which on nothing is said of it."""
_FAULT: Final = "an illegal memory access was encountered"
"""What torch and the driver say of it."""
_ADDRESSES: Final = (1 << 64) - 1
POISON: Final = 0xFF
"""The byte that a replay's memory is filled with before each call: NaN in every floating dtype."""


@dataclass(frozen=True)
class Arena:
    """Memory that the judge fills, and the tensors that lie in it."""

    buffer: "Shared | tensor_views.Part"
    slots: list[TensorSlot]


class Given:
    """The tensors of an arena, each in a region of its own that kernels only read.

    Args:
        device: that it plays on.
        arena: where their content comes from.
        used: bytes of the arena at which a tensor of the recording begins; what no such byte lies in is left out.
        once: whether the content is brought once and then sealed, in place of being written through a second mapping.
    """

    def __init__(self, device: Device, arena: Arena, used: set[int], *, once: bool = False) -> None:
        self._slots = sorted((slot for slot in arena.slots if slot.numel), key=lambda slot: slot.offset)
        self._starts = [slot.offset for slot in self._slots]
        self._source: Shared | tensor_views.Part | None = arena.buffer
        self._regions: dict[int, Region] = {}
        for byte in used:
            slot = self._slot_at(byte)
            if slot.offset not in self._regions:
                self._regions[slot.offset] = made = device.region(slot.nbytes, read_only=not once)
                made.whole.fill_(POISON)

    def _slot_at(self, byte: int) -> TensorSlot:
        place = bisect_right(self._starts, byte) - 1
        if place < 0 or byte >= self._slots[place].offset + self._slots[place].nbytes:
            raise WireError(f"A recording has a tensor at byte {byte} of an arena, where none lies.")
        return self._slots[place]

    def at(self, byte: int) -> tuple[torch.Tensor, int]:
        """Return the bytes of the tensor that lies at a byte of the arena, and which of them it is."""
        slot = self._slot_at(byte)
        return self._regions[slot.offset].content, byte - slot.offset

    def bring(self) -> None:
        """Copy what the arena holds now."""
        if self._source is None:
            raise WireError("The inputs of a timed call do not change.")
        flat = tensor_views.content(self._source)
        for slot in self._slots:
            if slot.offset in self._regions:
                self._regions[slot.offset].within.copy_(flat[slot.offset : slot.offset + slot.nbytes])

    def seal(self) -> None:
        """Let nobody write here any more, and let go of the arena: no second copy of the content is to stay."""
        self._source = None
        for region in self._regions.values():
            region.seal()


@dataclass(frozen=True)
class Step:
    """One step of a recording.

    Attributes:
        run: hands it to the device.
        launches: whether it launches a kernel.
        fenced: launches the kernel's fenced twin in its place; None where there is none.
    """

    run: Callable[[], Any]
    launches: bool = False
    fenced: Callable[[], Any] | None = None


class DeviceReplay:
    """A recording on a GPU: one sequence of fills, copies and launches for each set of inputs and answers.

    Memory that the recording allocates is allocated once and shared by all calls, which run one after the other.

    Args:
        device: that it plays on.
        given: the arenas of inputs, of parameters and buffers (`state`), and of earlier calls' inputs.
        events: the recording; every launch in it has its machine code in `binaries`, in order.
        binaries: the code of each launch, as its fields.
        language: that loads it.
        outputs: which tensors of the recording are the answer.
        answer: the form of the answer.

    Raises:
        WireError: an event is none, or it needs more memory than a replay may take.
        FenceError: a kernel has no fenced twin; the message says why, and what to write instead.
        NativeError: the driver refuses the code, or the device has no memory left.
    """

    def __init__(
        self,
        device: Device,
        given: Mapping[str, Arena],
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
        # What the whole region of a constant holds before a call.
        self._images: dict[int, Region] = {}
        self._left = MAX_DEVICE_BYTES
        self._call: ReplayedCall | None = None
        self._dtypes = dict(dtypes_of([events, outputs]))
        self._used = _used_of([events, outputs])
        self._arenas = given
        self._given = {name: Given(device, arena, self._used.get(name, set())) for name, arena in given.items()}
        kernels = language.load(device, binaries)
        self._watch = Watch(device)
        self._scrub = device.scrub(max((kernel.local_bytes for kernel in kernels), default=0))
        self._events = list(self._with_kernels(events, iter(kernels)))

    def _with_kernels(self, events: list[Any], kernels: Iterator[LoadedKernel]) -> Iterator[Any]:
        """Allocate what the recording allocates; yield the events that do something, launches with their kernel."""
        for event in events:
            match event:
                case ["alloc", int(number), int(size)]:
                    self._fresh[number] = self._region(size)
                case ["const" | "literal", int(number), bytes(content)]:
                    self._fresh[number] = region = self._region(len(content))
                    self._images[number] = self._image(region, content)
                case ["launch", str(), list(grid), dict(arguments), dict()]:
                    yield ["launch", next(kernels), grid, arguments]
                case ["fill" | "copy" | "call", *_]:
                    yield event
                case _:
                    raise WireError(f"{str(event)[:80]} is no event of a trace.")

    def _region(self, size: int) -> Region:
        if not 0 <= size <= self._left:
            raise WireError(f"The trace allocates {size} bytes; 0 to {self._left} are left to a replay.")
        region = self._device.region(size)
        self._left -= region.whole.numel()
        return region

    def _image(self, region: Region, content: bytes) -> Region:
        whole = torch.full((region.whole.numel(),), POISON, dtype=torch.uint8)
        if content:
            flat = torch.frombuffer(bytearray(content), dtype=torch.uint8)
            whole[region.start : region.start + len(content)] = flat
        image = self._device.region(region.whole.numel())
        image.whole.copy_(whole)
        return image

    def clear(self) -> None:
        """Let go of all memory; it is not to be played again."""
        for held in (self._fresh, self._scratch, self._images, self._given, self._events):
            held.clear()
        self._call = None

    # Playing -------------------------------------------------------------------------------------------------------

    def set_up(self, answers: "Shared") -> None:
        """Say where the answer of `play` goes."""
        self._call = self._called(self._given, answers)

    def play(self, *, ghost: bool = False, garbage: bool = False, poison: int = POISON) -> None:
        """Run the recording on what the arenas hold now and deliver the answer.

        Args:
            ghost: whether no kernel is launched.
            garbage: whether fresh memory holds other garbage in each call, in place of what a reset leaves in it: a
                kernel that counts on that would be right here alone.
            poison: the byte that fresh memory holds where it holds no garbage.

        Raises:
            IllegalAccessError: a kernel accesses what is none of its tensors.
        """
        call = self._call
        if call is None:
            raise WireError("There is no trace to play.")
        for given in self._given.values():
            given.bring()
        if not ghost and not call.is_fenced:
            self._check_stores(call)
        call.reset(poison)
        if garbage:
            self._fill_with_garbage()
        call.scrub()
        call.run(ghost=ghost, fenced=True)
        call.deliver()
        self._device.settle()
        call.check()

    def _check_stores(self, call: "ReplayedCall") -> None:
        """Make a call of kernels that have no twins, and raise where one stores beside a tensor."""
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
                # A device loads a kernel to repeat a tile; what is small is carried over whole.
                made = torch.empty_like(typed, device="cpu") if typed.nbytes <= CARRIED_BYTES else typed
                drawn.fill(made)
                if made is not typed:
                    typed.copy_(made)

    # Calls ---------------------------------------------------------------------------------------------------------

    def _called(self, given: dict[str, Given], answers: "Shared | tensor_views.Part") -> "ReplayedCall":
        """Return the recording on one set of inputs."""
        place = _Place(self._device, self._language, self._fresh, given)
        # Steps come first: they say how much scratch memory there is.
        steps = [self._step(place, number, event) for number, event in enumerate(self._events)]
        fresh = [region for number, region in self._fresh.items() if number not in self._images]
        return ReplayedCall(
            steps=steps,
            fresh=[*fresh, *self._scratch.values()],
            constants=[(self._fresh[number].whole, image.whole) for number, image in self._images.items()],
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
                return Step(partial(movement.copy, place.tensor(to), place.tensor(origin)))
            case ["call", str(operator), list(arguments), to]:
                given = [place.argument(argument) for argument in arguments]
                return Step(partial(movement.call, operator, given, place.tensor(to)))
            case ["launch", kernel, list(grid), dict(arguments)]:
                values = {name: place.argument(value) for name, value in arguments.items()}
                return self._launch(kernel, [int(size) for size in grid], values, number)
            case _:
                raise WireError(f"{str(event)[:80]} is no event of a trace.")

    def _launch(self, kernel: LoadedKernel, grid: list[int], values: dict[str, Any], number: int) -> Step:
        if not all(size > 0 for size in grid):
            return Step(lambda: None, launches=True)
        allocate = partial(self._scratch_for, number)
        launch, _ = kernel.prepared(grid, values, allocate=allocate)
        fenced = None
        if kernel.has_twin:
            plan = self._watch.plan(kernel.symbol, values)
            fenced = _handing(kernel.prepared(grid, values, plan, allocate=allocate)[0], values)
        return Step(_handing(launch, values), launches=True, fenced=fenced)

    def _scratch_for(self, number: int, size: int) -> torch.Tensor:
        """Return scratch memory for the launch of an event, the same in every call."""
        if number not in self._scratch:
            self._scratch[number] = self._region(size)
        return self._scratch[number].content

    def ring(self, fields: codec.Fields, fds: list[int]) -> list[Call]:
        """Return a call on each set of a ring: the descriptors are those of all inputs and of all answers.

        The content of all sets is copied to regions of their own now, and the arena is let go of.
        """
        sets, sizes = fields.integer("sets"), [fields.integer(name) for name in ("inputs_bytes", "answers_bytes")]
        inputs = self._device.map(fds[0], sets * sizes[0], writable=False)
        answers = self._device.map(fds[1], sets * sizes[1], writable=True)
        for fd in fds:
            os.close(fd)
        pairs = list(zip(tensor_views.parts(inputs, sizes[0]), tensor_views.parts(answers, sizes[1]), strict=True))
        for name, given in self._given.items():
            if name != "inputs":
                given.bring()
        calls: list[Call] = [self._ring_call(own_inputs, own_answers) for own_inputs, own_answers in pairs]
        # Nothing of torch's own stays, in which a kernel could keep something.
        self._call = None
        self._given.pop("inputs", None)
        self._device.settle()
        self._device.release()
        return calls

    def _ring_call(self, inputs: "tensor_views.Part", answers: "tensor_views.Part") -> "ReplayedCall":
        arena = replace(self._arenas["inputs"], buffer=inputs)
        own = Given(self._device, arena, self._used.get("inputs", set()), once=True)
        own.bring()
        own.seal()
        return self._called(self._given | {"inputs": own}, answers)


def _handing(launch: "_native.Launch", values: dict[str, Any]) -> Callable[[], None]:
    """Return what hands a launch to the device, and holds on to its tensors."""

    def hand(_kept: Any = values) -> None:
        launch.launch(torch.cuda.current_stream().cuda_stream)

    return hand


class Watch:
    """Where fenced twins note that they were about to access what is none of their launch's tensors.

    Args:
        device: that it plays on.
    """

    def __init__(self, device: Device) -> None:
        self._record = device.region(RECORD_BYTES).content
        self._record.zero_()
        self._extents: set[tuple[int, int, str]] = set()

    def plan(self, kernel: str, values: dict[str, Any]) -> FencePlan:
        """Return what a launch with these arguments may reach: the whole of each tensor's own memory."""
        extents = {(*extent, f"{name} of {kernel}") for name, value in values.items() for extent in _extents(value)}
        self._extents |= extents
        return FencePlan(self._record.data_ptr(), tuple((begin, end) for begin, end, _ in extents))

    def check(self) -> None:
        """Raise IllegalAccessError for the first access that a twin noted; the device has nothing under way."""
        address, count = (int(word) for word in self._record.view(torch.int64).cpu())
        if count:
            self._record.zero_()
            raise IllegalAccessError(
                f"a kernel accesses what is none of its tensors, first {self._where(address & _ADDRESSES)}. A mask or "
                "an offset is missing or wrong."
            )

    def _where(self, address: int) -> str:
        """Say where an address lies beside the tensor that is nearest to it."""
        distances = [
            (begin - address if address < begin else address - end, address < begin, name)
            for begin, end, name in self._extents
        ]
        distance, before, name = min(distances, default=(FAR, False, ""))
        if distance >= FAR:
            return "far from all of them"
        return f"{distance} bytes before the beginning of {name}" if before else behind_end(distance, name)


def _extents(value: Any) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the memory of each tensor in an argument."""
    match value:
        case torch.Tensor():
            storage = value.untyped_storage()
            yield storage.data_ptr(), storage.data_ptr() + storage.nbytes()
        case TensorDescriptor():
            yield from _extents(value.base)
        case tuple():
            for item in value:
                yield from _extents(item)


@contextmanager
def faults_named() -> Iterator[None]:
    """Say in words of a kernel's own what the device only calls an illegal access; its context is lost.

    Raises:
        IllegalAccessError: a kernel accessed what is not mapped, or wrote to what it only may read.
    """
    try:
        yield
    except RuntimeError as error:
        if _FAULT not in str(error):
            raise
        raise IllegalAccessError(
            "a kernel accesses memory that is none of its tensors, or writes to an input, a parameter or a buffer of "
            "the problem: these are read-only. A mask or an offset is missing or wrong."
        ) from None


def check_slack(region: Region) -> None:
    """Raise IllegalAccessError where something other than GUARDED lies around a tensor."""
    before, behind = region.slack
    # Compared on the host, so that this process loads no kernels for it.
    stored = (behind.cpu().numpy() != GUARDED).nonzero()[0]
    if stored.size:
        raise IllegalAccessError(
            f"a kernel stores {behind_end(int(stored[0]), 'a tensor')}. A mask or an offset is missing or wrong."
        )
    stored = (before.cpu().numpy() != GUARDED).nonzero()[0]
    if stored.size:
        raise IllegalAccessError(
            f"a kernel stores before the beginning of a tensor, {before.numel() - int(stored[-1])} bytes away from it. "
            "An offset is wrong."
        )


Tensor: TypeAlias = tuple[str, int, str, list[int], int]
"""Of a description: memory, start, dtype, shape, offset."""


def _described(part: Any) -> Iterator[Tensor]:
    """Yield the tensors that are described in a part of a recording."""
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
    """Yield the numbers of a recording's own tensors, each with a dtype that it is used as."""
    return ((start, dtype) for memory, start, dtype, _, _ in _described(part) if memory == "fresh")


def _used_of(part: Any) -> dict[str, set[int]]:
    """Return, by arena, the bytes at which tensors of a recording begin; those without elements begin nowhere."""
    used: dict[str, set[int]] = {}
    for memory, start, dtype, shape, offset in _described(part):
        if memory != "fresh" and all(shape):
            used.setdefault(memory, set()).add(start + ITEM_BYTES[dtype] * offset)
    return used


class _Place:
    """Where the tensors of a recording lie in one call."""

    def __init__(
        self, device: Device, language: KernelLanguage, fresh: dict[int, Region], given: dict[str, Given]
    ) -> None:
        self._device = device.torch_device
        self._language = language
        self._fresh = fresh
        self._given = given

    def tensor(self, described: Any) -> torch.Tensor:
        """Return the tensor that a recording describes; as_strided refuses what lies outside its memory."""
        match described:
            case ["tensor", str(memory), int(start), str(dtype), list(shape), list(stride), int(offset)]:
                if not all(shape):
                    return torch.empty(shape, dtype=tensor_views.TORCH_DTYPES[dtype], device=self._device)
                flat, first = self._memory(memory, start, ITEM_BYTES[dtype] * offset)
                size = ITEM_BYTES[dtype]
                if first % size:
                    raise WireError(f"A tensor of {dtype} begins {first} bytes behind the begin of its memory.")
                base = flat[: flat.numel() // size * size].view(tensor_views.TORCH_DTYPES[dtype])
                return base.as_strided(shape, stride, first // size)
            case _:
                raise WireError(f"{str(described)[:80]} is no tensor of a trace.")

    def _memory(self, memory: str, start: int, offset: int) -> tuple[torch.Tensor, int]:
        """Return the bytes of a tensor's memory, and which of them its first one is."""
        if memory == "fresh" and start in self._fresh:
            return self._fresh[start].content, offset
        if memory not in self._given:
            raise WireError(f"A recording names memory {memory[:40]} {start}, which it does not have.")
        return self._given[memory].at(start + offset)

    def argument(self, described: Any) -> Any:
        """Return a launch argument; what only decides how a kernel is compiled is None here."""
        match described:
            case ["tensor", *_]:
                return self.tensor(described)
            case ["value", value]:
                return value
            case ["tuple", list(items)]:
                return tuple(self.argument(item) for item in items)
            case _:
                return self._language.device_argument(described, self.tensor)


@dataclass
class ReplayedCall(Call):
    """One call of a recording: what it does, the memory that it starts from, and where its answer goes."""

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
        # To the last byte of what is mapped: nothing is to be kept in it, and one fill costs a graph less than two.
        for region in self.fresh:
            region.whole.fill_(poison)
        for memory, content in self.constants:
            memory.copy_(content)

    def scrub(self) -> None:
        self.scrubs()

    def run(self, *, ghost: bool = False, fenced: bool = False) -> None:
        for step in self.steps:
            if not (step.launches and ghost):
                (step.fenced if fenced and step.fenced is not None else step.run)()

    def deliver(self) -> None:
        for slot, tensor in self.outputs:
            tensor_views.view(self.answers, slot).copy_(tensor)

    def check(self) -> None:
        self.watch.check()
