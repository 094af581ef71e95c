"""Launches of a candidate on a GPU, as far as no GPU takes part: arguments, grids, what is asked for, what is tuned."""

import re
import weakref
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.runtime import autotuner
from triton.runtime.jit import JITFunction

from warpsmith.evaluator.languages.triton import launch_monitors
from warpsmith.evaluator.languages.triton.interpreter.tracing import GridError
from warpsmith.evaluator.languages.triton.launch_monitors import (
    DetachedMonitor,
    DeviceMonitor,
    DeviceTuning,
    KernelFailedError,
    checked_grid,
    named_arguments,
    unwrapped,
)
from warpsmith.evaluator.languages.triton.loaded_kernels import ArgumentError


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr = 64, SCALE: tl.constexpr = None):
    tl.store(x + tl.arange(0, BLOCK), n)


X, Y = torch.zeros(8), torch.ones(8)


# --- arguments ---


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        ((1, 2, 3), {}, (1, 2, 3, 64, None)),
        ((1, 2), {"n": 3}, (1, 2, 3, 64, None)),
        ((), {"n": 3, "y": 2, "x": 1}, (1, 2, 3, 64, None)),
        ((1, 2, 3, 16), {}, (1, 2, 3, 16, None)),
        ((1, 2, 3), {"SCALE": 2.0, "BLOCK": 16}, (1, 2, 3, 16, 2.0)),
        ((1, 2, 3, 16, 5), {}, (1, 2, 3, 16, 5)),
        ((1, 2, None), {}, (1, 2, None, 64, None)),
        ((1, 2, 3), {"num_warps": 8, "num_stages": 2}, (1, 2, 3, 64, None)),
    ],
)
def test_arguments_are_bound_in_the_order_of_the_parameters(args, kwargs, expected):
    assert list(named_arguments(kernel, args, kwargs).items()) == list(zip(kernel.arg_names, expected, strict=True))


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((1, 2), {}, "kernel is launched without n"),
        ((), {"y": 2}, "kernel is launched without x, n"),
        ((1, 2, 3, 4, 5, 6), {}, "kernel takes 5 arguments; 6 were given"),
        ((1, 2, 3), {"y": 2}, "kernel is given y twice"),
    ],
)
def test_a_launch_that_does_not_fit_says_how(args, kwargs, says):
    with pytest.raises(ArgumentError, match=says):
        named_arguments(kernel, args, kwargs)


def test_constants_are_unwrapped_inside_tuples_too():
    found = unwrapped({"a": tl.constexpr(3), "b": (1, tl.constexpr(2), (tl.constexpr("c"),)), "x": X})
    assert found == {"a": 3, "b": (1, 2, ("c",)), "x": X}
    # A constexpr is equal to its value, and shows itself by its text.
    assert repr((found["a"], found["b"])) == repr((3, (1, 2, ("c",))))


# --- grids ---


@pytest.mark.parametrize(
    ("grid", "sizes"),
    [
        ((4,), [4]),
        ([4, 2], [4, 2]),
        ((1, 65535, 65535), [1, 65535, 65535]),
        ((2**31 - 1,), [2**31 - 1]),
        ((0, 3), [0, 3]),
        ((np.int64(4), torch.tensor(5)), [4, 5]),
        (torch.Size([3, 4]), [3, 4]),
    ],
)
def test_a_grid_is_one_to_three_whole_numbers(grid, sizes):
    assert checked_grid(grid) == sizes


@pytest.mark.parametrize("grid", [(), (1, 2, 3, 4), 4, None, "4", (4.0,), (2.5, 1), (None,), (torch.tensor(1.5),)])
def test_what_is_no_grid_is_refused(grid):
    with pytest.raises(GridError, match="a grid is"):
        checked_grid(grid)


@pytest.mark.parametrize(("grid", "axis"), [((2**31,), "x"), ((1, 65536), "y"), ((1, 1, 65536), "z")])
def test_a_grid_beyond_what_a_gpu_launches_is_refused(grid, axis):
    with pytest.raises(GridError, match=f"programs along {axis}"):
        checked_grid(grid)


# --- the monitor ---


class Loaded:
    """Stands where a kernel lies in a GPU's memory: notes its launches."""

    registers, spills = 32, 0

    def __init__(self, memory, binary):
        self.binary, self.launches = binary, memory

    def launch(self, sizes, values):
        self.launches.append((sizes, values))


