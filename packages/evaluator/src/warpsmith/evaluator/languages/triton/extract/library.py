"""The libraries that kernels may use, and what is known about others without importing them."""

import functools
import importlib
import importlib.machinery
import importlib.metadata
import math
import pkgutil
import re
import sys
from collections.abc import Iterator
from types import MappingProxyType, ModuleType
from typing import Any, Final

from warpsmith.evaluator.languages.triton.extract.values import Constexpr, Foreign, Library, Value

LANGUAGE: Final = "triton.language"
ALLOWED_MODULES: Final = frozenset(
    {
        "triton",
        LANGUAGE,
        "triton.language.math",
        "triton.language.extra",
        "triton.language.extra.libdevice",
        "triton.language.extra.cuda",
        "triton.language.extra.cuda.libdevice",
        "math",
    }
)
SAME_MEMBERS: Final = ("triton.language.core", "triton.language.standard", "triton.language.random")
"""Modules that `triton.language` shows the public members of: a name is taken from there where it is the same."""
HELPERS: Final = frozenset({"triton.cdiv", "triton.next_power_of_2"})
JIT: Final = "triton.jit"
COMPUTING: Final = frozenset({"triton.constexpr_function", "triton.runtime.jit.constexpr_function"})
"""Decorators of functions that the compiler calls with constants."""
ENUMERATIONS: Final = frozenset({"enum.Enum", "enum.IntEnum"})
DATACLASS: Final = "dataclasses.dataclass"
TUPLE_CLASSES: Final = frozenset({"typing.NamedTuple", "collections.namedtuple"})
LAUNCH_DECORATORS: Final = frozenset({"triton.autotune", "triton.heuristics"})
ENUMS: Final = frozenset({"triton.language.PropagateNan"})
CONSTEXPR: Final = "triton.language.constexpr"
DESCRIPTOR: Final = "triton.language.tensor_descriptor"
INNER_FUNCTIONS: Final = frozenset({"triton.language.core.get_int_dtype"})
"""Functions of closed modules that kernels may use: Triton's own sort uses it, and so do copies of that sort."""
_CONSTANTS: Final = MappingProxyType({"triton.language.core.CONSTEXPR_0": Constexpr(0)})
CLOSED_MEMBERS: Final = frozenset(
    f"{LANGUAGE}.{name}"
    for name in ("tensor", "tensor_descriptor", "str_to_ty", "aggregate_replace", "constexpr_type", "condition")
)
"""Parts of the compiler that `triton.language` shows: a kernel could ask them what it is run by."""

_FACTS: Final = MappingProxyType(
    {
        "typing.TYPE_CHECKING": False,
        "torch.version.hip": None,
        "torch.version.xpu": None,
        "sys.platform": "linux",
        "os.name": "posix",
    }
)
CONVENTIONS: Final = MappingProxyType(
    {
        **dict.fromkeys(("is_nvidia", "is_cuda", "is_cuda_available"), True),
        **dict.fromkeys(("is_amd", "is_hip", "is_rocm", "is_npu", "is_npu_available", "is_xpu", "is_intel"), False),
    }
)
"""Names, in lower case, by which projects ask for the hardware they run on: here it is CUDA's."""
INDUCTOR: Final = "torch._inductor.runtime.triton_helpers"
"""The module of kernels that the output of `torch.compile` calls (`inductor`)."""
_SAME_MODULES: Final = MappingProxyType(
    {f"{INDUCTOR}.libdevice": "triton.language.extra.libdevice", f"{INDUCTOR}.math": "triton.language.math"}
)
"""Modules that torch shows under names of its own."""
LIBDEVICE: Final = f"{LANGUAGE}.extra.libdevice"
DESCRIPTORS: Final = (
    "Use pointers with masks, tl.load(p + rows[:, None] * stride + columns[None, :], mask=..., other=0.0), or "
    "tl.make_tensor_descriptor(p, shape, strides, block_shape), whose load and store take offsets."
)
"""What to write for block pointers."""
LACKING: Final = f"Triton {importlib.metadata.version('triton')} does not have it"
"""Why a kernel may not use a member that there is not."""
_REPLACEMENTS: Final = MappingProxyType(
    {
        "advance": DESCRIPTORS,
        "make_block_ptr": DESCRIPTORS,
        **dict.fromkeys(
            ("_experimental_make_tensor_descriptor", "experimental_descriptor_load", "experimental_descriptor_store"),
            DESCRIPTORS,
        ),
        "libdevice": "Write `from triton.language.extra import libdevice` at module level.",
        "any": "Use tl.max((x != 0).to(tl.int32), axis) != 0.",
        "all": "Use tl.min((x != 0).to(tl.int32), axis) != 0.",
        "mean": "Use tl.sum(x, axis) / n, with the number n of elements.",
        "prod": "Use tl.reduce with a @triton.jit function that multiplies.",
        "relu": "Use tl.maximum(x, 0.0).",
        "silu": "Use x * tl.sigmoid(x).",
        "square": "Use x * x.",
        "mod": "Use %, or libdevice.fmod for floats: their % is x - y trunc(x / y).",
        "matmul": "Use tl.dot.",
        "bitcast": "Use x.to(dtype, bitcast=True).",
        "empty": "Use tl.zeros(shape, dtype).",
        "ones": "Use tl.full(shape, 1, dtype).",
        "inf": 'Use float("inf").',
        **dict.fromkeys(("concat", "concatenate", "stack"), "Use tl.join or tl.cat, or store the parts."),
    }
)
"""What to write for names that some version of Triton, or another library, has."""
_VERSIONS: Final = MappingProxyType({"triton.__version__": "triton", "torch.__version__": "torch"})
ANSWERS: Final = MappingProxyType({"torch.cuda.is_available": True, "torch.xpu.is_available": False})
"""What functions without arguments answer where kernels are to run."""


