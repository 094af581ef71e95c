"""Reads the host code of a source without running it: with which arguments does it launch its kernels?

An expression is read as the arguments that it may evaluate to, in the form of a trace (`["tensor", dtype, True]`,
`["value", 64]`, `["dtype", "fp16"]`, `["kernel", name]`), likeliest first. An unreadable expression has none. `ANY`
instead of a dtype is the dtype of the inputs, which host code leaves open.
"""

import ast
import itertools
import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

Choice: TypeAlias = list[Any]
ANY: Final = "any"
SIZE: Final = 64
"""A length, stride or count that host code takes from a tensor."""
DEPTH: Final = 12
MOST: Final = 6
"""Maximum number of choices kept per expression."""
TORCH_TO_TRITON: Final = {
    "float32": "fp32", "float": "fp32", "float16": "fp16", "half": "fp16", "bfloat16": "bf16", "float64": "fp64",
    "double": "fp64", "int8": "int8", "int16": "int16", "int32": "int32", "int": "int32", "int64": "int64",
    "long": "int64", "uint8": "uint8", "bool": "int1", "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5",
    "uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "float8e4nv": "fp8e4nv", "float8e5": "fp8e5",
    "int1": "int1",
}  # fmt: skip
TRITON_TO_TORCH: Final = {
    "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp64": "float64", "int1": "bool",
    "fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2",
}  # fmt: skip
_SIZES: Final = frozenset({"stride", "size", "numel", "cdiv", "element_size", "item", "prod", "nelement"})
_NEW: Final = frozenset(
    {"empty", "zeros", "ones", "full", "rand", "randn", "tensor", "empty_strided", "eye", "new_empty", "new_zeros"}
    | {"new_ones", "new_full", "new_tensor", "empty_like", "zeros_like", "ones_like", "full_like", "rand_like"}
)
_INDICES: Final = frozenset({"arange", "randint", "argmax", "argmin", "argsort", "nonzero", "bincount", "randperm"})
_CASTS: Final = {"float": "float32", "half": "float16", "bfloat16": "bfloat16", "int": "int32", "long": "int64"}
_FLAGS: Final = [["value", True], ["value", False]]


def torch_name(triton_name: str) -> str:
    """Return torch's name of a dtype printed by Triton."""
    return TRITON_TO_TORCH.get(triton_name, triton_name)


