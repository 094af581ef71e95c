"""Runs functions inside contained workers. Each is sent as source to a process of one thread that spawns them."""

import inspect
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from warpsmith.evaluator import _native

SYSTEM_BINDS = [[path, path, False] for path in ("/usr", "/bin", "/lib", "/lib64") if Path(path).exists()]
PYTHON_BINDS = [[path, path, False] for path in sorted({sys.prefix, sys.base_prefix}) if not path.startswith("/usr")]


@dataclass
class Report:
    """What a worker did: what it returned and said, how it ended, what it printed; or why it could not start."""

    result: Any = None
    raised: str | None = None
    said: Any = None
    exit: Any = None
    output: str = ""
    tier: str = ""
    killed: bool = False
    ended_by: str | None = None
    seconds: float = 0.0
    alive_after: Any = None
    cgroup: Any = None
    failure: Any = None


class Runner:
    def __init__(self, environment: dict[str, str] | None = None, *arguments: str) -> None:
        script = str(Path(__file__).parents[1] / "support" / "contained_runner.py")
        self.process = subprocess.Popen(
            [sys.executable, script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | (environment or {}),
        )

    def __call__(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        patience_s: float = 30,
        kill_when_said: bool = False,
        **policy: Any,
    ) -> Report:
        """Run `function(*arguments)` in a worker. It sees only the modules that the runner imports."""
        defaults: dict[str, Any] = {"binds": SYSTEM_BINDS + PYTHON_BINDS}
        request = {
            "source": textwrap.dedent(inspect.getsource(function)),
            "name": function.__name__,
            "arguments": arguments,
            "policy": defaults | policy,
            "patience_s": patience_s,
            "kill_when_said": kill_when_said,
        }
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return Report(**json.loads(self.process.stdout.readline()))

    def result_of(self, function: Callable[..., Any], *arguments: Any, **policy: Any) -> Any:
        """Return what the function returned in a worker that ended well."""
        report = self(function, *arguments, **policy)
        assert report.failure is None, report.failure
        assert report.raised is None, report.raised
        assert report.exit == [0, None], (report.exit, report.output)
        return report.result

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)


@pytest.fixture(scope="session")
def tier() -> str:
    return _native.achievable_tier()


@pytest.fixture(scope="session")
def any_runner() -> Iterator[Runner]:
    runner = Runner()
    yield runner
    runner.close()


@pytest.fixture
def contained(any_runner: Runner, tier: str) -> Runner:
    """Runs functions at the tier `namespaces`; skips where this machine does not give it."""
    if tier != "namespaces":
        pytest.skip(f"this machine gives only the tier {tier}")
    return any_runner


def has_proc() -> bool:
    return os.path.isdir("/proc/self")


@pytest.fixture
def contained_with_proc(contained: Runner) -> Runner:
    """As `contained`; skips where the kernel refuses a fresh /proc, as it does in most containers."""
    if not contained.result_of(has_proc):
        pytest.skip("workers have no /proc on this machine")
    return contained


@pytest.fixture
def make_runner() -> Iterator[Callable[[dict[str, str]], Runner]]:
    """Makes runners whose own process starts with more environment variables."""
    runners: list[Runner] = []

    def make(environment: dict[str, str]) -> Runner:
        runners.append(Runner(environment))
        return runners[-1]

    yield make
    for runner in runners:
        runner.close()


@pytest.fixture
def landlocked(any_runner: Runner, tier: str) -> Callable[..., Report]:
    """Runs functions at the tier `landlock`, where the worker may not be able to read Python's own files."""
    if tier == "none":
        pytest.skip("this machine has no Landlock")

    def run(function: Callable[..., Any], *arguments: Any, **policy: Any) -> Report:
        chosen = {"binds": SYSTEM_BINDS, "strongest_tier": "landlock", "minimum_tier": "landlock"} | policy
        return any_runner(function, *arguments, **chosen)

    return run


@pytest.fixture(scope="session")
def cgroup_runner() -> Iterator[Runner]:
    """Runs functions in workers with cgroups of their own; skips where no subtree of cgroup v2 is ours to divide."""
    ask = "from warpsmith.evaluator import _native; _native.Cgroups.open().close()"
    tried = subprocess.run([sys.executable, "-c", ask], check=False, capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"this machine gives no cgroups: {tried.stderr.strip().splitlines()[-1]}")
    runner = Runner(None, "cgroups")
    yield runner
    runner.close()
