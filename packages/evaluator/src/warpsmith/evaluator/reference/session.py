"""The judge's side of a reference worker: one problem's state, inputs and answers, all in the judge's memory."""

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import torch

from warpsmith.evaluator import _native
from warpsmith.evaluator.correctness.compare import LEAST_DECIDABLE, RELATIVE, SAMPLED, Expected
from warpsmith.evaluator.correctness.spread import fits_single
from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.devices.memory import room
from warpsmith.evaluator.devices.tensor_views import Part
from warpsmith.evaluator.errors import BadProblemError, LayoutError, WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.messages import Kind, Message
from warpsmith.evaluator.ipc.tensor_slots import ALIGNMENT, FLOATING, VARIED_STATE, TensorSlot, check_slot
from warpsmith.evaluator.processes.failure_attribution import fault_of_a_reference
from warpsmith.evaluator.processes.machine import Machine
from warpsmith.evaluator.processes.worker import Worker, WorkerDiedError, WorkerStartError, WorkerTimeoutError
from warpsmith.evaluator.recordings import sharing, side_effects
from warpsmith.evaluator.recordings.operators import COUNTER
from warpsmith.evaluator.reference.accidental_sizes import pieces_of
from warpsmith.evaluator.reference.draw_plan import PLAINLY, DrawPlan, sites_of
from warpsmith.evaluator.reference.form import Form
from warpsmith.evaluator.reference.named_sizes import MOST, are_places, is_size
from warpsmith.evaluator.reference.unnamed_sizes import MOST_SIDES, SIDE

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.kinds import Role
    from warpsmith.evaluator.devices.memory import Shared
    from warpsmith.evaluator.reference.variability import Learned, Seen
    from warpsmith.evaluator.timing.clocks import CachedTime


class ReferenceFailedError(Exception):
    """The problem's own code raised an exception in the step `stage`."""

    def __init__(self, fields: codec.Fields) -> None:
        self.stage = fields.text("stage", 40)
        trace = fields.text("trace", 1000)
        super().__init__(
            f"{fields.text('type', 80)}: {fields.text('message', 1000)}" + (f" ({trace})" if trace else "")
        )


class ReferenceFaultError(Exception):
    """The problem's own code ended its worker, used up its deadline, or broke its channel or its device context.

    The session must be restarted (`ReferenceSession.restart`) before its next step.

    Attributes:
        took_deadline: whether it computed until its deadline, so that a retry would take just as long.
    """

    def __init__(self, message: str, *, took_deadline: bool = False) -> None:
        super().__init__(message)
        self.took_deadline = took_deadline


_CONTEXT_LOST: Final = (
    "CUDA error: an illegal memory access",
    "CUDA error: misaligned address",
    "CUDA error: an illegal instruction",
    "CUDA error: invalid program counter",
    "CUDA error: device-side assert triggered",
    "CUDA error: unspecified launch failure",
    "CUDA error: the launch timed out",
    "CUDA error: hardware stack error",
    "CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDA_ERROR_MISALIGNED_ADDRESS",
    "CUDA_ERROR_LAUNCH_FAILED",
)
"""Messages of torch and the driver for faults after which the device context is unusable."""


@contextmanager
def blame_reference_for_bad_frames() -> Iterator[None]:
    """Turn errors in what a reference worker sends into faults: only the problem's code can cause them.

    Raises:
        ReferenceFaultError: the worker sent something that is not a valid answer.
    """
    try:
        yield
    except (WireError, _native.FrameError) as error:
        raise ReferenceFaultError(f"its worker sent an invalid answer: {error.message}") from error


_OUT_OF_MEMORY: Final = (
    "OutOfMemoryError: ",
    "CUDA error: out of memory",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)
"""Messages of torch, the driver and the libraries when a device is out of memory."""


def memory_ran_out(error: BaseException) -> bool:
    """Whether an error says that the device had too little free memory; other processes may hold it."""
    match error:
        case torch.OutOfMemoryError() | _native.NativeError(layer="device", errno=2):  # CUDA_ERROR_OUT_OF_MEMORY
            return True
        case ReferenceFailedError():
            return any(message in str(error) for message in _OUT_OF_MEMORY)
        case _:
            return False


