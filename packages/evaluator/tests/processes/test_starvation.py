"""A candidate's worker that is kept from its processor is not blamed for the time, and one that only waits is."""

import copy
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from warpsmith.evaluator.judge.compiling.service import CompileService
from warpsmith.evaluator.judge.conversation import Conversation
from warpsmith.evaluator.judge.judge import Judge
from warpsmith.evaluator.processes import worker as workers
from warpsmith.evaluator.processes.machine import Machine

LIMIT_S = 3.0
CROWD = 3
FORWARD = "    def forward(self, x, y):\n"
KEPT_WAITING = f"""\
import time
began, ran = time.monotonic(), time.thread_time()
while time.monotonic() - began - (time.thread_time() - ran) < {LIMIT_S + 1.0}:
    pass
"""
"""Ends once it has waited for a processor for longer than the limit, however many others there are."""


@pytest.fixture
def crowded_processor():
    """A processor with others on it that never rest."""
    if not Path("/proc/self/schedstat").exists():
        pytest.skip("this kernel does not account for the time without a processor")
    processor = min(os.sched_getaffinity(0))
    # Where the kernel shares processors out to sessions first, each has one of its own, as a worker has.
    command = [sys.executable, "-S", "-c", "while True: pass"]
    crowd = [subprocess.Popen(command, start_new_session=True) for _ in range(CROWD)]
    for process in crowd:
        os.sched_setaffinity(process.pid, {processor})
    yield processor
    for process in crowd:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def running(config):
    judge = Judge(config.model_copy(update={"slots": 1}))
    yield judge
    judge.close()


@pytest.fixture
def crowded(running, add_problem, add_candidate, crowded_processor, monkeypatch):
    """A judge whose workers of candidates are on the crowded processor, and no others."""
    assert running.evaluate(add_problem, add_candidate, trials=1, seed=None, timeout_s=60.0).status == "correct"
    take = Machine.take

    def pinned(self, role, timeout_s):
        worker = take(self, role, timeout_s)
        if role in {"host", "candidate"}:
            os.sched_setaffinity(worker.pid, {crowded_processor})
        return worker

    monkeypatch.setattr(Machine, "take", pinned)
    return running


@pytest.fixture
def waited(monkeypatch):
    """A function that returns for how long workers waited in all for a processor, in seconds that did not count."""
    conversations = []
    create = Conversation.__init__

    def created(self, *arguments):
        create(self, *arguments)
        conversations.append(self)

    monkeypatch.setattr(Conversation, "__init__", created)
    return lambda: sum(conversation.waited_s for conversation in conversations)


def test_time_without_a_processor_does_not_count(crowded, waited, add_problem, add_candidate):
    verdict = crowded.evaluate(add_problem, KEPT_WAITING + add_candidate, trials=1, seed=None, timeout_s=LIMIT_S)
    assert verdict.status == "correct", verdict
    assert (verdict.recording, verdict.flags) == ("detached", ())
    assert LIMIT_S < waited() <= 3 * LIMIT_S


def test_a_sleeper_is_given_no_time_beside_others(crowded, waited, add_problem, add_candidate):
    source = add_candidate.replace(FORWARD, f"{FORWARD}        import time; time.sleep(600)\n")
    verdict = crowded.evaluate(add_problem, source, trials=1, seed=None, timeout_s=LIMIT_S)
    assert (verdict.status, verdict.flags) == ("timeout", ())
    assert verdict.error_message == (
        "The candidate did not finish within 3 s; time in which it waited for a processor does not count. Look for an "
        "endless loop, do less work, or raise timeout_s."
    )
    # What its own start takes on such a processor.
    assert waited() < LIMIT_S


def test_a_loop_without_end_is_given_four_times_its_time_at_most(crowded, waited, add_problem, add_candidate):
    source = add_candidate.replace(FORWARD, f"{FORWARD}        while True: pass\n")
    verdict = crowded.evaluate(add_problem, source, trials=1, seed=None, timeout_s=1.0)
    assert verdict.status == "timeout"
    assert 1.0 < waited() <= 3.0


