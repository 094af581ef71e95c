"""Runs a candidate's kernels on a GPU: the judge's compile worker compiles each signature, and it is launched here.

It runs in the candidate's own process, so its reports are hints. That process compiles nothing and executes no program:
at the first launch of a signature it requests the machine code from the judge.
"""

import operator
from collections.abc import Callable
from typing import Any, Final

import torch
import triton.language as tl
from triton.runtime import autotuner
from triton.runtime.jit import JITFunction

from warpsmith.evaluator.devices.base import Device
from warpsmith.evaluator.languages.triton import captures, reinterpreted, skipped_configurations
from warpsmith.evaluator.languages.triton.autotune import Tuning
from warpsmith.evaluator.languages.triton.compiled_kernels import CompiledKernel, KnownKernel
from warpsmith.evaluator.languages.triton.interpreter.tracing import (
    MAX_GRID,
    GridError,
    check_arguments,
    describe_argument,
)
from warpsmith.evaluator.languages.triton.kernel_names import identity, own_name
from warpsmith.evaluator.languages.triton.loaded_kernels import Binary, LoadedKernel, bound_arguments, options_of
from warpsmith.evaluator.recordings.errors import DetachedError

WARM_UPS: Final = 3
TIMED_MS: Final = 10.0
MOST_TIMED: Final = 50


class KernelFailedError(RuntimeError):
    """The judge's compile worker could not compile a kernel for this launch."""

    def __init__(self, message: str, category: str) -> None:
        super().__init__(message)
        self.category = category


class DeviceMonitor:
    """Handles every kernel launch of this process once `install` has been called.

    Args:
        device: the device that kernels run on.
        compiled: requests the code of a launch from the judge; KernelFailedError if it does not compile.

    Attributes:
        launches: number of launches since it was last set to 0.
        ghost: whether kernels do nothing.
        on_launch: called for each launch; returns the event in which to set the grid.
    """

    def __init__(self, device: Device, compiled: Callable[[dict[str, Any]], Binary]) -> None:
        self.launches = 0
        self.ghost = False
        self.on_launch: Callable[[str, dict[str, Any], dict[str, Any]], list[Any]] | None = None
        self.silent = False
        self._device = device
        self._compiled = compiled
        self._loaded: dict[str, LoadedKernel] = {}

    def run(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any, *, warmup: bool) -> Any:
        """Compile a kernel for its arguments, unless that has been done, and launch it."""
        name = identity(function.fn)
        arguments = unwrapped(named_arguments(function, args, kwargs))
        if not warmup:
            check_arguments(function.fn.__name__, arguments)
        with_captures = captures.with_captured(function.fn, arguments)
        options = {key: _plain(value) for key, value in options_of(function.arg_names, kwargs).items()}
        kernel = self._kernel(name, with_captures, options)
        facts = KnownKernel(own_name(name), kernel.registers, kernel.spills, kernel.binary.shared_bytes)
        facts = facts.of(function, with_captures, kwargs)
        if warmup:
            return facts
        sizes = checked_grid(grid(arguments) if callable(grid) else grid)
        self.launches += not self.silent
        if self.on_launch is not None and not self.silent:
            self.on_launch(name, with_captures, options)[2] = sizes
        if not self.ghost:
            kernel.launch(sizes, arguments)
        return facts

    def _kernel(self, name: str, arguments: dict[str, Any], options: dict[str, Any]) -> LoadedKernel:
        described = {key: describe_argument(value) for key, value in arguments.items()}
        launch = {"kernel": name, "arguments": described, "options": options}
        key = repr(launch)
        if key not in self._loaded:
            # The autotuner continues with others if a configuration that it tries does not compile.
            self._loaded[key] = LoadedKernel(self._device, self._compiled(launch | {"tried": self.silent}))
        return self._loaded[key]


