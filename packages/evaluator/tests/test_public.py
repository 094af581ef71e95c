"""What `warpsmith.evaluator` exports, and that it imports no more than is used."""

import inspect
import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import warpsmith.evaluator as public
from warpsmith.evaluator import BadProblemError, EvaluatorError, Problem, UsageError, errors
from warpsmith.evaluator.client import remote
from warpsmith.evaluator.client.request import EvaluationRequest
from warpsmith.evaluator.client.sources import problem_of, source_of
from warpsmith.evaluator.config import configured
from warpsmith.records.errors import WarpsmithError

OF_SERVERS_AND_WORKERS = {
    "BusyError",
    "RefusalError",
    "ArgumentError",
    "KernelCompilationError",
    "FenceError",
    "OwnDescriptorError",
    "PtxError",
}
"""Never raised by the API: a server's own answers, and what becomes a verdict."""


def test_every_public_name_is_there_and_listed():
    for name in public.__all__:
        assert getattr(public, name) is not None
        assert name in dir(public)
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        public.Nothing  # noqa: B018


def evaluator_errors():
    """Yield each EvaluatorError that a module of the package defines."""
    for module in pkgutil.walk_packages(public.__path__, "warpsmith.evaluator."):
        # Adapters import their frameworks, which are not here, and define no errors.
        adapter = module.name.startswith("warpsmith.evaluator.integrations.")
        if not adapter and module.name not in {"warpsmith.evaluator.__main__", "warpsmith.evaluator._native"}:
            for name, kind in inspect.getmembers(import_module(module.name), inspect.isclass):
                if issubclass(kind, EvaluatorError) and kind.__module__ == module.name:
                    yield name, kind


def test_every_error_that_the_api_raises_is_exported():
    found = dict(evaluator_errors())
    assert {"BadProblemError", "ServerRefusedError"} <= found.keys()
    for name, kind in found.items():
        assert name in OF_SERVERS_AND_WORKERS or getattr(public, name) is kind, name
    assert public.UsageError is UsageError and public.WarpsmithError is WarpsmithError
    assert public.WireError is errors.WireError and public.ServerError is remote.ServerError


@pytest.mark.parametrize(
    ("used", "absent"),
    [
        ("EvaluatorConfig", ["torch", "triton", "warpsmith.evaluator._native", "warpsmith.evaluator.client.evaluator"]),
        ("Problem", ["torch", "triton", "warpsmith.evaluator._native"]),
        ("Verdict", ["torch", "triton", "warpsmith.evaluator._native"]),
        ("Client", ["torch", "triton", "httpx"]),
        ("evaluate", ["torch", "triton"]),
    ],
)
def test_a_name_imports_no_more_than_it_needs(used, absent):
    code = f"import sys; from warpsmith.evaluator import {used}; print([m for m in {absent} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


SOURCE = "class Model: ...\ndef get_inputs(): ...\n"


def test_a_path_is_a_path_and_text_is_source(tmp_path):
    file = tmp_path / "level1" / "19_ReLU.py"
    file.parent.mkdir()
    file.write_text(SOURCE)
    problem = problem_of(file)
    assert (problem.name, problem.level, problem.number, problem.source) == ("19_ReLU", 1, 19, SOURCE)
    assert problem_of(problem) is problem
    assert problem_of(SOURCE).source == SOURCE
    assert source_of(file) == SOURCE == source_of(SOURCE)


@pytest.mark.parametrize("text", ["19_ReLU.py", "/data/level1/19_ReLU.py", " my kernels/relu.py\n"])
def test_text_that_is_a_path_is_taken_for_no_source(text):
    with pytest.raises(UsageError, match=r"pass pathlib.Path\("):
        problem_of(text)
    verdict = EvaluationRequest.of(SOURCE, text).refusal
    assert verdict is not None
    assert (verdict.status, verdict.error_category) == ("compile_error", "parse_error")
    assert f"pathlib.Path({text.strip()!r})" in (verdict.error_message or "")


@pytest.mark.parametrize("text", ["", "x = 1", "import a\n# see relu.py", "a\nb.py", "x" * 5000 + ".py"])
def test_source_is_taken_for_no_path(text):
    assert EvaluationRequest.of(SOURCE, text).refusal is None


def test_a_candidate_that_is_a_path_is_judged_without_a_look_at_the_file(evaluator, add_problem, tmp_path):
    file = tmp_path / "relu.py"
    file.write_text("class ModelNew: ...")
    assert evaluator.evaluate(add_problem, str(file)).error_category == "parse_error"


def test_files_are_judged_by_their_paths(evaluator, add_problem, add_candidate, tmp_path):
    problem, candidate = tmp_path / "add.py", tmp_path / "candidate.py"
    problem.write_text(add_problem.source)
    candidate.write_text(add_candidate)
    assert evaluator.evaluate(problem, candidate, trials=1).status == "correct"
    assert evaluator.evaluate(add_problem.source, add_candidate, trials=1).status == "correct"


@pytest.mark.parametrize("given", [3, None, b"class Model: ..."])
def test_other_types_are_refused_with_what_to_pass(given):
    with pytest.raises(UsageError, match=r"its file's path was expected. Pass pathlib.Path"):
        problem_of(given)
    with pytest.raises(UsageError, match=r"or the path of a file was expected. Pass the text"):
        source_of(given)


def test_files_that_are_not_there_are_named(tmp_path):
    with pytest.raises(BadProblemError, match="does not exist"):
        problem_of(tmp_path / "none.py")
    with pytest.raises(UsageError, match="does not exist"):
        source_of(tmp_path / "none.py")
    with pytest.raises(UsageError, match="is a directory"):
        source_of(Path(tmp_path))
    with pytest.raises(BadProblemError, match="defines no Model"):
        problem_of("x = 1")
    with pytest.raises(BadProblemError, match=r"it is a candidate\. Give the problem, .* first"):
        problem_of("class ModelNew: pass")
    assert isinstance(problem_of(SOURCE), Problem)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"target": "banana"}, "target: String should match"),
        ({"target": "sm_130"}, "like this: the target sm_130 is not a chip that is known here: sm_75, "),
        ({"target_arch": 95}, "like this: the target sm_95 is not a chip"),
        ({"device": "cuda", "target": "sm_90"}, "like this: target 'sm_90' is for the device cpu"),
    ],
)
def test_a_wrong_setting_is_named_once_and_in_our_words(options, says):
    with pytest.raises(UsageError) as raised:
        configured(**options)
    assert says in raised.value.message
    assert "Value error" not in raised.value.message
    assert "default factory" not in raised.value.message
