"""Compiles a build in a compile worker: kernels to cubins for the chip, host code to a shared object.

nvcc is asked only for its list of steps (`--dryrun`), which are then run one by one: nvcc itself would run them through
a shell, which the sandbox does not have. Host code is compiled against `headers/` in place of torch's own.
"""

import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.languages.cuda_cpp import cubin, diagnostics, toolkit
from warpsmith.evaluator.languages.cuda_cpp.builds import CANDIDATE, CPP, CUDA, Build, BuildError
from warpsmith.evaluator.languages.cuda_cpp.flags import FlagError, checked
from warpsmith.evaluator.languages.cuda_cpp.toolkit import HEADERS, Toolkit
from warpsmith.evaluator.languages.cuda_cpp.twins import named_in, twins_of, uses_tf32, why_unusable

FORWARDED: Final = (
    *("torch/extension.h", "torch/torch.h", "torch/all.h", "torch/types.h", "torch/script.h", "torch/python.h"),
    *("torch/csrc/utils/pybind.h", "torch/cuda.h", "pybind11/pybind11.h", "pybind11/stl.h", "pybind11/numpy.h"),
    *("ATen/ATen.h", "ATen/Dispatch.h", "ATen/AccumulateType.h", "ATen/OpMathType.h", "ATen/core/Tensor.h"),
    *("ATen/native/cuda/KernelUtils.cuh", "ATen/cuda/CUDAContext.h", "ATen/cuda/CUDAContextLight.h"),
    *("ATen/cuda/Exceptions.h", "ATen/cuda/CUDAEvent.h", "ATen/cuda/CUDAApplyUtils.cuh", "ATen/cuda/CUDAUtils.h"),
    *("ATen/cuda/Atomic.cuh", "ATen/cuda/DeviceUtils.cuh", "ATen/cuda/detail/KernelUtils.h", "ATen/DeviceGuard.h"),
    *("ATen/NumericUtils.h", "ATen/ceil_div.h", "ATen/core/TensorAccessor.h", "ATen/TensorUtils.h", "ATen/Tensor.h"),
    *("THC/THCAtomics.cuh", "c10/cuda/CUDAException.h", "c10/cuda/CUDAGuard.h", "c10/cuda/CUDAStream.h"),
    *("c10/cuda/CUDAFunctions.h", "c10/cuda/CUDAMacros.h", "c10/cuda/CUDAMathCompat.h", "c10/util/Exception.h"),
    *("c10/util/Half.h", "c10/util/BFloat16.h", "c10/util/Optional.h", "c10/util/ArrayRef.h", "c10/macros/Macros.h"),
    *("c10/core/ScalarType.h", "c10/core/Device.h", "c10/core/DeviceGuard.h", "c10/core/TensorOptions.h"),
)
"""Headers of torch that a source can include: each stands for the whole stand-in."""
_OF_TORCH: Final = (
    *("-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__", "-D__CUDA_NO_BFLOAT16_CONVERSIONS__"),
    *("-D__CUDA_NO_HALF2_OPERATORS__", "--expt-relaxed-constexpr"),
)
"""What torch's own build passes to nvcc for every source."""
LEAN: Final = ("-std=c++17",)
WHOLE: Final = ("-std=c++20", "-DWARPSMITH_ALL_HEADERS")
"""How sources are compiled: as `LEAN`, and if a header may be missing as `WHOLE`, as torch's own, in twice the time."""
_PLAIN: Final = ("-DTORCH_EXTENSION_NAME=extension", "-DTORCH_API_INCLUDE_EXTENSION_H")
_HOST: Final = ("-O0", "-fPIC", "-w", "-fmax-errors=20", "-fno-gnu-unique")
"""Host code only records, so it is not optimised. Unique symbols would be shared by all modules of a process."""
_MOST_PRINTED: Final = 64 << 10
_ASSIGNED: Final = re.compile(r"^(\w+)=(.*)$")
_INCLUDED: Final = re.compile(r'^# \d+ "((?:[^"\\]|\\.)+)"', re.MULTILINE)
_FILES_IN_ASSEMBLY: Final = re.compile(r"\.\s*(incbin|include)\b")
_MOST_LIBRARY_BYTES: Final = 16 << 20
NO_FATBIN: Final = "static int __fatDeviceText __attribute__((used)) = 0;\n"
"""What the host's half includes instead of the kernels, which are never loaded from it."""


class CompileError(ValueError):
    """The sources do not compile; the message has the useful lines of what the compilers printed."""

    def __init__(self, message: str, category: str = "cuda_compilation_error") -> None:
        super().__init__(message)
        self.category = category


class UnusableError(CompileError):
    """What the sources compile to cannot be assembled, linked or judged; more headers would change nothing."""


