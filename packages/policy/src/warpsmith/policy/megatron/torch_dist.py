"""The layout `torch_dist`: chunks of each tensor in `.distcp` files, and an index of them in `.metadata`.

The index is a pickle of torch's classes; only the attributes that are needed here are read, from inert objects.
"""

import io
import math
import pickle
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from warpsmith.policy.errors import CheckpointError
from warpsmith.policy.megatron.pickles import DAMAGE, attributes, damaged, read_pickle, read_torch_file
from warpsmith.policy.megatron.tensors import (
    LAYERS,
    WRAPPER,
    Checkpoint,
    StoredTensor,
    holds_weights,
    layer_name,
    layer_part,
)

if TYPE_CHECKING:
    import torch

METADATA: Final = ".metadata"
COMMON: Final = "common.pt"
FORMAT: Final = "metadata.json"

# What training saves besides the model: keys with these prefixes are not weights of it.
_NO_MODEL: Final = ("optimizer", "chained_", "rng_state", "rerun_state_machine_state", "opt_param_scheduler")
_HALVES: Final = ("_w", "_v")


@dataclass(frozen=True)
class Chunk:
    """A part of a tensor: where it belongs, and where it is stored."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    file: Path
    start: int
    length: int


@dataclass(frozen=True)
class Entry:
    """A tensor of the index with its chunks."""

    key: str
    shape: tuple[int, ...]
    dtype: "torch.dtype"
    chunks: tuple[Chunk, ...]


def is_torch_dist(directory: Path) -> bool:
    """Whether a directory has the index of this layout."""
    return (directory / METADATA).is_file()


def read_torch_dist(directory: Path) -> Checkpoint:
    """Return the model's tensors of a `torch_dist` checkpoint; their data is read later, chunk by chunk.

    Raises:
        CheckpointError: a file is missing or damaged, or a chunk is missing.
    """
    index = read_pickle(directory / METADATA)
    try:
        entries = list(_entries(directory, index))
    except (AttributeError, TypeError, ValueError, IndexError, KeyError) as error:
        raise damaged(directory / METADATA, error) from error
    for entry in entries:
        _check_chunks(entry)
    common = read_torch_file(directory / COMMON) if (directory / COMMON).is_file() else {}
    return Checkpoint(directory, dict(_tensors(entries)), attributes(common.get("args")))


def _entries(directory: Path, index: Any) -> Iterator[Entry]:
    """Yield the model's tensors of an index."""
    stored: dict[tuple[str, tuple[int, ...] | None], Any] = {}
    for place, info in index.storage_data.items():
        offset = getattr(place, "offset", None)
        stored[place.fqn, None if offset is None else tuple(offset)] = info
    for key, entry in index.state_dict_metadata.items():
        if not hasattr(entry, "chunks") or key.startswith(_NO_MODEL) or not holds_weights(key):
            continue
        chunks = [
            _chunk(directory, key, tuple(chunk.offsets), tuple(chunk.sizes), stored.get((key, tuple(chunk.offsets))))
            for chunk in entry.chunks
        ]
        yield Entry(key.removeprefix(WRAPPER), tuple(entry.size), _dtype_of(entry.properties), tuple(chunks))


def _dtype_of(properties: Any) -> "torch.dtype":
    """Return the dtype of a tensor's properties, which torch pickles as a tuple that begins with it."""
    import torch

    state = getattr(properties, "inert_state", None)
    dtype = state[0] if state else properties.dtype
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"{dtype!r} is not a dtype")
    return dtype


def _chunk(directory: Path, key: str, offsets: tuple[int, ...], sizes: tuple[int, ...], info: Any) -> Chunk:
    if info is None:
        raise CheckpointError(
            f"{directory / METADATA} says of {key} that it has a chunk at {list(offsets)}, and not where it is stored.",
            "Copy the checkpoint again.",
        )
    if getattr(info, "transform_descriptors", None):
        raise CheckpointError(f"{directory} stores {key} transformed (compressed).", "Save it without transforms.")
    name = str(info.relative_path)
    if Path(name).name != name:
        raise CheckpointError(f"{directory / METADATA} names a file outside of it: {name}.", "Do not use this file.")
    return Chunk(offsets, sizes, directory / name, int(info.offset), int(info.length))


def _check_chunks(entry: Entry) -> None:
    """Check that the chunks' files are there and that the chunks fill the tensor."""
    for chunk in entry.chunks:
        held = chunk.file.stat().st_size if chunk.file.is_file() else None
        if held is None or chunk.start < 0 or chunk.start + chunk.length > held:
            what = "lacks" if held is None else "has cut short"
            raise CheckpointError(
                f"{chunk.file.parent} {what} {chunk.file.name}, where a part of {entry.key} is stored.",
                "Copy every file of the checkpoint again: each rank wrote files of its own.",
            )
    if not _fills(entry):
        raise CheckpointError(
            f"The chunks of {entry.key} in {entry.chunks[0].file.parent if entry.chunks else 'the index'} do not fill "
            f"its shape {list(entry.shape)}.",
            "Copy every file of the checkpoint again; if that does not help, save it once more.",
        )