@pytest.fixture
def launched(monkeypatch):
    monkeypatch.setattr(launch_monitors, "LoadedKernel", Loaded)
    return []


@pytest.fixture
def asked():
    return []


@pytest.fixture
def monitor(launched, asked):
    def compiled(launch):
        asked.append(launch)
        return SimpleNamespace(shared_bytes=512)

    return DeviceMonitor(launched, compiled)


def run(monitor, *args, grid=(4,), warmup=False, **kwargs):
    return monitor.run(kernel, args, kwargs, grid, warmup=warmup)


def test_a_launch_asks_for_its_code_once(monitor, launched, asked):
    for _ in range(3):
        run(monitor, X, Y, 7, num_warps=8)
    run(monitor, X, Y, 9, num_warps=8)
    run(monitor, X[1:], Y, 9, num_warps=8)
    assert [launch["arguments"]["n"] for launch in asked] == [["value", 7], ["value", 9], ["value", 9]]
    assert asked[0] == {
        "kernel": "kernel",
        "arguments": {
            "x": ["tensor", "float32", True],
            "y": ["tensor", "float32", True],
            "n": ["value", 7],
            "BLOCK": ["value", 64],
            "SCALE": ["value", None],
        },
        "options": {"num_warps": 8},
        "tried": False,
    }
    assert asked[2]["arguments"]["x"] == ["tensor", "float32", False]
    assert monitor.launches == len(launched) == 5


def test_a_launch_hands_on_its_values_by_name(monitor, launched):
    run(monitor, X, Y, tl.constexpr(7), grid=lambda meta: (meta["n"], triton.cdiv(100, meta["BLOCK"])))
    assert launched == [([7, 2], {"x": X, "y": Y, "n": 7, "BLOCK": 64, "SCALE": None})]
    # A constexpr of 7 is equal to 7 as well.
    assert type(launched[0][1]["n"]) is int


def test_facts_about_a_kernel_are_reported(monitor):
    facts = run(monitor, X, Y, 7)
    assert (facts.name, facts.n_regs, facts.n_spills, facts.shared) == ("kernel", 32, 0, 512)


def test_a_warm_up_launches_nothing(monitor, launched, asked):
    facts = run(monitor, X, Y, 7, warmup=True, grid=None)
    assert facts.shared == 512
    assert (len(asked), launched, monitor.launches) == (1, [], 0)


def test_a_ghost_counts_and_does_nothing(monitor, launched):
    monitor.ghost = True
    run(monitor, X, Y, 7)
    assert (launched, monitor.launches) == ([], 1)


def test_a_recorder_hears_of_every_launch_and_is_given_its_grid(monitor):
    events = []

    def heard(name, arguments, options):
        events.append([name, arguments["n"], None, options])
        return events[-1]

    monitor.on_launch = heard
    run(monitor, X, Y, 7, grid=lambda meta: (3,), num_stages=2)
    monitor.silent = True
    run(monitor, X, Y, 8)
    assert events == [["kernel", 7, [3], {"num_stages": 2}]]
    assert monitor.launches == 1


def test_a_launch_that_the_autotuner_tries_says_so(monitor, asked):
    monitor.silent = True
    run(monitor, X, Y, 7)
    assert [launch["tried"] for launch in asked] == [True]


def test_what_does_not_compile_is_asked_for_again(launched, asked):
    def refused(launch):
        asked.append(launch)
        raise KernelFailedError("it does not compile", "triton_compilation_error")

    monitor = DeviceMonitor(launched, refused)
    for _ in range(2):
        with pytest.raises(KernelFailedError):
            run(monitor, X, Y, 7)
    assert (len(asked), launched, monitor.launches) == (2, [], 0)


def test_an_option_of_no_kind_is_handed_on_by_its_kind(monitor, asked):
    run(monitor, X, Y, 7, num_warps=4, odd=[1])
    assert asked[0]["options"] == {"num_warps": 4, "odd": ["unsupported", "list"]}


# --- launches of a compiled kernel ---


@triton.jit(do_not_specialize=["n"])
def loose(x, n):
    tl.store(x, n)


FACTOR = tl.constexpr(2)