@functools.lru_cache(maxsize=4)
def version(package: str) -> str:
    """Return the installed version of a package."""
    return importlib.metadata.version(package)


def fact(name: str) -> Value:
    """Return what is known about a dotted name of any library; a Foreign where it is nothing but its name."""
    if name == "sys.version_info":
        return tuple(sys.version_info[:3])
    if name in _VERSIONS:
        return version(_VERSIONS[name])
    convention = CONVENTIONS.get(name.rpartition(".")[2].lower())
    if convention is not None and name.rpartition(".")[2].isupper():
        return convention
    return _FACTS[name] if name in _FACTS else Foreign(name)


def canonical(name: str) -> str:
    """Return the name by which `triton.language` shows a member of its inner modules; others as they are."""
    if name in _SAME_MODULES:
        return _SAME_MODULES[name]
    for module in SAME_MEMBERS:
        if name.startswith(f"{module}."):
            inner = name.removeprefix(f"{module}.")
            if "." not in inner and is_member(LANGUAGE, inner):
                return f"{LANGUAGE}.{inner}"
    return name


@functools.lru_cache(maxsize=4096)
def is_member(module: str, name: str) -> bool:
    """Whether an allowed module shows a name, which may be a module below it."""
    return name in dir(importlib.import_module(module))


def public_members(module: str) -> list[str]:
    """Return what `from module import *` binds, of a module that kernels may use."""
    if module not in ALLOWED_MODULES:
        return []
    found = importlib.import_module(module)
    return list(vars(found).get("__all__", [name for name in vars(found) if not name.startswith("_")]))


def module_exists(name: str) -> bool | None:
    """Whether `import name` succeeds; None where only running it would tell."""
    if name in ALLOWED_MODULES or any(module.startswith(f"{name}.") for module in ALLOWED_MODULES):
        return True
    return _is_installed(name)


@functools.lru_cache(maxsize=1024)
def _is_installed(name: str) -> bool | None:
    """Whether a module's file is there; None below a module that is not a package. Nothing is run for it."""
    above, _, _last = name.rpartition(".")
    if not above:
        return name in sys.builtin_module_names or importlib.machinery.PathFinder.find_spec(name) is not None
    if (there := _is_installed(above)) is not True:
        return there
    folders = package_folders(above)
    return None if folders is None else any(_specs(name, folders))


@functools.lru_cache(maxsize=1024)
def package_folders(name: str) -> list[str] | None:
    """Return where the modules of an installed package lie; None for a module that is not a package. Nothing is run."""
    above, _, _last = name.rpartition(".")
    if not above:
        spec = importlib.machinery.PathFinder.find_spec(name)
        specs = [] if spec is None else [spec]
    else:
        specs = list(_specs(name, package_folders(above) or []))
    made = [spec for spec in specs if spec.loader is not None][:1] or specs
    found = [str(place) for spec in made for place in spec.submodule_search_locations or ()]
    return found or None


