"""Finds a CUDA toolkit and a host compiler: on the machine, or in NVIDIA's wheels. Importable without torch."""

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final

from warpsmith.evaluator.errors import JudgeUnavailableError
from warpsmith.evaluator.system.host_compiler import find_program
from warpsmith.records.wording import installing

HEADERS: Final = Path(__file__).parent / "headers"
"""Our stand-in for torch's C++ headers and for the CUDA runtime."""
ROOT_VARIABLE: Final = "WARPSMITH_CUDA_ROOT"
COMPILER_VARIABLE: Final = "WARPSMITH_CUDA_HOST_COMPILER"
"""How the judge hands on what it found: its zygotes see little of its environment."""

_PARTS: Final = ("bin/nvcc", "bin/cudafe++", "bin/ptxas", "nvvm/bin/cicc", "include/cuda_runtime_api.h")
_PARTS_OF_HOST_COMPILER: Final = ("cc1plus", "collect2", "as", "ld")
_WAIT_S: Final = 30
INSTALL: Final = (
    f"{installing('evaluator', 'cuda-cpp')} It brings the toolkit's wheels. Or install NVIDIA's CUDA toolkit 12.8 or "
    "later, and set CUDA_HOME to its folder."
)
INSTALL_COMPILER: Final = "Install g++, for example with `apt install g++`, or set CXX to its path."


class ToolkitError(JudgeUnavailableError):
    """There is no toolkit or no host compiler to compile CUDA C++ with, or the toolkit does not know the chip."""


@dataclass(frozen=True)
class Toolkit:
    """A CUDA toolkit and a host compiler.

    Attributes:
        root: the toolkit's folder, with `bin`, `nvvm` and `include`.
        compiler: the host compiler, g++.
    """

    root: Path
    compiler: Path

    @property
    def nvcc(self) -> Path:
        """The compiler driver, of which only the list of steps is used."""
        return self.root / "bin" / "nvcc"

    @property
    def cccl(self) -> Path:
        """The folder of CUB and Thrust."""
        inner = self.root / "include" / "cccl"
        return inner if inner.is_dir() else self.root / "include"

    @cached_property
    def host_programs(self) -> dict[str, Path]:
        """What the host compiler runs, by name."""
        found = {}
        for name in _PARTS_OF_HOST_COMPILER:
            said = _said(self.compiler, f"-print-prog-name={name}").strip()
            path = shutil.which(said) or said
            if not Path(path).is_file():
                raise ToolkitError(f"The host compiler {self.compiler} has no program {name}.", INSTALL_COMPILER)
            found[name] = Path(path).resolve()
        return found

    @cached_property
    def programs(self) -> tuple[Path, ...]:
        """All programs that a compilation executes."""
        own = (self.nvcc, *(self.root / "bin" / name for name in ("cudafe++", "ptxas")), self.root / "nvvm/bin/cicc")
        return tuple(path.resolve() for path in (*own, self.compiler, *self.host_programs.values()))

    @cached_property
    def include_folders(self) -> tuple[Path, ...]:
        """Where the host compiler finds its own headers and the system's."""
        said = _said(self.compiler, "-E", "-x", "c++", "-v", os.devnull)
        listed = re.search(r"#include <\.\.\.> search starts here:\n(.*?)End of search list", said, re.DOTALL)
        lines = listed.group(1).splitlines() if listed else []
        return tuple(sorted({Path(line.strip()).resolve() for line in lines if Path(line.strip()).is_dir()}))

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders and files that a compilation reads, besides Python's and the system's libraries."""
        return (self.root.resolve(), HEADERS, *self.include_folders, *self.programs)

    def version(self) -> str:
        """Return the versions of nvcc and of the host compiler, on which compiled code depends."""
        nvcc = re.search(r"V(\d+\.\d+\.\d+)", _said(self.nvcc, "--version"))
        return f"nvcc {nvcc.group(1) if nvcc else '?'}, g++ {_said(self.compiler, '-dumpfullversion').strip()}"

    def check_chip(self, arch: int) -> None:
        """Raise ToolkitError if nvcc cannot compile for a chip; 90 is sm_90."""
        known = _said(self.nvcc, "--list-gpu-code").split()
        if f"sm_{arch}" not in known:
            raise ToolkitError(
                f"The CUDA toolkit in {self.root} cannot compile for sm_{arch}; it knows {', '.join(known)}.",
                f"Set target to one of these (--target), or use another toolkit. {INSTALL}",
            )


@lru_cache(maxsize=1)
def find() -> Toolkit:
    """Return the toolkit to use: that of CUDA_HOME or CUDA_PATH, else the wheels', else that of nvcc on the path.

    Raises:
        ToolkitError: there is none, or there is no host compiler.
    """
    compiler = _host_compiler()
    tried = []
    for root in _roots():
        missing = [part for part in _PARTS if not (root / part).is_file()]
        if not missing:
            # Without links: a sandbox has the folder itself alone.
            return Toolkit(root.resolve(), compiler)
        tried.append(f"{root} lacks {missing[0]}")
    looked = f" ({'; '.join(tried)})" if tried else ""
    raise ToolkitError(f"CUDA C++ cannot be compiled: there is no CUDA toolkit on this machine{looked}.", INSTALL)


def _roots() -> Iterator[Path]:
    for variable in (ROOT_VARIABLE, "CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    for library in ("platlib", "purelib"):
        yield from sorted(Path(sysconfig.get_path(library)).glob("nvidia/cu*/"), reverse=True)
    on_path = shutil.which("nvcc")
    if on_path:
        yield Path(on_path).resolve().parent.parent
    yield Path("/usr/local/cuda")


def _host_compiler() -> Path:
    path = find_program([COMPILER_VARIABLE, "CXX"], ["g++", "c++"])
    if path is None:
        raise ToolkitError("CUDA C++ cannot be compiled: there is no g++ on this machine.", INSTALL_COMPILER)
    return path.resolve()


def _said(program: Path, *arguments: str) -> str:
    """Return what a program of the toolkit prints; ToolkitError if it does not run."""
    command = [str(program), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_WAIT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolkitError(f"{program} does not run: {error}.", INSTALL) from error
    return done.stdout + done.stderr
