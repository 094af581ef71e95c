"""Makes the fenced twin of a kernel: the same code, in which no access leaves the launch's own tensors.

The twin takes one more parameter, after the others: `warpsmith_fence`, by value, so that no kernel can change it. It
holds the address for recording violations and the extents of the launch's tensors (`FencePlan`). Each access to global
memory, or to an address of unknown space, is preceded by a check; an access that fails it is not performed. A load then
returns all bits set, an asynchronous copy zeros, and a store does nothing; a bulk load traps, since the kernel would
wait forever for its arrival.

When a block starts, it finds nothing from an earlier call: the twin fills its shared memory, its local variables and
its registers. Unknown instructions are rejected: the lists below name the supported ones.
"""

import re
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, Final

from warpsmith.evaluator.errors import EvaluatorError
from warpsmith.evaluator.languages.fencing import matrices
from warpsmith.evaluator.languages.fencing.ptx import (
    ITEM_BYTES,
    Function,
    Instruction,
    Label,
    Module,
    Operand,
    PtxError,
    Registers,
    Scope,
    Targets,
    Variable,
    declaration,
    integer,
    read,
    read_all,
    tokens,
    written,
)

PARAMETER: Final = "warpsmith_fence"
RESERVED: Final = "warpsmith_"
MOST_SLOTS: Final = 64
SIZES: Final = (1, 2, 4, 8, 16, 32)
"""Possible sizes of one access, in bytes."""
HEADER_BYTES: Final = 16
WORKSPACE_AT: Final = 8
"""Where the header holds the address of a cooperative grid's workspace; 0 if there is none."""
SLOT_BYTES: Final = 8 * (1 + len(SIZES) + 1)
RECORD_BYTES: Final = 16
"""Size of the record of violations: the first address (8 bytes) and their number (8 bytes); zeros before a launch."""
SHARED_GRAIN: Final = 1024
"""The twin's shared memory is rounded up to multiples of this, so that it fills all that a block gets."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PURE: Final = _words(
    "abs activemask add addc and bar barrier bfe bfi bfind bmsk bra brev brx clz cnot copysign cos "
    "createpolicy cvt cvta div dp2a dp4a elect ex2 exit fence fma fns getctarank griddepcontrol isspacep "
    "lg2 lop3 mad mad24 madc mapa match max membar min mma mov mul mul24 nanosleep neg not or popc prmt rcp "
    "redux rem ret rsqrt sad selp set setmaxnreg setp shf shfl shl shr sin slct sqrt sub subc szext tanh "
    "testp trap vote wgmma xor"
)
"""Operations that access no memory, or only shared memory through descriptors that reach nothing else."""
_SHARED_ONLY: Final = _words("ldmatrix stmatrix mbarrier st.async red.async")
_HINTS: Final = _words("prefetch prefetchu applypriority")
"""Operations that affect only time; the twin omits them."""
_TENSOR_MEMORY: Final = _words(
    "tcgen05.alloc tcgen05.dealloc tcgen05.relinquish_alloc_permit tcgen05.ld tcgen05.st tcgen05.wait "
    "tcgen05.mma tcgen05.cp tcgen05.shift tcgen05.fence tcgen05.commit"
)
_ADDRESSED_SHARED: Final = frozenset({"tcgen05.alloc", "tcgen05.commit"})
_ASYNC_GROUPS: Final = frozenset(
    {"cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all", "cp.async.bulk.commit_group"}
    | {"cp.async.bulk.wait_group", "cp.async.bulk.wait_group.read"}
)
_SPACES: Final = _words("global shared shared::cta shared::cluster local const param param::entry param::func")
_SHARED_SPACES: Final = frozenset({"shared", "shared::cta", "shared::cluster"})
_ORDERS: Final = _words("weak volatile relaxed acquire release acq_rel sc cta cluster gpu sys mmio")
_CACHES: Final = _words("nc ca cg cs lu cv wb wt unified")
_ATOMIC: Final = _words("and or xor cas exch add inc dec min max noftz")
_LEVEL: Final = re.compile(r"L[12]::\w+")
_VECTORS: Final = {"v2": 2, "v4": 4, "v8": 8}
_SPECIAL: Final = re.compile(
    r"%(?:n?tid|n?ctaid|clusterid|nclusterid|cluster_n?ctaid)(?:\.[xyz])?|%(?:laneid|n?warpid|n?smid|gridid|"
    r"cluster_n?ctarank|is_explicit_cluster|lanemask_(?:eq|le|lt|ge|gt)|clock|clock_hi|clock64|globaltimer(?:_lo|_hi)?)"
)
_WORKSPACE: Final = {"%envreg1": 32, "%envreg2": 0}
"""Halves of the address of a cooperative grid's workspace, and how far to shift the address for each."""
_DESCRIPTOR_BYTES: Final = 128
_ONES: Final = (1 << 64) - 1


class FenceError(EvaluatorError):
    """A kernel that cannot have a fenced twin, or a launch whose tensors do not fit its twin."""


@dataclass(frozen=True)
class Rules:
    """What kernels of a language may do.

    Attributes:
        advice: a sentence that ends each refusal.
        of_nvcc: whether kernels may write to variables of their module, which are reset between calls, and functions
            reach what their caller reaches.
        driver_functions: functions of the driver that they may call.
    """

    advice: str
    of_nvcc: bool = False
    driver_functions: frozenset[str] = frozenset({"__assertfail"})


OF_TRITON: Final = Rules(
    "Leave that inline assembly out and use Triton's own operations.",
    driver_functions=frozenset({"vprintf", "__assertfail"}),
)


class OwnDescriptorError(FenceError):
    """A kernel makes tensor descriptors itself, which could point anywhere."""


@dataclass(frozen=True)
class FencePlan:
    """The memory that one launch of a twin can reach.

    Attributes:
        record: device address of RECORD_BYTES outside all tensors, for violations.
        extents: begin and end of each tensor's memory, as device addresses.
        workspace: device address of a cooperative grid's workspace; 0 if there is none.
    """

    record: int
    extents: tuple[tuple[int, int], ...]
    workspace: int = 0

    def merged(self) -> list[tuple[int, int]]:
        """Return the extents in order, adjacent ones merged."""
        found: list[tuple[int, int]] = []
        for low, high in sorted(extent for extent in self.extents if extent[0] < extent[1]):
            if found and low <= found[-1][1]:
                found[-1] = (found[-1][0], max(high, found[-1][1]))
            else:
                found.append((low, high))
        return found

    def packed(self, slots: int) -> bytes:
        """Return the bytes of the twin's last parameter.

        Raises:
            FenceError: there are more extents than the twin has slots.
        """
        extents = self.merged()
        if len(extents) > slots:
            raise FenceError(
                f"The launch has {len(extents)} separate extents of memory; its twin takes {slots}. Give one for each "
                "tensor that it is passed."
            )
        slot = struct.Struct(f"<{SLOT_BYTES // 8}Q")
        parts = [slot.pack(low, *(max(high - low - size + 1, 0) for size in SIZES), 0) for low, high in extents]
        return struct.pack("<QQ", self.record, self.workspace) + b"".join(parts).ljust(slots * SLOT_BYTES, b"\0")

    def covers(self, low: int, high: int) -> bool:
        """Whether one extent contains all addresses from `low` to `high`."""
        return low >= high or any(begin <= low and high <= end for begin, end in self.merged())


