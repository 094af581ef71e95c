"""Guesses launches of a kernel from the host code that launches it, its configurations, and its use of arguments.

A guess is not a result about the evaluator. Triton's own front end decides which are launches (`_plain_triton.py`).
"""

import ast
import itertools
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from _host_code import ANY, SIZE, Choice, HostCode, torch_name
from _refusals import Flows, Refusal, names_at

FLOATS: Final = ("float16", "float32", "bfloat16")
TENSORS: Final = ("float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool")
BLOCKS: Final = (SIZE, 32, 16, 128)
COUNTS: Final = (2, 1, 4, 8)
OMITTED: Final = ["omitted"]
_POINTER_CALLS: Final = frozenset({"load", "store", "make_block_ptr", "make_tensor_descriptor", "gather_ptr"})
_INTEGERS: Final = re.compile(r"ind|idx|offset|seqlen|len|label|target|ids|table|slot|count|pos|loc|cu_", re.IGNORECASE)
_REALS: Final = re.compile(r"eps|scale|alpha|beta|^p$|prob|^lr$|momentum|slope|smooth|weight|temp|softcap|theta|_clip")
_COUNTED: Final = re.compile(r"group|stage|num_|^n_|stride|unroll|split|iter|order|repeat", re.IGNORECASE)


@dataclass
class Use:
    """How a kernel uses one of its arguments."""

    static: bool = False
    integer: bool = False
    index: bool = False
    address: bool = False
    pointer: bool = False
    flag: bool = False
    dtype: bool = False
    called: bool = False
    block: bool = False
    unrolled: bool = False
    optional: bool = False
    descriptor: bool = False
    rank: int = 0
    compared: list[Any] = field(default_factory=list)

    def add(self, other: "Use") -> None:
        """Add how another kernel uses what is passed to it."""
        for name, value in vars(other).items():
            if value is True and name != "static":
                setattr(self, name, True)
        self.rank = self.rank or other.rank
        self.compared.extend(other.compared)


class Kernels:
    """The kernels of a source and how each uses its arguments.

    Args:
        nodes: their definitions by name.
    """

    def __init__(self, nodes: dict[str, ast.FunctionDef]) -> None:
        self.nodes = nodes
        self.flows = Flows(nodes)
        self._known: dict[str, dict[str, Use]] = {}

    def uses(self, name: str) -> dict[str, Use]:
        """Return how a kernel, including those that it calls, uses each of its arguments."""
        if name not in self._known:
            node = self.nodes[name]
            found = {one.arg: Use(_is_static(one)) for one in arguments(node)}
            self._known[name] = found
            for use in _Uses(node, found, self).run():
                use()
        return self._known[name]


