"""Triton as a kernel language. Importable without torch and Triton; each method imports what it needs."""

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from warpsmith.evaluator.languages.base import (
    Described,
    DescribeTensor,
    Hooks,
    HostServices,
    InterpretedKernels,
    KernelLanguage,
    LoadedCode,
    MakeTensor,
    MemoryTraffic,
)
from warpsmith.evaluator.languages.chips import Chip, is_amd
from warpsmith.evaluator.languages.triton import amd_check, probe, skipped_configurations

if TYPE_CHECKING:
    import torch

    from warpsmith.evaluator.config import EvaluatorConfig
    from warpsmith.evaluator.devices.base import Device
    from warpsmith.evaluator.devices.kinds import Role, ZygoteKind

# Today's default, set explicitly: Triton 3.9 warns that it will change. Line info is of no use here.
ENVIRONMENT: Final = {"TRITON_DEFAULT_FP_FUSION": "1", "TRITON_DISABLE_LINE_INFO": "1"}
INTERPRETER: Final = {"TRITON_INTERPRET": "1"}

_REFUSALS: Final = frozenset({"triton_jit_error", "triton_compilation_error"})
"""Categories of errors that Triton raises, interpreted or compiled."""
_IMPORTED: Final = re.compile(r"^[ \t;]*(?:import|from)[ \t]+[\w.,\t ]*\btriton\b", re.MULTILINE)
_RESTRICTION: Final = re.compile(
    r"^.{0,60}(must be (a power of (2|two)|16-byte aligned)|shapes should have M >= \d+, N >= \d+)", re.MULTILINE
)
"""Triton's messages about a block or a descriptor that it cannot form."""


