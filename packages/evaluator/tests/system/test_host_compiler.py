"""Which compiler of C and C++ is found on a machine."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from warpsmith.evaluator.system.host_compiler import NoHostCompilerError, find_host_compiler, find_program

GCC = shutil.which("gcc")

pytestmark = pytest.mark.skipif(GCC is None, reason="there is no gcc on this machine")


def _script(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'#!/bin/sh\nexec {GCC} "$@"\n')
    path.chmod(0o755)
    return path


def _program(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(GCC)
    return path


def test_a_script_is_passed_over_for_a_program(tmp_path, monkeypatch):
    script, program = _script(tmp_path / "first" / "gcc"), _program(tmp_path / "second" / "gcc")
    monkeypatch.setenv("CC", str(script))
    monkeypatch.setenv("PATH", f"{script.parent}:{program.parent}")
    assert find_program(["CC"], ["gcc", "cc"]) == program


def test_a_variable_comes_before_the_path(tmp_path, monkeypatch):
    named, other = _program(tmp_path / "first" / "mine"), _program(tmp_path / "second" / "gcc")
    monkeypatch.setenv("CC", str(named))
    monkeypatch.setenv("PATH", str(other.parent))
    assert find_program(["CC"], ["gcc"]) == named


def test_what_cannot_be_read_is_passed_over(tmp_path, monkeypatch):
    program = _program(tmp_path / "second" / "gcc")
    monkeypatch.setenv("CC", str(tmp_path))
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setattr(shutil, "which", lambda name, path=None: str(tmp_path) if path is None else str(program))
    assert find_program(["CC"], ["gcc"]) == program


def test_scripts_alone_are_no_compiler(tmp_path, monkeypatch):
    script = _script(tmp_path / "first" / "gcc")
    monkeypatch.setenv("CC", str(script))
    monkeypatch.setenv("PATH", str(script.parent))
    with pytest.raises(NoHostCompilerError, match="There is no gcc on this machine"):
        find_host_compiler()


def test_the_linkers_plugin_lies_in_a_listed_folder():
    found = find_host_compiler()
    steps = subprocess.run([found.c, "-###", "-shared", "x.o"], capture_output=True, text=True, check=True).stderr
    plugin = Path(re.findall(r"-plugin \"?(/[^\s\"]+)", steps)[0]).resolve()
    assert plugin.parent in found.folders
