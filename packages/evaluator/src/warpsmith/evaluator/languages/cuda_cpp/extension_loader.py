"""`load_inline` and `load` in a candidate's process: they ask the judge for the build and load its host code.

Sources are what host code passes, whatever it computed them with; no Python text is read.
"""

import inspect
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch.utils.cpp_extension

from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.languages.base import RequestBuild
from warpsmith.evaluator.languages.cuda_cpp import flags, tensor_calls
from warpsmith.evaluator.languages.cuda_cpp.builds import CANDIDATE, HEADER, MAX_BYTES, Build, BuildError
from warpsmith.evaluator.languages.cuda_cpp.cubin import Kernel
from warpsmith.evaluator.languages.cuda_cpp.errors import BuildFailedError
from warpsmith.evaluator.languages.cuda_cpp.execution import Cubin
from warpsmith.evaluator.languages.cuda_cpp.host_library import Bridge, HostLibrary
from warpsmith.evaluator.languages.cuda_cpp.runtime_calls import Module, Runtime

OF_CPP: Final = "#include <torch/extension.h>\n"
OF_CUDA: Final = "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n"
MOST_HEADERS: Final = 24
_LOAD_INLINE: Final = inspect.signature(torch.utils.cpp_extension.load_inline)
_LOAD: Final = inspect.signature(torch.utils.cpp_extension.load)


class Loader:
    """Replaces torch's functions that build extensions.

    Args:
        request: sends a build to the judge and returns the fields of its answer.
        runtime: records what modules launch.
    """

    def __init__(self, request: RequestBuild, runtime: Runtime) -> None:
        self._request = request
        self._runtime = runtime
        self._loaded: dict[str, HostLibrary] = {}

    def install(self) -> None:
        """Replace `load_inline`, `load` and what else builds extensions, in this process."""
        extension: Any = torch.utils.cpp_extension
        extension.load_inline = self.load_inline
        extension.load = self.load
        for name in ("CUDAExtension", "CppExtension", "BuildExtension", "include_paths"):
            setattr(extension, name, _unavailable(name))

    def load_inline(self, *args: Any, **named: Any) -> ModuleType:
        """Build a module from sources, with the parameters of `torch.utils.cpp_extension.load_inline`.

        Raises:
            TypeError: torch's function has other parameters.
            BuildError, FlagError, BuildFailedError: it cannot be built.
        """
        given = _arguments(_LOAD_INLINE, args, named)
        documented, candidate = _documented(given["functions"]), self._candidate()
        implicit = ("", "") if given.get("no_implicit_headers") else (OF_CPP, OF_CUDA)
        plain = _joined(_sources(given["cpp_sources"], "cpp_sources"), "cpp", implicit[0], candidate)
        if documented:
            bound = "".join(f'm.def("{one}", torch::wrap_pybind_function({one}));\n' for one in documented)
            plain += f'#line 1 "functions"\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{\n{bound}}}\n'
        files = [("main.cpp", plain)]
        cuda = _sources(given["cuda_sources"] or (), "cuda_sources")
        if cuda:
            files.append(("cuda.cu", _joined(cuda, "cuda", implicit[1], candidate)))
        return self._module(given, files, documented)

    def load(self, *args: Any, **named: Any) -> ModuleType:
        """Build a module from files, with the parameters of `torch.utils.cpp_extension.load`.

        Raises:
            TypeError: torch's function has other parameters.
            BuildError, FlagError, BuildFailedError: it cannot be built.
            OSError: a file cannot be read.
        """
        given = _arguments(_LOAD, args, named)
        paths = [Path(path) for path in _list(given["sources"])]
        files = [(path.name, _read(path)) for path in paths]
        files += _headers_beside(paths, given["extra_include_paths"] or ())
        return self._module(given, files, {})

    def _candidate(self) -> str:
        path = Path(tempfile.gettempdir()) / CANDIDATE
        return _read(path) if path.is_file() else ""

    def _module(
        self, given: Mapping[str, Any], files: list[tuple[str, str]], documented: Mapping[str, str]
    ) -> ModuleType:
        if not given["is_python_module"]:
            raise BuildError(
                "is_python_module=False, as for TORCH_LIBRARY, is not available. Export functions: name them in "
                "`functions`, or write PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def(...); }."
            )
        options = {name: list(given[name] or ()) for name in ("extra_cflags", "extra_cuda_cflags", "extra_ldflags")}
        checked = {name: tuple(flags.checked(value, name)) for name, value in options.items()}
        name = str(given["name"])
        build = Build(name, tuple(files), checked["extra_cuda_cflags"], checked["extra_cflags"])
        if build.digest not in self._loaded:
            self._loaded[build.digest] = self._built(build)
        return self._loaded[build.digest].module(name, documented)

    def _built(self, build: Build) -> HostLibrary:
        """Let the judge compile a build, and load its host code."""
        found = self._request({"build": build.text()})
        if not found.flag("ok"):
            raise BuildFailedError(found.text("message"), found.text("category"))
        binary = codec.Fields(found.mapping("binary"))
        path = Path(tempfile.gettempdir()) / f"{build.digest}.so"
        library = binary.value("library")
        assert isinstance(library, bytes)
        path.write_bytes(library)
        own = self._runtime.operations(_module_of(build, binary.sequence("cubins")))
        bridge = Bridge(tensor_calls.operations(self._runtime.memory.note) | own, tensor_calls.otherwise)
        return HostLibrary(path, bridge)


