"""Compiles kernels, extracted from a candidate's source by syntax, for a chip that this machine need not have."""

import builtins
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.compiler.errors import CompilationError, CompileTimeAssertionFailure
from triton.runtime import cache
from triton.runtime.cache import FileCacheManager
from triton.runtime.errors import OutOfResources, PTXASError
from triton.runtime.jit import JITCallable, MockTensor, create_function_from_signature
from triton.tools.tensor_descriptor import TensorDescriptor

from warpsmith.evaluator.devices.tensor_views import TORCH_DTYPES
from warpsmith.evaluator.languages.chips import Chip, chip_name, is_amd, lanes
from warpsmith.evaluator.languages.cuda_cpp.cubin import CubinError, kernels_of
from warpsmith.evaluator.languages.triton import captures
from warpsmith.evaluator.languages.triton.extract.check import LANGUAGE_NAME
from warpsmith.evaluator.languages.triton.extract.computing import COMPUTING_BUILTINS
from warpsmith.evaluator.languages.triton.extract.extraction import Extracted
from warpsmith.evaluator.languages.triton.extract.grammar import BODY_BUILTINS, TYPE_TEST
from warpsmith.evaluator.languages.triton.extract.library import ALLOWED_MODULES, INNER_FUNCTIONS
from warpsmith.evaluator.languages.triton.extract.render import COMPUTE_NAME, JIT_NAME, RECORD_NAME
from warpsmith.evaluator.languages.triton.kernel_names import own_name
from warpsmith.evaluator.languages.triton.kernel_set import KernelCompilationError, KernelSet
from warpsmith.evaluator.languages.triton.loaded_kernels import OPTION_NAMES
from warpsmith.evaluator.languages.triton.twins import Beside, twin_of

MODULE_NAME: Final = "candidate_kernels"
UNBINDABLE: Final = frozenset({"backend", "options", "params", "specialize_impl"})
"""Names that no parameter of a kernel can have in Triton."""
WITHOUT_EFFECT: Final = {
    "launch_pdl": (False, True),
    "launch_cooperative_grid": (False,),
    "sanitize_overflow": (False,),
}
"""Launch options that are ignored, with the values for which they are: a replay's launches run one after another, so
that none starts early; grids are not cooperative, and the compiler's overflow checks belong to `debug`."""
WARP: Final = 32
MAX_THREADS: Final = 1024
MAX_CTAS: Final = 8
"""Maximum threads per block and blocks per cluster on any chip (CUDA C++ Programming Guide)."""
SHARED_MEMORY_BYTES: Final[dict[Chip, int]] = {
    75: 65536, 80: 166912, 86: 101376, 89: 101376, 90: 232448, 100: 232448, 120: 101376,
    "gfx90a": 65536, "gfx942": 65536, "gfx950": 163840,
}  # fmt: skip
"""Maximum shared memory per block, by chip (CUDA C++ Programming Guide, compute capabilities; AMD's CDNA)."""


def load_kernels(extracted: Extracted, folder: Path) -> KernelSet:
    """Check what the rendered source reaches, execute it and return its kernels by name.

    The source is written to `folder`, because Triton reads a kernel's source text from its file.
    """
    for name in extracted.reached:
        check_reached(name)
    return execute_kernels(extracted, folder)


def execute_kernels(extracted: Extracted, folder: Path) -> KernelSet:
    """Execute the rendered source (imports, values of constants, kernel definitions), and nothing else."""
    path = folder / f"{MODULE_NAME}.py"
    path.write_text(extracted.source, encoding="utf-8")
    closed = {name: getattr(builtins, name) for name in {*BODY_BUILTINS, *COMPUTING_BUILTINS, TYPE_TEST}}
    closed["AssertionError"] = AssertionError
    closed["__import__"] = _import_allowed
    kernels = KernelSet(extracted)
    namespace: dict[str, Any] = {
        "__name__": MODULE_NAME,
        "__file__": str(path),
        "__builtins__": closed,
        JIT_NAME: kernels.jit,
        COMPUTE_NAME: kernels.compute,
        RECORD_NAME: kernels.record,
        LANGUAGE_NAME: tl,
    }
    exec(compile(extracted.source, str(path), "exec"), namespace)
    return kernels


