"""The evaluator's build backend: scikit-build-core, after a look at the machine.

Installers ask a backend for metadata before they resolve dependencies. So a machine that cannot run the evaluator is
refused here in words, not later with "no matching distribution" for triton.
"""

import platform
from typing import Any

from scikit_build_core import build as _backend
from scikit_build_core.build import build_sdist, get_requires_for_build_sdist

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

NAMES = {"Darwin": "macOS", "": "an unknown system"}


def refusal(system: str, machine: str, libc: str) -> str | None:
    """Return why a machine cannot run the evaluator and what to do, or None.

    Args:
        system, machine: as `platform.system()` and `platform.machine()` return them.
        libc: `glibc`, or something else.
    """
    if system != "Linux":
        return (
            f"warpsmith-evaluator runs on Linux, and this is {NAMES.get(system, system)}: it contains candidates by "
            "Linux namespaces, seccomp and Landlock. Use a Linux machine, virtual machine or container. "
            "warpsmith-records, to analyse runs, works here."
        )
    if machine not in ("x86_64", "aarch64"):
        return f"warpsmith-evaluator needs x86_64 (tested) or aarch64 (untested), and this machine is {machine}."
    if libc != "glibc":
        return (
            "warpsmith-evaluator needs glibc, because torch and Triton have no wheels without it. Use Debian or Ubuntu."
        )
    return None


def check() -> None:
    """End the installer's process with a sentence if this machine cannot run the evaluator."""
    why = refusal(platform.system(), platform.machine(), platform.libc_ver()[0])
    if why:
        raise SystemExit(why)


def get_requires_for_build_wheel(*arguments: Any, **named: Any) -> Any:
    check()
    return _backend.get_requires_for_build_wheel(*arguments, **named)


def get_requires_for_build_editable(*arguments: Any, **named: Any) -> Any:
    check()
    return _backend.get_requires_for_build_editable(*arguments, **named)


def prepare_metadata_for_build_wheel(*arguments: Any, **named: Any) -> Any:
    check()
    return _backend.prepare_metadata_for_build_wheel(*arguments, **named)


def prepare_metadata_for_build_editable(*arguments: Any, **named: Any) -> Any:
    check()
    return _backend.prepare_metadata_for_build_editable(*arguments, **named)


def build_wheel(*arguments: Any, **named: Any) -> Any:
    check()
    return _backend.build_wheel(*arguments, **named)


def build_editable(*arguments: Any, **named: Any) -> Any:
    check()
    return _backend.build_editable(*arguments, **named)
