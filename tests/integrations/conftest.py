"""Environments of their own, each with the built evaluator and one framework, in which the examples of the docs run."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import triton

from warpsmith.evaluator.bench.example import write_example

ROOT = Path(__file__).resolve().parents[2]
UV = ROOT / ".venv/bin/uv"
PAGE = ROOT / "docs/integrations.md"
SUPPORT = Path(__file__).parent / "support"
MINUTES = 8


def blocks(heading: str, language: str) -> list[str]:
    """Return the code blocks of a language below a heading of the page, up to the next heading."""
    section = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = next(part for part in section if part.startswith(f"{heading}\n"))
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


@dataclass
class Environment:
    """An environment with its own packages, and a folder with problems in which commands run."""

    folder: Path
    work: Path

    def run(self, *command: str | Path, timeout_s: float = 60 * MINUTES, **variables: str) -> str:
        """Run a command of the environment; return what it wrote, and fail with it if it failed."""
        bin_ = self.folder / "bin"
        variables = os.environ | {"PATH": f"{bin_}:{os.environ['PATH']}", "HF_HUB_OFFLINE": "1"} | variables
        done = subprocess.run(
            [str(bin_ / command[0]), *map(str, command[1:])],
            cwd=self.work,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-6000:]
        return done.stdout

    def example(self, heading: str, **variables: str) -> str:
        """Run the first Python block below a heading."""
        (self.work / "example.py").write_text(blocks(heading, "python")[0])
        return self.run("python", "example.py", **variables)

    def support(self, name: str, *arguments: str | Path, **variables: str) -> str:
        """Run a program of tests/integrations/support."""
        return self.run("python", SUPPORT / name, *arguments, **variables)


@pytest.fixture(scope="session")
def wheels(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    build(folder, sys.executable)
    return folder


def build(folder: Path, python: str) -> None:
    """Build the wheels of both packages for a Python."""
    for package in ("records", "evaluator"):
        source = ROOT / "packages" / package
        command = [UV, "build", "--quiet", "--wheel", "--python", python, "--out-dir", folder, source]
        subprocess.run([str(part) for part in command], check=True)


@pytest.fixture(scope="module")
def environment(wheels, tmp_path_factory) -> Iterator[Callable[..., Environment]]:
    """Return a function that makes an environment with extras of the evaluator, and other packages."""

    def make(extras: str, *packages: str, python: str = sys.executable) -> Environment:
        folder = tmp_path_factory.mktemp(extras.partition(",")[0])
        environment = Environment(folder / "venv", folder / "work")
        environment.work.mkdir()
        subprocess.run([str(UV), "venv", "--quiet", "--python", python, str(environment.folder)], check=True)
        links = [str(wheels), *os.environ.get("PIP_FIND_LINKS", "").split()]
        options = [option for link in links for option in ("--find-links", link)]
        wanted = [f"warpsmith-evaluator[{extras}]"]
        if "judge" in extras:
            wanted += [f"torch=={torch.__version__}", f"triton=={triton.__version__}"]
        if python != sys.executable:
            build(wheels, python)
        install = [str(UV), "pip", "install", "--quiet", "--python", str(environment.folder / "bin/python"), *options]
        subprocess.run([*install, *wanted, *packages], check=True)
        write_example(environment.work)
        return environment

    return make
