"""Machines to plan a run for: known by name, described by options, or this one."""

import os
import re
from dataclasses import dataclass, replace

import psutil  # type: ignore[import-untyped,unused-ignore]

from warpsmith.records.errors import UsageError
from warpsmith.trainer.planning.sizes import GIB


@dataclass(frozen=True)
class Machine:
    """One machine with GPUs of one kind, or none.

    Attributes:
        name: its name.
        gpus: number of GPUs.
        gpu_bytes: memory available to a process on one GPU, as reported by `torch.cuda`.
        host_bytes: memory of the host.
        cores: number of processors; None if unknown.
    """

    name: str
    gpus: int
    gpu_bytes: int
    host_bytes: int
    cores: int | None = None


_GPUS = {
    "h200": (139.8, 128),
    "h100-80": (79.2, 128),
    "a100-80": (79.2, 128),
    "a100-40": (39.4, 128),
    "l40s": (44.4, 96),
    "4090": (23.6, 64),
    "3090": (23.6, 64),
}
"""By name: GiB that a process sees on one GPU, and the assumed GiB of host memory per GPU."""

_HOST = re.compile(r"cpu-(\d+)g")
_COUNTED = re.compile(r"(\d+)x(.+)")


def named(name: str) -> Machine:
    """Return the machine of a name: `h200`, `8xh100-80`, `4090`, or `cpu-24g` for one without GPUs.

    Raises:
        UsageError: there is no such name.
    """
    host = _HOST.fullmatch(name)
    if host is not None:
        return Machine(name, 0, 0, int(host[1]) * GIB)
    counted = _COUNTED.fullmatch(name)
    count, kind = (int(counted[1]), counted[2]) if counted else (1, name)
    if kind not in _GPUS or not count:
        raise UsageError(
            f"There is no machine called `{name}`.",
            f"Known are {', '.join(_GPUS)}, several GPUs such as 8xh100-80, and cpu-24g; or describe one with --gpus, "
            "--gpu-memory and --host-memory.",
        )
    each, host_each = _GPUS[kind]
    return Machine(name, count, int(each * GIB), count * host_each * GIB)


def this_machine() -> Machine:
    """Return this machine: its GPUs according to the driver, and its host's memory."""
    from warpsmith.evaluator.devices import discovery

    found, _ = discovery.find()
    least = min((gpu.memory_gib for gpu in found), default=0.0)
    cores = len(os.sched_getaffinity(0))
    return Machine("this machine", len(found), int(least * GIB), psutil.virtual_memory().total, cores)


def described(name: str | None, gpus: int | None, gpu_bytes: int | None, host_bytes: int | None) -> Machine:
    """Return the machine described by a command's options; omitted ones are taken from `name` or this machine.

    Raises:
        UsageError: `name` is unknown, or the memory of the GPUs is missing.
    """
    machine = named(name) if name else this_machine()
    given = {"gpus": gpus, "gpu_bytes": gpu_bytes, "host_bytes": host_bytes}
    changed = {key: value for key, value in given.items() if value is not None}
    if not changed:
        return machine
    machine = replace(machine, name=f"{machine.name}, changed", **changed)
    if machine.gpus and not machine.gpu_bytes:
        raise UsageError("--gpus describes GPUs without memory.", "Give each one's size with --gpu-memory, as 80GiB.")
    return machine
