"""Lists of integers that a problem writes for its inputs, in another order: lengths, offsets, group sizes, tables.

Runs in the reference worker. Another order keeps what such lists promise: their sum, their bounds, their multiples.
Lists of as many entries take the same order, so that lengths still belong to their rows of a table; sorted lists that
begin with zero are offsets, of which the differences change places. Other sorted lists hold those of their length as
they are.
"""

import ast
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

MAKERS: Final = frozenset({"tensor", "as_tensor", "array", "asarray", "IntTensor", "LongTensor", "from_numpy"})
"""What makes a tensor of a list."""

Evaluate = Callable[[ast.expr], Any]


class WrittenLists:
    """The lists of integers in some statements, by the number of entries in which they change.

    Attributes:
        counts: numbers of entries of which a list may take another order.
        bound: lengths, sums and entries of the lists.
        largest: the largest number that one of them holds.
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
        """Whether a size may be tied to a list: its length, its sum, an entry, or a bound of what it holds."""
        return size in self.bound or size // 4 < self.largest <= size

    def matches(self, size: int) -> bool:
        """Whether a size is the length, the sum or an entry of a list, or the first number that is too large for it."""
        return size in self.bound or size == self.largest + 1

    def contains(self, node: ast.AST) -> bool:
        """Whether a node stands in one of the lists."""
        return id(node) in self._inside

    def are_in(self, statement: ast.stmt) -> bool:
        """Whether one of the lists stands in a statement."""
        nodes = {id(written.node) for lists in self._groups.values() for written in lists}
        return any(id(node) in nodes for node in ast.walk(statement))

    @contextmanager
    def in_order(self, seeds: Mapping[int, int]) -> Iterator[None]:
        """Let the lists of as many entries as `seeds` names stand in an order drawn by their seed."""
        changed = [(written, random.Random(seed)) for count, seed in seeds.items() for written in self._of(count)]
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
        # Each entry names one before it, as the parents of a tree do.
        self.points_back = plain and values[0] <= 0 and all(value < at for at, value in enumerate(values[1:], 1))
        self.is_offsets = self.is_sorted and values[0] == 0 and values[-1] > 0
        self.count = len(values) - 1 if self.is_offsets else len(values)

    def permute(self, rng: random.Random) -> None:
        order = _other_order(self.count, rng)
        if self.is_offsets:
            steps = [after - before for before, after in zip(self.values, self.values[1:], strict=False)]
            ends = [sum(steps[index] for index in order[: number + 1]) for number in range(self.count)]
            self.node.elts = [ast.copy_location(ast.Constant(end), self.node) for end in [0, *ends]]
        else:
            self.node.elts = [self._entries[index] for index in order]

    def restore(self) -> None:
        self.node.elts = self._entries


def _other_order(count: int, rng: random.Random) -> list[int]:
    """Return an order of `count` entries, the same for the same state of `rng`, that moves all of them if possible."""
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
    """Yield the integers of a list of integers or of such lists; nothing where it is anything else."""
    rows = values if all(isinstance(row, list | tuple) and len(row) == len(values[0]) for row in values) else [values]
    found = [entry for row in rows for entry in row]
    if len(values) > 1 and all(type(entry) is int for entry in found):
        yield from found


def _lists(statements: Sequence[ast.stmt]) -> Iterator[ast.List | ast.Tuple]:
    """Yield the lists that a tensor is made of: written in its maker's call, or under a name that such a call reads."""
    nodes = (node for statement in statements for node in ast.walk(statement))
    makers = [node for node in nodes if isinstance(node, ast.Call) and _is_maker(node)]
    names = {node.id for call in makers for node in ast.walk(call) if isinstance(node, ast.Name)}
    for call in makers:
        given = [*call.args, *(word.value for word in call.keywords)]
        yield from (one for one in given if isinstance(one, ast.List | ast.Tuple))
    for statement in statements:
        for node in ast.walk(statement):
            value = node.value if isinstance(node, ast.Assign) and _targets(node) & names else None
            if isinstance(value, ast.List | ast.Tuple):
                yield value


def literal_calls(statements: Sequence[ast.stmt]) -> frozenset[str]:
    """Return the places, `line:column`, of calls that make a tensor of numbers that are all written there."""
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
    """Return what evaluates lists of integers, names of integers in `names` and their sums, products and the like.

    The evaluation gives an empty list for anything else.
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
