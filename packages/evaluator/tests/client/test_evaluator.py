"""The whole evaluator through its public face, and what happens when a part of it is killed."""

import asyncio
import contextlib
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from process_tree import children, is_gone, judge_of
from pydantic import ValidationError

from warpsmith.evaluator import (
    BadProblemError,
    Evaluator,
    EvaluatorConfig,
    EvaluatorError,
    IsolationUnavailableError,
    JudgeUnavailableError,
    Problem,
    _native,
)
from warpsmith.evaluator.processes.failure_attribution import CandidateFailedError, SuspectError, overrun
from warpsmith.evaluator.processes.machine import Machine
from warpsmith.evaluator.processes.worker import WorkerDiedError, WorkerTimeoutError
from warpsmith.records.errors import UsageError

SLOW_CANDIDATE = """
import time
import torch.nn as nn
class ModelNew(nn.Module):
    def forward(self, x, y):
        time.sleep(60)
"""


def test_a_right_and_a_wrong_candidate(evaluator, add_problem, add_candidate):
    right = evaluator.evaluate(add_problem, add_candidate)
    assert (right.status, right.compiled, right.trials, right.mismatched_fraction) == ("correct", True, 7, 0.0)
    wrong = evaluator.evaluate(add_problem, add_candidate.replace("mask=mask) + tl", "mask=mask) - tl"))
    assert (wrong.status, wrong.compiled, wrong.trials, wrong.error_category) == ("incorrect", True, 1, None)
    assert "expected" in wrong.error_message
    assert wrong.max_abs_error > 0.1
    assert right.isolation_tier == wrong.isolation_tier != "none"


def test_an_output_without_a_number_has_no_largest_error(evaluator, add_problem, add_candidate):
    nothing = evaluator.evaluate(
        add_problem, add_candidate.replace("mask=mask) + tl", "mask=mask) * float('nan') + tl")
    )
    assert (nothing.status, nothing.mismatched_fraction, nothing.max_abs_error) == ("incorrect", 1.0, None)


OUTPUTS = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((3,), 2.0))

    def forward(self, x):
        return x * self.weight, {"positive": x > 0.5, "sum": x.sum()}

def get_inputs():
    return [torch.rand(2, 3)]
