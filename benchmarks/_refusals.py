"""Triton's errors for a launch: where in the kernels, for which arguments, and whether any launch could pass."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from triton.compiler.errors import CompilationError

REMOVED: Final = re.compile(r"ha(ve|s) been removed")
_SAME_FOR_ALL: Final = re.compile(
    r"ha(ve|s) been removed"
    r"|'dtype' object is not callable"
    r"|too many indices for tensor of rank|'tuple_type' object has no attribute"
    r"|unsupported AST node type"
    r"|(module|type object) '[\w.]+' has no attribute"
    r"|got an unexpected keyword argument|missing \d+ required|takes \d+ positional|got multiple values for"
)
"""Errors that do not depend on a launch's arguments."""
_OTHER_CHIP: Final = re.compile(r"not supported on \.target|requires \.target")
_UNDEFINED: Final = re.compile(r"NameError\(.(\w+) is not defined")


@dataclass(frozen=True)
class Frame:
    """Place in a kernel's own text, counted from its `def`, where a rejected operation ends, and the names in it.

    An operation is rejected once its operands are known, so what ends later was reached later.
    """

    kernel: str
    line: int
    column: int
    names: frozenset[str]


@dataclass(frozen=True)
class Refusal:
    """The error for a launch.

    Attributes:
        text: the messages, outermost first.
        frames: the calls that lead to the place, the launched kernel's first; empty if no place is given.
        lowered: whether the front end had generated code for the whole launch.
    """

    text: str
    frames: tuple[Frame, ...] = ()
    lowered: bool = False

    @property
    def progress(self) -> tuple[tuple[int, int], ...]:
        """How far the compiler got: the later in the kernel, the greater."""
        if self.frames:
            return tuple((frame.line, frame.column) for frame in self.frames)
        return ((10**6, 0),) if self.lowered else ((0, 0),)

    @property
    def cause(self) -> str:
        """The last line without paths: what is wrong at the place."""
        lines = [line for line in self.text.splitlines() if line.strip()]
        said = [*filter(_OTHER_CHIP.search, lines), *lines[-1:]]
        return re.sub(r" ?\(?/\S+", "", said[0] if said else "")[:200]

    def holds_for_all(self, bound: dict[str, set[str]]) -> bool:
        """Whether a launch with other arguments would also be rejected at this place.

        Args:
            bound: the names that each kernel binds; one that is bound nowhere is missing in every launch.
        """
        if not self.frames:
            return self.lowered and _OTHER_CHIP.search(self.text) is not None
        if (undefined := _UNDEFINED.search(self.text)) is not None:
            return undefined[1] not in bound.get(self.frames[-1].kernel, {undefined[1]})
        return _SAME_FOR_ALL.search(self.text) is not None


def refusal(error: BaseException, *, lowered: bool = False) -> Refusal:
    """Return the refusal for a compiler exception."""
    chain = list(_chain(error))
    frames = [_frame(one) for one in chain if isinstance(one, CompilationError) and isinstance(one.src, str)]
    text = "\n".join(f"{type(one).__name__}: {one}" for one in chain)
    return Refusal(text, tuple(frame for frame in frames if frame is not None), lowered)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes, from the launched kernel to the innermost called kernel."""
    while error is not None:
        yield error
        error = error.__cause__


def _frame(error: CompilationError) -> Frame | None:
    name = re.search(r"def (\w+)", str(error.src))
    node = _header(error.node)
    if name is None or getattr(node, "end_lineno", None) is None:
        return None
    return Frame(name[1], node.end_lineno, node.end_col_offset, frozenset(names_at(node)))


def _header(node: ast.AST) -> Any:
    """Return a node without its nested statements."""
    match node:
        case ast.If(test=part) | ast.While(test=part) | ast.For(iter=part):
            return part
        case ast.FunctionDef(args=arguments, body=body):
            return arguments.args[-1] if arguments.args else body[0]
        case _:
            return node


def names_at(node: ast.AST) -> set[str]:
    """Return the names in an expression or statement, without those of nested statements."""
    return {part.id for part in ast.walk(_header(node)) if isinstance(part, ast.Name)}


class Flows:
    """Which arguments of a kernel each of its names depends on.

    Args:
        nodes: the kernels by name.
    """

    def __init__(self, nodes: dict[str, ast.FunctionDef]) -> None:
        self._nodes = nodes
        self.bound = {name: set(_bound(node)) for name, node in nodes.items()}
        self._made_of: dict[str, dict[str, set[str]]] = {}

    def concerned(self, said: Refusal) -> tuple[set[str], set[str]]:
        """Return the arguments of the launched kernel at the rejected place, and all that lead there."""
        names: set[str] = set()
        near: set[str] = set()
        called: Frame | None = None
        for frame in reversed(said.frames):
            if frame.kernel not in self._nodes:
                return set(), set()
            names = set(frame.names) if called is None else self._passed(frame, called.kernel, names)
            near = self._arguments(frame.kernel, names, 2)
            names = self._arguments(frame.kernel, names, 50)
            called = frame
        return near, names

    def _passed(self, frame: Frame, callee: str, parameters: set[str]) -> set[str]:
        """Return the names that a kernel passes for some parameters of another."""
        taken = [one.arg for one in _arguments(self._nodes[callee])]
        found: set[str] = set()
        for node in ast.walk(self._nodes[frame.kernel]):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == callee:
                pairs: list[tuple[str | None, ast.expr]] = [*zip(taken, node.args, strict=False)]
                pairs += [(keyword.arg, keyword.value) for keyword in node.keywords]
                for parameter, value in pairs:
                    found |= names_at(value) if parameter in parameters else set()
        return found

    def made_of(self, kernel: str) -> dict[str, set[str]]:
        """Return the names that each name of a kernel is bound to."""
        if kernel not in self._made_of:
            self._made_of[kernel] = _made_of(self._nodes[kernel])
        return self._made_of[kernel]

    def _arguments(self, kernel: str, names: set[str], steps: int) -> set[str]:
        made_of, found, new = self.made_of(kernel), set(names), set(names)
        for _ in range(steps):
            new = set().union(*(made_of.get(name, set()) for name in new)) - found
            found |= new
        return found & {one.arg for one in _arguments(self._nodes[kernel])}


def _arguments(node: ast.FunctionDef) -> list[ast.arg]:
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def _bound(node: ast.FunctionDef) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.arg):
            yield part.arg
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id


def _made_of(node: ast.FunctionDef) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for part in ast.walk(node):
        targets, value = _binding(part)
        for target in targets:
            for name in names_at(target) if value is not None else ():
                found.setdefault(name, set()).update(names_at(value))
    return found


def _binding(node: ast.AST) -> tuple[list[ast.expr], Any]:
    match node:
        case ast.Assign(targets=targets, value=value):
            return targets, value
        case ast.AnnAssign(target=target, value=value) | ast.AugAssign(target=target, value=value):
            return [target], value
        case ast.For(target=target, iter=items):
            return [target], items
        case _:
            return [], None
