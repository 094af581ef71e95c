"""Which evaluator catches which cheat: the corpus of tests/attacks on this evaluator and on those of three peers.

Each file is judged by each evaluator in separate processes, with 5 correctness and 100 timed trials on one GPU. A cheat
fooled an evaluator that calls it correct and does not flag it (here: with the flags named in its file), unless it is
harmless there: its file names an honest kernel (`# timed like:`, for detached host code `# timed like detached:`), and
it takes at least nine tenths of that kernel's time. An attack on the sandbox counts only if it succeeded. Honest
kernels must pass. The peers' checkouts are passed on the command line. Verdicts are written one by one: after an
interruption the same command continues. `--language cuda_cpp` judges the corpus in CUDA C++: KernelBench's evaluator
spends a minute or more of two processors on building each file. `--builds` does that in advance without a device, in a
folder that is passed when they are judged.

    python benchmarks/attacks.py --kernelbench /path/to/KernelBench --kernelgym /path/to/KernelGYM
    python benchmarks/attacks.py --without-ours --sol-execbench /path/to/SOL-ExecBench
    CUDA="--language cuda_cpp --extensions /var/tmp/extensions"
    python benchmarks/attacks.py $CUDA --builds 12
    python benchmarks/attacks.py $CUDA --kernelbench /path/to/KernelBench --out results/attacks_cuda.json
"""

import argparse
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from _machine import check_same, describe, need_gpu, visible_gpu, write_result

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem
from warpsmith.evaluator.config import RECORDING_WAYS

HERE = Path(__file__).parent
CORPUS = HERE.parent / "tests" / "attacks"
PEERS: Final = ("kernelbench", "kernelgym", "sol_execbench")
DEADLINE_S: Final = {"triton": 60.0, "cuda_cpp": 300.0}
"""For a peer's verdict on one file; of CUDA C++ it builds the file before."""
BACKENDS: Final = {"triton": "triton", "cuda_cpp": "cuda"}
"""What the peers call a language."""
BUILT_DEADLINE_S: Final = 60.0
"""For a peer's verdict on a file whose extensions are built."""
EXTENSIONS: Final = "/tmp/extensions"
"""Where a peer finds a file's extensions: its own folder, the only one that it can write to."""
NOT_CORRECT: Final = {"correct": False, "runtime_ms": None, "flagged": False}
COMPILE_TIMEOUT_S: Final = 60.0
LEAST_SHARE: Final = 0.9
MOST_PROCESSES: Final = 2048
MOST_FILE_KIB: Final = 1 << 20
LAST_WORDS: Final = 4096
CAPABILITIES: Final = ("chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap", "sys_chroot")
"""Capabilities of a container's root by default that reach nothing outside."""
GREEDY: Final = frozenset({
    "canary_in_memory", "compilation_without_end", "device_memory_around", "device_memory_hog", "device_memory_kept",
    "device_prints", "endless_kernel", "endless_kernel_beside", "endless_kernel_on_a_flag", "endless_loop",
    "endless_loop_ignoring_signals", "endless_stdout", "every_descriptor", "flood_of_launches", "fork_bomb",
    "huge_file", "inode_bomb", "last_to_be_killed", "memory_bomb", "memory_of_a_predecessor", "memory_scan",
    "page_table_bomb", "persisting_cache", "scratch_bomb", "side_stream", "endless_host_code", "printf_flood",
    "template_bomb",
})  # fmt: skip
"""Attacks on shared resources: a peer judges them last, because they would disturb the others."""
PREFACE: Final = """\
A cheat is `caught` where it is not called correct, is flagged, or gains nothing; a `wrong` kernel where it is not
called correct; an honest one has `passed` where it is. An evaluator that dies or hangs has called nothing correct, so
that counts as caught. Attacks on the sandbox are among the attacks: the peers have none and do not promise one, and are
`fooled` by an attack that did what it came for.
"""
NOTES: Final = {
    "kernelbench": """\
KernelBench's evaluator turns all inputs into float32 by default, so problems with integer or half-precision inputs are
refused.
""",
    "sol_execbench": """\
SOL-ExecBench's driver judges by its default tolerance, an error of 1e-2 in all but one element of a hundred, and calls
every NaN and infinity wrong.
""",
}
"""What a reader of a table must know of an evaluator in it."""
FOLDERS: Final = {
    "triton": {"attack": ".", "wrong": "wrong", "control": "controls"},
    "cuda_cpp": {"attack": "cuda_cpp", "control": "cuda_cpp/controls"},
}