def _fills(entry: Entry) -> bool:
    """Whether each element of the tensor is in exactly one chunk; what no chunk holds would be random."""
    import numpy as np

    dimensions = len(entry.shape)
    if any(
        len(c.offsets) != dimensions or len(c.sizes) != dimensions or min((*c.offsets, *c.sizes), default=0) < 0
        for c in entry.chunks
    ):
        return False
    # The edges of all chunks cut the tensor into cells, and each chunk holds some of them completely.
    edges = [
        sorted({0, whole, *(c.offsets[d] for c in entry.chunks), *(c.offsets[d] + c.sizes[d] for c in entry.chunks)})
        for d, whole in enumerate(entry.shape)
    ]
    if any(found[-1] != whole for found, whole in zip(edges, entry.shape, strict=True)):
        return False
    cells = np.zeros([len(found) - 1 for found in edges], dtype=np.int32)
    for chunk in entry.chunks:
        ends = [start + size for start, size in zip(chunk.offsets, chunk.sizes, strict=True)]
        cells[
            tuple(
                slice(found.index(start), found.index(end))
                for found, start, end in zip(edges, chunk.offsets, ends, strict=True)
            )
        ] += 1
    return bool((cells == 1).all())


def _tensors(entries: list[Entry]) -> Iterator[tuple[str, StoredTensor]]:
    """Yield the tensors by their names, layers and halves of a gated MLP taken apart and put together."""
    halves: dict[str, dict[str, Entry]] = defaultdict(dict)
    for entry in entries:
        part = layer_part(entry.key)
        if entry.key.endswith(_HALVES):
            halves[entry.key[:-2]][entry.key[-2:]] = entry
        elif part is not None:
            yield layer_name(*part), _stored(entry)
        elif entry.key.startswith(LAYERS):
            for layer in range(entry.shape[0] if entry.shape else 0):
                yield layer_name(layer, entry.key.removeprefix(LAYERS)), _stored(entry, layer)
        else:
            yield entry.key, _stored(entry)
    for key, found in halves.items():
        yield from _joined(key, found)


def _joined(key: str, halves: Mapping[str, Entry]) -> Iterator[tuple[str, StoredTensor]]:
    """Yield the gated MLP's first layer, whose gate and up projection newer versions store apart."""
    if len(halves) != len(_HALVES):
        (present,) = halves.values()
        raise CheckpointError(
            f"The checkpoint has {present.key} and not the other half of {key}.", "Copy the checkpoint again."
        )
    gate, up = (halves[half] for half in _HALVES)
    shape = (gate.shape[0] + up.shape[0], *gate.shape[1:])

    def read() -> "torch.Tensor":
        import torch

        return torch.cat([_read(gate), _read(up)])

    yield key, StoredTensor(shape, gate.dtype, read)


def _stored(entry: Entry, layer: int | None = None) -> StoredTensor:
    """Return a tensor, or one layer of a tensor whose first dimension counts layers."""
    shape = entry.shape if layer is None else entry.shape[1:]
    return StoredTensor(shape, entry.dtype, lambda: _read(entry, layer))


def _read(entry: Entry, layer: int | None = None) -> "torch.Tensor":
    """Return a tensor or one layer of it, put together from its chunks.

    Raises:
        CheckpointError: a chunk is damaged or is not what the index says.
    """
    import torch

    whole = torch.empty(entry.shape if layer is None else entry.shape[1:], dtype=entry.dtype)
    for chunk in entry.chunks:
        offsets, sizes = chunk.offsets, chunk.sizes
        if layer is not None and not offsets[0] <= layer < offsets[0] + sizes[0]:
            continue
        part = _read_chunk(chunk, entry).reshape(sizes)
        if layer is not None:
            part, offsets, sizes = part[layer - offsets[0]], offsets[1:], sizes[1:]
        whole[tuple(slice(start, start + size) for start, size in zip(offsets, sizes, strict=True))] = part
    return whole


def _read_chunk(chunk: Chunk, entry: Entry) -> "torch.Tensor":
    import torch

    try:
        with chunk.file.open("rb") as file:
            file.seek(chunk.start)
            data = io.BytesIO(file.read(chunk.length))
        # torch.load compares no checksums.
        with zipfile.ZipFile(data) as archive:
            if (record := archive.testzip()) is not None:
                raise zipfile.BadZipFile(f"the checksum of {record} at {chunk.start} is wrong")
        data.seek(0)
        tensor = torch.load(data, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{chunk.file} holds no tensor at {chunk.start}, where a part of {entry.key} should be.",
            "Do not use this checkpoint: Megatron stores plain tensors there.",
        ) from error
    except DAMAGE as error:
        raise damaged(chunk.file, error) from error
    if not isinstance(tensor, torch.Tensor) or tensor.numel() != math.prod(chunk.sizes) or tensor.dtype != entry.dtype:
        raise CheckpointError(
            f"{chunk.file} holds another tensor at {chunk.start} than {entry.key} of shape {list(chunk.sizes)}.",
            "Copy the checkpoint again: its files are of different checkpoints.",
        )
    return tensor
