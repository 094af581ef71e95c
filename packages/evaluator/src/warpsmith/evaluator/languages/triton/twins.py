"""Compiles a kernel's fenced twin in parallel with it, with the same assembler and options."""

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

from warpsmith.evaluator.languages.fencing import fence

BY_POINTERS: Final = "descriptors_as_pointers"
WITHOUT_UNIT: Final = 80
"""A chip without a unit for tensor descriptors; Triton compiles them to loads by pointers there."""


class Beside:
    """Assembles a kernel's twin in parallel with the kernel. The assembler, a process of its own, takes half the time.

    Args:
        parameters: the launch's, as in `loaded_kernels.Binary`.
        check: raises if a kernel with that metadata cannot run; saves the assembling, which can take a minute.
        wanted: whether to assemble the twin.
    """

    def __init__(self, parameters: list[Any], check: Callable[[dict[str, Any]], None], *, wanted: bool) -> None:
        self.parameters = parameters
        self._check = check
        self._wanted = wanted
        self._assembling: Future[bytes] | None = None

    @contextlib.contextmanager
    def within(self) -> Iterator[None]:
        """Start the twin when Triton starts to assemble the kernel. Nothing else must compile in this process."""
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
                last = "cubin" if "cubin" in stages else "hsaco"
                assemble = stages[last]

                def both(ptx: str, metadata: Any) -> Any:
                    self._check(metadata)
                    if self._wanted:
                        self._assembling = thread.submit(
                            _assembled, str(ptx), str(metadata["name"]), self.parameters, options, arch
                        )
                    return assemble(ptx, metadata)

                stages[last] = both
            return "", ""

        return hook

    def code(self, compiled: Any, options: Any, arch: int) -> bytes:
        """Return the twin of the compiled kernel; it is assembled now if Triton had the kernel cached.

        Raises:
            FenceError, PTXASError, OutOfResources: the twin cannot be assembled.
        """
        if self._assembling is not None:
            return self._assembling.result()
        return _assembled_of(compiled, self.parameters, options, arch)


def twin_of(compiled: Any, beside: Beside, options: Any, arch: int, by_pointers: Callable[[], Any]) -> dict[str, Any]:
    """Return the fields of `loaded_kernels.Binary` that describe the twin.

    Args:
        compiled: the kernel as compiled by Triton within `beside`.
        beside: assembles its twin.
        options: the parsed options of Triton's backend.
        arch: the chip's compute capability, 90 for sm_90.
        by_pointers: compiles the kernel again, within `descriptors_as_pointers`; for a kernel that makes tensor
            descriptors itself, whose targets cannot be known.
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
        message = " ".join(str(error).split())[:500]
        return _fields(b"", compiled, tiled=True, error=f"The checked form of a kernel does not compile: {message}")


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
    # Triton prints the whole text if the assembler rejects it.
    with contextlib.redirect_stdout(io.StringIO()):
        return bytes(backend.make_cubin(text, {}, options, arch))


@contextlib.contextmanager
def descriptors_as_pointers() -> Iterator[None]:
    """Let Triton compile tensor descriptors to loads by pointers, as for a chip that has no unit for them.

    The process must compile nothing else meanwhile: Triton's hook is global.
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
        # Triton 3.6 does not include the hook's key in its cache's keys.
        cache.dir = str(Path(cache.dir) / BY_POINTERS)
        runtime.add_stages_inspection_hook = hook
        try:
            yield
        finally:
            runtime.add_stages_inspection_hook = before
