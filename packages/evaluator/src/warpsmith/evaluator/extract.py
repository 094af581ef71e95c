"""Takes a candidate's kernels out of its source by syntax, so that they can be compiled without running its host code.

What is kept: imports of `triton`, `triton.language` and `math`, also inside a `try`; module-level constants made of
literals, arithmetic, `tl.constexpr` and a few pure helpers; functions decorated with `triton.jit`. Everything else is
blanked, line by line, so that the compiler's messages name the lines of the candidate's own file. A name may be bound
once, and the text that is handed on must parse to exactly the nodes that were checked.

Triton's code generator runs Python while it compiles: it calls any function that a kernel's body names, reads any
attribute of a module that the body can reach, and offers `getattr`. Its interpreter runs the body itself. So a kept
function may only name what this module allows, and of a value it may touch only the attributes listed here: none that
leads out of the language, and none that tells interpretation from compilation.
"""

import ast
import re
from dataclasses import dataclass, field
from typing import Final

from warpsmith.records.errors import WarpsmithError

ALLOWED_MODULES: Final = frozenset(
    {
        "triton",
        "triton.language",
        "triton.language.math",
        "triton.language.extra",
        "triton.language.extra.libdevice",
        "triton.language.extra.cuda",
        "triton.language.extra.cuda.libdevice",
        "math",
    }
)
PURE_HELPERS: Final = frozenset(
    {"triton.cdiv", "triton.next_power_of_2", "min", "max", "abs", "int", "float", "bool", "len"}
)
JIT_NAME: Final = "warpsmith_jit"
RESERVED_PREFIX: Final = "warpsmith"
"""Names that begin so are ours: the decorator, and what an interpreted kernel is rewritten to call."""
BODY_BUILTINS: Final = frozenset(
    {"range", "len", "min", "max", "abs", "int", "float", "bool", "print", "tuple", "list"}
)
OPEN_BUILTINS: Final = BODY_BUILTINS | frozenset(name for name in PURE_HELPERS if "." not in name)
"""All that the extracted source may find in `__builtins__`, beside the import of ALLOWED_MODULES."""

_VALUE_ATTRIBUTES: Final = """
    T abs advance argmax argmin associative_scan atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or
    atomic_xchg atomic_xor block_shape broadcast_to cast cdiv ceil cos cumprod cumsum dtype element_ty erf exp
    exp2 expand_dims flip floor fp_mantissa_width gather histogram int_bitwidth is_bf16 is_block is_bool
    is_floating is_fp16 is_fp32 is_fp64 is_fp8 is_int is_int1 is_int16 is_int32 is_int64 is_int8 is_int_signed
    is_int_unsigned is_ptr is_uint16 is_uint32 is_uint64 is_uint8 load log log2 logical_and logical_or max min
    numel permute primitive_bitwidth ravel reduce reshape rsqrt scalar scatter shape sigmoid sin softmax sort
    split sqrt sqrt_rn store sum to trans type view xor_sum
"""
VALUE_ATTRIBUTES: Final = frozenset(_VALUE_ATTRIBUTES.split())
"""What a kernel may read of a value: the methods and properties of Triton's tensors, dtypes and descriptors."""

MESSAGE_CALLS: Final = frozenset(
    f"triton.language.{name}_{what}" for name in ("static", "device") for what in ("assert", "print")
)
VALUELESS_CALLS: Final = MESSAGE_CALLS | {"triton.language.store", "triton.language.debug_barrier"}
CLOSED_MEMBERS: Final = frozenset(
    f"triton.language.{name}"
    for name in ("tensor", "tensor_descriptor", "str_to_ty", "aggregate_replace", "constexpr_type", "condition")
)
"""Parts of the compiler that `triton.language` shows: a kernel could ask them what it is run by."""

LAUNCH_DECORATORS: Final = frozenset({"triton.autotune", "triton.heuristics"})


