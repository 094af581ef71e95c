"""Weights for samplers: one block of bytes with a checked table of contents.

The container needs only numpy; torch is imported when tensors are packed or unpacked. Ray moves the block through
shared memory without a copy.
"""

import json
import math
import os
import struct
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsmith.policy.lowrank import IN_PEFT
from warpsmith.rollout.errors import BadPayloadError

if TYPE_CHECKING:
    import torch

ALIGNMENT = 64
"""Every tensor begins at a multiple of these bytes."""

_ITEM_BYTES: Mapping[str, int] = {"float32": 4, "bfloat16": 2, "float16": 2}
_MOST_THREADS = 16
_RETRY = "Send the whole state dict again."


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor in the block.

    Args:
        name: the tensor's name in the checkpoint.
        dtype: `float32`, `bfloat16` or `float16`.
        shape: the tensor's shape.
        offset: start of its bytes, a multiple of 64.
        crc32: checksum of its bytes.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    crc32: int

    @property
    def nbytes(self) -> int:
        """Size of the tensor in bytes."""
        return math.prod(self.shape) * _ITEM_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Adapter:
    """A low-rank adapter on the weights that a sampler was started with: W + (alpha / rank) B A.

    Args:
        rank: rank of its factors.
        alpha: scale of the product B A, times the rank.
        layers: names of the layers that have one, such as `model.layers.0.self_attn.q_proj`.
        agents: the agents that have an adapter each, all of this form; `AGENT/` then stands before a factor's name.
            Empty for one adapter that serves all requests.
    """

    rank: int
    alpha: float
    layers: tuple[str, ...]
    agents: tuple[str, ...] = ()

    @property
    def prefixes(self) -> tuple[str, ...]:
        """What stands before the names of each adapter's factors."""
        return tuple(f"{agent}/" for agent in self.agents) or ("",)

    @property
    def peft_config(self) -> dict[str, Any]:
        """Contents of peft's and vLLM's `adapter_config.json`."""
        targets = sorted({layer.rpartition(".")[2] for layer in self.layers})
        return {"peft_type": "LORA", "r": self.rank, "lora_alpha": self.alpha, "target_modules": targets}

    def shapes(self, base: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """Return the shape of each factor by its name in peft's files.

        Args:
            base: the shapes of the base weights.

        Raises:
            BadPayloadError: the model lacks one of its layers.
        """
        found: dict[str, tuple[int, ...]] = {}
        for layer in self.layers:
            if len(base.get(f"{layer}.weight", ())) != 2:
                raise BadPayloadError(
                    f"The adapter has factors for {layer}, but the sampler's model has no such linear layer.",
                    "Send the adapter of the model that the sampler was started with.",
                )
            rows, columns = base[f"{layer}.weight"]
            for prefix in self.prefixes:
                found[f"{prefix}{IN_PEFT}{layer}.lora_A.weight"] = (self.rank, columns)
                found[f"{prefix}{IN_PEFT}{layer}.lora_B.weight"] = (rows, self.rank)
        return found

    @staticmethod
    def of(names: Iterable[str], rank: int, alpha: float, agents: Iterable[str] = ()) -> "Adapter":
        """Return the adapter whose factors have these names in peft's files, or after `AGENT/`."""
        layers = {name.rpartition("/")[2].removeprefix(IN_PEFT).partition(".lora_")[0]: None for name in names}
        return Adapter(rank, alpha, tuple(layers), tuple(agents))


@dataclass(frozen=True, slots=True)
class WeightPayload:
    """All weights of one version, or the adapter that makes that version from the weights the sampler started with.

    Args:
        version: the weight version.
        manifest: the tensors in the block.
        data: all bytes, uint8, one dimension.
        adapter: the adapter whose factors the tensors are; None for the model's weights.
    """

    version: int
    manifest: tuple[TensorEntry, ...]
    data: npt.NDArray[np.uint8]
    adapter: Adapter | None = None

    @staticmethod
    def from_state_dict(
        version: int, tensors: "Mapping[str, torch.Tensor]", adapter: Adapter | None = None
    ) -> "WeightPayload":
        """Copy a state dict into one block. bf16 is kept.

        Raises:
            BadPayloadError: there are no tensors, or one has a dtype other than fp32, bf16 and fp16.
        """
        if not tensors:
            raise BadPayloadError(f"Weight version {version} has no tensors.", _RETRY)
        layout = laid_out({name: (_dtype_name(name, t), tuple(t.shape)) for name, t in tensors.items()})
        data = np.zeros(layout[-1].offset + layout[-1].nbytes, dtype=np.uint8)

        def fill(entry: TensorEntry) -> TensorEntry:
            data[entry.offset : entry.offset + entry.nbytes] = _bytes_of(tensors[entry.name])
            return _checksummed(entry, data)

        with _threads() as pool:
            return WeightPayload(version, tuple(pool.map(fill, layout)), data, adapter)

    @staticmethod
    def of_block(version: int, entries: Iterable[TensorEntry], data: npt.NDArray[np.uint8]) -> "WeightPayload":
        """Return the payload of a block that is already laid out; its checksums are computed here."""
        return WeightPayload(version, tuple(_checksummed(entry, data) for entry in entries), data)

    def check(self, expected: Mapping[str, tuple[int, ...]], *, optional: frozenset[str] = frozenset()) -> None:
        """Check that the weights are exactly those of a model, or the factors exactly those of an adapter.

        Args:
            expected: the model's shapes by name.
            optional: more names that may be present (a tied output layer).

        Raises:
            BadPayloadError: a name is missing, unknown or duplicated, a shape differs, or a checksum does not match.
        """
        if self.adapter is not None:
            expected, optional = self.adapter.shapes(expected), frozenset()
        check_entries(self.version, self.manifest, expected, optional)
        with _threads() as pool:
            # In order, so that the first damaged tensor is the one that is named.
            for _ in pool.map(self._check_bytes, self.manifest):
                pass

    def _check_bytes(self, entry: TensorEntry) -> None:
        end = entry.offset + entry.nbytes
        if entry.offset < 0 or end > self.data.size:
            raise BadPayloadError(
                f"Weight version {self.version}: {entry.name} ends at byte {end} of {self.data.size}.", _RETRY
            )
        if _crc32(self.data[entry.offset : end]) != entry.crc32:
            raise BadPayloadError(f"Weight version {self.version}: the bytes of {entry.name} are damaged.", _RETRY)

    def tensors(self) -> "Iterator[tuple[str, torch.Tensor]]":
        """Yield name and tensor; the tensors share memory with the block and must not be written."""
        import torch

        for entry in self.manifest:
            raw = self.data[entry.offset : entry.offset + entry.nbytes]
            with warnings.catch_warnings():
                # A block from Ray's object store is read-only; nothing here writes to it.
                warnings.filterwarnings("ignore", message="The given NumPy array is not writ")
                flat = torch.from_numpy(raw)
            yield entry.name, flat.view(getattr(torch, entry.dtype)).reshape(entry.shape)

    def save(self, path: Path, prefix: str = "") -> None:
        """Write the weights, or those whose names begin with `prefix` without it, as one safetensors file."""
        from safetensors.torch import save_file

        chosen = {name.removeprefix(prefix): value for name, value in self.tensors() if name.startswith(prefix)}
        save_file(chosen, path, metadata={"format": "pt"})

    def save_adapter(self, directory: Path, adapter: Adapter) -> None:
        """Write the factors in peft's format into an existing directory, of several agents into a folder for each."""
        for prefix in adapter.prefixes:
            folder = directory / prefix
            folder.mkdir(exist_ok=True)
            self.save(folder / "adapter_model.safetensors", prefix)
            (folder / "adapter_config.json").write_text(json.dumps(adapter.peft_config), encoding="utf-8")


def check_entries(
    version: int, entries: Sequence[TensorEntry], expected: Mapping[str, tuple[int, ...]], optional: frozenset[str]
) -> None:
    """Check names and shapes alone; see `WeightPayload.check`.

    Raises:
        BadPayloadError: a name is missing, unknown or duplicated, or a shape differs.
    """
    names = [entry.name for entry in entries]
    _refuse(version, "lacks", sorted(set(expected) - set(names)))
    _refuse(version, "has unknown", sorted(set(names) - set(expected) - optional))
    _refuse(version, "has twice", sorted(name for name, times in Counter(names).items() if times > 1))
    for entry in entries:
        shape = expected.get(entry.name, entry.shape)
        if entry.shape != shape:
            raise BadPayloadError(
                f"Weight version {version}: {entry.name} has shape {entry.shape}; the model has {shape}.",
                "Send the weights of the model that the sampler was started with.",
            )


def _refuse(version: int, what: str, names: list[str]) -> None:
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        raise BadPayloadError(f"Weight version {version} {what} {', '.join(names[:3])}{more}.", _RETRY)


def checkpoint_shapes(directory: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes by name of a Hugging Face directory, from the headers of its safetensors files.

    Raises:
        BadPayloadError: there are no safetensors files, or one has no readable header.
    """
    files = sorted(directory.glob("*.safetensors"))
    if not files:
        raise BadPayloadError(f"{directory} has no .safetensors file.", "Pass a Hugging Face checkpoint directory.")
    return {name: shape for file in files for name, shape in _header_shapes(file).items()}


def expected_shapes(path: Path) -> tuple[dict[str, tuple[int, ...]], frozenset[str]]:
    """Return the shapes that a payload must have, and more names that it may have (a tied output layer).

    Raises:
        BadPayloadError: as for `checkpoint_shapes`.
    """
    shapes = checkpoint_shapes(path)
    optional = frozenset() if "lm_head.weight" in shapes else frozenset({"lm_head.weight"})
    return shapes, optional


def _header_shapes(file: Path) -> dict[str, tuple[int, ...]]:
    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            header: dict[str, Any] = json.loads(stream.read(min(length, 100 << 20)))
    except (struct.error, ValueError) as error:
        raise BadPayloadError(
            f"{file} has no readable safetensors header: {error}.", "Write the checkpoint again."
        ) from error
    return {name: tuple(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}


def laid_out(tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> list[TensorEntry]:
    """Return where tensors of these dtypes and shapes lie in a block; their checksums are 0."""
    entries, offset = [], 0
    for name, (dtype, shape) in tensors.items():
        entries.append(TensorEntry(name, dtype, shape, offset, 0))
        offset += -(-entries[-1].nbytes // ALIGNMENT) * ALIGNMENT
    return entries


def _checksummed(entry: TensorEntry, data: npt.NDArray[np.uint8]) -> TensorEntry:
    crc = _crc32(data[entry.offset : entry.offset + entry.nbytes])
    return TensorEntry(entry.name, entry.dtype, entry.shape, entry.offset, crc)


def _threads() -> ThreadPoolExecutor:
    """Return threads for copies and checksums, which take seconds for 16 GB and leave the interpreter free."""
    return ThreadPoolExecutor(min(_MOST_THREADS, len(os.sched_getaffinity(0))), "weights")


def _crc32(part: npt.NDArray[np.uint8]) -> int:
    return zlib.crc32(part.data)


def _dtype_name(name: str, tensor: "torch.Tensor") -> str:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in _ITEM_BYTES:
        raise BadPayloadError(f"{name} is {dtype}; weights are {', '.join(_ITEM_BYTES)}.", "Convert it before sending.")
    return dtype


def _bytes_of(tensor: "torch.Tensor") -> npt.NDArray[np.uint8]:
    import torch

    flat = tensor.detach().to("cpu").contiguous().reshape(-1)
    array: npt.NDArray[np.uint8] = flat.view(torch.uint8).numpy()
    return array