class DetachedMonitor:
    """Records every launch of this process, which has no device, and launches nothing.

    Attributes:
        launches: number of launches since it was last set to 0.
        ghost: see `DeviceMonitor`; no effect here.
        on_launch: see `DeviceMonitor`; without it a launch is rejected, since it would not be replayed.

    Args:
        facts: the facts to report about compiled kernels; None rejects requests for them.
    """

    def __init__(self, facts: KnownKernel | None = None) -> None:
        self._facts = facts or CompiledKernel()
        self.launches = 0
        self.ghost = False
        self.on_launch: Callable[[str, dict[str, Any], dict[str, Any]], list[Any]] | None = None

    def run(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any, *, warmup: bool) -> Any:
        """Record a launch."""
        known = isinstance(self._facts, KnownKernel)
        if (warmup and not known) or (not warmup and self.on_launch is None):
            raise DetachedError("a kernel is compiled or launched outside a call of forward")
        arguments = unwrapped(named_arguments(function, args, kwargs))
        with_captures = captures.with_captured(function.fn, arguments)
        compiled = self._facts.of(function, with_captures, kwargs)
        if warmup or self.on_launch is None:
            return compiled
        check_arguments(function.fn.__name__, arguments)
        options = {key: _plain(value) for key, value in options_of(function.arg_names, kwargs).items()}
        sizes = checked_grid(grid(arguments) if callable(grid) else grid)
        self.launches += 1
        self.on_launch(identity(function.fn), with_captures, options)[2] = sizes
        return compiled