class _Uses:
    def __init__(self, node: ast.FunctionDef, found: dict[str, Use], kernels: Kernels) -> None:
        self._node = node
        self._found = found
        self._kernels = kernels
        self._grown: dict[str, set[str]] = {}
        self._led: dict[str, set[str]] = {}
        self._loaded: dict[str, set[str]] = {}

    def run(self) -> Iterator[Any]:
        """Record each use."""
        computed = set()
        for node in ast.walk(self._node):
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    name, summands = ast.unparse(target), _summands(node.value)
                    self._grown.setdefault(name, set()).update(summands)
                    if not isinstance(node, ast.AugAssign):
                        self._led.setdefault(name, set()).update(_summands(node.value, first=True))
                    if not summands and not isinstance(node, ast.AugAssign):
                        computed.add(name)
                    self._loaded.setdefault(name, set()).update(_loaded_from(node.value))
        for name in computed - self._found.keys():
            # What is loaded or multiplied is a number, and so is what is added to it.
            self._grown[name] = set()
        for node in ast.walk(self._node):
            yield lambda node=node: self._note(node)

    def _note(self, node: ast.AST) -> None:
        match node:
            case ast.Call():
                self._call(node)
            case ast.If(test=test) | ast.IfExp(test=test):
                self._test(test)
            case ast.Compare(left=ast.Name(id=name), ops=[op], comparators=[ast.Constant(value=value)]):
                if name in self._found:
                    if isinstance(op, ast.Is | ast.IsNot) or value is None:
                        self._found[name].optional = True
                    else:
                        self._found[name].compared.append(value)
            case (
                ast.BinOp(op=ast.RShift() | ast.LShift() | ast.BitAnd() | ast.BitXor() | ast.Mod(), left=left)
                | ast.BinOp(op=ast.FloorDiv(), left=left)
                | ast.AugAssign(op=ast.RShift() | ast.LShift() | ast.FloorDiv() | ast.Mod(), target=left)
            ):
                names = {part.id for part in ast.walk(left) if isinstance(part, ast.Name)}
                roots = set().union(*(self._loaded.get(name, set()) for name in names), _loaded_from(left))
                self._mark(_closure(roots, self._grown), "integer")
            case ast.Compare(left=ast.Name(id=name), comparators=[other]) if "float" in ast.unparse(other):
                self._mark([name], "dtype")

    def _roots(self, address: ast.expr) -> set[str]:
        """Return the arguments that may be the pointer of an address: the first of its summands, else any."""
        first = _closure(_summands(address, first=True), self._led) & self._found.keys()
        return first or _closure(_summands(address), self._grown) & self._found.keys()

    def _indices(self, names: set[str]) -> None:
        """Record that some names are made of integers, passed or loaded."""
        made_of = self._kernels.flows.made_of(self._node.name)
        found = _closure(names, made_of)
        self._mark(found, "index")
        for name in found - self._found.keys():
            self._mark(self._loaded.get(name, set()), "integer")

    def _mark(self, names: Any, what: str) -> None:
        for name in names:
            if name in self._found:
                setattr(self._found[name], what, True)

    def _test(self, test: ast.expr) -> None:
        match test:
            case ast.Name(id=name) | ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)):
                self._mark([name], "flag")
            case ast.BoolOp(values=values):
                for value in values:
                    self._test(value)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._test(operand)

    def _call(self, node: ast.Call) -> None:
        last = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        self._mark([ast.unparse(node.func)], "called")
        named = {keyword.arg: keyword.value for keyword in node.keywords}
        first = node.args[0] if node.args else named.get("base", named.get("pointer"))
        if first is not None and (last in _POINTER_CALLS or last.startswith("atomic")):
            if isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) in self._found:
                self._describe(ast.unparse(node.func.value), first)
            else:
                roots = self._roots(first)
                self._mark(roots, "pointer")
                self._mark(_loaded_from(first), "integer")
                self._indices(names_at(first) - roots)
        if last in ("to", "cast") and "pointer_type" in ast.unparse(node):
            value = node.func.value if last == "to" and isinstance(node.func, ast.Attribute) else node.args[0]
            loaded = [self._loaded.get(name, set()) for name in names_at(value)]
            self._mark(_closure(_loaded_from(value).union(*loaded), self._grown), "address")
        if last in ("atomic_cas", "atomic_xchg") and isinstance(node.args[-1], ast.Constant) and first is not None:
            self._mark(_closure(_summands(first), self._grown), "integer")
        if last in ("arange", "zeros", "full", "broadcast_to", "reshape", "view", "make_block_ptr"):
            self._mark(
                {part.id for item in node.args for part in ast.walk(item) if isinstance(part, ast.Name)}, "block"
            )
            self._mark({part.id for part in ast.walk(named.get("block_shape", node)) if _bare(part, named)}, "block")
        if last == "range":
            self._indices({part.id for item in node.args for part in ast.walk(item) if isinstance(part, ast.Name)})
        if last == "static_range":
            self._mark({name for item in node.args for name in names_at(item)}, "unrolled")
        if last in ("to", "cast", "pointer_type", "zeros", "full", "make_block_ptr"):
            self._mark(map(ast.unparse, [*node.args[-1:], *filter(None, [named.get("dtype")])]), "dtype")
        if last in ("reduce", "associative_scan"):
            self._mark(map(ast.unparse, node.args[2:3]), "called")
        if last in self._kernels.nodes:
            self._pass(self._kernels.nodes[last], node)

    def _describe(self, name: str, offsets: ast.expr) -> None:
        """Record a descriptor and, from the offsets of an access, the number of sides of its block."""
        self._found[name].descriptor = True
        if isinstance(offsets, ast.List | ast.Tuple):
            self._found[name].rank = len(offsets.elts)

    def _pass(self, callee: ast.FunctionDef, node: ast.Call) -> None:
        uses = self._kernels.uses(callee.name)
        pairs = [*zip([one.arg for one in arguments(callee)], node.args, strict=False)]
        pairs += [(keyword.arg or "", keyword.value) for keyword in node.keywords]
        for parameter, value in pairs:
            for name in self._roots(value) if parameter in uses else ():
                self._found[name].add(uses[parameter])


def arguments(node: ast.FunctionDef) -> list[ast.arg]:
    """Return a kernel's arguments."""
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


@dataclass(frozen=True)
class Launch:
    """One guess: arguments in the form of a trace, and the options of the compiler."""

    arguments: dict[str, Choice]
    options: dict[str, int]


