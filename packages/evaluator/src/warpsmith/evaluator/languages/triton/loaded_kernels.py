"""Compiled kernels on a GPU: loaded from a cubin and launched with packed arguments, without Triton's own launcher.

Triton up to 3.8 builds a C program for each launch signature; here nothing is built, so that a worker executes nothing.
The parameters are laid out like Triton's (`backends/nvidia/driver.py`): the arguments that are not constants, in order
and flattened, then a pointer to global scratch memory and one to the profiler's.
"""

import ctypes
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from warpsmith.evaluator import _native
from warpsmith.evaluator.devices.base import Device, TensorMap
from warpsmith.evaluator.errors import EvaluatorError, WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.languages.fencing import fence
from warpsmith.evaluator.languages.fencing.fence import FenceError, FencePlan
from warpsmith.evaluator.languages.triton import descriptors

WARP: Final = 32
_FORMATS: Final = {
    "i1": "b",
    "i8": "b",
    "i16": "h",
    "i32": "i",
    "i64": "q",
    "u1": "B",
    "u8": "B",
    "u16": "H",
    "u32": "I",
    "u64": "Q",
    "fp16": "e",
    "fp64": "d",
}
_SINGLE: Final = frozenset({"bf16", "fp32", "f32"})
_DESCRIPTOR: Final = "tensordesc<"
TFLOAT32: Final = 11
"""The driver's code for float32 that is rounded to TF32 when loaded."""


