"""Build wheel and sdist of each package, install each alone into a fresh environment, run its tests there.

Alone: an environment of its own that holds the built wheel and what it depends on, and the tests as the sdist carries
them, unpacked outside the checkout. The wheel is built from the sdist, so an sdist that lacks a file fails here.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
UV = ROOT / ".venv/bin/uv"
PACKAGES = ("records", "policy", "evaluator", "rollout", "trainer")
CPU_EXTRA = {"rollout", "trainer"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", nargs="*", default=PACKAGES, help="which (default: all)")
    parser.add_argument("--all-tests", action="store_true", help="run the slow tests as well")
    arguments = parser.parse_args()
    for package in PACKAGES:
        build(package)
    results = {package: check_alone(package, arguments.all_tests) for package in arguments.packages}
    for package, code in results.items():
        print(f"{package:10} {'passed' if code == 0 else f'FAILED ({code})'}")
    return max(results.values())


def build(package: str) -> None:
    """Build the sdist, then the wheel from that sdist, into dist/."""
    for old in DIST.glob(f"warpsmith_{package}-*"):
        old.unlink()
    run(UV, "build", "--quiet", "--python", sys.executable, "--out-dir", DIST, ROOT / "packages" / package)


def check_alone(package: str, all_tests: bool) -> int:
    """Return pytest's exit code for the package's own tests in an environment that holds it alone."""
    print(f"packages: {package} alone", flush=True)
    with tempfile.TemporaryDirectory(prefix=f"warpsmith-{package}-") as folder:
        # Tests that give up root read what is installed as anybody does.
        Path(folder).chmod(0o755)
        environment = Path(folder) / "venv"
        run(UV, "venv", "--quiet", "--python", sys.executable, environment)
        install_built(package, environment)
        tree = unpack_sdist(package, Path(folder))
        run(environment / "bin" / f"warpsmith-{package}", "--version")
        command = [
            environment / "bin/python",
            "-m",
            "pytest",
            "-q",
            "tests",
            *([] if all_tests else ["-m", "not slow"]),
        ]
        path = f"{environment / 'bin'}:{os.environ['PATH']}"
        return subprocess.run(
            [str(part) for part in command], cwd=tree, check=False, env=os.environ | {"PATH": path}
        ).returncode


def install_built(package: str, environment: Path) -> None:
    wheel = next(DIST.glob(f"warpsmith_{package}-*.whl"))
    extras = "test,cpu" if package in CPU_EXTRA else "test"
    links = [str(DIST), *os.environ.get("PIP_FIND_LINKS", "").split()]
    backend = [] if os.environ.get("PIP_FIND_LINKS") else ["--torch-backend", "cpu"]
    requirements = ROOT / "requirements"
    options: list[str | Path] = [
        "--constraints",
        requirements / "cpu.lock",
        "--overrides",
        requirements / "overrides.txt",
    ]
    for link in links:
        options += ["--find-links", link]
    target: list[str | Path] = ["--python", environment / "bin/python", f"{wheel}[{extras}]"]
    run(UV, "pip", "install", "--quiet", *target, *backend, *options)


def unpack_sdist(package: str, folder: Path) -> Path:
    """Unpack the sdist and take its sources away, so that the tests can only import what was installed."""
    archive = next(DIST.glob(f"warpsmith_{package}-*.tar.gz"))
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    tree = folder / archive.name.removesuffix(".tar.gz")
    shutil.rmtree(tree / "src")
    return tree


def run(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True)


if __name__ == "__main__":
    sys.exit(main())
