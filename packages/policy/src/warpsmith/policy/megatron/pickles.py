"""Pickles of a checkpoint, read without running anything they name.

A pickle can name any function of any package to be called. Here the few that rebuild tensors and dtypes are real, and
every other name becomes an `Inert` object, which keeps what it was given and does nothing.
"""

import collections
import pickle
import struct
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, Final

from warpsmith.policy.errors import CheckpointError

_REMEDY: Final = "Copy the checkpoint again; if it is still being written, wait until it is complete."

DAMAGE: Final = (
    pickle.UnpicklingError,
    struct.error,
    zipfile.BadZipFile,
    EOFError,
    OSError,
    RuntimeError,
    UnicodeDecodeError,
    AttributeError,
    IndexError,
    KeyError,
    TypeError,
    ValueError,
    OverflowError,
    MemoryError,
    RecursionError,
)
"""What the readers of pickles and of torch's files raise for damaged bytes."""

# What rebuilds tensors and dtypes; none of these runs code of the checkpoint.
_REAL: Final = {
    ("collections", "OrderedDict"),
    ("torch", "Size"),
    ("torch._utils", "_rebuild_tensor_v2"),
    ("torch._utils", "_rebuild_parameter"),
}


class Inert:
    """Stands for an object of a class that is not loaded; its attributes are those that were saved."""

    def __new__(cls, *_args: Any, **_keywords: Any) -> "Inert":
        """Take any arguments, as the class that it stands for may."""
        return super().__new__(cls)

    def __init__(self, *args: Any, **_keywords: Any) -> None:
        """Keep the arguments; an enumeration's member has its value there."""
        self.inert_arguments = args

    def __setstate__(self, state: Any) -> None:
        """Take the saved attributes; another kind of state is kept as `inert_state`."""
        if isinstance(state, dict):
            self.__dict__.update({str(name): value for name, value in state.items()})
        else:
            self.inert_state = state

    def __call__(self, *args: Any, **_keywords: Any) -> "Inert":
        """Stand for what a function would return; a pickle of a method first asks for the method, then calls it."""
        return Inert(*args)

    # A pickle of a list or dictionary's subclass fills it by these.
    def append(self, _value: Any) -> None:
        """Drop an element."""

    def extend(self, _values: Any) -> None:
        """Drop elements."""

    def __setitem__(self, _key: Any, _value: Any) -> None:
        """Drop an item."""


class InertUnpickler(pickle.Unpickler):
    """Reads pickles; names that are not needed for tensors become `Inert`."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what `module.name` stands for: itself if it is known to be harmless, else an inert class."""
        import torch

        if (module, name) in _REAL or (module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)):
            return super().find_class(module, name)
        return type(name.rpartition(".")[2], (Inert,), {})


def _load(file: BinaryIO, **keywords: Any) -> Any:
    return InertUnpickler(file, **keywords).load()


_PICKLE_MODULE: Final = SimpleNamespace(
    Unpickler=InertUnpickler, load=_load, UnpicklingError=pickle.UnpicklingError, __name__="inert"
)
"""What torch.load is to read pickles with."""


def read_pickle(path: Path) -> Any:
    """Return the content of a pickle file.

    Raises:
        CheckpointError: it is missing or damaged.
    """
    try:
        with path.open("rb") as file:
            return InertUnpickler(file).load()
    except DAMAGE as error:
        raise damaged(path, error) from error


def read_torch_file(path: Path) -> dict[str, Any]:
    """Return the dictionary that `torch.save` wrote; tensors stay in the file until they are used.

    Raises:
        CheckpointError: it is missing, damaged or holds no dictionary.
    """
    import torch

    try:
        if not zipfile.is_zipfile(path):
            raise zipfile.BadZipFile("it is cut short, or was written by torch before 1.6")
        content = torch.load(path, map_location="cpu", mmap=True, weights_only=False, pickle_module=_PICKLE_MODULE)
    except DAMAGE as error:
        raise damaged(path, error) from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} holds {type(content).__name__}; a dictionary was expected.", _REMEDY)
    return collections.OrderedDict(content)


def attributes(value: Any) -> dict[str, Any]:
    """Return the saved attributes of an object that was read as `Inert`; none of anything else."""
    return dict(vars(value)) if isinstance(value, Inert) else {}


def damaged(path: Path, error: BaseException) -> CheckpointError:
    """Return the error that says a file cannot be read."""
    if isinstance(error, FileNotFoundError):
        return CheckpointError(f"{path.parent} has no {path.name}; the checkpoint is incomplete.", _REMEDY)
    cause = str(error).strip().splitlines()
    return CheckpointError(f"{path} is damaged or cut short ({(cause or [type(error).__name__])[0]}).", _REMEDY)
