"""What the machine lacks is nobody's mistake: each call of judge, zygote and compile worker fails once, and for good.

A call that fails once costs an attempt at most. One that fails for good makes the verdict `invalid` with the cause, or
is an error that names it; never `compile_error`, never `incorrect`, never a wait without an end.
"""

import errno
import json
import os
import select
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from injection import Injector

from warpsmith.evaluator import EvaluatorConfig

SUPPORT = Path(__file__).parents[1] / "support"
ANSWER_S = 90.0
MOST_CALLS = 500
CONFIG = EvaluatorConfig(slots=1, ready_workers=1, timeout_s=20, start_timeout_s=40)


class Asked:
    """An evaluator in a process of its own, whose calls an injector answers."""

    def __init__(self, process: "subprocess.Popen[str]", injector: Injector) -> None:
        self.process = process
        self.injector = injector
        self.count = 0

    def answer(self) -> dict:
        assert select.select([self.process.stdout], [], [], ANSWER_S)[0], "it waits without an end"
        return json.loads(self.process.stdout.readline())

    def evaluate(self, problem: str, candidate: str) -> dict:
        # Another source each time, so that nothing was compiled before.
        self.count += 1
        asked = {"problem": problem, "candidate": f"{candidate}\n# {self.count}\n"}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return self.answer()


@contextmanager
def started(config: EvaluatorConfig = CONFIG):
    ours, theirs = os.pipe()
    line = [
        sys.executable,
        str(SUPPORT / "injection.py"),
        str(theirs),
        sys.executable,
        str(SUPPORT / "asked_evaluator.py"),
    ]
    process = subprocess.Popen(
        [*line, config.model_dump_json()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[theirs],
        text=True,
    )
    try:
        os.close(theirs)
        with Injector(process.pid, ours) as injector:
            yield Asked(process, injector)
            injector.stop()
            process.stdin.close()
            process.wait(60)
    finally:
        os.close(ours)
        process.kill()
        process.wait(60)


@pytest.fixture(scope="module")
def asked():
    with started() as running:
        assert running.answer() == {"ready": True}
        yield running


def is_honest(found: dict) -> bool:
    """Whether a right candidate got its verdict, or the evaluator says that it failed."""
    return found.get("status") in {"correct", "invalid"} or found.get("raised") == "JudgeUnavailableError"


STEPS = [
    ("zygote", "fork"),
    ("zygote", "descriptor"),
    ("zygote", "memory"),
    ("zygote", "message"),
    ("judge", "memory"),
    ("judge", "descriptor"),
    ("judge", "message"),
    ("worker", "fork"),
    ("worker", "exec"),
    ("worker", "file"),
    ("worker", "memory"),
    ("assembler", "memory"),
    ("assembler", "descriptor"),
    ("assembler", "file"),
]


def each_role_once():
    """Return a step of each role for the short tests, and the others for the long ones."""
    roles: set[str] = set()
    for role, kind in STEPS:
        yield pytest.param(role, kind, marks=[pytest.mark.long] if role in roles else [])
        roles.add(role)


@pytest.mark.slow
@pytest.mark.parametrize(("role", "kind"), [*each_role_once()])
def test_a_call_that_fails_once_costs_no_verdict(asked, add_problem, add_candidate, role, kind):
    if role == "worker" and kind in {"file", "fork"}:
        pytest.skip("a candidate's own worker makes such calls as well")
    wanted = asked.injector.fail(role, kind)
    found = asked.evaluate(add_problem.source, add_candidate)
    asked.injector.stop()
    assert found.get("status") == "correct", (wanted.struck, found.get("error_category"), found.get("error_message"))
    assert asked.evaluate(add_problem.source, add_candidate)["status"] == "correct"


@pytest.mark.slow
@pytest.mark.parametrize(("role", "kind"), [*each_role_once()])
def test_what_fails_for_good_is_invalid_and_passes(asked, add_problem, add_candidate, role, kind):
    if role == "worker" and kind in {"file", "memory"}:
        pytest.skip("a candidate's own worker makes such calls as well")
    wanted = asked.injector.fail(role, kind, times=1 << 30)
    found = asked.evaluate(add_problem.source, add_candidate)
    asked.injector.stop()
    assert is_honest(found), (wanted.struck, found.get("error_category"), found.get("error_message"))
    assert wanted.struck
    assert asked.evaluate(add_problem.source, add_candidate)["status"] == "correct"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fork", "exec"])
def test_an_assembler_that_starts_for_other_kernels_alone_blames_nobody(asked, add_problem, add_candidate, kind):
    # Each second time it starts: for the trusted kernel that follows, if one does.
    wanted = asked.injector.fail("worker", kind, times=1 << 30, errors=(errno.EAGAIN,), every=2)
    found = asked.evaluate(add_problem.source, add_candidate)
    asked.injector.stop()
    assert is_honest(found), (wanted.struck, found.get("error_category"), found.get("error_message"))
    assert wanted.struck


@pytest.mark.slow
def test_what_a_source_lacks_counts_when_it_lacks_it_twice(asked, add_problem, add_candidate):
    # Nobody's doing, then what may be the source's: the trusted kernel after it assembles, and so does the next try.
    wanted = asked.injector.fail("worker", "fork", times=2, errors=(errno.EAGAIN, errno.ENOMEM))
    found = asked.evaluate(add_problem.source, add_candidate)
    asked.injector.stop()
    assert (found["status"], wanted.struck) == ("correct", ["clone", "clone"]), found.get("error_message")


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("role", "kind"), [step for step in STEPS if step != ("worker", "file")])
def test_each_call_may_fail_once(asked, add_problem, add_candidate, role, kind):
    wrong = []
    for number in range(1, MOST_CALLS):
        wanted = asked.injector.fail(role, kind, number)
        found = asked.evaluate(add_problem.source, add_candidate)
        if not wanted.struck:
            break
        if not is_honest(found):
            wrong.append((number, wanted.struck, found.get("status"), found.get("error_message"), found.get("message")))
    asked.injector.stop()
    assert not wrong
    assert 1 < number < MOST_CALLS - 1
    assert asked.evaluate(add_problem.source, add_candidate)["status"] == "correct"
