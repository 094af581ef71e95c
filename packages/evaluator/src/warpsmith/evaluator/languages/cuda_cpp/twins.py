"""The fenced twins of a build's kernels, made from the PTX that nvcc compiled and assembled with nvcc's own options.

All twins of one source are one module, as its kernels are, so that they share its variables.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from warpsmith.evaluator.languages.cuda_cpp.cubin import Kernel, variables_of
from warpsmith.evaluator.languages.fencing.fence import FenceError, Rules, fenced_all
from warpsmith.evaluator.languages.fencing.ptx import Function

MOST_SLOTS: Final = 24
MOST_PTX_BYTES: Final = 4 << 20
RULES: Final = Rules(
    "Use C++ and CUDA's own functions in place of that inline assembly or feature; mark functions __forceinline__.",
    of_nvcc=True,
)
_REGISTERS: Final = 65536
_WARP: Final = 32
_GRAIN: Final = 8
_MOST_WARPS: Final = 32
_MOST_REGISTERS: Final = 255
_BOUNDS: Final = (".maxntid", ".reqntid", ".maxnreg")
_EXTERNAL: Final = re.compile(r"^\s*\.extern\s+\.func\s+(?:\([^)]*\)\s*)?(\w+)", re.MULTILINE)
_WORD: Final = re.compile(r"[\w$]+")
_TF32: Final = re.compile(r"\bw?mma\.[\w.]*\.tf32\b")
_OF_DEVICE_RUNTIME: Final = {
    "vprintf": "A kernel calls printf, whose output nobody reads. Remove it; write what you need to a tensor.",
    **dict.fromkeys(
        ("malloc", "free"),
        "A kernel calls malloc, new or free, whose memory lasts longer than a call. Allocate a tensor on the host and "
        "pass it, or use an array of fixed size.",
    ),
}
_LAUNCHES: Final = "A kernel launches another one. Launch both from host code."


def uses_tf32(ptx: str) -> bool:
    """Whether a kernel multiplies matrices in TF32."""
    return bool(_TF32.search(ptx))


def named_in(ptx: str, variables: Mapping[str, int]) -> list[str]:
    """Return which variables PTX names besides declaring them: code can reach no others."""
    words = Counter(_WORD.findall(ptx))
    return [name for name in variables if words[name] > 1]


def why_unusable(ptx: str) -> str:
    """Return why kernels cannot be judged that call the device's runtime, and what to write instead; else nothing."""
    for name in _EXTERNAL.findall(ptx):
        if name in _OF_DEVICE_RUNTIME:
            return _OF_DEVICE_RUNTIME[name]
        if name.startswith("cuda"):
            return _LAUNCHES
    return ""


def twins_of(ptx: str, kernels: Mapping[str, Kernel], assemble: Callable[[str], bytes]) -> dict[str, Any]:
    """Return the fields of `loaded_kernels.Binary` that describe the twins of a module's kernels.

    Args:
        ptx: the module.
        kernels: its kernels as assembled, by name.
        assemble: returns the machine code of PTX; ValueError if the assembler rejects it.
    """
    try:
        if len(ptx) > MOST_PTX_BYTES:
            raise FenceError(f"The kernels exceed {MOST_PTX_BYTES >> 20} MiB of PTX. Instantiate fewer templates.")
        made = fenced_all(ptx, MOST_SLOTS, RULES, lambda function: _registers(function, kernels))
        code = assemble(made.text) if len(made.errors) < len(kernels) else b""
    except FenceError as error:
        return _fields(b"", errors=dict.fromkeys(kernels, str(error)))
    except ValueError as error:
        message = " ".join(str(error).split())[:500]
        return _fields(
            b"", errors=dict.fromkeys(kernels, f"The checked form of the kernels does not compile: {message}")
        )
    fields = _fields(code, slots=made.slots, errors=made.errors, workspaces=sorted(made.workspaces))
    return fields | {"fenced_variables": list(variables_of(code)) if code else []}


def _fields(
    code: bytes, *, slots: int = 0, errors: Mapping[str, str], workspaces: list[str] | None = None
) -> dict[str, Any]:
    shortened = {name: error[:1000] for name, error in errors.items()}
    found = {"fenced": code, "slots": slots, "fence_errors": shortened, "workspaces": workspaces or []}
    return found | {"fenced_variables": []}


def _registers(function: Function, kernels: Mapping[str, Kernel]) -> list[str]:
    """Return the directive that lets a twin launch with as many threads as its kernel."""
    if any(line.startswith(_BOUNDS) for line in function.directives) or function.name not in kernels:
        return []
    used = -(-max(kernels[function.name].registers, 1) // _GRAIN) * _GRAIN
    warps = min(_MOST_WARPS, _REGISTERS // (used * _WARP))
    most = _REGISTERS // (warps * _WARP) // _GRAIN * _GRAIN
    return [f".maxnreg {min(most, _MOST_REGISTERS)}"]
