"""The kernels of builds on a GPU: modules loaded from cubins, their variables, and launches with recorded arguments.

A module is loaded once for all its kernels, which share its variables, and so is the module of their fenced twins. What
variables hold after loading is written back before each call, by the player.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch.utils.dlpack import from_dlpack

from warpsmith.evaluator import _native
from warpsmith.evaluator.devices.base import Device
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.languages.base import LoadedCode
from warpsmith.evaluator.languages.cuda_cpp.cubin import Kernel, symbol
from warpsmith.evaluator.languages.fencing.fence import SHARED_GRAIN, FenceError, FencePlan

WORKSPACE_BYTES: Final = 16
"""Memory of a cooperative grid's barrier."""


@dataclass(frozen=True)
class Binary:
    """The machine code of one source of a build.

    Attributes:
        code: the cubin.
        kernels: by mangled name.
        variables: sizes in bytes of variables in global and constant memory, by name.
        named: the variables that code names.
        fenced_variables: those of the twins' module.
        fenced: the module of the kernels' twins; empty if none has one.
        slots: number of extents of memory that a twin takes.
        fence_errors: why a kernel has no twin, and what to write instead, by name.
        workspaces: kernels that synchronise a whole grid.
    """

    code: bytes
    kernels: Mapping[str, Kernel]
    variables: Mapping[str, int]
    named: frozenset[str]
    fenced_variables: frozenset[str]
    fenced: bytes
    slots: int
    fence_errors: Mapping[str, str]
    workspaces: frozenset[str]

    @staticmethod
    def of(values: Any) -> "Binary":
        """Read the fields that `compilation.compile_text` returns; WireError if they are malformed."""
        fields = codec.Fields(values)
        try:
            return Binary(
                fields.content("code"),
                {str(name): Kernel.of(known) for name, known in fields.mapping("kernels").items()},
                {str(name): int(size) for name, size in fields.mapping("variables").items()},
                frozenset(fields.texts("named")),
                frozenset(fields.texts("fenced_variables")),
                fields.content("fenced"),
                fields.integer("slots"),
                {str(name): str(error) for name, error in fields.mapping("fence_errors").items()},
                frozenset(fields.texts("workspaces")),
            )
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise WireError(f"The machine code of a build is malformed: {error}") from error


@dataclass(frozen=True)
class Configuration:
    """How one launch was recorded: threads, shared memory in bytes, cooperation and cluster."""

    block: tuple[int, int, int]
    shared: int
    cooperative: bool
    cluster: tuple[int, int, int]

    @staticmethod
    def of(options: Any) -> "Configuration":
        """Read the options of a launch event, which the judge has checked."""
        fields = codec.Fields(options)
        block, cluster = (_sides(fields.sequence(name)) for name in ("block", "cluster"))
        return Configuration(block, fields.integer("shared"), fields.flag("cooperative"), cluster)


def _sides(values: list[Any]) -> tuple[int, int, int]:
    match values:
        case [int(x), int(y), int(z)] if min(x, y, z) >= 0:
            return x, y, z
        case _:
            raise WireError(f"{str(values)[:80]} are not three sides of a block or a cluster.")


class LoadedBinary:
    """The modules of one source in this process's context: that of its kernels, and that of their twins.

    Raises:
        NativeError: the driver rejects the code.
    """

    def __init__(self, device: Device, binary: Binary) -> None:
        self.binary = binary
        self.plain = device.load_module(binary.code)
        self.twins = device.load_module(binary.fenced) if binary.fenced else None
        self._modules = [(self.plain, binary.named)]
        if self.twins is not None:
            self._modules.append((self.twins, binary.fenced_variables))

    def memory(self) -> Iterator[torch.Tensor]:
        """Yield the bytes of each variable of both modules that code can reach, uint8 [bytes]."""
        for name in self.binary.variables:
            yield from self.variable(name)

    def variable(self, name: str) -> list[torch.Tensor]:
        """Return the bytes of a variable in each module that has it, uint8 [bytes] each."""
        return [_bytes(module, name) for module, known in self._modules if name in known]


def _bytes(module: "_native.Module", name: str) -> torch.Tensor:
    made: torch.Tensor = from_dlpack(module.variable(name))
    return made


@dataclass(frozen=True)
class _WithWorkspace:
    """A launch of a twin whose grid synchronises: its barrier starts at zero."""

    launched: "_native.Launch"
    workspace: torch.Tensor

    def launch(self, stream: int) -> None:
        self.workspace.zero_()
        self.launched.launch(stream)


