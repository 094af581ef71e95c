"""Triton alone, on a file's own text: which launches does it accept, without the evaluator's extraction and rendering?

Only those statements of a file are executed that bind what its kernels use: imports, constants, and the kernels
without the decorators above `triton.jit`. The file's own project is not available to them.
"""

import ast
import builtins
import operator
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import triton
from _host_code import Choice
from _launch_guesses import Launch
from _refusals import Refusal, refusal
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import JITFunction, MockTensor, create_function_from_signature
from triton.tools.tensor_descriptor import TensorDescriptor

from warpsmith.evaluator.devices.tensor_views import TORCH_DTYPES
from warpsmith.evaluator.languages.triton.compilation import SHARED_MEMORY_BYTES, triton_dtype

TARGET: Final = GPUTarget("cuda", 90, 32)


def _compare_version(package: str, sign: Any, wanted: str) -> bool:
    numbers = [int(part) for part in re.findall(r"\d+", wanted)[:2]]
    here = [int(part) for part in re.findall(r"\d+", triton.__version__)[:2]]
    return bool(sign(here, numbers)) if package == "triton" else sign in (operator.ge, operator.gt)


_JIT: Final = "triton_jit"
"""The name of `triton.jit` for functions that the file turns into kernels without a decorator."""
_STAND_INS: Final = {
    **{name: lambda: False for name in ("is_hip", "is_npu_available", "is_amd", "is_npu", "is_intel", "is_xpu")},
    **{name: lambda: True for name in ("is_cuda", "is_nvidia")},
    "compare_version": _compare_version,
    "infer_device": lambda: "cuda",
}
"""Functions that files use to ask their own projects about the machine: here it has an NVIDIA GPU."""


def load(source: str, path: str, nodes: dict[str, ast.FunctionDef]) -> dict[str, Any]:
    """Return the kernels of a file as Triton makes them from its own text, which is at `path`.

    A kernel that uses a name of a failing import is replaced by the import's error.
    """
    tree = ast.parse(source)
    space: dict[str, Any] = {"__name__": "plain", "__file__": path, "__builtins__": builtins, **_STAND_INS}
    space[_JIT] = triton.jit
    lost: dict[str, str] = {}
    for statement in _needed(tree, nodes):
        code = compile(ast.Module([statement], []), path, "exec")
        try:
            exec(code, space)
        except Exception as error:  # noqa: BLE001  foreign module code can raise anything
            lost |= dict.fromkeys(_binds(statement) - space.keys(), f"{type(error).__name__}: {error}")
    while more := {
        name: next(iter(missing.values()))
        for name, node in nodes.items()
        if name not in lost and (missing := {one: lost[one] for one in globals_of(node) & lost.keys()})
    }:
        lost |= more
    found = {name: space.get(name, "nothing binds it") for name in nodes}
    lost = {name: why for name, why in lost.items() if name in nodes}
    return {name: one if isinstance(one, JITFunction) else str(one)[:200] for name, one in (found | lost).items()}


def globals_of(kernel: ast.FunctionDef) -> set[str]:
    """Return the names that a kernel, without the decorators above `triton.jit`, reads and does not bind."""
    bare = _bare(kernel)
    names = [part for part in ast.walk(bare) if isinstance(part, ast.Name)]
    bound = {part.arg for part in ast.walk(bare) if isinstance(part, ast.arg)}
    bound |= {part.id for part in names if isinstance(part.ctx, ast.Store)}
    return {part.id for part in names} - bound


def _needed(tree: ast.Module, nodes: dict[str, ast.FunctionDef]) -> Iterator[ast.stmt]:
    """Yield in order the statements that bind what kernels use, directly or indirectly."""
    wanted = set().union(*map(globals_of, nodes.values()))
    top = [statement for statement in tree.body if not isinstance(statement, ast.ClassDef | ast.Expr)]
    chosen: set[int] = set()
    while True:
        more = {
            place
            for place, statement in enumerate(top)
            if place not in chosen and (_binds(statement) & wanted or isinstance(statement, ast.Import))
        }
        if not more:
            break
        chosen |= more
        wanted |= {part.id for place in more for part in ast.walk(top[place]) if isinstance(part, ast.Name)}
    lines = {(node.name, node.lineno) for node in nodes.values()}
    kernels = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    found = [
        top[place] for place in chosen if not isinstance(top[place], ast.FunctionDef) or top[place].name not in nodes
    ]
    bare = [_bare(node) for node in kernels if (node.name, node.lineno) in lines]
    yield from sorted([*found, *bare], key=lambda one: one.lineno)