class Triton(KernelLanguage):
    """Triton: `@triton.jit` functions, interpreted on a CPU and compiled for NVIDIA's chips."""

    name = "triton"
    title = "Triton"
    kernel_form = "@triton.jit kernels"
    slow_compile_advice = "Use smaller blocks, and range in place of tl.static_range."
    compilation_category = skipped_configurations.COMPILATION
    compiles_for_amd = True
    probe = probe.CANDIDATE

    def check(self, config: "EvaluatorConfig") -> None:
        """See `KernelLanguage`: the installed Triton must compile for the chip."""
        if is_amd(config.chip):
            amd_check.check(str(config.chip))

    def version(self) -> str:
        """See `KernelLanguage`: the version of the installed Triton."""
        return f"triton {version('triton')}"

    def is_in(self, source: str) -> bool | None:
        """See `KernelLanguage`: whether it imports Triton."""
        return bool(_IMPORTED.search(source))

    def same_code(self, one: Mapping[str, Any], other: Mapping[str, Any], binary: Any) -> bool:
        """See `KernelLanguage`: true if they differ in nothing that Triton specializes on."""
        from warpsmith.evaluator.recordings.launch_signatures import kinds_of, same_code

        return same_code(one, other, kinds_of(binary))

    def cannot_form(self, category: str | None, message: str) -> bool:
        """See `KernelLanguage`: the sides of blocks are powers of two."""
        return category in _REFUSALS and bool(_RESTRICTION.search(message))

    def autotuner_skips(self, category: str | None, message: str) -> bool:
        """See `KernelLanguage`: too much shared memory, a static assertion, or an error of the assembler."""
        return skipped_configurations.skips(category, message)

    def environment(self, *, interpreting: bool) -> dict[str, str]:
        """See `KernelLanguage`."""
        return ENVIRONMENT | (INTERPRETER if interpreting else {})

    def programs(self, arch: Chip) -> tuple[Path, ...]:
        """See `KernelLanguage`: the assembler; AMD's is part of Triton."""
        if isinstance(arch, str):
            return ()
        from triton.backends.nvidia.compiler import get_ptxas

        return (Path(get_ptxas(arch).path).resolve(),)

    def warm_up(self, kind: "ZygoteKind", roles: "tuple[Role, ...]", arch: Chip, folder: Path) -> None:
        """See `KernelLanguage`: interprets or compiles one trusted kernel."""
        if {"candidate", "host"} & set(roles):
            for module in ("autotune", "errors", "fake_driver", "launch_monitors", "replayed_kernels"):
                importlib.import_module(f"warpsmith.evaluator.languages.triton.{module}")
        if kind == "interpreting":
            from warpsmith.evaluator.languages.triton.interpreter import libdevice, tracing

            tracing.skip_idle_checks()
            tracing.keep_language()
            tracing.keep_truth_values()
            libdevice.install()
            tracing.run_trusted_kernel()
        else:
            from warpsmith.evaluator.languages.triton import compilation, compile_source

            compile_source.prepare()
            compilation.compile_trusted_kernel(arch, folder)

    def compile(
        self, source: str, launches: list[dict[str, Any]], folder: Path, arch: Chip, *, binaries: bool
    ) -> dict[str, Any]:
        """See `KernelLanguage`."""
        from warpsmith.evaluator.languages.triton.compile_source import compile_source

        return compile_source(source, launches, folder, arch, binaries=binaries)

    def prepare_recording(self) -> None:
        """See `KernelLanguage`."""
        from warpsmith.evaluator.languages.triton.interpreter import tracing

        inspect.getsource(tracing)

    def check_interpreted(self, tensor: "torch.Tensor") -> None:
        """See `KernelLanguage`: rejects bfloat16."""
        from warpsmith.evaluator.languages.triton.interpreter import tracing

        tracing.refuse_bf16(tensor)

    def stand_in(self, properties: Any) -> None:
        """See `KernelLanguage`: Triton's own driver needs a device and a C compiler."""
        from warpsmith.evaluator.languages.triton import fake_driver

        fake_driver.install(properties)

    def record_interpreted(
        self, report: Callable[[dict[str, Any]], None], is_read_only: "Callable[[torch.Tensor], bool]"
    ) -> Hooks:
        """See `KernelLanguage`; an autotuned kernel runs with its configurations in turn."""
        from warpsmith.evaluator.languages.triton import autotune, compiled_kernels
        from warpsmith.evaluator.languages.triton.interpreter import tracing

        monitor = tracing.LaunchMonitor(report, is_read_only)
        tracing.install(monitor, compiled_kernels.PLAUSIBLE)
        turns = autotune.Tuning(monitor.report_only)
        autotune.install(turns)
        return Hooks(monitor, turns)

    def record_detached(self, *, has_device: bool, services: HostServices | None = None) -> Hooks:
        """See `KernelLanguage`; without a device an autotuned kernel runs with its configurations in turn."""
        from warpsmith.evaluator.languages.triton import autotune, compiled_kernels, launch_monitors

        # With a device, host code that needs facts about compiled kernels is recorded on it instead.
        monitor = launch_monitors.DetachedMonitor(None if has_device else compiled_kernels.PLAUSIBLE)
        turns = launch_monitors.NoTuning() if has_device else autotune.Tuning(lambda _: None)
        launch_monitors.install(monitor, turns)
        return Hooks(monitor, turns)

    def record_on_device(
        self, device: "Device", compiled: Callable[[dict[str, Any]], Any], *, services: HostServices | None = None
    ) -> Hooks:
        """See `KernelLanguage`; configurations of an autotuned kernel are timed."""
        from warpsmith.evaluator.languages.triton import launch_monitors
        from warpsmith.evaluator.languages.triton.loaded_kernels import Binary

        def binary(launch: dict[str, Any]) -> Binary:
            fields = compiled(launch)
            if not fields.flag("ok"):
                raise launch_monitors.KernelFailedError(fields.text("message"), fields.text("category"))
            return Binary.of(fields.value("binary"))

        monitor = launch_monitors.DeviceMonitor(device, binary)
        best = launch_monitors.DeviceTuning(monitor)
        launch_monitors.install(monitor, best)
        return Hooks(monitor, best)

    def describe(self, value: Any, tensor: DescribeTensor) -> Described:
        """See `KernelLanguage`: descriptors, dtypes, kernels and plain values."""
        from triton.tools.tensor_descriptor import TensorDescriptor

        from warpsmith.evaluator.languages.triton import descriptors
        from warpsmith.evaluator.languages.triton.interpreter.tracing import describe_argument

        return descriptors.described(value, tensor) if isinstance(value, TensorDescriptor) else describe_argument(value)

    def carried_category(self, error: BaseException) -> str | None:
        """See `KernelLanguage`."""
        from warpsmith.evaluator.languages.triton import errors

        return errors.carried_category(error)

    def category_of_kind(self, error: BaseException) -> str | None:
        """See `KernelLanguage`."""
        from warpsmith.evaluator.languages.triton import errors

        return errors.category_of_kind(error)

    def watch_replays(self, is_read_only: "Callable[[torch.Tensor], bool]") -> MemoryTraffic:
        """See `KernelLanguage`."""
        from warpsmith.evaluator.languages.triton.interpreter import tracing

        monitor = tracing.LaunchMonitor(lambda _: None, is_read_only)
        tracing.install(monitor)
        return monitor

    def interpreted(self, source: str, folder: Path) -> InterpretedKernels:
        """See `KernelLanguage`."""
        from warpsmith.evaluator.languages.triton.replayed_kernels import Kernels

        return Kernels.of(source, folder)

    def load(self, device: "Device", launches: list[Any], binaries: list[Any]) -> LoadedCode:
        """See `KernelLanguage`."""
        from warpsmith.evaluator.languages.triton import replayed_kernels

        found = LoadedCode()
        found.kernels = replayed_kernels.loaded(device, binaries)
        return found

    def device_argument(self, described: Described, tensor: MakeTensor) -> Any:
        """See `KernelLanguage`."""
        from warpsmith.evaluator.languages.triton import replayed_kernels

        return replayed_kernels.device_argument(described, tensor)


TRITON: Final = Triton()
