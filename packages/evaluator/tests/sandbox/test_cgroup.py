"""Evaluations whose workers have cgroups: the limit is the candidate's own, and nothing is left behind."""

import os
import time
from pathlib import Path

import pytest
from process_tree import judge_of, parent_of

from warpsmith.evaluator import Evaluator, EvaluatorConfig, _native
from warpsmith.evaluator.errors import IsolationUnavailableError

MIB = 1 << 20
PATIENCE_S = 60
CONFIG = EvaluatorConfig(
    slots=1, ready_workers=1, memory_bytes=1 << 30, timeout_s=20, start_timeout_s=600, cgroups="required"
)

HUNGRY_CANDIDATE = """\
import torch.nn as nn

class ModelNew(nn.Module):
    def forward(self, x, y):
        self.held = bytearray(400 << 20)
        return x
"""


def cgroups_missing() -> str:
    """Return why this machine gives no cgroups, or nothing where it does."""
    try:
        _native.Cgroups.open().close()
    except _native.NativeError as error:
        return str(error)
    return ""


def worker_cgroups() -> list[Path]:
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    (top,) = [mount[1] for mount in mounts if mount[2] == "cgroup2"]
    # A cgroup may go while the others are looked through, which `walk` bears and `glob` does not.
    folders = (Path(folder) for folder, _, _ in os.walk(top))
    return sorted(folder for folder in folders if folder.match("warpsmith-workers-*/worker-*"))


def zygote_of(cgroup: Path, evaluator: Evaluator) -> int:
    """Return the zygote of this evaluator (there are others on a machine) that made a cgroup; 0 where none did."""
    try:
        zygote = parent_of(int((cgroup / "cgroup.procs").read_text().split()[0]))
        return zygote if parent_of(zygote) == judge_of(evaluator) else 0
    except (OSError, IndexError):
        return 0


def is_for_candidates(cgroup: Path, evaluator: Evaluator) -> bool:
    """Whether the interpreting zygote, which forks candidate workers and no others, made a cgroup that is there."""
    try:
        zygote = zygote_of(cgroup, evaluator)
        return zygote > 0 and b"interpreting" in Path("/proc", str(zygote), "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def await_ready_candidate(evaluator: Evaluator, other_than: Path | None = None) -> Path:
    """Return the cgroup of the one candidate worker that waits for its work."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = [cgroup for cgroup in worker_cgroups() if is_for_candidates(cgroup, evaluator)]
        if len(found) == 1 and found[0] != other_than:
            return found[0]
        time.sleep(0.01)
    raise AssertionError(f"not one candidate worker is ready: {worker_cgroups()}")


@pytest.fixture
def limited():
    if why := cgroups_missing():
        pytest.skip(why)
    with Evaluator(CONFIG) as evaluator:
        yield evaluator


def test_a_worker_over_its_limit_is_the_candidates_own_fault(limited, add_problem, add_candidate):
    used_up = await_ready_candidate(limited)
    assert limited.evaluate(add_problem, add_candidate).status == "correct"
    ready = await_ready_candidate(limited, other_than=used_up)
    if "memory" not in (ready.parent / "cgroup.controllers").read_text().split():
        pytest.skip("this machine gives no memory controller")
    used = int((ready / "memory.current").read_text())
    (ready / "memory.max").write_text(str(used + 100 * MIB))
    verdict = limited.evaluate(add_problem, HUNGRY_CANDIDATE)
    assert (verdict.status, verdict.error_category) == ("runtime_error", "out_of_memory")
    assert "retried" not in verdict.flags
    assert limited.evaluate(add_problem, add_candidate).status == "correct"


def test_no_cgroup_outlives_the_evaluator(add_problem, add_candidate):
    if why := cgroups_missing():
        pytest.skip(why)
    with Evaluator(CONFIG) as evaluator:
        assert evaluator.evaluate(add_problem, add_candidate).status == "correct"
        owners = {cgroup.parent for cgroup in worker_cgroups() if zygote_of(cgroup, evaluator)}
        assert owners
    assert not [cgroup for cgroup in worker_cgroups() if cgroup.parent in owners]


def test_a_machine_without_cgroups_is_refused_where_they_are_required(add_problem, add_candidate):
    why = cgroups_missing()
    if not why:
        pytest.skip("this machine gives cgroups")
    with pytest.raises(IsolationUnavailableError, match="cgroup"), Evaluator(CONFIG) as evaluator:
        evaluator.evaluate(add_problem, add_candidate)