@dataclass(frozen=True)
class Case:
    """One file of the corpus."""

    kind: str
    path: Path
    language: str = "triton"

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.path.stem}"

    def head(self, name: str) -> set[str]:
        found = re.search(rf"^# {name}: (.+)$", self.path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        return {part.strip() for part in found[1].split(",")} if found else set()

    @property
    def on_the_sandbox(self) -> bool:
        """Whether it is correct only if the attack succeeded."""
        return "def succeeded" in self.path.read_text(encoding="utf-8")

    @property
    def problem(self) -> Path:
        (name,) = self.head("problem")
        return CORPUS / "problems" / f"{name}.py"


def cases(language: str = "triton") -> Iterator[Case]:
    """Yield the cases of a language to judge on a GPU."""
    for kind, folder in FOLDERS[language].items():
        for path in sorted((CORPUS / folder).glob("*.py")):
            case = Case(kind, path, language)
            if not path.name.startswith(("test_", "conftest")) and "cpu" not in case.head("device"):
                yield case


def ours(evaluator: Evaluator, case: Case) -> dict[str, Any]:
    """This evaluator's verdict."""
    found = evaluator.evaluate(Problem.from_file(case.problem), case.path.read_text(encoding="utf-8"))
    return {
        "status": found.status,
        "correct": found.correct,
        "runtime_ms": found.runtime_ms,
        "flagged": False,
        "flags": list(found.flags),
        "recording": found.recording,
    }


def theirs(name: str, checkout: Path, extensions: Path | None, case: Case) -> dict[str, Any]:
    """A peer's verdict; a process that dies, hangs or prints nothing has not called the candidate correct."""
    built = extensions and folder_of(case, extensions)
    known = built is not None and built.is_dir()
    started = time.monotonic()
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as said:
        arguments = [name, checkout, case.problem, case.path, answer.fileno(), BACKENDS[case.language]]
        process = subprocess.Popen(
            [*alone(built if known else None), sys.executable, HERE / "_peer.py", *map(str, arguments)],
            stdin=subprocess.DEVNULL, stdout=said, stderr=said, pass_fds=[answer.fileno()], start_new_session=True,
        )  # fmt: skip
        try:
            process.wait(BUILT_DEADLINE_S if known else DEADLINE_S[case.language])
        except subprocess.TimeoutExpired:
            return {"status": "hung", **NOT_CORRECT}
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        answer.seek(0)
        written = answer.read(1 << 16)
        said.seek(max(0, said.seek(0, os.SEEK_END) - LAST_WORDS))
        last = said.read().decode(errors="replace").strip().splitlines()[-1:] or [""]
    if not written:
        raise RuntimeError(f"{name} never started {case.key}: {last[0]}")
    try:
        found = json.loads(written)
        status = "correct" if found["correct"] else "not correct"
    except (ValueError, TypeError, KeyError):
        # Text that a candidate wrote to the descriptor is not a verdict either.
        return {"status": f"died: {last[0][:200]}", **NOT_CORRECT}
    return {**found, "status": status, "seconds": round(time.monotonic() - started, 1)}


def folder_of(case: Case, extensions: Path) -> Path:
    """The folder of a file's extensions."""
    return extensions / f"{case.kind}_{case.path.stem}"


def build_all(every: list[Case], extensions: Path, processes: int, until: float) -> None:
    """Build the extensions of CUDA C++ files as a peer does; what is not built in time, it builds itself."""
    extensions.mkdir(parents=True, exist_ok=True)
    left = [case for case in every if not folder_of(case, extensions).exists()]
    with ThreadPoolExecutor(processes) as pool:
        asked = {pool.submit(build, case, extensions, until): case for case in left}
        for number, done in enumerate(as_completed(asked), start=1):
            print(f"{number:4} of {len(left)}  {asked[done].key:44} {done.result()}", flush=True)


def build(case: Case, extensions: Path, until: float) -> str:
    """Build a file's extensions, contained as when it is judged; returns how that ended."""
    started = time.monotonic()
    if started >= until:
        return "no time"
    # A build that is cut off leaves a lock for which the next one would wait, so only a finished one gets the name.
    unfinished = Path(tempfile.mkdtemp(dir=extensions, prefix="unfinished_"))
    command = [*alone(unfinished), sys.executable, str(HERE / "_peer.py"), "build", str(case.path)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=DEADLINE_S[case.language], check=False)
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [""]
        status = "built" if done.returncode == 0 else f"exit code {done.returncode}: {last[0][:200]}"
        if done.returncode == 0:
            unfinished.rename(folder_of(case, extensions))
    except subprocess.TimeoutExpired:
        status = "not built in time"
    shutil.rmtree(unfinished, ignore_errors=True)
    return f"{status}, {time.monotonic() - started:.1f} s"


@cache
def alone(extensions: Path | None = None) -> list[str]:
    """Return the prefix of a peer's command that keeps its candidates from killing others or changing their files.

    File systems are read-only, /tmp and /dev/shm are empty, files and processes are limited, capabilities are few, and
    remaining processes end with the command, whose shell reaps orphans. Peers confine nothing themselves, and the
    corpus kills, forks and writes. It is not a sandbox: the network, the host's kernel and the GPU are reachable.

    Args:
        extensions: a folder that stays writable, as `EXTENSIONS`, where torch builds extensions.
    """
    shared = [] if extensions is None else [
        f"mkdir {EXTENSIONS}",
        f"mount --bind {shlex.quote(str(extensions.resolve()))} {EXTENSIONS}",
        f"mount -o remount,bind,rw {EXTENSIONS}",
        f"export TORCH_EXTENSIONS_DIR={EXTENSIONS}",
    ]  # fmt: skip
    steps = [
        f"echo {MOST_PROCESSES} > /proc/sys/kernel/pid_max",
        "echo 1000 > /proc/self/oom_score_adj",
        # CUDA writes under /proc/self, so only the machine-wide parts of /proc are made read-only.
        "for at in sys sysrq-trigger irq bus; do test ! -e /proc/$at || mount --bind /proc/$at /proc/$at; done",
        "cut -d' ' -f5 /proc/self/mountinfo | grep -vx /proc | while read -r at; do mount -o remount,bind,ro $at; done",
        *(f"mount -t tmpfs -o size=4g tmpfs {folder}" for folder in ("/tmp", "/dev/shm")),
        *shared,
        f"ulimit -f {MOST_FILE_KIB * 2}",
        "export HOME=/tmp TMPDIR=/tmp",
        f'setpriv --bounding-set=-all,{",".join(f"+{name}" for name in CAPABILITIES)} "$@"; exit $?',
    ]
    if tuple(map(int, platform.release().split(".")[:2])) < (6, 14):
        sys.exit("Before Linux 6.14 pid_max is global: a fork bomb would stop this machine. Use a newer kernel.")
    command = ["unshare", "--mount", "--ipc", "--pid", "--fork", "--mount-proc", "--kill-child"]
    command += ["sh", "-c", " && ".join(steps), "sh"]
    done = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"Peers would run hostile code on this machine uncontained: {done.stderr.strip()}\nRun this as root.")
    return command


