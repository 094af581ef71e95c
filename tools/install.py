"""Set up `.venv` with the tested pins and every package, editable. Seconds when nothing changed.

Run by `make install` with the system's Python (3.11 to 3.13); needs nothing but the standard library.
Each stage is skipped while the files that it depends on are what they were when it last succeeded.
The environment is for machines without a GPU, or with `--variant cuda` for NVIDIA GPUs; the choice is kept.
"""

import argparse
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMPS = VENV / "stamps"
VARIANTS = ("cpu", "cuda")
CHOSEN = STAMPS / "variant"
PURE_PACKAGES = ("records", "policy", "rollout", "trainer")
SUPPORTED = ((3, 11), (3, 12), (3, 13))


class UnfitError(Exception):
    """The machine cannot run Warpsmith, or lacks what only the system's package manager can bring."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--force", action="store_true", help="run every stage, changed or not")
    parser.add_argument("--variant", choices=VARIANTS, help="cpu, or cuda for NVIDIA GPUs (default: as last time, cpu)")
    arguments = parser.parse_args()
    try:
        check_machine(platform.system(), platform.machine(), platform.libc_ver()[0])
        check_system()
        variant = arguments.variant or chosen()
        if arguments.force or variant != chosen():
            shutil.rmtree(STAMPS, ignore_errors=True)
        lock = ROOT / "requirements" / f"{variant}.lock"
        stage("virtual environment", [], partial(make_environment, lock))
        CHOSEN.write_text(variant)
        stage("locked requirements", [lock], partial(install_lock, lock))
        stage("Python packages", metadata(PURE_PACKAGES), partial(install_editable, PURE_PACKAGES))
        stage("evaluator and its extension", native_inputs(), install_evaluator)
    except UnfitError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        print(
            f"error: `{' '.join(map(str, error.cmd))}` ended with {error.returncode}; its output stands above.",
            file=sys.stderr,
        )
        return 1
    return 0


def chosen() -> str:
    """Return the variant that the environment holds."""
    return CHOSEN.read_text() if CHOSEN.exists() else "cpu"


def check_machine(system: str, machine: str, libc: str) -> None:
    """Refuse a machine for which there are no packages, before anything is downloaded.

    Raises:
        UnfitError: it is not Linux with glibc on x86-64 or arm64.
    """
    if system != "Linux":
        raise UnfitError(
            f"this is {'macOS' if system == 'Darwin' else system or 'an unknown system'}, and Warpsmith runs on Linux "
            "alone: the evaluator contains candidates by Linux namespaces, seccomp and Landlock. Use a Linux machine, "
            "virtual machine or container. `pip install ./packages/records`, to analyse runs, works here."
        )
    if machine not in ("x86_64", "aarch64"):
        raise UnfitError(f"this is a machine of the kind {machine}; x86_64 (tested) or aarch64 (untested) is needed.")
    if libc != "glibc":
        raise UnfitError("this Linux has no glibc; torch and vLLM have wheels for glibc alone. Use Debian or Ubuntu.")
    if machine == "aarch64":
        print("note: on arm64 every pin has a wheel, but no test of Warpsmith was ever run there.", file=sys.stderr)


def check_system() -> None:
    """Name every missing tool with the command that installs it, before anything is downloaded."""
    if sys.version_info[:2] not in SUPPORTED:
        raise UnfitError(
            f"Python {sys.version_info[0]}.{sys.version_info[1]} runs this, and 3.11, 3.12 or 3.13 is needed. "
            f"{python_advice(codename())}"
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
        raise UnfitError(
            f"not found: {', '.join(missing)}. Install with `sudo apt-get install {' '.join(missing.values())}`."
        )


def codename() -> str:
    """Return the name of the system's release, such as trixie; nothing where it has none."""
    try:
        return platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        return ""


def python_advice(release: str) -> str:
    """Say how a release of Debian or Ubuntu, by its codename, or any other Linux gets a Python that fits."""
    known = {"bookworm": "3.11", "trixie": "3.13", "jammy": "3.11", "noble": "3.12"}
    if release in known:
        name = f"python{known[release]}"
        return f"Install it (`sudo apt-get install {name} {name}-venv {name}-dev`) and name it: `make PYTHON={name}`."
    return (
        "Install one with its headers, by the system's package manager or `uv python install 3.13`, and name it: "
        "`make PYTHON=python3.13`."
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


def make_environment(lock: Path) -> None:
    """Make an empty environment, with the lock's uv."""
    pin = re.search(r"^uv==\S+", lock.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert pin, f"{lock} pins no uv"
    run(sys.executable, "-m", "venv", "--clear", VENV)
    run(VENV / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", pin[0])


def install_lock(lock: Path) -> None:
    """Install exactly the lock. `--no-deps`: the lock is whole, and torchvision and its kin must stay out.

    vLLM names torchvision, torchaudio and torchcodec; their wheels fail to import beside a CPU build of torch.
    """
    own_index = lock.stem == "cpu" and not os.environ.get("PIP_FIND_LINKS")
    uv("pip", "install", "--no-deps", *(["--torch-backend", "cpu"] if own_index else []), "-r", lock)


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