"""


def test_what_a_reference_computes_from_seeded_inputs(evaluator):
    first, second, again = evaluator.outputs(OUTPUTS, [1, 2, 1])
    assert first == again != second
    assert [output.shape for output in first] == [(2, 3), (2, 3), ()]
    product, positive, total = (output.values for output in first)
    assert sum(product) == pytest.approx(2 * total[0], rel=1e-5)
    assert positive == tuple(float(value > 1.0) for value in product)


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("x * self.weight,", "x.to(torch.complex64),", "An output is complex"),
        ("x * self.weight,", "x.new_zeros(1 << 19),", "at most 262144"),
        ("x * self.weight,", "1 / 0,", "ZeroDivisionError"),
    ],
)
def test_outputs_that_cannot_be_returned_are_the_problems_fault(evaluator, old, new, part):
    with pytest.raises(BadProblemError, match=part):
        evaluator.outputs(OUTPUTS.replace(old, new), [1])


@pytest.mark.parametrize("seeds", [[-1], [1 << 48], [1] * 65])
def test_seeds_have_a_range(evaluator, seeds):
    with pytest.raises(UsageError):
        evaluator.outputs(OUTPUTS, seeds)


def test_the_same_seed_gives_the_same_verdict(evaluator, add_problem, add_candidate):
    wrong = add_candidate.replace("mask=mask) + tl", "mask=mask) - tl")
    first, second = (evaluator.evaluate(add_problem, wrong, seed=3) for _ in range(2))
    assert first.error_message == second.error_message
    assert evaluator.evaluate(add_problem, wrong, seed=4).error_message != first.error_message


def test_a_ctrl_c_is_for_the_caller_alone(evaluator):
    """A terminal signals the foreground group: the judge and all that it starts are in another."""
    command = b"\0warpsmith.evaluator.judge.process\0"
    judges = [pid for pid in children(os.getpid()) if command in Path(f"/proc/{pid}/cmdline").read_bytes()]
    below = [child for pid in judges for child in children(pid)]
    assert judges
    assert below
    assert os.getpgrp() not in {os.getpgid(pid) for pid in [*judges, *below]}


def test_a_known_compilation_is_marked(evaluator, add_problem, add_candidate):
    source = add_candidate + "\n# distinguished by this line\n"
    assert not evaluator.evaluate(add_problem, source).compile_cached
    again = evaluator.evaluate(add_problem, source)
    assert (again.compile_cached, again.cached) == (True, False)


def test_many_at_once_from_threads_and_from_asyncio(evaluator, add_problem, add_candidate):
    wrong = add_candidate.replace("mask=mask) + tl", "mask=mask) * tl")
    sources = [add_candidate, wrong] * 4
    with ThreadPoolExecutor(8) as threads:
        verdicts = list(threads.map(lambda source: evaluator.evaluate(add_problem, source), sources))

    async def gather():
        return await asyncio.gather(*(evaluator.evaluate_async(add_problem, source) for source in sources))

    for found in (verdicts, asyncio.run(gather())):
        assert [verdict.status for verdict in found] == ["correct", "incorrect"] * 4


def test_a_bad_problem_is_an_error_of_its_own(evaluator, add_candidate):
    broken = Problem.from_source(
        "import torch\nclass Model(torch.nn.Module): pass\ndef get_inputs(): raise KeyError('x')\n"
    )
    with pytest.raises(BadProblemError, match="KeyError"):
        evaluator.evaluate(broken, add_candidate)


def test_a_degenerate_problem_is_refused_or_flagged(add_candidate, evaluator):
    source = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x, y): return (x + y) * 0\n"
    problem = Problem.from_source(source + "def get_inputs(): return [torch.randn(9), torch.randn(9)]\n")
    with pytest.raises(BadProblemError, match="degenerate"):
        evaluator.evaluate(problem, add_candidate)


def test_a_deadline_ends_a_sleeper(evaluator, add_problem):
    verdict = evaluator.evaluate(add_problem, SLOW_CANDIDATE, timeout_s=1.0)
    assert (verdict.status, verdict.error_category) == ("timeout", "timeout")
    assert verdict.flags == ()


def test_a_sleeper_in_company_is_blamed_at_once(evaluator, add_problem, add_candidate):
    with ThreadPoolExecutor(2) as threads:
        sleeper = threads.submit(evaluator.evaluate, add_problem, SLOW_CANDIDATE, timeout_s=8.0)
        honest = [threads.submit(evaluator.evaluate, add_problem, add_candidate) for _ in range(3)]
    assert (sleeper.result().status, sleeper.result().flags) == ("timeout", ())
    assert {found.result().status for found in honest} == {"correct"}


@pytest.fixture
def crowded_processor():
    """A processor with so many others on it that a candidate is at its wall clock's bound before its own time ends."""
    processor = min(os.sched_getaffinity(0))
    # Where the kernel shares processors out to sessions first, each has one of its own, as a worker has.
    command = [sys.executable, "-S", "-c", "while True: pass"]
    crowd = [subprocess.Popen(command, start_new_session=True) for _ in range(5)]
    for process in crowd:
        os.sched_setaffinity(process.pid, {processor})
    yield processor
    for process in crowd:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("starved_s", "on_cpu", "bound_reached", "kind"),
    [
        (None, False, False, SuspectError),
        (0.61, False, False, SuspectError),
        (0.59, False, False, CandidateFailedError),
        (None, True, False, SuspectError),
        (8.0, True, False, CandidateFailedError),
        (0.0, True, True, SuspectError),
    ],
)
def test_who_was_kept_from_running_is_suspected_alone(starved_s, on_cpu, bound_reached, kind):
    error = WorkerTimeoutError("candidate", 1.0, starved_s)
    found = overrun(error, 3.0, on_cpu=on_cpu, bound_reached=bound_reached)
    assert type(found) is kind
    assert found.failure.status == "timeout"
    uncounted = "within 3 s; time in which it waited for a processor does not count."
    assert (uncounted in found.failure.message) is on_cpu


