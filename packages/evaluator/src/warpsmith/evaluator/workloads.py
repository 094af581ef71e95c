"""Problems with several workloads: one `Model`, several named input sets. Importable without torch.

A problem's module names them in a constant, which is read without running the module:

    ROWS = 128
    DTYPE = torch.float32
    WORKLOADS = {"small": {"ROWS": 4}, "half": {"ROWS": 64, "DTYPE": torch.float16}}

A workload is the module with other values of its constants: a problem of its own, judged as any other.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.parsing import parse
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.verdict import well_formed
from warpsmith.records.wording import counted

CONSTANT: Final = "WORKLOADS"
MOST: Final = 512
"""Maximum workloads per problem."""
LONGEST_QUOTED: Final = 60
"""Maximum characters of a value in a message."""
FORM: Final = 'Write WORKLOADS = {"small": {"ROWS": 4}, "large": {"ROWS": 4096}}, with constants of the module.'


@dataclass(frozen=True)
class Workload:
    """One named input set of a problem.

    Attributes:
        name: its name, unique in the problem.
        problem: the problem with this input set alone; its own `workloads_of` is empty.
    """

    name: str
    problem: Problem


def workloads_of(problem: Problem) -> tuple[Workload, ...]:
    """Return the workloads of a problem in the order of its constant; empty if it has no such constant.

    Raises:
        BadProblemError: the constant is not a dict of dicts as above, names a constant that the module does not assign
            exactly once by a statement of its own, or has a value that is neither a literal nor an attribute of torch.
    """
    if CONSTANT not in problem.source:
        return ()
    lines = problem.source.replace("\r\n", "\n").replace("\r", "\n")
    assigned = _assigned(parse(lines))
    found = assigned.get(CONSTANT)
    if found is None or (isinstance(found, ast.Constant) and found.value is None):
        return ()
    module = _Module(problem.name, lines, assigned)
    return tuple(
        Workload(name, replace(problem, name=f"{problem.name} [{name}]", source=module.with_values(name, values)))
        for name, values in _Constant(problem.name, lines.encode().split(b"\n")).entries(found)
    )


def in_own_words(message: str, problem: Problem, workload: Problem) -> str:
    """Return a message about a workload's problem with the lines that it quotes as the whole problem has them.

    Args:
        message: what was said; a quoted line ends its parenthesis, as in `(line 3, in <module>: ROWS = 4)`.
        problem: the whole problem.
        workload: the problem of one of its workloads.
    """
    pairs = zip(problem.source.splitlines(), workload.source.splitlines(), strict=False)
    for own, derived in pairs:
        if own != derived:
            message = message.replace(f": {derived.strip()})", f": {own.strip()})")
    return message


@dataclass(frozen=True)
class _Module:
    """The module of a problem.

    Attributes:
        name: the problem's.
        source: its text, with lines that end in a line feed.
        assigned: what each constant is assigned; None if it is assigned several times.
    """

    name: str
    source: str
    assigned: Mapping[str, ast.expr | None]

    def with_values(self, workload: str, values: Mapping[str, str]) -> str:
        """Return the source with other values of constants and without workloads; every line keeps its number."""
        changes = {CONSTANT: "None", **values}
        spans = sorted(((self._value_of(name, workload), text) for name, text in changes.items()), key=_end_of)
        lines = [line.encode() for line in self.source.split("\n")]
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line) + 1)
        data = b"\n".join(lines)
        for node, text in reversed(spans):
            assert node.end_lineno is not None and node.end_col_offset is not None  # set by the parser
            begin, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
            padded = text + "\n" * (node.end_lineno - node.lineno)
            data = data[:begin] + (f"({padded})" if padded != text else text).encode() + data[end:]
        return data.decode()

    def _value_of(self, name: str, workload: str) -> ast.expr:
        value = self.assigned.get(name)
        if value is None:
            how = "more than once" if name in self.assigned else "nowhere"
            raise BadProblemError(
                f"Workload {workload!r} of problem {self.name} sets {name}, which the module assigns {how} by a "
                "statement of its own.",
                f"Assign it once at the top level of the module, such as {name} = 128.",
            )
        return value


def _assigned(tree: ast.Module) -> dict[str, ast.expr | None]:
    """Return what each name is assigned by a statement `NAME = value` of the module; None if by several."""
    found: dict[str, ast.expr | None] = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = None if name in found else value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name] = None if name in found else value
    return found


@dataclass(frozen=True)
class _Constant:
    """Reads the constant of a problem.

    Attributes:
        problem: the problem's name.
        lines: its source.
    """

    problem: str
    lines: list[bytes]

    def entries(self, node: ast.expr) -> list[tuple[str, dict[str, str]]]:
        """Return the name and the values, as source text, of each workload."""
        entries = [(name, self._values(name, value)) for name, value in self._items(node, CONSTANT)]
        names = [name for name, _ in entries]
        if not 1 <= len(names) <= MOST or len(set(names)) < len(names) or not all(names):
            twice = next((name for name in names if names.count(name) > 1), None)
            why = f", and {twice!r} is there twice" if twice else ""
            raise BadProblemError(
                f"Problem {self.problem} has {counted(len(names), 'workload')}{why}; 1 to {MOST} of different names "
                "were expected.",
                FORM,
            )
        return entries

    def _values(self, workload: str, node: ast.expr) -> dict[str, str]:
        where = f"Workload {workload!r}"
        return {name: self._text(workload, name, value) for name, value in self._items(node, where)}

    def _items(self, node: ast.expr, where: str) -> list[tuple[str, ast.expr]]:
        """Return the items of a dict that is written out."""
        if not isinstance(node, ast.Dict):
            raise BadProblemError(
                f"{where} of problem {self.problem} is {self._quoted(node)}; a dict that is written out was expected.",
                FORM,
            )
        items = []
        for key, value in zip(node.keys, node.values, strict=True):
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                found = f"**{self._quoted(value)}" if key is None else self._quoted(key)
                raise BadProblemError(
                    f"{where} of problem {self.problem} has the key {found}; a text was expected.", FORM
                )
            if well_formed(key.value) != key.value:
                raise BadProblemError(
                    f"{where} of problem {self.problem} has the key {key.value!a}, half of a pair of surrogates; a "
                    "text that can be encoded was expected.",
                    FORM,
                )
            items.append((key.value, value))
        return items

    def _text(self, workload: str, name: str, value: ast.expr) -> str:
        """Return the source text of a value: a literal, or an attribute of torch such as `torch.float16`."""
        if name == CONSTANT:
            raise BadProblemError(f"Workload {workload!r} of problem {self.problem} sets {CONSTANT} itself.", FORM)
        match value:
            case ast.Attribute(value=ast.Name(id="torch")):
                return self._written(value)
        try:
            ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
            raise BadProblemError(
                f"Workload {workload!r} of problem {self.problem} sets {name} to {self._quoted(value)}, which is not a "
                "literal.",
                "Give a number, a text, a list or tuple of them, or a dtype such as torch.float16.",
            ) from error
        return self._written(value)

    def _written(self, node: ast.expr) -> str:
        """Return a value as it is written; one of several lines in one, since lines keep their numbers."""
        assert node.end_lineno is not None  # set by the parser
        if node.lineno != node.end_lineno:
            return ast.unparse(node)
        return self.lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode()

    def _quoted(self, node: ast.expr) -> str:
        """Return how a message quotes a value: as it is written, with its line."""
        text = self._written(node)
        shown = text if len(text) <= LONGEST_QUOTED else f"{text[:LONGEST_QUOTED]}..."
        return f"`{shown}` (line {node.lineno})"


def _end_of(span: tuple[ast.expr, str]) -> tuple[int, int]:
    return span[0].lineno, span[0].col_offset
