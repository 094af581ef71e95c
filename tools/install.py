"""Set up `.venv` with the tested pins and every package, editable. Seconds when nothing changed.

Run by `make install` with the system's Python (3.11 or 3.12); needs nothing but the standard library.
Each stage is skipped while the files that it depends on are what they were when it last succeeded.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMPS = VENV / "stamps"
LOCK = ROOT / "requirements" / "cpu.lock"
PURE_PACKAGES = ("records", "policy", "rollout", "trainer")
UV_VERSION = "0.13.8"
SUPPORTED = ((3, 11), (3, 12))


class MissingToolError(Exception):
    """Something that only the system's package manager can bring is not there."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--force", action="store_true", help="run every stage, changed or not")
    arguments = parser.parse_args()
    try:
        check_system()
        if arguments.force:
            shutil.rmtree(STAMPS, ignore_errors=True)
        stage("virtual environment", [], make_environment)
        stage("locked requirements", [LOCK], install_lock)
        stage("Python packages", metadata(PURE_PACKAGES), partial(install_editable, PURE_PACKAGES))
        stage("evaluator and its extension", native_inputs(), install_evaluator)
    except MissingToolError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        print(
            f"error: `{' '.join(map(str, error.cmd))}` ended with {error.returncode}; its output stands above.",
            file=sys.stderr,
        )
        return 1
    return 0


def check_system() -> None:
    """Name every missing tool with the command that installs it, before anything is downloaded."""
    if sys.version_info[:2] not in SUPPORTED:
        raise MissingToolError(
            f"Python {sys.version_info[0]}.{sys.version_info[1]} runs this, and 3.11 or 3.12 is needed. "
            "Install one (`sudo apt-get install python3.12 python3.12-venv python3.12-dev`) and name it: "
            "`make PYTHON=python3.12`."
        )
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    header = Path(__import__("sysconfig").get_paths()["include"]) / "Python.h"
    wanted = {
        "g++ (a C++20 compiler)": (shutil.which(os.environ.get("CXX", "g++")) is not None, "g++"),
        "Python.h (Python's headers)": (header.exists(), f"{version}-dev"),
        "ensurepip (for virtual environments)": (has_module("ensurepip"), f"{version}-venv"),
    }
    missing = {name: package for name, (there, package) in wanted.items() if not there}
    if missing:
        raise MissingToolError(
            f"not found: {', '.join(missing)}. Install with `sudo apt-get install {' '.join(missing.values())}`."
        )


def has_module(name: str) -> bool:
    return __import__("importlib.util").util.find_spec(name) is not None


def stage(name: str, inputs: Iterable[Path], work: Callable[[], None]) -> None:
    """Do `work` unless it was done for exactly these inputs."""
    stamp = STAMPS / name.replace(" ", "-")
    digest = digest_of(inputs)
    if stamp.exists() and stamp.read_text() == digest:
        return
    print(f"install: {name}", flush=True)
    work()
    STAMPS.mkdir(parents=True, exist_ok=True)
    stamp.write_text(digest)


def digest_of(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256(sys.version.encode() + str(ROOT).encode())
    for path in paths:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def make_environment() -> None:
    run(sys.executable, "-m", "venv", "--clear", VENV)
    run(VENV / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"uv=={UV_VERSION}")


def install_lock() -> None:
    """Install exactly the lock. `--no-deps`: the lock is whole, and torchvision and its kin must stay out.

    vLLM names torchvision, torchaudio and torchcodec; their wheels fail to import beside a CPU build of torch.
    """
    backend = [] if os.environ.get("PIP_FIND_LINKS") else ["--torch-backend", "cpu"]
    uv("pip", "install", "--no-deps", *backend, "-r", LOCK)


def install_editable(packages: Iterable[str], *settings: str) -> None:
    """Install packages of the workspace so that they run from its sources; what they need is there already."""
    paths = [part for name in packages for part in ("--editable", ROOT / "packages" / name)]
    uv("pip", "install", "--quiet", "--no-deps", "--no-build-isolation", *settings, *paths)


def install_evaluator() -> None:
    # Right after an install the disk may keep cmake from starting for longer than the build backend waits (5 s). Ours
    # waits for as long as it takes, and leaves it in memory.
    subprocess.run([VENV / "bin/cmake", "--version"], check=True, stdout=subprocess.DEVNULL)
    install_editable(["evaluator"], "--config-settings", "cmake.define.WARPSMITH_WERROR=ON")


def metadata(packages: Iterable[str]) -> list[Path]:
    """The files whose change makes an editable install stale."""
    return [
        ROOT / "packages" / name / file
        for name in packages
        for file in ("pyproject.toml", f"src/warpsmith/{name}/_version.py")
    ]


def native_inputs() -> list[Path]:
    """The evaluator's metadata, its packages, which an editable install lists, and what its extension is made from."""
    compiled = (path for path in sorted((ROOT / "csrc").rglob("*")) if path.is_file() and "tests" not in path.parts)
    packages = sorted((ROOT / "packages/evaluator/src").rglob("__init__.py"))
    return [*metadata(["evaluator"]), ROOT / "CMakeLists.txt", *compiled, *packages]


def uv(*arguments: str | Path) -> None:
    """Call uv on `.venv`. uv does not read pip's variables: hand on those that say where packages are found."""
    extra = {"VIRTUAL_ENV": str(VENV)}
    if links := os.environ.get("PIP_FIND_LINKS"):
        extra["UV_FIND_LINKS"] = ",".join(links.split())
    if index := os.environ.get("PIP_INDEX_URL"):
        extra["UV_DEFAULT_INDEX"] = index
    run(VENV / "bin/uv", *arguments, extra=extra)


def run(*command: str | Path, extra: dict[str, str] | None = None) -> None:
    subprocess.run([str(part) for part in command], check=True, env=os.environ | (extra or {}))


if __name__ == "__main__":
    sys.exit(main())
