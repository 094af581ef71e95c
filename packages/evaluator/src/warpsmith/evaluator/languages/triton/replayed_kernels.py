"""The kernels of a replay: extracted from a source and interpreted, or machine code."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from warpsmith.evaluator.devices.base import Device
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.languages.base import Described, MakeTensor
from warpsmith.evaluator.languages.triton import compilation, descriptors
from warpsmith.evaluator.languages.triton.extract import extract_usable
from warpsmith.evaluator.languages.triton.fence import FenceError
from warpsmith.evaluator.languages.triton.loaded_kernels import Binary, LoadedKernel


class Kernels:
    """The kernels of a source, extracted by syntax and ready to be interpreted."""

    def __init__(self, kernels: dict[str, Any], refused: Mapping[str, Exception] = MappingProxyType({})) -> None:
        self._kernels = kernels
        self._refused = refused

    @staticmethod
    def of(source: str, folder: Path) -> "Kernels":
        """Extract and execute them.

        Args:
            source: the candidate's source; only its kernels are used.
            folder: a writable folder, for the extracted source.

        Raises:
            ExtractionError, SyntaxError: they cannot be extracted.
        """
        extracted = extract_usable(source)
        return Kernels(compilation.execute_kernels(extracted, folder), extracted.refused)

    def __getitem__(self, name: str) -> Any:
        if name in self._refused:
            raise self._refused[name]
        if name not in self._kernels:
            raise WireError(f"The source has no kernel {name[:80]} that can be taken from it.")
        return self._kernels[name]

    def argument(self, described: Described, tensor: MakeTensor) -> Any:
        """Return a dtype, a kernel or a descriptor; WireError for anything else."""
        match described:
            case ["dtype", str(name)]:
                return compilation.triton_dtype(name)
            case ["kernel", str(name)]:
                return self[name]
            case ["descriptor", base, *rest]:
                return descriptors.made(tensor(base), rest)
            case _:
                raise WireError(f"A kernel argument of kind {str(described)[:40]} cannot be replayed.")


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
        case ["dtype" | "kernel", str()]:
            return None
        case ["descriptor", base, *rest]:
            return descriptors.made(tensor(base), rest)
        case _:
            raise WireError(f"A kernel argument of kind {str(described)[:40]} cannot be replayed.")
