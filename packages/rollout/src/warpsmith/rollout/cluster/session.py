"""A Ray session: a local instance, or an existing cluster."""

import os
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from packaging.version import Version

from warpsmith.records.last_words import memory_note, oom_kills, quote_into
from warpsmith.rollout.cluster.logs import folder_of_session
from warpsmith.rollout.errors import RayTokenError, SamplerError

_OBJECT_STORE_BYTES = 512 << 20
_MODE = "RAY_AUTH_MODE"
_PRESTART = "RAY_prestart_worker_first_driver"
_TOKEN = "RAY_AUTH_TOKEN"
_TOKEN_PATH = "RAY_AUTH_TOKEN_PATH"
_TOKEN_FILE = Path(".ray/auth_token")
_TOKENS_FROM = Version("2.60")
"""From this version on, a local instance authenticates with tokens unless RAY_AUTH_MODE says otherwise."""


@contextmanager
def ray_session(
    address: str | None = None,
    *,
    num_cpus: int | None = None,
    object_store_bytes: int = _OBJECT_STORE_BYTES,
    temp_dir: Path | None = None,
    on_lost: Callable[[SamplerError], None] | None = None,
) -> Iterator[None]:
    """Connect to Ray for the duration of a `with` block.

    Args:
        address: an existing cluster (`auto` for the one on this machine); None starts a local one and stops it
            afterwards.
        num_cpus: logical CPUs of a local instance; None for all of the machine.
        object_store_bytes: shared memory of a local instance; it holds one copy of the weights.
        temp_dir: where a local instance writes logs and sockets; its path must be short.
        on_lost: called from another thread when a process of the local instance dies. Ray would end this process
            within a minute (gcs_server) or let it wait for actors that never start (raylet).

    Raises:
        RayTokenError: token authentication is on, but Ray has no usable token.
        SamplerError: Ray cannot be started or reached.
    """
    check_token(address)
    import ray

    if address is None:
        # Else Ray starts an idle worker for each CPU at once, which only takes time from those that are used.
        os.environ.setdefault(_PRESTART, "0")
    local = {
        "num_cpus": num_cpus,
        "object_store_memory": object_store_bytes,
        "include_dashboard": False,
        "_temp_dir": None if temp_dir is None else str(temp_dir),
    }
    try:
        ray.init(
            address=address or "local", log_to_driver=False, logging_level="ERROR", **(local if address is None else {})
        )
    except Exception as error:  # Ray raises a bare Exception when its own node starts too slowly.
        # A half-open connection would block the next one.
        ray.shutdown()
        where = address or "a local instance"
        raise SamplerError(f"Ray cannot be started on {where}: {str(error).rstrip('.')}.", _remedy(error)) from error
    try:
        with _watched(on_lost if address is None else None):
            yield
    finally:
        ray.shutdown()


def check_token(address: str | None = None) -> str:
    """Check the token that Ray authenticates with, before Ray starts. Does not import Ray.

    Ray takes RAY_AUTH_TOKEN, else the file named by RAY_AUTH_TOKEN_PATH, else ~/.ray/auth_token. New versions create
    the last for a local instance; for a cluster it must exist.

    Returns:
        Where the token comes from, as part of a sentence.

    Raises:
        RayTokenError: there is none, and none can be created.
    """
    mode = os.environ.get(_MODE, "").strip().lower()
    if mode == "disabled":
        return f"no token ({_MODE}=disabled)"
    if os.environ.get(_TOKEN, "").strip():
        return f"the token of {_TOKEN}"
    named = os.environ.get(_TOKEN_PATH, "")
    if named:
        return _token_in(Path(named), f"{_TOKEN_PATH} names {named}")
    default = _home() / _TOKEN_FILE
    if default.is_file() and default.stat().st_size:
        return _token_in(default, f"Ray's token is {default}")
    if address is None and (mode == "token" or Version(version("ray")) >= _TOKENS_FROM):
        return _token_to_be_made(default)
    if mode == "token" and address is not None:
        raise RayTokenError(
            f"{_MODE}=token is set, but there is no token for the cluster at {address}.",
            f"Set {_TOKEN} or {_TOKEN_PATH} to the cluster's token, or copy it to {default}.",
        )
    return "no token"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:
        raise RayTokenError(f"Ray's token is in the home directory, but there is none: {error}.", "Set HOME.") from None


def _token_in(path: Path, what: str) -> str:
    remedy = f"Correct it, set {_TOKEN}, or set {_MODE}=disabled if the cluster requires no token."
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise RayTokenError(f"{what}, which cannot be read: {error}.", remedy) from None
    if not token:
        raise RayTokenError(f"{what}, which is empty.", remedy)
    return f"the token in {path}"


def _token_to_be_made(path: Path) -> str:
    """Check whether a local instance can write its own token."""
    parent = next(folder for folder in path.parents if folder.exists())
    if path.is_dir() or not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise RayTokenError(
            f"Ray creates a token for its local instance, but cannot write it to {path}.",
            f"Set HOME to a writable directory, or {_TOKEN_PATH} to a file with a token.",
        )
    return f"a token that Ray creates in {path}"


@contextmanager
def _watched(on_lost: Callable[[SamplerError], None] | None) -> Iterator[None]:
    """Call `on_lost` when the raylet or gcs_server started by this process dies inside the block."""
    if on_lost is None:
        yield
        return
    watched = {os.pidfd_open(pid): name for name, pid in _own_processes()}
    stop, stopped = os.pipe()
    watch = (watched, stop, on_lost, folder_of_session())
    thread = threading.Thread(target=_watch, args=watch, name="ray watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        os.close(stopped)
        thread.join()
        for fd in (stop, *watched):
            os.close(fd)


def _watch(watched: dict[int, str], stop: int, on_lost: Callable[[SamplerError], None], logs: Path) -> None:
    kills = oom_kills()
    ready, _, _ = select.select([stop, *watched], [], [])
    if stop not in ready:
        names = [watched[fd] for fd in ready]
        error = SamplerError(
            f"Ray's {' and '.join(names)} has ended, and with it the samplers. {memory_note(kills)}".strip(),
            "If its log is empty it was killed; continue with --resume.",
        )
        on_lost(quote_into(error, [path for name in names for path in _said(logs, name)]))


def _said(logs: Path, name: str) -> list[Path]:
    """Return the non-empty logs of one of Ray's own processes; one of them if all are empty."""
    both = [logs / f"{name}.out", logs / f"{name}.err"]
    return [log for log in both if log.is_file() and log.stat().st_size] or both[:1]


def _own_processes() -> Iterator[tuple[str, int]]:
    """Yield name and pid of the processes of this process's own Ray instance."""
    import psutil  # type: ignore[import-untyped,unused-ignore]

    for process in psutil.Process().children():
        if process.name() in {"raylet", "gcs_server"}:
            yield process.name(), process.pid


def _remedy(error: Exception) -> str:
    # Compared by name: older versions of Ray have no such class.
    if type(error).__name__ == "AuthenticationError":
        return (
            f"Give this machine the cluster's token ({_TOKEN}, {_TOKEN_PATH} or ~/{_TOKEN_FILE}) and set {_MODE}=token."
        )
    if "ersion mismatch" in str(error):
        return "All nodes of a cluster need the same versions of Ray and Python: install requirements/cpu.lock on each."
    if "timed out during startup" in str(error):
        return "Ray gives its own processes 30 s. Start again once this machine has a free core and free memory."
    return "Check the address and free memory."
