"""Replays as a device has them, on memory of the host: recordings that allocate, fill and copy, and launch nothing."""

import ctypes
import os
from contextlib import contextmanager

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.devices.host import HostDevice
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.tensor_slots import contiguous, pack
from warpsmith.evaluator.languages.triton.language import TRITON
from warpsmith.evaluator.recordings.errors import IllegalAccessError
from warpsmith.evaluator.workers.player_cuda import (
    GUARDED,
    POISON,
    Arena,
    DeviceReplay,
    Watch,
    check_slack,
    faults_named,
)

MEMORY = HostDevice()


class Game:
    """Inputs x [6] and y [0] and z [2, 3], state w [4], and a recording with one output of six floats."""

    def __init__(self, events, output, shape=(6,), device=MEMORY):
        self.slots = {}
        self.arenas = {}
        for name, shapes in (("inputs", [(6,), (0,), (2, 3)]), ("state", [(4,)])):
            self.slots[name], size = pack([contiguous("float32", one) for one in shapes], 1 << 20)
            self.arenas[name] = MEMORY.create(name, size)
            tensor_views.content(self.arenas[name]).fill_(POISON)
        self.fill(1.0)
        (answer,), size = pack([contiguous("float32", shape)], 1 << 20)
        self.slot, self.answers = answer, MEMORY.create("answers", size, writable_by_peer=True)
        given = {name: Arena(self.arenas[name], self.slots[name]) for name in self.arenas}
        self.replay = DeviceReplay(device, given, events, [], language=TRITON, outputs=[output], answer=[answer])
        self.replay.set_up(self.answers)

    def tensor(self, name, number):
        return tensor_views.view(self.arenas[name], self.slots[name][number])

    def fill(self, begin):
        for name, number in (("inputs", 0), ("inputs", 2), ("state", 0)):
            tensor = self.tensor(name, number)
            tensor.copy_(torch.arange(tensor.numel()).view(tensor.shape) + begin)
            begin += 100

    def play(self, **options):
        tensor_views.content(self.answers).fill_(0)
        self.replay.play(**options)
        return tensor_views.view(self.answers, self.slot).clone()


def described(memory, start, shape=(6,), stride=(1,), offset=0, dtype="float32"):
    return ["tensor", memory, start, dtype, list(shape), list(stride), offset]


X, Z, W = described("inputs", 0), described("inputs", 512, (2, 3), (3, 1)), described("state", 0, (4,))
OUT = described("fresh", 0)
SQUARE, SORTED = (described("fresh", number, (2, 2), (2, 1)) for number in (0, 1))
PLACES = described("fresh", 2, (2, 2), (2, 1), dtype="int64")


def test_each_play_takes_what_the_arenas_hold_then():
    game = Game([["alloc", 0, 24], ["copy", OUT, X]], OUT)
    assert game.play().tolist() == [1, 2, 3, 4, 5, 6]
    game.fill(7.0)
    assert game.play().tolist() == [7, 8, 9, 10, 11, 12]