class BuiltKernel:
    """A kernel of a build as one launch configures it.

    Raises:
        NativeError: the driver rejects the shared memory that it needs.
    """

    def __init__(self, loaded: LoadedBinary, name: str, configuration: Configuration) -> None:
        self._loaded = loaded
        self._name = name
        self._how = configuration
        self._kernel = loaded.plain.kernel(name, configuration.shared)
        static = loaded.binary.kernels[name].shared_bytes
        # So that the twin fills all that a block gets.
        filled = -(-(static + configuration.shared) // SHARED_GRAIN) * SHARED_GRAIN - static
        twin = loaded.twins is not None and name not in loaded.binary.fence_errors
        self._twin = loaded.twins.kernel(name, filled) if twin and loaded.twins is not None else None

    @property
    def symbol(self) -> str:
        """The kernel's name, without what the compiler adds if that can be determined."""
        return symbol(self._name)

    @property
    def local_bytes(self) -> int:
        """Local memory of a thread, in bytes: the more of kernel and twin."""
        return max(one.local_bytes for one in (self._kernel, self._twin) if one is not None)

    @property
    def has_twin(self) -> bool:
        """Whether it has a fenced twin."""
        return self._twin is not None

    def prepared(
        self,
        grid: Sequence[int],
        values: dict[str, Any],
        plan: FencePlan | None = None,
        *,
        allocate: Callable[[int], torch.Tensor] | None = None,
    ) -> "tuple[Any, torch.Tensor | None]":
        """See `languages.base.LoadedKernel`.

        Raises:
            FenceError: the kernel has no twin, or it does not support that many tensors.
            NativeError: number or sizes of the arguments are not the kernel's.
        """
        packed = [values[name].packed() for name in sorted(values, key=int)]
        if plan is None:
            return self._launch(self._kernel, grid, packed), None
        if self._twin is None:
            raise FenceError(self._loaded.binary.fence_errors.get(self._name, f"{self.symbol} has no twin."))
        workspace = None
        if self._name in self._loaded.binary.workspaces and allocate is not None:
            workspace = allocate(WORKSPACE_BYTES)
            begin = workspace.data_ptr()
            plan = replace(plan, extents=(*plan.extents, (begin, begin + workspace.nbytes)), workspace=begin)
        launch = self._launch(self._twin, grid, [*packed, plan.packed(self._loaded.binary.slots)])
        return (launch if workspace is None else _WithWorkspace(launch, workspace)), workspace

    def _launch(self, kernel: "_native.Kernel", grid: Sequence[int], packed: list[bytes]) -> "_native.Launch":
        x, y, z = (*grid, 1, 1)[:3]
        how = self._how
        cluster = how.cluster if all(how.cluster) else (1, 1, 1)
        return kernel.prepare((x, y, z), how.block, cluster, how.cooperative, packed)


class BuiltCode(LoadedCode):
    """The code of a recording's launches, with the variables of its modules."""

    def __init__(self, kernels: Sequence[BuiltKernel], builds: Mapping[str, list[LoadedBinary]]) -> None:
        self.kernels = kernels
        self._builds = builds
        self.variables = [memory for build in builds.values() for one in build for memory in one.memory()]

    def targets(self, options: Any) -> list[torch.Tensor]:
        """See `LoadedCode`: the part of a variable that a copy writes, in each module that has it."""
        fields = codec.Fields(options)
        build, name = fields.text("build"), fields.text("variable")
        offset, size = fields.integer("offset"), fields.integer("size")
        if build not in self._builds:
            # Nothing is launched from that build, so nothing reads the variable.
            return []
        known = [one for one in self._builds[build] if name in one.binary.variables]
        if not known or any(not 0 <= offset <= one.binary.variables[name] - size for one in known):
            raise WireError(f"A copy of {size} bytes to byte {offset} of the variable {name[:80]} does not fit it.")
        return [whole[offset : offset + size] for one in known for whole in one.variable(name)]


def loaded(device: Device, launches: Sequence[Any], binaries: Sequence[Any]) -> BuiltCode:
    """Load the code of each launch; each build is loaded once.

    Args:
        device: that they run on.
        launches: the events of launches.
        binaries: for each launch the name of its build, the first time with its code.

    Raises:
        FenceError: a kernel has no fenced twin; the message says why, and what to write instead.
        WireError: a launch is not from the build that it names.
        NativeError: the driver rejects the code.
    """
    builds: dict[str, list[LoadedBinary]] = {}
    kernels = []
    for event, values in zip(launches, binaries, strict=True):
        fields = codec.Fields(values)
        name, build = str(event[1]), fields.text("build")
        if build not in builds:
            builds[build] = [LoadedBinary(device, Binary.of(one)) for one in fields.sequence("cubins")]
        found = next((one for one in reversed(builds[build]) if name in one.binary.kernels), None)
        if found is None:
            raise WireError(f"{name[:80]} is launched and is not a kernel of its build.")
        if name in found.binary.fence_errors:
            raise FenceError(found.binary.fence_errors[name])
        kernels.append(BuiltKernel(found, name, Configuration.of(event[4])))
    return BuiltCode(kernels, builds)