def test_the_time_of_a_candidate_on_a_device_is_reported_as_it_is():
    found = overrun(WorkerTimeoutError("candidate", 1.0, 0.0), 3.0)
    assert "did not finish within 3 s. Look for" in str(found)
    assert "raise timeout_s" in str(found)


@pytest.mark.slow
@pytest.mark.long
def test_a_candidate_that_got_no_processor_in_company_is_tried_again_alone(add_problem, crowded_processor):
    busy = SLOW_CANDIDATE.replace("time.sleep(60)", "while True: pass")
    with Evaluator(EvaluatorConfig(slots=2, ready_workers=1)) as evaluator, ThreadPoolExecutor(2) as threads:
        for zygote in children(judge_of(evaluator)):
            # What it forks from then on is pinned with it.
            os.sched_setaffinity(zygote, {crowded_processor})
            for worker in children(zygote):
                os.sched_setaffinity(worker, {crowded_processor})
        found = [threads.submit(evaluator.evaluate, add_problem, source, timeout_s=1.0) for source in (busy, busy)]
    assert {verdict.result().status for verdict in found} == {"timeout"}
    assert {verdict.result().flags for verdict in found} == {("retried",)}


def test_a_caller_that_gives_up_disturbs_nobody(evaluator, add_problem, add_candidate):
    async def give_up():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(evaluator.evaluate_async(add_problem, SLOW_CANDIDATE, timeout_s=1.0), 0.2)
        return await evaluator.evaluate_async(add_problem, add_candidate)

    assert asyncio.run(give_up()).status == "correct"


@pytest.mark.parametrize(
    ("forward", "says"),
    [("import ctypes; return ctypes.string_at(0)", "signal 11"), ("import os; os._exit(3)", "exit code 3")],
)
def test_a_problem_whose_process_dies_is_a_bad_problem(evaluator, add_candidate, forward, says):
    source = f"import torch\nclass Model(torch.nn.Module):\n    def forward(self, x, y): {forward}\n"
    problem = Problem.from_source(source + "def get_inputs(): return [torch.randn(9), torch.randn(9)]\n")
    with pytest.raises(BadProblemError, match=says):
        evaluator.evaluate(problem, add_candidate)


def test_a_closed_evaluator_says_so(add_problem, add_candidate):
    evaluator = Evaluator()
    evaluator.close()
    with pytest.raises(EvaluatorError, match="closed"):
        evaluator.evaluate(add_problem, add_candidate)


def temporary_folder() -> Iterator[Path]:
    """A folder for temporary files, reachable for a worker that runs as another user."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


struck_folder = pytest.fixture(scope="module", name="struck_folder")(temporary_folder)


@pytest.fixture(scope="module")
def struck_evaluator(struck_folder):
    """One for all tests that kill its parts: each of them leaves it at work, except for the last."""
    running = Evaluator(EvaluatorConfig(slots=1, ready_workers=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(struck_folder))
        running.__enter__()
    yield running
    running.close()
    assert not list(struck_folder.glob("warpsmith-*"))


@pytest.fixture
def own_evaluator(struck_evaluator, struck_folder, add_problem, add_candidate, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(struck_folder))  # for a judge that is restarted
    assert struck_evaluator.evaluate(add_problem, add_candidate).status == "correct"
    return struck_evaluator


@pytest.mark.slow
def test_a_killed_judge_is_started_anew_and_leaves_nobody(own_evaluator, add_problem, add_candidate):
    judge = judge_of(own_evaluator)
    below, deadline = [], time.monotonic() + 60
    while len(below) < 4:
        assert time.monotonic() < deadline, below
        below = [pid for zygote in children(judge) for pid in (zygote, *children(zygote))]
    os.kill(judge, signal.SIGKILL)
    assert own_evaluator.evaluate(add_problem, add_candidate).status == "correct"
    assert judge_of(own_evaluator) != judge
    assert all(is_gone(pid) for pid in below)


def test_a_judge_sees_its_gpu_alone_from_its_first_moment(monkeypatch):
    # The driver reads the variable once: a process that sets it later sees the first GPU.
    started = []

    def start(command, **options):
        started.append(options["env"])
        raise OSError("not started")

    monkeypatch.setattr(subprocess, "Popen", start)
    for config in (EvaluatorConfig(device="cuda", gpu=3), EvaluatorConfig()):
        with pytest.raises(JudgeUnavailableError, match="not started"):
            Evaluator(config).__enter__()
    on_gpu, on_cpu = started
    assert (on_gpu["CUDA_VISIBLE_DEVICES"], on_gpu["CUDA_DEVICE_ORDER"]) == ("3", "PCI_BUS_ID")
    assert on_gpu["CUDA_DEVICE_MAX_CONNECTIONS"] == "1"
    assert on_gpu["PATH"] == os.environ["PATH"]
    assert on_cpu == dict(os.environ)


def kill_together(pids: list[int]) -> None:
    """Kill processes such that none lives to see another's death."""
    watched = [os.pidfd_open(pid) for pid in pids]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)
    for fd in watched:
        assert select.select([fd], [], [], 10)[0]
        os.close(fd)


