"""Checks one kernel against the grammar and the library, and rebuilds what was checked: nothing else is rendered."""

import ast
import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeVar

from warpsmith.evaluator.languages.triton.extract import library
from warpsmith.evaluator.languages.triton.extract.constants import Evaluator
from warpsmith.evaluator.languages.triton.extract.flow import LoopIndices, read_where_unbound, stored
from warpsmith.evaluator.languages.triton.extract.grammar import (
    BODY_BUILTINS,
    COMPILER_BUILTINS,
    DEFINITION,
    FIELDS,
    INSTEAD,
    TYPE_TEST,
    unlisted,
)
from warpsmith.evaluator.languages.triton.extract.kernel import Kernel
from warpsmith.evaluator.languages.triton.extract.module import Module
from warpsmith.evaluator.languages.triton.extract.values import (
    RESERVED_PREFIX,
    Ambiguous,
    Binding,
    Constexpr,
    ExtractionError,
    Foreign,
    Function,
    Instance,
    Library,
    Record,
    Unknown,
    Value,
)
from warpsmith.evaluator.parsing import parse

Node = TypeVar("Node", bound=ast.AST)

LANGUAGE_NAME: Final = f"{RESERVED_PREFIX}_language"
"""The name by which rendered code reaches `triton.language` where the candidate's own name for it is hidden."""
MAX_INTEGER_BITS: Final = 128
MAX_TEXT: Final = 4096

_VALUE_ATTRIBUTES: Final = """
    T abs advance argmax argmin associative_scan atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or
    atomic_xchg atomic_xor block_shape broadcast_to cast cdiv ceil cos cumprod cumsum dtype element_ty erf exp
    exp2 expand_dims flip floor fp_mantissa_width gather histogram int_bitwidth is_bf16 is_block is_bool
    is_floating is_fp16 is_fp32 is_fp64 is_fp8 is_int is_int1 is_int16 is_int32 is_int64 is_int8 is_int_signed
    is_int_unsigned is_ptr is_uint16 is_uint32 is_uint64 is_uint8 load log log2 logical_and logical_or max min
    numel permute primitive_bitwidth ravel reduce reshape rsqrt scalar scatter shape sigmoid sin softmax sort
    split sqrt sqrt_rn store sum to trans type value view xor_sum
"""
VALUE_ATTRIBUTES: Final = frozenset(_VALUE_ATTRIBUTES.split())
"""What a kernel may read of a value: the methods and properties of Triton's tensors, dtypes and descriptors."""

MESSAGE_CALLS: Final = frozenset(
    f"triton.language.{name}_{what}" for name in ("static", "device") for what in ("assert", "print")
)
VALUELESS_CALLS: Final = MESSAGE_CALLS | {"triton.language.store", "triton.language.debug_barrier"}
_CONVERSIONS: Final = frozenset({-1, ord("s"), ord("r"), ord("a")})
_SHORT_DTYPES: Final = frozenset(
    {"u1", "fp16", "bf16", "fp32", "fp64", "fp8e4nv", "fp8e4b15", "fp8e5"}
    | {f"{sign}{bits}" for sign in "iu" for bits in (8, 16, 32, 64)}
)
_OPEN_PLACES: Final = library.ALLOWED_MODULES | {library.INDUCTOR} | library.ENUMS | frozenset(library.SAME_MEMBERS)
"""What a dotted name may lead through."""


@dataclass(frozen=True)
class Checked:
    """A kernel that may be compiled and interpreted.

    Attributes:
        kernel: what it was made of.
        definition: the function as it is rendered, with values for its defaults still left out.
        names: the names of the module that it reaches, with what they stand for.
        reached: the dotted names of the library that it reaches.
        captured: the names that it reaches whose values the source's text does not determine: names of functions
            around it, and computed ones of the module. Each of its launches reports what they are. Each has the line
            that first reads it.
        defaults: the default values that are known without running the source.
    """

    kernel: Kernel
    definition: ast.FunctionDef
    names: dict[str, Binding]
    reached: frozenset[str]
    captured: Mapping[str, int]
    defaults: Mapping[str, Value]


