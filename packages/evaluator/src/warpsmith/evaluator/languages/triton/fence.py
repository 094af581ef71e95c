"""Makes the fenced twin of a kernel: the same code, in which no access leaves the launch's own tensors.

The twin takes one more parameter, after the others: `warpsmith_fence`, by value, so that no kernel can change it. It
holds the address for recording violations and the extents of the launch's tensors (`FencePlan`). Each access to global
memory, or to an address of unknown space, is preceded by a check; an access that fails it is not performed. A load then
returns all bits set, an asynchronous copy zeros, and a store does nothing; a bulk load traps, since the kernel would
wait forever for its arrival.

When a block starts, it finds nothing of an earlier call: the twin fills its shared memory, its local variables and its
registers. Unknown instructions are rejected: the lists below name the supported ones.
"""

import re
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from warpsmith.evaluator.errors import EvaluatorError
from warpsmith.evaluator.languages.triton.ptx import (
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
    written,
)

PARAMETER: Final = "warpsmith_fence"
RESERVED: Final = "warpsmith_"
MOST_SLOTS: Final = 64
SIZES: Final = (1, 2, 4, 8, 16, 32)
"""Possible sizes of one access, in bytes."""
HEADER_BYTES: Final = 16
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
_DRIVER_FUNCTIONS: Final = frozenset({"vprintf", "__assertfail"})
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
_DESCRIPTOR_BYTES: Final = 128
_ONES: Final = (1 << 64) - 1


class FenceError(EvaluatorError):
    """A kernel that cannot have a fenced twin, or a launch whose tensors do not fit its twin."""


class OwnDescriptorError(FenceError):
    """A kernel makes tensor descriptors itself, which could point anywhere."""


@dataclass(frozen=True)
class FencePlan:
    """The memory that one launch of a twin can reach.

    Attributes:
        record: device address of RECORD_BYTES outside all tensors, for violations.
        extents: begin and end of each tensor's memory, as device addresses.
    """

    record: int
    extents: tuple[tuple[int, int], ...]

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
        return struct.pack("<QQ", self.record, 0) + b"".join(parts).ljust(slots * SLOT_BYTES, b"\0")

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
        raise FenceError(f"A kernel cannot be checked: {error} {_ADVICE}") from error


_ADVICE: Final = "Leave that inline assembly out and use Triton's own operations."


def _module(module: Module, slots: int) -> Iterator[str]:
    yield from module.head
    defined = {function.name for function in module.functions}
    for name, text in module.declared:
        if name not in _DRIVER_FUNCTIONS | defined or (name in defined and ".extern" in text):
            raise FenceError(f"A kernel declares the function {name}, which is not defined. {_ADVICE}")
        _unreserved([text])
        yield _with_caller(text) if name in defined else text
    if defined & _DRIVER_FUNCTIONS:
        raise FenceError(f"A kernel defines a function by a name of the driver's. {_ADVICE}")
    yield from _unreserved([text for _, text in module.variables])
    for function in module.functions:
        yield f".func {_with_caller(_unreserved([function.heading])[0])}"
        yield from _Body(module, function, 0).lines()
    entry = module.entry
    parameters = [declaration(one) for one in entry.parameters]
    parameters.append(f".param .align 8 .b8 {PARAMETER}[{HEADER_BYTES + slots * SLOT_BYTES}]")
    yield f".visible .entry {entry.name}({', '.join(_unreserved(parameters[:-1]) + parameters[-1:])})"
    yield from _Body(module, entry, slots).lines()


def _with_caller(heading: str) -> str:
    """Return a function's heading with two more parameters: address and size of its caller's local memory."""
    before, _, after = heading.rpartition(")")
    if not before or before.endswith("("):
        raise FenceError(f"A function without parameters, {heading[:80]}, is not understood. {_ADVICE}")
    return f"{before}, .param .b64 {_CALLER_LOW}, .param .b64 {_CALLER_SIZE}){after}"


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
            raise _refused(instruction, "Its address is no register and no name.")


def _offset(tokens: list[str], instruction: Instruction) -> int:
    match tokens:
        case []:
            return 0
        case ["+", "-", number] | ["-", number]:
            return -integer(number)
        case ["+", number]:
            return integer(number)
        case _:
            raise _refused(instruction, "The offset of its address is no whole number.")


def _refused(instruction: Instruction, why: str) -> FenceError:
    return FenceError(f"A kernel cannot be checked: {instruction} {why} {_ADVICE}")


