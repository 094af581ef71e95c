"""The compiler of C and C++ on this machine: the programs that it runs, and the headers that it reads. Torch-free."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from warpsmith.evaluator.errors import JudgeUnavailableError

INSTALL: Final = "Install gcc and g++, for example with `apt install g++`, or set CC and CXX to their paths."
_PARTS: Final = {"gcc": ("cc1", "collect2", "as", "ld"), "g++": ("cc1plus", "collect2", "as", "ld")}
_WAIT_S: Final = 30
_ELF: Final = b"\x7fELF"


class NoHostCompilerError(JudgeUnavailableError):
    """There is no compiler of C and C++, or it lacks a part."""


@dataclass(frozen=True)
class HostCompiler:
    """A compiler of C and C++ of the GNU collection.

    Attributes:
        c: path of gcc.
        cpp: path of g++.
    """

    c: Path
    cpp: Path

    @cached_property
    def names(self) -> tuple[Path, ...]:
        """The paths of the two compilers and of all that they execute, with each link on the way to a program."""
        parts = [_part(compiler, name) for compiler, kind in self._kinds() for name in _PARTS[kind]]
        return tuple(dict.fromkeys(link for path in (self.c, self.cpp, *parts) for link in _chain(path)))

    @property
    def programs(self) -> tuple[Path, ...]:
        """The same without links."""
        return tuple(dict.fromkeys(path.resolve() for path in self.names))

    @cached_property
    def folders(self) -> tuple[Path, ...]:
        """Where it finds its own headers and the system's, and the linker's plugin, which is next to its own programs.

        Since version 13 that is `libexec` on some systems, and not `lib`, which a sandbox has.
        """
        said = _said(self.cpp, "-E", "-x", "c++", "-v", os.devnull)
        listed = re.search(r"#include <\.\.\.> search starts here:\n(.*?)End of search list", said, re.DOTALL)
        lines = listed.group(1).splitlines() if listed else []
        headers = {Path(line.strip()).resolve() for line in lines if Path(line.strip()).is_dir()}
        own = {_part(compiler, _PARTS[kind][0]).resolve().parent for compiler, kind in self._kinds()}
        return tuple(sorted(headers | own))

    def _kinds(self) -> tuple[tuple[Path, str], ...]:
        return (self.c, "gcc"), (self.cpp, "g++")


def find_host_compiler() -> HostCompiler:
    """Return the compiler that CC and CXX name, else gcc and g++ on the path.

    Raises:
        NoHostCompilerError: there is none.
    """
    return HostCompiler(_found("CC", "gcc", "cc"), _found("CXX", "g++", "c++"))


def find_program(variables: Sequence[str], names: Sequence[str]) -> Path | None:
    """Return the first compiler of the GNU collection that environment variables name, or that is on the path.

    Scripts that call a compiler are passed over: they need a shell, and a sandbox has none.
    """
    named = [found for each in variables if (found := shutil.which(os.environ.get(each) or ""))]
    folders = os.get_exec_path()
    listed = [found for name in names for folder in folders if (found := shutil.which(name, path=folder))]
    return next((Path(path).absolute() for path in (*named, *listed) if _is_usable(Path(path))), None)


def _is_usable(path: Path) -> bool:
    if "clang" in path.resolve().name:
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_ELF)) == _ELF
    except OSError:
        # What cannot be read can be no program of a sandbox, which reads what it runs.
        return False


def _found(variable: str, *names: str) -> Path:
    path = find_program([variable], names)
    if path is None:
        raise NoHostCompilerError(f"There is no {names[0]} on this machine, which torch.compile needs.", INSTALL)
    return path


def _part(compiler: Path, name: str) -> Path:
    said = _said(compiler, f"-print-prog-name={name}").strip()
    path = shutil.which(said) or said
    if not Path(path).is_file():
        raise NoHostCompilerError(f"The compiler {compiler} has no program {name}.", INSTALL)
    return Path(path)


def _chain(path: Path) -> Iterator[Path]:
    """Yield a path and, if it is a link, each further path that it leads to."""
    seen: set[Path] = set()
    while path not in seen:
        seen.add(path)
        yield path
        if path.is_symlink():
            path = path.parent / path.readlink()


def _said(program: Path, *arguments: str) -> str:
    command = [str(program), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_WAIT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise NoHostCompilerError(f"{program} does not run: {error}.", INSTALL) from error
    return done.stdout + done.stderr
