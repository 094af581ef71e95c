"""What torch.compile needs in a worker: the programs that it runs, what they read, and settings. Importable without
torch."""

import importlib.util
import os
import subprocess
import sysconfig
from functools import lru_cache
from pathlib import Path
from typing import Final

from warpsmith.evaluator.devices.cuda_nodes import NVIDIA_LIBRARIES, searched_folders
from warpsmith.evaluator.system.host_compiler import HostCompiler, find_host_compiler

DRIVER: Final = "libcuda.so.1"
_LIBRARIES: Final = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
_LDCONFIG: Final = "/sbin/ldconfig"
_WAIT_S: Final = 30
ASSEMBLER_NAME: Final = "TRITON_PTXAS_PATH"
OF_INDUCTOR: Final = {
    # In the worker itself, which may start no Python.
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
    "TORCHINDUCTOR_VEC_ISA_OK": "1",
    "PATH": "/usr/bin:/bin",
}


@lru_cache(maxsize=1)
def _compiler() -> HostCompiler:
    return find_host_compiler()


def check() -> None:
    """Raise NoHostCompilerError if this machine lacks a compiler that torch.compile needs."""
    programs = _compiler().programs
    assert programs, "a compiler has parts"


def programs(arch: int) -> tuple[Path, ...]:
    """Return what a worker that compiles references may execute: C and C++ compilers, and the assembler of a chip."""
    from warpsmith.evaluator.languages.triton.language import TRITON

    own = assembler()
    return (*_compiler().programs, *TRITON.programs(arch), *([own] if own else []))


def folders() -> tuple[Path, ...]:
    """Return the folders and files that they read besides Python's and the system's libraries."""
    found = _compiler()
    return (*found.folders, Path(sysconfig.get_path("include")).resolve(), *found.names, *found.programs)


def environment() -> dict[str, str]:
    """Return environment variables: of the compilers, of Inductor, and where Triton finds the driver's library."""
    found = _compiler()
    driver = driver_folder()
    named = {"TRITON_LIBCUDA_PATH": driver} if driver else {}
    return {"CC": str(found.c), "CXX": str(found.cpp)} | OF_INDUCTOR | named


def of_worker() -> dict[str, str]:
    """Return environment variables of a worker that compiles references.

    They name the assembler too: a zygote must not have that one, since its other workers compile with Triton's.
    """
    own = assembler()
    return environment() | ({ASSEMBLER_NAME: str(own)} if own else {})


@lru_cache(maxsize=1)
def assembler() -> Path | None:
    """Return the assembler that Inductor takes in place of Triton's: the environment's, or one that torch brings."""
    named = os.environ.get(ASSEMBLER_NAME, "")
    places = importlib.util.find_spec("torch")
    torch = [Path(folder) for folder in (places.submodule_search_locations or [])] if places else []
    brought = [folder / part / "ptxas" for folder in torch for part in ("bin", "_inductor/bin")]
    found = (path for path in ([Path(named)] if named else brought) if os.access(path, os.X_OK))
    return next((path.resolve() for path in found if path.is_file()), None)


@lru_cache(maxsize=1)
def driver_folder() -> str:
    """Return the folder of the driver's library; empty if there is none.

    Triton would ask `ldconfig`, which a worker may not run.
    """
    configured = os.environ.get("TRITON_LIBCUDA_PATH", "")
    usual = [configured, *searched_folders(), *(f"{root}/lib64" for root in NVIDIA_LIBRARIES), *_LIBRARIES]
    for folder in (*filter(None, usual), *_listed()):
        if Path(folder, DRIVER).exists():
            return folder
    return ""


def _listed() -> list[str]:
    """Return the folders of the driver's library that the loader's cache names."""
    try:
        said = subprocess.run([_LDCONFIG, "-p"], capture_output=True, text=True, timeout=_WAIT_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [str(Path(line.split()[-1]).parent) for line in said.splitlines() if DRIVER in line]