def _module_of(build: Build, cubins: list[Any]) -> Module:
    """Return the kernels of a build; of several with one name, the last one's."""
    kernels = {name: Kernel.of(fields) for one in cubins for name, fields in one["kernels"].items()}
    code = [Cubin(one["code"], frozenset(one["kernels"]), frozenset(one["variables"])) for one in cubins]
    return Module(build.digest, kernels, tuple(code))


def _unavailable(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise BuildError(f"torch.utils.cpp_extension.{name} is not available. Use load_inline(name, cpp_sources, ...).")

    return refuse


def _arguments(signature: inspect.Signature, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Return a call's arguments by name, with defaults; TypeError if they do not fit."""
    bound = signature.bind(*args, **named)
    bound.apply_defaults()
    return dict(bound.arguments)


def _sources(given: Any, option: str) -> list[str]:
    if not isinstance(given, str) and not all(isinstance(part, str) for part in given):
        raise BuildError(f"{option} is a string or a list of strings.")
    return _list(given)


def _list(given: str | Sequence[str]) -> list[str]:
    return [str(given)] if isinstance(given, str | Path) else [str(one) for one in given]


def _documented(functions: str | Iterable[str] | Mapping[str, str] | None) -> dict[str, str]:
    """Return the documentation of each exported function, by name."""
    if functions is None:
        return {}
    if isinstance(functions, str):
        functions = [functions]
    if not isinstance(functions, list | tuple | Mapping):
        raise BuildError(f"functions is a list of names or a dict; got {type(functions).__name__}.")
    found = dict(functions) if isinstance(functions, Mapping) else {str(name): str(name) for name in functions}
    for name in found:
        if not name.isidentifier():
            raise BuildError(f"{name[:80]!r} in functions is not the name of a C++ function.")
    return {str(name): str(text) for name, text in found.items()}


def _joined(sources: list[str], kind: str, implicit: str, candidate: str) -> str:
    """Return sources as one text whose errors name a line of the candidate's file, or the source and its line."""
    parts = [implicit]
    for number, text in enumerate(sources):
        line = _line_in(candidate, text)
        place = f'{line} "{CANDIDATE}"' if line else f'1 "{kind}_sources[{number}]"'
        parts.append(f"#line {place}\n{text}\n")
    return "".join(parts)


def _line_in(candidate: str, text: str) -> int:
    """Return the line of a Python file in which a string literal with this text begins; 0 if none stands there.

    What stands before an escape or a placeholder suffices.
    """
    start = next((at for at, letter in enumerate(text) if not letter.isspace()), 0)
    for length in (len(text) - start, *_LENGTHS):
        part = text[start : start + length]
        if len(part) >= min(_LEAST, len(text) - start) and part and candidate.count(part) == 1:
            return candidate[: candidate.index(part)].count("\n") + 1 - text[:start].count("\n")
    return 0


_LENGTHS: Final = (400, 200, 100, 40)
_LEAST: Final = 30


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1).decode("utf-8", "replace")


def _headers_beside(sources: list[Path], folders: Sequence[str]) -> list[tuple[str, str]]:
    """Return headers that the candidate wrote: those next to its sources and in its include folders."""
    found: dict[str, str] = {}
    for folder in dict.fromkeys([path.resolve().parent for path in sources] + [Path(one).resolve() for one in folders]):
        if not folder.is_relative_to(Path(tempfile.gettempdir()).resolve()) or not folder.is_dir():
            continue
        for path in sorted(folder.iterdir()):
            if path.suffix in HEADER and path.is_file() and len(found) < MOST_HEADERS:
                found.setdefault(path.name, _read(path))
    return list(found.items())