_Try: TypeAlias = tuple[dict[str, list[Choice]], dict[str, Choice], str, dict[str, int]]
"""The options, the selected one, the dtype of the inputs, and the compiler's options."""


class Guesses:
    """The launches to try for one kernel, likeliest first.

    Args:
        name: the kernel's.
        kernels: all of the source.
        host: its host code.
    """

    def __init__(self, name: str, kernels: Kernels, host: HostCode) -> None:
        self._name = name
        self._node = kernels.nodes[name]
        self._kernels = kernels
        self._host = host
        self._uses = kernels.uses(name)
        self._defaults = _defaults(self._node)
        self._heuristics = host.heuristics(self._node)
        self._options: list[dict[str, int]] = [{}]
        self._read = list(self._from_host())
        self._last: _Try = ({}, {}, FLOATS[0], {})
        self._best = self._last
        self._progress: tuple[tuple[int, int], ...] = ()
        self._concerned: tuple[set[str], set[str]] = (set(), set())

    def launches(self, most: int) -> Iterator[Launch]:
        """Yield guesses: as in the host code, then with other dtypes and sizes, then changes to the best so far."""
        choices = [self._choices(read) for read in self._read]
        for likely, taken, dtype, options in self._systematic(choices):
            yield self._tried(likely, taken, dtype, options)
        rng = random.Random(self._name)
        for _ in range(most):
            likely, taken, dtype, options = (
                self._best if self._best[0] and rng.random() < 0.9 else self._drawn(choices, rng)
            )
            taken = taken | self._changes(likely, rng)
            if rng.random() < 0.1:
                dtype, options = rng.choice(FLOATS), rng.choice(self._options)
            yield self._tried(likely, taken, dtype, options)

    def _changes(self, likely: dict[str, list[Choice]], rng: random.Random) -> dict[str, Choice]:
        """Return other choices, mostly of arguments that the rejected place of the best guess depends on."""
        near, far = (sorted(found & likely.keys()) for found in self._concerned)
        pool = rng.choice([one for one in (near, near, near, far, far, sorted(likely)) if one] or [[]])
        if rng.random() < 0.2:
            # Operands of one operation usually have the same dtype.
            alike = ["tensor", rng.choice(TENSORS), True]
            return {name: alike for name in pool if alike in likely[name]}
        chosen = rng.sample(pool, min(len(pool), rng.choice((1, 1, 2, 3))))
        return {name: likely[name][int(rng.expovariate(0.35)) % len(likely[name])] for name in chosen}

    def note(self, said: Refusal) -> None:
        """Record the error of the last guess: the later in the kernel, the better the guess."""
        if said.progress >= self._progress:
            self._progress, self._best = said.progress, self._last
            self._concerned = self._kernels.flows.concerned(said)

    def _systematic(self, choices: list[dict[str, list[Choice]]]) -> Iterator[_Try]:
        for likely, dtype in itertools.product(choices, FLOATS):
            first = {name: found[0] for name, found in likely.items()}
            yield likely, first, dtype, self._options[0]
        for size, likely, dtype in itertools.product(BLOCKS, choices, FLOATS):
            for value in (False, True):
                flagged = self._flagged(likely, value=value)
                yield likely, {name: self._resized(name, one, size) for name, one in flagged.items()}, dtype, {}

    def _drawn(self, choices: list[dict[str, list[Choice]]], rng: random.Random) -> _Try:
        likely = rng.choice(choices)
        taken = {name: found[0] if rng.random() < 0.8 else rng.choice(found) for name, found in likely.items()}
        size = rng.choice(BLOCKS)
        taken = {name: self._resized(name, one, size) for name, one in taken.items()}
        return likely, taken, rng.choice(FLOATS), rng.choice(self._options)

    def _tried(self, likely: dict[str, list[Choice]], taken: dict[str, Choice], dtype: str, options: Any) -> Launch:
        self._last = (likely, taken, dtype, options)
        return self._filled(taken, dtype, options)

    def _flagged(self, likely: dict[str, list[Choice]], *, value: bool) -> dict[str, Choice]:
        """Return the likeliest arguments with all flags off, or on."""
        flag = ["value", value]
        return {
            name: flag if flag in found and self._uses[name].static and isinstance(found[0][-1], bool) else found[0]
            for name, found in likely.items()
        }

    def _resized(self, name: str, choice: Choice, size: int) -> Choice:
        if choice[0] == "descriptor":
            return ["descriptor", choice[1], [size if side == SIZE else side for side in choice[2]]]
        sized = choice[0] == "value" and type(choice[1]) is int and choice[1] > 8 and self._uses[name].static
        return ["value", size] if sized else choice

    def _filled(self, taken: dict[str, Choice], dtype: str, options: dict[str, int]) -> Launch:
        known = {name: _with_dtype(one, dtype) for name, one in taken.items() if one != OMITTED}
        return Launch({name: _measured(one, known) for name, one in known.items()}, options)

    def _from_host(self) -> Iterator[dict[str, list[Choice]]]:
        """Yield the arguments of each launch in the host code, with each configuration."""
        configurations = list(self._host.configurations(self._node))
        constants = configurations[0][0] if configurations else {}
        for more, _ in configurations[1:8]:
            constants = {name: [*constants.get(name, []), *more.get(name, [])] for name in {*constants, *more}}
        self._options = [options for _, options in configurations[:4]] or [{}]
        launches = list(self._host.launches(self._name))
        for call in launches[:4]:
            found = self._bound(call)
            yield {name: found.get(name) or constants.get(name) or [] for name in self._uses}
        if not launches:
            yield {name: constants.get(name, []) for name in self._uses}

    def _bound(self, call: ast.Call) -> dict[str, list[Choice]]:
        names = [one.arg for one in arguments(self._node)]
        found: dict[str, list[Choice]] = {}
        starred = next((place for place, one in enumerate(call.args) if isinstance(one, ast.Starred)), len(call.args))
        for name, value in zip(names, call.args[:starred], strict=False):
            found[name] = self._host.choices(value)
        for keyword in call.keywords:
            if keyword.arg in self._uses:
                found[keyword.arg] = self._host.choices(keyword.value)
            elif keyword.arg in ("num_warps", "num_stages", "num_ctas") and isinstance(keyword.value, ast.Constant):
                self._options = [options | {keyword.arg: keyword.value.value} for options in self._options]
        return found

    def _choices(self, read: dict[str, list[Choice]]) -> dict[str, list[Choice]]:
        """Return for each argument what to try, likeliest first."""
        found = {}
        for name, use in self._uses.items():
            said = [one for one in read.get(name, []) if _fits(one, use)]
            if any(one[0] == "descriptor" for one in said) or (use.descriptor and not use.static):
                said = [*(["descriptor", ANY, block] for block in self._host.blocks(name)), *said]
            if name in self._heuristics and not said:
                said = [one for one in self._host.choices(self._heuristics[name]) if _fits(one, use)]
            if name in self._defaults and not read.get(name):
                said.append(OMITTED)
            if use.static:
                limit, least = (8, 2) if use.unrolled else (1024, SIZE)
                said = [["value", least] if _exceeds(one, limit) else one for one in said]
            if use.pointer and not use.static:
                said.sort(key=lambda one: one == ["value", None])
            by_use = self._by_use(name, use)
            if said and all(one == ["value", None] for one in said) and use.pointer:
                said, by_use = by_use, said
            found[name] = [*said, *(one for one in by_use if one not in said)] or [["value", SIZE]]
        return found

    def _by_use(self, name: str, use: Use) -> list[Choice]:
        if use.descriptor and not use.static:
            blocks = [[side, *[SIZE] * ((use.rank or 2) - 1)] for side in (SIZE, 1)]
            return [["descriptor", dtype, block] for dtype in (ANY, "float32") for block in blocks]
        if use.pointer and not use.static:
            return self._pointers(name, use)
        if use.static:
            return self._constants(name, use)
        value = 0.5 if _REALS.search(name) and not use.index else 48
        numbers = [["value", value], ["value", 48], ["value", SIZE]]
        return numbers if use.index else [*numbers, ["value", 0.5], ["tensor", ANY, True], ["tensor", "int64", True]]

    def _pointers(self, name: str, use: Use) -> list[Choice]:
        first = ["int64", ANY, "int32"] if _INTEGERS.search(name) else [ANY, "float32"]
        if use.address or use.integer:
            first = ["int64", "uint64"] if use.address else ["int32", "int8", "uint8", "int64"]
        dtypes = [*first, *(one for one in TENSORS if one not in first)]
        return [*(["tensor", dtype, True] for dtype in dtypes), *([["value", None]] if use.optional else [])]

    def _constants(self, name: str, use: Use) -> list[Choice]:
        found: list[Choice] = []
        if use.called:
            found += [["kernel", one] for one in self._kernels.nodes if one != self._name]
        if use.dtype or re.search(r"dtype|_type$", name, re.IGNORECASE):
            found += [["dtype", one] for one in (ANY, "fp32", "fp16", "bf16", "int32", "int64")]
        found += [["value", one] for one in use.compared]
        if use.flag or re.match(r"(is|has|use|even|do|return|store|apply|enable|allow|need)_", name, re.IGNORECASE):
            found += [["value", True], ["value", False]]
        if use.optional:
            found += [["value", None]]
        if use.block:
            sizes = (4, 2, 8, 16) if use.unrolled else (*BLOCKS, *COUNTS, 256, 512)
            return [*found, *(["value", one] for one in sizes)]
        counted = use.unrolled or (_COUNTED.search(name) and not use.block)
        sizes = (*COUNTS, *BLOCKS) if counted else (*BLOCKS, *COUNTS, 256, 512)
        found += [["value", one] for one in sizes]
        return [*found, ["value", 0.5], ["value", True], ["value", False], ["value", "ieee"], ["dtype", "fp32"]]


