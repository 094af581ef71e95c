"""Finds by syntax which integers of a problem's source set input sizes, and builds `get_inputs()` with other sizes.

Runs in the reference worker. A size is a module constant that only `get_inputs` depends on, or an integer literal in
`get_inputs` or in what it alone uses: functions, tuples, dicts, classes without methods. Integers that `Model` or
`get_init_inputs` depends on are excluded: they set parameter shapes.
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from warpsmith.evaluator.parsing import parse
from warpsmith.evaluator.reference.literals import WrittenLists, evaluator, literal_calls
from warpsmith.evaluator.reference.telling_numbers import LARGEST_NUMBER, MOST_BITS, NUMBER_STEPS
from warpsmith.evaluator.reference.unnamed_sizes import SIDE

LEAST: Final = 4
"""The smallest integer taken for a size: smaller ones are axes, channels of a picture and the like."""
MOST: Final = 16
"""Maximum number of varied sizes of one problem."""
COARSE: Final = 16
"""A power of two above it shrinks to a quarter at the least, any other size to a half."""
MOST_NUMBERS: Final = 16
MOST_INTEGERS: Final = 16
MOST_ORDERED: Final = 256
LIBRARIES: Final = frozenset({"torch", "numpy", "random"})
EMPTY: Final[Mapping[int, int]] = {}
SHAPED: Final = frozenset(
    {"rand", "randn", "randint", "zeros", "ones", "empty", "normal", "standard_normal", "random", "uniform", "Size"}
)
"""Functions of torch and numpy that take a shape as a list."""
ENUMERATIONS: Final = frozenset({"IntEnum", "Enum"})
FIRST: Final = "first"
"""The place of the first item in a shape."""


def written_numbers(tree: ast.Module) -> frozenset[float]:
    """Return the magnitudes of the numbers in a source, up to the largest that is planted."""
    written = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return frozenset(float(value) for value in written if isinstance(value, int | float) and value <= LARGEST_NUMBER)


def written_integers(tree: ast.Module) -> tuple[int, ...]:
    """Return the integers in a source that may be an index of its own, such as a padding token; the rarest first."""
    signs = {
        id(node.operand): -1
        for node in ast.walk(tree)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    }
    found = Counter(
        node.value * signs.get(id(node), 1)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and type(node.value) is int
    )
    found.update(number for node in ast.walk(tree) if isinstance(node, ast.BinOp) for number in _computed(node))
    some = (number for number in found if abs(number) < 1 << MOST_BITS)
    return tuple(sorted(some, key=lambda number: found[number])[:MOST_INTEGERS])


def ordered_integers(tree: ast.Module) -> tuple[int, ...]:
    """Return the integers in a source in their order, with repetitions."""
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    constants.sort(key=lambda node: (node.lineno, node.col_offset))
    values = (node.value for node in constants)
    some = [value for value in values if type(value) is int and abs(value) < 1 << MOST_BITS]
    return tuple(some[:MOST_ORDERED])


def _computed(node: ast.BinOp) -> Iterator[int]:
    """Yield the integer that two written ones make, such as `1 << 23` or `10**6`."""
    match node:
        case ast.BinOp(left=ast.Constant(value=int(left)), right=ast.Constant(value=int(right))) if (
            0 <= right < MOST_BITS and 0 <= left < 1 << MOST_BITS
        ):
            match node.op:
                case ast.LShift():
                    yield left << right
                case ast.Pow() if left**right < 1 << MOST_BITS:
                    yield left**right


def short_numbers(sizes: Iterable[float]) -> tuple[float, ...]:
    """Return the numbers that every floating dtype represents exactly, and their negatives."""
    return _of_both_signs(sorted(size for size in sizes if size * NUMBER_STEPS == int(size * NUMBER_STEPS)))


def long_numbers(sizes: Iterable[float]) -> tuple[float, ...]:
    """Return the other numbers, and their negatives; the largest first, as small ones are added to avoid a zero."""
    return _of_both_signs(
        sorted((size for size in sizes if size * NUMBER_STEPS != int(size * NUMBER_STEPS)), reverse=True)
    )


def _of_both_signs(sizes: Sequence[float]) -> tuple[float, ...]:
    return tuple(number for size in sizes[:MOST_NUMBERS] for number in dict.fromkeys((size, -size)))


class InputSizes:
    """The sizes of one problem.

    Attributes:
        values: sizes by name: a constant's own name, or `literal 16` for every 16 in what only `get_inputs` uses.
            Excluded are numbers that may be the length, the sum or a bound of a literal list, alone or as a product
            with another integer: 4 blocks of 8 hold lengths up to 32.
        occurrences: for each literal of `values` that is written several times, the number of each occurrence's place:
            the same place of the same shape, as in two calls of `torch.randn(4, 16)`, has one number, and so has the
            first item of any shape. One occurrence may take a value different from the rest, under the name
            `part("literal 16", 1)` for the second.
        lists: the lists of integers that can be reordered.
        literal_calls: places of calls that make a tensor of literal numbers.
        numbers: magnitudes of the numbers in the source: a forward may compare with them.
        integers: the integers in the source.
        ordered: the same in their order.
        tree: the source's syntax.
        fixed: its statements that the model and its arguments depend on.
    """

    def __init__(self, source: str, namespace: dict[str, Any], path: Path) -> None:
        self._namespace = namespace
        self._path = path
        tree = self.tree = parse(source)
        self.numbers = written_numbers(tree)
        self.integers = written_integers(tree)
        self.ordered = ordered_integers(tree)
        self._module = _Module(tree)
        self._needed = self._module.closure(["get_inputs"])
        fixed = self._fixed()
        self.fixed = self._module.binding(fixed)
        self._own = self._needed - fixed
        used = self._module.binding(self._own | {"get_inputs"})
        self._shapes = [one for one in used if _is_shape(one, self._module.statements)]
        self._holders = [one for one in used if _holds_sizes(one) or one in self._shapes]
        self._literals = self._find_literals()
        self._cached_code: tuple[object, CodeType] | None = None
        integers = {name: value for name, value in namespace.items() if type(value) is int}
        data = [one for one in self._module.binding(self._own) if one not in self._shapes]
        self.lists = WrittenLists(data, evaluator(integers | self._local_integers()))
        self.literal_calls = literal_calls(self._module.binding(self._own))
        literals = {f"literal {value}": value for value in self._literals}
        found = (self._find_constants() | literals).items()
        factors = self._factors(integers)
        self.values = dict([(name, size) for name, size in found if not self._is_bound(size, factors)][:MOST])
        places = ((f"literal {value}", self._numbered_places(nodes)) for value, nodes in self._literals.items())
        self.occurrences = {name: found for name, found in places if name in self.values and len(found) > 1}

    def _fixed(self) -> set[str]:
        """Return the names that set parameter shapes; a class without methods and bases only holds values."""
        classes = [
            name
            for name, nodes in self._module.binders.items()
            if isinstance(nodes[0], ast.ClassDef) and not _is_plain_class(nodes[0])
        ]
        return self._module.closure([*classes, "Model", "get_init_inputs"])

    def _factors(self, integers: Mapping[str, int]) -> set[int]:
        """Return the integers used to make the inputs, except entries of literal lists."""
        written = {
            node.value for node in self._held_constants() if type(node.value) is int and not self.lists.contains(node)
        }
        return {value for value in {*written, *(integers.get(name, 0) for name in self._needed)} if value > 1}

    def _is_bound(self, size: int, factors: Iterable[int]) -> bool:
        """Whether a literal list may depend on a size, or on its product with another integer."""
        return self.lists.binds(size) or any(self._is_bound_with(size, factor) for factor in factors)

    def _is_bound_with(self, size: int, factor: int) -> bool:
        """Whether a product may be tied to a list: it is in it, or bounds its entries and may stop bounding them."""
        bounds = is_size(factor) and _least(size) * _least(factor) < self.lists.largest <= size * factor
        return bounds or self.lists.matches(size * factor)

    def _local_integers(self) -> dict[str, int]:
        """Return the names that `get_inputs` binds to an integer literal."""
        assigned = (node for one in self._module.binding({"get_inputs"}) for node in ast.walk(one))
        return {
            target.id: node.value.value
            for node in assigned
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and type(node.value.value) is int
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    def _find_constants(self) -> dict[str, int]:
        own = [name for name in self._module.binders if name in self._own]
        return {
            name: self._namespace[name]
            for name in own
            if self._module.is_plain(name) and is_size(self._namespace.get(name))
        }

    def _find_literals(self) -> dict[int, list[ast.Constant]]:
        fixed = {node.value for node in self._constants("get_init_inputs")}
        found: dict[int, list[ast.Constant]] = {}
        for node in self._held_constants():
            if is_size(node.value) and node.value not in fixed:
                found.setdefault(node.value, []).append(node)  # type: ignore[arg-type]
        return found

    def _constants(self, function: str) -> Iterator[ast.Constant]:
        for statement in self._module.binders.get(function, []):
            if isinstance(statement, ast.FunctionDef):
                yield from (node for node in ast.walk(statement) if isinstance(node, ast.Constant))

    def _held_constants(self) -> Iterator[ast.Constant]:
        """Yield the constants in what only `get_inputs` uses, its own first; entries of other lists are data."""
        for statement in sorted(self._holders, key=lambda one: _bound(one) != ["get_inputs"]):
            within = isinstance(statement, ast.FunctionDef) or statement in self._shapes
            yield from _constants_outside_lists(statement, within=within)

    def _numbered_places(self, nodes: Sequence[ast.Constant]) -> list[int]:
        """Return the number of each node's place, in order of appearance."""
        places = {id(one): place for statement in self._holders for one, place in _places_in_shapes(statement)}
        known: dict[object, int] = {}
        return [known.setdefault(places.get(id(node), id(node)), len(known)) for node in nodes]

    def _makes_tensors(self, statement: ast.stmt) -> bool:
        """Whether a statement that only `get_inputs` depends on makes tensors, which must differ each time."""
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or not set(_bound(statement)) <= self._own:
            return False
        return _calls_library(statement, self._namespace) or self.lists.are_in(statement)

    def _is_fresh(self, statement: ast.stmt) -> bool:
        """Whether a statement is executed again for each input set: it makes tensors, or holds sizes."""
        return self._makes_tensors(statement) or any(statement is one for one in self._holders)

    def get_inputs(self, sizes: Mapping[str, int], orders: Mapping[int, int] = EMPTY) -> Callable[[], Any]:
        """Return the problem's `get_inputs` with other sizes; the problem's own namespace is unchanged.

        Statements that only `get_inputs` depends on are executed again, so that module-level tensors differ each time.

        Args:
            sizes: the other sizes, by name.
            orders: seed of the new order by number of entries, for literal lists to reorder.
        """
        namespace = self._namespace | {name: size for name, size in sizes.items() if name in self._namespace}
        key = frozenset(sizes.items()), frozenset(orders.items())
        cached = self._cached_code
        code = cached[1] if cached is not None and cached[0] == key else None
        if code is None:
            code = self._code(sizes, orders)
            self._cached_code = key, code
        exec(code, namespace)
        made: Callable[[], Any] = namespace["get_inputs"]
        return made

    def changes(self, sizes: Mapping[str, int]) -> list[tuple[int, int]]:
        """Return the sample's value and the other value of sizes by name, parts of a literal and unnamed ones too."""
        known = [(_sample_of(name, self.values), size) for name, size in sizes.items()]
        return [(sample, size) for sample, size in known if sample is not None]

    def _code(self, sizes: Mapping[str, int], orders: Mapping[int, int]) -> CodeType:
        """Compile the statements to execute again for other sizes and orders."""
        found = self._literals.items()
        literals = [(node, value, number) for value, nodes in found for number, node in enumerate(nodes)]
        try:
            for node, value, number in literals:
                name = f"literal {value}"
                node.value = sizes.get(part(name, number), sizes.get(name, value))
            with self.lists.in_order(orders):
                body = list(self._module.affected(self._needed, set(sizes), self._is_fresh))
                return compile(ast.Module(body, type_ignores=[]), str(self._path), "exec")
        finally:
            for node, value, _ in literals:
                node.value = value