class HostCode:
    """The launches of a source, and the possible arguments."""

    def __init__(self, tree: ast.Module, kernels: set[str]) -> None:
        self.tree = tree
        self._kernels = kernels
        self._around: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(tree):
            for child in ast.iter_child_nodes(node):
                self._around[child] = node
        self._readers: dict[type[ast.expr], Any] = {
            ast.Constant: self._of_constant,
            ast.Name: self._of_name,
            ast.Attribute: self._of_attribute,
            ast.Subscript: self._of_subscript,
            ast.Call: self._of_call,
            ast.BinOp: self._of_binary,
            ast.UnaryOp: self._of_unary,
            ast.Compare: self._of_comparison,
            ast.IfExp: self._of_either,
            ast.BoolOp: self._of_any,
            ast.NamedExpr: self._of_inner,
            ast.Starred: self._of_inner,
            ast.Tuple: self._of_sequence,
            ast.List: self._of_sequence,
        }
        self._functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}

    def launches(self, kernel: str) -> Iterator[ast.Call]:
        """Yield each `kernel[grid](...)`, also through other names bound to the kernel."""
        names = {kernel} | {
            target.id
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Assign) and _mentions(node.value, kernel) and not isinstance(node.value, ast.Lambda)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(self.tree):
            match node:
                case ast.Call(func=ast.Subscript(value=launched)) if any(_mentions(launched, name) for name in names):
                    yield node
                case ast.Call(func=ast.Attribute(value=launched, attr="run" | "warmup")) if _named(launched) in names:
                    yield node

    def configurations(self, kernel: ast.FunctionDef) -> Iterator[tuple[dict[str, list[Choice]], dict[str, int]]]:
        """Yield constants and options of each `triton.Config` in a decorator, directly or through a name."""
        roots: list[ast.AST] = list(kernel.decorator_list)
        for name in {found.id for root in kernel.decorator_list for found in ast.walk(root) if _is_name(found)}:
            roots.extend(self._bindings_of(name))
        for root in roots:
            for node in ast.walk(root):
                if isinstance(node, ast.Call) and _named(node.func) == "Config" and node.args:
                    yield from self._configuration(node)

    def _configuration(self, node: ast.Call) -> Iterator[tuple[dict[str, list[Choice]], dict[str, int]]]:
        options = {
            keyword.arg: found[0][1]
            for keyword in node.keywords
            if keyword.arg in ("num_warps", "num_stages", "num_ctas") and (found := self.choices(keyword.value))
        }
        match node.args[0]:
            case ast.Dict(keys=keys, values=values):
                pairs = zip(keys, values, strict=True)
                yield (
                    {key.value: self.choices(value) for key, value in pairs if isinstance(key, ast.Constant)},
                    {name: value for name, value in options.items() if type(value) is int},
                )

    def heuristics(self, kernel: ast.FunctionDef) -> dict[str, ast.expr]:
        """Return the expression of a heuristic for each constant."""
        found: dict[str, ast.expr] = {}
        for decorator in kernel.decorator_list:
            if not (isinstance(decorator, ast.Call) and _named(decorator.func) == "heuristics"):
                continue
            places: list[ast.AST] = [decorator]
            for name in [node.id for node in ast.walk(decorator) if isinstance(node, ast.Name)]:
                places.extend(self._bindings_of(name))
            for node in itertools.chain.from_iterable(map(ast.walk, places)):
                if isinstance(node, ast.Dict):
                    pairs = zip(node.keys, node.values, strict=True)
                    found |= {
                        key.value: value.body if isinstance(value, ast.Lambda) else value
                        for key, value in pairs
                        if isinstance(key, ast.Constant)
                    }
        return found

    def choices(self, node: ast.expr, depth: int = 0) -> list[Choice]:
        """Return what an expression may evaluate to, likeliest first; empty if it cannot be read."""
        if depth > DEPTH:
            return []
        found = self._read(node, depth + 1)
        unique = [one for place, one in enumerate(found) if one not in found[:place]]
        return unique[:MOST]

    def _read(self, node: ast.expr, depth: int) -> list[Choice]:
        read = self._readers.get(type(node))
        return [] if read is None else read(node, depth)

    def _of_constant(self, node: ast.Constant, _depth: int) -> list[Choice]:
        known = node.value is None or isinstance(node.value, bool | int | float | str)
        return [["value", node.value]] if known else []

    def _of_binary(self, node: ast.BinOp, depth: int) -> list[Choice]:
        return _of_operation(node.op, self.choices(node.left, depth), self.choices(node.right, depth))

    def _of_unary(self, node: ast.UnaryOp, depth: int) -> list[Choice]:
        if isinstance(node.op, ast.Not):
            return _FLAGS
        found = self.choices(node.operand, depth)
        if not isinstance(node.op, ast.USub):
            return found
        return [["value", -one[1]] for one in found if type(one[1]) in (int, float)] or found

    def _of_comparison(self, _node: ast.Compare, _depth: int) -> list[Choice]:
        return _FLAGS

    def _of_either(self, node: ast.IfExp, depth: int) -> list[Choice]:
        return [*self.choices(node.body, depth), *self.choices(node.orelse, depth)]

    def _of_any(self, node: ast.BoolOp, depth: int) -> list[Choice]:
        return [one for value in node.values for one in self.choices(value, depth)]

    def _of_inner(self, node: ast.NamedExpr | ast.Starred, depth: int) -> list[Choice]:
        return self.choices(node.value, depth)

    def _of_sequence(self, node: ast.Tuple | ast.List, depth: int) -> list[Choice]:
        read = [self.choices(part, depth) for part in node.elts]
        return [["tuple", [one[0] for one in read]]] if all(read) else []

    def _of_name(self, node: ast.Name, depth: int) -> list[Choice]:
        """Return what the last bindings of a name before its use may be, in the enclosing function or outside."""
        if node.id in self._kernels:
            return [["kernel", node.id]]
        scope = self._scope(node)
        while scope is not None:
            found = [one for value in self._bound(scope, node) for one in self._part(value, node.id, depth)]
            if found:
                return found
            if isinstance(scope, ast.FunctionDef):
                argument = self._argument(scope, node.id, depth)
                if argument is not None:
                    return argument
            scope = self._scope(scope)
        return []

    def _scope(self, node: ast.AST) -> ast.AST | None:
        around = self._around.get(node)
        while around is not None and not isinstance(around, ast.FunctionDef | ast.Module):
            around = self._around.get(around)
        return around

    def _bound(self, scope: ast.AST, use: ast.Name) -> list[ast.AST]:
        """Return the statements of a scope that bind the name, the last before the use first."""
        found = [
            node
            for node in ast.walk(scope)
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.For | ast.comprehension | ast.NamedExpr)
            and any(
                isinstance(part, ast.Name) and part.id == use.id
                for target in _targets(node)
                for part in ast.walk(target)
            )
            and not any(part is use for part in ast.walk(node))
        ]
        line = use.lineno if isinstance(scope, ast.FunctionDef) else 10**9
        before = [node for node in found if _line(node) <= line]
        return sorted(before, key=_line, reverse=True)

    def _part(self, statement: ast.AST, name: str, depth: int) -> list[Choice]:
        """Return what one statement binds a name to."""
        match statement:
            case ast.For(iter=items) | ast.comprehension(iter=items):
                if isinstance(items, ast.List | ast.Tuple):
                    return [one for item in items.elts for one in self.choices(item, depth)]
                return [["value", SIZE]] if isinstance(items, ast.Call) and _named(items.func) == "range" else []
            case ast.AnnAssign(value=ast.expr() as value) | ast.NamedExpr(value=value):
                return self.choices(value, depth)
            case ast.Assign(targets=[ast.Name()], value=value):
                return self.choices(value, depth)
            case ast.Assign(targets=[*targets], value=value):
                return [one for target in targets for one in self._unpacked(target, name, value, depth)]
            case _:
                return []

    def _unpacked(self, target: ast.expr, name: str, value: ast.expr, depth: int) -> list[Choice]:
        """Return what `a, b = value` binds a name to."""
        if not isinstance(target, ast.Tuple | ast.List):
            return self.choices(value, depth) if _named(target) == name else []
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
            pairs = zip(target.elts, value.elts, strict=True)
            return [one for part, item in pairs for one in self._unpacked(part, name, item, depth)]
        text = ast.unparse(value)
        if "saved_tensors" in text:
            return [["tensor", ANY, True]]
        if re.search(r"\.(shape|size\(\)|stride\(\))(\[[^\]]*\])?$", text) or "map(" in text or "strides" in text:
            return [["value", SIZE]]
        place = [_named(part) for part in target.elts].index(name) if name in map(_named, target.elts) else None
        whole = self.choices(value, depth)
        return [one[1][place] for one in whole if place is not None and one[0] == "tuple" and place < len(one[1])]

    def _argument(self, function: ast.FunctionDef, name: str, depth: int) -> list[Choice] | None:
        """Return what a function's own argument may be, by annotation and default; None if it has no such argument."""
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        found = next((one for one in arguments if one.arg == name), None)
        if found is None:
            return None
        positional = [*function.args.posonlyargs, *function.args.args]
        defaults = dict(
            zip([one.arg for one in reversed(positional)], reversed(function.args.defaults), strict=False)
        ) | {one.arg: value for one, value in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)}
        default = defaults.get(name)
        known = [] if default is None else self.choices(default, depth)
        said = "" if found.annotation is None else ast.unparse(found.annotation)
        return [*known, *(one for one in _annotated(said) if one not in known)]

    def _of_attribute(self, node: ast.Attribute, depth: int) -> list[Choice]:
        text = ast.unparse(node)
        root, _, last = text.rpartition(".")
        if root in ("torch", "tl", "triton.language") and last in TORCH_TO_TRITON:
            return [["dtype", TORCH_TO_TRITON[last]]]
        if last in ("shape", "strides"):
            return [["tuple", [["value", SIZE]] * 4]]
        if last == "dtype":
            return [
                ["dtype", ANY if one[1] == ANY else TORCH_TO_TRITON.get(one[1], ANY)]
                for one in self.choices(node.value, depth)
                if one[0] == "tensor"
            ] or [["dtype", ANY]]
        if last in ("ndim", "itemsize", "multi_processor_count"):
            return [["value", 2]]
        if last in ("T", "mT", "data", "grad", "H"):
            return self.choices(node.value, depth) or [["tensor", ANY, True]]
        return self._of_member(last, depth)

    def _of_member(self, name: str, depth: int) -> list[Choice]:
        """Return what any statement of the file assigns to a member of this name."""
        found: list[Choice] = []
        for node in ast.walk(self.tree):
            match node:
                case ast.Assign(targets=[ast.Attribute(attr=attr)], value=value) if attr == name:
                    found.extend(self.choices(value, depth))
                case ast.AnnAssign(target=ast.Name(id=other), value=ast.expr() as value) if other == name:
                    found.extend(self.choices(value, depth))
        return found

    def _of_subscript(self, node: ast.Subscript, depth: int) -> list[Choice]:
        found = []
        for one in self.choices(node.value, depth):
            match one, node.slice:
                case ["tuple", list(parts)], ast.Constant(value=int(place)) if -len(parts) <= place < len(parts):
                    found.append(parts[place])
                case ["tuple", list(parts)], _:
                    found.extend(parts[:1])
                case ["tensor", *_], _:
                    found.append(one)
        return found

    def _of_call(self, node: ast.Call, depth: int) -> list[Choice]:
        name = _named(node.func)
        owner = self.choices(node.func.value, depth) if isinstance(node.func, ast.Attribute) else []
        tensors = [one for one in owner if one[0] == "tensor"]
        if name in ("len", "dim", "ndimension"):
            return [["value", 2]]
        if name in _SIZES:
            whole = not node.args and name not in ("numel", "item", "nelement")
            return [["tuple", [["value", SIZE]] * 4]] if whole else [["value", SIZE]]
        if name in ("next_power_of_2", "power_of_2", "next_pow2"):
            return [["value", SIZE]]
        given = [self.choices(argument, depth) for argument in node.args]
        if name in ("TensorDescriptor", "from_tensor"):
            return self._descriptor(node, given)
        dtype = self._made_dtype(name, node, given, tensors, depth)
        if dtype or tensors:
            return [["tensor", one, True] for one in dtype] or tensors
        return self._of_function(name, node, given, depth)

    def _made_dtype(
        self, name: str, node: ast.Call, given: list[list[Choice]], tensors: list[Choice], depth: int
    ) -> list[str]:
        """Return the possible dtypes of a call that creates a tensor; empty if it keeps the dtype of another."""
        said = self._dtype_keyword(node, depth)
        cast = given[0][0][1] if given and given[0] and given[0][0][0] == "dtype" else ""
        if name == "tensor" and not said:
            addresses = re.search(r"ptr|addr|idx|indices|len", ast.unparse(node), re.IGNORECASE)
            return ["int64", "float32"] if addresses else ["float32", "int64"]
        if name in _INDICES or name in _NEW:
            return [said or ("int64" if name in _INDICES else self._allocated(name, given, tensors))]
        if name in ("to", "type", "astype", "view") and cast:
            return [_torch_dtype(cast)]
        if name in _CASTS and isinstance(node.func, ast.Attribute) and not node.args:
            return [_CASTS[name]]
        return [said] if said and tensors else []

    def _allocated(self, name: str, given: list[list[Choice]], tensors: list[Choice]) -> str:
        """Return the dtype of `torch.empty(...)` or a similar function that is called without one."""
        for choices in given:
            for one in choices:
                if one[0] == "dtype":
                    return _torch_dtype(one[1])
                if name.endswith("_like") and one[0] == "tensor":
                    return str(one[1])
        return str(tensors[0][1]) if tensors and name.startswith("new_") else ANY if "_" in name else "float32"

    def _dtype_keyword(self, node: ast.Call, depth: int) -> str:
        for keyword in node.keywords:
            if keyword.arg == "dtype":
                found = self.choices(keyword.value, depth)
                return _torch_dtype(found[0][1]) if found and found[0][0] == "dtype" else ANY
        return ""

    def _descriptor(self, node: ast.Call, given: list[list[Choice]]) -> list[Choice]:
        parts = [*given, *(self.choices(keyword.value) for keyword in node.keywords)]
        tensor = next((one for choices in parts for one in choices if one[0] == "tensor"), ["tensor", ANY, True])
        blocks = [one[1] for choices in parts for one in choices if one[0] == "tuple"]
        sides = [part[1] if type(part[1]) is int else SIZE for part in blocks[-1]] if blocks else [SIZE, SIZE]
        named = [keyword.value for keyword in node.keywords if keyword.arg == "block_shape"] or node.args[-1:]
        written = [self._side(part) for value in named for part in _parts(value)]
        return [["descriptor", tensor[1], block] for block in (written, sides) if block]

    def blocks(self, argument: str) -> list[list[int | str]]:
        """Return the blocks that hooks assign to a descriptor by `nargs["a"].block_shape = [1, BLOCK]`."""
        found = []
        for node in ast.walk(self.tree):
            match node:
                case ast.Assign(
                    targets=[ast.Attribute(value=ast.Subscript(slice=ast.Constant(value=name)), attr="block_shape")],
                    value=value,
                ) if name == argument:
                    found.append([self._side(part) for part in _parts(value)])
        return found

    def _side(self, node: ast.expr) -> int | str:
        """Return a side of a block, or the name of the constant for it."""
        match node:
            case ast.Constant(value=int(side)):
                return side
            case ast.Subscript(slice=ast.Constant(value=str(name))):
                return name
            case ast.Name(id=name):
                known = [one for one in self._bindings_of(name) if isinstance(one, ast.Subscript)]
                return self._side(known[0]) if known else name
            case _:
                read = self.choices(node)
                return read[0][1] if read and type(read[0][1]) is int else SIZE

    def _of_function(self, name: str, node: ast.Call, given: list[list[Choice]], depth: int) -> list[Choice]:
        first = given[0] if given else []
        if name in ("int", "round", "min", "max", "abs", "sum", "floor", "ceil", "power"):
            return [one for choices in given for one in choices if type(one[1]) is int] or [["value", SIZE]]
        if name in ("float", "sqrt", "log", "log2", "exp"):
            return [["value", 0.5]]
        if name in ("bool", "isinstance", "hasattr", "is_contiguous", "any", "all") or name.startswith(("is_", "has_")):
            return _FLAGS
        function = self._functions.get(name)
        if function is not None and name not in self._kernels:
            returned = [part.value for part in ast.walk(function) if isinstance(part, ast.Return) and part.value]
            return [one for value in returned for one in self.choices(value, depth + 2)]
        return [one for one in first if one[0] == "tensor"]

    def _bindings_of(self, name: str) -> Iterator[ast.AST]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef) and node.name == name and name not in self._kernels:
                yield node
            elif isinstance(node, ast.Assign) and any(_named(target) == name for target in node.targets):
                yield node.value