def _fits(choice: Choice, use: Use) -> bool:
    """Whether a kernel with this use of an argument can take the value read from host code."""
    if use.static:
        return choice[0] != "tensor"
    if use.pointer:
        return choice[0] in ("tensor", "descriptor", "value") and not isinstance(choice[1], str | bool)
    if use.descriptor:
        return choice[0] == "descriptor"
    return choice[0] not in ("dtype", "kernel", "tuple") and not (choice[0] == "value" and isinstance(choice[1], str))


def _measured(choice: Choice, known: dict[str, Choice]) -> Choice:
    """Return a descriptor with the values of the constants that are the sides of its block."""
    if choice[0] != "descriptor":
        return choice
    values = [known.get(side, [SIZE])[-1] if isinstance(side, str) else side for side in choice[2]]
    return ["descriptor", choice[1], [side if type(side) is int else SIZE for side in values]]


def _exceeds(choice: Choice, limit: int) -> bool:
    """Whether a constant is too large, as the size of a block or the number of unrolled iterations."""
    return choice[0] == "value" and type(choice[1]) is int and choice[1] > limit


def _with_dtype(choice: Choice, dtype: str) -> Choice:
    short = {"float16": "fp16", "float32": "fp32", "bfloat16": "bf16"}[dtype]
    match choice:
        case ["tensor" | "descriptor" as kind, str(name), rest]:
            return [kind, dtype if name == ANY else torch_name(name), rest]
        case ["dtype", str(name)] if name == ANY:
            return ["dtype", short]
        case ["tuple", list(items)]:
            return ["tuple", [_with_dtype(item, dtype) for item in items]]
        case _:
            return choice