def _sample_of(name: str, values: Mapping[str, int]) -> int | None:
    """Return the sample's value of a size by name; None if it is not known."""
    if name.startswith(SIDE):
        return int(name.removeprefix(SIDE))
    return values.get(name.partition(part("", 0)[:-1])[0])


def _holds_sizes(statement: ast.stmt) -> bool:
    """Whether the integers in a statement that only `get_inputs` depends on may be sizes."""
    match statement:
        case ast.FunctionDef():
            return True
        case ast.ClassDef():
            return _is_plain_class(statement)
        case ast.Assign(targets=[ast.Name()], value=ast.Tuple() | ast.Dict()):
            return True
        case ast.AnnAssign(target=ast.Name(), value=ast.Tuple() | ast.Dict()):
            return True
        case _:
            return False


def _is_shape(statement: ast.stmt, statements: Sequence[ast.stmt]) -> bool:
    """Whether a statement binds a name to a list of integers that is only taken for a shape or for sizes."""
    if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1):
        return False
    name, value = statement.targets[0], statement.value
    if not (isinstance(name, ast.Name) and isinstance(value, ast.List)):
        return False
    if not all(isinstance(one, ast.Constant) and is_size(one.value) for one in value.elts):
        return False
    nodes = [node for one in statements for node in ast.walk(one)]
    reads = {id(node) for node in nodes if isinstance(node, ast.Name) and node.id == name.id} - {id(name)}
    return reads <= {id(taken) for node in nodes for taken in _taken_for_shapes(node)}


