"""Every file beside this one is a candidate with the verdict it must get; each is found by its name.

A file's head says which problem it is for (`# problem: add`), which statuses it may end in (`# permitted: incorrect,
rejected`), which flags it must carry (`# flags: torch_fallback`) and, where it makes system calls by number, on which
machine (`# machine: x86_64`). `# seconds: 2` gives one that never ends so much time instead of the others' 10, and
`# slow: why` leaves one that must take long out of `make test-fast`. `controls/` must be correct, `wrong/` never.
README.md has a row for each kind of attack.

`# operators: library` names the policy that it is judged under, where that is not `none`.

An attack on the clock may be `correct`; then it takes the time of the honest kernel that it names (`# timed like:`).
`# device: cuda` (or `cpu`) keeps a file to one device; without it both judge it. `# permitted on cuda:` and
`# flags on cpu:` say what holds on one device where the other ends differently. `--attack-device` chooses the device.
`# permitted apart:` and `# flags apart:` say what holds where host code is detached (`--attack-host`): it has no device
there, and none of its results is left to be distinguished from a kernel's.

An attack on the sandbox defines `succeeded()` and is right only where that says so: `correct` would tell of a hole.
"""

import ctypes
import gc
import math
import os
import platform
import re
import shutil
import socket
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem
from warpsmith.evaluator.languages.triton.extract.extraction import extract
from warpsmith.evaluator.verdict import Verdict
from warpsmith.records.schema import VERDICT

HERE = Path(__file__).parent
STATUSES = {"correct", "incorrect", "compile_error", "runtime_error", "timeout", "rejected", "undecided"}
NO_CANDIDATES = {"test_attacks.py", "test_cuda_cpp.py", "conftest.py"}
FOLDERS = {"control": "controls", "mistake": "wrong", "attack": "."}
"""Where the candidates lie that a test takes under each of these names; conftest.py makes its parameters of them."""
MEMORY_BYTES = {"cpu": 1 << 30, "cuda": 4 << 30}
DEVICES = tuple(MEMORY_BYTES)
LEAST_SHARE_OF_HONEST_TIME = 0.9
TIMEOUT_S = 10.0
HONEST_TIMEOUT_S = 60.0
"""Nothing is to be learnt from it: an interpreted convolution takes 6 s alone, and more than ten beside other tests."""
COMPILE_TIMEOUT_S = 12.0


