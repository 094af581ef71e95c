"""A build: the sources and flags that a candidate passed to `load_inline` or `load`. Importable without torch.

It comes from a candidate's process, so the compile worker checks it again.
"""

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from warpsmith.evaluator.errors import WireError

MAX_FILES: Final = 32
MAX_BYTES: Final = 2 << 20
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")
CPP: Final = (".cpp", ".cc", ".cxx", ".c++")
CUDA: Final = (".cu",)
CANDIDATE: Final = "candidate.py"
"""The name of a candidate's file in messages about a source that stands in it."""
HEADER: Final = (".h", ".hpp", ".cuh", ".hh", ".inl", ".inc")


class BuildError(ValueError):
    """What a candidate asks to build has a form that cannot be built."""


@dataclass(frozen=True)
class Build:
    """Sources to compile into one module of host code, and the kernels in them.

    Attributes:
        name: of the module.
        files: names and texts; those that end in `.h` and the like are only included by others.
        cuda_flags: for nvcc, checked.
        flags: for the host compiler, checked.
    """

    name: str
    files: tuple[tuple[str, str], ...]
    cuda_flags: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [name for name, _ in self.files]
        if len(names) > MAX_FILES or sum(len(text) for _, text in self.files) > MAX_BYTES:
            raise BuildError(f"The sources exceed {MAX_FILES} files or {MAX_BYTES >> 20} MiB.")
        if len(set(names)) != len(names):
            raise BuildError("Two sources have the same file name. Give each another.")
        for name in names:
            if not _NAME.fullmatch(name) or not name.endswith(CPP + CUDA + HEADER):
                raise BuildError(f"{name[:80]!r} is not a file name with one of {', '.join(CPP + CUDA + HEADER)}.")
        if not any(name.endswith(CPP + CUDA) for name in names):
            raise BuildError(
                "There is no source: pass cpp_sources and cuda_sources, or files that end in .cpp and .cu."
            )

    def text(self) -> str:
        """Return the build as text, the same for equal builds."""
        return json.dumps(asdict(self), sort_keys=True)

    @property
    def digest(self) -> str:
        """A name for its content."""
        return hashlib.sha256(self.text().encode("utf-8", "surrogatepass")).hexdigest()[:32]

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the build that `text` gave.

        Raises:
            WireError: it is not the text of a build.
            BuildError: it cannot be built.
        """
        try:
            fields = json.loads(text)
            return cls(
                str(fields["name"]),
                tuple((str(name), str(content)) for name, content in fields["files"]),
                _texts(fields["cuda_flags"]),
                _texts(fields["flags"]),
            )
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise WireError(f"{text[:80]} is not the text of a build.") from error
        except ValueError as error:
            raise BuildError(str(error)) from error


def _texts(values: list[Any]) -> tuple[str, ...]:
    return tuple(str(value) for value in values)