def kill_parts(evaluator, folder, kept, problem, candidate):
    """Kill the zygotes, then everybody: what was kept on disk is `kept` folders before and after."""
    judge = judge_of(evaluator)
    assert evaluator.evaluate(problem, candidate).status == "correct"
    for zygote in children(judge):
        os.kill(zygote, signal.SIGKILL)
    assert evaluator.evaluate(problem, candidate).status == "correct"
    assert judge_of(evaluator) == judge
    zygotes = [zygote for zygote in children(judge) if not is_gone(zygote)]
    workers = [pid for zygote in zygotes for pid in children(zygote)]
    assert len(list(folder.glob("warpsmith-*"))) == kept
    kill_together([judge, *zygotes])
    assert evaluator.evaluate(problem, candidate).status == "correct"
    assert all(is_gone(pid) for pid in workers)
    assert len(list(folder.glob("warpsmith-*"))) == kept


@pytest.mark.slow
def test_zygotes_and_whole_families_that_were_killed_leave_no_folder(
    own_evaluator, struck_folder, add_problem, add_candidate
):
    """`struck_evaluator` looks once more when it has ended."""
    kept = 0 if _native.achievable_tier() == "namespaces" else 2
    kill_parts(own_evaluator, struck_folder, kept, add_problem, add_candidate)


@pytest.mark.slow
@pytest.mark.long
def test_without_isolation_killed_families_leave_no_folder(open_folder, add_problem, add_candidate):
    tiers = {"strongest_isolation": "none", "minimum_isolation": "none"}
    with started(EvaluatorConfig(slots=1, ready_workers=1, **tiers)) as evaluator:
        kill_parts(evaluator, open_folder, 2, add_problem, add_candidate)
    assert not list(open_folder.glob("warpsmith-*"))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("tier", ["namespaces", "none"])
