"""What a compilation lacked is the machine's, unless its input used it up; the message names the limit to raise."""

import errno
import os
import subprocess
import sys
import textwrap
import threading
from types import SimpleNamespace

import pytest

from warpsmith.evaluator import Problem, _native
from warpsmith.evaluator.judge.service import Line, Service
from warpsmith.evaluator.languages.triton import compile_source as compiler
from warpsmith.evaluator.languages.triton.kernel_set import KernelCompilationError
from warpsmith.evaluator.sandbox.roles import EXHAUSTED_CODE
from warpsmith.evaluator.system.exhaustion import OF_MACHINE, is_exhaustion, is_machines, with_advice

HALF = 512 << 10
MEASURED = """\
import errno, pathlib, sys
from warpsmith.evaluator.languages.triton import compile_source as compiler
scratch = pathlib.Path(sys.argv[1])
print(*(compiler.lacked_by_the_machine(OSError(int(number), "x"), scratch) for number in sys.argv[2:]))
"""


@pytest.fixture
def measured(tmp_path):
    """Tells whether errors are the machine's where a scratch folder of 1 MiB holds some bytes, and mounts some."""
    scratch, library = tmp_path / "scratch", tmp_path / "library"
    for folder in (scratch, library):
        folder.mkdir()
    (library / "large").write_bytes(b"x" * 2 * HALF)
    (tmp_path / "measured.py").write_text(MEASURED)

    def run(written: int, *numbers: int) -> list[str]:
        script = f"""\
            mount -t tmpfs -o size={2 * HALF} scratch {scratch} && mkdir -p {scratch}/lib/mounted &&
            mount --bind {library} {scratch}/lib/mounted && head -c {written} /dev/zero > {scratch}/written &&
            exec {sys.executable} {tmp_path}/measured.py {scratch} {" ".join(map(str, numbers))}
        """
        command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", textwrap.dedent(script)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if "unshare failed" in done.stderr or "permission denied" in done.stderr.lower():
            pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    return run


def test_libraries_that_are_mounted_below_a_scratch_folder_take_no_room_of_it(measured):
    assert measured(100, errno.ENOSPC, errno.ENOMEM) == ["True", "True"]


def test_room_that_the_input_used_up_is_its_own_doing(measured):
    assert measured(HALF, errno.ENOSPC, errno.EAGAIN, errno.EMFILE) == ["False", "True", "True"]


@pytest.mark.parametrize("number", sorted(OF_MACHINE))
def test_what_no_input_exhausts_is_the_machines_however_it_is_wrapped(number, tmp_path):
    error = KernelCompilationError("BlockingIOError: ptxas")
    error.__cause__ = OSError(number, "ran out")
    assert is_machines(error)
    assert compiler.lacked_by_the_machine(error, tmp_path)


@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.ENOSPC, "full"), OSError(errno.ENOMEM, "none left")])
def test_memory_and_room_may_be_the_inputs_doing(error):
    assert is_exhaustion(error)
    assert not is_machines(error)


@pytest.mark.parametrize("error", [ValueError("x"), OSError(errno.ENOENT, "x"), RuntimeError("x"), KeyError()])
def test_other_errors_say_nothing_of_a_lack(error):
    assert not is_exhaustion(error)
    assert with_advice(error) == str(error)


@pytest.mark.parametrize(
    ("error", "limit"),
    [
        (BlockingIOError(errno.EAGAIN, "unavailable", "/bin/ptxas"), "ulimit -u"),
        (RuntimeError("can't start new thread"), "ulimit -u"),
        (OSError(errno.EMFILE, "too many"), "ulimit -n"),
        (OSError(errno.ENOSPC, "full"), "TMPDIR"),
        (MemoryError(), "ulimit -v"),
    ],
)
def test_a_lack_is_with_advice_with_the_limit_to_raise(error, limit):
    message = with_advice(error)
    assert limit in message
    assert message.startswith(str(error) or type(error).__name__)


FORWARD = "def forward(self, x, y):\n"
LACKED = f"import os; os._exit({EXHAUSTED_CODE})"


def test_a_candidate_that_says_it_lacked_something_is_blamed_after_one_more_try(evaluator, add_problem, add_candidate):
    verdict = evaluator.evaluate(add_problem, add_candidate.replace(FORWARD, f"{FORWARD}        {LACKED}\n"), trials=2)
    assert (verdict.status, verdict.error_category) == ("runtime_error", "out_of_memory")
    assert "retried" in verdict.flags


def test_a_reference_that_lacked_something_makes_nobody_wrong(evaluator, add_problem, add_candidate):
    source = add_problem.source.replace("return x + y", f"return (x + y, exec({LACKED!r}))[0]")
    verdict = evaluator.evaluate(Problem.from_source(source, "lacks"), add_candidate, trials=2)
    assert verdict.status == "invalid"
    assert "ulimit -v" in verdict.error_message


def test_all_threads_of_a_judge_run_before_it_says_that_it_is_ready(config):
    channel, fd = _native.Channel.pair()
    service = Service(Line(channel), SimpleNamespace(config=config))
    try:
        assert {"slot_0", "slot_1"} <= {thread.name for thread in threading.enumerate()}
    finally:
        os.close(fd)
        with pytest.raises(_native.PeerClosed):
            service.serve()