def commit_of(checkout: Path) -> str | None:
    """Return the commit of a peer's checkout; None if it is not its own git repository."""
    if not (checkout / ".git").exists():
        return None
    asked = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False)
    return found.stdout.strip() or None


def turns(every: list[Case], threads: int) -> Iterator[tuple[list[Case], int]]:
    """Return the batches that a peer judges together, and their concurrency: greedy attacks last, timed ones alone."""
    compared = {name for case in every for name in case.head("timed like")}
    on_the_clock = {case for case in every if case.head("timed like") or case.path.stem in compared}
    for greedy in (False, True):
        yield [case for case in every if case not in on_the_clock and (case.path.stem in GREEDY) is greedy], threads
    yield [case for case in every if case in on_the_clock], 1


def outcome(case: Case, found: dict[str, Any], honest: dict[str, float]) -> str:
    """`caught` or `fooled` for cheats and wrong kernels, `passed` or `refused` for honest ones."""
    named = case.head("flags")
    flagged = found["flagged"] or (bool(named) and named <= set(found.get("flags", ())))
    believed = bool(found["correct"]) and not flagged
    if case.kind == "control":
        return "passed" if believed else "refused"
    if not believed:
        return "caught"
    # Attacks without effect when host code has no device are harmless only there.
    detached = found.get("recording") == "detached"
    if case.language == "cuda_cpp" and detached and case.head("harmless"):
        return "caught"
    alike = case.head("timed like") | (case.head("timed like detached") if detached else set())
    for name in alike:
        if name in honest and (found["runtime_ms"] or 0.0) >= LEAST_SHARE * honest[name]:
            return "caught"
    return "fooled"


