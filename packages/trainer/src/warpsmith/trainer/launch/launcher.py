"""Starts the ranks of a run under DeepSpeed's launcher, forwards signals, and cleans up."""

import base64
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType

import psutil  # type: ignore[import-untyped,unused-ignore]

from warpsmith.records.commands import print_error
from warpsmith.records.last_words import memory_note, oom_kills, quote_into
from warpsmith.trainer.errors import ConfigError, LaunchError
from warpsmith.trainer.launch.deaths import Death, Deaths
from warpsmith.trainer.launch.ending import CRASHED
from warpsmith.trainer.launch.port import checked_port, free_port
from warpsmith.trainer.launch.rank_log import STARTED, log_of, logs_of

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_GRACE_S = 20.0
_LAUNCHED = "WARPSMITH_LAUNCHED"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_SETTLES_S = 4.0
_KILLED = 256 - 65
"""The launcher exits with minus the signal that ended a rank, which a shell reads as 256 minus the signal."""


def is_rank() -> bool:
    """Whether this process is a rank of a launched run."""
    return "RANK" in os.environ and "LOCAL_RANK" in os.environ


def is_launched() -> bool:
    """Whether `launch` started this rank: its SIGTERM then comes from a launcher that ends all ranks."""
    return os.environ.get(_LAUNCHED) == "1"


def launch(
    arguments: Sequence[str],
    processes: int,
    master_port: int | None = None,
    *,
    run_dir: Path,
    devices: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
) -> int:
    """Run `python -m warpsmith.trainer ARGUMENTS` as `processes` ranks on this machine; return the exit code.

    Rank r has GPU `devices[r]`, or the r-th GPU that this process sees if none are named. The ranks get `environment`
    in addition to this process's own.

    The first SIGINT or SIGTERM reaches the ranks as SIGINT: they finish their step and write a checkpoint; the second
    ends them at once. The launcher has its own session, so that a terminal's Ctrl-C reaches the ranks only once. A rank
    that dies without its own message is reported with the last lines of its log in `run_dir`.

    Raises:
        PortError: there is no free port, or the given one is taken.
        ConfigError: no GPUs are named, and CUDA_VISIBLE_DEVICES names fewer than ranks.
        LaunchError: the launcher does not start.
    """
    port = free_port() if master_port is None else checked_port(master_port)
    command = launcher_command(arguments, devices or visible_devices(processes), port)
    try:
        process = subprocess.Popen(
            command,
            env={**_environment(), **(environment or {})},
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509  it takes no lock that another thread could hold
        )
    except OSError as error:
        raise LaunchError(f"DeepSpeed's launcher did not start: {error}.", "Check the installation.") from error
    restore = _forward_signals(process)
    kills = oom_kills()
    try:
        with Deaths(process.pid, processes) as deaths:
            code = process.wait()
            return exit_code(code, deaths.first(), logs_of(run_dir), kills)
    finally:
        restore()
        _end(process)


def launcher_command(arguments: Sequence[str], devices: Sequence[int | str], port: int) -> list[str]:
    """Return the command of DeepSpeed's launcher for one rank per device on this machine.

    Args:
        arguments: of `python -m warpsmith.trainer`.
        devices: as CUDA_VISIBLE_DEVICES names them, by number or UUID.
        port: of the ranks' rendezvous.
    """
    world = base64.urlsafe_b64encode(json.dumps({"localhost": list(devices)}).encode()).decode()
    return [
        sys.executable, "-u", "-m", "deepspeed.launcher.launch",
        f"--world_info={world}", "--master_addr=127.0.0.1", f"--master_port={port}",
        "--no_local_rank", "--log_level=critical", "--module", "warpsmith.trainer", *arguments,
    ]  # fmt: skip


def visible_devices(processes: int) -> Sequence[int | str]:
    """Return a GPU for each rank, of those that this process sees.

    DeepSpeed's launcher replaces CUDA_VISIBLE_DEVICES, so a GPU that a scheduler or a user chose must be named to it.

    Raises:
        ConfigError: CUDA_VISIBLE_DEVICES names fewer GPUs than ranks.
    """
    chosen = [device.strip() for device in os.environ.get(_VISIBLE, "").split(",") if device.strip()]
    if not chosen or not _has_nvidia():
        return range(processes)
    if len(chosen) < processes:
        raise ConfigError(
            f"{_VISIBLE}={','.join(chosen)} shows {len(chosen)} GPUs; {processes} ranks need one each.",
            f"Change {_VISIBLE}, or pass --num-processes {len(chosen)}.",
        )
    return chosen[:processes]