def _import_allowed(name: str, *rest: Any) -> ModuleType:
    if name not in ALLOWED_MODULES:
        raise ImportError(f"{name} is not a module that a kernel may use.")
    return __import__(name, *rest)


def check_reached(name: str) -> None:
    """Raise unless a dotted library name leads through allowed modules only to something that a kernel can use."""
    parts = name.split(".")
    cut = max((n for n in range(1, len(parts) + 1) if ".".join(parts[:n]) in ALLOWED_MODULES), default=0)
    if not cut:
        found: Any = vars(builtins).get(name)
    else:
        found = importlib.import_module(".".join(parts[:cut]))
    for part in parts[cut:] if cut else []:
        if isinstance(found, ModuleType) and found.__name__ not in ALLOWED_MODULES and name not in INNER_FUNCTIONS:
            raise KernelCompilationError(
                f"{name} passes through the module {found.__name__}, which is closed to kernels. Use triton.language."
            )
        if part not in dir(found):
            raise KernelCompilationError(
                f"{name} does not exist in Triton {triton.__version__}. Use what that version has."
            )
        found = getattr(found, part)
    if not _is_kernel_value(found):
        raise KernelCompilationError(
            f"{name} is nothing that a kernel may use. Use functions of triton.language and constants."
        )


def _is_kernel_value(found: Any) -> bool:
    if isinstance(found, ModuleType):
        return found.__name__ in ALLOWED_MODULES
    if isinstance(found, JITCallable | tl.dtype | tl.constexpr | tl.PropagateNan | int | float | str | bool):
        return True
    if tl.core.is_builtin(found):
        return True
    module = str(getattr(found, "__module__", ""))
    return module.startswith(("triton.language", "math")) or found in {triton.cdiv, triton.next_power_of_2}


def compile_launch(kernels: KernelSet, launch: dict[str, Any], arch: Chip, *, binary: bool = False) -> dict[str, Any]:
    """Compile one captured launch to machine code for a chip.

    Args:
        kernels: the result of `load_kernels`.
        launch: `kernel`, `arguments` and `options`, as recorded.
        arch: the chip.
        binary: whether to return the machine code of the kernel and of its fenced twin.

    Returns:
        `shared_bytes`, `resources` (see `_resources`), `scratch_bytes` (from an allocator), `cubin_bytes`, `tf32`
        (whether a float32 dot runs in TF32) and, if requested, `binary`: the fields of `loaded_kernels.Binary`.

    Raises:
        KernelCompilationError: with Triton's own message and the line in the candidate's source.
    """
    name = own_name(str(launch["kernel"]))
    try:
        prepared = prepare(kernels, launch, arch)
        parameters = prepared.parameters
        beside = Beside(parameters, lambda known: _check_shared(name, int(known["shared"]), arch), wanted=binary)
        with beside.within():
            compiled = prepared.compiled()
    except KernelCompilationError:
        raise
    except OutOfResources as error:
        raise KernelCompilationError(str(error), "shared_memory_exceeded") from error
    except CompileTimeAssertionFailure as error:
        raise KernelCompilationError(clean(str(error)), "assertion_error") from error
    except (CompilationError, PTXASError) as error:
        raise KernelCompilationError(clean(str(error))) from error
    except Exception as error:
        # Any other exception of the compiler is about the kernel too; its type goes into the message.
        raise KernelCompilationError(clean(f"{type(error).__name__}: {error}")) from error
    facts = _facts(compiled, launch, arch)
    if not binary or isinstance(arch, str):
        return facts
    twin = twin_of(compiled, beside, prepared.used, arch, by_pointers=prepared.compiled)
    return facts | {"binary": _binary(compiled, beside.parameters) | twin}


@dataclass(frozen=True)
class Prepared:
    """A launch that Triton can compile.

    Attributes:
        source: the kernel, specialized for the arguments.
        target: the chip.
        given: the options passed to Triton.
        used: the same options as parsed by Triton's backend.
    """

    source: Any
    target: GPUTarget
    given: dict[str, Any]
    used: Any

    @property
    def parameters(self) -> list[list[Any]]:
        """Name and type of each parameter, a tuple's type as a list, for `Binary.parameters`."""
        return [[name, _as_lists(kind)] for name, kind in self.source.signature.items()]

    def compiled(self) -> Any:
        return triton.compile(self.source, target=self.target, options=self.given)


