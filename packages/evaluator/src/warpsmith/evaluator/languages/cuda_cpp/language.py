"""CUDA C++ as a kernel language. Importable without torch; each method imports what it needs.

Host code is compiled too, so a candidate's builds are compiled when it asks for them and not when it launches.
"""

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.languages.base import (
    Described,
    DescribeTensor,
    Hooks,
    HostServices,
    InterpretedKernels,
    KernelLanguage,
    LoadedCode,
    MakeTensor,
    OneConfiguration,
    UnsupportedDeviceError,
)
from warpsmith.evaluator.languages.chips import Chip, is_amd
from warpsmith.evaluator.languages.cuda_cpp import probe, toolkit
from warpsmith.evaluator.languages.cuda_cpp.builds import Build
from warpsmith.evaluator.languages.cuda_cpp.cubin import Kernel, symbol
from warpsmith.evaluator.languages.cuda_cpp.launches import SYMBOL
from warpsmith.records.errors import UsageError

if TYPE_CHECKING:
    import torch

    from warpsmith.evaluator.config import EvaluatorConfig
    from warpsmith.evaluator.devices.base import Device
    from warpsmith.evaluator.devices.kinds import Role, ZygoteKind
    from warpsmith.evaluator.languages.cuda_cpp.execution import Execution
    from warpsmith.evaluator.languages.cuda_cpp.runtime_calls import Runtime

NO_INTERPRETER: Final = "CUDA C++ kernels cannot be run here: they are compiled and recorded, and a replay needs a GPU."


class _Calls(OneConfiguration):
    """Begins each call of forward in the runtime; kernels have one configuration."""

    def __init__(self, runtime: "Runtime") -> None:
        super().__init__()
        self._runtime = runtime

    def next_call(self, seed: int) -> None:
        self._runtime.begin_call()


