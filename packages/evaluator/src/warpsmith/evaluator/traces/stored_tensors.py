"""Tensors of safetensors files, embedded in a problem's source: a reference worker has no files of the data set."""

import base64
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from safetensors import SafetensorError, deserialize

from warpsmith.evaluator.traces.files import wrong
from warpsmith.evaluator.traces.schema import STORED_DTYPES, SafetensorsInput, Tensor

MOST_BYTES: Final = 64 << 20
"""Largest file that is read: tables of indices are small, and one embedded tensor may have far less."""
MOST_CHARACTERS: Final = 3 << 20
"""Maximum characters of one embedded tensor: a source has at most 4 Mi."""
LFS_POINTER: Final = b"version https://git-lfs"


def embedded(given: SafetensorsInput, tensor: Tensor, shape: Sequence[int], roots: Sequence[Path], where: str) -> str:
    """Return the bytes of a stored tensor, compressed and in base64.

    Args:
        given: file and key.
        tensor: what the definition says about it.
        shape: its shape in this workload.
        roots: folders that the path may be relative to; the first that has the file counts.
        where: file and field that name the tensor, for errors.

    Raises:
        TraceFormatError: the file is missing, outside the folders, too large, or not of this format, has no tensor of
            that key, or one of another shape or dtype.
    """
    path = _find(given.path, roots, where)
    data = path.read_bytes()
    if data.startswith(LFS_POINTER):
        raise wrong(where, "", f"{path} is a pointer of Git LFS and no tensor file; fetch it with `git lfs pull`")
    try:
        found = dict(deserialize(data))  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise wrong(where, "", f"{path} is not a safetensors file: {error}") from error
    if given.tensor_key not in found:
        raise wrong(where, "", f"{path} has no tensor {given.tensor_key!r}; it has {', '.join(sorted(found)[:8])}")
    one = found[given.tensor_key]
    expected = (STORED_DTYPES[tensor.dtype], list(shape))
    if (one["dtype"], list(one["shape"])) != expected:
        stored = f"{one['dtype']} of shape {list(one['shape'])}"
        raise wrong(where, "", f"{path} has {stored}; {expected[0]} of shape {expected[1]} was expected")
    text = base64.b64encode(zlib.compress(bytes(one["data"]), 9)).decode()
    if len(text) > MOST_CHARACTERS:
        limit = f"{len(text)} characters; at most {MOST_CHARACTERS} can be part of a problem"
        raise wrong(where, "", f"the tensor {given.tensor_key!r} of {path} takes {limit}")
    return text


def _find(name: str, roots: Sequence[Path], where: str) -> Path:
    for root in roots:
        path = (root / name).resolve()
        if not path.is_relative_to(root.resolve()):
            raise wrong(where, "", f"the path {name!r} leads out of {root}; one below it was expected")
        if path.is_file():
            if path.stat().st_size > MOST_BYTES:
                raise wrong(where, "", f"{path} has more than {MOST_BYTES} bytes")
            return path
    raise wrong(where, "", f"there is no tensor file {name!r} in {' or '.join(map(str, roots))}")
