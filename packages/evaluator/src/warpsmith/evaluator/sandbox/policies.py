"""What each worker role can see and use: the policy that the compiled extension enforces."""

import os
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from warpsmith.evaluator._native import Bind, Policy
from warpsmith.evaluator.config import EvaluatorConfig

Role = Literal["reference", "candidate", "compile", "host"]
OFF_DEVICE: Final = frozenset({"compile", "host"})
"""Roles that never see a GPU."""

NVIDIA_LIBRARIES: Final = ("/usr/local/nvidia", "/usr/lib/wsl", "/usr/local/cuda")
DEVICES: Final = Path("/dev")
NVIDIA_DEVICES: Final = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-modeset", "/dev/dxg")
"""Device nodes that every CUDA process opens; `/dev/nvidia-uvm-tools` is optional and left out."""
GPU_FACTS: Final = Path("/proc/driver/nvidia/gpus")
"""The driver's description of each GPU; absent under some kinds of virtualisation."""
DEVICE_FACTS: Final = ("/sys/devices/system", "/sys/bus/pci", "/sys/module/nvidia", "/sys/module/nvidia_uvm")
"""Facts about the machine that the driver reads."""
SYSTEM_LIBRARIES: Final = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")
SINGLE_THREADED: Final = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
}
# Added to what a worker inherits; far more than honest workers map, with at most 128 MiB of page tables.
ADDRESS_SPACE_BYTES: Final = 64 << 30
LANG: Final = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
# The current default, set explicitly because Triton 3.9 warns that it will change. Line info is useless here.
TRITON: Final = {"TRITON_DEFAULT_FP_FUSION": "1", "TRITON_DISABLE_LINE_INFO": "1"}