class _Body:
    """Rewrites the body of one function; `slots` is 0 if it has no fence parameter and accesses no tensor."""

    def __init__(self, module: Module, function: Function, slots: int) -> None:
        self._module = module
        self._function = function
        self._slots = slots
        self._variables = [one for one, _ in module.variables if one.space == "global"]
        self._parameters = {one.name: one for one in (*function.parameters, *function.results)}
        self._callable = {one.name for one in module.functions} | {
            name for name, _ in module.declared if name in _DRIVER_FUNCTIONS
        }
        self._scopes: list[dict[str, Registers | Variable]] = [{}]
        self._fixed = {one.name for one, _ in module.variables} | set(self._parameters) | self._callable
        self._locals: list[Variable] = []
        self._sizes: set[int] = set()
        self._out: list[str] = []
        self._started = False

    # --- the whole ---

    def lines(self) -> list[str]:
        """Return directives and body."""
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
        return [*self._function.directives, "{", *self._prologue(), *self._out, "}"]

    def _check_labels(self) -> None:
        labels = [one.name for one in self._function.body if isinstance(one, Label | Targets)]
        taken = self._fixed | {one.name for one in self._function.body if isinstance(one, Variable)}
        for name in _unreserved(labels):
            if name in taken:
                raise FenceError(f"A kernel cannot be checked: the label {name} is the name of a variable. {_ADVICE}")

    def _emit(self, line: str) -> None:
        self._out.append(line)

    def _prologue(self) -> Iterator[str]:
        yield f".reg .pred %{RESERVED}<6>;"
        names = ("a", "d", "t", "n", "ones", "record")
        yield f".reg .b64 {', '.join(f'%{RESERVED}{name}' for name in names)};"
        yield f".reg .b32 {', '.join(f'%{RESERVED}{name}' for name in ('i', 'j', 'w'))};"
        yield f"mov.b64 %{RESERVED}ones, {_ONES:#x};"
        if not self._slots:
            yield f".reg .b64 %{_CALLER_LOW}, %{_CALLER_SIZE};"
            yield f"ld.param.b64 %{_CALLER_LOW}, [{_CALLER_LOW}];"
            yield f"ld.param.b64 %{_CALLER_SIZE}, [{_CALLER_SIZE}];"
        else:
            yield f"ld.param.b64 {_RECORD}, [{PARAMETER}];"
            yield from self._extents()
            yield from self._filled_shared()

    def _extents(self) -> Iterator[str]:
        for slot in range(self._slots):
            at = HEADER_BYTES + slot * SLOT_BYTES
            yield f".reg .b64 %{RESERVED}low{slot};"
            yield f"ld.param.b64 %{RESERVED}low{slot}, [{PARAMETER}+{at}];"
            for number, size in enumerate(SIZES):
                if size in self._sizes:
                    yield f".reg .b64 %{RESERVED}room{slot}_{size};"
                    yield f"ld.param.b64 %{RESERVED}room{slot}_{size}, [{PARAMETER}+{at + 8 * (number + 1)}];"

    def _filled_shared(self) -> Iterator[str]:
        """Fill the block's shared memory, before any block of its cluster goes on."""
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
                raise FenceError(f"A kernel cannot be checked: it declares {name} within its scope again. {_ADVICE}")
            self._scopes[-1][name] = declared

    def _registers(self, declared: Registers) -> None:
        self._declare(declared, declared.names())
        self._emit(f"{declaration(declared)};")
        for name in declared.names():
            self._emit(_cleared(name, declared.type))

    def _variable(self, declared: Variable) -> None:
        self._declare(declared, [declared.name])
        self._emit(f"{declaration(declared)};")
        if declared.space == "local":
            if len(self._scopes) > 1 or self._started:
                raise FenceError(f"A kernel cannot be checked: its code declares {declaration(declared)}. {_ADVICE}")
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
            raise _refused(instruction, f"{name} is no register.")
        return found

    # --- instructions ---

    def _instruction(self, one: Instruction) -> None:
        self._started = True
        self._check_words(one)
        parts = one.opcode.split(".")
        two = ".".join(parts[:2])
        if two == "tcgen05.commit" and not _SHARED_SPACES & set(one.qualifiers):
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
        elif parts[0] == "tensormap":
            raise OwnDescriptorError(
                "A kernel makes a tensor descriptor, which cannot be checked. Make it on the host with "
                "triton.tools.tensor_descriptor.TensorDescriptor, or use pointers."
            )
        elif parts[0] in _PURE or two.partition("::")[0] in _TENSOR_MEMORY:
            self._emit(str(one))
        elif parts[0] not in _HINTS:
            raise _refused(one, "The instruction is not among those that are understood.")

    def _check_words(self, one: Instruction) -> None:
        for word in (token for operand in one.operands for token in operand):
            if RESERVED in word or (word.startswith("%") and not self._found(word) and not _SPECIAL.fullmatch(word)):
                raise _refused(one, f"{word} is no register that a kernel may use.")

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
        if names[0] in _DRIVER_FUNCTIONS:
            self._emit(str(one))
        else:
            self._handed_on(one)

    def _handed_on(self, one: Instruction) -> None:
        """Emit a call that passes on the caller's local memory, since arguments can point into it."""
        if len(self._locals) > 1 or one.predicate or len(one.operands[-1]) < 3 or one.operands[-1][0] != "(":
            raise _refused(one, "The call is not understood.")
        self._emit("{")
        for name, value in ((_CALLER_LOW, _A), (_CALLER_SIZE, _N)):
            self._emit(f".param .b64 {name};")
            self._emit(f"mov.b64 {value}, 0;")
        for variable in self._locals:
            self._emit(f"mov.b64 {_A}, {variable.name};")
            self._emit(f"cvta.local.u64 {_A}, {_A};")
            self._emit(f"mov.b64 {_N}, {variable.size};")
        self._emit(f"st.param.b64 [{_CALLER_LOW}], {_A};")
        self._emit(f"st.param.b64 [{_CALLER_SIZE}], {_N};")
        arguments = (*one.operands[-1][:-1], ",", _CALLER_LOW, ",", _CALLER_SIZE, ")")
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
            self._check_named(one, address, size, self._parameter(one, address))
            return True
        if space in _SHARED_SPACES or (space == "const" and loads):
            return True
        variable = next((each for each in (*self._variables, *self._locals) if each.name == address.base), None)
        if variable is not None and variable.space == space and (loads or space == "local"):
            self._check_named(one, address, size, variable)
            return True
        self._load_address(one, address, wide=space != "local")
        self._check(one, space, size, loads=loads)
        return False

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
            if loads:
                self._check_variables(self._variables, size)
        if space == "":
            window = "shared::cluster" if self._module.arch >= 90 else "shared"
            self._emit(f"isspacep.{window} {_Q}, {_A};")
            self._emit(f"or.pred {_OK}, {_OK}, {_Q};")
            if self._locals:
                self._check_generic_locals(size)
            if not self._slots:
                self._check_caller(size)
        if space == "local":
            self._check_variables(self._locals, size)

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

    def _check_generic_locals(self, size: int) -> None:
        self._emit(f"isspacep.local {_Q}, {_A};")
        self._emit(f"cvta.to.local.u64 {_N}, {_A};")
        for variable in self._locals:
            if variable.size >= size:
                self._emit(f"mov.b64 {_T}, {variable.name};")
                self._emit(f"sub.s64 {_D}, {_N}, {_T};")
                self._emit(f"setp.lt.and.u64 {_P}, {_D}, {variable.size - size + 1}, {_Q};")
                self._emit(f"or.pred {_OK}, {_OK}, {_P};")

    def _check_caller(self, size: int) -> None:
        """Check against the local memory of the calling function."""
        self._emit(f"sub.s64 {_D}, {_A}, %{_CALLER_LOW};")
        self._emit(f"setp.lt.u64 {_Q}, {_D}, %{_CALLER_SIZE};")
        self._emit(f"add.s64 {_D}, {_D}, {size - 1};")
        self._emit(f"setp.lt.and.u64 {_Q}, {_D}, %{_CALLER_SIZE}, {_Q};")
        self._emit(f"or.pred {_OK}, {_OK}, {_Q};")

    def _check_length(self) -> None:
        """Check that _N bytes from _A on lie in one extent."""
        self._sizes.add(1)
        self._emit(f"setp.eq.u64 {_OK}, {_N}, 0;")
        for slot in range(self._slots):
            room = f"%{RESERVED}room{slot}_1"
            self._emit(f"sub.s64 {_D}, {_A}, %{RESERVED}low{slot};")
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
                raise _refused(one, f"{name} is no predicate.")
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


_CALLER_LOW, _CALLER_SIZE = f"{RESERVED}caller_low", f"{RESERVED}caller_size"
_OK, _GO, _BAD, _P, _Q = (f"%{RESERVED}{number}" for number in range(5))
_A, _D, _T, _N, _ALL, _RECORD = (f"%{RESERVED}{name}" for name in ("a", "d", "t", "n", "ones", "record"))
_I, _J, _W = (f"%{RESERVED}{name}" for name in ("i", "j", "w"))