def _defaults(node: ast.FunctionDef) -> set[str]:
    positional = [*node.args.posonlyargs, *node.args.args]
    found = {one.arg for one, _ in zip(reversed(positional), reversed(node.args.defaults), strict=False)}
    keyword = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    return found | {one.arg for one, value in keyword if value is not None}


def _is_static(argument: ast.arg) -> bool:
    return argument.annotation is not None and "constexpr" in ast.unparse(argument.annotation)


def _bare(part: ast.AST, named: dict[str | None, ast.expr]) -> bool:
    return isinstance(part, ast.Name) and "block_shape" in named


def _summands(node: ast.expr, *, first: bool = False) -> set[str]:
    """Return the names that an expression sums, or the first of them."""
    match node:
        case ast.BinOp(left=left, right=right, op=ast.Add() | ast.Sub()):
            found = _summands(left, first=first)
            return found if found and first else found | _summands(right, first=first)
        case ast.IfExp(body=body, orelse=orelse):
            return _summands(body, first=first) | _summands(orelse, first=first)
        case ast.Name(id=name):
            return {name}
        case ast.Call(func=ast.Attribute(value=value, attr="to")):
            return _summands(value, first=first)
        case ast.Call(func=ast.Attribute(attr="where" | "multiple_of" | "max_contiguous" | "advance"), args=items):
            return set().union(*(_summands(item, first=first) for item in items))
        case _:
            return set()


def _loaded_from(node: ast.expr) -> set[str]:
    """Return the names of the pointers that an expression reads from."""
    calls = [part for part in ast.walk(node) if isinstance(part, ast.Call) and part.args]
    loads = [part for part in calls if isinstance(part.func, ast.Attribute) and part.func.attr == "load"]
    return set().union(*(_summands(part.args[0]) for part in loads))


def _closure(names: set[str], grown: dict[str, set[str]]) -> set[str]:
    """Return the names that a pointer sums. Some may be integers: a guess based on those fails."""
    found, left = set(), list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left.extend(grown.get(name, ()))
    return found
