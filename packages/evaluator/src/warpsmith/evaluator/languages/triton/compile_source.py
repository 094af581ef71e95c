"""Compiles the kernels of one candidate in a compile worker; a failure is the source's or the machine's."""

import ast
import os
import re
from pathlib import Path
from typing import Any, Final

from warpsmith.evaluator.languages.chips import Chip
from warpsmith.evaluator.languages.triton import captures, compilation
from warpsmith.evaluator.languages.triton.extract import library
from warpsmith.evaluator.languages.triton.extract.extraction import Extracted, extract, extract_usable
from warpsmith.evaluator.languages.triton.extract.values import ExtractionError
from warpsmith.evaluator.languages.triton.kernel_names import own_name
from warpsmith.evaluator.languages.triton.kernel_set import KernelCompilationError, KernelSet
from warpsmith.evaluator.parsing import parse
from warpsmith.evaluator.system.exhaustion import USED_SHARE, is_exhaustion, is_machines, used_much_memory, with_advice

ALLOCATOR: Final = "set_allocator"
_PTXAS_LACKED: Final = re.compile(
    r"\A(PTXAS error: )?`ptxas` failed with error code (126|127|-9)\b"
    r"|^ptxas\S* fatal\s*: (Memory allocation failure|(Input|Output) file \S+ could not be)",
    flags=re.MULTILINE,
)
"""Messages about an assembler that was killed, could not be loaded, or lacked resources."""
NEW_BLOCK: Final = 512
"""Block size of a trusted kernel that no zygote has compiled, so that the assembler must run."""
_PTXAS_CRASHED: Final = re.compile(r"\A(PTXAS error: )?(`ptxas` failed with error code -\d+\b|`ptxas` raised SIGSEGV)")
"""Messages about an assembler that a signal ended, because of the kernel or of an unchecked allocation."""
_NO_BLOCK_POINTERS: Final = "Block pointers have been removed"
MAX_LOST: Final = 800
NO_TENSORS: Final = frozenset({"complex32", "complex64", "complex128", "float8_e8m0fnu"})
"""Dtypes of tensors for which Triton has no pointer."""


def prepare() -> None:
    """Do one-time work that the first compilation would otherwise pay for; called in the zygote."""
    extract("import triton\nimport triton.language as tl\n@triton.jit\ndef k(x):\n    tl.store(x, 1)\n")


def compile_source(
    source: str, launches: list[dict[str, Any]], scratch: Path, arch: Chip, *, binaries: bool = False
) -> dict[str, Any]:
    """Compile every launch and return the fields of a COMPILED message.

    They are `ok`, `category`, `message`, `tf32`, `binaries` (in the order of the launches, if requested), `lost` (the
    resource that the machine ran out of; empty if none) and `crashed` (whether a signal ended the assembler, which can
    be the source's fault or the machine's).
    """
    try:
        extracted = extract_usable(source)
        _check_usable(extracted, launches)
        kernels = compilation.load_kernels(extracted, scratch)
        facts = [_compiled(kernels, launch, arch, binary=binaries) for launch in launches]
        if any(fact["scratch_bytes"] for fact in facts):
            _check_allocator(source)
    except Exception as error:  # noqa: BLE001  (executing constants can raise anything; that is the source's failure)
        return _failure(error, arch, scratch)
    return {
        "ok": True,
        "category": "",
        "message": "",
        "tf32": any(fact["tf32"] for fact in facts),
        "binaries": [fact["binary"] for fact in facts if binaries],
        "resources": [fact["resources"] for fact in facts],
        "lost": "",
        "crashed": False,
    }


def _compiled(kernels: KernelSet, launch: dict[str, Any], arch: Chip, *, binary: bool) -> dict[str, Any]:
    kernel = own_name(str(launch["kernel"]))
    for name, described in dict(launch["arguments"]).items():
        match described:
            case ["tensor", str(dtype), *_] if dtype in NO_TENSORS:
                raise KernelCompilationError(
                    f"The argument {name} of {kernel} is a {dtype} tensor, which Triton has no pointer for. "
                    "Pass torch.view_as_real(tensor), or its bytes as torch.uint8."
                )
    return compilation.compile_launch(kernels, launch, arch, binary=binary)


