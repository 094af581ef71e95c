"""Many evaluations in a row, of candidates that end in every way: nothing grows and nothing is left behind.

90 by default; `WARPSMITH_SOAK=3000 pytest -s packages/evaluator/tests/judge/test_soak.py` runs more and prints
what it saw.
"""

import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from candidate_endings import ENDINGS, FORWARD, STATUS
from process_tree import judge_of

from warpsmith.evaluator import Evaluator, EvaluatorConfig

EVALUATIONS = int(os.environ.get("WARPSMITH_SOAK", "90"))
AT_ONCE = 4
SETTLE_S = 30
PER_EVALUATION_KIB = 4
"""What the judge may keep of an evaluation: the answer of its compilation, of which it holds 20,000."""

MIX = ("correct", "incorrect", "correct", "runtime_error", "correct", "crash", "compile_error", "exit", "correct")


def ending(number: int) -> str:
    return "timeout" if number % 50 == 49 else MIX[number % len(MIX)]


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    state: str


def processes() -> list[Process]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            found.append(Process(int(entry.name), int(fields[1]), fields[0]))
    return found


def below(pid: int) -> list[Process]:
    return [process for process in processes() if process.parent == pid]


def private_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@dataclass(frozen=True)
class Sample:
    """What the family holds at rest: private memory in KiB and open descriptors by process, and its workers."""

    judge: int
    memory: dict[int, int]
    open_files: dict[int, int]
    workers: int
    zombies: int

    @staticmethod
    def of(judge: int) -> "Sample":
        family = [judge, *(zygote.pid for zygote in below(judge))]
        workers = [worker for pid in family[1:] for worker in below(pid)]
        # The judge cannot be looked into by another process than root's: it holds secrets.
        visible = [pid for pid in family if pid != judge or os.geteuid() == 0]
        return Sample(
            judge,
            {pid: private_kib(pid) for pid in family},
            {pid: descriptors(pid) for pid in visible},
            len(workers),
            sum(process.state == "Z" for process in [*workers, *below(judge)]),
        )


def at_rest(judge: int, workers: int) -> Sample:
    """Wait until the pools are full again and every worker that ended is reaped."""
    deadline = time.monotonic() + SETTLE_S
    while (sample := Sample.of(judge)).workers != workers or sample.zombies:
        assert time.monotonic() < deadline, f"{sample}, {workers} workers and no zombie were expected"
        time.sleep(0.05)
    return sample


def run(evaluator: Evaluator, problem, source: str, numbers: range) -> Counter:
    def one(number: int) -> tuple[str, str]:
        kind = ending(number)
        distinct = ENDINGS[kind](source).replace("* BLOCK +", f"* BLOCK + {number} - {number} +")
        timeout_s = 0.5 if kind == "timeout" else 20.0
        verdict = evaluator.evaluate(problem, distinct, timeout_s=timeout_s)
        assert verdict.status == STATUS.get(kind, kind), (number, kind, verdict)
        return kind, verdict.status

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return Counter(kind for kind, _ in threads.map(one, numbers))


def fill_slots(evaluator: Evaluator, problem, source: str) -> None:
    """Leave a reference worker in each slot: one beside which a candidate was starved of its processor is gone."""
    slow = source.replace(FORWARD, f"{FORWARD}        import time; time.sleep(1)\n")
    with ThreadPoolExecutor(2) as threads:
        assert all(verdict.correct for verdict in threads.map(lambda _: evaluator.evaluate(problem, slow), range(2)))


def shared_files() -> set[str]:
    """The names in /dev/shm but for what the evaluator never makes and others of this machine may at any moment."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith(("sem.", "warpsmith-weights-"))}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(60 + 2 * EVALUATIONS)
def test_nothing_grows_and_nothing_is_left(add_problem, add_candidate, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    shared_before = shared_files()
    config = EvaluatorConfig(slots=2, ready_workers=1)
    third = EVALUATIONS // 3
    with Evaluator(config) as evaluator:
        judge = judge_of(evaluator)
        ready = 4 * config.slots * config.ready_workers
        ended = run(evaluator, add_problem, add_candidate, range(third))
        fill_slots(evaluator, add_problem, add_candidate)
        references = config.slots
        first = at_rest(judge, ready + references)
        began = time.monotonic()
        ended += run(evaluator, add_problem, add_candidate, range(third, EVALUATIONS))
        took = time.monotonic() - began
        fill_slots(evaluator, add_problem, add_candidate)
        last = at_rest(judge, ready + references)
        assert judge_of(evaluator) == judge
        assert set(last.memory) == set(first.memory), "a zygote was lost"
    print(f"\n{EVALUATIONS} evaluations, {(EVALUATIONS - third) / took:.1f} a second: {dict(ended)}\n{first}\n{last}")
    assert last.open_files == first.open_files
    for pid, kib in last.memory.items():
        allowed = 4096 + (PER_EVALUATION_KIB * (EVALUATIONS - third) if pid == judge else 0)
        assert kib - first.memory[pid] < allowed, (first, last)
    assert not [process for process in processes() if process.pid in last.memory]
    assert not list(tmp_path.iterdir())
    assert shared_files() <= shared_before
