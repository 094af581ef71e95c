"""What a worker that compiles references may execute, and what its environment names."""

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

import pytest

from warpsmith.evaluator.sandbox import torch_compile


@pytest.fixture(autouse=True)
def forgotten():
    torch_compile.assembler.cache_clear()
    yield
    torch_compile.assembler.cache_clear()


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def torch_folder(tmp_path, monkeypatch):
    """A folder that is found as torch's."""
    spec = importlib.machinery.ModuleSpec("torch", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path / "torch")]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    monkeypatch.delenv("TRITON_PTXAS_PATH", raising=False)
    return tmp_path / "torch"


@pytest.mark.parametrize("place", ["bin/ptxas", "_inductor/bin/ptxas"])
def test_the_assembler_that_torch_brings_may_run_and_is_named(torch_folder, place):
    brought = program(torch_folder / place)
    assert torch_compile.assembler() == brought
    assert brought in torch_compile.programs(90)
    assert torch_compile.of_worker()["TRITON_PTXAS_PATH"] == str(brought)
    # A zygote's other workers compile with Triton's own, the only one that they may run.
    assert "TRITON_PTXAS_PATH" not in torch_compile.environment()


def test_one_that_the_environment_names_comes_first(torch_folder, tmp_path, monkeypatch):
    program(torch_folder / "bin/ptxas")
    named = program(tmp_path / "own" / "ptxas")
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(named))
    assert torch_compile.assembler() == named


def test_without_one_of_torch_tritons_is_left_to_triton(torch_folder):
    (torch_folder / "bin").mkdir(parents=True)
    (torch_folder / "bin" / "ptxas").write_text("no program")
    assert torch_compile.assembler() is None
    assert "TRITON_PTXAS_PATH" not in torch_compile.of_worker()
    assert torch_compile.programs(90)


def test_torch_is_not_imported_for_it():
    code = (
        "import sys; from warpsmith.evaluator.sandbox import torch_compile; torch_compile.assembler(); "
        "sys.exit('torch' in sys.modules)"
    )
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code]) == 0
