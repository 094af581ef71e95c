"""Follows a candidate's module from its first statement to its last, without running it: what is each name bound to?

Branches whose condition can be computed are followed; of the others both are, and a name that they bind differently is
ambiguous. A kernel is refused only if it reaches such a name. What happens inside plain functions is host code: what
they bind is known only where the source runs, except for what they import.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from warpsmith.evaluator.languages.triton.extract import library
from warpsmith.evaluator.languages.triton.extract.constants import Evaluator
from warpsmith.evaluator.languages.triton.extract.decorators import OwnDecorators
from warpsmith.evaluator.languages.triton.extract.grammar import COMPILER_BUILTINS
from warpsmith.evaluator.languages.triton.extract.kernel import Kernel
from warpsmith.evaluator.languages.triton.extract.tables import depth, exposed_depths, names_bound_within
from warpsmith.evaluator.languages.triton.extract.values import (
    RESERVED_PREFIX,
    Ambiguous,
    Binding,
    Environment,
    ExtractionError,
    Foreign,
    Function,
    Instance,
    Library,
    Record,
    Unknown,
    Value,
    frozen,
    same,
)

COMPILED_OPTIONS: Final = frozenset({"do_not_specialize", "do_not_specialize_on_alignment", "noinline"})
"""Arguments of `triton.jit` that change what is compiled."""
DROPPED_OPTIONS: Final = frozenset({"debug", "repr", "launch_metadata", "version"})
"""Those that only name, describe or check a launch: none of their code is ever executed."""
MOST_DEPTH: Final = 1 << 30
_ONLY_IMPORT_ERRORS: Final = frozenset({"ImportError", "ModuleNotFoundError"})
_IMPORT_ERRORS: Final = _ONLY_IMPORT_ERRORS | {"Exception", "BaseException"}


@dataclass
class Module:
    """What is known about a module at its end.

    Attributes:
        names: what each of its names is bound to.
        kernels: its kernels by their own names; several where a name is given to more than one.
        records: its classes of named tuples, by name.
        refused: kernels whose definition is refused already, by name.
        exposed: from which depth on something may change the tables of a name (`tables`).
        inductor: kernels of torch's own that the module names, by torch's name (`inductor`).
        own_decorators: which decorators of its own may make kernels.
        decorated: functions that other decorators make something unknown of, each with the decorator, by name.
    """

    names: Environment = field(default_factory=dict)
    kernels: dict[str, list[Kernel]] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)
    refused: dict[str, ExtractionError] = field(default_factory=dict)
    exposed: dict[str, int] = field(default_factory=dict)
    inductor: dict[str, Kernel] = field(default_factory=dict)
    own_decorators: OwnDecorators = field(default_factory=lambda: OwnDecorators(ast.Module([], [])))
    decorated: dict[str, str] = field(default_factory=dict)


class _ImportFailsError(Exception):
    """The statement that is followed is an import that fails."""


def follow(tree: ast.Module) -> Module:
    """Return what the names of a module are bound to at its end."""
    module = Module(exposed=exposed_depths(tree), own_decorators=OwnDecorators(tree))
    _Scope(module, module.names).run(tree.body)
    _forget_what_functions_bind(tree, module.names)
    _Scope(module, module.names).find_made_in_functions(tree)
    for kernels in module.kernels.values():
        _name_apart(kernels)
    return module


def _name_apart(kernels: list[Kernel]) -> None:
    """Give kernels that share a name distinct names in the rendered source, except for one at module level.

    One in a class or a function that is named like a built-in function gets another name too: around it, that name is
    the built-in's. PTX has that name too, where the fence takes the names that begin with the prefix and an underscore.
    """
    for kernel in kernels:
        if kernel.nested and (len(kernels) > 1 or kernel.name in COMPILER_BUILTINS):
            kernel.text_name = f"{RESERVED_PREFIX}{kernel.node.lineno}_{kernel.name}"


def _forget_what_functions_bind(tree: ast.Module, names: Environment) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            for name in node.names:
                names[name] = _either(names.get(name), Binding(Unknown("a function binds it"), node.lineno))


class _Scope:
    """Follows the statements of the module, of a class in it, or of a function that defines kernels.

    Args:
        module: what is found is noted there.
        names: the environment at the start, which is changed.
        hidden: names that functions around bind; what they are is not known.
        around: names that functions around import; None at the module's level.
    """

    def __init__(
        self,
        module: Module,
        names: Environment,
        hidden: frozenset[str] = frozenset(),
        around: Environment | None = None,
    ) -> None:
        self._module = module
        self._names = names
        self._hidden = hidden
        self._around = around
        self._may_fail = False

    def run(self, statements: list[ast.stmt]) -> None:
        """Follow statements in order."""
        for statement in statements:
            try:
                self._step(statement)
            except _ImportFailsError:
                # Outside of a `try` the candidate itself ends there, and its kernels are never requested.
                self._assume(statement)

    def find_made_in_functions(self, tree: ast.Module) -> None:
        """Find the functions of the module that a function makes kernels of: `triton.jit(f)`."""
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=function, args=[ast.Name(id=name)]) if self._decorator(function) == library.JIT:
                    bound = self._names.get(name)
                    if bound is not None and isinstance(bound.value, Function) and name not in self._module.kernels:
                        self._jitted(bound.value.node, function if isinstance(function, ast.Call) else node)

    def _assume(self, statement: ast.stmt) -> None:
        """Bind what a failing import would bind: names of another library, and nothing known about Triton."""
        _bind_all(self._names, statement, "its import fails")
        if isinstance(statement, ast.ImportFrom) and statement.module not in library.ALLOWED_MODULES:
            for alias in statement.names:
                self._bind(alias.asname or alias.name, library.imported(f"{statement.module}.{alias.name}"), statement)

    def _step(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Import():
                self._import(statement)
            case ast.ImportFrom():
                self._import_from(statement)
            case ast.Assign(targets=targets, value=value):
                self._assign(targets, self._evaluate(value), statement)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign([target], self._evaluate(value), statement)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                old = ast.copy_location(ast.Name(id=name, ctx=ast.Load()), statement)
                sum_ = ast.copy_location(ast.BinOp(left=old, op=op, right=value), statement)
                self._bind(name, self._evaluate(sum_), statement)
            case ast.FunctionDef():
                self._define(statement)
            case ast.ClassDef():
                self._enter_class(statement)
            case ast.If():
                self._branch(statement)
            case ast.Try():
                self._try(statement)
            case ast.With(items=items, body=body):
                for item in items:
                    _bind_all(self._names, item, "a `with` statement binds it")
                self._follow(body)
            case _:
                _bind_all(self._names, statement, f"a {type(statement).__name__} statement binds it")
        self._forget_walruses(statement)

    def _forget_walruses(self, statement: ast.stmt) -> None:
        bodies = isinstance(statement, ast.If | ast.Try | ast.With | ast.FunctionDef | ast.ClassDef)
        for part in [statement.test] if isinstance(statement, ast.If) else [] if bodies else [statement]:
            for name in names_bound_within(part):
                self._bind(name, Unknown("`:=` binds it"), statement)

    def _follow(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self._step(statement)

    def _evaluate(self, node: ast.expr) -> Value:
        applied = self._applied(node) or self._record_made(node)
        return Evaluator(self._names).value(node) if applied is None else applied

    def _bind(self, name: str, value: Value, statement: ast.stmt) -> None:
        if isinstance(value, list | dict) and self._module.exposed.get(name, MOST_DEPTH) < depth(value):
            value = Unknown("it is a table that other lines may change")
        self._names[name] = Binding(value, statement.lineno)

    def _assign(self, targets: list[ast.expr], value: Value, statement: ast.stmt) -> None:
        for target in targets:
            match target, value:
                case ast.Name(id=name), _:
                    self._bind(name, value, statement)
                case ((ast.Tuple(elts=parts) | ast.List(elts=parts)), (tuple() | list())) if len(parts) == len(value):
                    for part, item in zip(parts, value, strict=True):
                        self._assign([part], item, statement)
                case ((ast.Subscript() | ast.Attribute()), _):
                    self._change(target, statement)
                case _:
                    _bind_all(self._names, target, "its value cannot be determined")

    def _change(self, target: ast.expr, statement: ast.stmt) -> None:
        """Forget the content of what a part is assigned to; modules stay what they are for kernels."""
        root = target
        while isinstance(root, ast.Subscript | ast.Attribute):
            root = root.value
        bound = self._names.get(root.id) if isinstance(root, ast.Name) else None
        if isinstance(root, ast.Name) and bound is not None and isinstance(bound.value, tuple | list | dict | Instance):
            self._bind(root.id, Unknown(f"it is changed in line {statement.lineno}"), statement)

    def _import(self, statement: ast.Import) -> None:
        for alias in statement.names:
            self._expect(library.module_exists(alias.name))
            top = alias.name.partition(".")[0]
            name, meaning = (alias.asname, alias.name) if alias.asname else (top, top)
            self._bind(name, library.imported(meaning), statement)

    def _import_from(self, statement: ast.ImportFrom) -> None:
        module = "." * statement.level + (statement.module or "")
        for alias in statement.names:
            if module != "__future__":
                self._import_member(module, alias, statement)

    def _import_member(self, module: str, alias: ast.alias, statement: ast.ImportFrom) -> None:
        self._expect(None if module.startswith(".") else library.module_exists(module))
        if alias.name == "*":
            self._import_all(module, statement)
            return
        if not module.startswith("."):
            self._expect(library.member_exists(module, alias.name))
        self._bind(alias.asname or alias.name, library.imported(f"{module}.{alias.name}"), statement)

    def _import_all(self, module: str, statement: ast.ImportFrom) -> None:
        for name in library.public_members(module):
            self._bind(name, library.imported(f"{module}.{name}"), statement)

    def _expect(self, succeeds: bool | None) -> None:
        if succeeds is False:
            raise _ImportFailsError
        self._may_fail |= succeeds is None

    def _branch(self, statement: ast.If) -> None:
        truth = Evaluator(self._names).truth(statement.test)
        if truth is not None:
            self._follow(statement.body if truth else statement.orelse)
            return
        before = dict(self._names)
        first = self._ends(statement.body)
        after = dict(self._names)
        self._return_to(before)
        second = self._ends(statement.orelse)
        if not (first or second):
            raise _ImportFailsError
        if not second:
            self._return_to(after)
        elif first:
            self._merge(after)

    def _ends(self, statements: list[ast.stmt]) -> bool:
        """Follow a branch, and return whether it can be the one that is taken: no import in it fails."""
        try:
            self._follow(statements)
        except _ImportFailsError:
            return False
        return True

    def _try(self, statement: ast.Try) -> None:
        before, outer = dict(self._names), self._may_fail
        self._may_fail = False
        try:
            self._follow(statement.body)
            self._follow(statement.orelse)
            handlers: list[ast.ExceptHandler | None] = [_import_handler(statement)] if self._may_fail else []
            raising = any(map(self._may_raise, statement.body))
            handlers += [one for one in statement.handlers if raising and not _is_for_imports(one)]
            for reached in dict.fromkeys(one for one in handlers if one is not None):
                after = dict(self._names)
                self._return_to(before)
                self._follow(reached.body)
                self._merge(after)
        except _ImportFailsError:
            handler = _import_handler(statement)
            if handler is None:
                raise
            self._follow(handler.body)
        finally:
            self._may_fail = outer
        self._follow(statement.finalbody)

    def _may_raise(self, statement: ast.stmt) -> bool:
        """Whether a statement of a `try` may raise, imports apart: all but definitions and constants."""
        match statement:
            case ast.Import() | ast.ImportFrom() | ast.FunctionDef() | ast.ClassDef() | ast.Pass():
                return False
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                return isinstance(self._evaluate(value), Unknown) and any(
                    isinstance(node, ast.Call | ast.Subscript) for node in ast.walk(value)
                )
            case ast.Expr(value=ast.Constant()):
                return False
        return True

    def _return_to(self, names: Environment) -> None:
        self._names.clear()
        self._names.update(names)

    def _merge(self, other: Environment) -> None:
        for name in {*self._names, *other}:
            self._names[name] = _either(self._names.get(name), other.get(name))

    def _define(self, function: ast.FunctionDef) -> None:
        """Bind a function, which is a kernel if a decorator says so, and look for kernels inside of a plain one."""
        names = [self._decorator(decorator) for decorator in function.decorator_list]
        if library.JIT in names:
            self._define_kernel(function, names)
            return
        if library.COMPUTING & {*names}:
            self._define_computing(function, names)
            return
        if any(map(self._makes_kernels, function.decorator_list)):
            self._define_wrapped(function)
            self._enter_function(function)
            return
        if names:
            self._module.decorated[function.name] = ast.unparse(function.decorator_list[0])[:60]
        self._bind(function.name, Function(function) if not names else Unknown("its decorators make it"), function)
        self._enter_function(function)

    def _enter_function(self, function: ast.FunctionDef) -> None:
        """Look for kernels inside of a function. What it alone imports is known; what it binds else is not."""
        statements = list(_own_statements(function.body))
        imports = [one for one in statements if isinstance(one, ast.Import | ast.ImportFrom)]
        others = [one for one in statements if one not in imports]
        elsewhere = {name for one in statements if isinstance(one, ast.Global) for name in one.names}
        bound = frozenset(_names_bound_in(function)) - elsewhere
        unknown = Binding(Unknown(f"{function.name}() binds it"), function.lineno)
        names = dict(self._names) | dict.fromkeys(bound, unknown)
        again = {name for one in others for name in _bound_here(one)} | {one.arg for one in _arguments(function)}
        known = _imported(self._module, imports, names, bound - again)
        around = {name: binding for name, binding in (self._around or {}).items() if name not in bound} | known
        hidden = (self._hidden | bound) - known.keys()
        _Scope(self._module, names | known, hidden, around)._follow_nested(function.body)

    def _follow_nested(self, statements: list[ast.stmt]) -> None:
        """Find the kernels of a function's body, wherever they stand in it."""
        for node in _definitions(statements):
            self._define(node)

    def _enter_class(self, statement: ast.ClassDef) -> None:
        # Names in a class body are not globals: what is bound there must not be taken for one.
        inner = _Scope(self._module, dict(self._names), self._hidden, self._around or {})
        inner._follow_nested(statement.body)
        record = self._record_class(statement)
        if record is not None:
            self._module.records[record.name] = record
        self._bind(statement.name, record or self._constants_class(statement), statement)

    def _constants_class(self, statement: ast.ClassDef) -> Value:
        """Return what is known about a class of constants, an enumeration or a dataclass: its attributes."""
        decorators = [self._decorator(one) for one in statement.decorator_list]
        is_enumeration = bool(statement.bases) and self._decorator(statement.bases[-1]) in library.ENUMERATIONS
        methods = {part.name for part in statement.body if isinstance(part, ast.FunctionDef)}
        makes = not methods & _MAKING
        if (statement.bases and not (is_enumeration and makes)) or statement.keywords or self._around is not None:
            return Unknown("it is a class", is_class=True)
        if decorators not in ([], [library.DATACLASS]):
            return Unknown("it is a class with decorators", is_class=True)
        annotated = [part for part in statement.body if isinstance(part, ast.AnnAssign)]
        inner = dict(self._names)
        _Scope(self._module, inner).run(
            [part for part in statement.body if isinstance(part, ast.Assign | ast.AnnAssign)]
        )
        names = {name for part in statement.body if isinstance(part, ast.Assign) for name in _bound_here(part)}
        names |= {name for part in annotated if part.value is not None for name in _bound_here(part)}
        values = {name: inner[name].value for name in names}
        if is_enumeration:
            return Instance({name: Instance({"value": value}) for name, value in values.items()})
        fields = [part.target.id for part in annotated if isinstance(part.target, ast.Name) and not _is_shared(part)]
        return Instance(values, tuple(fields) if decorators and makes else None)

    def _record_class(self, statement: ast.ClassDef) -> Record | None:
        """Return the named tuples that a class makes; None for any other class."""
        names = [self._decorator(base) for base in statement.bases]
        if names != ["typing.NamedTuple"] or statement.decorator_list:
            return None
        fields = [part for part in statement.body if isinstance(part, ast.AnnAssign)]
        defaults = [self._evaluate(part.value) for part in fields if part.value is not None]
        return Record(
            statement.name, tuple(part.target.id for part in fields if isinstance(part.target, ast.Name)), (*defaults,)
        )

    def _record_made(self, node: ast.expr) -> Record | None:
        """Return the class of `namedtuple("P", "a b")` and `NamedTuple("P", [("a", int)])`; None for anything else."""
        if not isinstance(node, ast.Call) or self._decorator(node.func) not in library.TUPLE_CLASSES:
            return None
        match node:
            case ast.Call(args=[ast.Constant(value=str(name)), listed], keywords=[]) if fields := _field_names(listed):
                record = self._module.records[name] = Record(name, fields)
                return record
            case _:
                return None

    def _decorator(self, decorator: ast.expr) -> str:
        called = _called(decorator)
        match Evaluator(self._names).value(called):
            case Library(name=name) | Foreign(name=name):
                return name
            case _:
                return called.id if isinstance(called, ast.Name) and called.id == "staticmethod" else "another"

    def _makes_kernels(self, decorator: ast.expr) -> bool:
        """Whether a decorator of the module's own may call `triton.jit`."""
        if isinstance(Evaluator(self._names).value(_called(decorator)), Library | Foreign):
            return False
        return self._module.own_decorators.lead_to_jit(decorator, self._decorator)

    def _only_registers(self, decorator: ast.expr) -> bool:
        """Whether a decorator is a function of the module that returns what it decorates, as a registry does."""
        is_made = isinstance(decorator, ast.Call)
        value = Evaluator(self._names).value(_called(decorator))
        if not isinstance(value, Function):
            return False
        made = _returned_function(value.node) if is_made else value.node
        return made is not None and _returns_first_argument(made)

    def _define_computing(self, function: ast.FunctionDef, names: list[str]) -> None:
        plain = self._kernel(function, None, "")
        defaults = {name: frozen(value) for name, value in plain.defaults.items()}
        kernel = replace(plain, computes=True, defaults=defaults)
        others = [name for name in names if name not in {*library.COMPUTING, "staticmethod"}]
        kernel.wrapped = ast.unparse(function.decorator_list[0])[:60] if others else ""
        self._add(kernel)
        self._bind(function.name, kernel, function)

    def _define_wrapped(self, function: ast.FunctionDef) -> None:
        """Bind a kernel that a decorator of the module makes: it can be launched, and no other kernel can call it."""
        kernel = self._kernel(function, None, ast.unparse(function.decorator_list[0])[:60])
        self._add(kernel)
        self._bind(function.name, kernel, function)

    def _define_kernel(self, function: ast.FunctionDef, names: list[str]) -> None:
        place = names.index(library.JIT)
        try:
            if names[place + 1 :]:
                raise _refused_decorator(function, function.decorator_list[place + 1])
            wrapping = [
                ast.unparse(decorator)[:60]
                for decorator, name in zip(function.decorator_list[:place], names[:place], strict=True)
                if name not in {*library.LAUNCH_DECORATORS, "staticmethod"} and not self._only_registers(decorator)
            ]
            kernel = self._kernel(function, function.decorator_list[place], "".join(wrapping[:1]))
        except ExtractionError as error:
            self._module.refused[function.name] = error
            self._bind(function.name, Unknown(str(error)), function)
            return
        self._add(kernel)
        self._bind(function.name, kernel, function)

    def _kernel(self, function: ast.FunctionDef, decorator: ast.expr | None, wrapped: str) -> Kernel:
        options = self._options(function, decorator) if isinstance(decorator, ast.Call) else {}
        arguments = function.args
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = dict(zip(reversed(positional), reversed(arguments.defaults), strict=False))
        defaults |= {
            argument: default
            for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if default is not None
        }
        values = {argument.arg: self._evaluate(default) for argument, default in defaults.items()}
        nested = self._around is not None
        return Kernel(function, options, values, self._hidden, self._around or {}, wrapped, nested=nested)

    def _options(self, function: ast.FunctionDef, call: ast.Call) -> dict[str, Value]:
        """Return the arguments of `triton.jit` that the compiler is to have."""
        if call.args:
            raise _refused_decorator(function, call)
        options: dict[str, Value] = {}
        for keyword in call.keywords:
            if keyword.arg in DROPPED_OPTIONS:
                continue
            value = self._evaluate(keyword.value)
            if keyword.arg not in COMPILED_OPTIONS or not _is_option(value):
                raise ExtractionError(
                    f"kernel {function.name} gives triton.jit the argument {ast.unparse(keyword)[:80]}.",
                    f"It may have {', '.join(sorted(COMPILED_OPTIONS | DROPPED_OPTIONS))}, the first "
                    f"{len(COMPILED_OPTIONS)} with constants.",
                    call.lineno,
                )
            options[keyword.arg] = value
        return options

    def _applied(self, node: ast.expr) -> "Value | None":
        """Return the kernel that `triton.jit(f)` or `triton.autotune(...)(kernel)` gives; None for anything else."""
        match node:
            case ast.Call(func=function, args=[inner]):
                decorator = self._decorator(function)
                value = self._evaluate(inner)
                if decorator == library.JIT and isinstance(value, Function):
                    return self._jitted(value.node, function if isinstance(function, ast.Call) else node)
                if decorator in library.LAUNCH_DECORATORS:
                    return value if isinstance(value, Kernel) else None
        return None

    def _jitted(self, function: ast.FunctionDef, call: ast.Call) -> Value:
        """Return the kernel that a call makes of a function; the call's keywords are the options."""
        try:
            line = call.lineno if call.lineno > (function.end_lineno or 0) else 0
            kernel = replace(self._kernel(function, _without_function(call), ""), made_in=line)
        except ExtractionError as error:
            self._module.refused[function.name] = error
            return Unknown(str(error))
        self._add(kernel)
        return kernel

    def _add(self, kernel: Kernel) -> None:
        """Note a kernel. A later definition under the same name replaces the earlier one.

        In a function or a class several may be defined under one name, and each be launched.
        """
        known = self._module.kernels.setdefault(kernel.name, [])
        if kernel.nested:
            known.append(kernel)
            return
        bound = self._names.get(kernel.name)
        if bound is not None and isinstance(bound.value, Kernel) and bound.value in known:
            known.remove(bound.value)
        if not any(same(kernel, other) for other in known):
            known.append(kernel)