def _taken_for_shapes(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what is unpacked to names, or is a shape or part of one for a function that makes a tensor."""
    match node:
        case ast.Assign(targets=[ast.Tuple()], value=value):
            yield value
        case ast.Call(func=ast.Attribute(attr=name), args=args, keywords=words) if name in SHAPED:
            for one in (*args, *(word.value for word in words)):
                yield one.value if isinstance(one, ast.Starred | ast.Subscript) else one


def _is_plain_class(statement: ast.ClassDef) -> bool:
    methods = ast.FunctionDef | ast.AsyncFunctionDef
    named = {base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in statement.bases}
    plain = named <= ENUMERATIONS and not statement.keywords
    return plain and not any(isinstance(one, methods) for one in statement.body)


def _constants_outside_lists(node: ast.AST, *, within: bool) -> Iterator[ast.Constant]:
    """Yield a node's constants, for a function also those in its lists; keys of a dict are names."""
    if isinstance(node, ast.Constant):
        yield node
        return
    if isinstance(node, ast.List) and not within:
        return
    parts = node.values if isinstance(node, ast.Dict) and not within else ast.iter_child_nodes(node)
    for part_ in parts:
        yield from _constants_outside_lists(part_, within=within)


def _places_in_shapes(statement: ast.stmt) -> Iterator[tuple[ast.expr, object]]:
    """Yield the expressions that are written in a row, as in a shape, with the row's content and their place in it.

    The first item has one place in all rows: the batch size of one tensor is that of another, as for rows and their
    labels.
    """
    for node in ast.walk(statement):
        row = node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, ast.Tuple | ast.List) else []
        said = tuple(map(ast.dump, row))
        yield from ((one, (said, place) if place else FIRST) for place, one in enumerate(row))