def _binds(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef):
        return {statement.name}
    names = {part.id for part in ast.walk(statement) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    aliases = [part for part in ast.walk(statement) if isinstance(part, ast.alias)]
    inner = {part.name for part in ast.walk(statement) if isinstance(part, ast.FunctionDef)}
    return names | inner | {alias.asname or alias.name.partition(".")[0] for alias in aliases}


def _bare(node: ast.FunctionDef) -> ast.FunctionDef:
    """Return a kernel with only the decorator `triton.jit`, without those above it, which select launches."""
    jits = [one for one in node.decorator_list if re.search(r"jit(\(|$)", ast.unparse(one))] or [_called(_JIT, node)]
    later = {"type_params": []} if "type_params" in ast.FunctionDef._fields else {}
    made = ast.FunctionDef(node.name, node.args, node.body, jits[-1:], node.returns, None, **later)
    return ast.copy_location(made, node)


def _called(name: str, place: ast.FunctionDef) -> ast.expr:
    return ast.copy_location(ast.Name(id=name, ctx=ast.Load()), place)


def refuses(kernels: dict[str, Any], name: str, launch: Launch) -> Refusal | None:
    """Return the error of Triton's front end for a launch; None if it generates code."""
    return _said(partial(_lower, kernels, name, launch), lowered=False)


def fails(kernels: dict[str, Any], name: str, launch: Launch) -> Refusal | None:
    """Return Triton's error for a launch, from front end to machine code; None if it compiles."""
    return _said(partial(_compile, kernels, name, launch), lowered=True)


def _compile(kernels: dict[str, Any], name: str, launch: Launch) -> None:
    source, options = _bound(kernels, name, launch)
    compiled = triton.compile(source, target=TARGET, options=options.__dict__)
    if (shared := compiled.metadata.shared) > (limit := SHARED_MEMORY_BYTES[TARGET.arch]):
        # Triton itself reports this when it loads the code.
        raise OutOfResources(shared, limit, "shared memory")


def _said(compiling: Callable[[], Any], *, lowered: bool) -> Refusal | None:
    try:
        compiling()
    except Exception as error:  # noqa: BLE001  a compiler can raise anything about its input
        return refusal(error, lowered=lowered)
    return None


def _lower(kernels: dict[str, Any], name: str, launch: Launch) -> None:
    source, options = _bound(kernels, name, launch)
    backend = make_backend(TARGET)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    generator = backend.get_codegen_implementation(options)
    source.make_ir(TARGET, options, generator, backend.get_module_map(), context)


def _bound(kernels: dict[str, Any], name: str, launch: Launch) -> tuple[ASTSource, Any]:
    """Return what Triton compiles for a launch, with its specialisation, and the backend's options."""
    kernel, backend = kernels[name], make_backend(TARGET)
    bind = create_function_from_signature(kernel.signature, kernel.params, backend)
    arguments = {name: _argument(choice, kernels) for name, choice in launch.arguments.items()}
    bound, specialization, rest = bind(**arguments, **launch.options)
    options, signature, constants, attributes = kernel._pack_args(backend, rest, bound, specialization, rest)
    return ASTSource(kernel, signature, constants, attributes), options


def _argument(choice: Choice, kernels: dict[str, Any]) -> Any:
    """Return a value that is specialised like the argument."""
    match choice:
        case ["tensor", str(dtype), _]:
            return MockTensor(TORCH_DTYPES[dtype])
        case ["descriptor", str(dtype), list(block)]:
            return TensorDescriptor(MockTensor(TORCH_DTYPES[dtype]), block, [*[16] * (len(block) - 1), 1], block)
        case ["dtype", str(dtype)]:
            return triton_dtype(dtype)
        case ["kernel", str(name)]:
            return kernels[name]
        case ["tuple", list(items)]:
            return tuple(_argument(item, kernels) for item in items)
        case [_, value]:
            return value
        case _:
            raise ValueError(f"{choice} is not an argument")
