"""Reads the subset of PTX that kernels compiled by Triton and nvcc need, and rejects the rest.

The text includes inline assembly, so it can contain anything. The output is rewritten from what was parsed, so the
assembler sees nothing else: no comment, preprocessor directive or debug section.
Source: NVIDIA, Parallel Thread Execution ISA, version 9.0.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from warpsmith.evaluator.errors import EvaluatorError

ITEM_BYTES: Final = {
    **dict.fromkeys(("b8", "u8", "s8"), 1),
    **dict.fromkeys(("b16", "u16", "s16", "f16", "bf16"), 2),
    **dict.fromkeys(("b32", "u32", "s32", "f32", "f16x2", "bf16x2"), 4),
    **dict.fromkeys(("b64", "u64", "s64", "f64"), 8),
    "b128": 16,
}
"""Sizes in bytes of the types of registers, variables and memory accesses."""

Operand = tuple[str, ...]
"""The tokens of one operand."""

_WORD: Final = r"[A-Za-z_$%.][\w$.%]*(?:::[\w$.%]+)*"
_NUMBER: Final = (
    r"(?:0[xX][0-9a-fA-F]+|0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[bB][01]+|\d+\.\d+(?:[eE][+-]?\d+)?|\d+)U?"
)
_TOKEN: Final = re.compile(
    r"(?P<gap>[ \t\r]+|//[^\n]*|/\*.*?\*/)"
    rf'|(?P<text>\n|"[^"\n]*"|{_WORD}|{_NUMBER}(?![\w$%])|<<|>>|[{{}}()\[\];,:@!|+\-<>=*~&^])',
    re.DOTALL,
)
_JOINED: Final = re.compile(r"[\w$%.]{2}|<<|>>|::")
"""Pairs of characters that must not meet where two tokens join without a space."""
_INTEGER: Final = re.compile(r"(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?")
_LOCATION: Final = re.compile(r"\d+ \d+ \d+(?: , function_name \S+ , inlined_at \d+ \d+ \d+)?")
_LINKAGE: Final = frozenset({".visible", ".extern", ".weak"})
_KERNEL_SIZES: Final = frozenset(
    {".reqntid", ".maxntid", ".minnctapersm", ".maxnreg", ".reqnctapercluster", ".maxclusterrank"}
)
_KERNEL_FLAGS: Final = frozenset({".explicitcluster", ".blocksareclusters"})


class PtxError(EvaluatorError):
    """PTX outside the supported subset."""


@dataclass(frozen=True)
class Variable:
    """A variable. `type` is that of an item; `items` is None for a scalar, 0 for an array of unknown length."""

    space: str
    name: str
    type: str
    items: int | None = None
    align: int = 0
    pointer: bool = False

    @property
    def size(self) -> int:
        """Size in bytes."""
        return ITEM_BYTES[self.type] * (1 if self.items is None else self.items)


@dataclass(frozen=True)
class Registers:
    """A register (`count` 0), or the registers name0 to name(count - 1); `type` is `pred` or one of ITEM_BYTES."""

    type: str
    name: str
    count: int = 0

    def names(self) -> list[str]:
        """Return the names of the registers."""
        return [f"{self.name}{number}" for number in range(self.count)] if self.count else [self.name]


@dataclass(frozen=True)
class Label:
    """A label in the code."""

    name: str


@dataclass(frozen=True)
class Targets:
    """The labels that an indexed branch can jump to."""

    name: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Scope:
    """The beginning or end of a scope."""

    opens: bool


@dataclass(frozen=True)
class Instruction:
    """One instruction; `predicate` is empty or a register, with an exclamation mark if negated."""

    predicate: str
    opcode: str
    operands: tuple[Operand, ...]

    @property
    def base(self) -> str:
        """The operation without its qualifiers."""
        return self.opcode.partition(".")[0]

    @property
    def qualifiers(self) -> list[str]:
        """The qualifiers after the operation."""
        return self.opcode.split(".")[1:]

    def __str__(self) -> str:
        guard = f"@{self.predicate} " if self.predicate else ""
        operands = ", ".join(map(written, self.operands))
        return f"{guard}{self.opcode}{' ' if operands else ''}{operands};"


Statement = Variable | Registers | Label | Targets | Scope | Instruction


@dataclass
class Function:
    """A function, or the kernel, which returns nothing."""

    name: str
    results: list[Variable] = field(default_factory=list)
    parameters: list[Variable] = field(default_factory=list)
    directives: list[str] = field(default_factory=list)
    body: list[Statement] = field(default_factory=list)

    @property
    def heading(self) -> str:
        """Its declaration without linkage, directives and terminator."""
        results = f"({', '.join(map(declaration, self.results))}) " if self.results else ""
        return f"{results}{self.name}({', '.join(map(declaration, self.parameters))})"


@dataclass
class Module:
    """Kernels with everything that they refer to.

    Attributes:
        head: version and target.
        variables: each with its declaration as written.
        declared: forward declarations, and functions of the driver, as written.
        functions: the defined functions.
        entries: the kernels; exactly one in a module of Triton.
    """

    head: list[str] = field(default_factory=list)
    variables: list[tuple[Variable, str]] = field(default_factory=list)
    declared: list[tuple[str, str]] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    entries: list[Function] = field(default_factory=list)

    @property
    def entry(self) -> Function:
        """The kernel."""
        return self.entries[0]

    @property
    def arch(self) -> int:
        """The target compute capability, 90 for sm_90a."""
        return int(next(found for line in self.head for found in re.findall(r"\.target sm_(\d+)", line)))


def written(tokens: Operand) -> str:
    """Return tokens as text that parses to the same tokens."""
    text = ""
    for token in tokens:
        text += " " + token if _JOINED.search(text[-1:] + token[:1]) else token
    return text


def integer(token: str) -> int:
    """Return an integer; PtxError if the token is not one."""
    if not _INTEGER.fullmatch(token):
        raise PtxError(f"{token} is not a whole number; one was expected.")
    return int(token.rstrip("U"), 0) if not re.fullmatch(r"0\d+U?", token) else int(token.rstrip("U"), 8)


def read(text: str) -> Module:
    """Read a module with one kernel.

    Raises:
        PtxError: it contains something unsupported; the message names it.
    """
    made = _Reader(list(tokens(text))).module()
    if len(made.entries) != 1:
        raise PtxError(f"The text has {len(made.entries)} kernels; one was expected.")
    return made


def read_all(text: str) -> Module:
    """Read a module of nvcc, with any number of kernels, weak symbols, and shared memory of fixed size.

    Raises:
        PtxError: it contains something unsupported; the message names it.
    """
    return _Reader(list(tokens(text)), of_nvcc=True).module()


def tokens(text: str) -> Iterator[str]:
    """Yield the tokens of PTX, and a newline for each gap that contains one; PtxError for anything else."""
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise PtxError(f"{text[at : at + 30].splitlines()[0]!r} is not PTX that is understood here.")
        at = found.end()
        token = found["text"]
        if token is not None:
            yield token
        elif "\n" in found["gap"]:
            yield "\n"


class _Reader:
    """Consumes tokens. Line ends matter only for directives that end with their line."""

    def __init__(self, tokens: list[str], *, of_nvcc: bool = False) -> None:
        self._tokens = tokens
        self._of_nvcc = of_nvcc
        self._at = 0

    # --- tokens ---

    def _peek(self) -> str:
        while self._at < len(self._tokens) and self._tokens[self._at] == "\n":
            self._at += 1
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        if not token:
            raise PtxError("The text ends within a statement.")
        self._at += 1
        return token

    def _take(self, expected: str) -> None:
        found = self._next()
        if found != expected:
            raise PtxError(f"found {found}, expected {expected}.")

    def _accept(self, wanted: str) -> bool:
        if self._peek() != wanted:
            return False
        self._at += 1
        return True

    def _line(self) -> Operand:
        """Take the rest of the line."""
        start = self._at
        while self._at < len(self._tokens) and self._tokens[self._at] != "\n":
            self._at += 1
        return tuple(self._tokens[start : self._at])

    def _until(self, end: str) -> Operand:
        taken = []
        while (token := self._next()) != end:
            taken.append(token)
        return tuple(taken)

    def _skip_braces(self) -> None:
        self._take("{")
        while (token := self._next()) != "}":
            if token == "{":
                raise PtxError("A debug section holds a scope.")

    # --- the module ---

    def module(self) -> Module:
        made = Module()
        while self._peek():
            self._top(made)
        if sum(line.startswith(".target") for line in made.head) != 1:
            raise PtxError("The text has not exactly one .target.")
        return made

    def _top(self, made: Module) -> None:
        token = self._next()
        match token:
            case ".version" | ".target" | ".address_size":
                made.head.append(self._headline(token))
            case ".file":
                self._line()
            case ".section":
                self._next()
                self._skip_braces()
            case ".pragma":
                self._until(";")
            case _:
                self._linked(made, token)

    def _headline(self, directive: str) -> str:
        text = f"{directive} {written(self._line())}"
        if not re.fullmatch(r"\.version \d+\.\d+|\.target sm_\d+[af]?|\.address_size 64", text):
            raise PtxError(f"{text} is not a head of a module that is understood here.")
        return text

    def _linked(self, made: Module, token: str) -> None:
        linkage = token if token in _LINKAGE else ""
        kind = self._next() if linkage else token
        if self._of_nvcc and linkage != ".extern" and kind in (".entry", ".func"):
            # In a module of its own, a kernel or a function needs no linkage.
            linkage = ".visible" if kind == ".entry" else ""
        if kind == ".entry" and linkage == ".visible":
            made.entries.append(self._defined(Function(self._name(), [], self._parameters())))
        elif kind == ".func" and linkage in ("", ".extern"):
            self._function(made, linkage)
        elif kind in (".global", ".const") and linkage != ".extern":
            made.variables.append(self._global(linkage, kind))
        elif kind == ".shared" and linkage == ".extern":
            declared = self._variable("shared")
            self._take(";")
            made.variables.append((declared, f".extern {declaration(declared)};"))
        elif self._of_nvcc and kind == ".shared" and not linkage:
            made.variables.append(self._global("", kind))
        else:
            raise PtxError(
                f"{' '.join(filter(None, (linkage, kind)))} at the top level is not understood. A kernel may have one "
                ".entry, functions, variables that it reads and memory that its blocks share."
            )

    def _function(self, made: Module, linkage: str) -> None:
        results = self._parameters() if self._peek() == "(" else []
        function = Function(self._name(), results, self._parameters() if self._peek() == "(" else [])
        ending = " .noreturn" if self._accept(".noreturn") else ""
        if self._accept(";"):
            text = f"{linkage} .func {function.heading}{ending};".strip()
            made.declared.append((function.name, text))
        elif linkage:
            raise PtxError(f"The function {function.name} is declared .extern and defined.")
        else:
            made.functions.append(self._defined(function))

    def _global(self, linkage: str, space: str) -> tuple[Variable, str]:
        declared = self._variable(space[1:])
        tokens = self._until(";")
        if tokens and tokens[0] != "=":
            raise PtxError(f"{tokens[0]} follows the declaration of {declared.name}.")
        if declared.items == 0:
            raise PtxError(f"The variable {declared.name} has no size.")
        return declared, f"{linkage} {declaration(declared)} {' '.join(tokens)};".strip()

    def _parameters(self) -> list[Variable]:
        taken: list[Variable] = []
        self._take("(")
        while not self._accept(")"):
            if taken:
                self._take(",")
            self._take(".param")
            taken.append(self._variable("param"))
        return taken

    def _defined(self, function: Function) -> Function:
        while (token := self._next()) != "{":
            function.directives.append(self._directive(token))
        function.body = list(self._body())
        return function

    def _directive(self, token: str) -> str:
        if token in _KERNEL_FLAGS:
            return token
        if token not in _KERNEL_SIZES:
            raise PtxError(f"{token} is not a directive of a kernel that is understood here.")
        sizes = [integer(self._next())]
        while self._accept(","):
            sizes.append(integer(self._next()))
        return f"{token} {', '.join(map(str, sizes))}"

    def _name(self) -> str:
        name = self._next()
        if not re.fullmatch(r"[A-Za-z_$%][\w$]*", name):
            raise PtxError(f"{name} is not a name that is understood here.")
        return name

    def _variable(self, space: str) -> Variable:
        """Read a declaration after its space: `.align 4 .b8 name[8]`, or `.u64 .ptr .global .align 1 name`."""
        align = integer(self._next()) if self._accept(".align") else 0
        kind = self._type()
        pointer = self._accept(".ptr")
        if pointer:
            for word in (".global", ".shared", ".const", ".local"):
                self._accept(word)
            if self._accept(".align"):
                self._next()
        name = self._name()
        return Variable(space, name, kind, self._length(), align, pointer)

    def _length(self) -> int | None:
        if not self._accept("["):
            return None
        if self._accept("]"):
            return 0
        length = integer(self._next())
        self._take("]")
        return length

    def _type(self) -> str:
        kind = self._next()
        if kind[1:] not in ITEM_BYTES:
            raise PtxError(f"{kind} is not a type of a variable that is understood here.")
        return kind[1:]

    # --- the body ---

    def _body(self) -> Iterator[Statement]:
        depth = 1
        while depth:
            token = self._next()
            if token == "{":
                depth += 1
                yield Scope(True)
            elif token == "}":
                depth -= 1
                if depth:
                    yield Scope(False)
            else:
                yield from self._statement(token)

    def _statement(self, token: str) -> Iterator[Statement]:
        match token:
            case ".loc":
                self._location()
            case ".pragma":
                self._until(";")
            case ".reg":
                yield from self._registers()
            case ".local" | ".param":
                yield self._variable(token[1:])
                self._take(";")
            case ".shared" if self._of_nvcc:
                yield self._variable("shared")
                self._take(";")
            case ";":
                pass
            case "@":
                yield self._instruction(self._predicate(), self._next())
            case _ if token.startswith("."):
                raise PtxError(f"The directive {token} within a kernel is not understood.")
            case _ if self._accept(":"):
                yield self._label(token)
            case _:
                yield self._instruction("", token)

    def _location(self) -> None:
        line = " ".join(self._line())
        if not _LOCATION.fullmatch(line):
            raise PtxError(f".loc {line[:60]} is not understood.")

    def _label(self, name: str) -> Label | Targets:
        if not re.fullmatch(r"[A-Za-z_$%][\w$]*", name):
            raise PtxError(f"{name} is not a label that is understood here.")
        if not self._accept(".branchtargets"):
            return Label(name)
        return Targets(name, tuple(token for token in self._until(";") if token != ","))

    def _predicate(self) -> str:
        inverted = "!" if self._accept("!") else ""
        return inverted + self._name()

    def _registers(self) -> Iterator[Registers]:
        kind = self._next()
        if kind != ".pred" and kind[1:] not in ITEM_BYTES:
            raise PtxError(f"{kind} is not a type of a register that is understood here.")
        while True:
            name, count = self._name(), 0
            if self._accept("<"):
                count = integer(self._next())
                self._take(">")
            yield Registers(kind[1:], name, count)
            if not self._accept(","):
                break
        self._take(";")

    def _instruction(self, predicate: str, opcode: str) -> Instruction:
        if not re.fullmatch(r"[a-z][a-z0-9_]*(?:\.[A-Za-z0-9_]+(?:::[A-Za-z0-9_]+)*)*", opcode):
            raise PtxError(f"{opcode} is not an instruction that is understood here.")
        return Instruction(predicate, opcode, tuple(_operands(self._until(";"))))


def _operands(tokens: Operand) -> Iterator[Operand]:
    """Split at commas outside brackets."""
    depth, start = 0, 0
    for at, token in enumerate(tokens):
        depth += (token in "([{") - (token in ")]}")
        if token == "," and not depth:
            yield tokens[start:at]
            start = at + 1
    if tokens:
        yield tokens[start:]


def declaration(declared: Variable | Registers) -> str:
    """Return a declaration without its terminator."""
    if isinstance(declared, Registers):
        return f".reg .{declared.type} {declared.name}" + (f"<{declared.count}>" if declared.count else "")
    align = f".align {declared.align} " if declared.align else ""
    length = "" if declared.items is None else f"[{declared.items or ''}]"
    return f".{declared.space} {align}.{declared.type} {declared.name}{length}"
