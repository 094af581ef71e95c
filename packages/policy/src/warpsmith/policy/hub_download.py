"""Large files of the hub, continued where an earlier command was interrupted.

The hub's own client keeps whole files and drops the part of one that has arrived.
"""

import fcntl
import hashlib
import http
import http.client
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_BLOCK: Final = 1 << 20
_SAID_EVERY: Final = 1 << 30
_TIMEOUT_S: Final = 30.0
_TRIES: Final = 4
_FIRST_PAUSE_S: Final = 0.5

_INTERRUPTED: Final = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError)


class DownloadError(OSError):
    """A file did not arrive, or not as the hub describes it."""


def download(name: str, commit: str, file: str, say: Callable[[str], None]) -> None:
    """Put a file of a model into the hub's cache, where the hub's client then finds it.

    What has arrived stays in the cache as `.partial` if this fails, and the next call continues it. Another process
    that asks for the file meanwhile waits.

    Args:
        name: owner and name of the model.
        commit: the commit.
        file: the file's name.
        say: called with the progress.

    Raises:
        DownloadError: the connection was lost several times in a row, or the file has another checksum.
        Errors of the hub's client: the file is not there, or may not be read.
    """
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url

    url = hf_hub_url(name, file, revision=commit)
    known = get_hf_file_metadata(url)
    if known.etag is None or known.size is None:
        return
    blobs = Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}" / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    with _alone(blobs / f"{known.etag}.partial") as partial:
        if (blobs / known.etag).exists():
            return
        _fill(partial, known.location, known.size, lambda size: say(f"{file}: {size / 1e9:.1f} GB"))
        if _SHA256.fullmatch(known.etag) and _digest(partial) != known.etag:
            partial.unlink()
            raise DownloadError(f"{file} arrived with another checksum than the hub names")
        partial.replace(blobs / known.etag)


@contextmanager
def _alone(partial: Path) -> Iterator[Path]:
    """Let one process at a time write a file."""
    with partial.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield partial


def _fill(partial: Path, url: str, size: int, say: Callable[[int], None]) -> None:
    """Append to a file until it has its size; tries again while something arrives."""
    failures = 0
    while (held := _size(partial)) != size:
        if held > size:
            partial.unlink()
        cause: Exception | None = None
        try:
            _append(partial, url, _size(partial), say)
        except _INTERRUPTED as error:
            cause = error
        failures = 0 if _size(partial) > held else failures + 1
        if failures == _TRIES or isinstance(cause, urllib.error.HTTPError):
            why = cause or "the connection was closed"
            raise DownloadError(f"{held:,} of {size:,} bytes have arrived: {why}") from cause
        if failures:
            time.sleep(_FIRST_PAUSE_S * 2 ** (failures - 1))


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _append(partial: Path, url: str, held: int, say: Callable[[int], None]) -> None:
    request = urllib.request.Request(url, headers={**_headers(url), "Range": f"bytes={held}-"})
    with ExitStack() as stack:
        response = stack.enter_context(urllib.request.urlopen(request, timeout=_TIMEOUT_S))
        # A server that ignores the range sends the file from its beginning.
        mode = "ab" if response.status == http.HTTPStatus.PARTIAL_CONTENT else "wb"
        _copy(response, stack.enter_context(partial.open(mode)), say)


def _copy(response: IO[bytes], file: IO[bytes], say: Callable[[int], None]) -> None:
    said = file.tell() // _SAID_EVERY
    while block := response.read(_BLOCK):
        file.write(block)
        if (now := file.tell() // _SAID_EVERY) > said:
            said = now
            say(file.tell())


def _headers(url: str) -> dict[str, str]:
    """Return the headers of a request; the user's token is for the hub alone and not for where it stores files."""
    from huggingface_hub import constants
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    at_hub = urlsplit(url).netloc == urlsplit(constants.ENDPOINT).netloc
    return {str(key): str(value) for key, value in build_hf_headers(token=None if at_hub else False).items()}


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
