"""Triton alone, on a file's own text: which launches does it take, without the evaluator's extraction and rendering?

Of a file only those statements are executed that bind what its kernels name: imports, constants, and the kernels
without the decorators above `triton.jit`. What such a statement needs of the file's own project is not there.
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
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import JITFunction

from warpsmith.evaluator.arenas import TORCH_DTYPES
from warpsmith.evaluator.compiling import SHARED_MEMORY_BYTES, triton_dtype

TARGET: Final = GPUTarget("cuda", 90, 32)
_POINTED: Final = {
    "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64", "int8": "i8", "int16": "i16",
    "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "i1",
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5",
}  # fmt: skip


def _compare_version(package: str, sign: Any, wanted: str) -> bool:
    numbers = [int(part) for part in re.findall(r"\d+", wanted)[:2]]
    here = [int(part) for part in re.findall(r"\d+", triton.__version__)[:2]]
    return bool(sign(here, numbers)) if package == "triton" else sign in (operator.ge, operator.gt)


_STAND_INS: Final = {
    **{name: lambda: False for name in ("is_hip", "is_npu_available", "is_amd", "is_npu", "is_intel", "is_xpu")},
    **{name: lambda: True for name in ("is_cuda", "is_nvidia")},
    "compare_version": _compare_version,
    "infer_device": lambda: "cuda",
}
"""What files ask their own projects about the machine: here it has an NVIDIA GPU."""


def load(source: str, path: str, nodes: dict[str, ast.FunctionDef]) -> dict[str, Any]:
    """Return the kernels of a file as Triton makes them of its own text, which stands at `path`.

    A kernel that names what a failing import would bind is none: its file cannot be imported.
    """
    tree = ast.parse(source)
    space: dict[str, Any] = {"__name__": "plain", "__file__": path, "__builtins__": builtins, **_STAND_INS}
    lost: set[str] = set()
    for statement in _needed(tree, nodes):
        code = compile(ast.Module([statement], []), path, "exec")
        try:
            exec(code, space)
        except Exception:  # noqa: BLE001  what other people's module code raises may be anything
            lost |= _binds(statement) - space.keys()
    while more := {name for name, node in nodes.items() if name not in lost and _loads(node) & lost}:
        lost |= more
    return {name: found for name in nodes if isinstance(found := space.get(name), JITFunction) and name not in lost}


def _loads(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}


def _needed(tree: ast.Module, nodes: dict[str, ast.FunctionDef]) -> Iterator[ast.stmt]:
    """Yield in order the statements that bind what kernels name, directly or through one another."""
    wanted = {part.id for node in nodes.values() for part in ast.walk(node) if isinstance(part, ast.Name)}
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
    kernels = {id(node) for node in nodes.values()}
    nested = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in nodes]
    found = [
        top[place] for place in chosen if not isinstance(top[place], ast.FunctionDef) or top[place].name not in nodes
    ]
    yield from sorted([*found, *(_bare(node) for node in nested if kernels)], key=lambda one: one.lineno)


def _binds(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef):
        return {statement.name}
    names = {part.id for part in ast.walk(statement) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    aliases = [part for part in ast.walk(statement) if isinstance(part, ast.alias)]
    inner = {part.name for part in ast.walk(statement) if isinstance(part, ast.FunctionDef)}
    return names | inner | {alias.asname or alias.name.partition(".")[0] for alias in aliases}


def _bare(node: ast.FunctionDef) -> ast.FunctionDef:
    """Return a kernel without the decorators above `triton.jit`, which choose among launches."""
    jits = [one for one in node.decorator_list if "jit" in ast.unparse(one)]
    later = {"type_params": []} if "type_params" in ast.FunctionDef._fields else {}
    made = ast.FunctionDef(node.name, node.args, node.body, jits[-1:], node.returns, None, **later)
    return ast.copy_location(made, node)


def refuses(kernels: dict[str, Any], name: str, launch: Launch) -> str:
    """Return what Triton's front end says against a launch; an empty string where it makes code of it."""
    return _said(partial(_lower, kernels, name, launch))


def fails(kernels: dict[str, Any], name: str, launch: Launch) -> str:
    """Return what Triton says against a launch from front end to machine code; an empty string where it compiles."""
    return _said(partial(_compile, kernels, name, launch))


def _compile(kernels: dict[str, Any], name: str, launch: Launch) -> None:
    compiled = triton.compile(_source(kernels, name, launch), target=TARGET, options=dict(launch.options))
    if (shared := compiled.metadata.shared) > (limit := SHARED_MEMORY_BYTES[TARGET.arch]):
        # Triton itself says so when it loads the code.
        raise OutOfResources(shared, limit, "shared memory")


def _said(compiling: Callable[[], Any]) -> str:
    try:
        compiling()
    except Exception as error:  # noqa: BLE001  a compiler may raise anything about what it compiles
        return f"{type(error).__name__}: {error}"
    return ""


def _lower(kernels: dict[str, Any], name: str, launch: Launch) -> None:
    source = _source(kernels, name, launch)
    backend = make_backend(TARGET)
    options = backend.parse_options(dict(launch.options))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    generator = backend.get_codegen_implementation(options)
    source.make_ir(TARGET, options, generator, backend.get_module_map(), context)


def _source(kernels: dict[str, Any], name: str, launch: Launch) -> ASTSource:
    kernel = kernels[name]
    signature: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    for parameter in kernel.params:
        if parameter.name in launch.arguments:
            kind, value = _typed(launch.arguments[parameter.name], parameter.is_constexpr, kernels)
        else:
            kind, value = _default(parameter)
        signature[parameter.name] = kind
        if kind == "constexpr":
            constants[parameter.name] = value
    return ASTSource(kernel, signature, constants)


def _default(parameter: Any) -> tuple[str, Any]:
    value = parameter.default
    if parameter.is_constexpr or value is None or isinstance(value, str):
        return "constexpr", value
    return _number(value), None


def _typed(choice: Choice, static: bool, kernels: dict[str, Any]) -> tuple[Any, Any]:
    """Return an argument's type in a signature, and its value where it is a constant."""
    kind, value = choice[0], choice[1]
    if static or kind in ("dtype", "kernel") or value is None or (isinstance(value, str) and kind == "value"):
        return "constexpr", _constant(choice, kernels)
    match choice:
        case ["tensor", str(dtype), _] if dtype in TORCH_DTYPES:
            return f"*{_POINTED[dtype]}", None
        case ["descriptor", str(dtype), list(block)]:
            return f"tensordesc<{_POINTED[dtype]}{block}>", None
        case ["tuple", list(items)]:
            return tuple(_typed(item, False, kernels)[0] for item in items), None
        case _:
            return _number(value), None


def _constant(choice: Choice, kernels: dict[str, Any]) -> Any:
    match choice:
        case ["dtype", str(dtype)]:
            return triton_dtype(dtype)
        case ["kernel", str(name)]:
            return kernels[name]
        case ["tuple", list(items)]:
            return tuple(_constant(item, kernels) for item in items)
        case ["value", value]:
            return value
        case _:
            raise ValueError(f"{choice} is no constant")


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, float):
        return "fp32"
    return "i32" if -(2**31) <= value < 2**31 else "i64"