@dataclass(frozen=True)
class Compiled:
    """A compiled build.

    Attributes:
        library: the shared object of its host code.
        modules: the machine code of its kernels, one for each CUDA source.
    """

    library: bytes
    modules: tuple["CompiledModule", ...]


@dataclass(frozen=True)
class CompiledModule:
    """The kernels of one CUDA source.

    Attributes:
        code: the cubin.
        ptx: what it was assembled from.
        assembly: the command that assembled it, with the paths of both.
    """

    code: bytes
    ptx: str
    assembly: tuple[str, ...]


_runtime: dict[int, bytes] = {}
"""The object that each module is linked with, compiled in the zygote."""


def prepare(tools: Toolkit, folder: Path, arch: int) -> None:
    """Compile what does not depend on a candidate; called in the zygote.

    Raises:
        ToolkitError: the toolkit does not know the chip.
        CompileError: it does not compile our own sources.
    """
    tools.check_chip(arch)
    _runtime[0] = Compilers(tools, folder, arch).runtime()


def compile_text(text: str, folder: Path, arch: int, *, twins: bool) -> dict[str, Any]:
    """Compile a build and return the fields of a COMPILED message; see `KernelLanguage.compile`.

    Args:
        text: of the build.
        folder: a writable folder.
        arch: the chip.
        twins: whether to make the kernels' fenced twins, which only a replay on a device needs.
    """
    try:
        build = Build.of(text)
        compilers = Compilers(toolkit.find(), folder, arch)
        made = compilers.build(build)
        code = [_module_fields(compilers, module, arch, twins=twins) for module in made.modules]
    except (CompileError, BuildError, FlagError, WireError, cubin.CubinError) as error:
        category = error.category if isinstance(error, CompileError) else "cuda_compilation_error"
        return _fields(ok=False, category=category, message=str(error))
    except OSError as error:
        # A program of the toolkit that cannot be executed, a full disk: not the sources' fault.
        return _fields(ok=False) | {"lost": f"the compilers of CUDA C++ cannot work: {error}"}
    tf32 = any(uses_tf32(module.ptx) for module in made.modules)
    return _fields(ok=True) | {"tf32": tf32, "binaries": [{"library": made.library, "cubins": code}]}


def _module_fields(compilers: "Compilers", module: CompiledModule, arch: int, *, twins: bool) -> dict[str, Any]:
    """Return the fields of `loaded_kernels.Binary`; those of twins only if they are wanted."""
    kernels = cubin.kernels_of(module.code, arch)
    found: dict[str, Any] = {
        "code": module.code,
        "kernels": {name: kernel.fields() for name, kernel in kernels.items()},
        "variables": cubin.variables_of(module.code),
    }
    if not twins:
        return found
    found["named"] = named_in(module.ptx, found["variables"])
    return found | twins_of(module.ptx, kernels, lambda text: compilers.assembled(text, module.assembly))


def _fields(*, ok: bool, category: str = "", message: str = "") -> dict[str, Any]:
    found = {"ok": ok, "category": category, "message": message[:8000], "tf32": False, "binaries": []}
    return found | {"lost": "", "crashed": False}