@dataclass(frozen=True)
class Answer:
    """The reference's answer to one input set: the form of the output tree, and private copies of the tensors.

    Attributes:
        defined: whether it depends on no undefined cast and no search in unsorted numbers (`ambiguity.py`).
        ranks: whether the problem orders numbers; ties then have no defined order.
        tied: whether it orders equal numbers.
        decides: whether, on its first inputs, it compared, rounded or ordered numbers that it had rounded.
        shares: how its outputs lie in memory that is not theirs alone (`recordings/sharing.py`).
        side_effects: what its forward changes of its caller's (`recordings/side_effects.py`).
    """

    output: codec.Value
    buffers: dict[str, TensorSlot]
    expected: list[Expected]
    defined: bool = True
    ranks: bool = False
    tied: bool = False
    decides: bool = False
    shares: frozenset[str] = frozenset()
    side_effects: frozenset[str] = frozenset()

    @property
    def finite(self) -> bool:
        """Whether all values are finite and none is undefined."""
        if not self.defined:
            return False
        values = (tensor_views.computable(item.value) for item in self.expected if item.value.is_floating_point())
        return all(bool(torch.isfinite(value).all()) for value in values)

    @property
    def decidable(self) -> bool:
        """Whether most elements have a bound tight enough to detect a wrong value."""
        total = sum(item.value.numel() for item in self.expected)
        return sum(item.decidable * item.value.numel() for item in self.expected) >= LEAST_DECIDABLE * total

    @property
    def is_steady(self) -> bool:
        """Whether each perturbed run gave the same up to rounding: the order of ties makes no difference."""
        return all(item.is_steady for item in self.expected)

    @property
    def flips_often(self) -> bool:
        """Whether perturbed runs changed more integers of a tensor than may differ."""
        return any(item.flips_often for item in self.expected)

    @property
    def is_mostly_steady(self) -> bool:
        """Whether that holds for most values of each tensor."""
        return all(item.is_mostly_steady for item in self.expected)

    @property
    def strays(self) -> bool:
        """Whether a run in the problem's own dtype computed something other than the fp64 run."""
        return any(item.strays for item in self.expected)

    @property
    def is_exact(self) -> bool:
        """Whether all expected values come from an fp64 run, not from the reference's own dtype."""
        return all(item.is_exact for item in self.expected)


@dataclass(frozen=True)
class MadeWith:
    """The arguments that made an input set: they reproduce it."""

    seed: int = 0
    sizes: Mapping[str, int] = field(default_factory=dict)
    draws: DrawPlan = PLAINLY


@dataclass(frozen=True)
class AnswerTensor:
    """One tensor of an answer as a reference worker has it: its form, and whether an fp64 run and a spread exist."""

    own: TensorSlot
    exact: bool = False
    spread: bool = False

    def wanted(self) -> list[TensorSlot | None]:
        """Return the slots of the tensor, of its fp64 form and of its spread."""
        return [
            self.own,
            replace(self.own, dtype="float64") if self.exact else None,
            replace(self.own, dtype=spread_dtype(self.own.dtype)) if self.spread else None,
        ]

    @property
    def nbytes(self) -> int:
        """Bytes of all three with padding."""
        return sum(slot.nbytes + ALIGNMENT for slot in self.wanted() if slot is not None)


def _narrower(name: object, expected: Expected) -> str:
    """Return the name of the dtype that a tensor was computed in, empty if in its own.

    Raises:
        WireError: it is not a narrower one.
    """
    if name == "":
        return ""
    dtype = tensor_views.TORCH_DTYPES.get(str(name))
    if name not in RELATIVE or dtype is None or dtype.itemsize >= expected.value.dtype.itemsize:
        raise WireError(f"It reports a tensor of {expected.value.dtype} as computed in {str(name)[:20]}.")
    return str(name)


def spread_dtype(name: str) -> str:
    """Return the dtype that holds distances between tensors of a dtype."""
    return "float32" if fits_single(tensor_views.TORCH_DTYPES[name]) else "float64"


@dataclass(frozen=True)
class KnownTime:
    """A measured time of a reference, and the ring it was measured on: the form of an input set, and their number."""

    ring: tuple[Form, int]
    time: "CachedTime"


@dataclass(frozen=True)
class Knowledge:
    """What the judge learned about a problem in one session; it holds in any session that constructs the same state.

    Attributes:
        state: the form of the state that the problem constructs, encoded.
        learned: how its inputs can vary.
        attributes: attributes of the session set by learning, by name.
    """

    state: bytes
    learned: "Learned"
    attributes: Mapping[str, Any]


_LEARNED: Final = (
    "sizes", "occurrences", "pieces", "steady_bytes", "seen", "learned", "_sample", "_sample_overflows", "_is_steady",
)  # fmt: skip