class ExtractionError(WarpsmithError):
    """A kernel cannot be taken out of the source, or its body names what no kernel may run at compile time."""

    def __init__(self, message: str, remedy: str, line: int) -> None:
        super().__init__(f"line {line}: {message}", remedy)
        self.line = line


@dataclass
class _Module:
    """What a candidate's module binds at top level, as far as it may be kept."""

    aliases: dict[str, str] = field(default_factory=dict)
    constants: set[str] = field(default_factory=set)
    uncertain: set[str] = field(default_factory=set)
    kernels: dict[str, ast.FunctionDef] = field(default_factory=dict)
    kept: list[ast.stmt] = field(default_factory=list)


@dataclass(frozen=True)
class Extracted:
    """The kept source with the original's line numbers, its kernels, and the dotted library names that they reach.

    In the source each kernel carries the one decorator `JIT_NAME`, which whoever executes it must provide.
    """

    source: str
    kernels: tuple[str, ...]
    reached: frozenset[str]


def extract(source: str) -> Extracted:
    """Return the kernels of `source` with everything else blanked; ExtractionError or SyntaxError if that cannot be.

    Never executes anything of `source`.
    """
    source = _without_tensor_annotations(source)
    tree = ast.parse(source)
    module = _Module()
    for statement in tree.body:
        _take(statement, module)
    reached: set[str] = set()
    for kernel in module.kernels.values():
        reached |= _check_kernel(kernel, module)
        _check_text(kernel, source)
    return Extracted(_render(source, module), tuple(module.kernels), frozenset(reached))


def _without_tensor_annotations(source: str) -> str:
    """Return `source` with blanks for each `torch.Tensor` of a function's annotations, which tells Triton nothing."""
    lines = [line.encode() for line in _lines(source)]
    for function in ast.parse(source).body:
        if isinstance(function, ast.FunctionDef):
            annotated = [(found.annotation, b":") for found in ast.walk(function.args) if isinstance(found, ast.arg)]
            for annotation, sign in [*annotated, (function.returns, b"->")]:
                if annotation is not None and ast.unparse(annotation).strip("'") == "torch.Tensor":
                    _blank(lines, annotation, sign)
    return "\n".join(line.decode() for line in lines)


def _blank(lines: list[bytes], annotation: ast.expr, sign: bytes) -> None:
    """Replace an annotation of one line, and the sign before it, by blanks; one that spans lines stays."""
    number, end = annotation.lineno - 1, annotation.end_col_offset or 0
    begin = lines[number].rfind(sign, 0, annotation.col_offset)
    if begin >= 0 and annotation.end_lineno == annotation.lineno:
        lines[number] = lines[number][:begin] + b" " * (end - begin) + lines[number][end:]


def dotted(node: ast.expr, aliases: dict[str, str]) -> str | None:
    """Return the full dotted name of `a.b.c`, where `a` is a kept import or a pure builtin; None otherwise."""
    match node:
        case ast.Name(id=name):
            return aliases.get(name, name if name in PURE_HELPERS else None)
        case ast.Attribute(value=value, attr=attr):
            base = dotted(value, aliases)
            return f"{base}.{attr}" if base else None
        case _:
            return None


def _take(statement: ast.stmt, module: _Module) -> None:
    match statement:
        case ast.Import():
            _take_import(statement, module)
        case ast.ImportFrom():
            _take_import_from(statement, module)
        case ast.Try(body=body):
            for inner in body:
                if isinstance(inner, ast.Import | ast.ImportFrom):
                    _take(inner, module)
        case ast.FunctionDef() if _is_jit(statement, module):
            _bind(statement.name, statement, module)
            module.kernels[statement.name] = statement
            module.kept.append(statement)
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_constant(value, module):
            _bind(name, statement, module)
            module.constants.add(name)
            module.kept.append(statement)
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if _is_constant(value, module):
            if dotted(statement.annotation, module.aliases) == "triton.language.constexpr" or isinstance(
                statement.annotation, ast.Name
            ):
                _bind(name, statement, module)
                module.constants.add(name)
                module.kept.append(statement)
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            if name in module.kernels:
                # What runs under the name on a device is not what is compiled here.
                _bind(name, statement, module)
            module.uncertain.add(name)