def _head(path: Path, name: str) -> set[str]:
    found = re.search(rf"^# {name}: (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {part.strip() for part in found[1].split(",")} if found else set()


def _head_on(path: Path, name: str, device: str, *, detached: bool = False) -> set[str]:
    """Return what a head says for host code that is detached, or else for one device, or else for both."""
    said = _head(path, f"{name} detached") if detached else set()
    return (said or _head(path, f"{name} on {device}") or _head(path, name)) - {"none"}


def is_slow(path: Path) -> bool:
    """Whether its head says why it takes long."""
    return bool(_head(path, "slow"))


def _every_file(folder: str) -> list[Path]:
    return sorted(path for path in (HERE / folder).glob("*.py") if path.name not in NO_CANDIDATES)


def files(folder: str, device: str) -> list[Path]:
    """Return the candidates of a folder that `device` is to judge."""
    return [path for path in _every_file(folder) if device in (_head(path, "device") or {device})]


@dataclass(frozen=True)
class _Machine:
    """What this test's process owns: everything that an attack could leave behind shows in one of these."""

    descriptors: list[str]
    children: list[str]
    files: list[Path]

    @staticmethod
    def now(folder: Path) -> "_Machine":
        # What earlier tests left to the collector may hold descriptors, and go at any time.
        gc.collect()
        own = Path("/proc/self")
        children = (own / f"task/{os.getpid()}/children").read_text().split()
        places = [Path("/tmp"), Path("/dev/shm"), Path("/"), Path.home(), Path.cwd()]
        left = [path for place in places for path in place.glob("warpsmith-attack-*")]
        # The lease of a device stays for the next judge.
        own_files = [path for path in folder.iterdir() if not path.name.startswith("warpsmith-device-")]
        return _Machine(sorted(os.listdir(own / "fd")), children, [*left, *own_files])


@pytest.fixture(scope="module")
def bait() -> Iterator[Path]:
    """What attacks look for on the host: a secret in the environment, listening sockets; and a folder for their traces.

    Processes that lose their parent become this one's children meanwhile, so that none goes unseen.
    """
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        folder = Path(tempfile.mkdtemp(prefix="attacks-"))
        stack.callback(shutil.rmtree, folder)
        folder.chmod(0o711)
        patch.setenv("WARPSMITH_CANARY", "warpsmith-planted-canary")
        patch.setenv("TMPDIR", str(folder))
        socket_file = Path("/tmp/warpsmith-attacks-canary.sock")
        # Attacks know these names, so two runs on one machine cannot have them at once.
        abstract, named = (stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
        _bind_once_free(abstract, "\0warpsmith-attacks-canary")
        socket_file.unlink(missing_ok=True)
        stack.callback(socket_file.unlink, missing_ok=True)
        named.bind(str(socket_file))
        for server in (abstract, named):
            server.listen()
        _adopt_orphans(True)
        stack.callback(_adopt_orphans, False)
        yield folder


def _bind_once_free(server: socket.socket, address: str) -> None:
    deadline = time.monotonic() + 240
    while True:
        try:
            server.bind(address)
        except OSError:
            assert time.monotonic() < deadline, "another run of these tests has its sockets"
            time.sleep(0.5)
        else:
            return


def _adopt_orphans(wanted: bool) -> None:
    assert ctypes.CDLL(None).prctl(36, int(wanted), 0, 0, 0) == 0


@pytest.fixture(scope="module")
def evaluator(bait: Path, device: str, recording: str) -> Iterator[Evaluator]:
    """One pool for the whole corpus. When it is closed the machine is as it was before."""
    config = EvaluatorConfig(
        slots=2,
        ready_workers=1,
        memory_bytes=MEMORY_BYTES[device],
        timeout_s=TIMEOUT_S,
        compile_timeout_s=COMPILE_TIMEOUT_S,
        recording=recording,
        **({} if device == "cpu" else {"device": device}),
    )
    before = _Machine.now(bait)
    with Evaluator(config) as running:
        yield running
    assert _Machine.now(bait) == before


MOST_MISSED = 1e-4
"""How often a mistake whose head says how often one evaluation misses it (`# missed:`) may pass all of its chances."""


def _wrong_verdict(evaluator: Evaluator, path: Path) -> Verdict:
    """Return the verdict on a mistake, which random trials may miss.

    A mistake that is missed must be found by the two evaluations after it; or, if its head says how often it is missed,
    by one of as many as find it almost certainly.
    """
    missed = _verdict(evaluator, path, HONEST_TIMEOUT_S)
    if not missed.correct:
        return missed
    said = re.search(r"about (\d+) evaluations of 100", " ".join(_head(path, "missed")))
    if said is not None:
        for _ in range(math.ceil(math.log(MOST_MISSED) / math.log(int(said[1]) / 100)) - 1):
            if not (verdict := _verdict(evaluator, path, HONEST_TIMEOUT_S)).correct:
                return verdict
        return missed
    warnings.warn(f"{path.stem}: missed by an evaluation", stacklevel=1)
    again = [_verdict(evaluator, path, HONEST_TIMEOUT_S) for _ in range(2)]
    return missed if any(verdict.correct for verdict in again) else again[0]


def _verdict(evaluator: Evaluator, path: Path, timeout_s: float | None = None, trials: int | None = None) -> Verdict:
    (problem,) = _head(path, "problem")
    found = Problem.from_file(HERE / "problems" / f"{problem}.py")
    seconds = _head(path, "seconds")
    timeout_s = float(seconds.pop()) if seconds else timeout_s
    (operators,) = _head(path, "operators") or {"none"}
    source = path.read_text(encoding="utf-8")
    verdict = evaluator.evaluate(found, source, trials=trials, timeout_s=timeout_s, operators=operators)
    assert pa.array([verdict.to_record()], type=VERDICT).validate(full=True) is None
    return verdict


@pytest.fixture(scope="module")
def judged(
    evaluator: Evaluator, device: str, trials: int, request: pytest.FixtureRequest
) -> Iterator[Callable[[Path], Verdict]]:
    """Gives the verdict on a candidate that means no harm. Those of the tests to come are judged two at a time."""
    selected = {item.name for item in request.session.items}
    tests: dict[str, tuple[str, Callable[[Path], Verdict]]] = {
        "test_honest_kernel_is_correct": (
            "controls",
            lambda path: _verdict(evaluator, path, HONEST_TIMEOUT_S, trials),
        ),
        "test_wrong_kernel_is_not_correct": ("wrong", lambda path: _wrong_verdict(evaluator, path)),
    }
    with ThreadPoolExecutor(2) as threads:
        asked = {
            path: threads.submit(judge, path)
            for test, (folder, judge) in tests.items()
            for path in files(folder, device)
            if f"{test}[{path.stem}]" in selected
        }
        yield lambda path: asked[path].result()
        threads.shutdown(cancel_futures=True)


def test_honest_kernel_is_correct(judged, control, trials):
    verdict = judged(control)
    assert verdict.status == "correct", verdict
    assert verdict.compiled
    assert verdict.trials >= trials
    assert set(verdict.flags) <= {"retried"}


def test_wrong_kernel_is_not_correct(judged, mistake, device, detached):
    verdict = judged(mistake)
    assert verdict.status in (_head_on(mistake, "permitted", device, detached=detached) or {"incorrect"}), verdict
    assert verdict.error_message or verdict.correct


def test_attack_gains_nothing(evaluator, attack, device, detached):
    machine = _head(attack, "machine")
    if machine and platform.machine() not in machine:
        pytest.skip(f"the numbers of its system calls are those of {', '.join(machine)}")
    verdict = _verdict(evaluator, attack)
    assert verdict.status in _head_on(attack, "permitted", device, detached=detached), verdict
    assert _head_on(attack, "flags", device, detached=detached) <= set(verdict.flags), verdict
    if verdict.runtime_ms is not None:
        _assert_honest_time(evaluator, attack, verdict, detached=detached)


def _assert_honest_time(evaluator, attack, verdict, *, detached):
    for control in _head(attack, "timed like") | (_head(attack, "timed like detached") if detached else set()):
        honest = _verdict(evaluator, HERE / "controls" / f"{control}.py")
        assert verdict.runtime_ms >= LEAST_SHARE_OF_HONEST_TIME * honest.runtime_ms, (verdict, honest)


@pytest.mark.parametrize("detached", [False, True])
@pytest.mark.parametrize("on", DEVICES)
def test_attacks_say_how_they_may_end(on, detached):
    """On the device that judges this run, and on the other one."""
    for path in files(".", on):
        permitted = _head_on(path, "permitted", on, detached=detached)
        assert permitted, f"{path.name} names no permitted status"
        assert permitted <= STATUSES, path
        assert "correct" not in permitted or _head(path, "harmless"), path


@pytest.mark.parametrize("folder", FOLDERS.values())
def test_candidates_of_either_device_name_what_there_is(folder):
    for path in _every_file(folder):
        assert _head(path, "device") <= set(DEVICES), path
        (problem,) = _head(path, "problem")
        assert (HERE / "problems" / f"{problem}.py").is_file(), path
        for control in _head(path, "timed like") | _head(path, "timed like detached"):
            assert _head(HERE / "controls" / f"{control}.py", "problem") == {problem}, path


@pytest.mark.parametrize("path", _every_file("controls"), ids=lambda path: path.stem)
def test_the_kernels_of_an_honest_candidate_can_be_taken_out(path):
    """Also of those that only a GPU judges."""
    assert extract(path.read_text(encoding="utf-8")).kernels


TELLING = [path for path in _every_file(".") if "def succeeded" in path.read_text(encoding="utf-8")]


def test_an_attack_on_the_sandbox_would_tell(evaluator):
    """Each is the same honest kernel around its attempt; with an attempt that succeeds that kernel is correct."""
    sources = [path.read_text(encoding="utf-8") for path in TELLING]
    assert len({source.partition("class ModelNew")[2] for source in sources}) == 1
    assert len({source.partition("@triton.jit")[2].partition("mask=mask)\n\n")[0] for source in sources}) == 1
    succeeding = sources[0].replace("class ModelNew", "def succeeded():\n    return True\n\n\nclass ModelNew")
    problem = Problem.from_file(HERE / "problems" / "add.py")
    assert evaluator.evaluate(problem, succeeding).status == "correct"


def _table() -> list[str]:
    """Return the files that README.md names in its tables."""
    rows = [line for line in (HERE / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    return re.findall(r"`((?:wrong/|controls/)?\w+\.py)`", "\n".join(rows))


def test_the_table_names_every_attack_and_no_other():
    named = _table()
    assert {path.name for path in _every_file(".")} - set(named) == set()
    assert [name for name in named if not (HERE / name).is_file()] == []