@triton.jit
def capturing(x):
    tl.store(x, FACTOR)


@pytest.fixture
def recorded(monkeypatch):
    """Route launches of this process to a monitor without a device; return the arguments of those that it hears of."""
    monkeypatch.setattr(JITFunction, "run", JITFunction.run)
    monkeypatch.setattr(autotuner.Autotuner, "run", autotuner.Autotuner.run)
    heard = []
    monitor = DetachedMonitor()
    monitor.on_launch = lambda name, arguments, options: heard.append([arguments, options, None]) or heard[-1]
    launch_monitors.install(monitor, launch_monitors.NoTuning())
    return heard


def test_what_a_launch_returns_is_launched_as_the_kernel_itself(recorded):
    compiled = kernel[(4,)](X, Y, 7, BLOCK=32, num_warps=8)
    assert compiled[(2, 1, 1)](Y, X, 9, 32, None) is None
    assert recorded[1] == [{"x": Y, "y": X, "n": 9, "BLOCK": 32, "SCALE": None}, {"num_warps": 8}, [2, 1, 1]]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ((X, Y, 7), (X, Y, 7, 128, None)),
        ((X, Y, 7, 128), (X, Y, 7, 64, None)),
        ((X, Y, 7, 64, 1.0), (X, Y, 7, 64, 1)),
        ((X, Y, 16), (X, Y, 17, 64, None)),
        ((X, Y, 1), (X, Y, 2, 64, None)),
        ((X, Y, 7), (X, Y, 2**31, 64, None)),
        ((X, Y, 7), (X, Y, 7.0, 64, None)),
        ((X, Y, 7), (X, Y, True, 64, None)),
        ((X, Y, 7), (X[1:], Y, 7, 64, None)),
        ((X, Y, 7), (X.double(), Y, 7, 64, None)),
        ((X, Y, 7), (X, None, 7, 64, None)),
        ((X, Y, (7, 16)), (X, Y, (7, 17), 64, None)),
    ],
)
def test_a_compiled_kernel_is_not_launched_on_what_needs_other_code(recorded, first, then):
    compiled = kernel[(4,)](*first)
    with pytest.raises(ArgumentError, match="kernel was compiled for"):
        compiled[(4, 1, 1)](*then)
    assert len(recorded) == 1


@pytest.mark.parametrize(
    ("first", "then"),
    [((X[1:], Y, 7), (X, Y, 16)), ((X, Y, 7), (X, Y, 1)), ((X, Y, 2**31 + 1), (X, Y, 5)), ((X, Y, 0.5), (X, Y, 2.5))],
)
def test_code_that_is_specialized_on_nothing_takes_what_is_special(recorded, first, then):
    kernel[(4,)](*first)[(4, 1, 1)](*then, 64, None)
    assert len(recorded) == 2


def test_what_a_decorator_keeps_from_being_specialized_may_change(recorded):
    loose[(4,)](X, 16)[(4, 1, 1)](X, 17)
    loose[(4,)](X, 1)[(4, 1, 1)](X, 2)
    assert len(recorded) == 4


@pytest.mark.parametrize("arguments", [(X, Y, 7), (X, Y, 7, 64)])
def test_a_compiled_kernel_takes_all_arguments_and_a_whole_grid(recorded, arguments):
    compiled = kernel[(4,)](X, Y, 7)
    with pytest.raises(ArgumentError, match=f"takes 5 arguments; {len(arguments)} were given"):
        compiled[(4, 1, 1)](*arguments)
    with pytest.raises(GridError, match="three sizes"):
        compiled[(4,)](X, Y, 7, 64, None)


def test_code_that_captured_another_constant_is_not_launched(recorded, monkeypatch):
    compiled = capturing[(4,)](X)
    compiled[(4, 1, 1)](X)
    monkeypatch.setitem(globals(), "FACTOR", tl.constexpr(3))
    with pytest.raises(ArgumentError, match="capturing was compiled for"):
        compiled[(4, 1, 1)](X)


def test_a_compiled_kernel_keeps_no_tensor_alive(recorded):
    x = torch.zeros(8)
    compiled, gone = kernel[(4,)](x, Y, 7), weakref.ref(x)
    recorded.clear()
    del x
    assert gone() is None
    assert compiled is not None


# --- arguments that are not what they seem ---