def _bind(name: str, statement: ast.stmt, module: _Module, meaning: str | None = None) -> None:
    """Raise if `name` is bound already: what is checked must be what is found under the name when it is used."""
    again = meaning is not None and module.aliases.get(name) == meaning
    taken = name in {*module.aliases, *module.constants, *module.kernels} and not again
    if taken or name.startswith(("__", RESERVED_PREFIX)):
        raise ExtractionError(
            f"the module-level name {name} is bound more than once, or is reserved.",
            "Give every kernel, constant and import of the file a name of its own.",
            statement.lineno,
        )


def _take_import(statement: ast.Import, module: _Module) -> None:
    """Keep what may be imported of a statement that may import other modules beside it."""
    allowed = [alias for alias in statement.names if alias.name in ALLOWED_MODULES]
    for alias in allowed:
        top = alias.name.partition(".")[0]
        name, meaning = (alias.asname, alias.name) if alias.asname else (top, top)
        _bind(name, statement, module, meaning)
        module.aliases[name] = meaning
    if allowed:
        module.kept.append(ast.copy_location(ast.Import(names=allowed), statement))


def _take_import_from(statement: ast.ImportFrom, module: _Module) -> None:
    if (
        statement.level
        or statement.module not in ALLOWED_MODULES
        or any(alias.name == "*" for alias in statement.names)
    ):
        return
    if any(alias.name.startswith("_") for alias in statement.names):
        return
    for alias in statement.names:
        name, meaning = alias.asname or alias.name, f"{statement.module}.{alias.name}"
        _bind(name, statement, module, meaning)
        module.aliases[name] = meaning
    module.kept.append(statement)


def _is_jit(function: ast.FunctionDef, module: _Module) -> bool:
    return any(_decorator_name(decorator, module) == "triton.jit" for decorator in function.decorator_list)


def _decorator_name(decorator: ast.expr, module: _Module) -> str | None:
    return dotted(decorator.func if isinstance(decorator, ast.Call) else decorator, module.aliases)


def _is_constant(node: ast.expr, module: _Module) -> bool:
    """Whether evaluating `node` runs nothing but literals, arithmetic and pure helpers."""
    match node:
        case ast.Constant():
            return True
        case ast.Name(id=name):
            return name in module.constants
        case ast.Attribute():
            dotted_name = dotted(node, module.aliases)
            return _is_math(dotted_name) or _is_language_attribute(dotted_name)
        case ast.Call(func=function, args=arguments, keywords=[]):
            return _is_pure(dotted(function, module.aliases)) and _all_constant(arguments, module)
        case _:
            return _is_constant_expression(node, module)


def _is_constant_expression(node: ast.expr, module: _Module) -> bool:
    match node:
        case ast.UnaryOp(operand=operand):
            return _is_constant(operand, module)
        case ast.BinOp(left=left, right=right, op=op):
            if isinstance(op, ast.Pow | ast.LShift):
                return _is_small(node)
            return _all_constant([left, right], module)
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return _all_constant(items, module)
        case _:
            return False


_SMALL: Final = 64


def _is_small(node: ast.BinOp) -> bool:
    """Whether a power or shift is of small literals: others can take any amount of time and memory."""
    match node.left, node.right:
        case ast.Constant(value=int() | float() as base), ast.Constant(value=int(exponent)):
            return abs(base) <= _SMALL and 0 <= exponent <= _SMALL
        case _:
            return False


def _all_constant(nodes: list[ast.expr], module: _Module) -> bool:
    return all(_is_constant(node, module) for node in nodes)


def _is_pure(name: str | None) -> bool:
    return name in PURE_HELPERS or name == "triton.language.constexpr" or _is_math(name)


def _is_math(name: str | None) -> bool:
    return name is not None and name.startswith("math.") and name.count(".") == 1 and not name.startswith("math._")


