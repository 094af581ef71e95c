"""What a call of `forward` changes of its caller's: arguments, torch's settings, generators, the module's names.

After a call everything that a caller can see, except the returned value, must be as before. A candidate may change
only what the problem's own forward changes too. Written values are no part of this: inputs are read-only.
"""

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

import torch
from torch import nn
from torch.autograd import grad_mode

FORM: Final = "form"
GRADIENT: Final = "gradient"
CONTAINER: Final = "container"
NAMES: Final = "names"
RANDOM: Final = "random"
STREAM: Final = "stream"
GRAD_MODE: Final = "grad_mode"

MESSAGES: Final[dict[str, str]] = {
    FORM: "forward changes an input itself: its shape, its strides, its dtype or its memory. Its caller's tensor is "
    "another one afterwards. Assign to a name of your own: `x = x.unsqueeze(0)` instead of "
    "`x.unsqueeze_(0)`, `y = x.t()` instead of `x.t_()`, and never to an input's `.data`.",
    GRADIENT: "forward lets an input require gradients, or gives it some: later operations of its caller then keep "
    "memory, or fail. Write `x = x.detach().requires_grad_()`, which is a tensor of your own.",
    CONTAINER: "forward changes a list, dict or object that its caller passed: items are missing, new, or in another "
    "order afterwards. Read it by index, or change a copy of it: `tensors = list(tensors)`.",
    NAMES: "forward registers a parameter or a buffer, or removes one, so that what state_dict() returns no longer "
    "loads into a module that was not called. Register it in the constructor, or with persistent=False, or keep it in "
    "a plain attribute.",
    RANDOM: "forward seeds torch's default generator, so that its caller's random numbers repeat. Use a generator of "
    "your own, `torch.Generator(device=x.device).manual_seed(0)`, or pass the seed to the kernel.",
    STREAM: "forward leaves another stream as the current one. Write `with torch.cuda.stream(side):` instead of "
    "`torch.cuda.set_stream(side)`.",
    GRAD_MODE: "forward leaves torch's grad mode changed, so that its caller's training ends without an error. Write "
    "`with torch.no_grad():` instead of `torch.set_grad_enabled(False)`.",
}
"""What a candidate hears of each change that the problem does not make, except of settings."""


def _mixed(legacy: str, *place: str) -> Callable[[], Any]:
    """Return a reader of a precision, which torch refuses by the older of its two interfaces once both were used."""
    read, read_new = getattr(torch._C, legacy), getattr(torch._C, "_get_fp32_precision_getter", None)

    def reader() -> Any:
        try:
            return read()
        except RuntimeError:
            return read_new(*place) if read_new is not None else None

    return reader


def _known(name: str) -> Callable[[], Any]:
    """Return a reader of a setting, None in a torch that lacks it."""
    return getattr(torch._C, name, lambda: None)


