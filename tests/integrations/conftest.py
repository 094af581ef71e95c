"""Environments of their own, each with the built evaluator and one framework, in which the examples of the docs run."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import triton

from warpsmith.evaluator.bench.example import write_example

# pytest's importlib mode leaves sys.path alone, and the tests share what stands in support/.
sys.path.insert(0, str(Path(__file__).parent / "support"))

from environments import UV, Environment, build


@pytest.fixture(scope="session")
def wheels(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    build(folder, sys.executable)
    return folder


@pytest.fixture(scope="module")
def environment(wheels, tmp_path_factory) -> Iterator[Callable[..., Environment]]:
    """Return a function that makes an environment with extras of the evaluator, and other packages.

    `overrides` is a file of requirements that hold whatever packages ask for.
    """

    def make(extras: str, *packages: str, python: str = sys.executable, overrides: Path | None = None) -> Environment:
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
        install += ["--override", str(overrides)] if overrides else []
        subprocess.run([*install, *wanted, *packages], check=True)
        write_example(environment.work)
        return environment

    return make