def _is_language_attribute(name: str | None) -> bool:
    return name is not None and name.startswith("triton.language.") and name.count(".") == 2 and "._" not in name


def _check_text(function: ast.FunctionDef, source: str) -> None:
    """Raise unless the kernel's text has one line that begins with `def`, and that holds its name.

    Triton finds a function in its own text by searching for `def`, which may also stand in a string.
    """
    lines = _lines(source)[function.lineno - 1 : function.end_lineno]
    found = [line for line in lines if re.match(r"def\b", line.strip())]
    if len(found) != 1 or not re.match(rf"def {re.escape(function.name)} ?\(", lines[0]):
        raise ExtractionError(
            f"in kernel {function.name} more than one line begins with `def`, or its name is not beside it.",
            f"Write `def {function.name}(` on one line, and begin no line of a string or docstring with `def`.",
            function.lineno,
        )


def _lines(source: str) -> list[str]:
    return re.split(r"\r\n|\r|\n", source)


_CHECKED_FIELDS: Final = frozenset({"name", "args", "body", "decorator_list", "returns", "type_comment"})


def _check_kernel(function: ast.FunctionDef, module: _Module) -> set[str]:
    if any(value for name, value in ast.iter_fields(function) if name not in _CHECKED_FIELDS):
        raise ExtractionError(
            f"kernel {function.name} has type parameters.", "Define it without them.", function.lineno
        )
    for decorator in function.decorator_list:
        _check_decorator(decorator, function, module)
    for default in [*function.args.defaults, *(item for item in function.args.kw_defaults if item is not None)]:
        if not _is_constant(default, module):
            raise ExtractionError(
                f"a default value of kernel {function.name} is no constant.",
                "Use a literal, or a module-level constant made of literals.",
                default.lineno,
            )
    for argument in _arguments(function):
        _check_annotation(argument.annotation, function, module)
    _check_annotation(function.returns, function, module)
    body = _Body(function, module)
    for statement in function.body:
        body.visit(statement)
    return body.reached


def _check_decorator(decorator: ast.expr, function: ast.FunctionDef, module: _Module) -> None:
    name = _decorator_name(decorator, module)
    if name not in {"triton.jit", *LAUNCH_DECORATORS}:
        raise ExtractionError(
            f"kernel {function.name} has the decorator {ast.unparse(decorator)[:80]}.",
            "Only triton.jit, triton.autotune and triton.heuristics are allowed on a kernel.",
            decorator.lineno,
        )
    if name == "triton.jit" and isinstance(decorator, ast.Call) and (decorator.args or decorator.keywords):
        raise ExtractionError(
            f"kernel {function.name} has the decorator {ast.unparse(decorator)[:80]}, whose arguments change what is "
            "compiled and not what is interpreted.",
            "Write @triton.jit without arguments.",
            decorator.lineno,
        )


def _arguments(function: ast.FunctionDef) -> list[ast.arg]:
    arguments = function.args
    if arguments.vararg or arguments.kwarg:
        raise ExtractionError(
            f"kernel {function.name} takes *args or **kwargs.", "Name every argument of a kernel.", function.lineno
        )
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def _check_annotation(annotation: ast.expr | None, function: ast.FunctionDef, module: _Module) -> None:
    if annotation is None or isinstance(annotation, ast.Constant):
        return
    name = dotted(annotation, module.aliases)
    if name in {"int", "float", "bool"} or _is_language_attribute(name):
        return
    raise ExtractionError(
        f"an argument or the result of kernel {function.name} has the annotation {ast.unparse(annotation)[:80]}.",
        "Use tl.constexpr, a tl type, or no annotation.",
        annotation.lineno,
    )