def test_what_a_whole_family_killed_together_leaves_is_gone_with_the_next_start(tier, open_folder):
    code = (
        "import sys\nfrom warpsmith.evaluator import Evaluator, EvaluatorConfig\n"
        "tier = sys.argv[1]\n"
        "config = EvaluatorConfig(slots=1, ready_workers=1, strongest_isolation=tier, minimum_isolation=tier)\n"
        "evaluator = Evaluator(config).__enter__()\nprint('started', flush=True)\nsys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, tier]
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert client.stdout.readline() == "started\n"
    (judge,) = children(client.pid)
    kill_together([client.pid, judge, *children(judge)])
    client.communicate()
    with started(EvaluatorConfig(slots=1, ready_workers=1)):
        assert not list(open_folder.glob("warpsmith-*"))
    assert not list(open_folder.glob("warpsmith-*"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "times"),
    [
        *(("worker", 1), ("zygote", 1)),
        # Each judge takes ten seconds to start; the two tests of killed judges are in every run.
        *(pytest.param(part, 12, marks=pytest.mark.long) for part in ("worker", "zygote", "judge")),
    ],
)
def test_a_part_killed_at_a_random_moment_costs_no_verdict(part, times, own_evaluator, add_problem, add_candidate):
    seed = random.SystemRandom().getrandbits(32)
    print(f"moments of {seed}")
    moments = random.Random(seed)
    with ThreadPoolExecutor(1) as threads:
        for number in range(times):
            judge = judge_of(own_evaluator)
            zygotes = children(judge)
            victims = {"judge": [judge], "zygote": zygotes, "worker": [w for each in zygotes for w in children(each)]}
            asked = threads.submit(own_evaluator.evaluate, add_problem, f"{add_candidate}\n# {number}\n")
            wait([asked], moments.uniform(0, 0.25))
            with contextlib.suppress(ProcessLookupError):
                os.kill(moments.choice(victims[part]), signal.SIGKILL)
            assert asked.result().status == "correct", (number, asked.result())


@pytest.mark.slow
def test_a_judge_killed_twice_is_invalid(own_evaluator, add_problem):
    """The last test of this evaluator: the next would wait until a judge runs again."""
    killed = []

    def kill(_running):
        """Called when a judge has begun with the request."""
        killed.append(judge_of(own_evaluator))
        os.kill(killed[-1], signal.SIGKILL)

    verdict = asyncio.run(own_evaluator.evaluate_async(add_problem, SLOW_CANDIDATE, on_running=kill))
    assert verdict.status == "invalid"
    assert len({*killed}) == 2


@pytest.mark.slow
@pytest.mark.long
def test_a_killed_client_leaves_nobody():
    code = (
        "import sys\nfrom warpsmith.evaluator import Evaluator, EvaluatorConfig\n"
        "evaluator = Evaluator(EvaluatorConfig(slots=1, ready_workers=1)).__enter__()\n"
        "print('started', flush=True)\nsys.stdin.read()\n"
    )
    client = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert client.stdout.readline() == "started\n"
    (judge,) = children(client.pid)
    family = [judge, *children(judge)]
    watched = [os.pidfd_open(pid) for pid in family]
    client.kill()
    client.communicate()
    for fd in watched:
        assert select.select([fd], [], [], 30)[0], "a process outlived its client by 30 s"
        os.close(fd)


STALLING_CANDIDATE = """
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, times, TIMES: tl.constexpr):
    if times > 0:
        for _ in tl.static_range(TIMES):
            times = times + 1
    tl.store(x_ptr, times)

class ModelNew(nn.Module):
    def forward(self, x, y):
        out = x.new_empty(x.shape)
        kernel[(1,)](out, 0, TIMES=100_000_000)
        return out
"""


def compiles(judge: int) -> bool:
    """Whether a worker of this judge uses the processor for longer than any honest compilation."""
    ticks = os.sysconf("SC_CLK_TCK")
    for pid in [worker for zygote in children(judge) for worker in children(zygote)]:
        with contextlib.suppress(OSError):
            used = sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
            if used > 1.5 * ticks:
                return True
    return False


@pytest.mark.slow
def test_a_client_killed_in_the_middle_of_a_compilation_leaves_nobody(add_problem, open_folder):
    code = (
        "import sys\nfrom warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem\n"
        "evaluator = Evaluator(EvaluatorConfig(slots=1, ready_workers=1)).__enter__()\n"
        "print('started', flush=True)\n"
        "evaluator.evaluate(Problem.from_source(sys.argv[1], 'add'), sys.argv[2])\n"
    )
    command = [sys.executable, "-c", code, add_problem.source, STALLING_CANDIDATE]
    client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert client.stdout.readline() == "started\n"
    (judge,) = children(client.pid)
    while not compiles(judge):
        assert client.poll() is None, "the compilation ended by itself"
    zygotes = children(judge)
    family = [judge, *zygotes, *(worker for zygote in zygotes for worker in children(zygote))]
    watched = [os.pidfd_open(pid) for pid in family if not is_gone(pid)]
    assert len(watched) >= 5
    client.kill()
    client.communicate()
    for fd in watched:
        assert select.select([fd], [], [], 60)[0], "a process outlived its client by a minute"
        os.close(fd)
    assert not list(open_folder.glob("warpsmith-*"))


def test_workers_killed_from_outside_are_not_the_candidates_fault(evaluator, add_problem, add_candidate):
    slow = add_candidate.replace("out = torch.empty_like(x)", "time.sleep(0.2)\n        out = torch.empty_like(x)")
    source = "import time\n" + slow
    assert evaluator.evaluate(add_problem, source, trials=2).status == "correct"
    judge = judge_of(evaluator)
    before = {pid for zygote in children(judge) for pid in children(zygote)}
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(evaluator.evaluate, add_problem, source, trials=2)
        taken = set()
        while not taken:  # the pool refills as soon as a worker is taken
            taken = {pid for zygote in children(judge) for pid in children(zygote)} - before
        os.kill(judge, signal.SIGSTOP)  # all die at once, as when the machine runs out of memory
        for pid in before:
            with contextlib.suppress(ProcessLookupError):  # the last evaluation's own may just be gone
                os.kill(pid, signal.SIGKILL)
        os.kill(judge, signal.SIGCONT)
        verdict = asked.result(timeout=60)
    assert verdict.status == "correct", verdict


@pytest.fixture
def open_folder(monkeypatch):
    """The folder for temporary files of one test."""
    with contextlib.contextmanager(temporary_folder)() as folder:
        monkeypatch.setenv("TMPDIR", str(folder))
        yield folder


def started(config: EvaluatorConfig) -> Evaluator:
    try:
        return Evaluator(config).__enter__()
    except IsolationUnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["landlock", pytest.param("none", marks=pytest.mark.long)])
