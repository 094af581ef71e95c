"""A module's parameters and buffers under all their names, and binding a candidate's to the judge's memory.

A tensor can have several names (`self.weight = self.linear.weight`, tied embeddings). Reference and candidate can use
different ones, so any of its names binds it. Parameters that are one tensor in the reference get the same values, and
stay one tensor in a candidate that ties them too.
"""

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.ipc.tensor_slots import TensorSlot

MAX_NAMED: Final = 8
MAX_HINT: Final = 400

Named = dict[str, torch.Tensor]
_View = tuple[torch.Tensor, torch.Tensor, int]
"""A view, the parameter that owns its memory, and the view's offset in elements."""
Change = Callable[[torch.Tensor], torch.Tensor]
_REFILLED: Final = (dict, list, OrderedDict)
"""Containers whose content is restored; others, and what is deeper, stay as a call leaves them."""


def parameters(model: nn.Module) -> Named:
    """Return the parameters by name, each under all of its names."""
    return dict(model.named_parameters(remove_duplicate=False))


def buffers(model: nn.Module) -> Named:
    """Return the buffers by name, each under all of its names."""
    return dict(model.named_buffers(remove_duplicate=False))


def tensors(model: nn.Module) -> Named:
    """Return parameters and buffers by name, each under all of its names."""
    return parameters(model) | buffers(model)


def aliases(model: nn.Module) -> dict[str, str]:
    """Return the other names of parameters and buffers, each mapped to the first name of the same memory."""
    first: dict[Any, str] = {}
    known = {name: first.setdefault(_memory(tensor), name) for name, tensor in tensors(model).items()}
    return {name: found for name, found in known.items() if name != found}


def _memory(tensor: torch.Tensor) -> Any:
    """Return a key that is equal for tensors on the same elements, and unique for a tensor without elements."""
    if tensor.layout != torch.strided or not tensor.numel():
        return id(tensor)
    place = tensor.untyped_storage().data_ptr(), tensor.storage_offset()
    return *place, tensor.shape, tensor.stride(), tensor.dtype


def names_of(name: str, other_names: Mapping[str, str]) -> list[str]:
    """Return a name and the other names of the same tensor."""
    return [name, *(other for other, first in other_names.items() if first == name)]


def move(model: nn.Module, moved: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Move each first tensor, and the views of it that modules keep, to the memory of the second.

    Args:
        model: the module whose attributes are searched for views.
        moved: parameters of the module, each with a tensor of the same shape and dtype. Views follow only those that
            have the same layout there.
    """
    kept = list(_kept_views(model, [tensor for tensor, place in moved if tensor.stride() == place.stride()]))
    for tensor, place in moved:
        tensor.data = place
    _follow(kept)


@contextmanager
def widened(model: nn.Module) -> Iterator[None]:
    """Let a module compute in fp64 within the context: its parameters, buffers and the views of parameters it keeps."""
    with changed(model, lambda tensor: tensor.double() if tensor.is_floating_point() else tensor, buffers_too=True):
        yield


@contextmanager
def changed(model: nn.Module, change: Change, *, buffers_too: bool = False) -> Iterator[None]:
    """Give the parameters of a module other values within the context, and restore what it holds afterwards.

    The module itself changes, not a copy: a lambda, a partial function or a hook that it keeps refers to its own
    submodules, and a copy of it would go on calling those of the original.

    Args:
        model: the module; what it assigns to its attributes within the context is undone.
        change: maps a tensor to one of the same shape.
        buffers_too: whether buffers change as well.
    """
    other_names = aliases(model)
    owners = [tensor for name, tensor in parameters(model).items() if name not in other_names]
    kept = list(_kept_views(model, owners))
    held = [*model.parameters(), *(model.buffers() if buffers_too else ())]
    before = [(tensor, tensor.data) for tensor in [*held, *(view for view, _, _ in kept)]]
    strides = [owner.stride() for _, owner, _ in kept]
    attributes = [(module, _attributes(module)) for module in model.modules()]
    try:
        for tensor in held:
            tensor.data = change(tensor.data)
        _follow([view for view, stride in zip(kept, strides, strict=True) if view[1].stride() == stride])
        yield
    finally:
        for module, own in attributes:
            _restore_attributes(module, own)
        for tensor, data in before:
            tensor.data = data


def _attributes(module: nn.Module) -> dict[str, Any]:
    """Return a module's attributes, its tables of parameters and buffers included, with copies of dicts and lists."""
    return {name: (held, copy.copy(held) if type(held) in _REFILLED else None) for name, held in vars(module).items()}


def _restore_attributes(module: nn.Module, own: dict[str, Any]) -> None:
    for name in [name for name in vars(module) if name not in own]:
        del vars(module)[name]
    for name, (held, content) in own.items():
        vars(module)[name] = held
        if isinstance(held, list):
            held[:] = content
        elif content is not None:
            held.clear()
            held.update(content)


def _follow(kept: list[_View]) -> None:
    """Point views to the current memory of their owners, whose strides have not changed."""
    for view, owner, offset in kept:
        view.data = owner.data.as_strided(view.shape, view.stride(), owner.storage_offset() + offset)


def _kept_views(model: nn.Module, owners: list[torch.Tensor]) -> Iterator[_View]:
    """Yield the tensors kept by modules that are views of one of `owners`, each with its owner and offset.

    `self.w = self.linear.weight.data` is such a view: it must see what is loaded into the parameter.
    """
    moved = {id(owner) for owner in owners}
    by_memory: dict[int, list[torch.Tensor]] = {}
    for owner in owners:
        if owner.layout == torch.strided and owner.numel():
            by_memory.setdefault(owner.untyped_storage().data_ptr(), []).append(owner)
    for held in (*tensors(model).values(), *_plain_tensors(model)):
        if id(held) in moved or held.layout != torch.strided or not held.numel():
            continue
        near = by_memory.get(held.untyped_storage().data_ptr(), ())
        for owner in [one for one in near if held.dtype == one.dtype and _is_within(held, one)][:1]:
            yield held, owner, int(held.storage_offset()) - int(owner.storage_offset())


def _is_within(held: torch.Tensor, owner: torch.Tensor) -> bool:
    """Whether a view stays within its owner: others may share the storage."""
    (first, last), (start, stop) = _reach(held), _reach(owner)
    return start <= first and last <= stop


def _reach(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the positions in the storage of a tensor's first and last element."""
    first = int(tensor.storage_offset())
    return first, first + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))