def part(name: str, number: int) -> str:
    """Return the name of one occurrence, counted from 0, of a literal size."""
    return f"{name} #{number}"


def _calls_library(statement: ast.Assign | ast.AnnAssign, namespace: Mapping[str, Any]) -> bool:
    """Whether a statement calls torch, numpy or Python's `random` through a module's name."""
    loaded = {name for node in ast.walk(statement) if isinstance(node, ast.Call) for name in _loaded(node.func)}
    modules = [namespace[name] for name in loaded if isinstance(namespace.get(name), ModuleType)]
    return any(module.__name__.partition(".")[0] in LIBRARIES for module in modules)


def is_size(value: object) -> bool:
    """Whether a value can be the size of a dimension: an integer, not a boolean, at least LEAST and below 2^31."""
    return type(value) is int and LEAST <= value < 1 << 31


def are_places(value: object) -> bool:
    """Whether a value can be the places of a literal: a list of small numbers."""
    return isinstance(value, list) and all(type(one) is int and 0 <= one < len(value) for one in value)


def _least(size: int) -> int:
    """Return a lower bound of the values that a size can take."""
    return max(size // 4, min(size // 2, COARSE))


class _Module:
    """The names that a module binds at top level, and the names that each depends on."""

    def __init__(self, tree: ast.Module) -> None:
        self.statements = tree.body
        self.binders: dict[str, list[ast.stmt]] = {}
        for statement in tree.body:
            for name in _bound(statement):
                self.binders.setdefault(name, []).append(statement)
        # Any other binding of a name (a loop, a `global`) means that it is not a constant.
        self._stores = Counter(_stored(tree))

    def closure(self, roots: Iterable[str]) -> set[str]:
        """Return the module's names that `roots` depend on, including `roots`."""
        found: set[str] = set()
        open_names = [name for name in roots if name in self.binders]
        while open_names:
            name = open_names.pop()
            if name not in found:
                found.add(name)
                open_names += [other for node in self.binders[name] for other in _loaded(node) if other in self.binders]
        return found

    def is_plain(self, name: str) -> bool:
        """Whether a name is bound once, by an assignment that depends on no other name."""
        (first, *others) = self.binders[name]
        assigned = isinstance(first, ast.Assign | ast.AnnAssign) and not others and self._stores[name] == 1
        return assigned and not _loaded(first) & self.binders.keys()

    def binding(self, names: set[str]) -> list[ast.stmt]:
        """Return the statements that bind one of `names`, in order."""
        return [statement for statement in self.statements if set(_bound(statement)) & names]

    def affected(self, needed: set[str], changed: set[str], is_fresh: Callable[[ast.stmt], bool]) -> Iterator[ast.stmt]:
        """Yield the statements to execute again, in order, when the names in `changed` have other values.

        Statements for which `is_fresh` returns True are always included, with all that depends on them.
        """
        changed = set(changed)
        for statement in self.statements:
            bound = set(_bound(statement))
            depends = bool(_loaded(statement) & changed) or (not bound & changed and is_fresh(statement))
            if depends:
                changed |= bound
            if bound & needed and (depends or isinstance(statement, ast.FunctionDef)):
                yield statement


def _bound(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


def _stored(tree: ast.Module) -> Iterator[str]:
    for statement in tree.body:
        inside = isinstance(statement, ast.FunctionDef | ast.ClassDef)
        for node in ast.walk(statement):
            if isinstance(node, ast.Global):
                yield from node.names
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and not inside:
                yield node.id


def _loaded(node: ast.AST) -> set[str]:
    return {found.id for found in ast.walk(node) if isinstance(found, ast.Name) and isinstance(found.ctx, ast.Load)}