def _of_operation(op: ast.operator, left: list[Choice], right: list[Choice]) -> list[Choice]:
    for one in (*left, *right):
        if one[0] == "tensor":
            return [one]
    for one, other in itertools.product(left[:2], right[:2]):
        if type(one[1]) in (int, float) and type(other[1]) in (int, float):
            real = isinstance(op, ast.Div) or float in (type(one[1]), type(other[1]))
            return [["value", _computed(op, one[1], other[1], real)]]
    return [one for one in (*left, *right) if one[0] == "value" and type(one[1]) in (int, float)]


def _computed(op: ast.operator, left: float, right: float, real: bool) -> float:
    functions: dict[type[ast.operator], Any] = {
        ast.Add: lambda: left + right,
        ast.Sub: lambda: left - right,
        ast.Mult: lambda: left * right,
        ast.FloorDiv: lambda: left // right,
        ast.Div: lambda: left / right,
        ast.Mod: lambda: left % right,
    }
    try:
        return functions[type(op)]() or (0.5 if real else 1)  # type: ignore[no-any-return]
    except (KeyError, ArithmeticError):
        return 0.5 if real else SIZE


def _annotated(text: str) -> list[Choice]:
    """Return what an annotation allows."""
    found: list[Choice] = []
    for word, choice in (
        ("Tensor", ["tensor", ANY, True]),
        ("bool", ["value", True]),
        ("int", ["value", SIZE]),
        ("float", ["value", 0.5]),
        ("dtype", ["dtype", ANY]),
    ):
        if re.search(rf"\b\w*{word}\b", text):
            found.append(choice)
    if "bool" in text:
        found.append(["value", False])
    if found and ("Optional" in text or "None" in text):
        found.append(["value", None])
    return found


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.List | ast.Tuple) else []


def _torch_dtype(name: str) -> str:
    return name if name == ANY else torch_name(name)


def _targets(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Assign(targets=targets):
            return targets
        case ast.AnnAssign(target=target) | ast.For(target=target) | ast.comprehension(target=target):
            return [target]
        case ast.NamedExpr(target=target):
            return [target]
        case _:
            return []


def _line(node: ast.AST) -> int:
    return node.target.lineno if isinstance(node, ast.comprehension) else int(getattr(node, "lineno", 0))


def _named(node: ast.AST) -> str:
    """Return the last part of a dotted name."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)


def _mentions(node: ast.AST, name: str) -> bool:
    return any(_named(part) == name for part in ast.walk(node))
