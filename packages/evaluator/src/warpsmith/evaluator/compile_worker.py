"""The compile worker: compiles the kernels of one candidate. No candidate process can reach its channel."""

import ast
from pathlib import Path
from typing import Any, Final

from warpsmith.evaluator import _native, compiling, extract, protocol
from warpsmith.evaluator.protocol import Kind

ALLOCATOR: Final = "set_allocator"


def prepare() -> None:
    """Do what the first compilation would otherwise pay for; called in the zygote."""
    extract.extract("import triton\nimport triton.language as tl\n@triton.jit\ndef k(x):\n    tl.store(x, 1)\n")


def serve(channel: _native.Channel, scratch: Path, arch: int) -> None:
    """Compile once, answer, and end."""
    fields = protocol.receive_work(channel).fields
    launches, binaries = fields.sequence("launches"), fields.flag("binaries")
    answer = compile_source(fields.text("source"), launches, scratch, arch, binaries=binaries)
    protocol.send(channel, Kind.COMPILED, answer)


def compile_source(
    source: str, launches: list[dict[str, Any]], scratch: Path, arch: int, *, binaries: bool = False
) -> dict[str, Any]:
    """Compile every launch and return the fields of a COMPILED message.

    They are `ok`, `category`, `message`, `tf32` and, in the order of the launches, the wanted `binaries`.
    """
    try:
        extracted = extract.extract_usable(source)
        _check_usable(extracted, launches)
        kernels = compiling.load_kernels(extracted, scratch)
        facts = [compiling.compile_launch(kernels, launch, arch, binary=binaries) for launch in launches]
        if any(fact["scratch_bytes"] for fact in facts):
            _check_allocator(source)
    except SyntaxError as error:
        return _failed("syntax_error", f"line {error.lineno}: {error.msg}")
    except extract.ExtractionError as error:
        return _failed("triton_compilation_error", str(error))
    except compiling.KernelCompilationError as error:
        return _failed(error.category, str(error))
    except Exception as error:  # noqa: BLE001  (executing constants may raise anything; it is the source's failure)
        return _failed("triton_compilation_error", f"{type(error).__name__}: {error}")
    return {
        "ok": True,
        "category": "",
        "message": "",
        "tf32": any(fact["tf32"] for fact in facts),
        "binaries": [fact["binary"] for fact in facts if binaries],
    }


def _check_usable(extracted: extract.Extracted, launches: list[dict[str, Any]]) -> None:
    """Raise the reason why a kernel was refused that is launched or passed to one; what never runs may be anything."""
    for launch in launches:
        passed = [value[1] for value in dict(launch["arguments"]).values() if value[:1] == ["kernel"]]
        for name in [launch["kernel"], *passed]:
            if (error := extracted.refused.get(str(name))) is not None:
                raise error


def _check_allocator(source: str) -> None:
    """Raise unless a source calls `set_allocator`; a launch that needs scratch memory fails on a GPU without one."""
    called = (node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    if not any(
        (isinstance(name, ast.Attribute) and name.attr == ALLOCATOR)
        or (isinstance(name, ast.Name) and name.id == ALLOCATOR)
        for name in called
    ):
        raise compiling.KernelCompilationError(
            "A kernel needs global scratch memory, as tl.make_tensor_descriptor does, and the source sets no allocator "
            "for it. Call triton.set_allocator(lambda size, alignment, stream: "
            'torch.empty(size, dtype=torch.int8, device="cuda")) before the launch, or use pointers.'
        )


def _failed(category: str, message: str) -> dict[str, Any]:
    return {"ok": False, "category": category, "message": message[:8000], "tf32": False, "binaries": []}
