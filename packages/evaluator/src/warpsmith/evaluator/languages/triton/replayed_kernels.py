"""The kernels of a replay: extracted from a source and interpreted, or machine code."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsmith.evaluator.devices.base import Device
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.languages.base import Described, MakeTensor
from warpsmith.evaluator.languages.fencing.fence import FenceError
from warpsmith.evaluator.languages.triton import captures, compilation, descriptors
from warpsmith.evaluator.languages.triton.extract.extraction import extract_usable
from warpsmith.evaluator.languages.triton.kernel_set import KernelSet
from warpsmith.evaluator.languages.triton.loaded_kernels import Binary, LoadedKernel, bound_arguments


class Kernels:
    """The kernels of a source, extracted by syntax and ready to be interpreted."""

    def __init__(self, kernels: KernelSet) -> None:
        self._kernels = kernels

    @staticmethod
    def of(source: str, folder: Path) -> "Kernels":
        """Extract and execute them.

        Args:
            source: the candidate's source; only its kernels are used.
            folder: a writable folder, for the extracted source.

        Raises:
            ExtractionError, SyntaxError: they cannot be extracted.
        """
        return Kernels(compilation.execute_kernels(extract_usable(source), folder))

    def __getitem__(self, name: str) -> Any:
        self._check(name)
        return _Launchable(self._kernels, name)

    def _check(self, name: str) -> None:
        if (refused := self._kernels.refused(name)) is not None:
            raise refused
        if not self._kernels.has(name):
            raise WireError(f"The source has no kernel {name[:80]} that can be taken from it.")

    def argument(self, described: Described, tensor: MakeTensor) -> Any:
        """Return a dtype, a kernel or a descriptor; WireError for anything else."""
        for name in captures.kernels_in(described):
            self._check(name)
        match described:
            case ["dtype" | "library" | "kernel", str(), *_]:
                return self._kernels.constant(described)
            case ["captured", dict()]:
                return described
            case ["record", str(name)]:
                return lambda *items: self._kernels.named(name, list(items))
            case ["descriptor", base, *rest]:
                return descriptors.made(tensor(base), rest)
            case _:
                raise WireError(f"A kernel argument of kind {str(described)[:40]} cannot be replayed.")


@dataclass(frozen=True)
class _Launchable:
    """A kernel by its name in a recording: what it captures is one of the arguments of a launch."""

    kernels: KernelSet
    name: str

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., Any]:
        def launch(**arguments: Any) -> Any:
            kernel = self.kernels.launched(self.name, arguments)
            return kernel[grid](*_by_position(kernel, arguments))

        return launch


def _by_position(kernel: Any, arguments: dict[str, Any]) -> Iterable[Any]:
    """Return the arguments in the order of the parameters: by name, `grid` and `self` would meet those of a launch."""
    parameters = inspect.signature(kernel.fn).parameters.values()
    defaults = {entry.name: entry.default for entry in parameters if entry.default is not inspect.Parameter.empty}
    return bound_arguments(kernel.fn.__name__, kernel.arg_names, defaults, (), arguments).values()


def loaded(device: Device, binaries: list[Any]) -> list[LoadedKernel]:
    """Load the code of each launch; shared code is loaded once.

    Raises:
        FenceError: a kernel has no fenced twin; the message says why, and what to write instead.
        NativeError: the driver rejects the code.
    """
    found: dict[bytes, LoadedKernel] = {}
    read = [Binary.of(values) for values in binaries]
    for binary in read:
        if binary.fence_error:
            raise FenceError(binary.fence_error)
        if binary.cubin not in found:
            found[binary.cubin] = LoadedKernel(device, binary)
    return [found[binary.cubin] for binary in read]


def device_argument(described: Described, tensor: MakeTensor) -> Any:
    """Return a descriptor, or None for an argument that only affects compilation; WireError for anything else."""
    match described:
        case ["dtype" | "library" | "kernel", str(), *_] | ["captured", dict()]:
            return None
        case ["descriptor", base, *rest]:
            return descriptors.made(tensor(base), rest)
        case _:
            raise WireError(f"A kernel argument of kind {str(described)[:40]} cannot be replayed.")
