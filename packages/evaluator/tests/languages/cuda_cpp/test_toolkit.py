"""A toolkit is found where it can be; where there is none, or one too old, an error says what to install."""

import shutil
from pathlib import Path

import pytest

from warpsmith.evaluator import EvaluatorConfig
from warpsmith.evaluator.languages.cuda_cpp import toolkit
from warpsmith.evaluator.languages.registry import language_of
from warpsmith.evaluator.languages.source_language import other_language
from warpsmith.records.errors import UsageError


@pytest.fixture
def found():
    try:
        return toolkit.find.__wrapped__()
    except toolkit.ToolkitError as error:
        pytest.skip(str(error))


@pytest.fixture
def bare(monkeypatch):
    """A machine without a toolkit."""
    for variable in (toolkit.ROOT_VARIABLE, toolkit.COMPILER_VARIABLE, "CUDA_HOME", "CUDA_PATH", "CXX"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(toolkit, "_roots", lambda: iter([Path("/nowhere/cuda")]))


def test_without_a_toolkit_one_paragraph_says_what_to_install(bare):
    with pytest.raises(toolkit.ToolkitError) as raised:
        toolkit.find.__wrapped__()
    assert "there is no CUDA toolkit on this machine (/nowhere/cuda lacks bin/nvcc)" in raised.value.message
    assert "pip install './packages/evaluator[cuda-cpp]'" in raised.value.remedy
    assert "CUDA_HOME" in raised.value.remedy


def test_without_a_host_compiler_one_paragraph_says_what_to_install(bare, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with pytest.raises(toolkit.ToolkitError, match="there is no g") as raised:
        toolkit.find.__wrapped__()
    assert "apt install g++" in raised.value.remedy


def test_the_toolkit_that_a_variable_names_comes_first_and_without_links(found, monkeypatch, tmp_path):
    """A sandbox has the folder itself alone."""
    other, linked = tmp_path / "cuda", tmp_path / "linked"
    for part in toolkit._PARTS:
        (other / part).parent.mkdir(parents=True, exist_ok=True)
        (other / part).touch()
    linked.symlink_to(other)
    monkeypatch.setenv("CUDA_HOME", str(linked))
    monkeypatch.delenv(toolkit.ROOT_VARIABLE, raising=False)
    assert toolkit.find.__wrapped__().root == other.resolve()


def test_a_compiler_that_is_a_script_is_passed_over(found, monkeypatch, tmp_path):
    script = tmp_path / "wrapped-g++"
    script.write_text(f'#!/bin/sh\nexec {found.compiler} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    monkeypatch.delenv(toolkit.COMPILER_VARIABLE, raising=False)
    assert toolkit.find.__wrapped__().compiler == found.compiler


def test_a_toolkit_that_does_not_know_the_chip_names_those_it_knows(found):
    found.check_chip(90)
    with pytest.raises(toolkit.ToolkitError, match=r"cannot compile for sm_61; it knows .*sm_90"):
        found.check_chip(61)


@pytest.mark.parametrize("chip", [{"target": "sm_101"}, {"target_arch": 101}])
def test_a_chip_that_the_toolkit_does_not_know_is_refused_before_a_judge_starts(found, monkeypatch, chip):
    monkeypatch.setattr(toolkit, "_said", lambda *_: "sm_90\nsm_100\n")
    with pytest.raises(toolkit.ToolkitError, match="cannot compile for sm_101; it knows sm_90, sm_100"):
        language_of("cuda_cpp").check(EvaluatorConfig(language="cuda_cpp", device="cpu", **chip))


def test_what_a_compilation_executes_and_reads_is_there(found):
    names = {path.name for path in found.programs}
    assert {"nvcc", "cicc", "ptxas", "cudafe++", "cc1plus", "collect2"} <= names
    assert all(path.is_file() for path in found.programs)
    assert all(path.exists() for path in found.folders)
    assert found.version().startswith("nvcc 1")


def test_recording_on_a_device_that_runs_no_kernels_is_refused_before_a_judge_starts():
    config = EvaluatorConfig(language="cuda_cpp", device="cpu", recording="on_device")
    with pytest.raises(UsageError, match="on_device"):
        language_of("cuda_cpp").check(config)
    language_of("cuda_cpp").check(config.model_copy(update={"device": "cuda"}))


TRITON = "import torch\nimport triton\n"
CUDA = "from torch.utils.cpp_extension import load_inline\n"


@pytest.mark.parametrize(
    ("source", "judged_as", "other"),
    [
        (CUDA, "triton", "cuda_cpp"),
        (TRITON, "cuda_cpp", "triton"),
        (TRITON, "triton", None),
        (CUDA, "cuda_cpp", None),
        (TRITON + CUDA, "triton", None),
        (TRITON + CUDA, "cuda_cpp", None),
        ("import torch\n", "triton", None),
        ("import torch, triton.language as tl\n", "cuda_cpp", "triton"),
        ("from triton import jit\n", "cuda_cpp", "triton"),
        ('"""Written without triton."""\n', "cuda_cpp", None),
    ],
)
def test_a_source_in_another_language_is_known_by_its_text(source, judged_as, other):
    found = other_language(source, language_of(judged_as))
    assert (found.name if found else None) == other