def _category_and_message(error: Exception) -> tuple[str, str]:
    match error:
        case SyntaxError():
            return "syntax_error", f"line {error.lineno}: {error.msg}"
        case ExtractionError():
            return "triton_compilation_error", str(error)
        case KernelCompilationError():
            return error.category, _with_remedy(str(error))
        case _:
            return "triton_compilation_error", f"{type(error).__name__}: {error}"


def _with_remedy(message: str) -> str:
    """Return a message of Triton's with what to write instead, where that does not say it."""
    if _NO_BLOCK_POINTERS in message:
        return f"{message.removesuffix(' ()')}. {library.DESCRIPTORS}"
    return message


def _failure(error: Exception, arch: Chip, scratch: Path) -> dict[str, Any]:
    """Return the fields of a COMPILED message for a failed compilation."""
    suspect = lacked_by_the_machine(error, scratch) or bool(_PTXAS_CRASHED.search(str(error)))
    if is_machines(error) or (suspect and not _assembles_a_trusted_kernel(arch, scratch)):
        return _failed("unknown", "", lost=with_advice(error)[:MAX_LOST])
    # If a trusted kernel still compiles, the failure is the source's: it can request any amount of memory, or claim to.
    return _failed(*_category_and_message(error), crashed=suspect)


def lacked_by_the_machine(error: BaseException, scratch: Path) -> bool:
    """Whether a compilation failed for lack of a resource that it did not exhaust itself.

    Args:
        error: the exception that ended it.
        scratch: its writable folder.
    """
    if is_machines(error):
        return True
    if not is_exhaustion(error) and not _PTXAS_LACKED.search(str(error)):
        return False
    return not (used_much_memory() or _used_much_room(scratch))


def _assembles_a_trusted_kernel(arch: Chip, scratch: Path) -> bool:
    try:
        compilation.compile_trusted_kernel(arch, scratch, NEW_BLOCK)
    except Exception:  # noqa: BLE001  (whatever the cause, it is not the candidate's source)
        return False
    return True


def _used_much_room(scratch: Path) -> bool:
    """Whether the compilation has filled half of the file system, or half of the free space of a shared one."""
    try:
        room = os.statvfs(scratch)
        used = _bytes_below(scratch, scratch.stat().st_dev)
    except OSError:
        return False
    return used >= USED_SHARE * room.f_blocks * room.f_frsize


def _bytes_below(folder: Path, device: int) -> int:
    """Return the bytes that a folder uses on its own file system.

    A Python environment mounted below a worker's /tmp does not count.
    """
    used = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            if status.st_dev != device:
                continue
            used += status.st_blocks * 512
            if entry.is_dir(follow_symlinks=False):
                used += _bytes_below(Path(entry.path), device)
    return used


def _check_usable(extracted: Extracted, launches: list[dict[str, Any]]) -> None:
    """Raise the reason why a launched kernel, or one passed to it, was rejected; ignores kernels that never run."""
    for launch in launches:
        passed = [name for value in dict(launch["arguments"]).values() for name in captures.kernels_in(value)]
        for name in [str(launch["kernel"]), *passed]:
            if (error := extracted.refused.get(extracted.text_name(name))) is not None:
                raise error


def _check_allocator(source: str) -> None:
    """Raise unless a source calls `set_allocator`: without it, launches that need scratch memory fail on a GPU."""
    called = (node.func for node in ast.walk(parse(source)) if isinstance(node, ast.Call))
    if not any(
        (isinstance(name, ast.Attribute) and name.attr == ALLOCATOR)
        or (isinstance(name, ast.Name) and name.id == ALLOCATOR)
        for name in called
    ):
        raise KernelCompilationError(
            "A kernel needs global scratch memory, as tl.make_tensor_descriptor does, and the source sets no allocator "
            "for it. Call triton.set_allocator(lambda size, alignment, stream: "
            'torch.empty(size, dtype=torch.int8, device="cuda")) before the launch, or use pointers.'
        )


def _failed(category: str, message: str, *, lost: str = "", crashed: bool = False) -> dict[str, Any]:
    answer = {"ok": False, "category": category, "message": message[:8000], "tf32": False, "binaries": []}
    return answer | {"lost": lost, "crashed": crashed}
