"""Packages that cannot be imported with this build of torch, and would break transformers and vLLM."""

import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Final

from packaging.requirements import Requirement
from packaging.version import Version

from warpsmith.policy.errors import PackagesError

_BESIDE_TORCH: Final = ("torchvision", "torchaudio", "torchcodec")
"""If installed, transformers and vLLM import these, and fail if that fails; no run needs them."""

_IMPORT_S: Final = 120.0


def check_beside_torch() -> str:
    """Import each package that was not built for this torch, in a separate process.

    Returns:
        A phrase for a report that all is well; empty if torch is not installed.

    Raises:
        PackagesError: one cannot be imported.
    """
    torch = _installed("torch")
    if torch is None:
        return ""
    unfit = {name: found for name in _BESIDE_TORCH if (found := _installed(name)) and _is_suspect(name, found, torch)}
    broken = {name: error for name in unfit if (error := _import_error(name))}
    if broken:
        failures = "; ".join(f"{name} {unfit[name]} ({error})" for name, error in broken.items())
        raise PackagesError(
            f"With torch {torch} these packages cannot be imported, but transformers and vLLM import them: {failures}.",
            f"No run needs them: `{_uninstall(broken)}`, then run the same command again. Or install their builds for "
            "this torch.",
        )
    return f"nothing keeps torch {torch} from being used"


def with_package_check(app: Callable[[], None]) -> Callable[[], None]:
    """Wrap `app`: an ImportError caused by such a package is replaced by an error that says how to fix it."""

    def run() -> None:
        try:
            app()
        except (ImportError, RuntimeError):
            check_beside_torch()
            raise

    return run


def has_pip() -> bool:
    """Return whether this environment has pip; one that uv made has not.

    `importlib.util.find_spec` would ask setuptools' import hook, which takes the question for an import of pip and
    withdraws its distutils from this process: on Python 3.11 a later import of setuptools, such as vLLM's, then fails.
    """
    return PathFinder.find_spec("pip") is not None


def _uninstall(names: Iterable[str]) -> str:
    """Return the command that removes packages; an environment made by uv has no pip."""
    pip = f"{sys.executable} -m pip uninstall --yes" if has_pip() else f"uv pip uninstall -p {sys.executable}"
    return f"{pip} {' '.join(names)}"


def _installed(name: str) -> Version | None:
    try:
        return Version(version(name))
    except PackageNotFoundError:
        return None


def _is_suspect(name: str, found: Version, torch: Version) -> bool:
    """Whether a package belongs to a different build than torch, or requires another version of it."""
    if torch.local != found.local and "cpu" in (torch.local, found.local):
        return True
    wanted = [Requirement(text) for text in requires(name) or ()]
    return any(one.name == "torch" and not one.specifier.contains(torch, prereleases=True) for one in wanted)


def _import_error(name: str) -> str:
    """Return the last line of a failed import's output; empty if the import succeeds."""
    command = [sys.executable, "-c", f"import {name}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=_IMPORT_S, check=False)
    lines = ended.stderr.strip().splitlines()
    return "" if not ended.returncode else (lines[-1] if lines else f"exit code {ended.returncode}").strip().rstrip(".")