@pytest.mark.parametrize(
    ("tensor", "dtype", "expected", "shape"),
    [
        (X.view(torch.int32), tl.float32, torch.float32, [8]),
        (torch.zeros(4, 2, dtype=torch.uint8), tl.float8e4nv, torch.float8_e4m3fn, [4, 2]),
        (torch.zeros(4, 2, dtype=torch.uint8).t(), tl.int8, torch.int8, [2, 4]),
        (torch.zeros(4, 2, dtype=torch.uint8), tl.int32, torch.int32, [2]),
        (X, torch.int32, torch.int32, [8]),
    ],
)
def test_a_reinterpreted_tensor_is_a_view_of_its_memory(recorded, tensor, dtype, expected, shape):
    loose[(1,)](triton.reinterpret(tensor, dtype), n=3)
    passed = recorded[0][0]["x"]
    assert (passed.dtype, list(passed.shape), passed.data_ptr()) == (expected, shape, tensor.data_ptr())


@pytest.mark.parametrize(("tensor", "dtype"), [(torch.zeros(3, 2).t(), tl.int8), (X, tl.float8e4b15)])
def test_what_cannot_be_reinterpreted_says_so(recorded, tensor, dtype):
    with pytest.raises(ArgumentError, match="cannot be reinterpreted as"):
        loose[(1,)](triton.reinterpret(tensor, dtype), 3)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (np.int64(3), r"Argument n of loose is of type int64, which no kernel takes.*Pass int\(n\)"),
        ((1, np.float32(3)), r"Argument n\[1\] of loose is of type float32.*float\(n\[1\]\)"),
        ([1], "Argument n of loose is of type list.*Pass tensors, numbers"),
    ],
)
def test_an_argument_of_a_type_that_no_kernel_takes_says_what_to_pass(recorded, value, says):
    with pytest.raises(ArgumentError) as caught:
        loose[(1,)](X, value)
    assert re.search(says, str(caught.value), re.DOTALL)
    assert not recorded


# --- tuning ---


@dataclass
class Runs:
    """The kernel under a tuner: what it was run with, and whether the monitor was silent then."""

    monitor: SimpleNamespace
    failing: dict[int, Exception] = field(default_factory=dict)
    blocks: list[tuple[int, bool]] = field(default_factory=list)

    def run(self, *args, BLOCK=0, **kwargs):
        if BLOCK in self.failing:
            raise self.failing[BLOCK]
        self.blocks.append((BLOCK, self.monitor.silent))
        args[0][:4] += BLOCK
        return BLOCK


TIMES = {16: 3.0, 32: 1.0, 64: 2.0}
CONFIGS = [triton.Config({"BLOCK": block}) for block in TIMES]
FAILED = KernelFailedError("too much shared memory", "shared_memory_exceeded")


@pytest.fixture
def tuned(monkeypatch):
    """Tune the kernel over three blocks on a clock that goes by the block."""
    monitor = SimpleNamespace(silent=False)
    tuning = DeviceTuning(monitor)
    runs = Runs(monitor)
    monkeypatch.setattr(launch_monitors, "milliseconds", lambda call: (call(), TIMES[runs.blocks[-1][0]])[1])

    def make(configs=CONFIGS, **options):
        tuner = triton.autotune(list(configs), **({"key": ["n"]} | options))(kernel)
        tuner.fn = runs
        return lambda *args, **kwargs: tuning.run(tuner, args, {"grid": (1,)} | kwargs)

    return SimpleNamespace(make=make, tuning=tuning, runs=runs, monitor=monitor)


def test_the_fastest_configuration_is_taken_and_known_then(tuned):
    launch = tuned.make()
    assert launch(X.clone(), Y, 7) == 32
    # The chosen one runs twice: a recording shows that it had run on the arguments before the launch that counts.
    assert tuned.runs.blocks == [(16, True), (32, True), (64, True), (32, False), (32, False)]
    assert tuned.tuning.timed
    assert tuned.tuning.taken["kernel"].startswith("BLOCK=32")
    tuned.tuning.next_call(0)
    assert (tuned.tuning.timed, tuned.tuning.taken) == (False, {})
    launch(X.clone(), Y, 7)
    assert tuned.runs.blocks[5:] == [(32, False)]
    assert (tuned.tuning.timed, list(tuned.tuning.taken)) == (False, ["kernel"])