def slots_of(parameters: Iterable[Any]) -> int:
    """Return how many extents a launch can have, given a `Binary`'s `parameters`; scratch memory counts.

    Raises:
        FenceError: more than a twin supports.
    """
    count = 1 + sum(_tensors(kind) for _, kind in parameters)
    if count > MOST_SLOTS:
        raise FenceError(f"A kernel takes {count - 1} tensors; at most {MOST_SLOTS - 1} can be checked. Pass fewer.")
    return count


def _tensors(kind: Any) -> int:
    if isinstance(kind, list):
        return sum(map(_tensors, kind))
    return int(str(kind).startswith(("*", "tensordesc<")))


def fenced(ptx: str, entry: str, slots: int) -> str:
    """Return the twin of a kernel as PTX.

    Args:
        ptx: a module with one kernel, as Triton compiles it.
        entry: the kernel's name.
        slots: number of extents that the twin can take.

    Raises:
        OwnDescriptorError: the kernel makes tensor descriptors.
        FenceError: it contains an instruction that cannot be fenced; the message names it and says what to do.
    """
    try:
        module = read(ptx)
        if module.entry.name != entry:
            raise FenceError(f"Found the kernel {module.entry.name}; expected {entry}.")
        return "\n".join(_module(module, slots)) + "\n"
    except PtxError as error:
        raise _explained(error, OF_TRITON) from error


def _explained(error: PtxError, rules: Rules) -> FenceError:
    return FenceError(f"A kernel cannot be checked: {error} {rules.advice}")


def _module(module: Module, slots: int) -> Iterator[str]:
    """Yield the lines of a module of Triton's with the twin of its kernel."""
    yield from module.head
    yield from _declared(module, OF_TRITON)
    yield from _unreserved([text for _, text in module.variables])
    for function in module.functions:
        yield from _function(module, function, 0, OF_TRITON)
    yield from _kernel(module, module.entry, slots, OF_TRITON)


def _declared(module: Module, rules: Rules) -> Iterator[str]:
    """Yield the declarations of functions; PtxError for one that is neither defined nor the driver's."""
    defined = {function.name for function in module.functions}
    for name, text in module.declared:
        if name not in rules.driver_functions | defined or (name in defined and ".extern" in text):
            raise PtxError(f"It declares the function {name}, which is not defined.")
        _unreserved([text])
        yield _with_caller(text, rules) if name in defined else text
    if defined & rules.driver_functions:
        raise PtxError("It defines a function by a name of the driver's.")


def _function(module: Module, function: Function, slots: int, rules: Rules) -> Iterator[str]:
    body = _Body(module, function, slots, rules, is_kernel=False).lines()
    yield f".func {_with_caller(_unreserved([function.heading])[0], rules)}"
    yield from body


def _kernel(module: Module, entry: Function, slots: int, rules: Rules, directives: Iterable[str] = ()) -> Iterator[str]:
    parameters = [declaration(one) for one in entry.parameters]
    parameters.append(f".param .align 8 .b8 {PARAMETER}[{HEADER_BYTES + slots * SLOT_BYTES}]")
    body = _Body(module, entry, slots, rules, is_kernel=True).lines(directives)
    yield f".visible .entry {entry.name}({', '.join(_unreserved(parameters[:-1]) + parameters[-1:])})"
    yield from body


@dataclass
class Twins:
    """The twins of a module's kernels, in one module, so that they share its variables.

    Attributes:
        slots: number of extents that each twin can take.
        text: the module as PTX.
        errors: why a kernel has no twin, by its name.
        workspaces: the kernels that read the address of a cooperative grid's workspace; their twins take that of the
            header's second word.
    """

    slots: int
    text: str = ""
    errors: dict[str, str] = field(default_factory=dict)
    workspaces: frozenset[str] = frozenset()