@pytest.mark.parametrize("start", [0, 512])
def test_a_tensor_is_found_by_its_byte_whatever_its_storage_begins_with(start):
    """Of a device's arena a storage is the whole, of the host's each tensor's own."""
    z = described("inputs", start, (2, 3), (1, 2), (512 - start) // 4)
    game = Game([["alloc", 0, 24], ["copy", described("fresh", 0, (2, 3), (3, 1)), z]], OUT)
    assert game.play().tolist() == [101, 103, 105, 102, 104, 106]


def test_a_part_of_an_input_is_its_part():
    game = Game([["alloc", 0, 24], ["copy", OUT, described("inputs", 0, offset=2, stride=(0,))]], OUT)
    assert game.play().tolist() == [3] * 6


@pytest.mark.parametrize("poison", [0x00, 0xFF])
def test_what_nothing_was_moved_to_is_poison(poison):
    half = described("fresh", 0, (3,))
    game = Game([["alloc", 0, 24], ["copy", half, described("inputs", 0, (3,))]], OUT)
    got = game.play(ghost=True, poison=poison)
    assert got[:3].tolist() == [1, 2, 3]
    assert torch.all(got[3:].view(torch.uint8) == poison)


@pytest.mark.parametrize("garbage", [False, True])
def test_a_library_operator_computes_on_what_the_arenas_hold_then(garbage):
    product = ["operator", "aten.mm.default", [Z, described("inputs", 512, (3, 2), (1, 3))], {}, [SQUARE]]
    least = ["operator", "aten.sort.default", [SQUARE, ["value", 1], ["value", True]], {}, [SORTED, PLACES]]
    events = [*(["alloc", number, 32] for number in range(3)), product, least]
    game = Game(events, SORTED, (2, 2))
    for begin in (1.0, 7.0):
        game.fill(begin)
        z = game.tensor("inputs", 2)
        assert torch.equal(game.play(garbage=garbage), torch.sort(z @ z.t(), descending=True)[0])
    # also where nothing is launched: only kernels are left out
    assert torch.equal(game.play(ghost=True), torch.sort(z @ z.t(), descending=True)[0])


def test_a_result_that_is_also_an_argument_is_computed_before_it_is_written():
    square = ["operator", "aten.mm.default", [SQUARE, SQUARE], {}, [SQUARE]]
    game = Game([["alloc", 0, 32], ["copy", SQUARE, described("inputs", 0, (2, 2), (2, 1))], square], SQUARE, (2, 2))
    assert game.play().tolist() == [[7, 10], [15, 22]]


def test_an_operator_of_no_policy_is_refused_before_anything_is_played():
    with pytest.raises(WireError, match="no policy allows"):
        Game([["alloc", 0, 32], ["operator", "aten.rand_like.default", [X], {}, [OUT]]], OUT)


def test_constants_are_as_they_were_before_each_call():
    constant = described("fresh", 1)
    content = torch.arange(6, dtype=torch.float32).numpy().tobytes()
    events = [["const", 1, content], ["alloc", 0, 24], ["copy", OUT, constant], ["copy", constant, X]]
    game = Game(events, OUT)
    assert [game.play().tolist() for _ in range(2)] == [[0, 1, 2, 3, 4, 5]] * 2


def test_a_reset_rewrites_every_byte_of_every_region():
    constant = described("fresh", 1)
    game = Game([["alloc", 0, 24], ["const", 1, b"abcd"], ["fill", OUT, 0.0], ["alloc", 2, 5000]], OUT)
    game.play()
    call = game.replay._call
    regions = dict(game.replay._fresh)
    assert constant[2] in regions
    for region in regions.values():
        region.whole.fill_(0x11)
    call.reset()
    for number, region in regions.items():
        left = region.whole.clone()
        if number == 1:
            assert bytes(left[region.start : region.start + 4]) == b"abcd"
            left[region.start : region.start + 4] = POISON
        assert torch.all(left == POISON)


def test_garbage_fills_a_tensor_and_nothing_around_it():
    game = Game([["alloc", 0, 24]], OUT)
    first, second = game.play(garbage=True), game.play(garbage=True)
    assert not torch.equal(first.view(torch.int32), second.view(torch.int32))
    assert all(torch.all(slack == POISON) for slack in game.replay._fresh[0].slack)


@pytest.mark.parametrize(
    "tensor",
    [
        described("inputs", 0, (7,)),
        described("inputs", 0, offset=1),
        described("inputs", 24),
        described("inputs", 511 * 4, (1,)),
        described("inputs", 2, (1,)),
        described("fresh", 0, (7,)),
        described("fresh", 9),
        described("elsewhere", 0),
        ["tensor", "inputs"],
    ],
)
def test_what_lies_in_no_tensor_is_refused(tensor):
    with pytest.raises((WireError, RuntimeError)):
        Game([["alloc", 0, 24], ["copy", OUT, tensor]], OUT)


@pytest.mark.parametrize("event", [["alloc", 0, -1], ["alloc", 0, 1 << 50], ["free", 0], ["copy", OUT]])
def test_what_is_no_event_is_refused(event):
    with pytest.raises(WireError):
        Game([["alloc", 0, 24], event], OUT)


def test_tensors_without_elements_lie_nowhere():
    nothing = described("inputs", 512, (0, 3), (3, 1))
    events = [["alloc", 0, 24], ["fill", OUT, 2.0], ["copy", described("fresh", 0, (0, 3), (3, 1)), nothing]]
    assert Game(events, OUT).play().tolist() == [2.0] * 6


@pytest.mark.parametrize(("at", "said"), [(-1, "before the start of a tensor, 1 bytes"), (100, "right behind the end")])
def test_stores_around_a_tensor_are_reported(at, said):
    region = next(made for made in iter(lambda: MEMORY.region(100), None) if bool(made.start) == (at < 0))
    region.whole.fill_(GUARDED)
    region.content.fill_(0)
    check_slack(region)
    region.whole[region.start + at] = 0
    with pytest.raises(IllegalAccessError, match=said):
        check_slack(region)


def test_a_ring_has_inputs_of_its_own_and_lets_go_of_the_arena():
    game = Game([["alloc", 0, 24], ["copy", OUT, X]], OUT)
    size, room = game.arenas["inputs"].size, 512
    inputs, answers = MEMORY.create("ring", 3 * size), MEMORY.create("room", 3 * room, writable_by_peer=True)
    for number, part in enumerate(tensor_views.parts(inputs, size)):
        tensor_views.content(part)[:24].view(torch.float32).fill_(float(number))
    fds = [os.dup(inputs.fileno()), os.dup(answers.fileno())]
    fields = codec.Fields({"sets": 3, "inputs_bytes": size, "answers_bytes": room})
    calls = game.replay.ring(fields, fds)
    tensor_views.content(inputs).fill_(0)
    for call in calls:
        call.reset()
        call.run()
        call.deliver()
    delivered = [
        tensor_views.content(part)[:24].view(torch.float32).tolist() for part in tensor_views.parts(answers, room)
    ]
    assert delivered == [[float(number)] * 6 for number in range(3)]


class Regions(HostDevice):
    """Memory as a device has it, and where its regions are."""

    def __init__(self):
        super().__init__()
        self.ranges = []

    def region(self, size, *, read_only=False):
        made = super().region(size, read_only=read_only)
        begin = made.whole.data_ptr()
        self.ranges.append((begin, begin + made.whole.numel()))
        return made

    def has(self, tensor):
        return any(begin <= tensor.data_ptr() < end for begin, end in self.ranges)


class Uses(TorchDispatchMode):
    """Notes each operator that reads or writes a region while nothing is to run on the device."""

    def __init__(self, device):
        super().__init__()
        self.device, self.idle, self.found = device, True, []

    @contextmanager
    def on_device(self):
        self.idle = False
        yield
        self.idle = True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        tensors = [one for one in pytree.tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        if self.idle and not func.is_view and any(map(self.device.has, tensors)):
            self.found.append(str(func))
        return func(*args, **(kwargs or {}))


EVENTS = [
    ["alloc", 0, 24],
    ["const", 1, b"abcd" * 6],
    ["fill", OUT, 0.0],
    ["copy", OUT, X],
    ["operator", "aten.add.Tensor", [OUT, described("fresh", 1)], {}, [OUT]],
]


@pytest.mark.parametrize("played", [False, True])
def test_to_make_a_replay_or_a_ring_runs_nothing_on_the_device(played):
    """What allocates, maps and loads may do so beside a timing; what fills memory must not."""
    device = Regions()
    uses = Uses(device)
    with uses:
        game = Game(EVENTS, OUT, device=device)
        assert len(device.ranges) > len(EVENTS) / 2
        if played:
            with uses.on_device():
                game.play()
        size, room = game.arenas["inputs"].size, 512
        inputs, answers = MEMORY.create("ring", 2 * size), MEMORY.create("room", 2 * room, writable_by_peer=True)
        tensor_views.content(inputs).fill_(0)
        fields = codec.Fields({"sets": 2, "inputs_bytes": size, "answers_bytes": room})
        calls = game.replay.ring(fields, [os.dup(inputs.fileno()), os.dup(answers.fileno())], uses.on_device)
    assert not uses.found
    with uses:
        calls[0].reset()
    assert uses.found, "it sees what is written"
    for call in calls:
        call.reset()
        call.run()
        call.deliver()
    own = torch.frombuffer(bytearray(b"abcd" * 6), dtype=torch.float32)
    for part in tensor_views.parts(answers, room):
        assert torch.equal(tensor_views.content(part)[:24].view(torch.float32), own)


def note(plan, address, count=1):
    """Do what a twin does that was about to access what is none of its launch's tensors."""
    (ctypes.c_int64 * 2).from_address(plan.record)[:] = [address, count]


def test_a_plan_reaches_the_whole_memory_of_each_tensor_and_no_more():
    x, y = (MEMORY.region(size).content for size in (400, 100))
    view = x.view(torch.float32).as_strided((3,), (2,), 10)
    plan = Watch(MEMORY).plan("kernel", {"x": view, "pair": (y, 3), "n": 7, "nothing": torch.empty(0)})
    assert {extent for extent in plan.extents if extent[0] < extent[1]} == {
        (x.data_ptr(), x.data_ptr() + 400),
        (y.data_ptr(), y.data_ptr() + 100),
    }


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (400, "first right behind the end of x of kernel"),
        (404, "first 4 bytes behind the end of x of kernel"),
        (-8, "8 bytes before the start of x of"),
        (1 << 40, "far from"),
    ],
)
def test_what_a_twin_noted_is_reported_once_and_beside_what_it_lies(at, said):
    x, watch = MEMORY.region(400).content, Watch(MEMORY)
    watch.begin()
    plan = watch.plan("kernel", {"x": x})
    watch.check()
    note(plan, x.data_ptr() + at)
    with pytest.raises(IllegalAccessError, match=said):
        watch.check()
    watch.check()


def test_an_illegal_access_is_reported_in_words_and_other_errors_are_left():
    with pytest.raises(IllegalAccessError, match="read-only"), faults_named():
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    with pytest.raises(RuntimeError, match="something else"), faults_named():
        raise RuntimeError("something else")
