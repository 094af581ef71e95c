"""Every file beside this one is a candidate with the verdict it must get; each is found by its name.

A file's head says which problem it is for (`# problem: add`), which statuses it may end in (`# permitted: incorrect,
rejected`) and which flags it must carry (`# flags: torch_fallback`). `controls/` must be correct, `wrong/` never.
"""

import re
from pathlib import Path

import pytest

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem

HERE = Path(__file__).parent
STATUSES = {"correct", "incorrect", "compile_error", "runtime_error", "timeout", "rejected"}
TIMEOUT_S = 10.0
COMPILE_TIMEOUT_S = 15.0


def _head(path: Path, name: str) -> set[str]:
    found = re.search(rf"^# {name}: (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {part.strip() for part in found[1].split(",")} if found else set()


def _files(folder: str) -> list[Path]:
    return sorted(path for path in (HERE / folder).glob("*.py") if not path.name.startswith("test_"))


def _named(paths: list[Path]) -> dict[str, list]:
    return {"argvalues": paths, "ids": [path.stem for path in paths]}


@pytest.fixture(scope="module")
def evaluator():
    """One pool for the whole corpus, started with a canary in its environment for environment_leak.py to look for."""
    config = EvaluatorConfig(
        slots=2, ready_workers=1, memory_bytes=1 << 30, timeout_s=TIMEOUT_S, compile_timeout_s=COMPILE_TIMEOUT_S
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPSMITH_CANARY", "planted")
        with Evaluator(config) as running:
            yield running


def _verdict(evaluator: Evaluator, path: Path):
    (problem,) = _head(path, "problem")
    return evaluator.evaluate(Problem.from_file(HERE / "problems" / f"{problem}.py"), path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", **_named(_files("controls")))
def test_honest_kernel_is_correct(evaluator, path):
    verdict = _verdict(evaluator, path)
    assert verdict.status == "correct", verdict
    assert verdict.compiled
    assert verdict.trials == 5
    assert set(verdict.flags) <= {"retried"}


@pytest.mark.parametrize("path", **_named(_files("wrong")))
def test_wrong_kernel_is_not_correct(evaluator, path):
    verdict = _verdict(evaluator, path)
    assert verdict.status in (_head(path, "permitted") or {"incorrect"}), verdict
    assert verdict.error_message


@pytest.mark.parametrize("path", **_named(_files(".")))
def test_attack_gains_nothing(evaluator, path):
    permitted = _head(path, "permitted")
    assert permitted, f"{path.name} names no permitted status"
    assert permitted <= STATUSES - {"correct"} or _head(path, "harmless")
    verdict = _verdict(evaluator, path)
    assert verdict.status in permitted, verdict
    assert _head(path, "flags") <= set(verdict.flags), verdict


def test_attacks_leave_nothing_on_the_host(evaluator):
    """write_host_files.py writes a file of this name wherever it can; the worker's own scratch is gone with it."""
    assert _verdict(evaluator, HERE / "write_host_files.py").status == "rejected"
    folders = [Path("/tmp"), Path("/dev/shm"), Path("/"), Path.home(), Path.cwd()]
    assert not [folder for folder in folders if (folder / "warpsmith-attack-file").exists()]