class _Body(ast.NodeVisitor):
    """Checks the body of one kernel, and collects the library names that it reaches."""

    def __init__(self, function: ast.FunctionDef, module: _Module) -> None:
        self.function = function
        self.module = module
        self.reached: set[str] = set()
        self._alone: ast.expr | None = None
        self.local = _local_names(function)
        hidden = _names_bound_on_some_paths(function) & {*module.constants, *module.kernels, *BODY_BUILTINS}
        reserved = {name for name in self.local if name.startswith(RESERVED_PREFIX)}
        for name in sorted(self.local & {*module.aliases, *_CLOSED_BUILTINS} | hidden | reserved):
            raise self.refused(function, f"the local name {name} for two things", "Give it another name.")

    def refused(self, node: ast.AST, what: str, remedy: str) -> ExtractionError:
        line = int(getattr(node, "lineno", self.function.lineno))
        return ExtractionError(
            f"kernel {self.function.name} uses {what}, which cannot be compiled by itself.", remedy, line
        )

    def visit(self, node: ast.AST) -> None:
        if not isinstance(node, _ALLOWED_NODES):
            raise self.refused(
                node, f"a {type(node).__name__}", "Leave it out; define helpers at module level with @triton.jit."
            )
        super().visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr.startswith("_"):
            raise self.refused(
                node, f"the attribute {node.attr}", "Names that begin with an underscore are closed to kernels."
            )
        name = dotted(node, self.module.aliases)
        if name is None or _root(node) not in self.module.aliases:
            self.generic_visit(node)
            if node.attr not in VALUE_ATTRIBUTES or isinstance(node.ctx, ast.Store):
                raise self.refused(
                    node, f"the attribute {node.attr}", "Of a value a kernel may use the methods of Triton's tensors."
                )
            return
        if not _is_reachable(name):
            raise self.refused(node, name, "A kernel may use triton.language, its math and extra modules, and math.")
        self.reached.add(name)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg is None or node.arg.startswith("_"):
            raise self.refused(node, f"the keyword {node.arg or '**'}", "Pass only what Triton documents, by name.")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Refuse to ask for identity, which compiled and interpreted values have differently, but with None."""
        operands = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
            with_none = any(isinstance(side, ast.Constant) and side.value is None for side in (left, right))
            if isinstance(operator, ast.Is | ast.IsNot) and not with_none:
                raise self.refused(node, "`is` between values", "Use ==, or compare with None.")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Note a call that stands alone: only such a one may have no value."""
        self._alone = node.value
        self.visit(node.value)

    def visit_For(self, node: ast.For) -> None:
        self._check_no_else(node)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._check_no_else(node)
        self.generic_visit(node)

    def _check_no_else(self, node: ast.For | ast.While) -> None:
        if node.orelse:
            raise self.refused(node, "an `else` of a loop", "Put what follows the loop after it.")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        _check_annotation(node.annotation, self.function, self.module)
        if node.value is None:
            raise self.refused(node, "an annotation without a value", "Write `name: tl.constexpr = value`.")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Let messages be formatted; a formatted value anywhere else could be read."""
        full = dotted(node.func, self.module.aliases)
        formats = full in MESSAGE_CALLS
        printed = isinstance(node.func, ast.Name) and node.func.id == "print"
        if (printed or full in VALUELESS_CALLS) and node is not self._alone:
            raise self.refused(
                node, f"the value of {ast.unparse(node.func)}, which has none", "Call it on a line of its own."
            )
        self.visit(node.func)
        for argument in [*node.args, *node.keywords]:
            if formats and isinstance(argument, ast.JoinedStr):
                self.visit_message(argument)
            else:
                self.visit(argument)

    def visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)
        if isinstance(node.msg, ast.JoinedStr):
            self.visit_message(node.msg)
        elif node.msg is not None:
            self.visit(node.msg)

    def visit_message(self, node: ast.JoinedStr) -> None:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)

    def visit_Name(self, node: ast.Name) -> None:
        name = node.id
        if name in self.module.aliases:
            full = self.module.aliases[name]
            if not _is_reachable(full):
                raise self.refused(node, f"the module {name} as a value", "Name what you need of it: tl.load, math.pi.")
            self.reached.add(full)
        elif name not in self.local | set(self.module.kernels) | self.module.constants | BODY_BUILTINS:
            remedy = (
                f"{name} is computed by what is not evaluated (calls, powers and shifts of large or named numbers). "
                "Write its value out."
                if name in self.module.uncertain
                else "A kernel may name its arguments and locals, other @triton.jit functions of the file, "
                "and module-level tl.constexpr constants."
            )
            raise self.refused(node, f"the global {name}", remedy)


_ALLOWED_NODES: Final = (
    # statements
    ast.Return,
    ast.Assign,
    ast.AugAssign,
    ast.AnnAssign,
    ast.For,
    ast.While,
    ast.If,
    ast.Assert,
    ast.Expr,
    ast.Pass,
    ast.Break,
    ast.Continue,
    # expressions
    ast.BoolOp,
    ast.BinOp,
    ast.UnaryOp,
    ast.IfExp,
    ast.Compare,
    ast.Call,
    ast.Constant,
    ast.Attribute,
    ast.Subscript,
    ast.Slice,
    ast.Name,
    ast.List,
    ast.Tuple,
    # their parts
    ast.keyword,
    ast.boolop,
    ast.operator,
    ast.unaryop,
    ast.cmpop,
    ast.expr_context,
)
"""What Triton's code generator knows. Whatever else Python has would be seen by the interpreter alone."""

