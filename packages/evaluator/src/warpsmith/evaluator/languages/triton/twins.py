"""Compiles the fenced twin of a kernel beside it, by the same assembler and with the same options."""

import contextlib
import io
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources, PTXASError

from warpsmith.evaluator.languages.triton import fence

BY_POINTERS: Final = "descriptors_as_pointers"
WITHOUT_UNIT: Final = 80
"""A chip without a unit that reads tensors through descriptors: Triton reads them by pointers there."""


class Beside:
    """Assembles a kernel's twin beside the kernel: half of what both take is the assembler, a process of its own.

    Args:
        parameters: of the launch, as in `kernels.Binary`.
        check: raises where a kernel of that metadata is not worth assembling, which may take a minute.
        wanted: whether the twin is.
    """

    def __init__(self, parameters: list[Any], check: Callable[[dict[str, Any]], None], *, wanted: bool) -> None:
        self.parameters = parameters
        self._check = check
        self._wanted = wanted
        self._assembling: Future[bytes] | None = None

    @contextlib.contextmanager
    def within(self) -> Iterator[None]:
        """Begin with the twin where Triton begins to assemble the kernel. Nothing else compiles in this process."""
        runtime = triton.knobs.runtime
        before = runtime.add_stages_inspection_hook
        with ThreadPoolExecutor(1, "twin") as thread:
            runtime.add_stages_inspection_hook = self._hook(thread)
            try:
                yield
            finally:
                runtime.add_stages_inspection_hook = before

    def _hook(self, thread: ThreadPoolExecutor) -> Callable[..., tuple[str, str]]:
        def hook(*given: Any) -> tuple[str, str]:
            if given:
                _, stages, options, _, arch = given
                assemble = stages["cubin"]

                def both(ptx: str, metadata: Any) -> Any:
                    self._check(metadata)
                    if self._wanted:
                        self._assembling = thread.submit(
                            _assembled, str(ptx), str(metadata["name"]), self.parameters, options, arch
                        )
                    return assemble(ptx, metadata)

                stages["cubin"] = both
            return "", ""

        return hook

    def code(self, compiled: Any, options: Any, arch: int) -> bytes:
        """Return the twin of what was compiled; assembled now where Triton knew the kernel before.

        Raises:
            FenceError, PTXASError, OutOfResources: as of the assembling.
        """
        if self._assembling is not None:
            return self._assembling.result()
        return _assembled_of(compiled, self.parameters, options, arch)


def twin_of(compiled: Any, beside: Beside, options: Any, arch: int, by_pointers: Callable[[], Any]) -> dict[str, Any]:
    """Return the fields of `kernels.Binary` that describe the twin.

    Args:
        compiled: the kernel as Triton compiled it, within `beside`.
        beside: has its twin.
        options: what Triton's backend was given.
        arch: the chip's compute capability, 90 for sm_90.
        by_pointers: compiles the kernel once more, within `descriptors_as_pointers`; for a kernel that makes tensor
            descriptors itself, of which nobody can say what they point to.
    """
    try:
        try:
            return _fields(beside.code(compiled, options, arch), compiled, tiled=True)
        except fence.OwnDescriptorError:
            with descriptors_as_pointers():
                other = by_pointers()
            if other.metadata.global_scratch_size > compiled.metadata.global_scratch_size:
                raise
            return _fields(_assembled_of(other, beside.parameters, options, arch), other, tiled=False)
    except fence.FenceError as error:
        return _fields(b"", compiled, tiled=True, error=str(error))
    except (PTXASError, OutOfResources, CompilationError) as error:
        told = " ".join(str(error).split())[:500]
        return _fields(b"", compiled, tiled=True, error=f"The checked form of a kernel does not compile: {told}")


def _fields(code: bytes, compiled: Any, *, tiled: bool, error: str = "") -> dict[str, Any]:
    return {
        "fenced": code,
        "fence_error": error,
        "fenced_shared_bytes": int(compiled.metadata.shared),
        "fenced_warps": int(compiled.metadata.num_warps),
        "fenced_tiled": tiled,
    }


def _assembled_of(compiled: Any, parameters: list[Any], options: Any, arch: int) -> bytes:
    return _assembled(str(compiled.asm["ptx"]), str(compiled.metadata.name), parameters, options, arch)


def _assembled(ptx: str, name: str, parameters: list[Any], options: Any, arch: int) -> bytes:
    text = fence.fenced(ptx, name, fence.slots_of(parameters))
    backend = make_backend(GPUTarget("cuda", arch, 32))
    # Triton prints the whole text where the assembler refuses it.
    with contextlib.redirect_stdout(io.StringIO()):
        return bytes(backend.make_cubin(text, {}, options, arch))


@contextlib.contextmanager
def descriptors_as_pointers() -> Iterator[None]:
    """Let Triton read what lies behind tensor descriptors by pointers, as it does where the chip has no unit for them.

    The process compiles nothing else meanwhile: Triton's hook is one for all of it.
    """

    def hook(*given: Any) -> tuple[str, str]:
        if given:
            backend, stages, options, _, capability = given
            chip = min(capability, WITHOUT_UNIT)
            stages["ttir"] = lambda module, metadata: backend.make_ttir(module, metadata, options, chip)
        return BY_POINTERS, BY_POINTERS

    runtime, cache = triton.knobs.runtime, triton.knobs.cache
    before = runtime.add_stages_inspection_hook
    with cache.scope():
        # Triton 3.6 does not ask the hook for a part of its cache's keys.
        cache.dir = str(Path(cache.dir) / BY_POINTERS)
        runtime.add_stages_inspection_hook = hook
        try:
            yield
        finally:
            runtime.add_stages_inspection_hook = before
