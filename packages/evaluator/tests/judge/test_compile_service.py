"""The compile service on real workers: one compilation at a time for a candidate, given up as soon as nobody waits."""

import copy
import threading
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

import pytest

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import compressed_store
from warpsmith.evaluator.judge.compiling import runs
from warpsmith.evaluator.judge.compiling import service as compile_service
from warpsmith.evaluator.judge.compiling.runs import AllAtOnce, LaunchByLaunch
from warpsmith.evaluator.judge.compiling.service import CompileFailedError, CompileService
from warpsmith.evaluator.judge.launches import Launches
from warpsmith.evaluator.languages.triton.language import TRITON
from warpsmith.evaluator.languages.triton.loaded_kernels import Binary
from warpsmith.evaluator.processes.worker import WorkerStartError

ENDLESS = """\
import triton
import triton.language as tl

@triton.jit
def kernel(out_ptr, TIMES: tl.constexpr):
    x = 0.0
    for _ in tl.static_range(TIMES):
        x = x + 1.0
    tl.store(out_ptr, x)
"""


QUICK, ENDLESS_TIMES = 2, 100_000_000


def launch(times: int) -> dict:
    arguments = {"out_ptr": ["tensor", "float32", True], "TIMES": ["value", times]}
    return {"kernel": "kernel", "arguments": arguments, "options": {}}


@pytest.fixture
def service(machine):
    running = CompileService(machine)
    yield running
    running.close()


@pytest.fixture
def for_device(machine):
    """Start services that ask for machine code, as on a device. No GPU takes part."""
    on_device = copy.copy(machine)
    on_device.config = machine.config.model_copy(update={"device": "cuda"})
    started = []

    def start() -> CompileService:
        started.append(CompileService(on_device))
        return started[-1]

    yield start
    for one in started:
        one.close()


class LateFuture(Future):
    """A future whose callbacks run on request."""

    def __init__(self) -> None:
        super().__init__()
        self.late = []

    def add_done_callback(self, fn) -> None:
        self.late.append(fn)

    def run_callbacks(self) -> None:
        for callback in self.late:
            callback(self)


class LateExecutor:
    """Runs each function in a thread of its own, for a `LateFuture`."""

    def submit(self, function, *arguments) -> LateFuture:
        future = LateFuture()

        def run() -> None:
            try:
                future.set_result(function(*arguments))
            except Exception as error:
                future.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return future

    def shutdown(self, **_) -> None:
        """Nothing is kept."""


def failed(future) -> bool:
    try:
        return future.exception(timeout=30) is not None
    except CancelledError:
        return True


def test_launches_are_compiled_once_and_known_then(service):
    first = service.start(ENDLESS, [launch(QUICK)])
    assert first.future.result(timeout=60).ok
    again = service.start(ENDLESS, [launch(QUICK)])
    assert again.future.result(timeout=0).cached


def no_worker(role, timeout_s):
    raise WorkerStartError("no processes")


def test_a_retry_does_not_join_a_compilation_that_has_just_failed(machine, monkeypatch):
    monkeypatch.setattr(compile_service, "started_executor", lambda count, name: LateExecutor())
    service = CompileService(machine)
    with monkeypatch.context() as patch:
        patch.setattr(machine, "take", no_worker)
        failing = service.start(ENDLESS, [launch(QUICK)])
        with pytest.raises(CompileFailedError, match="no processes"):
            failing.future.result(timeout=60)
    job = service.start(ENDLESS, [launch(QUICK)])
    assert job.future.result(timeout=60).ok
    # That the first has failed is heard of only now, and takes nothing from the second.
    failing.future.run_callbacks()
    again = service.start(ENDLESS, [launch(QUICK)])
    assert again.future.result(timeout=0).cached


def test_what_nobody_waits_for_ends_and_is_forgotten(service):
    job = service.start(ENDLESS, [launch(ENDLESS_TIMES)])
    same = service.start(ENDLESS, [launch(ENDLESS_TIMES)])
    assert same is job
    service.give_up(same)
    assert not job.future.done()
    service.give_up(job)
    assert failed(job.future)
    renewed = service.start(ENDLESS, [launch(ENDLESS_TIMES)])
    assert renewed is not job
    service.give_up(renewed)
    assert failed(renewed.future)


def test_launches_that_come_later_replace_the_compilation_under_way(service):
    run = AllAtOnce(service, ENDLESS)
    run.start([launch(ENDLESS_TIMES)])
    run.settle([launch(QUICK), launch(QUICK + 1)])
    assert run.result().ok
    run.settle([launch(number) for number in range(9)])
    assert run.result().ok
    run.close()


