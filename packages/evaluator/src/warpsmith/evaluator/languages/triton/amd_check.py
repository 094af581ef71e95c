"""Whether the installed Triton compiles for an AMD chip. Importable without Triton, which is asked in a process."""

import subprocess
import sys
from functools import lru_cache
from importlib.metadata import version
from typing import Final

from warpsmith.evaluator.errors import JudgeUnavailableError

WAIT_S: Final = 120
_BACKEND: Final = 3
"""Exit code where Triton lacks the backend."""
_UNKNOWN: Final = "unsupported target"
_PROBE: Final = """
import sys
try:
    import triton.backends.amd.compiler
except ImportError:
    sys.exit(3)
import tempfile
from pathlib import Path
from warpsmith.evaluator.languages.triton import compilation
with tempfile.TemporaryDirectory() as folder:
    import os
    os.environ["TRITON_CACHE_DIR"] = folder
    compilation.compile_trusted_kernel(sys.argv[1], Path(folder))
"""


class UnknownTargetError(JudgeUnavailableError):
    """The installed compiler of a kernel language does not know the chip."""


@lru_cache(maxsize=16)
def check(chip: str) -> None:
    """Compile a trusted kernel for a chip.

    Raises:
        UnknownTargetError: Triton has no backend for AMD, or does not know the chip.
    """
    command = [sys.executable, "-I", "-c", _PROBE, chip]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise JudgeUnavailableError(f"Triton could not be asked about the target {chip}: {error}.", "Retry.") from error
    if done.returncode:
        why = _why(done.returncode, done.stderr, chip)
        raise UnknownTargetError(
            f"target is {chip!r}, and the installed Triton {version('triton')} {why}.",
            "Use a chip that it knows, such as gfx942 or gfx950, or another Triton.",
        )


def _why(code: int, said: str, chip: str) -> str:
    if code == _BACKEND:
        return "has no compiler for AMD"
    if _UNKNOWN in said:
        return f"does not know the chip {chip}"
    return f"cannot compile for it: {(said.strip().splitlines() or ['it was killed'])[-1][:300].rstrip('.')}"