_CLOSED_BUILTINS: Final = frozenset(
    {
        "getattr",
        "setattr",
        "hasattr",
        "delattr",
        "eval",
        "exec",
        "compile",
        "open",
        "globals",
        "locals",
        "vars",
        "type",
        "object",
        "super",
    }
)


def _local_names(function: ast.FunctionDef) -> set[str]:
    names = {argument.arg for argument in _arguments(function)}
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
    return names


def _names_bound_on_some_paths(function: ast.FunctionDef) -> set[str]:
    """Return the names that are first bound inside a branch or a loop: after it the compiler forgets them again."""
    known = {argument.arg for argument in _arguments(function)}
    found = set()
    for statement in function.body:
        stored = {
            node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            known |= stored
        else:
            found |= stored - known
    return found


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_reachable(name: str) -> bool:
    """Whether a dotted name is a member (not a module) of what a kernel may reach."""
    if name in PURE_HELPERS or _is_math(name):
        return True
    if name in ALLOWED_MODULES | CLOSED_MEMBERS:
        return False
    parts = name.split(".")
    return parts[:2] == ["triton", "language"] and not any(part.startswith("_") for part in parts)


def _render(source: str, module: _Module) -> str:
    """Return the kept statements as text, each on its own line of the source; decorators become one of ours."""
    lines = _lines(source)
    rendered = [""] * len(lines)
    for statement in module.kept:
        first = statement.lineno - 1
        if isinstance(statement, ast.FunctionDef):
            rendered[first - 1] = f"@{JIT_NAME}"
            rendered[first : statement.end_lineno] = lines[first : statement.end_lineno]
        else:
            rendered[first] += ("; " if rendered[first] else "") + ast.unparse(statement)
    text = "\n".join(rendered) + "\n"
    _check_nothing_else(text, module)
    return text


def _check_nothing_else(text: str, module: _Module) -> None:
    """Raise unless `text` parses to exactly the checked statements: a shared line would smuggle others in."""
    expected = [_dump(statement) for statement in module.kept]
    try:
        found = [ast.dump(statement) for statement in ast.parse(text).body]
    except SyntaxError as error:
        raise ExtractionError(
            "a kept statement shares its lines with other code.", "Put one statement on a line.", error.lineno or 1
        ) from error
    if found != expected:
        raise ExtractionError("a kept statement shares its lines with other code.", "Put one statement on a line.", 1)


def _dump(statement: ast.stmt) -> str:
    """Return a checked statement as it must be found: a kernel carries our decorator and no other."""
    if isinstance(statement, ast.FunctionDef):
        found = ast.FunctionDef(**dict(ast.iter_fields(statement)))
        found.decorator_list = [ast.Name(id=JIT_NAME, ctx=ast.Load())]
        return ast.dump(found)
    return ast.dump(statement)