@pytest.mark.parametrize(
    ("args", "again"),
    [
        ((X, Y, 7), False),
        ((X, Y[:4], 7), False),
        ((X, Y, 9), True),
        ((X.double(), Y, 7), True),
        ((X, Y.half(), 7), True),
    ],
)
def test_another_key_or_dtype_is_timed_anew(tuned, args, again):
    launch = tuned.make()
    launch(X.clone(), Y, 7)
    tuned.tuning.next_call(0)
    launch(args[0].clone(), *args[1:])
    assert tuned.tuning.timed == again


def test_two_tuners_do_not_share_their_choice(tuned):
    tuned.make()(X.clone(), Y, 7)
    tuned.tuning.next_call(0)
    tuned.make()(X.clone(), Y, 7)
    assert tuned.tuning.timed


@pytest.mark.parametrize(
    "options",
    [
        {"configs": [triton.Config({"BLOCK": 64})]},
        {"prune_configs_by": {"early_config_prune": lambda configs, named, **kwargs: configs[2:]}},
    ],
)
def test_a_single_configuration_is_not_timed(tuned, options):
    assert tuned.make(**options)(X.clone(), Y, 7) == 64
    assert (tuned.runs.blocks, tuned.tuning.timed) == ([(64, False)], False)


def test_what_does_not_compile_is_passed_over(tuned):
    tuned.runs.failing = {32: FAILED}
    assert tuned.make()(X.clone(), Y, 7) == 64


def test_where_nothing_compiles_the_first_says_why(tuned):
    tuned.runs.failing = dict.fromkeys(TIMES, FAILED)
    with pytest.raises(KernelFailedError, match="too much shared memory"):
        tuned.make()(X.clone(), Y, 7)
    assert not tuned.monitor.silent


def test_what_fails_otherwise_fails_the_launch_and_later_ones_are_heard(tuned):
    tuned.runs.failing = {32: ZeroDivisionError()}
    with pytest.raises(ZeroDivisionError):
        tuned.make()(X.clone(), Y, 7)
    assert not tuned.monitor.silent


def test_what_is_to_be_reset_is_zero_before_each_run(tuned):
    x = X.clone() + 5
    tuned.make(reset_to_zero=["x"])(x, Y, 7)
    assert x.tolist() == [32.0] * 4 + [0.0] * 4


def test_what_is_to_be_restored_is_what_it_was_before_the_timing(tuned):
    x = X.clone() + 5
    tuned.make(restore_value=["x"])(x, Y, 7)
    assert x.tolist() == [37.0] * 4 + [5.0] * 4


def test_without_either_the_timing_shows_in_the_output(tuned):
    x = X.clone()
    tuned.make()(x, Y, 7)
    assert x[0] == 16 + 32 + 64 + 32 + 32


def test_hooks_are_called_as_triton_calls_them(tuned):
    calls = []
    tuned.runs.failing = {64: FAILED}
    configs = [triton.Config({"BLOCK": b}, pre_hook=lambda full: calls.append(("own", full["BLOCK"]))) for b in TIMES]
    launch = tuned.make(
        configs,
        pre_hook=lambda full, reset_only=False: calls.append(("pre", full["BLOCK"], reset_only)),
        post_hook=lambda full, exception: calls.append(("post", full["BLOCK"], exception)),
    )
    launch(X.clone(), Y, 7)
    timed = [call for b in TIMES for call in (("own", b), ("pre", b, False), ("post", b, tuned.runs.failing.get(b)))]
    as_timed = [("own", 32), ("pre", 32, False), ("post", 32, None), ("pre", 32, True)]
    assert calls == [*timed, ("pre", 32, True), *as_timed, ("own", 32)]


def test_a_clock_needs_a_few_calls_more_where_they_are_short(monkeypatch):
    """How many calls are timed follows the first one: about ten milliseconds, at most fifty calls."""
    counts = []
    for first in (0.0, 0.1, 1.0, 3.0, 40.0):
        monkeypatch.setattr(
            launch_monitors, "time_calls", lambda call, count, first=first: counts.append(count) or first
        )
        launch_monitors.milliseconds(lambda: None)
    assert counts == [1, 50, 1, 50, 1, 10, 1, 3, 1, 1]