class ReferenceSession:
    """One reference worker that has loaded one problem.

    Attributes:
        constants: names of the buffers that are not state: outside of `state_dict()`, or tables of the source.
        other_names: aliases of parameters and buffers, each with the first name, which is used in messages.
        steady_bytes: bytes, padding included, of the inputs that `get_inputs()` makes with unchanged sizes; 0 until
            the second set, and from then on if two sets differ in form.
        pieces: for each side that the problem cuts into a number of equal pieces, that number.

    Raises (from every method):
        ReferenceFailedError: the problem's code raised.
        ReferenceFaultError: the problem's code ended its worker, hung in it, or spoiled it.
        WorkerDiedError, WorkerTimeoutError: the worker was lost for a reason outside the problem.
        BadProblemError: what the problem describes cannot be judged.
    """

    def __init__(self, machine: Machine, source: str, init_seed: int, *, role: "Role" = "reference") -> None:
        config = machine.config
        self._role = role
        self.device = machine.device
        self._machine = machine
        self.lease = machine.lease
        self._most_exact = config.device_kind.most_exact_bytes
        self._extra_ms = round(1000 * min(config.conditioning_s, config.reference_timeout_s / 4))
        self._limit = config.max_tensor_bytes
        self._timeout_s = config.reference_timeout_s
        self._machine = machine
        self._start_timeout_s = config.start_timeout_s
        self.worker: Worker = self._taken()
        # No other owner would end the worker yet.
        try:
            self._begin(source, init_seed)
        except BaseException:
            self.end()
            raise

    def _taken(self) -> Worker:
        """Return a fresh worker. A compiling worker imports its compiler for seconds, and needs no device meanwhile."""
        worker = self._machine.take(self._role, self._start_timeout_s)
        if self._role == "baseline" and not worker.answers(self._start_timeout_s):
            # Its late answer would be taken for the answer to the first request.
            worker.close()
            raise WorkerStartError(f"a {self._role} worker did not answer within {self._start_timeout_s:g} s")
        return worker

    def _begin(self, source: str, init_seed: int) -> None:
        self.source = source
        self.init_seed = init_seed
        self.inputs = Form([], 0)
        self.made_with = MadeWith()
        self.sites: dict[str, int] = {}
        self.steady_bytes = 0
        self.pieces: dict[int, int] = {}
        self._sample: Form | None = None
        self._sample_overflows: bool | None = None
        self._is_steady = True
        self.seen: Seen | None = None
        self.learned: Learned | None = None
        self.known_time: KnownTime | None = None
        self._inputs_buffer: Shared | None = None
        self._answers: tuple[codec.Value, Shared] | None = None
        self._load(source)

    def restart(self) -> None:
        """Load the problem again in a fresh worker, instead of one that was lost.

        What the judge learned about the problem is kept. The state is as constructed; inputs must be made again.

        Raises:
            ReferenceFaultError: the problem constructs a different state than before.
        """
        self.end()
        before = self.state.tree
        self.worker = self._taken()
        self._inputs_buffer, self._answers = None, None
        try:
            self._load(self.source)
            if not _is_same(self.state.tree, before):
                raise ReferenceFaultError("it constructs a different state each time")
        except BaseException:
            self.end()
            raise

    def knowledge(self) -> Knowledge | None:
        """Return what another session of this problem can adopt; None before anything was learned."""
        if self.learned is None:
            return None
        return Knowledge(codec.encode(self.state.tree), self.learned, {name: getattr(self, name) for name in _LEARNED})

    def adopt(self, known: Knowledge) -> None:
        """Adopt what was learned in another session, unless this one constructed another state."""
        if codec.encode(self.state.tree) != known.state:
            return
        for name, value in known.attributes.items():
            setattr(self, name, value)
        # On its first inputs, which are plain, a worker finds out what its forward consists of.
        with self.lease.shared():
            self.make_inputs(self.init_seed)
            self.answer(self.init_seed, exact=False)

    @blame_reference_for_bad_frames()
    def _ask(
        self,
        kind: Kind,
        fields: dict[str, Any],
        answer: Kind,
        fds: list[int] | None = None,
        timeout_s: float | None = None,
        *,
        drives: bool = False,
    ) -> Message:
        """Send one request and return its answer.

        Args:
            kind: the request's kind.
            fields: the request's fields.
            answer: the expected kind of the answer.
            fds: file descriptors to send with it.
            timeout_s: None takes that of one step.
            drives: whether the driver does most of it; the worker then borrows the device for the rest.
        """
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        if drives:
            with self._machine.driving() as must_borrow:
                deadline = time.monotonic() + timeout_s
                fields = fields | {"borrows": must_borrow}
                return self._lending(kind, fields, fds or [], answer, deadline=deadline, leased=self.lease.shared)
        with self.lease.shared():
            self.device.settle()
            self.lease.give_way()
            message = self._exchanged(kind, fields, fds or [], time.monotonic() + timeout_s)
        return _expected_kind(message, answer)

    def _lending(
        self,
        kind: Kind,
        fields: dict[str, Any],
        fds: list[int],
        answer: Kind,
        *,
        deadline: float,
        leased: Callable[[], AbstractContextManager[None]],
    ) -> Message:
        """Send a request and return its answer; lend the worker the device whenever it asks meanwhile.

        The time in which it waits for the device is not part of its time.
        """
        message = self._exchanged(kind, fields, fds, deadline)
        while message.kind is Kind.DEVICE_WANTED:
            asked = time.monotonic()
            with leased():
                deadline += time.monotonic() - asked
                _expected_kind(self._exchanged(Kind.DEVICE_LENT, {}, [], deadline), Kind.DEVICE_RETURNED)
            with self._blamed():
                message = self.worker.receive(max(deadline - time.monotonic(), 0.0))
        return _expected_kind(message, answer)

    def _exchanged(self, kind: Kind, fields: dict[str, Any], fds: list[int], deadline: float) -> Message:
        """Send a message and return the next one that the worker sends, whatever it is."""
        with self._blamed():
            self.worker.send(kind, fields, fds, max(deadline - time.monotonic(), 0.0))
            return self.worker.receive(max(deadline - time.monotonic(), 0.0))

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        """Turn the worker's end into a fault of the problem's code if it is one."""
        try:
            yield
        except (WorkerDiedError, WorkerTimeoutError) as error:
            fault = fault_of_a_reference(error, self._machine.config)
            if fault is None:
                raise
            raise ReferenceFaultError(str(error), took_deadline=fault == "took_deadline") from error

    @blame_reference_for_bad_frames()
    def _load(self, source: str) -> None:
        fields = self._ask(Kind.LOAD, {"source": source, "seed": self.init_seed}, Kind.LOADED).fields
        state = {
            "init": fields.value("init"),
            "parameters": fields.slot_map("parameters"),
            "buffers": fields.slot_map("buffers"),
        }
        self.constants = frozenset(fields.texts("constants"))
        self.other_names = {name: str(first) for name, first in fields.mapping("other_names").items()}
        sizes = [(name, value) for name, value in fields.mapping("sizes").items() if is_size(value)]
        self.sizes: dict[str, int] = dict(sizes[:MOST])
        written = fields.mapping("occurrences").items()
        self.occurrences: dict[str, list[int]] = {
            name: places for name, places in written if name in self.sizes and are_places(places)
        }
        self.state = self._placed(state)
        with self._machine.driving():
            self.state_buffer = self.device.create("reference-state", self.state.size, writable_by_peer=True)
        self._fill("state", self.state, self.state_buffer, fresh=True)
        with self.lease.shared():
            self._pristine = tensor_views.content(self.state_buffer).clone()

    def _placed(self, tree: codec.Value) -> Form:
        # Where kernels are only compiled, no interpreter reads them.
        interpreted = self.device.kind.interprets and self._machine.runs_kernels
        for slot in codec.slots(tree):
            if slot.dtype == "bfloat16" and interpreted:
                raise BadProblemError(
                    "The problem uses bfloat16, which the cpu device cannot judge: the interpreter gets it wrong.",
                    "Use float32 or float16 in the problem, or evaluate on a GPU.",
                )
        try:
            return Form.of(tree, self._limit)
        except LayoutError as error:
            raise BadProblemError(error.message, error.remedy) from error

    def _fill(self, arena: str, placed: Form, buffer: "Shared", *, fresh: bool) -> None:
        fields: dict[str, Any] = {"arena": arena, "bytes": buffer.size}
        # Inputs can be a dict too: keyword arguments of forward.
        fields |= placed.tree if arena == "state" and isinstance(placed.tree, dict) else {"inputs": placed.tree}
        self._ask(Kind.FILL, fields, Kind.FILLED, [buffer.fileno()] if fresh else [], drives=fresh)

    @property
    def parameters(self) -> dict[str, TensorSlot]:
        return codec.Fields(self.state.tree).slot_map("parameters")

    @property
    def varied_buffers(self) -> dict[str, TensorSlot]:
        """Floating module buffers that belong to the module's state, as parameters do."""
        slots = codec.Fields(self.state.tree).slot_map("buffers")
        return {
            name: slot
            for name, slot in slots.items()
            if name not in self.constants and slot.dtype in VARIED_STATE and slot.numel
        }

    @property
    def kept_buffers(self) -> dict[str, TensorSlot]:
        """Buffers that a forward may read again in its next call: all but idle counters."""
        slots = codec.Fields(self.state.tree).slot_map("buffers")
        return {name: slot for name, slot in slots.items() if slot.numel and not self.counts_idly(name, slot)}

    def counts_idly(self, name: str, slot: TensorSlot) -> bool:
        """Whether a buffer only counts a normalisation's calls, with no output or other buffer depending on it.

        They do depend on it if the statistics are plain means over all calls, or if the problem's source names the
        buffer.
        """
        counts = name.rpartition(".")[2] == COUNTER and slot.dtype == "int64" and not slot.shape
        return counts and not _COUNTER_IN_USE.search(self.source)

    def reset_state(self) -> None:
        """Reset parameters and buffers to their values after construction."""
        with self.lease.shared():
            tensor_views.content(self.state_buffer).copy_(self._pristine)

    @property
    def constructed_state(self) -> torch.Tensor:
        """The bytes of parameters and buffers after construction."""
        return self._pristine

    def make_again(self, made_with: MadeWith) -> None:
        """Make an input set again, in the input arena."""
        self.make_inputs(made_with.seed, made_with.sizes, made_with.draws)

    @blame_reference_for_bad_frames()
    def make_inputs(self, seed: int, sizes: Mapping[str, int] | None = None, draws: DrawPlan = PLAINLY) -> None:
        """Make one input set in the input arena with the problem's `get_inputs`, and update `sites`.

        Args:
            seed: source of all random numbers, whatever seeds the problem sets.
            sizes: other sizes, by name.
            draws: how the numbers are made.
        """
        self.made_with = MadeWith(seed, dict(sizes or {}), draws)
        request = {"seed": seed, "sizes": dict(sizes or {}), "draws": draws.to_wire()}
        answer = self._ask(Kind.MAKE_INPUTS, request, Kind.INPUTS)
        self.sites = sites_of(answer.fields.mapping("sites"))
        if not sizes:
            self._add_sides(answer.fields.sequence("sides", MOST_SIDES))
        placed = self._placed(answer.fields.value("inputs"))
        if not placed.slots:
            raise BadProblemError("get_inputs() returns no tensor.", "Return a list with at least one torch.Tensor.")
        if not sizes:
            self._note_sample(placed)
        same = _is_same(placed.tree, self.inputs.tree)
        self.inputs, held = placed, self._inputs_buffer
        if answer.fields.flag("filled"):
            if held is None or not same:
                raise WireError("It filled an arena with inputs of another form.")
            return
        buffer = self._room("reference-inputs", placed.size, held, same=same)
        # If the worker cannot map it, the two hold different arenas, so the next call must create a new one.
        self._inputs_buffer = None
        self._fill("inputs", placed, buffer, fresh=buffer is not held)
        self._inputs_buffer = buffer

    def _room(self, name: str, size: int, held: "Shared | None", *, same: bool) -> "Shared":
        driving = self._machine.driving
        return room(self.device, name, size, held, same=same, writable_by_peer=True, driving=driving)

    @property
    def held_bytes(self) -> int:
        """Bytes of the tensors that judge and worker share here: state, inputs, and the answer with its fp64 form."""
        buffers = (self._inputs_buffer, self._answers[1] if self._answers is not None else None)
        return self.state.size + sum(buffer.size for buffer in buffers if buffer is not None)

    def _add_sides(self, sides: list[Any]) -> None:
        """Add the sides of inputs that the source does not name to the sizes, until the problem is learned."""
        if self.learned is None:
            for side in sides:
                if is_size(side) and side not in self.sizes.values() and len(self.sizes) < MOST:
                    self.sizes[f"{SIDE}{side}"] = side

    def _note_sample(self, placed: Form) -> None:
        if self._sample is None:
            self._sample = placed
            return
        self._is_steady = self._is_steady and placed == self._sample
        self.steady_bytes = placed.size if self._is_steady else 0

    @property
    def inputs_buffer(self) -> "Shared | Part":
        """The input arena, trimmed to the bytes that the inputs take."""
        buffer = self._inputs_buffer
        if buffer is None:
            raise RuntimeError("Call make_inputs first.")
        return buffer if buffer.size == self.inputs.size else Part(buffer, 0, self.inputs.size)

    def floating_inputs(self) -> dict[int, TensorSlot]:
        """Return the slots of nonempty floating inputs, by their index among all inputs."""
        return {number: slot for number, slot in enumerate(self.inputs.slots) if slot.dtype in FLOATING and slot.numel}

    @blame_reference_for_bad_frames()
    def answer(self, seed: int, *, exact: bool = True) -> Answer:
        """Run the problem's forward on the input arena, and return private copies of its answer.

        Args:
            seed: seed of torch's generators.
            exact: whether to compute the fp64 run and the spread too, as a comparison needs them.
        """
        extra_ms = self._extra_ms if exact else 0
        exact = exact and self.inputs.size <= self._most_exact
        fields = self._ask(Kind.RUN, {"seed": seed, "exact": exact, "extra_ms": extra_ms}, Kind.ANSWERED).fields
        self.pieces = pieces_of(fields.mapping("pieces"))
        tree = codec.Fields(fields.value("answer"))
        slots = list(codec.slots(fields.value("answer")))
        flags = [fields.sequence(name) for name in ("exact", "spread")]
        if any(len(one) != len(slots) for one in flags):
            raise WireError(f"It reports {len(slots)} tensors, but {len(flags[0])} fp64 forms.")
        tensors = [
            AnswerTensor(_check(slot, self._limit), bool(wide), bool(spread))
            for slot, wide, spread in zip(slots, *flags, strict=True)
        ]
        expected = self._collect(self._affordable(tensors), collected=fields.flag("collected"))
        scale, peak = self._inputs_scale() if extra_ms else (1.0, 0.0)
        tf32 = fields.flag("tf32")
        expected = [replace(item, tf32=tf32, inputs_scale=scale, inputs_peak=peak) for item in expected]
        if len(computed := fields.sequence("computed")) != len(expected):
            raise WireError(f"It reports {len(expected)} tensors, but the precisions of {len(computed)}.")
        expected = [
            replace(item, computed=_narrower(name, item)) for item, name in zip(expected, computed, strict=True)
        ]
        overflows = self._narrow_inputs_overflow()
        self._sample_overflows = overflows if self._sample_overflows is None else self._sample_overflows
        defined = not fields.flag("undefined") and overflows <= self._sample_overflows
        facts = {name: fields.flag(name) for name in ("ranks", "tied", "decides")} | {"defined": defined}
        shares = frozenset(filter(sharing.MESSAGES.__contains__, fields.sequence("shares", len(sharing.MESSAGES))))
        changed = side_effects.KINDS.intersection(fields.sequence("side_effects", len(side_effects.KINDS)))
        output, buffers = tree.value("output"), tree.slot_map("buffers")
        return Answer(output, buffers, expected, shares=shares, side_effects=changed, **facts)

    def _inputs_scale(self) -> tuple[float, float]:
        """Return the largest mean and the largest magnitude of any floating input, from a sample of each."""
        tensors = [tensor_views.view(self.inputs_buffer, slot).flatten() for slot in self.floating_inputs().values()]
        some = [tensor[:: -(-tensor.numel() // SAMPLED)].double().abs() for tensor in tensors]
        finite = [torch.where(torch.isfinite(sizes), sizes, 0.0) for sizes in some]
        if not finite:
            return 1.0, 0.0
        found = torch.stack([torch.stack((sizes.mean(), sizes.max())) for sizes in finite])
        mean, peak = found.max(0).values.tolist()
        return mean, peak

    def _narrow_inputs_overflow(self) -> bool:
        """Whether an input of half precision or less has an infinity or a NaN, as a far draw that was cast can have.

        Some of torch's functions answer to those with numbers, such as attention with zeros.
        """
        narrow = [slot for slot in self.floating_inputs().values() if slot.dtype not in {"float32", "float64"}]
        values = (tensor_views.computable(tensor_views.view(self.inputs_buffer, slot)) for slot in narrow)
        return any(not bool(torch.isfinite(value).all()) for value in values)

    def _affordable(self, tensors: "list[AnswerTensor]") -> "list[AnswerTensor]":
        """Drop fp64 forms, then spreads, until the answer fits the size limit; the judge can do without them."""
        without_exact = [replace(one, exact=False) for one in tensors]
        choices = (tensors, without_exact, [AnswerTensor(one.own) for one in tensors])
        fitting = (choice for choice in choices if sum(one.nbytes for one in choice) <= self._limit)
        return next(fitting, choices[-1])

    def _collect(self, tensors: "list[AnswerTensor]", *, collected: bool) -> list[Expected]:
        """Return private copies of an answer; `collected`: the worker reused the arena of the last answer."""
        wanted: list[Any] = [one.wanted() for one in tensors]
        placed = self._placed(wanted)
        before, held = self._answers or (None, None)
        same = held is not None and _is_same(before, placed.tree)
        if collected and not same:
            raise WireError("It filled an arena with an answer of another form.")
        buffer = self._room("reference-answers", placed.size, held, same=same)
        if not collected:
            self._answers = None
            fields, fresh = {"slots": placed.tree, "bytes": buffer.size}, buffer is not held
            self._ask(Kind.COLLECT, fields, Kind.COLLECTED, [buffer.fileno()] if fresh else [], drives=fresh)
        self._answers = placed.tree, buffer
        places: list[Any] = placed.tree  # type: ignore[assignment]
        return [
            Expected(*(None if slot is None else tensor_views.view(buffer, slot).clone() for slot in three))  # type: ignore[arg-type]
            for three in places
        ]

    @blame_reference_for_bad_frames()
    def operations(self) -> dict[str, int] | None:
        """Return the floating-point operations of one forward on the inputs in the arena, by dtype.

        None if they could not be counted. The worker runs the problem's code, so the count is only a figure to show.
        """
        fields = self._ask(Kind.COUNT, {}, Kind.COUNTED).fields
        counts = fields.mapping("operations")
        if not fields.flag("counted"):
            return None
        return {str(name)[:20]: count for name, count in counts.items() if isinstance(count, int) and count >= 0}

    @blame_reference_for_bad_frames()
    def tune(self, mode: str, timeout_s: float) -> int:
        """Let the worker compile the problem's model with torch.compile for the inputs in the arena, and time that.

        Only a `baseline` worker may run the compilers that this needs. The mode `eager` times the model as it is.

        Returns:
            The bytes of the tensors that a call returns.
        """
        fields = {"mode": mode, "borrows": False}
        return self._ask(Kind.TUNE, fields, Kind.TUNED, timeout_s=timeout_s).fields.integer("output_bytes")

    @blame_reference_for_bad_frames()
    def tune_beside_others(self, mode: str, timeout_s: float) -> int:
        """Like `tune`, while others use the device; this thread must not hold its lease.

        The worker borrows the device whenever the compiler compares times, and for its calls after the first.

        Args:
            mode: as for `tune`.
            timeout_s: without the time in which it waits for the device.
        """
        with self.lease.shared():
            self.device.settle()
        fields, deadline = {"mode": mode, "borrows": True}, time.monotonic() + timeout_s
        message = self._lending(Kind.TUNE, fields, [], Kind.TUNED, deadline=deadline, leased=self.lease.alone)
        return message.fields.integer("output_bytes")

    def ring(self, sets: int, fds: list[int]) -> None:
        """Let the worker make `sets` input sets of the arena's form to time its forward on; 0 frees them."""
        self._ask(Kind.RING, {"sets": sets, "inputs_bytes": self.inputs.size}, Kind.RINGED, fds, drives=True)

    def round(self, fields: dict[str, Any]) -> codec.Fields:
        """Time one walk of the worker's ring; the fields are those of `rounds.Rounds.round`."""
        return self._ask(Kind.ROUND, fields, Kind.ROUNDED, drives=bool(fields.get("captures"))).fields

    def reduction(self, answer: Answer) -> float:
        """Return an estimate of how many input elements contribute to one output element."""
        inputs = sum(slot.numel for slot in (*self.inputs.slots, *self.parameters.values()))
        outputs = max(sum(slot.numel for slot in codec.slots(answer.output)), 1)
        return max(inputs / outputs, 1.0)

    def close(self) -> None:
        self.worker.close()

    def end(self) -> None:
        """Close the session, and wait until its process is gone and its device memory is free."""
        with suppress(TimeoutError):
            self.worker.end()
        self.close()


SMALL_BYTES: Final = 64 << 20
"""Maximum bytes of shared tensors of a session that is kept while the device is short of memory."""
KNOWN_PROBLEMS: Final = 256
KNOWN_BYTES: Final = 1 << 20
"""Maximum number of problems whose learned facts are kept, and maximum bytes of their states."""
LIBRARIES_BYTES: Final = 1 << 30
"""Memory of a process that computes on a GPU, besides its problem's: its libraries load kernels there."""
_COUNTER_IN_USE: Final = re.compile(rf"{COUNTER}|momentum\s*=\s*None")


def _expected_kind(message: Message, answer: Kind) -> Message:
    """Return a message of the expected kind; raise what a worker reports instead."""
    if message.kind is Kind.FAILED:
        failed = ReferenceFailedError(message.fields)
        if any(message in str(failed) for message in _CONTEXT_LOST):
            raise ReferenceFaultError(f"{failed.stage} raised {failed}") from failed
        raise failed
    if message.kind is not answer:
        raise WireError(f"{message.kind.name} was sent; {answer.name} was expected")
    return message


def _check(slot: TensorSlot, limit: int) -> TensorSlot:
    try:
        return check_slot(slot, limit)
    except LayoutError as error:
        raise BadProblemError(error.message, error.remedy) from error


def _is_same(one: codec.Value, two: codec.Value) -> bool:
    """Whether two trees are bitwise equal, as the worker compares them: 1 is not True, and a NaN equals itself."""
    return codec.encode(one) == codec.encode(two)


def _tensor_bytes(learned: "Learned") -> int:
    states = (*learned.reached, *learned.late, *learned.turning)
    return sum(tensor.nbytes for state in states for tensor in state.values())


class ReferenceStore:
    """Caches reference sessions by the problem they loaded, and the finding of each problem's audit."""

    def __init__(self, machine: Machine, audit: Callable[[ReferenceSession], str]) -> None:
        self._machine = machine
        self._audit = audit
        self._lock = threading.Lock()
        self._idle: list[tuple[str, ReferenceSession]] = []
        self._findings: dict[str, str] = {}
        self._known: OrderedDict[str, Knowledge] = OrderedDict()

    def take(self, key: str, source: str) -> ReferenceSession:
        """Return an idle session of this problem, or start one; the caller must give it back or close it."""
        with self._lock:
            for index, (found, session) in enumerate(self._idle):
                if found == key and session.worker.alive:
                    del self._idle[index]
                    return session
            known = self._known.get(key)
        self._make_room()
        session = ReferenceSession(self._machine, source, init_seed=int(key[:12], 16))
        if known is not None:
            try:
                session.adopt(known)
            except BaseException:
                session.end()
                raise
        return session

    def _note(self, key: str, session: ReferenceSession) -> None:
        """Keep what was learned for the problem's other sessions. The caller holds the lock."""
        known = session.knowledge()
        if known is not None and _tensor_bytes(known.learned) <= KNOWN_BYTES:
            self._known[key] = known
            self._known.move_to_end(key)
        while len(self._known) > KNOWN_PROBLEMS:
            self._known.popitem(last=False)

    @contextmanager
    def lent(self, key: str, source: str) -> Iterator[ReferenceSession]:
        """Borrow a session; it is ended if an exception occurs."""
        session = self.take(key, source)
        try:
            yield session
        except BaseException:
            session.end()
            raise
        self.give_back(key, session)

    def _make_room(self) -> None:
        """End idle sessions if the device is short of memory: those that hold much, and all if it is nearly full.

        With many concurrent evaluations, the contexts of ready workers alone make memory short; ending sessions of
        small problems would then free little, and each evaluation would start another.
        """
        if self._machine.device.is_nearly_full():
            self.drop_idle()
        elif self._machine.device.is_short():
            self._end_idle(lambda session: session.held_bytes > SMALL_BYTES)

    def drop_idle(self) -> None:
        """End all idle sessions, and release the device memory that this process holds for them."""
        self._end_idle(lambda session: True)

    def _end_idle(self, unwanted: Callable[[ReferenceSession], bool]) -> None:
        with self._lock:
            ended = [session for _, session in self._idle if unwanted(session)]
            self._idle = [one for one in self._idle if one[1] not in ended]
        for session in ended:
            session.worker.kill()
        # In the meantime: their processes take tens of milliseconds to exit.
        self._machine.device.release()
        for session in ended:
            session.end()

    def finding(self, key: str, session: ReferenceSession) -> str:
        """Return why the problem is degenerate, or an empty string; each problem is audited once."""
        with self._lock:
            if key in self._findings:
                return self._findings[key]
        with self._machine.lease.shared():
            session.reset_state()
            finding = self._audit(session)
        with self._lock:
            self._findings[key] = finding
        return finding

    def give_back(self, key: str, session: ReferenceSession) -> None:
        """Keep a session for the next evaluation of its problem, and close those idle for longest.

        All idle sessions together may use as much memory as one worker: a problem can allocate that at module level.
        Memory that GPU libraries take in any process does not count.
        """
        with self._lock:
            self._note(key, session)
            idle = [*self._idle, (key, session)]
            libraries = LIBRARIES_BYTES if self._machine.config.device_kind.shares_memory else 0
            used = list(accumulate(max(one.worker.used_bytes() - libraries, 0) for _, one in reversed(idle)))
            fit = sum(total <= self._machine.config.memory_bytes for total in used)
            kept = max(1, min(fit, self._machine.config.reference_sessions))
            dropped, self._idle = idle[:-kept], idle[-kept:]
        for _, old in dropped:
            old.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for _, session in idle:
            session.close()