def test_launches_that_cannot_be_handed_over_are_the_sources_failure(service):
    deep: list = []
    for _ in range(40):
        deep = [deep]
    with pytest.raises(WireError):
        service.start(ENDLESS, [{"kernel": deep}])
    many = [launch(0) | {"options": {"n": [None] * 1000, "i": number}} for number in range(300)]
    found = service.start(ENDLESS, many).future.result(timeout=60)
    assert (found.ok, found.category) == (False, "triton_compilation_error")


# --- launch by launch, as on a device ---

SEVERAL = """\
import triton
import triton.language as tl

@triton.jit
def kernel(out_ptr, TIMES: tl.constexpr):
    tl.store(out_ptr, TIMES)

@triton.jit
def product(a, b, out, N: tl.constexpr):
    n = tl.arange(0, N)
    square = n[:, None] * N + n[None, :]
    tl.store(out + square, tl.dot(tl.load(a + square), tl.load(b + square)))

@triton.jit
def broken(out_ptr, TIMES: tl.constexpr):
    tl.static_assert(TIMES == 0, "the first")

@triton.jit
def also_broken(out_ptr, TIMES: tl.constexpr):
    tl.static_assert(TIMES == 0, "the second")
"""
POINTER = ["tensor", "float32", True]
PRODUCT = {
    "kernel": "product",
    "arguments": {"a": POINTER, "b": POINTER, "out": POINTER, "N": ["value", 16]},
    "options": {},
}


def of_kernel(name, times=3):
    return launch(times) | {"kernel": name}


@pytest.fixture
def by_launch(service):
    made = []

    def begin(source=SEVERAL):
        made.append(LaunchByLaunch(service, source))
        return made[-1]

    yield begin
    for one in made:
        one.close()


def test_each_launch_is_compiled_by_itself(by_launch):
    run = by_launch()
    found = run.of(of_kernel("kernel"))
    assert (found.ok, found.tf32, found.category, found.message) == (True, False, "", "")
    assert found.seconds > 0
    assert run.of(of_kernel("kernel")) is found
    assert run.of(PRODUCT).tf32
    # Nobody loads code on a CPU, so that none is sent.
    assert found.binaries == ()


def test_a_launch_that_is_only_tried_need_not_compile(by_launch):
    run = by_launch()
    launches = Launches(run)
    assert not launches.reported(of_kernel("broken"), tried=True).ok
    assert launches.reported(of_kernel("kernel")).ok
    launches.settle()
    assert launches.result().ok
    assert not launches.reported(of_kernel("broken")).ok
    assert not launches.result().ok


def test_code_crosses_from_the_worker_where_a_device_is_to_run_it(for_device):
    run = LaunchByLaunch(for_device(), SEVERAL)
    (values,) = run.of(PRODUCT).binaries
    binary = Binary.of(values)
    assert (binary.symbol, binary.warps, [kind for _, kind in binary.parameters]) == (
        "product",
        4,
        ["*fp32", "*fp32", "*fp32", "constexpr"],
    )
    assert binary.cubin.startswith(b"\x7fELF")
    assert run.of(of_kernel("broken")).binaries == ()
    # What all came to carries no code: each launch's own does.
    assert run.result().binaries == ()
    run.close()


SIZED = """\
import triton
import triton.language as tl

@triton.jit
def sized(out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, at, mask=at < n)
"""


def test_a_size_of_the_same_kind_has_the_code_that_is_there(for_device, monkeypatch):
    service, asked = for_device(), []
    start = service.start
    monkeypatch.setattr(service, "start", lambda *given: asked.append(given) or start(*given))
    run = LaunchByLaunch(service, SIZED)

    def of(n, block=64):
        arguments = {"out_ptr": POINTER, "n": ["value", n], "BLOCK": ["value", block]}
        return run.of({"kernel": "sized", "arguments": arguments, "options": {}})

    first = of(4096)
    assert first.ok
    assert of(2048) is first
    assert len(asked) == 1
    assert of(2047) is not first
    assert of(999).binaries[0]["cubin"] == of(2047).binaries[0]["cubin"]
    assert of(1).ok
    assert of(2048, 128).ok
    assert [given[1][0]["arguments"]["n"][1] for given in asked] == [4096, 2047, 1, 2048]
    assert run.result().ok
    assert run.result().seconds == sum(of(*given).seconds for given in ((4096,), (2047,), (1,), (2048, 128)))