def target_of(chip: Chip) -> GPUTarget:
    """Return Triton's description of a chip."""
    return GPUTarget("hip" if is_amd(chip) else "cuda", chip, lanes(chip))


def prepare(kernels: KernelSet, launch: dict[str, Any], arch: Chip) -> Prepared:
    """Return a launch specialized for a chip as in Triton; KernelCompilationError for an invalid launch."""
    target = target_of(arch)
    backend = make_backend(target)
    recorded_name, described = str(launch["kernel"]), dict(launch["arguments"])
    kernel, name = kernels.launched(recorded_name, described), own_name(recorded_name)
    _check_parameters(name, kernel.arg_names)
    bind = create_function_from_signature(kernel.signature, kernel.params, backend)
    arguments = {key: _stand_in(value, kernels) for key, value in described.items() if key != captures.ARGUMENT}
    options = _checked_options(name, dict(launch["options"]), vars(backend.parse_options({})))
    alone = {key: value for key, value in options.items() if key not in arguments}
    bound, specialization, rest = bind(**arguments, **alone)
    parsed, signature, constexprs, attributes = kernel._pack_args(backend, options, bound, specialization, rest)
    _check_size(name, parsed)
    source = ASTSource(kernel, signature, constexprs, attributes)
    # Without `debug` the compiler drops its overflow checks in the end, so it need not generate them.
    checks = {} if parsed.debug else {"sanitize_overflow": False}
    given = parsed.__dict__ | checks
    return Prepared(source, target, given, backend.parse_options(given))


def _check_parameters(kernel: str, names: list[str]) -> None:
    for name in names:
        if name in UNBINDABLE:
            raise KernelCompilationError(
                f"Kernel {kernel} has a parameter {name}, with which Triton cannot launch it: the function by which it "
                "binds arguments has a variable of that name. Give the parameter another name."
            )


