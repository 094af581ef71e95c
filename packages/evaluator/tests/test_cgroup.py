"""Evaluations whose workers have cgroups: the limit is the candidate's own, and nothing is left behind."""

from pathlib import Path

import pytest

from warpsmith.evaluator import Evaluator, EvaluatorConfig, _native
from warpsmith.evaluator.errors import IsolationUnavailableError

MIB = 1 << 20
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
    (top,) = [Path(mount[1]) for mount in mounts if mount[2] == "cgroup2"]
    return sorted(top.glob("**/warpsmith-workers-*/worker-*"))


@pytest.fixture
def limited():
    if why := cgroups_missing():
        pytest.skip(why)
    with Evaluator(CONFIG) as evaluator:
        yield evaluator


def test_a_worker_over_its_limit_is_the_candidates_own_fault(limited, add_problem, add_candidate):
    assert limited.evaluate(add_problem, add_candidate).status == "correct"
    ready = worker_cgroups()
    if not (ready[0] / "memory.max").exists():
        pytest.skip("this machine gives no memory controller")
    for cgroup in ready:
        used = int((cgroup / "memory.current").read_text())
        (cgroup / "memory.max").write_text(str(used + 100 * MIB))
    verdict = limited.evaluate(add_problem, HUNGRY_CANDIDATE)
    assert (verdict.status, verdict.error_category) == ("runtime_error", "out_of_memory")
    assert "retried" not in verdict.flags
    assert limited.evaluate(add_problem, add_candidate).status == "correct"


def test_no_cgroup_outlives_the_evaluator(add_problem, add_candidate):
    if why := cgroups_missing():
        pytest.skip(why)
    with Evaluator(CONFIG) as evaluator:
        assert evaluator.evaluate(add_problem, add_candidate).status == "correct"
        assert worker_cgroups()
    assert worker_cgroups() == []


def test_a_machine_without_cgroups_is_refused_where_they_are_required(add_problem, add_candidate):
    why = cgroups_missing()
    if not why:
        pytest.skip("this machine gives cgroups")
    with pytest.raises(IsolationUnavailableError, match="cgroup"), Evaluator(CONFIG) as evaluator:
        evaluator.evaluate(add_problem, add_candidate)