def _specs(name: str, folders: list[str]) -> Iterator[importlib.machinery.ModuleSpec]:
    """Yield what folders hold under a module's name; a folder without `__init__.py` has no loader.

    `PathFinder` would look for the package among the imported modules, and few of those that are named here are.
    """
    for folder in folders:
        finder = pkgutil.get_importer(folder)
        spec = None if finder is None else finder.find_spec(name)
        if spec is not None:
            yield spec


def member_exists(module: str, name: str) -> bool | None:
    """Whether `from module import name` succeeds; None where only running it would tell."""
    if module not in ALLOWED_MODULES:
        return module_exists(module) and (None if module.partition(".")[0] == "triton" else True)
    return is_member(module, name) or f"{module}.{name}" in ALLOWED_MODULES


def member(base: Library | Foreign, name: str) -> Value:
    """Return `base.name`: a part of what kernels may use, a fact, or a name of another library."""
    full = canonical(f"{base.name}.{name}")
    if full in _CONSTANTS:
        return _CONSTANTS[full]
    inside = (isinstance(base, Library) or full in INNER_FUNCTIONS) and full not in _VERSIONS
    return Library(full) if inside or full in ALLOWED_MODULES else fact(full)


def imported(name: str) -> Value:
    """Return what an import of a module or of a member of one binds."""
    full = canonical(name)
    if full in _CONSTANTS:
        return _CONSTANTS[full]
    if full in INNER_FUNCTIONS:
        return Library(full)
    if full in ALLOWED_MODULES or full.rpartition(".")[0] in ALLOWED_MODULES:
        return fact(full) if full in _VERSIONS else Library(full)
    return fact(full)


def split(name: str) -> tuple[str, list[str]]:
    """Return the longest allowed module that a dotted name begins with, and the parts that follow it."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        if (module := ".".join(parts[:count])) in ALLOWED_MODULES:
            return module, parts[count:]
    return "", parts


def why_closed(name: str) -> str:
    """Return why a kernel may not use a member of the library; an empty string where it may."""
    module, rest = split(name)
    if any(part.startswith("_") for part in rest):
        return "names that begin with an underscore are closed to kernels"
    if not rest:
        return "a module is not a value"
    if module == "triton":
        return "" if name in HELPERS else "of triton itself a kernel may use cdiv and next_power_of_2"
    return "it is a part of the compiler" if name in CLOSED_MEMBERS else _why_no_member(module, rest)


def _why_no_member(module: str, rest: list[str]) -> str:
    if ".".join([module, *rest]) in INNER_FUNCTIONS:
        return ""
    if not is_member(module, rest[0]):
        return LACKING
    if isinstance(vars(importlib.import_module(module)).get(rest[0]), ModuleType):
        return "the module is closed to kernels"
    if len(rest) == 1 or (len(rest) == 2 and f"{module}.{rest[0]}" in ENUMS):
        return ""
    return "a kernel may use the members of its library, not what lies below them"


def shown(name: str) -> str:
    """Return a member's name as kernels write it: `tl.load` for `triton.language.load`."""
    inside = name.startswith(f"{LANGUAGE}.")
    return f"tl{name.removeprefix(LANGUAGE)}" if inside else name


def in_place_of(name: str) -> str:
    """Return what a kernel may write for a member that this version of Triton lacks; nothing where that is unknown."""
    module, rest = split(name)
    if not rest or is_member(module, rest[0]):
        return ""
    if is_member(LIBDEVICE, rest[0]):
        return f"Use libdevice.{rest[0]}, with `from triton.language.extra import libdevice` at module level."
    return _REPLACEMENTS.get(rest[0], "")


def is_dtype(name: str) -> bool:
    """Whether a dotted name is a dtype of the language."""
    return re.fullmatch(r"triton\.language\.(u?int(1|8|16|32|64)|b?float(16|32|64)|float8e\w+)", name) is not None


def number(name: str) -> float | None:
    """Return a number of the math module, `math.pi`; None for any other name."""
    module, _, member = name.rpartition(".")
    found = vars(math).get(member) if module == "math" else None
    return found if isinstance(found, float) else None


@functools.lru_cache(maxsize=4096)
def is_function(name: str) -> bool:
    """Whether a dotted name is something of the library that can be called."""
    module, rest = split(name)
    found: Any = importlib.import_module(module) if module else None
    for part in rest:
        found = getattr(found, part, None)
    return callable(found)