@dataclass
class Sheet:
    """The verdicts of one evaluator, in a file that is written one by one: an interrupted run continues."""

    path: Path
    name: str
    until: float = float("inf")
    """When to start no further case, by `time.monotonic`."""

    def read(self) -> dict[str, Any]:
        """Return the whole file: for each evaluator, the machine and the verdicts by case."""
        return json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}

    def fill(
        self, judge: Callable[[Case], dict[str, Any]], every: list[Case], threads: int, checkout: Path | None = None
    ) -> None:
        """Judge the cases without a verdict."""
        whole = self.read()
        here = describe(("torch", "triton", "warpsmith-evaluator"))
        if checkout is not None:
            here["commit"] = commit_of(checkout)
        part = whole.setdefault(self.name, {**here, "verdicts": {}})
        check_same(self.path, part, here)
        if part.get("commit") != here.get("commit"):
            sys.exit(f"{self.path} has verdicts of {self.name} at commit {part.get('commit')}; pass another --out.")
        left = [case for case in every if case.key not in part["verdicts"]]

        def in_time(case: Case) -> dict[str, Any] | None:
            return judge(case) if time.monotonic() < self.until else None

        with ThreadPoolExecutor(threads) as pool:
            asked = {pool.submit(in_time, case): case for case in left}
            for done in as_completed(asked):
                case, verdict = asked[done], done.result()
                if verdict is None:
                    continue
                part["verdicts"][case.key] = verdict
                write_result(self.path, whole)
                print(f"{self.name:12} {case.key:44} {verdict['status'][:60]}", flush=True)


def outcomes(verdicts: dict[str, dict[str, Any]], every: list[Case]) -> dict[str, str]:
    """Return the outcome of each verdict of one evaluator, by case."""
    honest = {
        case.path.stem: verdicts[case.key]["runtime_ms"]
        for case in every
        if case.kind == "control" and case.key in verdicts and verdicts[case.key]["runtime_ms"]
    }
    return {case.key: outcome(case, verdicts[case.key], honest) for case in every if case.key in verdicts}