def ranks_of(train: Sequence[int], processes: int | None) -> int:
    """Return the number of ranks to start.

    Args:
        train: GPUs of `placement.train`.
        processes: `--num-processes`; None if not given.

    Raises:
        ConfigError: both are given and differ.
    """
    if train and processes not in (None, len(train)):
        raise ConfigError(
            f"placement.train names {len(train)} GPUs, one rank each, but --num-processes is {processes}.",
            "Remove --num-processes, or change placement.train.",
        )
    return len(train) or processes or default_processes()


def check_visible(train: Sequence[int]) -> None:
    """Reject a rank that another launcher gave other GPUs than `placement.train`.

    Raises:
        ConfigError: it did.
    """
    visible = os.environ.get(_VISIBLE)
    wanted = ",".join(map(str, train))
    if train and visible is not None and visible != wanted:
        raise ConfigError(
            f"The launcher gave this rank the GPUs {visible}; placement.train names {wanted}.",
            f"Start it with `deepspeed --include localhost:{wanted} --module warpsmith.trainer ...`.",
        )


def without_local_rank(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without the `--local_rank=N` that the `deepspeed` command prepends."""
    return [argument for argument in arguments if not argument.startswith("--local_rank=")]


def default_processes() -> int:
    """Return the number of NVIDIA devices that this process sees, or 1."""
    visible = os.environ.get(_VISIBLE)
    if visible is not None:
        return max(1, len([device for device in visible.split(",") if device.strip()]))
    return max(1, gpu_count())


def gpu_count() -> int:
    """Return the number of NVIDIA devices of this machine, or of this container."""
    return len([node for node in Path("/dev").glob("nvidia*") if node.name[6:].isdigit()])


def demo_processes() -> int:
    """Return the number of ranks of the demo: as `default_processes`, but two without GPUs.

    A tiny model gains nothing from a second thread, and almost half of its time from a second rank.
    """
    return default_processes() if _has_nvidia() else min(2, len(os.sched_getaffinity(0)))


def choose_accelerator() -> None:
    """Set DS_ACCELERATOR to cpu if there is no NVIDIA device and it is not set."""
    if not _has_nvidia():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")


def _has_nvidia() -> bool:
    return Path("/dev/nvidiactl").exists()


def _environment() -> dict[str, str]:
    choose_accelerator()
    # The numbering of nvidia-smi, which the evaluator uses too.
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **os.environ, _LAUNCHED: "1"}


def _die_with_parent() -> None:
    """Ask the kernel for SIGTERM when the parent dies, for any reason."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _forward_signals(process: "subprocess.Popen[bytes]") -> Callable[[], None]:
    """Forward signals to the ranks; return a function that restores the old handlers."""
    received: list[int] = []

    def forward(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            process.terminate()
            return
        for rank in _ranks(process.pid):
            rank.send_signal(signal.SIGINT)

    old = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in old.items():
            signal.signal(number, handler)

    return restore


def _ranks(launcher: int) -> list[psutil.Process]:
    try:
        return list(psutil.Process(launcher).children())
    except psutil.NoSuchProcess:
        return []


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Make sure that neither the launcher nor any of its children is left."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
    try:
        # The session outlives its leader if a rank left children behind.
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def exit_code(code: int, death: Death | None, logs: Path, kills: int) -> int:
    """Return the exit code as a shell would; report what a dead process could not report itself.

    Args:
        code: exit code of DeepSpeed's launcher, which is that of the first rank that failed.
        death: the rank that failed first, if it was seen.
        logs: folder of the ranks' logs.
        kills: the result of `oom_kills()` before the start.
    """
    who = "A rank" if death is None else f"Rank {death.rank} (pid {death.pid})"
    if code == CRASHED:
        _report(f"{who} ended by an unhandled exception.", death, logs)
        return code
    if code > _KILLED:
        _report(f"{who} was ended by {_signal_name(256 - code)}. {memory_note(kills)}", death, logs)
        return 128 + 256 - code
    if code < 0:
        _report(f"DeepSpeed's launcher was ended by {_signal_name(-code)}. {memory_note(kills)}", None, logs)
        return 128 - code
    return code


def _signal_name(number: int) -> str:
    return f"signal {number} ({signal.strsignal(number) or 'unknown'})"


def _report(message: str, death: Death | None, logs: Path) -> None:
    error = LaunchError(message, "Fix the cause, then resume with --resume.")
    if death is not None:
        quote_into(error, [_settled(log_of(logs, death.rank))], since=STARTED)
    print_error(error)


def _settled(log: Path) -> Path:
    """Return a log once its writing has ended: the process that copies a dead rank's stderr needs a moment to end."""
    sizes, deadline = [-1, -2], time.monotonic() + _SETTLES_S
    while sizes[-1] != sizes[-2] and time.monotonic() < deadline:
        time.sleep(_SETTLES_S / 20)
        sizes.append(log.stat().st_size if log.exists() else 0)
    return log
