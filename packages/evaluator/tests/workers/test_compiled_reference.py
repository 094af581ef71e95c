"""torch.compile in a contained worker: on a CPU it compiles C++, with compilers that no other worker may run."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext

import pytest
from timed_problems import UNCOMPILED

from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.processes.machine import Machine
from warpsmith.evaluator.reference.session import ReferenceFailedError, ReferenceSession
from warpsmith.evaluator.workers import compiled_reference

SOURCE = """import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(64))
    def forward(self, x):
        return torch.relu(x * self.scale) + 1.0

def get_inputs():
    return [torch.randn(16, 64)]

def get_init_inputs():
    return []
"""
FINDS_COMPILERS = "\nimport subprocess\nsubprocess.run(['gcc', '--version'], check=True)\n"


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    made = Machine(EvaluatorConfig(slots=1, ready_workers=1, baseline=("eager", "compile")))
    with closing(made):
        yield made


def session(machine: Machine, source: str, role: str = "baseline") -> ReferenceSession:
    made = ReferenceSession(machine, source, init_seed=3, role=role)
    made.make_inputs(5)
    return made


@pytest.mark.slow
def test_a_reference_is_compiled_where_compilers_may_run_and_a_failure_leaves_the_worker_usable(machine):
    with closing(session(machine, UNCOMPILED.source)) as refusing:
        with pytest.raises(ReferenceFailedError, match="NotCompiledError"):
            refusing.tune("default", 120)
        assert refusing.operations() == {}
    with closing(session(machine, SOURCE)) as compiled:
        compiled.tune("default", 120)
        assert compiled.worker.tier == "namespaces"


@pytest.mark.slow
def test_a_reference_is_compiled_while_another_thread_uses_the_device(machine, monkeypatch):
    """Its worker asks for the device for its second and third call, and waits as long as another thread uses it."""
    lease, asked = machine.lease, threading.Semaphore(0)
    alone = lease.alone

    def counted() -> AbstractContextManager[None]:
        assert lease.held_here() == ""
        asked.release()
        return alone()

    monkeypatch.setattr(lease, "alone", counted)
    with closing(session(machine, SOURCE)) as compiled, ThreadPoolExecutor(1) as pool:
        with lease.shared():
            tuning = pool.submit(compiled.tune_beside_others, "default", 120)
            assert asked.acquire(timeout=120)
            assert not tuning.done()
        assert tuning.result(timeout=120) == 16 * 64 * 4
        assert asked.acquire(blocking=False)
        assert not asked.acquire(blocking=False)
        assert compiled.tune("eager", 60) == 16 * 64 * 4


@pytest.mark.slow
def test_a_failure_beside_others_leaves_the_device_free(machine):
    with closing(session(machine, UNCOMPILED.source)) as refusing:
        with pytest.raises(ReferenceFailedError, match="is_compiling"):
            refusing.tune_beside_others("default", 120)
        assert refusing.tune("eager", 60) > 0
    with machine.lease.alone():
        pass


class Setting:
    """Inductor's benchmarking with or without a setting for what surrounds a measurement."""

    class Benchmarker:
        def benchmark_gpu(self, call):
            return call()

    def __init__(self, has_setting: bool):
        self.benchmarker, self.context = self.Benchmarker(), None
        if has_setting:
            self.set_gpu_benchmark_lock_context = self._register

    def _register(self, context):
        before, self.context = self.context, context
        return before

    def measure(self, call):
        with self.context() if self.context else nullcontext():
            return self.benchmarker.benchmark_gpu(call)


@pytest.mark.parametrize("has_setting", [True, False])
def test_times_are_compared_within_a_context_and_only_while_it_compiles(monkeypatch, has_setting):
    """torch 2.13 has a setting for it, and 2.11 has not."""
    from torch._inductor.runtime import benchmarking

    entered = []

    @contextmanager
    def context():
        entered.append(True)
        yield

    known = Setting(has_setting)
    monkeypatch.setattr(benchmarking, "benchmarker", known.benchmarker)
    monkeypatch.setattr(benchmarking, "set_gpu_benchmark_lock_context", None, raising=False)
    if has_setting:
        monkeypatch.setattr(benchmarking, "set_gpu_benchmark_lock_context", known.set_gpu_benchmark_lock_context)
    assert (known.measure(lambda: 7), len(entered)) == (7, 0)
    with compiled_reference.comparing_times_in(context):
        assert (known.measure(lambda: 8), len(entered)) == (8, 1)
    assert (known.measure(lambda: 9), len(entered)) == (9, 1)


def test_only_the_worker_of_baselines_may_run_a_compiler(machine):
    with pytest.raises(ReferenceFailedError, match=r"PermissionError|FileNotFoundError"):
        session(machine, SOURCE + FINDS_COMPILERS, role="reference")
    with closing(session(machine, SOURCE + FINDS_COMPILERS)) as allowed:
        assert allowed.worker.alive


def test_no_worker_of_baselines_is_kept_ready(machine):
    assert "baseline" not in machine.pools


def test_products_are_counted_by_dtype_and_nothing_else_is(machine):
    body = "torch.softmax(torch.relu(x) @ torch.ones(64, 8), -1).double() @ torch.ones(8, 2, dtype=torch.float64)"
    source = SOURCE.replace("torch.relu(x * self.scale) + 1.0", body)
    with closing(session(machine, source, role="reference")) as counted:
        assert counted.operations() == {"float32": 2 * 16 * 64 * 8, "float64": 2 * 16 * 8 * 2}


def test_a_problem_without_products_counts_nothing(machine):
    with closing(session(machine, SOURCE, role="reference")) as counted:
        assert counted.operations() == {}


NAMELESS = """
import pwd
from warpsmith.evaluator.workers import compiled_reference

def unknown(uid):
    raise KeyError(f"getpwuid(): uid not found: {uid}")

pwd.getpwuid = unknown
compiled_reference.prepare()
from torch._inductor.runtime.cache_dir_utils import default_cache_dir
print(default_cache_dir())
"""


def test_inductor_is_prepared_under_an_identity_without_a_name():
    """In a sandbox the identity of a worker has no entry among the machine's users."""
    environment = {name: value for name, value in os.environ.items() if name not in {"USER", "LOGNAME", "LNAME"}}
    done = subprocess.run(
        [sys.executable, "-c", NAMELESS], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