def table(results: dict[str, dict[str, str]], every: list[Case]) -> str:
    """Return the results in Markdown: the counts, then every file that some evaluator got wrong."""
    names = list(results)
    rows = {
        "attack on the result or the clock": [one for one in every if one.kind == "attack" and not one.on_the_sandbox],
        "attack on the sandbox": [one for one in every if one.kind == "attack" and one.on_the_sandbox],
        "wrong": [one for one in every if one.kind == "wrong"],
        "control": [one for one in every if one.kind == "control"],
    }
    preface = PREFACE + "".join(NOTES[name] for name in names if name in NOTES)
    lines = [preface, "| | " + " | ".join(names) + " |", "| --- |" + " --- |" * len(names)]
    for kind, some in rows.items():
        if not some:
            continue
        good = "passed" if kind == "control" else "caught"
        found = {name: [results[name][case.key] for case in some if case.key in results[name]] for name in names}
        counts = [f"{one.count(good)} of {len(one)} {good}" for one in found.values()]
        lines.append(f"| {kind} | " + " | ".join(counts) + " |")
    lines += ["", "| file | " + " | ".join(names) + " |", "| --- |" + " --- |" * len(names)]
    for key in sorted(set().union(*results.values())):
        row = [results[name].get(key, "-") for name in names]
        if not set(row) <= {"caught", "passed", "-"}:
            lines.append(f"| `{key}` | " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def parsed() -> tuple[argparse.Namespace, dict[str, Path]]:
    """Return the arguments, and the checkouts of the peers to run by name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernelbench", type=Path, help="a checkout of KernelBench")
    parser.add_argument("--kernelgym", type=Path, help="a checkout of KernelGYM")
    parser.add_argument("--sol-execbench", type=Path, help="a checkout of SOL-ExecBench; it judges Triton alone")
    parser.add_argument("--without-ours", action="store_true", help="run only the peers")
    parser.add_argument("--slots", type=int, default=2, help="candidates at once here")
    parser.add_argument("--threads", type=int, default=4, help="concurrent candidates of a peer if untimed")
    parser.add_argument("--extensions", type=Path, help="where a peer finds what `--builds` has built; not below /tmp")
    parser.add_argument("--builds", type=int, default=0, help="build extensions, so many at once, and judge nothing")
    parser.add_argument("--only", default="", help="only files whose name starts with this")
    parser.add_argument("--recording", choices=RECORDING_WAYS, default="detached", help="how host code is recorded")
    parser.add_argument("--language", choices=tuple(FOLDERS), default="triton", help="language of the corpus")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no case after this time")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "attacks.json", help="continued if it exists")
    arguments = parser.parse_args()
    if arguments.builds and (arguments.extensions is None or arguments.language != "cuda_cpp"):
        parser.error("--builds needs --language cuda_cpp, and --extensions: the folder that takes what it builds")
    if arguments.extensions and Path("/tmp") in arguments.extensions.resolve().parents:
        parser.error("peers see an empty /tmp: put --extensions elsewhere")
    if arguments.sol_execbench and arguments.language != "triton":
        parser.error("SOL-ExecBench refuses load_inline; pass it without --language cuda_cpp")
    peers = {name: getattr(arguments, name) for name in PEERS if getattr(arguments, name)}
    if any(Path("/tmp") in [*checkout.resolve().parents, *HERE.parents] for checkout in peers.values()):
        parser.error("peers see an empty /tmp: put this checkout and theirs elsewhere")
    return arguments, peers


def main() -> None:
    arguments, peers = parsed()
    until = time.monotonic() + arguments.seconds
    every = [case for case in cases(arguments.language) if case.path.stem.startswith(arguments.only)]
    # Where the time is short, what peers do not promise to stop is left out first, and of the rest no kind by itself.
    every.sort(key=lambda case: (case.on_the_sandbox, hashlib.sha256(case.key.encode()).digest()))
    if arguments.builds:
        build_all(every, arguments.extensions, arguments.builds, until)
        return
    need_gpu()
    if peers:
        alone()
    if not arguments.without_ours:
        config = EvaluatorConfig(
            device="cuda",
            gpu=visible_gpu(),
            language=arguments.language,
            slots=arguments.slots,
            ready_workers=2,
            timeout_s=20,
            compile_timeout_s=COMPILE_TIMEOUT_S,
            recording=arguments.recording,
        )
        with Evaluator(config) as evaluator:
            Sheet(arguments.out, "warpsmith", until).fill(partial(ours, evaluator), every, arguments.slots)
    for name, checkout in peers.items():
        for some, threads in turns(every, arguments.threads):
            Sheet(arguments.out, name, until).fill(
                partial(theirs, name, checkout, arguments.extensions), some, threads, checkout
            )
    whole = Sheet(arguments.out, "").read()
    text = table({name: outcomes(part["verdicts"], every) for name, part in whole.items()}, every)
    arguments.out.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
