"""Packages that cannot be imported beside torch: named, with what to do, also where a command meets them first."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from warpsmith.policy import packages
from warpsmith.policy.errors import PackagesError
from warpsmith.policy.packages import check_beside_torch, has_pip


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Installs a distribution of one module into a directory that this process and its children import from."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))

    def write(name: str, version: str, code: str, *requires: str) -> None:
        (site / f"{name}.py").write_text(code)
        info = site / f"{name}-{version}.dist-info"
        info.mkdir()
        lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {text}" for text in requires)]
        (info / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n")

    return write


BROKEN = "raise RuntimeError('operator torchvision::nms does not exist')\n"


def test_torchvision_of_another_build_is_refused_where_its_import_fails(install: Callable[..., None]) -> None:
    install("torch", "2.13.0+cpu", "")
    install("torchvision", "0.28.0", BROKEN)
    install("torchaudio", "2.13.0+cpu", "raise OSError('not looked at: it is of the same build')\n")
    with pytest.raises(
        PackagesError, match=r"torchvision 0\.28\.0 \(RuntimeError: operator torchvision::nms"
    ) as caught:
        check_beside_torch()
    assert "torchaudio" not in str(caught.value)
    assert f"`{sys.executable} -m pip uninstall --yes torchvision`, then run" in caught.value.remedy


def test_an_environment_without_pip_is_pointed_to_uv(
    install: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    install("torch", "2.13.0+cpu", "")
    install("torchvision", "0.28.0", BROKEN)
    monkeypatch.setattr(packages, "has_pip", lambda: False)
    with pytest.raises(PackagesError) as caught:
        check_beside_torch()
    assert f"`uv pip uninstall -p {sys.executable} torchvision`" in caught.value.remedy


def test_looking_for_pip_leaves_setuptools_usable() -> None:
    """vLLM imports setuptools in the process of a run, after such a look."""
    code = "from warpsmith.policy.packages import has_pip; print(has_pip()); import setuptools, distutils.core"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, f"{has_pip()}\n"), ended.stderr


def test_so_is_one_for_another_version_of_torch(install: Callable[..., None]) -> None:
    install("torch", "2.13.0", "")
    install("torchvision", "0.20.0", BROKEN, "torch (==2.5.0)", "numpy")
    with pytest.raises(PackagesError, match="torchvision"):
        check_beside_torch()


def test_one_of_another_build_that_can_be_imported_will_do(install: Callable[..., None]) -> None:
    install("torch", "2.13.0+cpu", "")
    install("torchvision", "0.28.0", "")
    assert check_beside_torch() == "nothing keeps torch 2.13.0+cpu from being used"


FAILING = """
import sys
from warpsmith.policy.packages import with_package_check
from warpsmith.records import commands

def app():
    raise {error}

commands.run(with_package_check(app))
"""


@pytest.mark.parametrize("error", ["ImportError('transformers cannot be imported')", "RuntimeError('no operator nms')"])
def test_a_command_that_fails_by_such_a_package_says_so(install: Callable[..., None], error: str) -> None:
    install("torch", "2.13.0+cpu", "")
    install("torchvision", "0.28.0", BROKEN)
    command = [sys.executable, "-c", FAILING.format(error=error)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=os.environ)
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.startswith("error: With torch 2.13.0+cpu these packages cannot be imported")


def test_other_failures_keep_their_own_words() -> None:
    command = [sys.executable, "-c", FAILING.format(error="ImportError('something else')")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    assert ended.stderr.rstrip().endswith("ImportError: something else")
