"""Stand-ins for the parts of Inductor that the output of `torch.compile` imports and that import its compiler.

Its compiler takes seconds to import, and cannot be imported where `torch._dynamo` is replaced. What such output does
with these parts outside of its compiler is done here: grids, launches of kernels under `triton_heuristics`, and
`extern_kernels`, which are torch's own operators. The rest raises with advice when it is used, so that an unused import
does no harm.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Final

import torch
import triton

PACKAGE: Final = "torch._inductor"
REPLACED: Final = (
    f"{PACKAGE}.async_compile",
    f"{PACKAGE}.runtime.triton_heuristics",
    f"{PACKAGE}.select_algorithm",
    f"{PACKAGE}.codegen",
    f"{PACKAGE}.kernel",
    "torch._dynamo.testing",
)
"""Modules and packages that are replaced with everything in them."""
HELPERS: Final = f"{PACKAGE}.runtime.triton_helpers"
"""A module that stays, since kernels call its functions, but chooses no driver: there is one, and it is active."""
DRIVER_CHOICES: Final = ("set_driver_to_gpu", "set_driver_to_cpu")
MOST_Y: Final = 65535
"""Blocks in the second dimension of a grid."""
MOST_ELEMENTS: Final = 1024
"""Elements of a block under `triton_heuristics`."""
AXES: Final = ("z", "y", "x")
_OF_REDUCTION: Final = re.compile(r"r\d*_?numel|R\d*_?BLOCK")


def install() -> None:
    """Replace the modules in this process, which must belong to a candidate."""
    sys.meta_path.insert(0, _Finder())
    if HELPERS in sys.modules:
        _keep_driver(sys.modules[HELPERS])


class _Finder(MetaPathFinder, Loader):
    """Finds the replaced modules, and makes them."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return the specification of a replaced module; None for any other."""
        if fullname == HELPERS:
            return _helpers(path)
        if not any(fullname == name or fullname.startswith(f"{name}.") for name in REPLACED):
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        """Give a module its members: those of `MEMBERS`, and others that raise when they are used."""
        name = module.__name__
        vars(module).update(MEMBERS.get(name, {}))

        def member(attribute: str) -> Any:
            if attribute.startswith("__"):
                raise AttributeError(attribute)
            return Refused(attribute)

        vars(module)["__getattr__"] = member


def _helpers(path: Any) -> ModuleSpec | None:
    """Return the specification of torch's own helpers, with the functions that choose a driver replaced."""
    spec = PathFinder.find_spec(HELPERS, path)
    if spec is not None and spec.loader is not None:
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _keep_driver(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
    return spec


def _keep_driver(helpers: ModuleType) -> None:
    vars(helpers).update(dict.fromkeys(DRIVER_CHOICES, _nothing))


class Refused:
    """A function, class or object of Inductor's; raises NotImplementedError once it is used."""

    def __init__(self, name: str = "AsyncCompile") -> None:
        self._name = name

    def __getattr__(self, name: str) -> "Refused":
        return Refused(f"{self._name}.{name}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError(
            f"{self._name} of torch's Inductor compiles and launches kernels in its own way, which cannot be judged. "
            "Paste each kernel from its string into the file as a @triton.jit function, with or without its "
            "@triton_heuristics decorator, and launch it by a grid: "
            "kernel[(triton.cdiv(xnumel, 128),)](..., XBLOCK=128)."
        )


def grid(*numels: Any) -> Callable[[Mapping[str, int]], tuple[int, int, int]]:
    """Return a launch's grid for the elements of each axis, the innermost last, like Inductor's own `grid`."""
    counts: dict[str, Any] = dict(zip(reversed(AXES), reversed(numels), strict=False))

    def blocks(meta: Mapping[str, int]) -> tuple[int, int, int]:
        x, y, z = (_blocks(counts.get(axis), meta.get(f"{axis.upper()}BLOCK")) for axis in reversed(AXES))
        if counts.get("z") is not None:
            return x, y, z
        layers = max(triton.cdiv(y, MOST_Y), 1)
        return x, triton.cdiv(y, layers), layers

    return blocks


def _blocks(count: Any, block: int | None) -> int:
    return 1 if count is None else int(triton.cdiv(int(count), block or 1))


class HeuristicKernel:
    """A kernel under `@triton_heuristics.pointwise(...)` or another, which chooses its blocks when it is launched.

    Args:
        kernel: what `@triton.jit` returned.
        hints: about how many elements each axis has, by its prefix; in older output a list of numbers, innermost last.
    """

    def __init__(self, kernel: Any, hints: Mapping[str, int] | Sequence[int]) -> None:
        names = [*AXES, "r0_"] if any(map(_OF_REDUCTION.fullmatch, kernel.arg_names)) else AXES
        if not isinstance(hints, Mapping):
            hints = dict(zip(reversed(names), reversed(hints), strict=False))
        self.fn = kernel
        self._hints: dict[str, int] = {}
        for name, hint in hints.items():
            self._hints[name[:1]] = self._hints.get(name[:1], 1) * int(triton.next_power_of_2(int(hint)))

    def run(self, *args: Any, grid: Any = None, stream: Any = None, **options: Any) -> Any:
        """Launch as Inductor's output does, on the current stream."""
        return self[grid](*args, **options)

    def __getitem__(self, given: Any) -> Callable[..., Any]:
        """Return the launch by a grid; None takes one from the numbers of elements among the arguments."""

        def launch(*args: Any, **options: Any) -> Any:
            named = dict(zip(self.fn.arg_names, args, strict=False)) | options
            numels = [named[f"{axis}numel"] for axis in AXES if f"{axis}numel" in named]
            return self.fn[given or grid(*numels)](*args, **(self._sizes() | options))

        return launch

    def _sizes(self) -> dict[str, int]:
        """Return a size for each block that the kernel takes; together they are as large as a block may be."""
        names = [name for name in self.fn.arg_names if name.endswith("BLOCK")]
        sizes, left = {}, MOST_ELEMENTS
        if not any(name[0] == "R" for name in names):
            # A persistent reduction holds whole rows, and sets the row block in its body.
            left = max(left // self._hints.get("r", 1), 1)
        for number, name in enumerate(sorted(names, key=lambda name: name[0] != "R")):
            axis = name[0].lower()
            share = left if axis == "r" else 1 << ((left.bit_length() - 1) // (len(names) - number))
            sizes[name] = min(self._hints.get(axis, 1), share)
            left //= sizes[name]
        return sizes


def _heuristic(size_hints: Any = None, *_: Any, **__: Any) -> Callable[[Any], HeuristicKernel]:
    return lambda kernel: HeuristicKernel(kernel, size_hints or {})


class ExternKernels:
    """Inductor's `extern_kernels`: torch's operators, with their results written to `out`."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(torch, name, None) or getattr(torch.ops.aten, name, None)
        return Refused(f"extern_kernels.{name}") if found is None else found


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing: neither Inductor's own record of a kernel nor its choice of a driver is needed here."""


HEURISTICS: Final = ("pointwise", "reduction", "persistent_reduction")
"""Decorators whose kernels take only blocks besides their arguments."""
MEMBERS: Final[dict[str, dict[str, Any]]] = {
    f"{PACKAGE}.async_compile": {"AsyncCompile": Refused},
    f"{PACKAGE}.select_algorithm": {"extern_kernels": ExternKernels()},
    f"{PACKAGE}.runtime.triton_heuristics": {
        "grid": grid,
        "start_graph": _nothing,
        "end_graph": _nothing,
        **dict.fromkeys(HEURISTICS, _heuristic),
    },
}