class Compilers:
    """The compilers of a toolkit, at work in one folder.

    Args:
        tools: the toolkit.
        folder: a writable folder.
        arch: the chip; 90 is sm_90.
    """

    def __init__(self, tools: Toolkit, folder: Path, arch: int) -> None:
        self._tools = tools
        self._arch = arch
        self._folder = folder / "build"
        self._folder.mkdir(exist_ok=True)
        self._includes = [str(HEADERS), str(self._folder / "forwarded"), str(self._folder)]
        self._forward()
        self._environment = {
            "PATH": f"{self._folder / 'bin'}:{tools.root / 'bin'}",
            "COMPILER_PATH": str(self._folder / "bin"),
            "TMPDIR": str(self._folder),
            "LC_ALL": "C.UTF-8",
        }

    def _forward(self) -> None:
        """Write the headers that stand for ours, and links under the names by which g++ looks for its parts."""
        for name in FORWARDED:
            path = self._folder / "forwarded" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("#pragma once\n#include <warpsmith/torch.h>\n", encoding="utf-8")
        (self._folder / "bin").mkdir(exist_ok=True)
        for name, program in self._tools.host_programs.items():
            link = self._folder / "bin" / name
            if not link.is_symlink():
                link.symlink_to(program)

    def runtime(self) -> bytes:
        """Compile what every module is linked with."""
        target = self._folder / "runtime.o"
        self._run(self._host_command(HEADERS / "warpsmith" / "runtime.cpp", target, LEAN), frozenset())
        return target.read_bytes()

    def build(self, build: Build) -> Compiled:
        """Compile a build.

        Raises:
            CompileError, FlagError: it does not compile.
        """
        for name, text in build.files:
            _check_text(name, text)
            (self._folder / name).write_text(text, encoding="utf-8", errors="surrogatepass")
        own = frozenset(name for name, _ in build.files) | {CANDIDATE, *SOURCE_NAMES}
        try:
            return self._built(build, own, LEAN)
        except UnusableError:
            raise
        except CompileError:
            return self._built(build, own, WHOLE)

    def _built(self, build: Build, own: frozenset[str], way: tuple[str, ...]) -> Compiled:
        names = [name for name, _ in build.files if name.endswith(CUDA + CPP)]
        cuda = _with(way, checked(build.cuda_flags, "extra_cuda_cflags"))
        plain = _with(way, checked(build.flags, "extra_cflags"))
        with ThreadPoolExecutor(len(names) + 1) as threads:
            runtime = threads.submit(lambda: _runtime.get(0) or self.runtime())
            jobs = [
                threads.submit(self._cuda, name, cuda, own)
                if name.endswith(CUDA)
                else threads.submit(self._host, name, plain, own)
                for name in names
            ]
            problems = [error for job in jobs if (error := job.exception()) is not None]
            if problems:
                raise _joined(problems)
            made = [job.result() for job in jobs]
            (self._folder / "runtime.o").write_bytes(runtime.result())
        modules = tuple(module for _, module in made if module is not None)
        return Compiled(self._link([object for object, _ in made], own), modules)

    def _host_command(self, source: Path, target: Path, flags: Sequence[str]) -> list[str]:
        folders = [part for folder in self._includes for part in ("-I", folder)]
        cuda = ["-isystem", str(self._tools.root / "include"), "-isystem", str(self._tools.cccl)]
        depends = ["-MD", "-MF", f"{target}.d"]
        kept = [flag for flag in flags if not flag.startswith("-O")]
        command = [str(self._tools.compiler), "-c", *_HOST, *_PLAIN]
        return [*command, *kept, *folders, *cuda, *depends, str(source), "-o", str(target)]

    def _host(self, name: str, flags: Sequence[str], own: frozenset[str]) -> tuple[Path, None]:
        target = self._folder / f"{name}.o"
        self._run(self._host_command(self._folder / name, target, flags), own)
        listed = Path(f"{target}.d").read_text(encoding="utf-8").replace("\\\n", " ").partition(":")[2]
        self._check_included(listed.split())
        return target, None

    def _cuda(self, name: str, flags: Sequence[str], own: frozenset[str]) -> tuple[Path, CompiledModule]:
        kept = self._folder / f"kept-{name}"
        kept.mkdir(exist_ok=True)
        target, stem = self._folder / f"{name}.o", Path(name).stem
        (kept / f"{stem}.fatbin.c").write_text(NO_FATBIN, encoding="utf-8")
        steps = self._steps(name, flags, kept, target)
        for step in steps:
            if Path(step[0]).name == "fatbinary":
                continue
            self._run(step, own, UnusableError if Path(step[0]).name == "ptxas" else CompileError)
        for part in kept.glob("*.ii"):
            self._check_preprocessed(part)
        code, ptx = kept / f"{stem}.cubin", kept / f"{stem}.ptx"
        assembly = next(tuple(step) for step in steps if Path(step[0]).name == "ptxas")
        module = CompiledModule(code.read_bytes(), ptx.read_text(encoding="utf-8", errors="replace"), assembly)
        if unusable := why_unusable(module.ptx):
            raise UnusableError(unusable)
        return target, module

    def assembled(self, ptx: str, assembly: Sequence[str]) -> bytes:
        """Return the machine code of other PTX, assembled with the options of a module.

        Raises:
            CompileError: the assembler rejects it.
        """
        source, target = self._folder / "twins.ptx", self._folder / "twins.cubin"
        source.write_text(ptx, encoding="utf-8")
        # The command ends with the PTX and `-o` with the cubin, or the other way round.
        changed = {".ptx": str(source), ".cubin": str(target)}
        self._run([changed.get(Path(word).suffix, word) for word in assembly], frozenset())
        return target.read_bytes()

    def _steps(self, name: str, flags: Sequence[str], kept: Path, target: Path) -> list[list[str]]:
        """Return the commands that nvcc would run for a source."""
        folders = [part for folder in self._includes for part in ("-I", folder)]
        host = ",".join(_HOST)
        command = [str(self._tools.nvcc), "--dryrun", "-c", "-ccbin", str(self._tools.compiler)]
        command += [f"-gencode=arch=compute_{self._arch},code=sm_{self._arch}", "--keep", "--keep-dir", str(kept)]
        command += [*_OF_TORCH, *_PLAIN, *flags, "-Xcompiler", host, "-Xcudafe", "--diag_suppress=20012"]
        printed = self._run([*command, *folders, str(self._folder / name), "-o", str(target)], frozenset())
        return _commands(printed, self._environment)

    def _link(self, objects: list[Path], own: frozenset[str]) -> bytes:
        target = self._folder / "module.so"
        command = [str(self._tools.compiler), "-shared", "-s", "-fPIC", "-fno-use-linker-plugin", "-Wl,--no-undefined"]
        # A CUDA build of torch brings the real runtime into every process; our own takes precedence over it.
        command += ["-Wl,-Bsymbolic"]
        command += [*map(str, objects), str(self._folder / "runtime.o"), "-o", str(target)]
        self._run(command, own, UnusableError)
        if target.stat().st_size > _MOST_LIBRARY_BYTES:
            raise UnusableError(f"The host code exceeds {_MOST_LIBRARY_BYTES >> 20} MiB. Instantiate fewer templates.")
        return target.read_bytes()

    def _run(self, command: list[str], own: frozenset[str], error: type[CompileError] = CompileError) -> str:
        """Run a step and return what it prints; `error` if it fails, CompileError if a signal ends it."""
        with (self._folder / f"printed-{abs(hash(tuple(command)))}").open("w+b") as printed:
            try:
                done = subprocess.run(
                    command,
                    cwd=self._folder,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    stderr=subprocess.STDOUT,
                    check=False,
                )
            finally:
                printed.seek(0)
                text = printed.read(_MOST_PRINTED).decode("utf-8", "replace")
        if done.returncode != 0:
            shown = diagnostics.shortened(_unfolded(text, self._folder), own)
            if done.returncode < 0:
                shown = f"{Path(command[0]).name} was ended by signal {-done.returncode}: {shown}"
                error = CompileError
            raise error(shown, diagnostics.category_of(shown))
        return text

    def _check_preprocessed(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8", errors="replace")
        self._check_included(_INCLUDED.findall(text))

    def _check_included(self, paths: list[str]) -> None:
        """Raise UnusableError for a file that is neither ours nor a compiler's."""
        roots = (self._folder, HEADERS, self._tools.root, self._tools.root.resolve(), *self._tools.include_folders)
        for path in paths:
            if path.startswith("<"):
                continue
            place = Path(os.path.normpath(self._folder / path))
            if place.name not in SOURCE_NAMES | {CANDIDATE} and not any(place.is_relative_to(root) for root in roots):
                raise UnusableError(
                    f"A source includes {path}, which belongs neither to the candidate nor to the toolkit. Include "
                    "only headers of CUDA, torch and the C++ standard library."
                )


SOURCE_NAMES: Final = frozenset({"functions"}) | {
    f"{kind}_sources[{number}]" for kind in ("cpp", "cuda") for number in range(16)
}


def _with(way: tuple[str, ...], flags: list[str]) -> list[str]:
    """Return the flags of a way to compile and then a candidate's own, whose standard takes precedence."""
    own = any(flag.lstrip("-").startswith("std=") for flag in flags)
    return [flag for flag in way if not (own and flag.startswith("-std"))] + flags


def _check_text(name: str, text: str) -> None:
    if _FILES_IN_ASSEMBLY.search(text):
        raise CompileError(f"{name} has an assembler directive that reads a file. Write the data into the source.")


def _unfolded(text: str, folder: Path) -> str:
    return text.replace(f"{folder}/", "")


def _joined(problems: list[BaseException]) -> BaseException:
    """Return one error for all; errors that are not the sources' come first."""
    other = next((error for error in problems if not isinstance(error, CompileError)), None)
    if other is not None:
        return other
    found = [error for error in problems if isinstance(error, CompileError)]
    kind = UnusableError if all(isinstance(error, UnusableError) for error in found) else CompileError
    return kind("\n".join(map(str, found)), found[0].category)


def _commands(printed: str, environment: dict[str, str]) -> list[list[str]]:
    """Read what `nvcc --dryrun` prints: assignments of variables, then commands that use them."""
    variables, found = dict(environment), []
    for line in printed.splitlines():
        if not line.startswith("#$ "):
            continue
        text = line.removeprefix("#$ ").strip()
        assigned = _ASSIGNED.match(text)
        if assigned:
            variables[assigned[1]] = _expanded(assigned[2], variables)
        elif text:
            found.append([_expanded(word, variables) for word in shlex.split(text)])
    return found


def _expanded(text: str, variables: dict[str, str]) -> str:
    return re.sub(r"\$\{?(\w+)\}?", lambda match: variables.get(match[1], ""), text)