def _plain_tensors(model: nn.Module) -> Iterator[torch.Tensor]:
    """Yield the tensors in plain attributes of modules, including those in lists, tuples and dicts."""
    for _, held in _plain_attributes(model):
        if isinstance(held, torch.Tensor):
            yield held
        else:
            yield from (item for _, item in _entries(held) if isinstance(item, torch.Tensor))


def _plain_attributes(model: nn.Module) -> Iterator[tuple[str, Any]]:
    for prefix, module in model.named_modules():
        for name, held in vars(module).items():
            if name not in {"_parameters", "_buffers", "_modules"}:
                yield f"{prefix}.{name}" if prefix else name, held


def _entries(held: Any) -> list[tuple[str, Any]]:
    match held:
        case list() | tuple():
            return [(str(number), item) for number, item in enumerate(held)]
        case dict():
            return [(repr(key), item) for key, item in held.items()]
        case _:
            return []


@dataclass(frozen=True)
class Binding:
    """The result of binding the reference's parameters to a candidate.

    Attributes:
        unmatched: names under which the candidate has no parameter of the same shape and dtype.
        hints: sentences on these for the candidate's author.
        copied: parameters that its constructor makes in a layout other than Model's, each with the slot to copy into
            it: loading values into a parameter leaves its strides as they are.
    """

    unmatched: list[str]
    hints: list[str]
    copied: list[tuple[torch.Tensor, TensorSlot]]


def bind(
    model: nn.Module,
    slots: Mapping[str, TensorSlot],
    other_names: Mapping[str, str],
    place: Callable[[TensorSlot], torch.Tensor],
) -> Binding:
    """Move parameters of the same name, shape, dtype and layout to the judge's memory.

    Args:
        model: the candidate's module.
        slots: the reference's parameters.
        other_names: their further names, from `aliases`.
        place: returns the tensor of a slot.
    """
    own = tensors(model)
    moved: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    copied: dict[int, tuple[torch.Tensor, TensorSlot]] = {}
    taken: dict[int, str] = {}
    unmatched: list[str] = []
    for name, slot in slots.items():
        found = [own[known] for known in names_of(name, other_names) if known in own and _fits(own[known], slot)]
        free = [tensor for tensor in found if taken.setdefault(id(tensor), name) == name]
        for tensor in free:
            if _lies_as(tensor, slot):
                moved[id(tensor)] = tensor, place(slot)
            else:
                copied[id(tensor)] = tensor, slot
        if not free:
            unmatched.append(name)
    move(model, list(moved.values()))
    hints = _hints(model, unmatched, own, set(taken)) if unmatched else []
    return Binding(unmatched, hints, list(copied.values()))


