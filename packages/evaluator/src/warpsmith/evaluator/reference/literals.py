"""Reorders the literal lists of integers in a problem's inputs: lengths, offsets, group sizes, tables.

Runs in the reference worker. A new order preserves the guarantees of such lists: their sum, bounds and multiples. Lists
of the same length take the same order, so that lengths still match the rows of a table. A sorted list that starts at
zero holds offsets; its differences are reordered. Any other sorted list keeps all lists of its length unchanged.
"""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, Final

MAKERS: Final = frozenset({"tensor", "as_tensor", "array", "asarray", "IntTensor", "LongTensor", "from_numpy"})
"""Functions that make a tensor from a list."""

# `Random` is bound here, at import: while `get_inputs` runs, `random.Random` is a class whose draws are varied.
Evaluate = Callable[[ast.expr], Any]


class WrittenLists:
    """The literal lists of integers in some statements, grouped by their number of entries.

    Attributes:
        counts: numbers of entries whose lists can be reordered.
        bound: lengths, sums and entries of the lists.
        largest: the largest number in any list.
    """

    def __init__(self, statements: Sequence[ast.stmt], evaluate: Evaluate) -> None:
        self._evaluate = evaluate
        self._groups: dict[int, list[_Written]] = {}
        self.bound: set[int] = set()
        self.largest = 0
        self._inside: set[int] = set()
        for node in _lists(statements):
            self._add(node)
        self.counts = [count for count, lists in self._groups.items() if _may_change(lists)]

    def _add(self, node: ast.List | ast.Tuple) -> None:
        values = self._evaluate(node)
        flat = list(_flat(values))
        if not flat:
            return
        written = _Written(node, values)
        self._groups.setdefault(written.count, []).append(written)
        self.largest = max(self.largest, *flat)
        self._inside |= {id(inner) for inner in ast.walk(node)}
        self.bound |= {len(values), sum(flat), written.count, *flat}

    def binds(self, size: int) -> bool:
        """Whether a size may depend on a list: it equals its length, sum or an entry, or bounds its entries."""
        return size in self.bound or size // 4 < self.largest <= size

    def matches(self, size: int) -> bool:
        """Whether a size is the length, the sum or an entry of a list, or the largest entry plus one."""
        return size in self.bound or size == self.largest + 1

    def contains(self, node: ast.AST) -> bool:
        """Whether a node is inside one of the lists."""
        return id(node) in self._inside

    def are_in(self, statement: ast.stmt) -> bool:
        """Whether a statement contains one of the lists."""
        nodes = {id(written.node) for lists in self._groups.values() for written in lists}
        return any(id(node) in nodes for node in ast.walk(statement))

    @contextmanager
    def in_order(self, seeds: Mapping[int, int]) -> Iterator[None]:
        """Reorder the lists with each number of entries in `seeds`, by its seed, inside this context."""
        changed = [(written, Random(seed)) for count, seed in seeds.items() for written in self._of(count)]
        try:
            for written, rng in changed:
                written.permute(rng)
            yield
        finally:
            for written, _ in changed:
                written.restore()

    def _of(self, count: int) -> "list[_Written]":
        return self._groups.get(count, []) if count in self.counts else []


class _Written:
    """One list: its node, and the entries that change places."""

    def __init__(self, node: ast.List | ast.Tuple, values: Sequence[Any]) -> None:
        self.node = node
        self._entries = list(node.elts)
        self.values = values
        plain = all(type(value) is int for value in values)
        self.is_sorted = plain and len(set(values)) > 1 and sorted(values) in (list(values), list(values)[::-1])
        # Each entry refers to an earlier one, like the parents in a tree.
        self.points_back = plain and values[0] <= 0 and all(value < at for at, value in enumerate(values[1:], 1))
        self.is_offsets = self.is_sorted and values[0] == 0 and values[-1] > 0
        self.count = len(values) - 1 if self.is_offsets else len(values)

    def permute(self, rng: Random) -> None:
        order = _other_order(self.count, rng)
        if self.is_offsets:
            steps = [after - before for before, after in zip(self.values, self.values[1:], strict=False)]
            ends = [sum(steps[index] for index in order[: number + 1]) for number in range(self.count)]
            self.node.elts = [ast.copy_location(ast.Constant(end), self.node) for end in [0, *ends]]
        else:
            self.node.elts = [self._entries[index] for index in order]

    def restore(self) -> None:
        self.node.elts = self._entries