def _autocast() -> tuple[Any, ...]:
    kinds = ("cpu", "cuda")
    by_kind = ((torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds)
    return (torch.is_autocast_cache_enabled(), *by_kind)


_SMALLEST: Final = [sys.float_info.min]

SETTINGS: Final[dict[str, Callable[[], Any]]] = {
    "torch.inference_mode": torch.is_inference_mode_enabled,
    "torch.set_default_dtype": torch.get_default_dtype,
    "torch.set_default_device": lambda: str(torch.get_default_device()),
    "torch.autocast": _autocast,
    "torch.set_float32_matmul_precision": _mixed("_get_float32_matmul_precision", "generic", "all"),
    "torch.backends.cuda.matmul.allow_tf32": _mixed("_get_cublas_allow_tf32", "cuda", "matmul"),
    "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction": _known(
        "_get_cublas_allow_fp16_reduced_precision_reduction"
    ),
    "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction": _known(
        "_get_cublas_allow_bf16_reduced_precision_reduction"
    ),
    "torch.backends.cuda.matmul.allow_fp16_accumulation": _known("_get_cublas_allow_fp16_accumulation"),
    "torch.backends.cudnn.allow_tf32": _mixed("_get_cudnn_allow_tf32", "cuda", "conv"),
    "torch.backends.cudnn.enabled": _known("_get_cudnn_enabled"),
    "torch.backends.cudnn.benchmark": _known("_get_cudnn_benchmark"),
    "torch.backends.cudnn.deterministic": _known("_get_cudnn_deterministic"),
    "torch.backends.cuda.enable_flash_sdp": _known("_get_flash_sdp_enabled"),
    "torch.backends.cuda.enable_mem_efficient_sdp": _known("_get_mem_efficient_sdp_enabled"),
    "torch.backends.cuda.enable_math_sdp": _known("_get_math_sdp_enabled"),
    "torch.backends.cuda.enable_cudnn_sdp": _known("_get_cudnn_sdp_enabled"),
    "torch.use_deterministic_algorithms": lambda: (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    ),
    "torch.autograd.set_detect_anomaly": torch.is_anomaly_enabled,
    "torch.set_num_threads": torch.get_num_threads,
    # The processor then takes the smallest numbers for zero.
    "torch.set_flush_denormal": lambda: _SMALLEST[0] / 2 > 0,
}
"""Settings of the whole process, named by what changes them, each with what reads it."""

KINDS: Final = frozenset({*MESSAGES, *SETTINGS})


def message_of(kind: str) -> str:
    """Return what a candidate hears of a change, one of KINDS."""
    return MESSAGES.get(kind) or (
        f"forward changes a setting of the whole process, {kind}, and leaves it so: it holds in its caller's program "
        "from then on. Leave it as it is, or restore it before forward returns; torch has a context manager for most."
    )


class CallersView:
    """What a caller sees of one call besides its result; made before it, and compared after it.

    Args:
        arguments: of the call. The list or dict itself belongs to the call, what it holds to the caller.
        module: that is called.
        seeds: returns the initial seeds of the default generators.
    """

    def __init__(self, arguments: Any, module: nn.Module, seeds: Callable[[], tuple[int, ...]]) -> None:
        self._module, self._read_seeds = module, seeds
        self._tensors: list[tuple[torch.Tensor, tuple[Any, ...], bool]] = []
        self._containers: list[tuple[Any, Any, list[Any]]] = []
        seen: set[int] = set()
        for argument in _items(arguments):
            self._note(argument, seen)
        self._names, self._seeds = _names(module), seeds()
        self._grad_mode = torch.is_grad_enabled()
        self._settings = {name: read() for name, read in SETTINGS.items()}

    def _note(self, value: Any, seen: set[int]) -> None:
        if isinstance(value, torch.Tensor):
            self._tensors.append((value, _form(value), _has_gradient(value)))
        elif _holds(value) and id(value) not in seen:
            seen.add(id(value))
            # An object may get new attributes: a property that keeps its value makes one when it is read.
            names = None if isinstance(value, list | tuple | dict) else list(vars(value))
            items = _items(value, names)
            self._containers.append((value, names, items))
            for item in items:
                self._note(item, seen)

    def changes(self) -> set[str]:
        """Return which of KINDS are otherwise than before the call, without STREAM."""
        found = {
            FORM: any(_form(tensor) != form for tensor, form, _ in self._tensors),
            GRADIENT: any(_has_gradient(tensor) != before for tensor, _, before in self._tensors),
            CONTAINER: any(not _are_same(_items(one, names), items) for one, names, items in self._containers),
            NAMES: _names(self._module) != self._names,
            GRAD_MODE: torch.is_grad_enabled() != self._grad_mode,
            RANDOM: self._read_seeds() != self._seeds,
        }
        changed = {name for name, read in SETTINGS.items() if read() != self._settings[name]}
        return changed | {kind for kind, is_so in found.items() if is_so}


def _form(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset()


def _has_gradient(tensor: torch.Tensor) -> bool:
    return tensor.requires_grad and (tensor.grad_fn is not None or tensor.grad is not None or tensor.is_leaf)


def _holds(value: Any) -> bool:
    """Whether a caller's value is a container or a record, which holds others."""
    if isinstance(value, list | tuple | dict):
        return True
    return hasattr(value, "__dict__") and not callable(value) and not isinstance(value, nn.Module)


def _items(holder: Any, names: list[str] | None = None) -> list[Any]:
    """Return what a container holds, with a dict's keys, or what an object has under some names."""
    if names is not None:
        return [vars(holder).get(name) for name in names]
    return [*holder, *holder.values()] if isinstance(holder, dict) else list(holder)


def _are_same(one: list[Any], two: list[Any]) -> bool:
    return len(one) == len(two) and all(a is b for a, b in zip(one, two, strict=True))


def _names(module: nn.Module) -> set[tuple[int, str]]:
    """Return the names that a module saves. A name without a tensor counts: a constructor announces it so."""
    return {
        (id(one), name)
        for one in module.modules()
        for name in (*one._parameters, *(one._buffers.keys() - one._non_persistent_buffers_set))
    }


class GradModeWatch:
    """Sees who sets torch's grad mode: the judge calls without gradients, so that the mode alone shows no change."""

    def __init__(self) -> None:
        self._open: dict[int, Any] = {}
        self._directly = False

    @property
    def may_stay(self) -> bool:
        """Whether the mode was set other than by a context that has ended; a call with gradients decides."""
        return self._directly or bool(self._open)

    def note(self) -> None:
        """Note one change of the mode; called while it is made."""
        # The outermost: `no_grad` sets the mode by a `set_grad_enabled` of its own.
        frames = [one for one in _callers() if one.f_code.co_filename == grad_mode.__file__]
        frame = frames[-1] if frames else None
        context = frame.f_locals.get("self") if frame is not None else None
        if frame is None or context is None:
            self._directly = True
        elif frame.f_code.co_name in {"__init__", "__enter__"}:
            self._open[id(context)] = context
        else:
            self._open.pop(id(context), None)


def _callers(most: int = 16) -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and most:
        yield frame
        frame, most = frame.f_back, most - 1
