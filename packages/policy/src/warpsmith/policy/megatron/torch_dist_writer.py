"""Writing the layout `torch_dist`, one chunk after the other."""

import io
import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from warpsmith.policy.megatron.torch_dist import COMMON, FORMAT, METADATA

if TYPE_CHECKING:
    import torch

FILE: Final = "__0_0.distcp"


class TorchDistWriter:
    """Writes the tensors and objects of a checkpoint into an existing directory; `close` writes the index."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._entries: dict[str, Any] = {}
        self._places: dict[Any, Any] = {}

    def add(
        self,
        key: str,
        tensor: "torch.Tensor",
        shape: tuple[int, ...] | None = None,
        offsets: tuple[int, ...] | None = None,
        *,
        file: str = FILE,
    ) -> None:
        """Append a tensor, or a chunk of one.

        Args:
            key: its name in the checkpoint.
            tensor: the data, with as many dimensions as `shape`.
            shape: the shape of the whole tensor; that of `tensor` if None.
            offsets: where the chunk begins in it.
            file: the file to append to; each of Megatron's ranks writes to its own files.
        """
        import torch
        from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, TensorProperties, TensorStorageMetadata

        offsets = offsets or (0,) * tensor.dim()
        properties = TensorProperties(dtype=tensor.dtype)
        entry = self._entries.setdefault(
            key, TensorStorageMetadata(properties, torch.Size(shape or tensor.shape), chunks=[])
        )
        entry.chunks.append(ChunkStorageMetadata(torch.Size(offsets), tensor.shape))
        # A view would be saved with all of its storage.
        self._append(key, tensor.detach().clone(memory_format=torch.contiguous_format), file, offsets)

    def add_object(self, key: str, value: Any) -> None:
        """Append an object that is not a tensor; Megatron keeps the state of a layer's kernels in such objects."""
        from torch.distributed.checkpoint.metadata import BytesStorageMetadata

        self._entries[key] = BytesStorageMetadata()
        self._append(key, [value], FILE, None)

    def close(self, common: Mapping[str, Any]) -> None:
        """Write the index, and what is not sharded."""
        import torch
        from torch.distributed.checkpoint.metadata import Metadata

        torch.save(dict(common), self._directory / COMMON)
        layout = {
            "sharded_backend": "torch_dist",
            "sharded_backend_version": 1,
            "common_backend": "torch",
            "common_backend_version": 1,
        }
        (self._directory / FORMAT).write_text(json.dumps(layout), encoding="utf-8")
        index = Metadata(state_dict_metadata=self._entries, storage_data=self._places)
        with (self._directory / METADATA).open("wb") as file:
            pickle.dump(index, file)

    def _append(self, key: str, value: Any, file: str, offsets: tuple[int, ...] | None) -> None:
        import torch
        from torch.distributed.checkpoint.filesystem import _StorageInfo
        from torch.distributed.checkpoint.metadata import MetadataIndex

        data = io.BytesIO()
        torch.save(value, data)
        with (self._directory / file).open("ab") as stream:
            start = stream.tell()
            stream.write(data.getbuffer())
        self._places[MetadataIndex(key, offsets)] = _StorageInfo(file, start, data.tell())
