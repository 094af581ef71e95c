"""A fault of the problem is the problem's, and standard streams that nobody reads hold nobody up."""

import os
import signal
import subprocess
import sys

import pytest

from warpsmith.evaluator import BadProblemError, Problem
from warpsmith.evaluator.reference.session import ReferenceFaultError, ReferenceSession

MODEL = """\
import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, x):
        return {answer}
def get_inputs():
    return [torch.rand(30, 50) * 4]
"""
CANDIDATE = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def k(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n).to(tl.int32).to(tl.{kind}), mask=i < n)

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape, dtype=torch.{kind}, device=x.device)
        k[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
"""
BYTES = """
import os
def spoil():
    for fd in range(3, 64):
        try:
            os.write(fd, b"rubbish " * {times})
        except OSError:
            pass
"""
FRAME = """
def spoil():
    import sys
    from warpsmith.evaluator.ipc import messages as protocol
    frame = sys._getframe()
    while "channel" not in frame.f_locals:
        frame = frame.f_back
    protocol.send(frame.f_locals["channel"], protocol.Kind.{kind}, {fields})
"""
SPOILT = MODEL.format(answer="(spoil(), x * 2)[1]")
RUBBISH = {
    "bytes": SPOILT + BYTES.format(times=1),
    "many_bytes": SPOILT + BYTES.format(times=20_000),
    "kind": SPOILT + FRAME.format(kind="READY", fields={"a": 1}),
    "fields": SPOILT + FRAME.format(kind="ANSWERED", fields={"a": 1}),
    "lengths": SPOILT
    + FRAME.format(kind="ANSWERED", fields={"answer": {"output": 1}, "exact": [True], "collected": False}),
}


@pytest.mark.parametrize("name", RUBBISH)
def test_what_a_problem_writes_to_its_channel_is_the_problems_fault(evaluator, add_candidate, name):
    with pytest.raises(BadProblemError, match="invalid answer"):
        evaluator.evaluate(Problem.from_source(RUBBISH[name], name), add_candidate)
    assert evaluator.judges_lost == 0


@pytest.mark.parametrize("kind", ["uint16", "uint32", "uint64"])
def test_an_output_of_an_unsigned_dtype_is_judged(evaluator, kind):
    problem = Problem.from_source(MODEL.format(answer=f"x.to(torch.int32).to(torch.{kind})"), kind)
    assert evaluator.evaluate(problem, CANDIDATE.format(kind=kind), trials=2).status == "correct"
    wrong = CANDIDATE.format(kind=kind).replace("tl.load(x + i, mask=i < n)", "(tl.load(x + i, mask=i < n) + 1)")
    assert evaluator.evaluate(problem, wrong, trials=2).status == "incorrect"


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e8m0fnu", "complex32"])
def test_an_output_of_a_rare_dtype_is_no_failure_of_the_evaluator(evaluator, kind):
    problem = Problem.from_source(MODEL.format(answer=f"x.to(torch.{kind})"), kind)
    candidate = CANDIDATE.replace("tl.{kind}", "float32").format(kind=kind)
    assert evaluator.evaluate(problem, candidate, trials=2).status != "invalid"


def test_a_session_goes_on_after_a_restart(machine):
    source = MODEL.format(answer="x * 2 if len(x) > 20 else __import__('os')._exit(1)").replace("30, 50", "ROWS, 50")
    session = ReferenceSession(machine, f"ROWS = 30\n{source}", init_seed=7)
    try:
        session.make_inputs(1)
        before = session.answer(0).expected[0].value
        session.make_inputs(1, {"ROWS": 9})
        with pytest.raises(ReferenceFaultError, match="exit code 1"):
            session.answer(0)
        session.restart()
        session.make_inputs(1)
        assert session.answer(0).expected[0].value.equal(before)
    finally:
        session.close()


@pytest.fixture
def check(tmp_path, add_problem, add_candidate):
    """Runs `check` with what a child does first, and returns its exit code and what it printed."""
    (tmp_path / "problem.py").write_text(add_problem.source)
    (tmp_path / "candidate.py").write_text(add_candidate)

    def run(first, **options):
        command = [sys.executable, "-m", "warpsmith.evaluator", "check", "problem.py", "candidate.py", "--json"]
        done = subprocess.run(
            command, preexec_fn=first, cwd=tmp_path, check=False, stdout=subprocess.PIPE, timeout=90, **options
        )
        return done.returncode, done.stdout

    return run


@pytest.mark.long  # among all standard descriptors that are closed below
def test_a_closed_stderr_holds_nobody_up(check):
    code, printed = check(lambda: os.close(2))
    assert (code, b'"status": "correct"' in printed) == (0, True)


def test_a_stderr_that_nobody_reads_any_more_and_an_ignored_sigchld_hold_nobody_up(check):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as broken:
        code, printed = check(lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN), stderr=broken)
    assert (code, b'"status": "correct"' in printed) == (0, True)


def test_all_standard_descriptors_may_be_closed(check):
    assert check(lambda: os.closerange(0, 3))[0] == 0