def _lies_as(tensor: torch.Tensor, slot: TensorSlot) -> bool:
    """Whether a parameter has the layout of a slot, or one that cannot be written to in place."""
    own = tensor_views.slot_of(tensor.detach(), keep_layout=True)
    steps = zip(own.shape, own.stride, slot.stride, strict=True)
    same = own.lead == slot.lead and all(step == other for size, step, other in steps if size > 1)
    return same or not own.numel or tensor_views.overlaps(own)


def shared_memory(model: nn.Module, restored: Iterable[torch.Tensor]) -> frozenset[int]:
    """Return the addresses of storages that hold tensors of a module other than those `restored` in each call."""
    known = {id(tensor) for tensor in restored}
    held = (*tensors(model).values(), *_plain_tensors(model))
    others = (tensor for tensor in held if id(tensor) not in known and tensor.layout == torch.strided)
    return frozenset(tensor.untyped_storage().data_ptr() for tensor in others)


def matching(model: nn.Module, slots: Mapping[str, TensorSlot], other_names: Mapping[str, str]) -> dict[str, str]:
    """Return the reference's buffers that a candidate has under one of their names, each mapped to that name.

    Args:
        model: the candidate's module.
        slots: the reference's buffers.
        other_names: their further names, from `aliases`.
    """
    own = tensors(model)
    found = (
        (name, next((known for known in names_of(name, other_names) if known in own and _fits(own[known], slot)), None))
        for name, slot in slots.items()
    )
    return {name: known for name, known in found if known is not None}


def _fits(tensor: torch.Tensor, slot: TensorSlot) -> bool:
    dense = tensor.layout == torch.strided and tensor.dtype in tensor_views.NAMES
    return dense and tensor_views.slot_of(tensor).same_kind(slot)


def _hints(model: nn.Module, unmatched: list[str], own: Named, taken: set[int]) -> list[str]:
    """Return sentences on what the candidate has instead of the parameters that it lacks."""
    found: list[str] = []
    if tied := [name for name in unmatched if name in own and id(own[name]) in taken]:
        found.append(f"{', '.join(tied[:MAX_NAMED])} is tied to another parameter, but not in Model.")
    lacking = {name for name in parameters(model) if id(own[name]) not in taken}
    if lacking:
        texts = [f"{name} {_form(own[name])}" for name in sorted(lacking)[:MAX_NAMED]]
        found.append(f"It has {', '.join(texts)} instead.")
    found.extend(_unregistered(model, own))
    return [hint[:MAX_HINT] for hint in found[:MAX_NAMED]]


def _unregistered(model: nn.Module, own: Named) -> Iterator[str]:
    """Yield a sentence for each plain attribute whose parameters PyTorch does not find."""
    known = {id(tensor) for tensor in own.values()}
    for name, held in _plain_attributes(model):
        items = [item for _, item in _entries(held)]
        if any(isinstance(item, nn.Parameter) and id(item) not in known for item in items):
            better = "nn.ParameterDict" if isinstance(held, dict) else "nn.ParameterList"
            yield f"self.{name} is a plain {type(held).__name__}, whose parameters PyTorch does not find: use {better}."
        elif any(isinstance(item, nn.Module) and next(item.parameters(), None) is not None for item in items):
            better = "nn.ModuleDict" if isinstance(held, dict) else "nn.ModuleList"
            yield f"self.{name} is a plain {type(held).__name__}, whose modules PyTorch does not find: use {better}."
        elif isinstance(held, torch.Tensor) and held.dtype.is_floating_point:
            yield f"self.{name} is a plain tensor: make it an nn.Parameter."


def _form(tensor: torch.Tensor) -> str:
    return f"[{', '.join(map(str, tensor.shape))}] {str(tensor.dtype).removeprefix('torch.')}"


def unmatched_remark(unmatched: list[str], slots: Mapping[str, TensorSlot], hints: list[str]) -> str:
    """Return a remark for the author of a wrong kernel on parameters whose values differ from the reference's.

    Args:
        unmatched: names of the reference's parameters, as reported by the candidate's process.
        slots: all of the reference's parameters.
        hints: those of `Binding`.
    """
    lacking = [name for name in unmatched if name in slots]
    if not lacking:
        return ""
    texts = [f"{name} [{', '.join(map(str, slots[name].shape))}] {slots[name].dtype}" for name in lacking[:MAX_NAMED]]
    more = f" and {len(lacking) - MAX_NAMED} more" if len(lacking) > MAX_NAMED else ""
    return " ".join(
        [
            f"ModelNew lacks parameters of Model and computes with values of its own: {', '.join(texts)}{more} "
            "were expected. Give each the name, shape and dtype that it has in Model; a second name for it is allowed.",
            *hints,
        ]
    )
