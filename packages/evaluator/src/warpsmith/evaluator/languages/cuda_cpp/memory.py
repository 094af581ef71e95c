"""Which memory of the candidate's process an address lies in: pointers in C++ become tensors of the recording."""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import _disable_current_modes


@dataclass(frozen=True)
class _Known:
    """A storage that host code has an address of."""

    start: int
    size: int
    reference: Any

    def storage(self) -> torch.UntypedStorage | None:
        """Return the storage; None if it has been freed."""
        if self.reference.expired():
            return None
        return torch.UntypedStorage._new_with_weak_ptr(self.reference.cdata)


class KnownMemory:
    """The storages of tensors whose address host code in C++ has asked for, and those it has allocated itself."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}
        self._starts: list[int] = []
        self._own: dict[int, torch.Tensor] = {}

    def note(self, tensor: torch.Tensor) -> None:
        """Remember the storage of a tensor."""
        storage = tensor.untyped_storage()
        start, size = storage.data_ptr(), storage.nbytes()
        if not size:
            return
        self._known[start] = _Known(start, size, StorageWeakRef(storage))  # type: ignore[no-untyped-call]
        self._starts = sorted(self._known)

    def allocated(self, tensor: torch.Tensor) -> int:
        """Keep memory of cudaMalloc until it is freed; return its address."""
        self.note(tensor)
        self._own[tensor.data_ptr()] = tensor
        return tensor.data_ptr()

    def free(self, address: int) -> bool:
        """Free memory of cudaMalloc; whether there was some at this address."""
        return self._own.pop(address, None) is not None

    def tensor(self, address: int, size: int | None = None) -> torch.Tensor | None:
        """Return the bytes from an address on, uint8 [bytes]; None if they are in no known storage.

        Args:
            address: in the storage, or right behind it.
            size: number of bytes; None for all up to the end of the storage.
        """
        place = bisect_right(self._starts, address) - 1
        known = self._known[self._starts[place]] if place >= 0 else None
        if known is None or address > known.start + known.size:
            return None
        left = known.start + known.size - address
        if size is not None and size > left:
            return None
        storage = known.storage()
        if storage is None:
            del self._known[known.start]
            self._starts = sorted(self._known)
            return None
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            whole = torch.empty(0, dtype=torch.uint8).set_(storage)
            return whole[known.size - left : known.size - left + (left if size is None else size)]