INTERPRETER: Final = {"TRITON_INTERPRET": "1"}
QUICK_CONTEXTS: Final = {
    "CUDA_MODULE_LOADING": "LAZY",
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    "CUDA_DEVICE_MAX_COPY_CONNECTIONS": "1",
}
"""Kernels load at their first launch. A context has one work queue instead of eight, which halves the time to create
and to destroy it; streams of one process then wait for each other more often."""
OF_ROLE: Final[dict[Role, dict[str, str]]] = {
    # ptxas runs for milliseconds and spends them on page faults; huge pages for its heap help, if the kernel has any.
    "compile": {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"},
}


@dataclass(frozen=True)
class GpuAccess:
    """How a worker accesses its GPU: its name for the driver, and its device nodes."""

    name: str
    nodes: tuple[str, ...]


def gpu_access(number: int, uuid: str = "") -> GpuAccess:
    """Return how workers access a GPU; `number` counts the device nodes present.

    A worker can open only one node, and the driver numbers the GPUs that can be opened, so the GPU is named by UUID. If
    it is the only one, its number works as well, also for parts of a GPU (MIG).
    """
    nodes = _nodes_of_gpus()
    if not uuid or len(nodes) < 2:
        return GpuAccess(str(number), tuple(nodes[number : number + 1]))
    return GpuAccess(uuid, tuple(_node_of(uuid) or nodes[number : number + 1]))


def policy_for(
    role: Role,
    config: EvaluatorConfig,
    scratch: Path | None,
    ptxas: Path,
    libraries: Sequence[Path],
    *,
    gpu: GpuAccess | None = None,
) -> Policy:
    """Return the policy of one worker.

    Args:
        role: only `compile` may execute a program, namely ptxas.
        config: limits and the weakest accepted tier.
        scratch: an empty directory for tiers without a mount namespace; None if the sandbox mounts its own.
        ptxas: the assembler of the installed Triton.
        libraries: the result of `library_paths`.
        gpu: the result of `gpu_access`; None without a GPU.
    """
    gpu = None if role in OFF_DEVICE else gpu
    on_gpu = gpu is not None
    return Policy(
        binds=[Bind(str(path), str(path)) for path in libraries] + (_device_binds(gpu) if gpu else []),
        exec_paths=[str(ptxas)] if role == "compile" else [],
        environment=SINGLE_THREADED | LANG | TRITON | OF_ROLE.get(role, {}) | _of_device(role, config, gpu),
        # CUDA creates shared memory, and names its threads under /proc.
        shared_memory=on_gpu,
        dumpable=on_gpu,
        scratch_path=str(scratch) if scratch else "",
        scratch_bytes=config.scratch_bytes,
        memory_bytes=config.memory_bytes,
        # CUDA reserves an address space larger than any useful bound.
        address_space_bytes=0 if on_gpu else config.memory_bytes + ADDRESS_SPACE_BYTES,
        processes=config.processes,
        cpu_seconds=_cpu_seconds(role, config),
        strongest_tier=config.strongest_isolation,
        minimum_tier=config.minimum_isolation,
    )


def _cpu_seconds(role: Role, config: EvaluatorConfig) -> int:
    """Bound a worker's CPU time above its deadline; a reference worker serves many evaluations of its problem."""
    deadlines = {"reference": 3600.0, "compile": 2 * config.compile_timeout_s}
    return int(deadlines.get(role, 2 * config.timeout_s)) + 60


def _of_device(role: Role, config: EvaluatorConfig, gpu: GpuAccess | None) -> dict[str, str]:
    if gpu is not None:
        return gpu_environment(gpu.name)
    return INTERPRETER if config.device == "cpu" and role == "candidate" else {}


def gpu_environment(gpu: int | str) -> dict[str, str]:
    """Return the environment in which a process sees one GPU and creates its context quickly.

    Args:
        gpu: its number, or its name in a worker (`gpu_access`).
    """
    named = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return named | {"CUDA_VISIBLE_DEVICES": str(gpu), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"} | QUICK_CONTEXTS


def _device_binds(gpu: GpuAccess) -> list[Bind]:
    """Return the binds of one GPU's device nodes and of the facts about it that the driver reads."""
    nodes = [path for path in (*NVIDIA_DEVICES, *gpu.nodes) if Path(path).exists()]
    facts = [path for path in DEVICE_FACTS if Path(path).exists()]
    return [*(Bind(path, path, True) for path in nodes), *(Bind(path, path) for path in facts)]


def _node_of(uuid: str) -> list[str]:
    """Return the node of the GPU with this UUID; empty if the driver does not list it."""
    for path in GPU_FACTS.glob("*/information") if uuid else ():
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        if fields.get("GPU UUID", "").strip() == uuid and "Device Minor" in fields:
            return [f"{DEVICES}/nvidia{fields['Device Minor'].strip()}"]
    return []


def _nodes_of_gpus() -> list[str]:
    """Return the nodes of the GPUs present, in order; in a container with some of the GPUs they keep their numbers."""
    numbers = sorted(int(name[6:]) for name in (path.name for path in DEVICES.glob("nvidia*")) if name[6:].isdigit())
    return [f"{DEVICES}/nvidia{number}" for number in numbers]


def library_paths(device: str = "cpu") -> list[Path]:
    """Return the host paths of Python and the system's libraries, each once, none inside another."""
    prefixes = [sys.prefix, sys.base_prefix, *(sysconfig.get_path(name) for name in ("stdlib", "platlib", "purelib"))]
    of_driver = [*NVIDIA_LIBRARIES, *_searched()] if device == "cuda" else []
    wanted = [Path(path) for path in (*SYSTEM_LIBRARIES, *_below_root(prefixes), *of_driver)]
    kept: list[Path] = []
    for path in sorted({path for path in wanted if path.exists() or path.is_symlink()}):
        if not any(path.is_relative_to(other) for other in kept if not other.is_symlink()):
            kept.append(path)
    return kept


def _searched() -> list[str]:
    """Return the folders of LD_LIBRARY_PATH, except the root and the working directory."""
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return [folder for folder in folders if Path(folder).is_absolute() and Path(folder) != Path("/")]


def _below_root(prefixes: list[str]) -> list[str]:
    """Narrow prefixes such as /usr to their libraries: a worker needs nothing else of them."""
    return [f"{prefix}/lib" if prefix in {"/usr", "/usr/local"} else prefix for prefix in prefixes]
