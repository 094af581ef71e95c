"""A run of the real command that a test strikes: started, watched, hit, and looked at where it stands or has ended."""

import getpass
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

STEP = re.compile(r"^\[Step (\d+) of", re.MULTILINE)
SLOW_INPUTS = "def get_inputs():\n    time.sleep(0.1)\n"
"""The reference's inputs take a while, so that a blow at a random moment meets evaluations in progress."""

START_S = 400.0
STEP_S = 240.0


class StruckRun:
    """One run directory and the command that works on it.

    Everything the command starts carries its TMPDIR in its environment, or in its command line as zygotes and workers
    do: by that all are found, whoever their parent is by then.

    Args:
        config: the run's file; `{run}` in it stands for the run's directory.
        run_dir: the run's directory.
        seed: of the moments at which parts are struck.
        processes: ranks.

    Attributes:
        said: what the command has said since it was started last.
        struck: the steps that a blow met, or the ones after them where a step was over sooner than the last.
    """

    def __init__(self, config: Path, run_dir: Path, *, seed: int, processes: int = 1) -> None:
        self.config, self.dir, self.processes = config, run_dir, processes
        self.moments = random.Random(seed)
        # Short, since Ray makes sockets below it, and open, since workers run as another user.
        self.temporary = Path(tempfile.mkdtemp(prefix="faults-", dir="/tmp"))
        self.temporary.chmod(0o711)
        self._options: tuple[str, ...] = ()
        self.process: subprocess.Popen[str] | None = None
        self.said = ""
        self.struck: list[int] = []
        self._news = threading.Condition()
        self._reader: threading.Thread | None = None

    # The command ----------------------------------------------------------------------------------------------------

    def ensure(self, *options: str) -> None:
        """Have the run running with these options: started, resumed, or stopped and resumed with others."""
        if self.runs and options != self._options:
            self.stop()
        if not self.runs:
            self.start(*options, *(["--resume"] if (self.dir / "checkpoints").is_dir() else []))
            self._options = options

    def start(self, *options: object) -> None:
        """Start the command, and wait until it has made a step."""
        assert not self.runs
        arguments = ["--num-processes", self.processes, *options]
        kept = {name: value for name, value in os.environ.items() if name not in {"RANK", "LOCAL_RANK", "WORLD_SIZE"}}
        # torch keeps what it compiled in the folder for temporary files; the first start would compile it again.
        kept.setdefault("TORCHINDUCTOR_CACHE_DIR", f"{tempfile.gettempdir()}/torchinductor_{getpass.getuser()}")
        environment = {**kept, "TMPDIR": str(self.temporary), "COLUMNS": "200"}
        self.said = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "warpsmith.trainer", "grpo", str(self.config), *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, args=(self.process,), daemon=True)
        self._reader.start()
        self.await_step(seconds=START_S)

    @property
    def runs(self) -> bool:
        """Whether the command has been started and has not ended."""
        return self.process is not None and self.process.poll() is None

    @property
    def steps(self) -> list[int]:
        """The steps that the command has reported since it was started last."""
        return [int(number) for number in STEP.findall(self.said)]

    def await_step(self, *, seconds: float = STEP_S) -> int:
        """Wait until one more step is done; return its number."""
        before = len(self.steps)
        self._await(lambda: len(self.steps) > before, f"step after {self.steps[-1:]}", seconds)
        return self.steps[-1]

    def await_words(self, words: str, *, seconds: float = STEP_S) -> None:
        """Wait until the command says `words` once more."""
        before = self.said.count(words)
        self._await(lambda: self.said.count(words) > before, repr(words), seconds)

    def await_moment(self) -> None:
        """Wait for a random moment of the next step: after its first turn or so, up to as long as a step takes."""
        begin = time.monotonic()
        self.await_step()
        moment = self.moments.uniform(0.0, time.monotonic() - begin)
        print(f"struck {moment:.3f} s after step {self.steps[-1]}")
        self.struck.append(self.steps[-1] + 1)
        self.pause(moment)

    def pause(self, seconds: float) -> None:
        """Let the run go on for some time."""
        try:
            self._command.wait(seconds)
        except subprocess.TimeoutExpired:
            return
        raise AssertionError(self.said[-4000:])

    def stop(self) -> None:
        """Ask the run to stop after its step, as a user would."""
        self._command.send_signal(signal.SIGINT)
        assert self.await_end(STEP_S) == 0, self.said[-4000:]

    def await_end(self, seconds: float) -> int:
        """Wait until the command has ended; return its exit code."""
        try:
            code = self._command.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"The run goes on after {seconds:g} s:\n{self.said[-4000:]}") from None
        self.await_nobody()
        assert self._reader is not None
        self._reader.join(10)
        return code

    @property
    def _command(self) -> "subprocess.Popen[str]":
        assert self.process is not None
        return self.process

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with self._news:
                self.said += line
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def _await(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        with self._news:
            while not condition():
                left = deadline - time.monotonic()
                assert self.runs, f"The run ended with {self._command.poll()} before {what}:\n{self.said[-6000:]}"
                assert left > 0, f"No {what} within {seconds:g} s:\n{self.said[-6000:]}"
                self._news.wait(min(left, 0.5))

    # Its processes --------------------------------------------------------------------------------------------------

    def family(self) -> list[psutil.Process]:
        """Return every living process that belongs to the run."""
        mark = os.fsencode(self.temporary)
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return list(_living(pid for pid in pids if mark in _known_at_start(pid)))

    def part(self, name: str) -> list[psutil.Process]:
        """Return the processes that play a part: see PARTS."""
        return [process for process in self.family() if PARTS[name](_Seen.of(process))]

    def strike(self, name: str, number: int = signal.SIGKILL) -> psutil.Process:
        """Send a signal to one process of a part, at random; return it."""
        found = self.part(name)
        assert found, f"The run has no {name}."
        victim = self.moments.choice(sorted(found, key=lambda process: process.pid))
        victim.send_signal(number)
        return victim

    def await_nobody(self, seconds: float = 30.0) -> None:
        """Wait until no process of the run is left, those included that are made while others end."""
        deadline = time.monotonic() + seconds
        while left := self.family():
            seconds_left = deadline - time.monotonic()
            assert seconds_left > 0, f"Processes outlived the run by {seconds:g} s: {list(map(_described, left))}"
            psutil.wait_procs(left, timeout=min(seconds_left, 1.0))

    def leftovers(self) -> list[Path]:
        """Return our own temporary files that are there still; Ray keeps the logs of its sessions."""
        return [path for path in self.temporary.rglob("warpsmith*") if "ray" not in path.parts]

    def close(self) -> None:
        """End what still runs, and remove the temporary files."""
        for process in self.family():
            process.kill()
        psutil.wait_procs(self.family(), timeout=10)
        shutil.rmtree(self.temporary, ignore_errors=True)


class _Seen:
    """What tells the parts apart: the command line, the parent's, the rank."""

    def __init__(self, words: str, parent: str, rank: str | None) -> None:
        self.words, self.parent, self.rank = words, parent, rank

    @staticmethod
    def of(process: psutil.Process) -> "_Seen":
        try:
            parent = process.parent()
            words = " ".join(process.cmdline()).rstrip()
            above = " ".join(parent.cmdline()) if parent else ""
            return _Seen(words, above, _rank(process))
        except psutil.NoSuchProcess:
            return _Seen("", "", None)


def _rank(process: psutil.Process) -> str | None:
    try:
        return process.environ().get("RANK")
    except psutil.AccessDenied:
        return None


def _is_rank(seen: _Seen, number: str) -> bool:
    return seen.rank == number and "warpsmith.trainer" in seen.words and "deepspeed.launcher" in seen.parent


PARTS: dict[str, Callable[[_Seen], bool]] = {
    "worker": lambda seen: "evaluator.zygote" in seen.words and "evaluator.zygote" in seen.parent,
    "zygote": lambda seen: "evaluator.zygote" in seen.words and "evaluator.judge" in seen.parent,
    "judge": lambda seen: "evaluator.judge" in seen.words,
    "engine": lambda seen: seen.words.startswith("ray::SamplerActor"),
    "evaluator actor": lambda seen: seen.words.startswith("ray::EvaluatorActor"),
    "wandb": lambda seen: seen.words.split(" ")[0].endswith("/wandb-core"),
    "raylet": lambda seen: seen.words.split(" ")[0].endswith("/raylet"),
    "gcs": lambda seen: seen.words.split(" ")[0].endswith("/gcs_server"),
    "rank 0": lambda seen: _is_rank(seen, "0"),
    "rank 1": lambda seen: _is_rank(seen, "1"),
    "launcher": lambda seen: "deepspeed.launcher.launch" in seen.words,
    "command": lambda seen: "warpsmith.trainer" in seen.words and seen.rank is None and "launch" not in seen.words,
}


def paragraph(said: str) -> str:
    """Return the one paragraph that tells why a run ended, as one line; there must be no traceback beside it."""
    assert "Traceback (most recent call last)" not in said, said[-6000:]
    found: Sequence[str] = re.findall(r"^error: .*(?:\n(?!\[|error: |\n).+)*", said, re.MULTILINE)
    assert len(found) == 1, said[-6000:]
    return " ".join(found[0].split())


def _known_at_start(pid: int) -> bytes:
    """Return command line and environment of a process; one that is contained shows its command line alone."""
    found = b""
    for name in ("cmdline", "environ"):
        with suppress(OSError):
            found += Path(f"/proc/{pid}/{name}").read_bytes()
    return found


def _described(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {process.status()}: {' '.join(process.cmdline())}"
    except psutil.NoSuchProcess:
        return f"{process.pid}, just ended"


def _living(pids: Iterable[int]) -> Iterator[psutil.Process]:
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            yield psutil.Process(pid)