def _checked_options(kernel: str, options: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options to compile with, of those of a launch; `known` are those that Triton has for the chip."""
    for name, value in options.items():
        if name in WITHOUT_EFFECT and name in known:
            if not any(value is ignored for ignored in WITHOUT_EFFECT[name]):
                raise KernelCompilationError(
                    f"The launch of {kernel} has {name}={str(value)[:40]}; only "
                    f"{' or '.join(map(str, WITHOUT_EFFECT[name]))} is taken here. Leave it out."
                )
        elif name not in OPTION_NAMES:
            raise KernelCompilationError(
                f"The launch of {kernel} has a keyword {name}, which is neither an argument of the kernel nor an "
                f"option that is taken here ({', '.join(sorted(OPTION_NAMES))}). Leave it out."
            )
        if isinstance(value, list):
            raise KernelCompilationError(
                f"The launch option {name} of {kernel} is not a plain value. Pass a number, a bool or a string."
            )
    return {name: value for name, value in options.items() if name not in WITHOUT_EFFECT}


def _check_size(kernel: str, options: Any) -> None:
    threads = options.num_warps * options.warp_size
    if threads > MAX_THREADS:
        raise KernelCompilationError(
            f"Kernel {kernel} is launched with num_warps={options.num_warps}, {threads} threads; a block has at most "
            f"{MAX_THREADS}. Use num_warps={MAX_THREADS // options.warp_size} or fewer."
        )
    if not 1 <= options.num_ctas <= MAX_CTAS:
        raise KernelCompilationError(
            f"Kernel {kernel} is launched with num_ctas={options.num_ctas}; a cluster has 1 to {MAX_CTAS} blocks. Use "
            "num_ctas=1."
        )


def _stand_in(description: Any, kernels: KernelSet) -> Any:
    """Return a stand-in that Triton specializes like the described argument."""
    match description:
        case ["tensor", str(name), bool(aligned)] if name in TORCH_DTYPES:
            return _Tensor(TORCH_DTYPES[name], aligned)
        case ["descriptor", str(name), list(block)] if name in TORCH_DTYPES:
            # Only dtype and block matter to the compiler; the strides are any that it accepts.
            strides = [*[16] * (len(block) - 1), 1]
            return TensorDescriptor(_Tensor(TORCH_DTYPES[name], True), block, strides, block)
        case ["value", value]:
            return value
        case ["tuple", list(items)]:
            return tuple(_stand_in(item, kernels) for item in items)
        case ["named", str(name), list(items)]:
            return kernels.named(name, [_stand_in(item, kernels) for item in items])
        case ["kernel" | "library" | "dtype", str(), *_]:
            return kernels.constant(description)
        case ["unsupported", str(kind)]:
            raise KernelCompilationError(
                f"A kernel argument is a {kind}, which no kernel takes. Pass tensors, numbers, dtypes, tuples of these "
                "or @triton.jit functions as tl.constexpr."
            )
        case [str(kind), *_]:
            raise KernelCompilationError(
                f"A kernel argument of kind {kind} cannot be compiled for. Pass tensors, numbers and dtypes."
            )
        case _:
            raise KernelCompilationError("A kernel argument is of no known kind. Pass tensors, numbers and dtypes.")


class _Tensor(MockTensor):  # type: ignore[misc]
    """A tensor argument without memory: its dtype, and whether its address is a multiple of 16."""

    def __init__(self, dtype: torch.dtype, aligned: bool) -> None:
        super().__init__(dtype)
        self.address = 0 if aligned else 4

    def data_ptr(self) -> int:
        return self.address


def _facts(compiled: Any, launch: dict[str, Any], arch: Chip) -> dict[str, Any]:
    shared = int(compiled.metadata.shared)
    _check_shared(own_name(str(launch["kernel"])), shared, arch)
    ttir = str(compiled.asm["ttir"])
    return {
        "shared_bytes": shared,
        "resources": _resources(compiled, own_name(str(launch["kernel"])), arch),
        # Triton 3.6 has no scratch memory for AMD's chips, and no field for its size.
        "scratch_bytes": int(getattr(compiled.metadata, "global_scratch_size", 0)),
        "cubin_bytes": len(compiled.asm["hsaco" if is_amd(arch) else "cubin"]),
        "tf32": has_tf32_dot(ttir),
    }


def _resources(compiled: Any, name: str, arch: Chip) -> dict[str, Any]:
    """Return what a kernel uses of the chip, for `judge.kernel_figures`; empty if the machine code does not tell."""
    metadata = compiled.metadata
    if isinstance(arch, str):
        return _resources_on_amd(compiled, name, arch)
    try:
        found = kernels_of(bytes(compiled.asm["cubin"]), arch).get(str(metadata.name))
    except CubinError:
        found = None
    if found is None:
        return {}
    return {
        "name": name,
        "threads": WARP * int(metadata.num_warps),
        "registers": found.registers,
        "spill_bytes": found.local_bytes,
        "static_shared_bytes": found.shared_bytes,
        "dynamic_shared_bytes": int(metadata.shared),
    }


def _resources_on_amd(compiled: Any, name: str, chip: str) -> dict[str, Any]:
    """Return the same from what the assembly says; vector registers are a thread's, and `private` is its memory."""
    facts = dict(_ASSEMBLY_FACTS.findall(str(compiled.asm["amdgcn"])))
    if "vgpr_count" not in facts:
        return {}
    return {
        "name": name,
        "threads": lanes(chip) * int(compiled.metadata.num_warps),
        "registers": int(facts["vgpr_count"]) + int(facts.get("agpr_count", 0)),
        "spill_bytes": int(facts.get("private_segment_fixed_size", 0)),
        "static_shared_bytes": int(facts.get("group_segment_fixed_size", 0)),
        "dynamic_shared_bytes": max(int(compiled.metadata.shared) - int(facts.get("group_segment_fixed_size", 0)), 0),
    }


_ASSEMBLY_FACTS: Final = re.compile(
    r"^\s*(?:- )?\.(vgpr_count|agpr_count|private_segment_fixed_size|group_segment_fixed_size):\s*(\d+)", re.MULTILINE
)


def _check_shared(kernel: str, shared: int, arch: Chip) -> None:
    limit = SHARED_MEMORY_BYTES.get(arch)
    if limit is not None and shared > limit:
        raise KernelCompilationError(
            f"Kernel {kernel} needs {shared} bytes of shared memory; {chip_name(arch)} has {limit} for a block. "
            "Make its blocks smaller or lower num_stages.",
            "shared_memory_exceeded",
        )


def _binary(compiled: Any, parameters: list[Any]) -> dict[str, Any]:
    """Return the fields of `loaded_kernels.Binary`."""
    metadata = compiled.metadata
    return {
        "cubin": bytes(compiled.asm["cubin"]),
        "symbol": str(metadata.name),
        "shared_bytes": int(metadata.shared),
        "warps": int(metadata.num_warps),
        "blocks": int(metadata.num_ctas),
        "cooperative": bool(metadata.launch_cooperative_grid),
        "scratch_bytes": int(metadata.global_scratch_size),
        "parameters": parameters,
        "tiles": [_tile(described) for described in metadata.tensordesc_meta or ()],
    }


def _tile(described: Any) -> dict[str, Any]:
    """Return how the code reads one descriptor: the fields of `loaded_kernels.Tile`."""
    from triton.backends.nvidia.driver import TMA_DTYPE_DEVICE_TO_HOST

    if described["fp4_padded"] or described.get("is_im2col"):
        raise KernelCompilationError(
            "A kernel takes a tensor descriptor of padded 4-bit numbers or of an im2col view, which cannot be passed "
            "here. Pass the tensor, and make the descriptor in the kernel with tl.make_tensor_descriptor."
        )
    element = TMA_DTYPE_DEVICE_TO_HOST[int(described["elem_type"])]
    return {
        "element": int(element),
        "item_bytes": int(described["elem_size"]),
        "swizzle": int(described["swizzle"]),
        "block": [int(side) for side in described["block_size"]],
    }


def _as_lists(kind: Any) -> Any:
    return [_as_lists(part) for part in kind] if isinstance(kind, tuple | list) else str(kind)


def has_tf32_dot(ttir: str) -> bool:
    """Whether the intermediate code has a dot of float32 operands that runs in TF32."""
    return any(_TF32.search(line) and "xf32>" in _operands(line) for line in ttir.splitlines())


def _operands(line: str) -> str:
    """Return the operand types of an operation, before the arrow; the result type is float32 for half precision too."""
    return line.partition(" : ")[2].partition(" -> ")[0]


_TF32: Final = re.compile(r"inputPrecision = tf32\b")


def clean(message: str) -> str:
    """Return Triton's message without terminal colors and with a short path."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", message)
    return re.sub(rf"\S*/{MODULE_NAME}\.py", "candidate", text).strip()


class ScratchCache(FileCacheManager):  # type: ignore[misc]
    """Triton's cache for a single process: files are written in place, without an atomic rename."""

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        path = Path(self._make_path(filename))
        path.write_bytes(data if isinstance(data, bytes) else str(data).encode())
        return str(path)


def compile_trusted_kernel(arch: Chip, folder: Path, block: int = 64) -> None:
    """Compile a trusted kernel, so that the compiler's lazy imports and initialization are done before a fork.

    Args:
        arch: the chip.
        folder: a writable folder, for its source.
        block: its block size; a size that this process or its parent has compiled is cached.
    """
    triton.knobs.cache.manager_class = ScratchCache
    # A folder serves one version of Triton. Its own key is a digest of all it consists of, half a gigabyte to read.
    cache.triton_key = lambda: triton.__version__
    extracted = Extracted(_TRUSTED, ("scale",), frozenset())
    arguments = _TRUSTED_ARGUMENTS | {"BLOCK": ["value", block]}
    launch = {"kernel": "scale", "arguments": arguments, "options": {}}
    compile_launch(load_kernels(extracted, folder), launch, arch)


_TRUSTED_ARGUMENTS: Final = {"x": ["tensor", "float32", True], "n": ["value", 7], "BLOCK": ["value", 64]}
_TRUSTED: Final = f"""\
import triton.language as tl
@{JIT_NAME}
def scale(x, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + offsets, mask=offsets < n, other=0.0)
    tl.store(x + offsets, tl.exp(values) / tl.sum(values, axis=0), mask=offsets < n)
"""
