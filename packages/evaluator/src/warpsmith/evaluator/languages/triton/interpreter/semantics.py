"""Makes Triton's interpreter follow the compiler's semantics where a kernel's body run as Python would not.

The interpreter executes a kernel as Python. So `and` picks an operand, a loop index is an unbounded integer, and
integers in a tuple divide like Python's, while the compiler makes logical operations and 32-bit integers of them. A
kernel could detect which of the two runs it, and be correct only where it is judged. Here a kernel's syntax is
rewritten so that Python follows the compiler. Unsupported syntax is rejected, with an alternative in the message.

A value is *static* if the compiler knows it (a constant, a constexpr) and *dynamic* if it is a tensor.
"""

import ast
import builtins
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.jit import _normalize_ty
from triton.runtime.jit import type_canonicalisation_dict as _TYPES

UNSPECIALIZED: Final = "warpsmith_unspecialized"
"""Attribute of a rewritten kernel that holds the arguments named by `do_not_specialize`."""
NAME: Final = "warpsmith_meaning"
"""Name of this module in rewritten kernels; `extract` rejects kernels that use names with this prefix."""


class UnclearMeaningError(RuntimeError):
    """A kernel does something that compiler and interpreter treat differently, or that is undefined on a chip."""


def _value(value: Any) -> Any:
    while isinstance(value, tl.constexpr):
        value = value.value
    return value


def _is_dynamic(value: Any) -> bool:
    return isinstance(_value(value), tl.core.base_value) and not isinstance(_value(value), tl.tuple)


def plain(value: Any) -> Any:
    """Return the value of a module-level constexpr: the compiler computes with the value next to a tensor."""
    return _value(value)


def to_tensor(value: Any) -> Any:
    """Return a number as the tensor that the compiler makes of it; anything else unchanged."""
    return interpreter.interpreter_semantic.to_tensor(value, False)


def assigned(value: Any) -> Any:
    """Return a variable's value after an assignment: numbers become tensors, in tuples too."""
    if isinstance(value, tl.tensor):
        return value
    if isinstance(value, tuple | list):
        items = map(assigned, value)
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return to_tensor(value)


def declared(annotation: Any, value: Any) -> Any:
    """Return a variable's value after an annotated assignment: a constexpr stays static."""
    return _value(value) if annotation is tl.constexpr else assigned(value)


def given(value: Any) -> Any:
    """Return a call's value; reject None, which compiler and interpreter treat differently."""
    if value is None:
        raise UnclearMeaningError(
            "the value of a call is used that has none (print, tl.store, or a helper without a return on some path). "
            "Call it on a line of its own, and let each path of a helper end in a return."
        )
    return _value(value)


def both(left: Any, right: Callable[[], Any]) -> Any:
    """Return `left and right` as in the compiler: logical for tensors, Python's for static values."""
    if not _is_dynamic(left):
        return right() if _value(left) else left
    other = right()
    if _is_dynamic(other):
        return _value(left).logical_and(_value(other))
    return left if _value(other) else other


def either(left: Any, right: Callable[[], Any]) -> Any:
    """Return `left or right` as in the compiler."""
    if not _is_dynamic(left):
        return left if _value(left) else right()
    other = right()
    if _is_dynamic(other):
        return _value(left).logical_or(_value(other))
    return other if _value(other) else left


def chained(left: Any, *steps: tuple[Callable[[Any, Any], Any], Callable[[], Any]]) -> Any:
    """Return `a < b < c` as in the compiler: operands are evaluated once, and a static comparison can end it."""
    dynamic, held = [], None
    for compare, later in steps:
        right = later()
        held, left = compare(left, right), right
        if _is_dynamic(held):
            dynamic.append(_value(held))
        elif not _value(held):
            return held
    return functools.reduce(lambda one, other: one.logical_and(other), dynamic) if dynamic else held


def negated(value: Any) -> Any:
    """Return `not value` as in the compiler."""
    return _value(value).__not__() if _is_dynamic(value) else not _value(value)


def decided(condition: Any) -> Any:
    """Return the condition of a branch or loop, which must be a scalar."""
    held = _value(condition)
    if isinstance(held, tl.tensor) and held.handle.data.size != 1:
        raise UnclearMeaningError(
            "a condition is a block of several elements, which `if` and `while` cannot decide. Use tl.where."
        )
    return held