def test_on_a_device_all_time_counts(crowded, waited, add_problem, add_candidate, monkeypatch):
    create = Conversation.__init__
    monkeypatch.setattr(
        Conversation,
        "__init__",
        lambda self, machine, config, evidence: create(
            self, machine, config.model_copy(update={"device": "cuda"}), evidence
        ),
    )
    verdict = crowded.evaluate(add_problem, KEPT_WAITING + add_candidate, trials=1, seed=None, timeout_s=LIMIT_S)
    assert verdict.status == "timeout"
    assert verdict.error_message.startswith("The candidate did not finish within 3 s. Look for")
    assert waited() == 0


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
LAUNCH = {
    "kernel": "kernel",
    "arguments": {"out_ptr": ["tensor", "float32", True], "TIMES": ["value", 100_000_000]},
    "options": {},
}


@pytest.fixture
def hurried(machine):
    """A compile service whose limit is a second."""
    own = copy.copy(machine)
    own.config = machine.config.model_copy(update={"compile_timeout_s": 1.0})
    service = CompileService(own)
    yield service
    service.close()


@pytest.mark.long  # a candidate's worker waits above, and the limit is the same
def test_a_compiler_that_waits_for_a_processor_is_given_four_times_its_time_at_most(
    hurried, crowded_processor, monkeypatch
):
    take = Machine.take

    def pinned(self, role, timeout_s):
        worker = take(self, role, timeout_s)
        os.sched_setaffinity(worker.pid, {crowded_processor})
        return worker

    monkeypatch.setattr(Machine, "take", pinned)
    command = [sys.executable, "-S", "-c", "while True: pass"]
    more = [subprocess.Popen(command, start_new_session=True) for _ in range(2 * CROWD)]
    try:
        for process in more:
            os.sched_setaffinity(process.pid, {crowded_processor})
        began = time.monotonic()
        job = hurried.start(ENDLESS, [LAUNCH])
        # One that waited so long is tried again, and then nobody's failure.
        assert job.future.exception(timeout=60) is not None
        assert time.monotonic() - began > 2 * 3.0
    finally:
        for process in more:
            process.kill()
            process.wait()


@pytest.mark.parametrize("starved", [0.0, 1.0, pytest.param(2.5, marks=pytest.mark.long)])
def test_a_compiler_whose_waiting_was_made_up_for_is_not_tried_again(hurried, monkeypatch, starved):
    """Whoever compiles without end beside others must not end as a failure of the evaluator."""
    overrun, asked = workers.Worker._overrun, []

    def waited(self):
        asked.append(time.monotonic())
        return workers.WorkerTimeoutError(self.role, overrun(self).cpu_seconds, starved)

    monkeypatch.setattr(workers.Worker, "_overrun", waited)
    began = time.monotonic()
    found = hurried.start(ENDLESS, [LAUNCH]).future.result(timeout=60)
    assert (found.ok, found.category) == (False, "timeout")
    assert len(asked) == (2 if starved else 1)
    assert asked[-1] - began >= 1.0 + starved


def test_what_the_processes_of_a_compiler_wait_counts_as_its_own(crowded_processor):
    spin = "import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', 'while True: pass'])"
    parent = subprocess.Popen([sys.executable, "-S", "-c", spin], start_new_session=True)
    try:
        os.sched_setaffinity(parent.pid, {crowded_processor})
        deadline = time.monotonic() + 30
        while not (children := list(workers._descendants(parent.pid))) or workers._delay_of(children[0]) < 0.5:
            assert time.monotonic() < deadline, "it has the processor for itself"
            time.sleep(0.1)
    finally:
        subprocess.run(["pkill", "-9", "-s", str(parent.pid)], check=False)
        parent.wait()
    assert workers._delay_of(parent.pid) == 0.0
    assert list(workers._descendants(parent.pid)) == []