class CudaCpp(KernelLanguage):
    """CUDA C++: kernels and host code in C++, built by `load_inline` or `load`."""

    name = "cuda_cpp"
    title = "CUDA C++"
    kernel_form = "__global__ kernels"
    slow_compile_advice = "Instantiate fewer templates, and unroll less."
    compilation_category = "cuda_compilation_error"
    interprets = False
    builds_ahead = True
    copy_to_variable = SYMBOL
    own_kinds = frozenset({"raw"})
    probe = probe.CANDIDATE

    def check(self, config: "EvaluatorConfig") -> None:
        """See `KernelLanguage`: there must be a toolkit, and a GPU where host code is recorded on the device."""
        if config.recording != "detached" and config.device_kind.interprets:
            raise UsageError(
                f"CUDA C++ host code cannot be recorded with recording = on_device on {config.device}: no GPU runs it.",
                "Use recording = detached (--recording detached), or device = cuda (--device cuda).",
            )
        if is_amd(config.chip):
            raise UsageError(
                f"CUDA C++ cannot be compiled for {config.chip}.", "Use target = cuda (--target cuda) and target_arch."
            )
        toolkit.find().check_chip(int(config.chip))

    def is_in(self, source: str) -> bool | None:
        """See `KernelLanguage`: whether it names what builds extensions."""
        return "cpp_extension" in source

    def version(self) -> str:
        """See `KernelLanguage`: the versions of nvcc and g++."""
        return toolkit.find().version()

    def environment(self, *, interpreting: bool) -> dict[str, str]:
        """See `KernelLanguage`: where the toolkit is, so that every process uses the same."""
        found = toolkit.find()
        return {toolkit.ROOT_VARIABLE: str(found.root), toolkit.COMPILER_VARIABLE: str(found.compiler)}

    def programs(self, arch: Chip) -> tuple[Path, ...]:
        """See `KernelLanguage`: nvcc's steps, g++ and its assembler and linker."""
        return toolkit.find().programs

    def folders(self) -> tuple[Path, ...]:
        """See `KernelLanguage`: the toolkit, and the headers of the host compiler."""
        return toolkit.find().folders

    def warm_up(self, kind: "ZygoteKind", roles: "tuple[Role, ...]", arch: Chip, folder: Path) -> None:
        """See `KernelLanguage`: compiles what every module is linked with."""
        if {"candidate", "host"} & set(roles):
            _import_builders()
            for module in ("errors", "extension_loader", "runtime_calls", "execution", "memory", "loaded_kernels"):
                importlib.import_module(f"warpsmith.evaluator.languages.cuda_cpp.{module}")
        if "compile" in roles:
            from warpsmith.evaluator.languages.cuda_cpp import compilation

            compilation.prepare(toolkit.find(), folder, int(arch))

    def compile(
        self, source: str, launches: list[dict[str, Any]], folder: Path, arch: Chip, *, binaries: bool
    ) -> dict[str, Any]:
        """See `KernelLanguage`: the source is the text of a build; `binaries` is whether to make fenced twins."""
        from warpsmith.evaluator.languages.cuda_cpp import compilation

        return compilation.compile_text(source, folder, int(arch), twins=binaries)

    def launches_of(self, events: list[Any]) -> list[dict[str, Any]]:
        """See `KernelLanguage`: each launch with its build; copies to variables are none."""
        from warpsmith.evaluator.languages.cuda_cpp import launches

        return launches.launches_of(events)

    def build_name(self, text: str) -> str:
        """See `KernelLanguage`: the digest of its content."""
        return Build.of(text).digest

    def check_launch(self, launch: dict[str, Any], binary: Any) -> None:
        """See `KernelLanguage`: the build must have the kernel."""
        kernels = [one.get("kernels", {}) for one in binary.get("cubins", [])]
        if not any(launch["kernel"] in known for known in kernels):
            raise WireError(f"{launch['kernel'][:80]} is launched and is not a kernel of its build.")

    def resources_of(self, launch: Mapping[str, Any], binary: Any) -> dict[str, Any]:
        """See `KernelLanguage`: threads and dynamic shared memory are those of the launch's event."""
        name = str(launch["kernel"])
        found = next((Kernel.of(one["kernels"][name]) for one in binary["cubins"] if name in one["kernels"]), None)
        if found is None:
            return {}
        sizes = {"spill_bytes": found.local_bytes, "static_shared_bytes": found.shared_bytes}
        return {"name": symbol(name), "registers": found.registers} | sizes

    def record_interpreted(
        self, report: Callable[[dict[str, Any]], None], is_read_only: "Callable[[torch.Tensor], bool]"
    ) -> Hooks:
        """See `KernelLanguage`: nothing interprets these kernels."""
        raise UnsupportedDeviceError(NO_INTERPRETER)

    def record_detached(self, *, has_device: bool, services: HostServices | None = None) -> Hooks:
        """See `KernelLanguage`: replaces `load_inline` and `load`."""
        from warpsmith.evaluator.languages.cuda_cpp.execution import DetachedCalls

        return _recorded(DetachedCalls(), services)

    def record_on_device(
        self, device: "Device", compiled: Callable[[dict[str, Any]], Any], *, services: HostServices | None = None
    ) -> Hooks:
        """See `KernelLanguage`: as detached, and what is recorded is done too; builds have the code of all launches."""
        from warpsmith.evaluator.languages.cuda_cpp.execution import DeviceCalls

        return _recorded(DeviceCalls(device), services)

    def describe(self, value: Any, tensor: DescribeTensor) -> Described:
        """See `KernelLanguage`: an argument's bytes, and the tensor behind each pointer in them."""
        return ["raw", value.content, [[offset, tensor(one)] for offset, one in value.pointers]]

    def describes(self, value: Any) -> bool:
        """See `KernelLanguage`: what the runtime recorded."""
        from warpsmith.evaluator.languages.cuda_cpp.arguments import RawArgument

        return isinstance(value, RawArgument)

    def carried_category(self, error: BaseException) -> str | None:
        """See `KernelLanguage`."""
        from warpsmith.evaluator.languages.cuda_cpp import errors

        return errors.carried_category(error)

    def category_of_kind(self, error: BaseException) -> str | None:
        """See `KernelLanguage`."""
        from warpsmith.evaluator.languages.cuda_cpp import errors

        return errors.category_of_kind(error)

    def watch_replays(self, is_read_only: "Callable[[torch.Tensor], bool]") -> None:
        """See `KernelLanguage`: nothing is interpreted."""

    def interpreted(self, source: str, folder: Path) -> InterpretedKernels:
        """See `KernelLanguage`: nothing interprets these kernels."""
        raise UnsupportedDeviceError(NO_INTERPRETER)

    def load(self, device: "Device", launches: list[Any], binaries: list[Any]) -> LoadedCode:
        """See `KernelLanguage`."""
        from warpsmith.evaluator.languages.cuda_cpp import loaded_kernels

        return loaded_kernels.loaded(device, launches, binaries)

    def device_argument(self, described: Described, tensor: MakeTensor) -> Any:
        """See `KernelLanguage`: an argument's bytes with the tensors' addresses on the device."""
        from warpsmith.evaluator.languages.cuda_cpp import arguments

        return arguments.on_device(described, tensor)


def _recorded(execution: "Execution", services: HostServices | None) -> Hooks:
    """Record this process's host code, and do with its calls what `execution` does."""
    from warpsmith.evaluator.languages.cuda_cpp.extension_loader import Loader
    from warpsmith.evaluator.languages.cuda_cpp.runtime_calls import LaunchMonitor, Runtime

    assert services is not None, "the process of a language that builds ahead can reach the judge"
    monitor = LaunchMonitor()
    runtime = Runtime(monitor, execution, services.streams)
    Loader(services.build, runtime).install()
    return Hooks(monitor, _Calls(runtime), runtime.may_change)


def _import_builders() -> None:
    """Import what torch builds extensions with; it asks for a GPU at import, which a zygote must not use."""
    cuda: Any = importlib.import_module("torch.cuda")
    asked = cuda.is_available
    cuda.is_available = lambda: True
    try:
        importlib.import_module("torch.utils.cpp_extension")
    finally:
        cuda.is_available = asked


CUDA_CPP: Final = CudaCpp()
"""CUDA C++: builds compiled for the chip without a device, host code recorded without one or on it, then replayed."""
