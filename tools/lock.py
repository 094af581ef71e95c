"""Resolve requirements/*.in into requirements/*.lock: one set of pins for machines without a GPU, one for NVIDIA GPUs.

Each set is resolved for every Python and machine that it is for; a pin that some of them lack carries a marker. What
is pinned already is kept while it fits, so adding a requirement moves nothing else; --upgrade starts from nothing.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements"
PYTHONS = ("3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")
GLIBC = "manylinux_2_35"
"""The oldest C library for which every pin has a wheel: Ubuntu 22.04 has 2.35, Debian 12 2.36."""

Place = tuple[str, str]
"""A Python and a machine, as in `PYTHONS` and `MACHINES`."""


@dataclass(frozen=True)
class Variant:
    """One lock.

    Attributes:
        name: of its `.in` and `.lock` file.
        overrides: whether requirements/overrides.txt counts.
        cpu_torch: whether torch is its build for CPUs, which lies at an index of its own.
    """

    name: str
    overrides: bool
    cpu_torch: bool


# Beside torch for CUDA the three that overrides.txt keeps out import, and vLLM for GPUs asks for them.
VARIANTS = (Variant("cpu", overrides=True, cpu_torch=True), Variant("cuda", overrides=False, cpu_torch=False))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variants", nargs="*", help="cpu, cuda; both by default")
    parser.add_argument("--upgrade", action="store_true", help="take the newest of everything that is not named")
    arguments = parser.parse_args()
    try:
        for variant in VARIANTS:
            if not arguments.variants or variant.name in arguments.variants:
                lock(variant, arguments.upgrade)
    except subprocess.CalledProcessError as error:
        return int(error.returncode)
    return 0


def lock(variant: Variant, upgrade: bool) -> None:
    path = REQUIREMENTS / f"{variant.name}.lock"
    known = "" if upgrade or not path.exists() else path.read_text(encoding="utf-8")
    found = {}
    for place in [(python, machine) for python in PYTHONS for machine in MACHINES]:
        print(f"lock: {variant.name}, Python {place[0]}, {place[1]}", flush=True)
        found[place] = resolve(variant, place, known)
    path.write_text("".join(f"{line}\n" for line in merged(found)), encoding="utf-8")


def resolve(variant: Variant, place: Place, known: str) -> list[str]:
    """Return the pins of one Python on one machine; wheels alone count, except for what has none."""
    python, machine = place
    command = [ROOT / ".venv/bin/uv", "pip", "compile", f"{variant.name}.in", "--python-version", python]
    command += ["--python-platform", f"{machine}-{GLIBC}", "--only-binary", ":all:", "--no-binary", "deepspeed"]
    command += ["--quiet", "--no-emit-index-url", "--no-header", "--no-annotate", "--no-config"]
    environment = dict(os.environ)
    if variant.overrides:
        command += ["--overrides", "overrides.txt"]
    if variant.cpu_torch and (links := os.environ.get("PIP_FIND_LINKS")):
        environment["UV_FIND_LINKS"] = ",".join(links.split())
    elif variant.cpu_torch:
        command += ["--torch-backend", "cpu"]
    else:
        environment.pop("UV_FIND_LINKS", None)
    with tempfile.TemporaryDirectory() as folder:
        # uv keeps the versions that its output file holds.
        out = Path(folder) / "lock"
        out.write_text(applying(known, place), encoding="utf-8")
        command += ["-o", out]
        subprocess.run(
            [str(part) for part in command], cwd=REQUIREMENTS, env=environment, check=True, stdout=subprocess.DEVNULL
        )
        return [line for line in out.read_text(encoding="utf-8").splitlines() if "==" in line]


def applying(known: str, place: Place) -> str:
    """Return the pins of a lock that count for a place, without their markers."""
    lines = (line.partition(" ; ") for line in known.splitlines())
    return "".join(f"{pin}\n" for pin, _, marker in lines if marker in ("", *markers_of(place)))


def merged(found: Mapping[Place, Iterable[str]]) -> list[str]:
    """Return every pin once, in order of names; one that not every place has, with a marker that says which do."""
    places: dict[str, set[Place]] = {}
    for place, pins in found.items():
        for pin in pins:
            places.setdefault(pin, set()).add(place)
    return [pin + marker(places[pin], set(found)) for pin in sorted(places, key=canonical)]


def canonical(pin: str) -> tuple[str, str]:
    name, _, version = pin.partition("==")
    return re.sub(r"[-_.]+", "-", name).lower(), version


def marker(places: set[Place], everywhere: set[Place]) -> str:
    """Return the marker that holds in `places` and nowhere else of `everywhere`, as a line carries it."""
    if places == everywhere:
        return ""
    for text in dict.fromkeys(text for place in sorted(places) for text in markers_of(place)):
        if places == {place for place in everywhere if text in markers_of(place)}:
            return f" ; {text}"
    alternatives = (f"(python_version == '{python}' and platform_machine == '{machine}')" for python, machine in places)
    return " ; " + " or ".join(sorted(alternatives))


def markers_of(place: Place) -> list[str]:
    """Return the simple markers that hold in a place, simplest first."""
    python, machine = place
    at = PYTHONS.index(python)
    of_python = [f"python_version < '{other}'" for other in PYTHONS[at + 1 :]]
    of_python += [f"python_version >= '{other}'" for other in PYTHONS[1 : at + 1]]
    of_python += [f"python_version == '{python}'"]
    of_machine = f"platform_machine == '{machine}'"
    return [of_machine, *of_python, *(f"{text} and {of_machine}" for text in of_python)]


if __name__ == "__main__":
    sys.exit(main())