def test_weaker_tiers_judge_the_same_and_leave_no_scratch(tier, add_problem, add_candidate, open_folder):
    config = EvaluatorConfig(slots=1, ready_workers=1, strongest_isolation=tier, minimum_isolation=tier)
    with started(config) as evaluator:
        right = evaluator.evaluate(add_problem, add_candidate)
        wrong = evaluator.evaluate(add_problem, add_candidate.replace("mask=mask) + tl", "mask=mask) - tl"))
        late = evaluator.evaluate(add_problem, SLOW_CANDIDATE, timeout_s=1.0)
    assert [verdict.status for verdict in (right, wrong, late)] == ["correct", "incorrect", "timeout"]
    assert {verdict.isolation_tier for verdict in (right, wrong)} == {tier}
    assert not list(open_folder.glob("warpsmith-*"))


def test_tiers_that_contradict_each_other_are_refused():
    with pytest.raises(ValidationError, match="weaker"):
        EvaluatorConfig(strongest_isolation="none", minimum_isolation="landlock")


def test_workers_are_ready_single_use_and_contained(machine: Machine):
    worker = machine.take("candidate", 30)
    assert worker.alive
    assert worker.tier in {"namespaces", "landlock"}
    other = machine.take("candidate", 30)
    assert other.pid != worker.pid
    for each in (worker, other):
        each.close()
        assert each.ended.result(timeout=10).signal == signal.SIGKILL


@pytest.mark.parametrize("role", ["candidate", "reference", "compile"])
def test_a_worker_that_was_killed_but_is_not_yet_gone_is_given_to_nobody(machine: Machine, role, monkeypatch):
    monkeypatch.setattr("warpsmith.evaluator.processes.worker._has_ended", lambda pidfd: False)
    killed = [machine.take(role, 30) for _ in range(3)]
    for worker in killed:
        worker.kill()
        machine.pools[role].give_back(worker)
    for _ in range(5):
        worker = machine.take(role, 30)
        assert worker not in killed
        assert worker.answers(10)
        worker.close()


def test_a_killed_worker_is_noticed(machine: Machine):
    worker = machine.take("reference", 30)
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(WorkerDiedError, match="signal 9"):
        worker.receive(10)
    worker.close()