OPTION_NAMES: Final = frozenset({"num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "debug"})
"""Launch options that are passed to the compiler; any other is rejected, as Triton rejects unknown ones."""


class ArgumentError(EvaluatorError):
    """A kernel got an argument that it cannot take."""


def bound_arguments(
    kernel: str, names: Sequence[str], defaults: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a launch's arguments by name in the order of the kernel's parameters, with defaults.

    Raises:
        ArgumentError: there are too many or too few, or one is passed twice.
    """
    if len(args) > len(names):
        raise ArgumentError(
            f"{kernel} takes {len(names)} arguments; {len(args)} were given.",
            f"Its parameters are {', '.join(names)}.",
        )
    given = dict(zip(names, args, strict=False))
    if twice := [name for name in given if name in kwargs]:
        raise ArgumentError(f"{kernel} is given {', '.join(twice)} twice.", "Pass it by position or by name.")
    given |= {name: kwargs[name] for name in names if name in kwargs}
    if missing := [name for name in names if name not in given and name not in defaults]:
        raise ArgumentError(f"{kernel} is launched without {', '.join(missing)}.", "Pass every parameter a value.")
    return {name: given[name] if name in given else defaults[name] for name in names}


def options_of(names: Sequence[str], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of a launch that are options: those that name no parameter.

    A parameter can have the name of an option, such as `num_stages: tl.constexpr`; Triton takes the keyword as both.
    """
    return {
        name: value
        for name, value in kwargs.items()
        if name not in names or (name in OPTION_NAMES and isinstance(value, int))
    }


@dataclass(frozen=True)
class Binary:
    """One kernel, compiled for one launch signature.

    Attributes:
        cubin: the machine code.
        symbol: the kernel's name in it.
        shared_bytes: shared memory of a block.
        warps: warps of a block.
        blocks: blocks of a cluster.
        cooperative: whether all blocks must run at once.
        scratch_bytes: global scratch memory of a block.
        parameters: name and type of each parameter; types are nested lists where arguments are tuples.
        tiles: how the code reads each tensor descriptor, in order; empty if the chip has no unit for them.
        fenced: the machine code of the kernel's fenced twin (`fence.py`); empty if there is none.
        fence_error: why there is none, and what to write instead.
        fenced_shared_bytes: shared memory of a block of the twin.
        fenced_warps: warps of a block of the twin.
        fenced_tiled: whether the twin reads tensor descriptors as `tiles` says, or by pointers.
    """

    cubin: bytes
    symbol: str
    shared_bytes: int
    warps: int
    blocks: int
    cooperative: bool
    scratch_bytes: int
    parameters: list[Any]
    tiles: list["Tile"]
    fenced: bytes = b""
    fence_error: str = ""
    fenced_shared_bytes: int = 0
    fenced_warps: int = 1
    fenced_tiled: bool = True

    @staticmethod
    def of(values: Any) -> "Binary":
        """Read the fields that `compilation.compile_launch` returns; WireError if they are malformed."""
        fields = codec.Fields(values)
        return Binary(
            fields.content("cubin"),
            fields.text("symbol"),
            fields.integer("shared_bytes"),
            fields.integer("warps"),
            fields.integer("blocks"),
            fields.flag("cooperative"),
            fields.integer("scratch_bytes"),
            [_parameter(described) for described in fields.sequence("parameters")],
            [Tile.of(described) for described in fields.sequence("tiles")],
            fields.content("fenced"),
            fields.text("fence_error"),
            fields.integer("fenced_shared_bytes"),
            fields.integer("fenced_warps"),
            fields.flag("fenced_tiled"),
        )


@dataclass(frozen=True)
class Tile:
    """How machine code reads a tensor through a descriptor.

    Attributes:
        element: the driver's code for the dtype (CUtensorMapDataType).
        item_bytes: size of an element.
        swizzle: the driver's code for the layout in shared memory (CUtensorMapSwizzle).
        block: shape of one access, in elements; it can be a part of the descriptor's block.
    """

    element: int
    item_bytes: int
    swizzle: int
    block: list[int]

    @staticmethod
    def of(described: Any) -> "Tile":
        """Read what `compilation.compile_launch` returns; WireError if it is malformed."""
        fields = codec.Fields(described)
        block = fields.sequence("block")
        if not all(type(side) is int for side in block):
            raise WireError(f"{str(block)[:80]} are not sides of a tile; whole numbers were expected.")
        return Tile(fields.integer("element"), fields.integer("item_bytes"), fields.integer("swizzle"), block)


def _parameter(described: Any) -> list[Any]:
    match described:
        case [str(name), str() | list() as kind]:
            return [name, kind]
        case _:
            raise WireError(f"{str(described)[:80]} is not a parameter of a kernel; a name and a type were expected.")


class LoadedKernel:
    """A kernel in this process's context.

    Raises:
        NativeError: the driver rejects the code, or the shared memory that it needs.
    """

    def __init__(self, device: Device, binary: Binary) -> None:
        self.binary = binary
        self._device = device
        self._kernel = device.load(binary.cubin, binary.symbol, binary.shared_bytes)
        self._twin: _native.Kernel | None = None

    @property
    def symbol(self) -> str:
        """The kernel's name in its machine code."""
        return self.binary.symbol

    @property
    def registers(self) -> int:
        """Registers of a thread."""
        return self._kernel.registers

    @property
    def spills(self) -> int:
        """Registers of a thread that lie in local memory, as Triton counts them."""
        return self._kernel.local_bytes // 4

    @property
    def local_bytes(self) -> int:
        """Local memory of a thread, in bytes."""
        return self._kernel.local_bytes

    @property
    def has_twin(self) -> bool:
        """Whether it has a fenced twin."""
        return bool(self.binary.fenced)

    def prepared(
        self,
        grid: Sequence[int],
        values: dict[str, Any],
        fenced: FencePlan | None = None,
        *,
        allocate: Callable[[int], torch.Tensor] | None = None,
    ) -> "tuple[_native.Launch, torch.Tensor | None]":
        """Return a launch with packed arguments, and its scratch memory, which must outlive the launch.

        Args:
            grid: programs along each axis.
            values: the arguments by name.
            fenced: the memory that the launch can reach, to launch the twin; scratch memory is added to it.
            allocate: returns scratch memory of a given size in bytes; None uses torch's allocator.

        Raises:
            FenceError: the kernel has no twin, or it does not support that many tensors.
            ArgumentError: an argument does not fit, or a tensor descriptor exceeds the reachable memory.
        """
        x, y, z = (*grid, 1, 1)[:3]
        binary = self.binary
        scratch = self._scratch(x * y * z, allocate or self._allocated)
        encode = partial(self._encoded, iter(binary.tiles)) if binary.tiles else None
        if fenced is not None:
            return self._fenced((x, y, z), values, _with(fenced, scratch), scratch), scratch
        parameters = [*packed_arguments(binary.parameters, values, encode), _pointer(scratch), _pointer(None)]
        launch = self._kernel.prepare(
            (x * binary.blocks, y, z), WARP * binary.warps, binary.blocks, binary.cooperative, parameters
        )
        return launch, scratch

    def _allocated(self, size: int) -> torch.Tensor:
        return torch.empty(size, dtype=torch.uint8, device=self._device.torch_device)

    def _scratch(self, programs: int, allocate: Callable[[int], torch.Tensor]) -> torch.Tensor | None:
        binary = self.binary
        return allocate(max(programs, 1) * binary.blocks * binary.scratch_bytes) if binary.scratch_bytes else None

    def _fenced(
        self, grid: tuple[int, int, int], values: dict[str, Any], plan: FencePlan, scratch: torch.Tensor | None
    ) -> _native.Launch:
        binary, (x, y, z) = self.binary, grid
        _check_descriptors(binary.parameters, values, plan)
        encode = partial(self._encoded, iter(binary.tiles)) if binary.tiles and binary.fenced_tiled else None
        parameters = [*packed_arguments(binary.parameters, values, encode), _pointer(scratch), _pointer(None)]
        parameters.append(plan.packed(fence.slots_of(binary.parameters)))
        return self._loaded_twin().prepare(
            (x * binary.blocks, y, z), WARP * binary.fenced_warps, binary.blocks, binary.cooperative, parameters
        )

    def _loaded_twin(self) -> _native.Kernel:
        if self._twin is None:
            binary = self.binary
            if not binary.fenced:
                raise FenceError(binary.fence_error or f"The kernel {binary.symbol} was compiled without its twin.")
            shared = -(-binary.fenced_shared_bytes // fence.SHARED_GRAIN) * fence.SHARED_GRAIN
            self._twin = self._device.load(binary.fenced, binary.symbol, shared)
        return self._twin

    def _encoded(self, tiles: "Iterator[Tile]", value: TensorDescriptor) -> bytes:
        """Return the encoded bytes of the next descriptor."""
        tile = next(tiles)
        if not len(value.shape) == len(value.strides) == len(tile.block):
            raise ArgumentError(
                f"A tensor descriptor has {len(value.shape)} dimensions; the kernel's {len(tile.block)}. Give both the "
                "same number."
            )
        element = TFLOAT32 if descriptors.rounds(value) else tile.element
        return self._device.tensor_map(
            TensorMap(
                address=value.base.data_ptr(),
                element=element,
                item_bytes=tile.item_bytes,
                swizzle=tile.swizzle,
                nan_outside=value.padding == "nan",
                shape=list(value.shape),
                strides=list(value.strides),
                block=tile.block,
            )
        )

    def launch(self, grid: Sequence[int], values: dict[str, Any]) -> None:
        """Launch on torch's current stream; a grid without programs launches nothing."""
        if not all(size > 0 for size in grid):
            return
        # Scratch memory returns to torch's allocator at once, which reuses it in stream order.
        launch, _scratch = self.prepared(grid, values)
        launch.launch(torch.cuda.current_stream().cuda_stream)


def _with(plan: FencePlan, scratch: torch.Tensor | None) -> FencePlan:
    if scratch is None:
        return plan
    begin = scratch.data_ptr()
    return replace(plan, extents=(*plan.extents, (begin, begin + scratch.nbytes)))


def _check_descriptors(parameters: list[Any], values: dict[str, Any], plan: FencePlan) -> None:
    """Raise if a descriptor covers memory outside the plan: the chip's unit only checks against the descriptor."""
    for name, kind in parameters:
        for value in _descriptors_in(kind, values.get(name)):
            low = value.base.data_ptr()
            high = low + descriptors.reach(value) * value.base.element_size()
            if not plan.covers(low, high):
                raise ArgumentError(
                    f"The tensor descriptor {name} describes {high - low} bytes, which leave its tensor. Make it with "
                    "the tensor's own shape and strides."
                )


def _descriptors_in(kind: Any, value: Any) -> Iterator[TensorDescriptor]:
    if isinstance(kind, list) and isinstance(value, tuple):
        for part, item in zip(kind, value, strict=False):
            yield from _descriptors_in(part, item)
    elif isinstance(value, TensorDescriptor) and str(kind).startswith(_DESCRIPTOR):
        yield value


Encode = Callable[[TensorDescriptor], bytes]


def packed_arguments(parameters: list[Any], values: dict[str, Any], encode: Encode | None = None) -> Iterator[bytes]:
    """Yield the bytes of each parameter of a kernel, in order.

    Args:
        parameters: name and type of each, as in `Binary.parameters`; a tuple's type is a list, a constant has no bytes.
        values: the arguments by name.
        encode: encodes a tensor descriptor as 128 bytes for the chip's unit; without it one is passed in parts.

    Raises:
        ArgumentError: an argument does not fit its type.
    """
    for name, kind in parameters:
        yield from _flat(name, kind, values.get(name), encode)


def _flat(name: str, kind: Any, value: Any, encode: Encode | None) -> Iterator[bytes]:
    if isinstance(kind, list):
        if not isinstance(value, tuple) or len(value) != len(kind):
            raise ArgumentError(
                f"Argument {name} is {str(value)[:40]}; a tuple of {len(kind)} was expected, as at the first launch."
            )
        for number, (part, item) in enumerate(zip(kind, value, strict=True)):
            yield from _flat(f"{name}[{number}]", part, item, encode)
    elif str(kind).startswith(_DESCRIPTOR):
        yield from _descriptor(name, value, encode)
    elif kind != "constexpr":
        yield _one(name, str(kind), value)


def _descriptor(name: str, value: Any, encode: Encode | None) -> Iterator[bytes]:
    """Yield the parts of a tensor descriptor: encoded for the chip's unit, or else its fields; then the sizes."""
    if not isinstance(value, TensorDescriptor):
        raise ArgumentError(
            f"Argument {name} is {str(value)[:40]}; a TensorDescriptor was expected. Make it with "
            "TensorDescriptor.from_tensor(tensor, block_shape)."
        )
    sides = [*((f"{name}.shape", side) for side in value.shape), *((f"{name}.strides", side) for side in value.strides)]
    if encode is not None:
        yield encode(value)
    else:
        yield _pointer(value.base, name)
        yield from (_one(part, "i64", side) for part, side in sides)
        flags = (value.padding == "nan", descriptors.rounds(value))[: descriptors.FLAGS]
        yield from (_one(name, "i1", flag) for flag in flags)
    for number, (part, side) in enumerate(sides):
        yield _one(part, "i32" if number < len(value.shape) else "i64", side)


def _one(name: str, kind: str, value: Any) -> bytes:
    if kind.startswith("*"):
        return _pointer(value, name)
    if kind not in _FORMATS and kind not in _SINGLE:
        raise ArgumentError(
            f"Argument {name} of type {kind} cannot be passed to a kernel here. Pass tensors, numbers and Triton's "
            "tensor descriptors."
        )
    try:
        return _single(kind, value) if kind in _SINGLE else struct.pack(f"<{_FORMATS[kind]}", value)
    except (struct.error, OverflowError, TypeError, ValueError) as error:
        raise ArgumentError(
            f"Argument {name}, {str(value)[:40]}, is no {kind}: {error}. Pass a number in its range."
        ) from error


def _single(kind: str, value: Any) -> bytes:
    """Return a number as Triton's launcher casts it: infinite if too large, truncated to bfloat16."""
    packed = struct.pack("<f", ctypes.c_float(value).value)
    return packed[2:] if kind == "bf16" else packed


def _pointer(value: Any, name: str = "") -> bytes:
    match value:
        case None:
            return bytes(8)
        case int() if 0 <= value < 1 << 64:
            return struct.pack("<Q", value)
        case torch.Tensor() if value.device.type == "cuda":
            return struct.pack("<Q", value.data_ptr())
        case torch.Tensor():
            raise ArgumentError(
                f"Argument {name} is a tensor on {value.device}, which a kernel cannot reach. Make it on the device of "
                "the inputs: torch.empty(..., device=x.device)."
            )
        case _:
            raise ArgumentError(
                f"Argument {name} is {str(value)[:40]}; a tensor was expected, as the kernel was compiled for."
            )
