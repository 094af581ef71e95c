"""How a process reaches an NVIDIA GPU: device nodes, libraries and environment. Needs no GPU."""

import os
from pathlib import Path
from typing import Final

from warpsmith.evaluator.devices.kinds import Nodes

NVIDIA_LIBRARIES: Final = ("/usr/local/nvidia", "/usr/lib/wsl", "/usr/local/cuda")
DEVICES: Final = Path("/dev")
NVIDIA_DEVICES: Final = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-modeset", "/dev/dxg")
"""Nodes that every CUDA process opens; `/dev/nvidia-uvm-tools` is not needed."""
GPU_FACTS: Final = Path("/proc/driver/nvidia/gpus")
"""The driver's facts on each GPU; missing under some kinds of virtualisation."""
DEVICE_FACTS: Final = ("/sys/devices/system", "/sys/bus/pci", "/sys/module/nvidia", "/sys/module/nvidia_uvm")
"""Paths from which the driver reads facts about the machine."""
QUICK_CONTEXTS: Final = {
    "CUDA_MODULE_LOADING": "LAZY",
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    "CUDA_DEVICE_MAX_COPY_CONNECTIONS": "1",
}
"""Load kernels at their first launch, and use one work queue in each context instead of eight: creating and destroying
a context then takes half the time, but the streams of one process wait for one another more often."""


def nodes_of(number: int, uuid: str = "") -> Nodes:
    """Return how workers reach a GPU, given its number among the existing nodes.

    A worker can open only one node, and the driver numbers the GPUs that it can open: so the worker selects its GPU by
    UUID. For an only GPU the number is used, which also works for parts of a GPU (MIG).
    """
    nodes = _nodes_of_gpus()
    if not uuid or len(nodes) < 2:
        return Nodes(str(number), tuple(nodes[number : number + 1]), NVIDIA_DEVICES, DEVICE_FACTS)
    return Nodes(uuid, tuple(_node_of(uuid) or nodes[number : number + 1]), NVIDIA_DEVICES, DEVICE_FACTS)


def environment_of(gpu: int | str) -> dict[str, str]:
    """Return environment variables that let a process see one GPU and create its context quickly.

    Args:
        gpu: its number, or its name in a worker (`nodes_of`).
    """
    named = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return named | {"CUDA_VISIBLE_DEVICES": str(gpu), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"} | QUICK_CONTEXTS


def _node_of(uuid: str) -> list[str]:
    """Return the node of the GPU with this UUID; an empty list if the driver does not say."""
    for path in GPU_FACTS.glob("*/information") if uuid else ():
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        facts = dict(line.split(":", 1) for line in lines if ":" in line)
        if facts.get("GPU UUID", "").strip() == uuid and "Device Minor" in facts:
            return [f"{DEVICES}/nvidia{facts['Device Minor'].strip()}"]
    return []


def _nodes_of_gpus() -> list[str]:
    """Return the nodes of existing GPUs in order; in a container with some of the GPUs the numbers have gaps."""
    numbers = sorted(int(name[6:]) for name in (path.name for path in DEVICES.glob("nvidia*")) if name[6:].isdigit())
    return [f"{DEVICES}/nvidia{number}" for number in numbers]


def searched_folders() -> list[str]:
    """Return the folders in LD_LIBRARY_PATH, without the root and relative ones."""
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return [folder for folder in folders if Path(folder).is_absolute() and Path(folder) != Path("/")]
