"""Which memory of the candidate's process an address lies in: pointers in C++ become tensors of the recording.

A pointer reaches as far as the storage that it points into. So code that makes a tensor for host code gives it a
storage of its own (`tensor_views.apart`): of one that lies in a larger arena, a kernel would seem to get all that
follows.
"""

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
        found = self._at(address)
        if found is None:
            return None
        known, storage = found
        begin, left = address - known.start, known.start + known.size - address
        if size is not None and size > left:
            return None
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            whole = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
            return whole[begin : begin + (left if size is None else size)]

    def knows(self, address: int) -> bool:
        """Whether host code has asked for the address of a storage that begins there and lives."""
        known = self._known.get(address)
        return known is not None and known.storage() is not None

    def _at(self, address: int) -> tuple[_Known, torch.UntypedStorage] | None:
        """Return the living storage that holds an address, or that ends there.

        An allocator gives memory out again in other pieces: a freed storage can begin within a living one.
        """
        place = bisect_right(self._starts, address) - 1
        while place >= 0:
            known = self._known[self._starts[place]]
            storage = known.storage()
            if storage is not None:
                return (known, storage) if address <= known.start + known.size else None
            del self._known[self._starts.pop(place)]
            place -= 1
        return None