def _other_order(count: int, rng: Random) -> list[int]:
    """Return a permutation of `count` entries, determined by the state of `rng`, that is not the identity."""
    order = list(range(count))
    rng.shuffle(order)
    return order if order != sorted(order) else [*order[1:], order[0]]


def _may_change(lists: "list[_Written]") -> bool:
    steps = [
        [after - before for before, after in zip(one.values, one.values[1:], strict=False)]
        for one in lists
        if one.is_offsets
    ]
    differs = any(len(set(map(str, one.values))) > 1 for one in lists if not one.is_offsets)
    return all(one.is_offsets or not (one.is_sorted or one.points_back) for one in lists) and (
        differs or any(len(set(one)) > 1 for one in steps)
    )


def _flat(values: Any) -> Iterator[int]:
    """Yield the integers of a list of integers or of equally long lists of them; nothing for anything else."""
    rows = values if all(isinstance(row, list | tuple) and len(row) == len(values[0]) for row in values) else [values]
    found = [entry for row in rows for entry in row]
    if len(values) > 1 and all(type(entry) is int for entry in found):
        yield from found


def _lists(statements: Sequence[ast.stmt]) -> Iterator[ast.List | ast.Tuple]:
    """Yield the lists that become tensors: written in the call of a maker, or assigned to a name in such a call."""
    nodes = (node for statement in statements for node in ast.walk(statement))
    makers = [node for node in nodes if isinstance(node, ast.Call) and _is_maker(node)]
    names = {node.id for call in makers for node in ast.walk(call) if isinstance(node, ast.Name)}
    for call in makers:
        arguments = [*call.args, *(word.value for word in call.keywords)]
        yield from (one for one in arguments if isinstance(one, ast.List | ast.Tuple))
    for statement in statements:
        for node in ast.walk(statement):
            value = node.value if isinstance(node, ast.Assign) and _targets(node) & names else None
            if isinstance(value, ast.List | ast.Tuple):
                yield value


def literal_calls(statements: Sequence[ast.stmt]) -> frozenset[str]:
    """Return the places, `line:column`, of calls that make a tensor of literal numbers only."""
    nodes = (node for statement in statements for node in ast.walk(statement))
    calls = (node for node in nodes if isinstance(node, ast.Call) and _is_maker(node) and node.args)
    return frozenset(f"{call.lineno}:{call.col_offset}" for call in calls if _is_written(call.args[0]))


def _is_written(node: ast.expr) -> bool:
    match node:
        case ast.Constant() | ast.UnaryOp(operand=ast.Constant()):
            return True
        case ast.List(elts=elts) | ast.Tuple(elts=elts):
            return all(map(_is_written, elts))
        case _:
            return False


def _targets(node: ast.Assign) -> set[str]:
    return {target.id for target in node.targets if isinstance(target, ast.Name)}


def _is_maker(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in MAKERS
        case _:
            return False


def evaluator(names: Mapping[str, Any]) -> Evaluate:
    """Return a function that evaluates integers, names of integers in `names`, their arithmetic, and lists of these.

    It returns an empty list for anything else.
    """

    def evaluate(node: ast.expr) -> Any:
        try:
            return _value(node, names)
        except (KeyError, ValueError, ArithmeticError, TypeError):
            return []

    return evaluate


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int(value)) if type(value) is int:
            return value
        case ast.Name(id=name) if type(names[name]) is int:
            return names[name]
        case ast.List(elts=elts) | ast.Tuple(elts=elts):
            return [_value(one, names) for one in elts]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.BinOp(left=left, op=op, right=right):
            one, two = _value(left, names), _value(right, names)
            return {ast.Add: one + two, ast.Sub: one - two, ast.Mult: one * two, ast.FloorDiv: one // (two or 1)}[
                type(op)
            ]
        case _:
            raise ValueError("no integer")