class NoTuning:
    """Rejects autotuned kernels: only on a device can the fastest configuration be found."""

    def __init__(self) -> None:
        self.timed = False
        self.taken: dict[str, str] = {}
        self.variants = 1

    def next_call(self, seed: int) -> None:
        """Do nothing: there is nothing to choose."""

    def run(self, tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Raise, since there is no device."""
        raise DetachedError(f"kernel {tuner.base_fn.__name__} is autotuned")


def named_arguments(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by name in the order of the parameters, with defaults; ArgumentError if they do not fit."""
    defaults = {param.name: param.default for param in function.params if param.has_default}
    return bound_arguments(function.fn.__name__, function.arg_names, defaults, args, kwargs)


def unwrapped(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments for a grid function, with constants as their values."""
    return {name: _value_of(argument) for name, argument in arguments.items()}


def _value_of(argument: Any) -> Any:
    match argument:
        case tl.constexpr():
            return argument.value
        case tuple() if hasattr(argument, "_fields"):
            return type(argument)(*map(_value_of, argument))
        case tuple():
            return tuple(map(_value_of, argument))
        case _:
            return argument


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str | None) else describe_argument(value)


def checked_grid(grid: Any) -> list[int]:
    """Return the one to three sizes of a grid; GridError for others, or for more programs than a GPU can launch."""
    if not isinstance(grid, tuple | list) or not 1 <= len(grid) <= len(MAX_GRID):
        raise GridError(f"a grid is {str(grid)[:40]}; a tuple of one to {len(MAX_GRID)} sizes was expected.")
    try:
        sizes = [operator.index(size) for size in grid]
    except TypeError as error:
        raise GridError(f"a grid is {str(grid)[:40]}; whole numbers were expected, as of triton.cdiv.") from error
    for axis, size, most in zip("xyz", sizes, MAX_GRID, strict=False):
        if size > most:
            raise GridError(
                f"a grid has {size} programs along {axis}; a GPU launches at most {most} there. "
                "Put the longest axis first, or let a program do more."
            )
    return sizes


class DeviceTuning:
    """Times the configurations of autotuned kernels like Triton, but for a shorter time and outside the trace.

    The choice need not be trusted: the chosen configuration is judged like any other kernel.

    Attributes:
        timed: whether a kernel was timed in this call.
        taken: the configuration of this call, by kernel.
    """

    def __init__(self, monitor: DeviceMonitor) -> None:
        self.timed = False
        self.taken: dict[str, str] = {}
        self.variants = 1
        self._monitor = monitor
        self._best: dict[tuple[Any, ...], autotuner.Config] = {}

    def next_call(self, seed: int) -> None:
        """Reset `timed` and `taken`; the choices stay, as in Triton."""
        self.timed = False
        self.taken = {}

    def run(self, tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Launch a kernel with its best configuration; times them first if the key is new."""
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        known = len(self._best)
        config = self._chosen(tuner, args, kwargs)
        if len(self._best) > known and self.timed:
            self._run_as_timed(tuner, config, args, kwargs)
        tuner.best_config = config
        self.taken[tuner.base_fn.__name__] = ", ".join(f"{name}={value}" for name, value in config.all_kwargs().items())
        if config.pre_hook is not None:
            config.pre_hook({**tuner.nargs, **kwargs, **config.all_kwargs()})
        result = tuner.fn.run(*args, **kwargs, **config.all_kwargs())
        tuner.nargs = None
        return result

    @staticmethod
    def _run_as_timed(tuner: Any, config: autotuner.Config, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Launch once, with all hooks, before the launch that counts, so that a recording shows a first call.

        Triton has by then run every configuration on the arguments. So a kernel that adds to its output without
        `reset_to_zero` or `restore_value` is wrong in its first call.
        """
        full = {**tuner.nargs, **kwargs, **config.all_kwargs()}
        if config.pre_hook is not None:
            config.pre_hook(full)
        tuner.pre_hook(full)
        tuner.fn.run(*args, **kwargs, **config.all_kwargs())
        tuner.post_hook(full, exception=None)
        tuner.pre_hook(full, reset_only=True)

    def _chosen(self, tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> autotuner.Config:
        named = {**tuner.nargs, **kwargs}
        # As in Triton: the values of the key's arguments, and the dtypes of all tensors.
        dtypes = [str(named[name].dtype) for name in tuner.arg_names if isinstance(named.get(name), torch.Tensor)]
        key = (tuner, *(_value(named[name]) for name in tuner.keys if name in named), *dtypes)
        if key not in self._best:
            found = tuner.prune_configs(kwargs) if len(tuner.configs) > 1 else tuner.configs
            self._best[key] = self._fastest(tuner, found, args, kwargs) if len(found) > 1 else found[0]
        return self._best[key]

    def _fastest(self, tuner: Any, configs: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.timed = True
        self._monitor.silent = True
        try:
            times = [self._time(tuner, config, args, kwargs) for config in configs]
        finally:
            self._monitor.silent = False
        best = min(range(len(configs)), key=times.__getitem__)
        if times[best] == float("inf"):
            # None of them runs: let the first one raise the reason.
            return configs[0]
        tuner.pre_hook({**tuner.nargs, **kwargs, **configs[best].all_kwargs()}, reset_only=True)
        return configs[best]

    def _time(self, tuner: Any, config: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
        """Return the time of a call in milliseconds; infinite for a configuration that Triton skips too."""
        full = {**tuner.nargs, **kwargs, **config.all_kwargs()}

        def call() -> None:
            if config.pre_hook is not None:
                config.pre_hook(full)
            tuner.pre_hook(full)
            try:
                tuner.fn.run(*args, **kwargs, **config.all_kwargs())
            except Exception as error:
                tuner.post_hook(full, exception=error)
                raise
            tuner.post_hook(full, exception=None)

        try:
            return milliseconds(call)
        except KernelFailedError as error:
            if skipped_configurations.skips(error.category, str(error)):
                return float("inf")
            raise


def milliseconds(call: Callable[[], None]) -> float:
    """Return the time of a call on the device in milliseconds, averaged over about TIMED_MS of calls."""
    for _ in range(WARM_UPS):
        call()
    first = time_calls(call, 1)
    return time_calls(call, max(1, min(MOST_TIMED, int(TIMED_MS / max(first, 1e-3)))))


def time_calls(call: Callable[[], None], count: int) -> float:
    """Return the mean time in milliseconds of `count` consecutive calls, by device events."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / count


def _value(value: Any) -> Any:
    return value if isinstance(value, int | float | str | bool | None) else str(getattr(value, "dtype", type(value)))


def install(monitor: DeviceMonitor | DetachedMonitor, tuning: DeviceTuning | NoTuning | Tuning) -> None:
    """Route every kernel launch in this process through `monitor`, autotuned ones first through `tuning`."""

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        args, kwargs = reinterpreted.tensors_of(args, kwargs)
        return monitor.run(self, args, kwargs, grid, warmup=warmup)

    def tuned(self: Any, *args: Any, **kwargs: Any) -> Any:
        return tuning.run(self, args, kwargs)

    JITFunction.run = run
    autotuner.Autotuner.run = tuned