def _called(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def _without_function(call: ast.Call) -> ast.Call:
    return ast.copy_location(ast.Call(func=call.func, args=[], keywords=call.keywords), call)


def _field_names(node: ast.expr) -> tuple[str, ...]:
    """Return the fields of a named tuple: of "a b", of ["a", "b"] or of [("a", int), ("b", int)]."""
    match node:
        case ast.Constant(value=str(text)):
            return tuple(text.replace(",", " ").split())
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            firsts = [part.elts[0] if isinstance(part, ast.Tuple) and part.elts else part for part in parts]
            names = [first.value for first in firsts if isinstance(first, ast.Constant)]
            return tuple(name for name in names if isinstance(name, str)) if len(names) == len(parts) else ()
        case _:
            return ()


def _is_shared(part: ast.AnnAssign) -> bool:
    """Whether an annotation of a dataclass makes no field: `x: ClassVar[int] = 1`."""
    return "ClassVar" in ast.unparse(part.annotation)


_MAKING: Final = frozenset({"__init__", "__post_init__", "__new__", "__getattribute__", "_missing_", "value"})
"""Methods that make an object another one than its class says."""


def _is_option(value: Value) -> bool:
    if isinstance(value, tuple | list):
        return all(isinstance(item, str | int) for item in value)
    return value is None or isinstance(value, bool)


def _refused_decorator(function: ast.FunctionDef, decorator: ast.expr) -> ExtractionError:
    return ExtractionError(
        f"kernel {function.name} has the decorator {ast.unparse(decorator)[:80]}.",
        "Below triton.jit a kernel has no other decorator, and triton.jit has only keywords.",
        decorator.lineno,
    )


def _import_handler(statement: ast.Try) -> ast.ExceptHandler | None:
    """Return the handler that a failing import ends in."""
    for handler in statement.handlers:
        if handler.type is None:
            return handler
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        if any(isinstance(kind, ast.Name) and kind.id in _IMPORT_ERRORS for kind in kinds):
            return handler
    return None


def _is_for_imports(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return all(isinstance(kind, ast.Name) and kind.id in _ONLY_IMPORT_ERRORS for kind in kinds)


def _either(one: Binding | None, other: Binding | None) -> Binding:
    """Return what a name is bound to that one of two branches binds so, and the other so."""
    if one is None or other is None:
        # A branch that does not bind the name leaves it unbound: code that reads it needs the other branch.
        return one or other or Binding(Unknown("it is not bound"), 0)
    if one is other or same(one.value, other.value):
        return one
    lines = {
        line
        for bound in (one, other)
        for line in (bound.value.lines if isinstance(bound.value, Ambiguous) else (bound.line,))
    }
    return Binding(Ambiguous(tuple(sorted(lines))), max(one.line, other.line))


def _bind_all(names: Environment, node: ast.AST, why: str) -> None:
    """Forget every name that `node` binds, except for those inside functions and classes."""
    line = int(getattr(node, "lineno", 0))
    for name in _bound_names(node):
        names[name] = Binding(Unknown(why), line)


def _bound_names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
            return
        case ast.alias(name=name, asname=asname):
            yield asname or name.partition(".")[0]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
    for child in ast.iter_child_nodes(node):
        yield from _bound_names(child)


def _arguments(function: ast.FunctionDef) -> Iterator[ast.arg]:
    return (one for one in ast.walk(function.args) if isinstance(one, ast.arg))


def _names_bound_in(function: ast.FunctionDef) -> Iterator[str]:
    for argument in _arguments(function):
        yield argument.arg
    for statement in function.body:
        yield from _bound_names(statement)


def _bound_here(statement: ast.stmt) -> Iterator[str]:
    """Yield what a statement binds apart from the statements in it."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case _:
            for child in ast.iter_child_nodes(statement):
                if not isinstance(child, ast.stmt):
                    yield from _bound_names(child)


def _imported(module: Module, imports: Sequence[ast.stmt], names: Environment, wanted: frozenset[str]) -> Environment:
    """Return what statements of a function import, of the names that are wanted and of what kernels may use."""
    inside = _Scope(module, dict(names))
    inside.run(list(imports))
    return {name: inside._names[name] for name in wanted if isinstance(inside._names[name].value, Library)}


def _own_statements(statements: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield all statements of a function at any depth, except for those of functions and classes in it."""
    for statement in statements:
        yield statement
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _own_statements(list(_statements_in(statement)))


def _returned_name(function: ast.FunctionDef) -> str | None:
    """Return the name that each end of a function returns, if it is one name that is bound once; otherwise None."""
    statements = list(_own_statements(function.body))
    ends = {
        one.value.id if isinstance(one.value, ast.Name) else None for one in statements if isinstance(one, ast.Return)
    }
    unclear = (ast.Yield, ast.YieldFrom, ast.Nonlocal, ast.Global)
    if function.decorator_list or len(ends) != 1 or any(isinstance(node, unclear) for node in ast.walk(function)):
        return None
    (name,) = ends
    bound = [*(argument.arg for argument in _arguments(function)), *(n for one in statements for n in _bound_here(one))]
    return name if isinstance(function.body[-1], ast.Return) and bound.count(str(name)) == 1 else None


def _returns_first_argument(function: ast.FunctionDef) -> bool:
    arguments = [*function.args.posonlyargs, *function.args.args]
    return bool(arguments) and _returned_name(function) == arguments[0].arg


def _returned_function(function: ast.FunctionDef) -> ast.FunctionDef | None:
    """Return the function of its own body that a function returns; None if it returns anything else."""
    name = _returned_name(function)
    return next((one for one in function.body if isinstance(one, ast.FunctionDef) and one.name == name), None)


def _definitions(statements: list[ast.stmt]) -> Iterator[ast.FunctionDef]:
    """Yield the functions of a body that are not inside another function."""
    for statement in statements:
        match statement:
            case ast.FunctionDef():
                yield statement
            case ast.Lambda() | ast.expr():
                continue
            case _:
                yield from _definitions(list(_statements_in(statement)))


def _statements_in(statement: ast.stmt) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from child.body
