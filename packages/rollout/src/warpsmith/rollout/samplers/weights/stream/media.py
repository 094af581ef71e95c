"""Memory that the slots of a stream are in: on the sender's GPU by CUDA IPC, or in the machine's shared memory."""

import inspect
import mmap
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from warpsmith.rollout.errors import DeviceTransferError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Export = list[dict[str, Any]]
"""One receiver's permission to map the slots, in plain values; it is used once."""


class SlotMemory(Protocol):
    """The sender's slots.

    Attributes:
        kind: the key of the receiver's side in `open_slots`.
    """

    kind: str

    @property
    def slots(self) -> Sequence["Tensor"]:
        """The slots, uint8, all of one size."""

    def export(self) -> Export:
        """Return what one more receiver needs to map the slots.

        Raises:
            DeviceTransferError: the driver refuses.
        """

    def close(self) -> None:
        """Free the slots; receivers have unmapped them before, or are gone."""


class CudaIpcSlots:
    """Slots on one GPU, for processes of the same host, on this GPU or on another that reaches it as a peer.

    A receiver reads the sender's memory itself, so there is no rendezvous that a dead receiver could hold up, and
    several receivers may be on the sender's own GPU, both unlike with NCCL.

    Args:
        device: the GPU.
        count: number of slots.
        nbytes: size of each.
    """

    kind = "cuda_ipc"

    def __init__(self, device: "torch.device", count: int, nbytes: int) -> None:
        import torch

        self.slots: list[Tensor] = [torch.empty(nbytes, dtype=torch.uint8, device=device) for _ in range(count)]

    def export(self) -> Export:
        """Return handles of the slots; torch counts the receivers, so each needs its own handles."""
        from torch.multiprocessing.reductions import rebuild_cuda_tensor, reduce_tensor

        found = []
        for slot in self.slots:
            try:
                _, arguments = reduce_tensor(slot)  # type: ignore[no-untyped-call]
            except RuntimeError as error:
                raise _refused("cannot be exported", error) from error
            named = inspect.signature(rebuild_cuda_tensor).bind(*arguments).arguments
            found.append({name: _plain(value) for name, value in named.items() if name not in _TYPES})
        return found

    def close(self) -> None:
        """Give the memory back to torch."""
        self.slots = []


_TYPES = ("tensor_cls", "storage_cls", "dtype")
"""What the receiver fills in itself: vLLM's calls to its workers take plain values alone."""


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _open_cuda(export: Export, device: "torch.device") -> "list[Tensor]":
    import torch
    from torch.multiprocessing.reductions import rebuild_cuda_tensor

    types = {"tensor_cls": torch.Tensor, "storage_cls": torch.storage.TypedStorage, "dtype": torch.uint8}
    # The memory's own GPU may be invisible here; it is mapped for ours. The sender waits for its copies before it tells
    # that a bucket is full, so its event, which may be of another GPU, is not needed.
    ours = {"storage_device": device.index or 0, "event_sync_required": False}
    slots: list[Tensor] = []
    for handle in export:
        tuples = {name: tuple(handle[name]) for name in ("tensor_size", "tensor_stride")}
        try:
            slots.append(rebuild_cuda_tensor(**{**handle, **tuples, **types, **ours}))  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            raise _refused(f"cannot be mapped for {device}", error) from error
    return slots


def _refused(what: str, error: RuntimeError) -> DeviceTransferError:
    return DeviceTransferError(
        f"The trainer's buckets {what} by CUDA IPC: {error}.",
        'Set sync.transport = "host". CUDA IPC needs one host, GPUs that reach each other as peers, and torch without '
        "expandable_segments in PYTORCH_CUDA_ALLOC_CONF.",
    )


class SharedMemorySlots:
    """Slots in a file in memory, for processes of one machine without a GPU.

    It has the protocol of `CudaIpcSlots` and is there to run and to test it on a CPU; there the host path is not
    slower.

    Args:
        count: number of slots.
        nbytes: size of each.
    """

    kind = "shared_memory"

    def __init__(self, count: int, nbytes: int) -> None:
        shared = Path("/dev/shm")
        descriptor, name = tempfile.mkstemp(prefix="warpsmith-slots-", dir=str(shared) if shared.is_dir() else None)
        os.close(descriptor)
        self._path, self._nbytes = Path(name), nbytes
        os.truncate(self._path, count * nbytes)
        self.slots: list[Tensor] = _mapped(self._path, count, nbytes)

    def export(self) -> Export:
        """Return the file's name and each slot's place in it."""
        return [{"path": str(self._path), "count": len(self.slots), "nbytes": self._nbytes}]

    def close(self) -> None:
        """Remove the file."""
        self.slots = []
        self._path.unlink(missing_ok=True)


def _open_shared(export: Export, _device: "torch.device") -> "list[Tensor]":
    (handle,) = export
    try:
        return _mapped(Path(handle["path"]), handle["count"], handle["nbytes"])
    except (OSError, ValueError) as error:
        raise DeviceTransferError(
            f"The trainer's buckets in {handle['path']} cannot be mapped: {error}.",
            "Run trainer and sampler on one machine, with one /dev/shm.",
        ) from error


def _mapped(path: Path, count: int, nbytes: int) -> "list[Tensor]":
    import torch

    with path.open("r+b") as file:
        whole = torch.frombuffer(mmap.mmap(file.fileno(), count * nbytes), dtype=torch.uint8)
    return [whole[begin : begin + nbytes] for begin in range(0, count * nbytes, nbytes)]


_OPENERS = {"cuda_ipc": _open_cuda, "shared_memory": _open_shared}


def open_slots(kind: str, export: Export, device: "torch.device") -> "list[Tensor]":
    """Map a sender's slots, for a receiver on `device`; they are unmapped when nothing refers to them any more.

    Raises:
        DeviceTransferError: they cannot be mapped from here.
    """
    if kind not in _OPENERS:
        raise DeviceTransferError(
            f"There are no slots of the kind {kind!r}, only {', '.join(_OPENERS)}.", "Use one version in all processes."
        )
    return _OPENERS[kind](export, device)


def slot_memory(device: "torch.device", count: int, nbytes: int) -> SlotMemory:
    """Return new slots on a device."""
    return CudaIpcSlots(device, count, nbytes) if device.type == "cuda" else SharedMemorySlots(count, nbytes)


def host_identity() -> str:
    """Return what identifies this host and its current boot: CUDA IPC works only within one.

    Containers of one host have the same; whether memory can be mapped between them shows when it is tried.
    """
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