def fenced_all(ptx: str, most_slots: int, rules: Rules, directives: Callable[[Function], list[str]]) -> Twins:
    """Return the twins of all kernels of a module that nvcc compiled.

    Args:
        ptx: the module.
        most_slots: number of extents that a twin can take at most.
        rules: of the language.
        directives: returns more directives for the twin of a kernel.

    Raises:
        FenceError: the whole module cannot be read; the message says why.
    """
    try:
        module = read_all(ptx)
        kernels = {entry.name for entry in module.entries}
        uses = {one.name: _names(one) for one in (*module.entries, *module.functions)}
        module.variables = list(_used_variables(module, uses))
        workspaces = frozenset(name for name in kernels if _reached(name, uses) & _WORKSPACE.keys())
        pointers = max((sum(one.size // 8 for one in entry.parameters) for entry in module.entries), default=0)
        made = Twins(min(max(pointers, 1), most_slots) + bool(workspaces), workspaces=workspaces)
        lines = [*module.head, *_declared(module, rules)]
        lines += _unreserved([text for _, text in module.variables])
        if not any(one.items == 0 for one, _ in module.variables):
            lines.append(f".extern .shared .align 16 .b8 {_DYNAMIC}[];")
    except PtxError as error:
        raise _explained(error, rules) from error
    failed: dict[str, str] = {}
    for function in module.functions:
        lines += _or_why(failed, function.name, partial(_function, module, function, made.slots, rules), rules)
    for entry in module.entries:
        inner = next((failed[name] for name in _reached(entry.name, uses) if name in failed), "")
        if inner:
            made.errors[entry.name] = inner
            continue
        write = partial(_kernel, module, entry, made.slots, rules, directives(entry))
        lines += _or_why(made.errors, entry.name, write, rules)
    made.text = "\n".join(lines) + "\n"
    return made


def _used_variables(module: Module, uses: dict[str, set[str]]) -> Iterator[tuple[Variable, str]]:
    """Yield the variables that code or another variable's initial value names; no twin can reach any other."""
    code = set().union(*uses.values())
    for variable, text in module.variables:
        others = (other for one, other in module.variables if one is not variable)
        if variable.name in code or any(variable.name in tokens(other) for other in others):
            yield variable, text


def _or_why(errors: dict[str, str], name: str, write: Callable[[], Iterable[str]], rules: Rules) -> list[str]:
    """Return the lines of a function's twin; none, and the reason in `errors`, if it has no twin."""
    try:
        return list(write())
    except PtxError as error:
        errors[name] = str(_explained(error, rules))
    except FenceError as error:
        errors[name] = str(error)
    return []


def _names(function: Function) -> set[str]:
    """Return every token in the operands of a function's instructions."""
    instructions = (one for one in function.body if isinstance(one, Instruction))
    return {token for one in instructions for operand in one.operands for token in operand}


def _reached(name: str, uses: dict[str, set[str]]) -> set[str]:
    """Return the tokens of a function and of all that it calls."""
    found, waiting = {name}, [name]
    while waiting:
        new = uses.get(waiting.pop(), set()) - found
        found |= new
        waiting += [one for one in new if one in uses]
    return found


def _with_caller(heading: str, rules: Rules) -> str:
    """Return a function's heading with more parameters: those of `_handed`."""
    before, _, after = heading.rpartition(")")
    if not before:
        raise PtxError(f"The function {heading[:80]} is not understood.")
    separator = "" if before.endswith("(") else ", "
    return f"{before}{separator}{', '.join(f'.param .b64 {name}' for name in _handed(rules))}){after}"


def _handed(rules: Rules) -> list[str]:
    """Return what each function gets: address and size of its caller's local memory, and of nvcc's the fence."""
    return [_CALLER_LOW, _CALLER_SIZE, *([_CALLER_FENCE] if rules.of_nvcc else [])]


def _unreserved(texts: list[str]) -> list[str]:
    for text in texts:
        if RESERVED in text:
            raise FenceError(f"Names with {RESERVED} are taken by the checks. Give the kernel's names another form.")
    return texts


@dataclass(frozen=True)
class _Address:
    """`base` is a register, or the name of a variable or parameter."""

    base: str
    offset: int


def _address(operand: Operand, instruction: Instruction) -> _Address:
    """Read `[base]`, `[base+8]` or `[base+-8]`."""
    match operand:
        case ("[", base, *rest, "]") if re.match(r"[A-Za-z_$%]", base):
            return _Address(base, _offset(rest, instruction))
        case _:
            raise _refused(instruction, "Its address is neither a register nor a name.")


def _offset(tokens: list[str], instruction: Instruction) -> int:
    match tokens:
        case []:
            return 0
        case ["+", "-", number] | ["-", number]:
            return -integer(number)
        case ["+", number]:
            return integer(number)
        case _:
            raise _refused(instruction, "The offset of its address is not a whole number.")


def _refused(instruction: Instruction, why: str) -> PtxError:
    return PtxError(f"{instruction} {why}")


class _Body:
    """Rewrites the body of one function; `slots` is 0 if it accesses no tensor."""

    def __init__(self, module: Module, function: Function, slots: int, rules: Rules, *, is_kernel: bool) -> None:
        self._module = module
        self._function = function
        self._slots = slots
        self._rules = rules
        self._is_kernel = is_kernel
        self._constants = [one for one, _ in module.variables if one.space == "const"] if rules.of_nvcc else []
        self._variables = [one for one, _ in module.variables if one.space == "global"]
        self._parameters = {one.name: one for one in (*function.parameters, *function.results)}
        self._callable = {one.name for one in module.functions} | {
            name for name, _ in module.declared if name in rules.driver_functions
        }
        self._scopes: list[dict[str, Registers | Variable]] = [{}]
        self._fixed = {one.name for one, _ in module.variables} | set(self._parameters) | self._callable
        self._locals: list[Variable] = []
        self._sizes: set[int] = set()
        self._out: list[str] = []
        self._started = False

    # --- the whole ---

    def lines(self, directives: Iterable[str] = ()) -> list[str]:
        """Return directives, with some more, and body."""
        self._check_labels()
        handlers: dict[type, Callable[[Any], None]] = {
            Registers: self._registers,
            Variable: self._variable,
            Label: lambda one: self._emit(f"{one.name}:"),
            Targets: lambda one: self._emit(f"{one.name}: .branchtargets {', '.join(one.labels)};"),
            Scope: self._scope,
            Instruction: self._instruction,
        }
        for statement in self._function.body:
            handlers[type(statement)](statement)
        given = self._function.directives
        return [*given, *directives, "{", *self._own_shared(), *self._prologue(), *self._out, "}"]

    def _check_labels(self) -> None:
        labels = [one.name for one in self._function.body if isinstance(one, Label | Targets)]
        taken = self._fixed | {one.name for one in self._function.body if isinstance(one, Variable)}
        for name in _unreserved(labels):
            if name in taken:
                raise PtxError(f"The label {name} is the name of a variable.")

    def _emit(self, line: str) -> None:
        self._out.append(line)

    def _prologue(self) -> Iterator[str]:
        yield f".reg .pred %{RESERVED}<6>;"
        names = ("a", "d", "t", "n", "ones", "record")
        yield f".reg .b64 {', '.join(f'%{RESERVED}{name}' for name in names)};"
        yield f".reg .b32 {', '.join(f'%{RESERVED}{name}' for name in ('i', 'j', 'w'))};"
        yield f"mov.b64 %{RESERVED}ones, {_ONES:#x};"
        if not self._is_kernel:
            handed = _handed(self._rules)
            yield f".reg .b64 {', '.join(f'%{name}' for name in handed)};"
            yield from (f"ld.param.b64 %{name}, [{name}];" for name in handed)
        elif self._rules.of_nvcc:
            yield f".reg .b64 %{_CALLER_FENCE};"
            yield f"mov.b64 %{_CALLER_FENCE}, {PARAMETER};"
            yield f"cvta.param.u64 %{_CALLER_FENCE}, %{_CALLER_FENCE};"
        if self._slots:
            yield f"{self._of_fence(_RECORD, 0)}"
            yield from self._extents()
        if self._is_kernel:
            yield from self._filled_dynamic() if not self._rules.of_nvcc else self._filled_shared()

    def _of_fence(self, register: str, at: int) -> str:
        """Return the instruction that loads a word of the fence: a parameter of the kernel, or behind an address."""
        if self._is_kernel:
            return f"ld.param.b64 {register}, [{PARAMETER}{f'+{at}' if at else ''}];"
        return f"ld.b64 {register}, [%{_CALLER_FENCE}+{at}];"

    def _extents(self) -> Iterator[str]:
        for slot in range(self._slots):
            at = HEADER_BYTES + slot * SLOT_BYTES
            yield f".reg .b64 %{RESERVED}low{slot};"
            yield self._of_fence(f"%{RESERVED}low{slot}", at)
            for number, size in enumerate(SIZES):
                if size in self._sizes:
                    yield f".reg .b64 %{RESERVED}room{slot}_{size};"
                    yield self._of_fence(f"%{RESERVED}room{slot}_{size}", at + 8 * (number + 1))

    def _own_shared(self) -> Iterator[str]:
        """Yield the declarations of shared memory within this function, which come before the code that fills it."""
        for one in self._function.body:
            if isinstance(one, Variable) and one.space == "shared":
                yield f"{_unreserved([declaration(one)])[0]};"

    def _filled_shared(self) -> Iterator[str]:
        """Fill all shared memory of the block, of fixed and given size, before any block of its cluster continues."""
        uses = {one.name: _names(one) for one in (self._function, *self._module.functions)}
        reached = _reached(self._function.name, uses)
        known = [one for one, _ in self._module.variables if one.space == "shared" and one.items != 0]
        fixed = [one for one in known if one.name in reached]
        fixed += [one for one in self._function.body if isinstance(one, Variable) and one.space == "shared"]
        dynamic = next((one.name for one, _ in self._module.variables if one.items == 0), _DYNAMIC)
        yield from (
            f"mov.u32 {_W}, %dynamic_smem_size;",
            f"mov.b64 {_A}, {dynamic};",
            f"cvt.u64.u32 {_N}, {_W};",
            f"add.s64 {_N}, {_A}, {_N};",
        )
        for one in fixed:
            yield from (
                f"mov.b64 {_D}, {one.name};",
                f"min.u64 {_A}, {_A}, {_D};",
                f"add.s64 {_D}, {_D}, {one.size};",
                f"max.u64 {_N}, {_N}, {_D};",
            )
        yield from self._filled_range()

    def _filled_range(self) -> Iterator[str]:
        """Fill shared memory from _A to _N by all threads; both are rounded to units of 16 bytes."""
        yield from (
            f"and.b64 {_A}, {_A}, -16;",
            f"mov.u32 {_I}, %tid.z;",
            f"mov.u32 {_J}, %ntid.y;",
            f"mov.u32 {_W}, %tid.y;",
            f"mad.lo.u32 {_I}, {_I}, {_J}, {_W};",
            f"mov.u32 {_J}, %ntid.x;",
            f"mov.u32 {_W}, %tid.x;",
            f"mad.lo.u32 {_I}, {_I}, {_J}, {_W};",
            f"mul.wide.u32 {_D}, {_I}, 16;",
            f"add.s64 {_A}, {_A}, {_D};",
            f"mov.u32 {_W}, %ntid.y;",
            f"mul.lo.u32 {_J}, {_J}, {_W};",
            f"mov.u32 {_W}, %ntid.z;",
            f"mul.lo.u32 {_J}, {_J}, {_W};",
            f"mul.wide.u32 {_D}, {_J}, 16;",
            f"${RESERVED}fill:",
            f"setp.lt.u64 {_OK}, {_A}, {_N};",
            f"@{_OK} st.shared.v2.b64 [{_A}], {{{_ALL}, {_ALL}}};",
            f"add.s64 {_A}, {_A}, {_D};",
            f"@{_OK} bra ${RESERVED}fill;",
            "bar.sync 0;",
        )
        if self._module.arch >= 90:
            yield from ("barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")

    def _filled_dynamic(self) -> Iterator[str]:
        """Fill the block's shared memory before any block of its cluster continues: Triton's blocks have one axis."""
        name = next((one.name for one, _ in self._module.variables if one.space == "shared"), None)
        if name is None:
            return
        yield from (
            f"mov.u32 {_I}, %tid.x;",
            f"shl.b32 {_I}, {_I}, 4;",
            f"mov.u32 {_J}, %ntid.x;",
            f"shl.b32 {_J}, {_J}, 4;",
            f"mov.u32 {_W}, %dynamic_smem_size;",
            f"mov.b64 {_A}, {name};",
            f"cvt.u64.u32 {_D}, {_I};",
            f"add.s64 {_A}, {_A}, {_D};",
            f"cvt.u64.u32 {_D}, {_J};",
            f"${RESERVED}fill:",
            f"setp.lt.u32 {_OK}, {_I}, {_W};",
            f"@{_OK} st.shared.v2.b64 [{_A}], {{{_ALL}, {_ALL}}};",
            f"add.s64 {_A}, {_A}, {_D};",
            f"add.u32 {_I}, {_I}, {_J};",
            f"@{_OK} bra ${RESERVED}fill;",
            "bar.sync 0;",
        )
        if self._module.arch >= 90:
            yield from ("barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")

    # --- names ---

    def _declare(self, declared: Registers | Variable, names: Iterable[str]) -> None:
        for name in names:
            known = name in self._fixed or any(name in scope for scope in self._scopes)
            if known or RESERVED in name or _SPECIAL.fullmatch(name):
                raise PtxError(f"It declares {name} within its scope again.")
            self._scopes[-1][name] = declared

    def _registers(self, declared: Registers) -> None:
        self._declare(declared, declared.names())
        self._emit(f"{declaration(declared)};")
        for name in declared.names():
            self._emit(_cleared(name, declared.type))

    def _variable(self, declared: Variable) -> None:
        self._declare(declared, [declared.name])
        if declared.space == "shared":
            if len(self._scopes) > 1:
                raise PtxError(f"Its code declares {declaration(declared)} within a scope.")
            return
        self._emit(f"{declaration(declared)};")
        if declared.space == "local":
            if len(self._scopes) > 1 or self._started:
                raise PtxError(f"Its code declares {declaration(declared)}.")
            self._locals.append(declared)
            self._fixed.add(declared.name)
            self._fill_local(declared)

    def _fill_local(self, declared: Variable) -> None:
        label = f"${RESERVED}local{len(self._locals)}"
        for line in (
            f"mov.b64 {_A}, {declared.name};",
            f"mov.b32 {_I}, 0;",
            f"mov.b32 {_W}, -1;",
            f"{label}:",
            f"st.local.b8 [{_A}], {_W};",
            f"add.s64 {_A}, {_A}, 1;",
            f"add.u32 {_I}, {_I}, 1;",
            f"setp.lt.u32 {_OK}, {_I}, {declared.size};",
            f"@{_OK} bra {label};",
        ):
            self._emit(line)

    def _scope(self, scope: Scope) -> None:
        self._emit("{" if scope.opens else "}")
        if scope.opens:
            self._scopes.append({})
        else:
            self._scopes.pop()

    def _found(self, name: str) -> Registers | Variable | None:
        return next((scope[name] for scope in reversed(self._scopes) if name in scope), None)

    def _register(self, name: str, instruction: Instruction) -> Registers:
        found = self._found(name)
        if not isinstance(found, Registers):
            raise _refused(instruction, f"{name} is not a register.")
        return found

    # --- instructions ---

    def _instruction(self, one: Instruction) -> None:
        self._started = True
        self._check_words(one)
        parts = one.opcode.split(".")
        two = ".".join(parts[:2])
        if self._rules.of_nvcc and self._is_workspace(one):
            self._workspace(one)
        elif two in ("wmma.load", "wmma.store") and self._rules.of_nvcc:
            self._matrix(one)
        elif two == "tcgen05.commit" and not _SHARED_SPACES & set(one.qualifiers):
            self._committed(one)
        elif two in _SHARED_ONLY or parts[0] in _SHARED_ONLY or two in _ADDRESSED_SHARED:
            self._shared_only(one)
        elif parts[0] in ("ld", "ldu", "st"):
            self._moved(one)
        elif parts[0] in ("atom", "red"):
            self._atomic(one)
        elif two in ("cp.async", "cp.reduce"):
            self._copied(one)
        elif two == "discard.global":
            self._discarded(one)
        elif parts[0] == "call":
            self._called(one)
        elif parts[0] == "tensormap" and not self._rules.of_nvcc:
            raise OwnDescriptorError(
                "A kernel makes a tensor descriptor, which cannot be checked. Make it on the host with "
                "triton.tools.tensor_descriptor.TensorDescriptor, or use pointers."
            )
        elif parts[0] in _PURE or two == "wmma.mma" or two.partition("::")[0] in _TENSOR_MEMORY:
            self._emit(str(one))
        elif parts[0] not in _HINTS:
            raise _refused(one, "The instruction is not among those that are understood.")

    def _check_words(self, one: Instruction) -> None:
        for word in (token for operand in one.operands for token in operand):
            if word in _WORKSPACE and self._rules.of_nvcc and self._is_workspace(one):
                continue
            if RESERVED in word or (word.startswith("%") and not self._found(word) and not _SPECIAL.fullmatch(word)):
                raise _refused(one, f"{word} is not a register that a kernel may use.")

    def _shared_only(self, one: Instruction) -> None:
        if one.opcode != "mbarrier.pending_count.b64" and not _SHARED_SPACES & set(one.qualifiers):
            raise _refused(one, "It does not say that it works on shared memory.")
        self._emit(str(one))

    def _committed(self, one: Instruction) -> None:
        """Fence `tcgen05.commit [barrier]` with a generic address, which must be in shared memory."""
        self._load_address(one, _address(one.operands[0], one))
        self._emit(f"isspacep.shared::cluster {_OK}, {_A};")
        self._guarded(one, 0, [])

    def _called(self, one: Instruction) -> None:
        names = [operand[0] for operand in one.operands if len(operand) == 1]
        if one.opcode not in ("call", "call.uni") or len(names) != 1 or names[0] not in self._callable:
            raise _refused(one, "It calls something other than a function of the module.")
        if names[0] in self._rules.driver_functions:
            self._emit(str(one))
        else:
            self._handed_on(one)

    def _handed_on(self, one: Instruction) -> None:
        """Emit a call that passes on the caller's local memory, since arguments can point into it."""
        if len(self._locals) > 1 or one.predicate or len(one.operands[-1]) < 2 or one.operands[-1][0] != "(":
            raise _refused(one, "The call is not understood.")
        self._emit("{")
        handed = _handed(self._rules)
        for name in handed:
            self._emit(f".param .b64 {name};")
        for value in (_A, _N):
            self._emit(f"mov.b64 {value}, 0;")
        for variable in self._locals:
            self._emit(f"mov.b64 {_A}, {variable.name};")
            self._emit(f"cvta.local.u64 {_A}, {_A};")
            self._emit(f"mov.b64 {_N}, {variable.size};")
        self._emit(f"st.param.b64 [{_CALLER_LOW}], {_A};")
        self._emit(f"st.param.b64 [{_CALLER_SIZE}], {_N};")
        if self._rules.of_nvcc:
            self._emit(f"st.param.b64 [{_CALLER_FENCE}], %{_CALLER_FENCE};")
        given = one.operands[-1][:-1]
        more = [token for name in handed for token in (",", name)]
        arguments = (*given, *(more if len(given) > 1 else more[1:]), ")")
        self._emit(str(Instruction("", one.opcode, (*one.operands[:-1], arguments))))
        self._emit("}")

    # --- loads and stores ---

    def _moved(self, one: Instruction) -> None:
        """Fence `ld d, [a]` and `st [a], b`."""
        loads = one.base != "st"
        space, kind, items = self._qualified(one, _ORDERS | _CACHES)
        if len(one.operands) < 2:
            raise _refused(one, "It has too few operands.")
        place = 1 if loads else 0
        address = _address(one.operands[place], one)
        if self._reaches(one, space, address, ITEM_BYTES[kind] * items, loads=loads):
            self._emit(str(one))
            return
        targets = _listed(one.operands[0], one) if loads else []
        self._guarded(one, place, [(name, kind) for name in targets])

    def _qualified(self, one: Instruction, allowed: frozenset[str]) -> tuple[str, str, int]:
        """Return the space of an access ("" if generic), the type of an item, and the number of items."""
        spaces = [word for word in one.qualifiers if word in _SPACES]
        kinds = [word for word in one.qualifiers if word in ITEM_BYTES]
        vectors = [word for word in one.qualifiers if word in _VECTORS]
        known = {*spaces, *kinds, *vectors}
        for word in one.qualifiers:
            if word not in known and word not in allowed and not _LEVEL.fullmatch(word):
                raise _refused(one, f"{word} is not understood.")
        if len(spaces) > 1 or len(kinds) != 1 or len(vectors) > 1:
            raise _refused(one, "Its space or its type is not clear.")
        items = _VECTORS[vectors[0]] if vectors else 1
        if ITEM_BYTES[kinds[0]] * items not in SIZES:
            raise _refused(one, "It moves more than 32 bytes.")
        return (spaces or [""])[0], kinds[0], items

    def _reaches(self, one: Instruction, space: str, address: _Address, size: int, *, loads: bool) -> bool:
        """Whether an access is harmless as it is; if not, emit the check, which leaves its result in _OK."""
        if space.startswith("param"):
            if self._is_computed(address, loads=loads):
                self._load_address(one, address)
                self._emit(f"setp.ne.b32 {_OK}, 0, 0;")
                self._check_variables(self._function.parameters, size)
                return False
            self._check_named(one, address, size, self._parameter(one, address))
            return True
        if space in _SHARED_SPACES or (space == "const" and loads):
            return True
        variable = next((each for each in (*self._variables, *self._locals) if each.name == address.base), None)
        if variable is not None and variable.space == space and (loads or space == "local" or self._rules.of_nvcc):
            self._check_named(one, address, size, variable)
            return True
        self._load_address(one, address, wide=space != "local")
        self._check(one, space, size, loads=loads)
        return False

    def _is_computed(self, address: _Address, *, loads: bool) -> bool:
        """Whether a kernel of nvcc loads from a parameter by a computed address, as for a struct with an array."""
        found = self._found(address.base)
        return self._rules.of_nvcc and self._is_kernel and loads and isinstance(found, Registers)

    def _parameter(self, one: Instruction, address: _Address) -> Variable:
        found = self._parameters.get(address.base) or self._found(address.base)
        if not isinstance(found, Variable) or found.space != "param":
            raise _refused(one, "It reaches parameters by a computed address.")
        if one.base == "st" and found in self._function.parameters:
            raise _refused(one, "It changes a parameter.")
        return found

    def _check_named(self, one: Instruction, address: _Address, size: int, variable: Variable) -> None:
        if not 0 <= address.offset <= variable.size - size:
            raise _refused(one, f"It leaves {variable.name}, which has {variable.size} bytes.")

    def _load_address(self, one: Instruction, address: _Address, *, wide: bool = True) -> None:
        """Emit code that loads an address into _A."""
        kind = self._register(address.base, one).type
        if ITEM_BYTES.get(kind) == 8:
            self._emit(f"mov.b64 {_A}, {address.base};")
        elif ITEM_BYTES.get(kind) == 4 and not wide:
            self._emit(f"cvt.u64.u32 {_A}, {address.base};")
        else:
            raise _refused(one, f"Its address {address.base} has not 64 bits.")
        if address.offset:
            self._emit(f"add.s64 {_A}, {_A}, {address.offset};")

    # --- checks: each leaves in _OK whether the access at _A is allowed ---

    def _check(self, one: Instruction, space: str, size: int, *, loads: bool) -> None:
        self._emit(f"setp.ne.b32 {_OK}, 0, 0;")
        if space != "local":
            if not self._slots and not loads and space:
                raise _refused(one, "It is in a function, which may only change local memory.")
            self._check_extents(size)
            if loads or self._rules.of_nvcc:
                self._check_variables(self._variables, size)
        if space == "":
            if loads and self._rules.of_nvcc:
                self._check_generic_constants(size)
            window = "shared::cluster" if self._module.arch >= 90 else "shared"
            self._emit(f"isspacep.{window} {_Q}, {_A};")
            self._emit(f"or.pred {_OK}, {_OK}, {_Q};")
            if self._locals:
                self._check_generic_locals(size)
            if not self._is_kernel:
                self._check_caller(size, f"%{_CALLER_LOW}")
        if space == "local":
            self._check_variables(self._locals, size)
            if not self._is_kernel:
                # A compiler that knows a pointer's space stores to its caller's array in that space.
                self._emit(f"cvta.to.local.u64 {_T}, %{_CALLER_LOW};")
                self._check_caller(size, _T)

    def _check_extents(self, size: int) -> None:
        if self._slots:
            self._sizes.add(size)
        for slot in range(self._slots):
            self._emit(f"sub.s64 {_D}, {_A}, %{RESERVED}low{slot};")
            self._emit(f"setp.lt.or.u64 {_OK}, {_D}, %{RESERVED}room{slot}_{size}, {_OK};")

    def _check_variables(self, variables: list[Variable], size: int) -> None:
        for variable in variables:
            if variable.size >= size:
                self._emit(f"mov.b64 {_T}, {variable.name};")
                self._emit(f"sub.s64 {_D}, {_A}, {_T};")
                self._emit(f"setp.lt.or.u64 {_OK}, {_D}, {variable.size - size + 1}, {_OK};")

    def _check_generic_constants(self, size: int) -> None:
        """Check against constant memory and the kernel's parameters, by generic addresses."""
        spaces = [("const", one) for one in self._constants]
        spaces += [("param", one) for one in self._function.parameters if self._is_kernel]
        for space, variable in spaces:
            if variable.size >= size and (space == "const" or self._is_pointed_at(variable)):
                self._emit(f"mov.b64 {_T}, {variable.name};")
                self._emit(f"cvta.{space}.u64 {_T}, {_T};")
                self._emit(f"sub.s64 {_D}, {_A}, {_T};")
                self._emit(f"setp.lt.or.u64 {_OK}, {_D}, {variable.size - size + 1}, {_OK};")

    def _is_pointed_at(self, parameter: Variable) -> bool:
        """Whether the function takes the address of a parameter."""
        moves = (one for one in self._function.body if isinstance(one, Instruction) and one.base == "mov")
        return any((parameter.name,) in one.operands for one in moves)

    def _check_generic_locals(self, size: int) -> None:
        self._emit(f"isspacep.local {_Q}, {_A};")
        self._emit(f"cvta.to.local.u64 {_N}, {_A};")
        for variable in self._locals:
            if variable.size >= size:
                self._emit(f"mov.b64 {_T}, {variable.name};")
                self._emit(f"sub.s64 {_D}, {_N}, {_T};")
                self._emit(f"setp.lt.and.u64 {_P}, {_D}, {variable.size - size + 1}, {_Q};")
                self._emit(f"or.pred {_OK}, {_OK}, {_P};")

    def _check_caller(self, size: int, low: str) -> None:
        """Check against the local memory of the calling function, which begins at `low` in the access's space."""
        self._emit(f"sub.s64 {_D}, {_A}, {low};")
        self._emit(f"setp.lt.u64 {_Q}, {_D}, %{_CALLER_SIZE};")
        self._emit(f"add.s64 {_D}, {_D}, {size - 1};")
        self._emit(f"setp.lt.and.u64 {_Q}, {_D}, %{_CALLER_SIZE}, {_Q};")
        self._emit(f"or.pred {_OK}, {_OK}, {_Q};")

    def _check_length(self) -> None:
        """Check that _N bytes from _A on lie in one extent."""
        self._sizes.add(1)
        self._emit(f"setp.eq.u64 {_OK}, {_N}, 0;")
        for slot in range(self._slots):
            self._check_within(f"%{RESERVED}low{slot}", f"%{RESERVED}room{slot}_1")
        for variable in self._variables if self._rules.of_nvcc else []:
            self._emit(f"mov.b64 {_T}, {variable.name};")
            self._check_within(_T, str(variable.size))

    def _check_within(self, low: str, room: str) -> None:
        """Allow _N bytes from _A on if they lie in the `room` bytes from `low` on."""
        self._emit(f"sub.s64 {_D}, {_A}, {low};")
        self._emit(f"setp.lt.u64 {_Q}, {_D}, {room};")
        self._emit(f"sub.s64 {_D}, {room}, {_D};")
        self._emit(f"setp.le.and.u64 {_Q}, {_N}, {_D}, {_Q};")
        self._emit(f"or.pred {_OK}, {_OK}, {_Q};")

    def _check_descriptor(self) -> None:
        """Check that _A is one of the kernel's descriptors made by the host."""
        self._emit(f"setp.ne.b32 {_OK}, 0, 0;")
        for parameter in self._function.parameters:
            if self._slots and parameter.size == _DESCRIPTOR_BYTES and parameter.items is not None:
                self._emit(f"mov.b64 {_T}, {parameter.name};")
                self._emit(f"cvta.param.u64 {_T}, {_T};")
                self._emit(f"setp.eq.or.u64 {_OK}, {_A}, {_T}, {_OK};")

    # --- accesses, performed if the check allows it ---

    def _decided(self, one: Instruction) -> None:
        """Emit _GO and _BAD from _OK and the predicate, and record a violation."""
        if one.predicate:
            name = one.predicate.lstrip("!")
            if self._register(name, one).type != "pred":
                raise _refused(one, f"{name} is not a predicate.")
            self._emit(f"{'not' if one.predicate.startswith('!') else 'mov'}.pred {_P}, {name};")
            self._emit(f"and.pred {_GO}, {_OK}, {_P};")
            self._emit(f"not.pred {_Q}, {_OK};")
            self._emit(f"and.pred {_BAD}, {_Q}, {_P};")
        else:
            self._emit(f"mov.pred {_GO}, {_OK};")
            self._emit(f"not.pred {_BAD}, {_OK};")
        if self._slots:
            self._emit(f"@{_BAD} atom.global.cas.b64 {_D}, [{_RECORD}], 0, {_A};")
            self._emit(f"@{_BAD} red.global.add.u64 [{_RECORD}+8], 1;")

    def _guarded(self, one: Instruction, place: int, targets: list[tuple[str, str]]) -> None:
        """Emit an access at _A, and the values of its targets if it is not performed."""
        self._decided(one)
        operands = list(one.operands)
        operands[place] = ("[", _A, *_beyond(operands[place]), "]")
        self._emit(str(Instruction(_GO, one.opcode, tuple(operands))))
        for name, kind in targets:
            if name != "_":
                self._emit(_poisoned(name, self._register(name, one).type, kind))

    def _atomic(self, one: Instruction) -> None:
        """Fence `atom d, [a], b` and `red [a], b`."""
        space, kind, items = self._qualified(one, _ORDERS | _ATOMIC)
        place = 1 if one.base == "atom" else 0
        if len(one.operands) < place + 2:
            raise _refused(one, "It has too few operands.")
        if space not in ("", "global") and space not in _SHARED_SPACES:
            raise _refused(one, "An atomic operation works on global or shared memory.")
        address = _address(one.operands[place], one)
        if self._reaches(one, space, address, ITEM_BYTES[kind] * items, loads=False):
            self._emit(str(one))
            return
        targets = _listed(one.operands[0], one) if place else []
        self._guarded(one, place, [(name, kind) for name in targets])

    # --- matrix fragments and the workspace of a grid ---

    def _matrix(self, one: Instruction) -> None:
        """Fence `wmma.load d, [a], stride` and `wmma.store [a], d, stride`."""
        access = matrices.read_access(one)
        if access.space in _SHARED_SPACES:
            self._emit(str(one))
            return
        place = 1 if access.loads else 0
        self._load_address(one, _address(one.operands[place], one))
        self._emit(f"mov.b64 {_N}, {access.length_bytes};")
        if access.lines > 1:
            stride = self._length(one, one.operands[2]) if len(one.operands) > 2 else str(access.length)
            self._emit(f"mov.b32 {_I}, {stride};")
            self._emit(f"mul.wide.u32 {_D}, {_I}, {access.item_bytes};")
            self._emit(f"mad.lo.u64 {_N}, {_D}, {access.lines - 1}, {_N};")
        self._check_length()
        if not access.space:
            window = "shared::cluster" if self._module.arch >= 90 else "shared"
            self._emit(f"isspacep.{window} {_Q}, {_A};")
            self._emit(f"or.pred {_OK}, {_OK}, {_Q};")
        targets = _listed(one.operands[0], one) if access.loads else []
        self._guarded(one, place, [(name, self._register(name, one).type) for name in targets])

    def _is_workspace(self, one: Instruction) -> bool:
        """Whether an instruction reads half of the address of the grid's workspace."""
        return one.opcode in ("mov.u32", "mov.b32") and any(one.operands[1:] == ((name,),) for name in _WORKSPACE)

    def _workspace(self, one: Instruction) -> None:
        """Give the twin's own workspace in place of the driver's, whose content no replay resets."""
        if one.predicate:
            raise _refused(one, "It reads the grid's workspace under a condition.")
        target = self._register(one.operands[0][0], one)
        if ITEM_BYTES.get(target.type) != 4:
            raise _refused(one, "Its target has not 32 bits.")
        self._emit(self._of_fence(_A, WORKSPACE_AT))
        self._emit(f"shr.u64 {_A}, {_A}, {_WORKSPACE[one.operands[1][0]]};")
        self._emit(f"cvt.u32.u64 {one.operands[0][0]}, {_A};")

    def _discarded(self, one: Instruction) -> None:
        self._load_address(one, _address(one.operands[0], one))
        self._emit(f"mov.b64 {_N}, 128;")
        self._tensors_only(one)
        self._check_length()
        self._guarded(one, 0, [])

    def _tensors_only(self, one: Instruction) -> None:
        if not self._slots:
            raise _refused(one, "It is in a function, which may only change local memory.")

    # --- asynchronous copies ---

    def _copied(self, one: Instruction) -> None:
        self._tensors_only(one)
        words = one.opcode.split(".")
        if one.opcode in _ASYNC_GROUPS:
            self._emit(str(one))
        elif words[2] == "mbarrier":
            self._shared_only(one)
        elif words[2] in ("ca", "cg"):
            self._copied_item(one)
        elif "bulk" not in words or "multimem" in words:
            raise _refused(one, "The copy is not among those that are understood.")
        elif "prefetch" not in words:
            self._copied_bulk(one)

    def _copied_item(self, one: Instruction) -> None:
        """Fence `cp.async [shared], [global], size, source-size`: a forbidden source gives zeros."""
        words = one.qualifiers
        hinted = "L2::cache_hint" in words
        if "global" not in words or not _SHARED_SPACES & set(words):
            raise _refused(one, "It does not say that it copies from global to shared memory.")
        plain = one.operands[: len(one.operands) - hinted]
        if not 3 <= len(plain) <= 4 or len(plain[2]) != 1:
            raise _refused(one, "Its operands are not understood.")
        size = integer(plain[2][0])
        self._load_address(one, _address(plain[1], one))
        self._emit(f"mov.b32 {_I}, {self._length(one, plain[3]) if len(plain) == 4 else size};")
        self._emit(f"min.u32 {_I}, {_I}, {size};")
        self._emit(f"cvt.u64.u32 {_N}, {_I};")
        self._check_length()
        self._decided(one)
        self._emit(f"selp.b32 {_I}, {_I}, 0, {_OK};")
        operands = (plain[0], ("[", _A, "]"), plain[2], (_I,), *one.operands[len(plain) :])
        self._emit(str(Instruction(one.predicate, one.opcode, operands)))

    def _length(self, one: Instruction, operand: Operand) -> str:
        """Return a length in bytes: a 32-bit register or an integer."""
        if len(operand) != 1:
            raise _refused(one, "Its length is not understood.")
        if operand[0][0].isdigit():
            return str(integer(operand[0]))
        if ITEM_BYTES.get(self._register(operand[0], one).type) != 4:
            raise _refused(one, f"Its length {operand[0]} has not 32 bits.")
        return operand[0]

    def _copied_bulk(self, one: Instruction) -> None:
        spaces = [word for word in one.qualifiers if word in _SPACES]
        if len(spaces) != 2 or spaces.count("global") > 1 or set(spaces) - _SHARED_SPACES - {"global"}:
            raise _refused(one, "It does not say between which memories it copies.")
        if "tensor" in one.qualifiers:
            self._copied_tensor(one, spaces)
        elif "global" not in spaces:
            self._emit(str(one))
        else:
            self._copied_bytes(one, spaces.index("global"))

    def _copied_bytes(self, one: Instruction, place: int) -> None:
        """Fence `cp.async.bulk [to], [from], size`."""
        if len(one.operands) < 3:
            raise _refused(one, "It has too few operands.")
        self._load_address(one, _address(one.operands[place], one))
        self._emit(f"mov.b32 {_I}, {self._length(one, one.operands[2])};")
        self._emit(f"cvt.u64.u32 {_N}, {_I};")
        self._check_length()
        self._guarded(one, place, [])
        self._trap(place)

    def _copied_tensor(self, one: Instruction, spaces: list[str]) -> None:
        """Fence a copy through a descriptor `[descriptor, {coordinates}]`, which stays within the tensor."""
        if self._rules.of_nvcc:
            # Its bytes are the candidate's and could describe any memory.
            raise _refused(one, "It copies by a tensor descriptor.")
        place = spaces.index("global") if "global" in spaces else 0
        if "global" not in spaces or len(one.operands) <= place:
            raise _refused(one, "Its operands are not understood.")
        operand = one.operands[place]
        if len(operand) < 5 or operand[2] != ",":
            raise _refused(one, "Its operands are not understood.")
        self._load_address(one, _address((*operand[:2], "]"), one))
        self._check_descriptor()
        self._guarded(one, place, [])
        self._trap(place)

    def _trap(self, place: int) -> None:
        """Trap in a kernel that would wait for a forbidden load; nothing waits for a store to global memory."""
        if place == 1:
            self._emit(f"@{_BAD} trap;")


def _beyond(operand: Operand) -> Operand:
    """Return the coordinates after a descriptor's address."""
    return operand[operand.index(",") : -1] if "," in operand else ()


def _listed(operand: Operand, one: Instruction) -> list[str]:
    """Return the registers of `%r1` or `{%r1, %r2}`."""
    if len(operand) == 1:
        return [operand[0]]
    if operand[:1] != ("{",) or operand[-1:] != ("}",):
        raise _refused(one, "Its target is not understood.")
    names, commas = operand[1:-1:2], operand[2:-1:2]
    if set(commas) - {","} or any(left == right == "," for left, right in pairwise(operand)):
        raise _refused(one, f"Its target {written(operand)} is not understood.")
    return list(names)


def _cleared(name: str, kind: str) -> str:
    """Return the instruction that initializes a register."""
    if kind == "pred":
        return f"setp.ne.b32 {name}, 0, 0;"
    if kind == "b128":
        return f"mov.b128 {name}, {{{_ALL}, {_ALL}}};"
    bits = 8 * ITEM_BYTES[kind]
    return f"mov.b{bits} {name}, 0;" if bits > 8 else f"cvt.u8.u32 {name}, 0;"


def _poisoned(name: str, register: str, kind: str) -> str:
    """Return the instruction that sets all bits of a load's target."""
    if register == "b128":
        return f"@{_BAD} mov.b128 {name}, {{{_ALL}, {_ALL}}};"
    size = ITEM_BYTES[register] if kind.startswith("s") else ITEM_BYTES[kind]
    bits = 8 * ITEM_BYTES[register]
    return f"@{_BAD} mov.b{bits} {name}, {(1 << 8 * size) - 1:#x};"


_CALLER_LOW, _CALLER_SIZE, _CALLER_FENCE = (f"{RESERVED}caller_{name}" for name in ("low", "size", "fence"))
_DYNAMIC: Final = f"{RESERVED}dynamic"
_OK, _GO, _BAD, _P, _Q = (f"%{RESERVED}{number}" for number in range(5))
_A, _D, _T, _N, _ALL, _RECORD = (f"%{RESERVED}{name}" for name in ("a", "d", "t", "n", "ones", "record"))
_I, _J, _W = (f"%{RESERVED}{name}" for name in ("i", "j", "w"))