def test_a_launch_is_held_against_few_others_however_many_there_are(service, by_launch, monkeypatch):
    code = {"cubin": b"", "parameters": [["out_ptr", "*fp32"], ["n", "i32"], ["BLOCK", "constexpr"]]}
    held, started = [], []
    same_code = TRITON.same_code
    monkeypatch.setattr(TRITON, "same_code", lambda *given: held.append(given) or same_code(*given))

    def start(source, launches, language):
        started.append(launches)
        job = compile_service.Job(b"")
        job.future.set_result(compile_service.Compilation(True, binaries=(code,)))
        return job

    monkeypatch.setattr(service, "start", start)
    run = by_launch(SIZED)

    def of(n, block):
        arguments = {"out_ptr": POINTER, "n": ["value", n], "BLOCK": ["value", block]}
        return run.of({"kernel": "sized", "arguments": arguments, "options": {}})

    for block in range(100):
        of(4096, block)
    assert len(held) < 100 * runs.MOST_ALIKE
    assert len(started) == 100
    of(2048, 3)
    assert len(started) == 100, "one of the first has the code"


class Notifying(compressed_store.PackedStore):
    """A store that notifies when something was put into it."""

    def __init__(self, entries: int, size: int) -> None:
        super().__init__(entries, size)
        self.puts = threading.Semaphore(0)

    def put(self, key, packed) -> None:
        super().put(key, packed)
        self.puts.release()


@pytest.fixture
def keeping(for_device, monkeypatch):
    """Start a service that keeps so many bytes; returns what compiles one kernel, and the store."""

    def start(size: int = compile_service.CACHE_BYTES):
        stores = []
        monkeypatch.setattr(compile_service, "CACHE_BYTES", size)
        monkeypatch.setattr(
            compile_service, "PackedStore", lambda *given: stores.append(Notifying(*given)) or stores[0]
        )
        service = for_device()

        def found(times: int):
            compilation = service.start(SEVERAL, [launch(times)]).future.result(timeout=60)
            # Whoever waits is notified before the answer is kept.
            assert compilation.cached or stores[0].puts.acquire(timeout=60)
            return compilation

        return found, stores[0]

    return start


def test_machine_code_is_kept_up_to_so_many_bytes_the_last_used_longest(keeping):
    found, store = keeping()
    cubin = found(1).binaries[0]["cubin"]
    one = store.bytes
    assert 0 < one < len(cubin) // 2 + 2 * compressed_store.ENTRY_BYTES, "code is kept compressed"
    size = 2 * one + one // 2
    found, store = keeping(size)
    found(1)
    found(2)
    again = found(1)
    assert again.cached, "two have room"
    assert again.binaries[0]["cubin"] == cubin
    found(3)
    assert not found(2).cached, "what was unused for longest made room"
    assert found(3).cached
    assert not found(1).cached
    assert 0 < store.bytes <= size
    found, store = keeping(one // 2)
    assert found(4).ok, "what is never kept is answered"
    assert not found(4).cached
    assert store.bytes == 0


def test_all_launches_together_are_one_answer(by_launch):
    run = by_launch()
    assert not run.result().ok
    one, two = run.of(of_kernel("kernel")), run.of(PRODUCT)
    whole = run.result()
    assert (whole.ok, whole.tf32, whole.cached) == (True, True, False)
    assert whole.seconds == one.seconds + two.seconds


def test_the_first_failure_is_the_answer(by_launch):
    run = by_launch()
    run.of(of_kernel("kernel"))
    failed_first = run.of(of_kernel("broken"))
    assert "the first" in failed_first.message
    run.of(of_kernel("also_broken"))
    assert run.result() is failed_first
    assert run.result().category == "assertion_error"


def test_what_another_candidate_launched_is_known(by_launch):
    source = SEVERAL + "\n# known\n"
    assert not by_launch(source).of(of_kernel("kernel")).cached
    again = by_launch(source)
    known = again.of(of_kernel("kernel"))
    assert (known.cached, known.seconds) == (True, 0.0)
    assert again.result().cached
    again.of(of_kernel("kernel", 4))
    assert not again.result().cached


def test_what_was_reported_and_never_asked_for_is_compiled_at_the_end(by_launch):
    run = by_launch()
    run.start([of_kernel("broken")])
    assert not run.result().ok
    assert run.result().message == ""
    run.settle([of_kernel("kernel"), of_kernel("broken")])
    assert "the first" in run.result().message


def under_way(run, service):
    """Let a run have a compilation that never ends, and return it."""
    run.begin([launch(ENDLESS_TIMES)])
    job = service.start(ENDLESS, [launch(ENDLESS_TIMES)])
    service.give_up(job)
    return job


def test_what_is_given_up_while_it_is_waited_for_is_the_evaluators_failure(by_launch, service):
    run = by_launch(ENDLESS)
    job = under_way(run, service)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(run.of, launch(ENDLESS_TIMES))
        service.give_up(job)
        with pytest.raises((CompileFailedError, CancelledError)):
            waiting.result(timeout=30)


def test_closing_gives_up_what_runs(by_launch, service):
    run = by_launch(ENDLESS)
    job = under_way(run, service)
    run.close()
    assert failed(job.future)
    run.close()
    assert not run.result().ok
