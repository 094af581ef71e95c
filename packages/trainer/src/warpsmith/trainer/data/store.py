"""Encoded examples in files that every rank maps: written once, atomically, and checked by a digest.

FOLDER/
    ids.bin      token ids of all examples end to end, int32
    mask.bin     1 for each of them that carries loss, uint8
    index.npz    bounds [E + 1], source [E], problem [E]
    data.json    counts and reasons of each source, digest of the three
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from warpsmith.policy.files import appearing_directory
from warpsmith.policy.sft_data import IGNORED, Example
from warpsmith.trainer.data.tally import Tally
from warpsmith.trainer.distributed.rows import Row
from warpsmith.trainer.errors import CheckpointError, DataWriteError

_IDS, _MASK, _INDEX, _ABOUT = "ids.bin", "mask.bin", "index.npz", "data.json"
_FORMAT = 1

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TokenStore:
    """E examples with N tokens in total.

    Attributes:
        ids: (N,) int32.
        mask: (N,) uint8, 1 on trained tokens.
        bounds: (E + 1,) start of each example, and end of the last one.
        source: (E,) index of each example's source.
        problem: (E,) uint64, a hash of its problem.
        tallies: tallies of the sources, in the configuration's order.
        digest: digest of all the above.
    """

    ids: npt.NDArray[np.int32]
    mask: npt.NDArray[np.uint8]
    bounds: Ints
    source: Ints
    problem: npt.NDArray[np.uint64]
    tallies: Sequence[Tally]
    digest: str

    def __len__(self) -> int:
        return len(self.source)

    @property
    def lengths(self) -> Ints:
        """(E,) number of tokens of each example."""
        return np.diff(self.bounds)

    def row(self, example: int) -> Row:
        """Return one example."""
        here = slice(int(self.bounds[example]), int(self.bounds[example + 1]))
        return Row(ids=self.ids[here].astype(np.int64), mask=self.mask[here].astype(np.int64))

    @classmethod
    def open(cls, folder: Path, *, check: bool = True) -> Self:
        """Map the files of a folder.

        Args:
            folder: written by `writing`.
            check: read all files once and compare the digest.

        Raises:
            CheckpointError: a file is missing or damaged.
        """
        try:
            return cls._opened(folder, check)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"The encoded examples in {folder} cannot be used: {error}.",
                "A run continues with the examples that it started with. Restore the folder, or start a new run.",
            ) from error

    @classmethod
    def _opened(cls, folder: Path, check: bool) -> Self:
        about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
        if about["format"] != _FORMAT:
            raise ValueError(f"they have format {about['format']}; this version reads {_FORMAT}")
        if check and _digest(folder) != about["digest"]:
            raise ValueError("their digest has changed since they were written")
        with np.load(folder / _INDEX) as index:
            bounds, source, problem = index["bounds"], index["source"], index["problem"]
        ids = np.memmap(folder / _IDS, dtype=np.int32, mode="r")
        mask = np.memmap(folder / _MASK, dtype=np.uint8, mode="r")
        return cls(ids, mask, bounds, source, problem, [Tally(**one) for one in about["sources"]], about["digest"])


class StoreWriter:
    """Appends examples to the files of a temporary folder; see `writing`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ids, self._mask = (folder / _IDS).open("wb"), (folder / _MASK).open("wb")
        self._lengths: list[int] = []
        self._source: list[int] = []
        self._problem: list[int] = []

    def add(self, example: Example, *, source: int, problem: str) -> None:
        """Append one example."""
        self._ids.write(example.ids.astype(np.int32).tobytes())
        self._mask.write((example.labels != IGNORED).astype(np.uint8).tobytes())
        self._lengths.append(len(example))
        self._source.append(source)
        self._problem.append(_hash(problem))

    def finish(self, tallies: Sequence[Tally]) -> None:
        """Write index and counts after the examples."""
        self._ids.close()
        self._mask.close()
        np.savez(
            self._folder / _INDEX,
            bounds=np.concatenate([[0], np.cumsum(self._lengths, dtype=np.int64)]).astype(np.int64),
            source=np.asarray(self._source, dtype=np.int64),
            problem=np.asarray(self._problem, dtype=np.uint64),
        )
        about = {"format": _FORMAT, "sources": [asdict(tally) for tally in tallies], "digest": _digest(self._folder)}
        (self._folder / _ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


@contextmanager
def writing(folder: Path) -> Iterator[StoreWriter]:
    """Yield a writer of `folder`, which is complete, replacing an older one, once the block has succeeded.

    Raises:
        DataWriteError: the operating system refused, or the folder holds other files.
    """
    others = sorted({path.name for path in folder.glob("*")} - {_IDS, _MASK, _INDEX, _ABOUT})
    if others:
        raise DataWriteError(
            f"{folder} is for the encoded examples, but it contains {others[0]}.",
            "Choose a run.dir that only this run uses.",
        )
    try:
        with appearing_directory(folder, overwrite=True) as scratch:
            yield StoreWriter(scratch)
    except OSError as error:
        raise DataWriteError(
            f"The encoded examples could not be written to {folder}: {error.strerror or error}.",
            "Free space (5 bytes per token), or choose another run.dir.",
        ) from error


def _hash(problem: str) -> int:
    return int.from_bytes(blake2b(problem.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _digest(folder: Path) -> str:
    digest = blake2b(digest_size=16)
    for name in (_IDS, _MASK, _INDEX):
        with (folder / name).open("rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                digest.update(block)
    return digest.hexdigest()