def check(kernel: Kernel, module: Module) -> Checked:
    """Return a kernel rebuilt from what was checked; ExtractionError where anything is refused."""
    return KernelCheck(kernel, module).run()


class KernelCheck:
    """Rebuilds one kernel.

    Attributes:
        fields: the grammar.
        builtins: names of Python's functions that it may use.
        title: what messages call it.
    """

    fields: ClassVar[Mapping[type[ast.AST], tuple[str, ...]]] = FIELDS
    builtins: ClassVar[frozenset[str]] = BODY_BUILTINS
    title: ClassVar[str] = "kernel"

    def __init__(self, kernel: Kernel, module: Module) -> None:
        self._kernel = kernel
        self._module = module
        self._names: dict[str, Binding] = {}
        self._reached: set[str] = set()
        self._alone: ast.expr | None = None
        self._captured: dict[str, int] = {}
        self._fields = frozenset(field for record in module.records.values() for field in record.fields)
        self._scope: Mapping[str, Binding] = module.names | dict(kernel.around)
        self._arguments = _arguments(kernel.node)
        self._local = {argument.arg for argument in self._arguments} | set(stored(kernel.node.body))
        self._built: dict[type[ast.AST], Callable[[Any], ast.AST]] = {
            ast.Assign: self._assign,
            ast.AugAssign: self._augmented,
            ast.For: self._for,
            ast.While: self._while,
            ast.If: self._if,
            ast.Expr: self._expression,
            ast.Assert: self._assert,
            ast.Call: self._call,
            ast.Compare: self._compare,
            ast.Attribute: self._attribute,
            ast.Subscript: self._subscript,
            ast.Name: self._name,
            ast.Constant: self._constant,
            ast.keyword: self._keyword,
            ast.JoinedStr: self._formatted,
            ast.Starred: self._not_starred,
        }
        self._called: set[ast.expr] = set()

    def run(self) -> Checked:
        """Check the definition, then the body."""
        node = self._kernel.node
        self._check_definition()
        self._check_scopes()
        arguments, body = self._definition_arguments(), self._body(node.body)
        definition = ast.copy_location(_function(self._kernel.text_name, arguments, body), node)
        reached, defaults = frozenset(self._reached), self._known_defaults()
        return Checked(self._kernel, definition, self._names, reached, MappingProxyType(self._captured), defaults)

    def refused(self, node: ast.AST, what: str, remedy: str) -> ExtractionError:
        """Return the error for a part of the kernel."""
        return self._error(node, f"cannot be compiled without its host code, since it uses {what}", remedy)

    def _error(self, node: ast.AST, why: str, remedy: str) -> ExtractionError:
        line = int(getattr(node, "lineno", self._kernel.node.lineno))
        return ExtractionError(f"{self.title} {self._kernel.name} {why}.", remedy, line)

    def _closed(self, node: ast.AST, written: str, full: str, remedy: str) -> ExtractionError | None:
        """Return the error for a member of the library that a kernel may not use; None for one that it may."""
        why = library.why_closed(full)
        if not why:
            return None
        remedy = library.in_place_of(full) or remedy
        if why == library.LACKING:
            return self._error(node, f"uses {library.shown(full)}. {why}", remedy)
        return self.refused(node, f"{written}: {why}", remedy)

    def _check_definition(self) -> None:
        node = self._kernel.node
        for part in (node, node.args, *self._arguments):
            if name := unlisted(part, DEFINITION):
                raise self.refused(
                    part if isinstance(part, ast.arg) else node,
                    f"{name} in its definition",
                    "Name every argument of a kernel, and define it without `/`, *args, **kwargs and type parameters.",
                )
        bound = self._scope.get(node.name)
        taken = self._kernel.text_name in COMPILER_BUILTINS and (bound is None or bound.value is not self._kernel)
        if taken or node.name.startswith(("__", RESERVED_PREFIX)) or not node.name.isascii():
            raise self.refused(node, f"the reserved name {node.name}", "Give the kernel a name of its own.")

    def _check_scopes(self) -> None:
        """Raise where the compiler's scopes give a name another meaning than Python's."""
        node = self._kernel.node
        LoopIndices(self._is_static_range, self.refused).check(node.body)
        known = {*self._scope, *self._module.kernels, *COMPILER_BUILTINS}
        reserved = {name for name in self._local if name.startswith(RESERVED_PREFIX)}
        for name in sorted(read_where_unbound(node) & known | reserved):
            raise self.refused(
                node,
                f"the name {name} for two things",
                "Bind it before the branch or loop that binds it, or give it another name.",
            )

    def _definition_arguments(self) -> ast.arguments:
        """Return the arguments in the order in which the compiler takes them, all by name or position."""
        defaults = [argument.arg in self._kernel.defaults for argument in self._arguments]
        if defaults != sorted(defaults):
            raise self.refused(
                self._kernel.node,
                "a keyword-only argument without a default after one with it",
                "Put those with a default last.",
            )
        parameters = [ast.arg(arg=each.arg, annotation=self._annotation(each)) for each in self._arguments]
        return ast.arguments(posonlyargs=[], args=parameters, kwonlyargs=[], kw_defaults=[], defaults=[])

    def _known_defaults(self) -> dict[str, Value]:
        """Return the known defaults of the last arguments: a launch gives each argument's value anyway."""
        known: dict[str, Value] = {}
        for argument in reversed(self._arguments):
            default = self._kernel.defaults.get(argument.arg, _ABSENT)
            if not _is_renderable(default):
                break
            known[argument.arg] = default
        return known

    def _annotation(self, argument: ast.arg) -> ast.expr | None:
        """Return the annotation if it means something to Triton: a constexpr, or the dtype of a number."""
        kind = "" if argument.annotation is None else self._meaning(argument.annotation)
        if not kind:
            return None
        return ast.Constant(value=kind) if kind != "constexpr" else self._language("constexpr")

    def _meaning(self, annotation: ast.expr) -> str:
        """Return `constexpr`, the name of a dtype, or nothing: no annotation is ever evaluated."""
        text = annotation.value if isinstance(annotation, ast.Constant) else None
        if isinstance(text, str):
            inner = _parsed(text)
            if "constexpr" in text:
                return "constexpr"
            return self._meaning(inner) if inner is not None and not isinstance(inner, ast.Constant) else ""
        parts = [node for node in ast.walk(annotation) if isinstance(node, ast.Name | ast.Attribute | ast.Constant)]
        if any(self._is_constexpr(part) for part in parts):
            return "constexpr"
        return self._dtype(annotation)

    def _is_constexpr(self, part: ast.expr) -> bool:
        if isinstance(part, ast.Constant):
            return isinstance(part.value, str) and "constexpr" in part.value
        return Evaluator(self._scope).value(part) == Library(library.CONSTEXPR)

    def _dtype(self, annotation: ast.expr) -> str:
        if isinstance(annotation, ast.Name) and annotation.id in {"int", "float", "bool", *_SHORT_DTYPES}:
            return annotation.id
        match Evaluator(self._scope).value(annotation):
            case Library(name=name) if library.is_dtype(name):
                return name.rpartition(".")[2]
            case _:
                return ""

    def _language(self, member: str) -> ast.expr:
        """Return `tl.member`, by the name that the candidate has for the language if the kernel can see it."""
        for name, bound in self._scope.items():
            if bound.value == Library(library.LANGUAGE) and name not in self._local | self._kernel.hidden:
                self._names[name] = bound
                return ast.Attribute(value=ast.Name(id=name, ctx=ast.Load()), attr=member, ctx=ast.Load())
        return ast.Attribute(value=ast.Name(id=LANGUAGE_NAME, ctx=ast.Load()), attr=member, ctx=ast.Load())

    def _body(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return the rebuilt statements, without those that have no effect; `pass` where none is left."""
        built: list[ast.stmt] = []
        for statement in statements:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue
            if isinstance(statement, ast.AnnAssign):
                built.extend(self._annotated(statement))
            else:
                built.append(self._copy(statement))
        return built or [ast.copy_location(ast.Pass(), statements[0])]

    def _copy(self, node: Node) -> Node:
        """Return a node rebuilt from its checked parts."""
        if type(node) not in self.fields:
            remedy = INSTEAD.get(type(node), "Leave it out.")
            raise self.refused(node, f"a {type(node).__name__}", remedy)
        if name := unlisted(node, self.fields):
            raise self.refused(node, f"{name} of a {type(node).__name__}", _IN_PARTS.get(name, "Leave it out."))
        build = self._built.get(type(node), self._generic)
        return ast.copy_location(build(node), node)  # type: ignore[return-value]

    def _generic(self, node: ast.AST) -> ast.AST:
        fields: dict[str, Any] = {}
        for name in self.fields[type(node)]:
            value = getattr(node, name)
            if isinstance(value, list):
                value = [self._copy(item) for item in value]
            elif isinstance(value, ast.AST):
                value = self._copy(value)
            fields[name] = value
        return type(node)(**fields)

    # Statements

    def _target(self, node: ast.expr) -> ast.expr:
        match node:
            case ast.Name(id=name):
                return ast.copy_location(ast.Name(id=name, ctx=ast.Store()), node)
            case ast.Tuple(elts=parts):
                built = ast.Tuple(elts=[self._target(part) for part in parts], ctx=ast.Store())
                return ast.copy_location(built, node)
            case _:
                raise self.refused(node, f"an assignment to {ast.unparse(node)[:60]}", "Assign to a name.")

    def _target_name(self, node: ast.expr) -> ast.Name:
        target = self._target(node)
        if not isinstance(target, ast.Name):
            raise self.refused(node, f"an assignment to {ast.unparse(node)[:60]} here", "Assign to one name.")
        return target

    def _assign(self, node: ast.Assign) -> ast.AST:
        if len(node.targets) != 1:
            raise self.refused(node, "an assignment to several targets", "Assign to one after the other.")
        return ast.Assign(targets=[self._target(node.targets[0])], value=self._copy(node.value), lineno=node.lineno)

    def _augmented(self, node: ast.AugAssign) -> ast.AST:
        return ast.AugAssign(
            target=self._target_name(node.target), op=self._copy(node.op), value=self._copy(node.value)
        )

    def _annotated(self, node: ast.AnnAssign) -> Iterator[ast.stmt]:
        """`x: tl.constexpr = v` stays; any other annotation is dropped, since it is not compiled."""
        target = self._target_name(node.target)
        static = self._meaning(node.annotation) == "constexpr"
        if node.value is None and static:
            raise self.refused(node, "an annotation without a value", "Write `name: tl.constexpr = value`.")
        if node.value is None:
            return
        value = self._copy(node.value)
        assigned: ast.stmt = ast.Assign(targets=[target], value=value, lineno=node.lineno)
        if static:
            assigned = ast.AnnAssign(target=target, annotation=self._language("constexpr"), value=value, simple=1)
        yield ast.copy_location(assigned, node)

    def _for(self, node: ast.For) -> ast.AST:
        if not isinstance(node.iter, ast.Call):
            raise self.refused(node, "a loop that runs through a value", "Use range, tl.range or tl.static_range.")
        target, items, body = self._target_name(node.target), self._copy(node.iter), self._body(node.body)
        return ast.For(target=target, iter=items, body=body, orelse=[], lineno=node.lineno)

    def _while(self, node: ast.While) -> ast.AST:
        return ast.While(test=self._copy(node.test), body=self._body(node.body), orelse=[])

    def _if(self, node: ast.If) -> ast.AST:
        otherwise = self._body(node.orelse) if node.orelse else []
        return ast.If(test=self._copy(node.test), body=self._body(node.body), orelse=otherwise)

    def _expression(self, node: ast.Expr) -> ast.AST:
        """Note a call that stands alone: only such a one may have no value."""
        self._alone = node.value
        return ast.Expr(value=self._copy(node.value))

    def _assert(self, node: ast.Assert) -> ast.AST:
        message = None if node.msg is None else self._message(node.msg)
        return ast.Assert(test=self._copy(node.test), msg=message)

    # Expressions

    def _call(self, node: ast.Call) -> ast.AST:
        """Let messages be formatted; a formatted value anywhere else could be read."""
        if self._is_free(node.func, TYPE_TEST):
            return self._type_test(node)
        full = self._dotted(node.func) or ""
        printed = isinstance(node.func, ast.Name) and node.func.id == "print" and not full
        if (printed or full in VALUELESS_CALLS) and node is not self._alone:
            raise self.refused(
                node, f"the value of {ast.unparse(node.func)}, which has none", "Call it on a line of its own."
            )
        self._called.add(node.func)
        if full:
            # `tl.reduce` and the like take a function.
            self._called.update([*node.args, *(keyword.value for keyword in node.keywords)])
        build = self._message if full in MESSAGE_CALLS else self._copy
        return ast.Call(
            func=self._copy(node.func),
            args=[self._starred(each) if isinstance(each, ast.Starred) else build(each) for each in node.args],
            keywords=self._field_keywords(node) or [self._copy(keyword) for keyword in node.keywords],
        )

    def _starred(self, node: ast.Starred) -> ast.expr:
        return ast.copy_location(ast.Starred(value=self._copy(node.value), ctx=ast.Load()), node)

    def _not_starred(self, node: ast.Starred) -> ast.AST:
        raise self.refused(node, "a Starred outside of a call", INSTEAD[ast.Starred])

    def _field_keywords(self, node: ast.Call) -> list[ast.keyword]:
        """Return the keywords of a call that makes a named tuple, which are its fields."""
        name = node.func.id if isinstance(node.func, ast.Name) and node.func.id not in self._local else ""
        bound = self._scope.get(name)
        if bound is None or not isinstance(bound.value, Record):
            return []
        fields = [keyword for keyword in node.keywords if keyword.arg in bound.value.fields]
        return [ast.keyword(arg=field_name(str(one.arg)), value=self._copy(one.value)) for one in fields]

    def _is_free(self, node: ast.expr, name: str) -> bool:
        """Whether a node is a name that neither the kernel nor its module binds."""
        bound = self._local | self._kernel.hidden | self._scope.keys()
        return isinstance(node, ast.Name) and node.id == name and name not in bound

    def _type_test(self, node: ast.Call) -> ast.AST:
        """`isinstance(x, tl.tensor_descriptor)`: other types the compiler and the interpreter give to other values."""
        match node:
            case ast.Call(args=[value, asked], keywords=[]) if self._dotted(asked) == library.DESCRIPTOR:
                member = _path(LANGUAGE_NAME, library.DESCRIPTOR.rpartition(".")[2])
                return ast.Call(
                    func=ast.Name(id=TYPE_TEST, ctx=ast.Load()), args=[self._copy(value), member], keywords=[]
                )
            case _:
                raise self.refused(
                    node,
                    f"`{ast.unparse(node)[:60]}`",
                    "Of isinstance a kernel may have `isinstance(x, tl.tensor_descriptor)`. Decide by a constexpr.",
                )

    def _message(self, node: ast.expr) -> ast.expr:
        if not isinstance(node, ast.JoinedStr):
            return self._copy(node)
        parts = [self._message_part(part) for part in node.values]
        return ast.copy_location(ast.JoinedStr(values=parts), node)

    def _message_part(self, part: ast.expr) -> ast.expr:
        """Return a part of a message. Its format says nothing to the compiler, and must hold nothing but text."""
        match part:
            case ast.Constant(value=str(text)):
                return ast.copy_location(ast.Constant(value=_one_line(text)), part)
            case ast.FormattedValue(value=value, conversion=conversion, format_spec=form) if conversion in _CONVERSIONS:
                for inner in [] if form is None else form.values if isinstance(form, ast.JoinedStr) else [form]:
                    if not isinstance(inner, ast.Constant):
                        raise self.refused(part, "a computed format", "Format a message with constants.")
                built = ast.FormattedValue(value=self._copy(value), conversion=conversion, format_spec=None)
                return ast.copy_location(built, part)
            case _:
                raise self.refused(part, f"a {type(part).__name__} in a message", "Format values alone.")

    def _formatted(self, node: ast.JoinedStr) -> ast.AST:
        raise self.refused(node, "a JoinedStr outside of a message", "Format messages of assertions and prints alone.")

    def _compare(self, node: ast.Compare) -> ast.AST:
        """Refuse to ask for identity, which compiled and interpreted values have differently, but with None."""
        operands = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
            with_none = any(isinstance(side, ast.Constant) and side.value is None for side in (left, right))
            if isinstance(operator, ast.Is | ast.IsNot) and not with_none:
                raise self.refused(node, "`is` between values", "Use ==, or compare with None.")
        return self._generic(node)

    def _constant(self, node: ast.Constant) -> ast.AST:
        match node.value:
            case bool() | None | float():
                pass
            case int(number) if number.bit_length() <= MAX_INTEGER_BITS:
                pass
            case str(text) if len(text) <= MAX_TEXT:
                pass
            case _:
                raise self.refused(node, f"the constant {str(node.value)[:40]}", "Use a number or a text.")
        return ast.Constant(value=node.value)

    def _keyword(self, node: ast.keyword) -> ast.AST:
        if node.arg is None or node.arg.startswith("_"):
            raise self.refused(node, f"the keyword {node.arg or '**'}", "Pass only what Triton documents, by name.")
        return ast.keyword(arg=node.arg, value=self._copy(node.value))

    def _subscript(self, node: ast.Subscript) -> ast.AST:
        if not isinstance(node.ctx, ast.Load):
            raise self.refused(node, "an assignment to a part", "Store to memory, or bind a name.")
        return self._generic(node)

    def _attribute(self, node: ast.Attribute) -> ast.AST:
        if not isinstance(node.ctx, ast.Load):
            raise self.refused(node, f"the attribute {node.attr} as a target", "Assign to a name of the kernel.")
        full = self._dotted(node)
        if full is not None and full.startswith(f"{library.INDUCTOR}."):
            return self._inductor_member(full, node)
        if full is not None:
            return self._library_member(full, node)
        if node.attr.startswith("_"):
            raise self.refused(
                node, f"the attribute {node.attr}", "Names that begin with an underscore are closed to kernels."
            )
        if node.attr not in VALUE_ATTRIBUTES | self._fields:
            raise self.refused(
                node,
                f"the attribute {node.attr}",
                "Of a value a kernel may use the methods of Triton's tensors, and the fields of a NamedTuple that the "
                "file defines at module level.",
            )
        attr = field_name(node.attr) if node.attr in self._fields else node.attr
        return ast.Attribute(value=self._copy(node.value), attr=attr, ctx=ast.Load())

    def _dotted(self, node: ast.expr) -> str | None:
        """Return the library's full name for `a.b.c`; None for a value of the kernel."""
        match node:
            case ast.Name(id=name) if name not in self._local | self._kernel.hidden:
                bound = self._scope.get(name)
                if bound is not None and bound.value == Foreign(library.INDUCTOR):
                    return library.INDUCTOR
                return bound.value.name if bound is not None and isinstance(bound.value, Library) else None
            case ast.Attribute(value=value, attr=attr):
                base = self._dotted(value)
                return library.canonical(f"{base}.{attr}") if base in _OPEN_PLACES else None
            case _:
                return None

    def _inductor_member(self, full: str, node: ast.Attribute) -> ast.AST:
        """Return torch's own kernel for `triton_helpers.maximum`, by its name in the rendered source."""
        helper = self._module.inductor.get(full.removeprefix(f"{library.INDUCTOR}."))
        if helper is None:
            remedy = "Of triton_helpers a kernel may use its @triton.jit functions, libdevice and math."
            raise self.refused(node, full, remedy)
        self._names[helper.name] = Binding(helper, helper.node.lineno)
        return ast.Name(id=helper.name, ctx=ast.Load())

    def _note_root(self, node: ast.expr) -> None:
        root = _parts(node)[0]
        self._names[root] = self._scope[root]

    def _library_member(self, full: str, node: ast.Attribute) -> ast.AST:
        """Return `tl.exp` as the candidate writes it, by the library's own path to it."""
        remedy = "A kernel may use triton.language, its math and extra modules, and math."
        if error := self._closed(node, full, full, remedy):
            raise error
        self._check_called(full, node)
        self._reached.add(full)
        if self._as_written(node) == full:
            self._note_root(node)
            return _path(*_parts(node))
        return _path(LANGUAGE_NAME, *full.removeprefix(f"{library.LANGUAGE}.").split("."))

    def _as_written(self, node: ast.Attribute) -> str:
        """Return the path that the source writes, from the module that the name at its begin is bound to."""
        root, *rest = _parts(node)
        bound = self._scope[root].value
        begin = bound.name if isinstance(bound, Library) and bound.name in library.ALLOWED_MODULES else ""
        return ".".join([begin, *rest])

    def _name(self, node: ast.Name) -> ast.AST:
        if not isinstance(node.ctx, ast.Load):
            raise self.refused(node, f"{node.id} as a target here", "Assign to a name.")
        if node.id not in self._local:
            self._global(node)
        return ast.Name(id=node.id, ctx=ast.Load())

    def _global(self, node: ast.Name) -> None:
        name = node.id
        bound = self._scope.get(name)
        if name.startswith(("__", RESERVED_PREFIX)):
            raise self.refused(node, f"the reserved name {name}", "Give it another name.")
        if name in self._kernel.hidden:
            self._captured.setdefault(name, node.lineno)
            return
        if bound is None:
            if name not in self.builtins:
                if self._is_reported(_ABSENT) and not hasattr(builtins, name):
                    self._captured.setdefault(name, node.lineno)
                    return
                raise self.refused(node, f"the global {name}", _NAMES)
            self._check_called("", node)
            return
        if self._is_reported(bound.value):
            self._captured.setdefault(name, node.lineno)
            return
        self._check_value(name, bound, node)
        self._names[name] = bound

    @classmethod
    def _is_reported(cls, value: Value) -> bool:
        """Whether a launch reports a name's value, since the source's text does not determine it."""
        match value:
            case Ambiguous():
                return True
            case Kernel(wrapped=wrapped, computes=computes):
                # What a decorator of the module makes of it is known only where the source runs.
                return bool(wrapped) and not computes
            case Unknown():
                return not value.is_class
            case tuple() | list() | Constexpr():
                return not _is_renderable(value)
            case _:
                return False

    def _check_value(self, name: str, bound: Binding, node: ast.Name) -> None:
        match bound.value:
            case Record(fields=fields, defaults=defaults):
                if any(not field.isidentifier() or field.startswith("_") for field in fields):
                    raise self.refused(node, f"the class {name}", "Let the names of its fields begin with a letter.")
                if not all(map(_is_renderable, defaults)):
                    raise self.refused(node, f"a default of the class {name}", "Let its defaults be constants.")
                self._check_called_class(node)
            case Library(name=full):
                remedy = "Name what you need of it: tl.load, math.pi."
                if error := self._closed(node, f"{name} ({full})", full, remedy):
                    raise error
                self._check_called(full, node)
                self._reached.add(full)
            case Ambiguous(lines=lines):
                places = " and ".join(map(str, lines))
                raise self.refused(
                    node, f"the global {name}, which is bound in lines {places}", "Give each binding a name of its own."
                )
            case Unknown(why=why):
                raise self.refused(
                    node,
                    f"the global {name} of line {bound.line} ({why})",
                    _RECORDS if bound.value.is_class else _VALUES,
                )
            case Kernel(wrapped=wrapped) if wrapped:
                raise self.refused(
                    node, f"{name}, which {wrapped} decorates", "Call a function that only @triton.jit decorates."
                )
            case Instance():
                raise self.refused(
                    node,
                    f"the global {name} of line {bound.line}, a class or an object of one",
                    "Take what you need of it into a constant of the module: N = tl.constexpr(Config.n).",
                )
            case Function():
                raise self.refused(node, f"the global {name}, a plain function", "Decorate it with @triton.jit.")
            case Foreign(name=full):
                raise self.refused(node, f"the global {name} ({full})", _NAMES)
            case value if not _is_renderable(value):
                raise self.refused(node, f"the global {name} of line {bound.line}", "Use numbers and tl.constexpr.")

    def _check_called_class(self, node: ast.Name) -> None:
        if node not in self._called:
            raise self.refused(node, f"the class {node.id} as a value", "Call it, to make a tuple.")

    def _check_called(self, full: str, node: ast.expr) -> None:
        """Raise for a function of the library, or a builtin, that is not called and not passed to the library.

        As a value it is a different object to the interpreter than to the compiler, which `tl.exp == tl.math.exp`
        reveals.
        """
        if node not in self._called and (not full or library.is_function(full)):
            raise self.refused(node, f"the function {ast.unparse(node)} as a value", "Call it where it is needed.")

    def _is_static_range(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and self._dotted(node.func) == "triton.language.static_range"


def field_name(field: str) -> str:
    """Return the name that a field of a named tuple has in the rendered source.

    No other value has an attribute of that name: a field named `handle` opens no tensor's.
    """
    return field if field in VALUE_ATTRIBUTES else f"{RESERVED_PREFIX}_field_{field}"


_ABSENT: Final = Unknown("there is none")
_IN_PARTS: Final = MappingProxyType(
    {
        "orelse": "Kernels have no `else` of a loop: write what it does behind the loop.",
        "type_comment": "Leave the comment out.",
    }
)
_VALUES: Final = "Write its value out, or compute it on the host and pass it as a tl.constexpr argument."
_RECORDS: Final = "Make it a typing.NamedTuple at module level, and @triton.jit functions of its methods."
_NAMES: Final = (
    "A kernel may name its arguments and locals, other @triton.jit functions of the file, and module-level "
    "tl.constexpr constants."
)


def _function(name: str, arguments: ast.arguments, body: list[ast.stmt]) -> ast.FunctionDef:
    later: dict[str, Any] = {"type_params": []} if "type_params" in ast.FunctionDef._fields else {}
    return ast.FunctionDef(name=name, args=arguments, body=body, decorator_list=[], **later)


def _arguments(function: ast.FunctionDef) -> list[ast.arg]:
    """Return the arguments of a function; that it takes others is refused elsewhere."""
    return [*function.args.args, *function.args.kwonlyargs]


def _parts(node: ast.expr) -> list[str]:
    """Return the names of `a.b.c`."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    return [node.id, *parts] if isinstance(node, ast.Name) else parts


def _path(root: str, *rest: str) -> ast.expr:
    node: ast.expr = ast.Name(id=root, ctx=ast.Load())
    for part in rest:
        node = ast.Attribute(value=node, attr=part, ctx=ast.Load())
    return node


def _parsed(text: str) -> ast.expr | None:
    try:
        return parse(text.strip(), "eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None


def _one_line(text: str) -> str:
    """Return a text of a message without what could end its line or its quotes."""
    return "".join(sign if sign.isprintable() and sign not in '\\"' else " " for sign in text)


def _is_renderable(value: Value) -> bool:
    match value:
        case Constexpr(value=inner):
            return _is_renderable(inner)
        case tuple() | list():
            return all(map(_is_renderable, value))
        case Library(name=name):
            # A function in a constant could be compared with another, which reveals what runs the kernel.
            named = name.startswith(library.LANGUAGE) or library.number(name) is not None
            return named and not library.why_closed(name) and not library.is_function(name)
        case int() | str():
            return value.bit_length() <= MAX_INTEGER_BITS if isinstance(value, int) else len(value) <= MAX_TEXT
        case _:
            return (
                value is None or isinstance(value, float | Record) or (isinstance(value, Kernel) and not value.wrapped)
            )