def chosen(condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """Return `then if condition else otherwise`: a tensor if the condition is one."""
    value = then() if decided(condition) else otherwise()
    return to_tensor(value) if _is_dynamic(condition) else value


def returned(value: Any) -> Any:
    """Return the result of a function with several returns; only the compiler knows which of them are constants."""
    items = value if isinstance(value, tuple | list) else (value,)
    if any(isinstance(_value(item), int | float) for item in items):
        raise UnclearMeaningError(
            f"a helper with several returns returns the constant {value}, of which the compiler makes a tensor or not. "
            "Return a tensor, such as tl.full((), 1.0, tl.float32), or use one return with tl.where."
        )
    return value


def remainder(left: Any, right: Any) -> Any:
    """Return `left % right` of numbers; reject strings, whose formatting would reveal the interpreter."""
    if isinstance(_value(left), str):
        raise UnclearMeaningError("a string is formatted with %. Leave it out.")
    return left % right


def extreme(function: Any, *values: Any, **options: Any) -> Any:
    """Return the result of `max` or `min`; Python's are replaced by Triton's."""
    if function is builtins.max:
        return _value(tl.core.builtin_max(*values, **options))
    if function is builtins.min:
        return _value(tl.core.builtin_min(*values, **options))
    return function(*values, **options)


def check(condition: Any, message: Any = "") -> None:
    """Assert a condition; a block must be true in all elements."""
    held = _value(condition)
    if not (held.handle.data.all() if isinstance(held, tl.tensor) else held):
        raise AssertionError(message)


def static_range(start: Any, end: Any = None, step: Any = None, **_options: Any) -> range:
    """Replace tl.static_range, whose indices are static."""
    low, high = (0, start) if end is None else (start, end)
    return range(int(_value(low)), int(_value(high)), 1 if step is None else int(_value(step)))


def dynamic_range(start: Any, end: Any = None, step: Any = None, **_options: Any) -> Iterator[Any]:
    """Replace range and tl.range, whose indices are integers of 32 or 64 bits."""
    low, high = (0, start) if end is None else (start, end)
    stride = 1 if step is None else step
    if _is_dynamic(stride) and int(_value(stride)) <= 0:
        raise UnclearMeaningError(
            "a loop has a step that is known only when it runs, and is not positive. Count up, or use a constant step."
        )
    semantic = interpreter.interpreter_semantic
    bounds = [to_tensor(bound) for bound in (low, high, stride)]
    kind = bounds[0].dtype
    for bound in bounds[1:]:
        kind = semantic.integer_promote_impl(kind, bound.dtype)
    dtype = interpreter._get_np_dtype(kind)
    for index in range(*(int(bound.handle.data.astype(dtype).item()) for bound in bounds)):
        yield tl.tensor(interpreter.TensorHandle(np.array([index], dtype=dtype), kind), kind)


def indices(loop: Any, *bounds: Any, **options: Any) -> Any:
    """Return the iterable of a `for`."""
    if loop in (builtins.range, dynamic_range):
        return dynamic_range(*bounds, **options)
    if loop is static_range:
        return static_range(*bounds, **options)
    raise UnclearMeaningError("a loop runs through something else than range, tl.range or tl.static_range.")


_OPERATIONS: Final = {ast.And: "both", ast.Or: "either"}


class Rewriter(ast.NodeTransformer):
    """Rewrites one kernel's syntax; replaces the interpreter's own transformer.

    Args:
        trusting: allow calls to return None, for Triton's own library: `tl.sum` gets a dtype from such a helper.
        mapped: whether `tl.map_elementwise` calls it, for which a result that is not a tensor does not compile.
    """

    def __init__(self, *, trusting: bool = False, mapped: bool = False) -> None:
        self._several_returns = False
        self._trusting = trusting
        self._result = "assigned" if mapped else "returned"
        self._local: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Rewrite a kernel's body; arguments and defaults stay."""
        returns = [found for found in ast.walk(node) if isinstance(found, ast.Return) and found.value is not None]
        self._several_returns = len(returns) > 1
        self._local = {
            found.id if isinstance(found, ast.Name) else found.arg
            for found in ast.walk(node)
            if isinstance(found, ast.arg) or (isinstance(found, ast.Name) and isinstance(found.ctx, ast.Store))
        }
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        """`x = v`: numbers become tensors."""
        if len(node.targets) > 1:
            raise ValueError("Multiple assignments are not supported")
        node.value = _call("assigned", self.visit(node.value))
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """`x += v` becomes `x = x + v`, as in the compiler."""
        if not isinstance(node.target, ast.Name):
            return node
        old = ast.Name(id=node.target.id, ctx=ast.Load())
        new = ast.Assign(targets=[node.target], value=ast.BinOp(left=old, op=node.op, right=node.value))
        return self.visit_Assign(ast.copy_location(new, node))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """`x: T = v`: only a constexpr keeps v static."""
        if node.value is None:
            return node
        value = _call("declared", node.annotation, self.visit(node.value))
        return ast.copy_location(ast.Assign(targets=[node.target], value=value), node)

    def visit_Return(self, node: ast.Return) -> ast.AST:
        """`return v`: v can have to become a tensor."""
        if node.value is not None:
            value = self.visit(node.value)
            node.value = _call(self._result, value) if self._several_returns else value
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """`assert c`, also for a block."""
        message = [node.msg] if node.msg is not None else []
        return ast.copy_location(ast.Expr(_call("check", self.visit(node.test), *message)), node)

    def visit_For(self, node: ast.For) -> ast.AST:
        """`for i in range(n)`: i is an integer of 32 or 64 bits."""
        if isinstance(node.iter, ast.Call):
            call = node.iter
            arguments = [self.visit(argument) for argument in call.args]
            keywords = [self.visit(keyword) for keyword in call.keywords]
            node.iter = ast.copy_location(_call("indices", call.func, *arguments, keywords=keywords), call)
        node.body = [self.visit(statement) for statement in node.body]
        node.orelse = [self.visit(statement) for statement in node.orelse]
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """A call as a statement, which need not have a value."""
        if isinstance(node.value, ast.Call):
            node.value = self._called(node.value)
            return node
        self.generic_visit(node)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name of the module, which can hold a constexpr."""
        if self._trusting or node.id in self._local or not isinstance(node.ctx, ast.Load):
            return node
        return ast.copy_location(_call("plain", node), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """`a.value`: a constexpr is plain already in the interpreter. Other attributes stay."""
        if not isinstance(node.value, ast.Name):
            self.generic_visit(node)
        if node.attr == "value" and not self._trusting:
            return ast.copy_location(_call("plain", node.value), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call whose value is used."""
        called = self._called(node)
        return called if self._trusting else ast.copy_location(_call("given", called), node)

    def _called(self, node: ast.Call) -> ast.expr:
        if not isinstance(node.func, ast.Name):
            node.func = self.visit(node.func)
        node.args = [self.visit(argument) for argument in node.args]
        node.keywords = [self.visit(keyword) for keyword in node.keywords]
        if isinstance(node.func, ast.Name) and node.func.id in {"max", "min"}:
            return ast.copy_location(_call("extreme", node.func, *node.args, keywords=node.keywords), node)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """`a and b and c`, from the right as in the compiler."""
        values = [self.visit(value) for value in node.values]
        result: ast.expr = values.pop()
        for left in reversed(values):
            result = _call(_OPERATIONS[type(node.op)], left, _later(result))
        return ast.copy_location(result, node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """`not a`."""
        self.generic_visit(node)
        return ast.copy_location(_call("negated", node.operand), node) if isinstance(node.op, ast.Not) else node

    def visit_If(self, node: ast.If) -> ast.AST:
        """`if c`."""
        self.generic_visit(node)
        node.test = ast.copy_location(_call("decided", node.test), node.test)
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        """`while c`."""
        self.generic_visit(node)
        node.test = ast.copy_location(_call("decided", node.test), node.test)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """`a if c else b`."""
        self.generic_visit(node)
        return ast.copy_location(_call("chosen", node.test, _later(node.body), _later(node.orelse)), node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """`a % b`, which would format strings in Python."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Mod):
            return ast.copy_location(_call("remainder", node.left, node.right), node)
        return node

    def visit_List(self, node: ast.List) -> ast.AST:
        """A list, which the compiler treats as a tuple."""
        self.generic_visit(node)
        return ast.copy_location(ast.Tuple(elts=node.elts, ctx=node.ctx), node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """`a < b < c`."""
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        steps = [
            ast.Tuple(elts=[_comparison(operator), _later(right)], ctx=ast.Load())
            for operator, right in zip(node.ops, node.comparators, strict=True)
        ]
        return ast.copy_location(_call("chained", node.left, *steps), node)


def _comparison(operator: ast.cmpop) -> ast.Lambda:
    left, right = (ast.Name(id=name, ctx=ast.Load()) for name in ("left", "right"))
    return _function(["left", "right"], ast.Compare(left=left, ops=[operator], comparators=[right]))


def _later(value: ast.expr) -> ast.Lambda:
    return _function([], value)


def _function(names: list[str], value: ast.expr) -> ast.Lambda:
    parameters = [ast.arg(arg=name) for name in names]
    arguments = ast.arguments(posonlyargs=[], args=parameters, kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(args=arguments, body=value)


def _call(name: str, *arguments: ast.expr, keywords: list[ast.keyword] | None = None) -> ast.Call:
    function = ast.Attribute(value=ast.Name(id=NAME, ctx=ast.Load()), attr=name, ctx=ast.Load())
    return ast.Call(func=function, args=list(arguments), keywords=keywords or [])


def arguments_as_declared(function: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a launch's arguments with defaults filled in and numbers cast to their annotated types.

    Raises:
        UnclearMeaningError: an argument does not fit its annotation, which the compiler would follow.
    """
    defaults, kinds = _form(function)
    filled = defaults | arguments
    for name in vars(function).get(UNSPECIALIZED, ()):
        if name in filled and type(filled[name]) is int and name not in kinds:
            # The compiler does not specialize this argument on 1.
            filled[name] = to_tensor(filled[name])
    for name, kind in kinds.items():
        if name in filled:
            filled[name] = _as_declared(name, kind, filled[name])
    return filled


@functools.lru_cache(maxsize=256)
def _form(function: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a kernel's default values, and the annotated types of its arguments."""
    parameters = inspect.signature(function).parameters.values()
    defaults = {entry.name: entry.default for entry in parameters if entry.default is not inspect.Parameter.empty}
    kinds = {name: _normalize_ty(annotation).lstrip("*k") for name, annotation in function.__annotations__.items()}
    return defaults, {name: kind for name, kind in kinds.items() if kind in _TYPES.values() and name != "return"}


def _as_declared(name: str, kind: str, value: Any) -> Any:
    dtype = tl.str_to_ty("i1" if kind == "u1" else kind, None)
    number = isinstance(value, int | float) and kind != "bf16" and not kind.startswith("fp8")
    if number and (not isinstance(value, float) or dtype.is_floating()):
        found = np.array([value]).astype(interpreter._get_np_dtype(dtype))
        if dtype.is_floating() or int(found[0]) == value:
            return tl.tensor(interpreter.TensorHandle(found, dtype), dtype)
    raise UnclearMeaningError(
        f"argument {name} is declared as {kind}, by which the compiler reads it, and {str(value)[:40]} was passed. "
        "Declare nothing but tl.constexpr."
    )


def number_argument(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the interpreter's conversion of arguments, changed to treat numbers as Triton's compiler does.

    A float has 32 bits, a truth value one, and the integer 1 is a constant, since Triton specializes a kernel on it.
    """

    def converted(argument: Any) -> Any:
        if isinstance(argument, bool):
            return tl.tensor(interpreter.TensorHandle(np.array([argument]), tl.int1), tl.int1)
        if isinstance(argument, int) and argument == 1:
            return 1
        if isinstance(argument, float):
            handle = interpreter.TensorHandle(np.array([argument], dtype=np.float32), tl.float32)
            return tl.tensor(handle, tl.float32)
        return convert(argument)

    return converted


def is_tritons(function: Any) -> bool:
    """Whether a function belongs to Triton's language. Its module name alone proves nothing: any file can claim one."""
    name = function.__module__ or ""
    return name.startswith(f"{tl.__name__}.") and function.__globals__ is vars(sys.modules.get(name, builtins))


def mapped(function: Any) -> Any:
    """Return a kernel's function as `tl.map_elementwise` calls it: of several returns each gives tensors.

    The compiler makes tensors of constants that differ. It rejects a function whose result stays a constant.
    """
    if not isinstance(function, interpreter.InterpretedFunction):
        return function
    if function.fn not in _MAPPED:
        rewriter = interpreter.FunctionRewriter(function.fn, **function.kwargs)
        rewriter.mapped = True
        _MAPPED[function.fn] = rewriter.rewrite_ast()
    return _MAPPED[function.fn]


_MAPPED: Final[dict[Any, Any]] = {}


def _rewriting(rewrite: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a rewriting of kernels that follows the compiler and keeps annotations, which had become strings."""

    def rewritten(self: Any) -> Any:
        self.ast_transformer = Rewriter(trusting=is_tritons(self.fn), mapped=getattr(self, "mapped", False))
        function = rewrite(self)
        function.__annotations__ = dict(self.fn.__annotations__)
        names = list(inspect.signature(self.fn).parameters)
        listed = self.kwargs.get("do_not_specialize") or ()
        vars(function)[UNSPECIALIZED] = tuple(names[item] if isinstance(item, int) else item for item in listed)
        return function

    return rewritten


def _find_constants(construct: Callable[..., None]) -> Callable[..., None]:
    """Return an executor's constructor that recognizes constexpr arguments as the compiler does."""

    def constructed(self: Any, function: Any, *rest: Any) -> None:
        construct(self, function, *rest)
        self.constexprs = constants_of(function)

    return constructed


def constants_of(function: Any) -> list[str]:
    """Return the names of a kernel's constexpr parameters."""
    annotations = function.__annotations__.items()
    return [name for name, annotation in annotations if "constexpr" in _normalize_ty(annotation)]


def install() -> None:
    """Install the rewriting in the interpreter of this process; its language must have been patched before."""
    setattr(interpreter, NAME, sys.modules[__name__])  # rewritten kernels look names up in the interpreter's globals
    interpreter.FunctionRewriter.rewrite_ast = _rewriting(interpreter.FunctionRewriter.rewrite_ast)
    interpreter.GridExecutor.__init__ = _find_constants(interpreter.GridExecutor.__init__)
    interpreter._implicit_cvt = number_argument(interpreter._implicit_cvt)
    for language in (tl, tl.core):
        language.range, language.static_range = dynamic_range, static_range
