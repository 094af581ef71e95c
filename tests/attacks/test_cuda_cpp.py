"""The corpus of CUDA C++: on a GPU honest candidates are correct; elsewhere they compile and are recorded.

A file's head says the same as those of `test_attacks.py`: `# problem:`, `# permitted:`, `# permitted on cuda:`,
`# flags:` and `# harmless:`. `--attack-device` chooses the device. Without a GPU nothing can be `correct`.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem
from warpsmith.evaluator.languages.cuda_cpp import toolkit
from warpsmith.evaluator.verdict import STATUSES, Verdict

HERE = Path(__file__).parent / "cuda_cpp"
PROBLEMS = Path(__file__).parent / "problems"
CONTROLS = sorted((HERE / "controls").glob("*.py"))
ATTACKS = sorted(HERE.glob("*.py"))
COMPILE_TIMEOUT_S = 90.0
MEMORY_BYTES = {"cpu": 2 << 30, "cuda": 8 << 30}
OF_EVERY_RUN = frozenset({"perceptron_files", "nested_views", "mixed_softmax"})
"""A build of files, one of sources with views and many launches, one of both languages; the others are `long`.

`test_instructions.py` of the evaluator has a build of one kernel judged, `test_recording.py` a table in a variable.
"""
ATTACKS_OF_EVERY_RUN = frozenset(
    {"memoised_by_pointer", "incbin", "include_host_file", "flag_injection", "function_injection"}
    | {"launch_from_destructor", "forged_launch", "dynamic_parallelism", "keeps_on_the_heap"}
)
"""One of each mechanism; the others are `long`: each takes a compilation of seconds, some their whole deadline.

Those that end `undecided` without a GPU show only there what they are for, and one of them is enough. A launch of the
other language that is forged is refused in `test_combined.py` too.
"""

HEADERS = {"C10_CUDA_": "c10/cuda/CUDAException.h", "at::ceil_div": "ATen/ceil_div.h"}
"""Headers of torch that `load_inline` does not bring: without them a candidate compiles here alone."""

pytestmark = pytest.mark.slow


def _head(path: Path, name: str) -> set[str]:
    found = re.search(rf"^# {name}: (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {part.strip() for part in found[1].split(",")} if found else set()


def _permitted(path: Path, device: str) -> set[str]:
    return (_head(path, "permitted on cuda") if device == "cuda" else set()) or _head(path, "permitted")


def _parameters(paths: list[Path], left_out: frozenset[str]) -> list[object]:
    return [pytest.param(path, id=path.stem, marks=[pytest.mark.long] * (path.stem in left_out)) for path in paths]


@pytest.mark.parametrize("path", CONTROLS, ids=lambda path: path.stem)
def test_a_control_includes_the_headers_of_what_it_uses(path):
    source = path.read_text(encoding="utf-8")
    assert not [header for name, header in HEADERS.items() if name in source and header not in source]


@pytest.fixture(scope="module")
def evaluator(device: str) -> Iterator[Evaluator]:
    try:
        toolkit.find()
    except toolkit.ToolkitError as error:
        pytest.skip(str(error))
    config = EvaluatorConfig(
        language="cuda_cpp",
        slots=2,
        ready_workers=1,
        memory_bytes=MEMORY_BYTES[device],
        timeout_s=20.0,
        compile_timeout_s=COMPILE_TIMEOUT_S,
        **({} if device == "cpu" else {"device": device}),
    )
    with Evaluator(config) as running:
        yield running


@pytest.fixture(scope="module")
def judged(evaluator, request):
    """Gives the verdict on a file. Those of the tests to come that ask for one are judged two at a time."""
    asking = [item for item in request.session.items if "judged" in getattr(item, "fixturenames", ())]
    paths = dict.fromkeys(path for item in asking for path in item.callspec.params.values())
    with ThreadPoolExecutor(2) as threads:
        asked = {path: threads.submit(_verdict, evaluator, path) for path in paths if path.is_relative_to(HERE)}
        yield lambda path: asked[path].result()
        threads.shutdown(cancel_futures=True)


def _verdict(evaluator: Evaluator, path: Path) -> Verdict:
    (problem,) = _head(path, "problem")
    found = Problem.from_file(PROBLEMS / f"{problem}.py")
    return evaluator.evaluate(found, path.read_text(encoding="utf-8"), trials=1)


@pytest.mark.parametrize("control", _parameters(CONTROLS, frozenset(p.stem for p in CONTROLS) - OF_EVERY_RUN))
def test_honest_candidate_is_correct_or_undecided_without_a_gpu(judged, control, device):
    verdict = judged(control)
    assert verdict.compiled, verdict
    assert verdict.recording == "detached"
    assert set(verdict.flags) <= {"retried"}, verdict
    if device == "cuda":
        assert verdict.status == "correct", verdict
        assert verdict.runtime_ms is not None
        assert all(kernel.registers > 0 and kernel.threads > 0 for kernel in verdict.kernels)
        assert verdict.kernels
    else:
        assert (verdict.status, verdict.error_category) == ("undecided", "needs_device"), verdict
        assert not verdict.correct
        assert "forward launches them" in (verdict.error_message or "")


@pytest.mark.parametrize("attack", _parameters(ATTACKS, frozenset(p.stem for p in ATTACKS) - ATTACKS_OF_EVERY_RUN))
def test_attack_gains_nothing(judged, attack, device):
    verdict = judged(attack)
    assert verdict.status in _permitted(attack, device), verdict
    assert _head(attack, "flags") <= set(verdict.flags), verdict
    assert verdict.error_message or verdict.correct
    for secret in ("root:", "PATH="):
        assert secret not in (verdict.error_message or "")


def test_attacks_say_how_they_may_end():
    for path in ATTACKS:
        permitted = _head(path, "permitted")
        assert permitted, path
        assert permitted <= set(STATUSES) - {"correct", "invalid"}, path
        on_cuda = _permitted(path, "cuda")
        assert on_cuda <= set(STATUSES) - {"undecided", "invalid"}, path
        assert "correct" not in on_cuda or _head(path, "harmless"), path
    for path in ATTACKS + CONTROLS:
        (problem,) = _head(path, "problem")
        assert (PROBLEMS / f"{problem}.py").is_file(), path


def test_the_table_names_every_attack_and_no_other():
    named = re.findall(r"^\| `(\w+)\.py`", (HERE / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(named) == sorted(path.stem for path in ATTACKS)
