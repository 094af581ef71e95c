"""How a process gets at a GPU of NVIDIA: device nodes, libraries and environment. No GPU takes part here."""

import os
from pathlib import Path
from typing import Final

from warpsmith.evaluator.devices.kinds import Nodes

NVIDIA_LIBRARIES: Final = ("/usr/local/nvidia", "/usr/lib/wsl", "/usr/local/cuda")
DEVICES: Final = Path("/dev")
NVIDIA_DEVICES: Final = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-modeset", "/dev/dxg")
"""What every process of CUDA opens; `/dev/nvidia-uvm-tools`, which it can do without, is left out."""
GPU_FACTS: Final = Path("/proc/driver/nvidia/gpus")
"""What the driver tells of each GPU; not there under every kind of virtualisation."""
DEVICE_FACTS: Final = ("/sys/devices/system", "/sys/bus/pci", "/sys/module/nvidia", "/sys/module/nvidia_uvm")
"""What the driver reads of the machine."""
QUICK_CONTEXTS: Final = {
    "CUDA_MODULE_LOADING": "LAZY",
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    "CUDA_DEVICE_MAX_COPY_CONNECTIONS": "1",
}
"""Kernels are loaded when they are first launched; and a context has one queue of work in place of eight, which takes
half the time to come into being and to end. Streams of one process then wait for one another more often."""


def nodes_of(number: int, uuid: str = "") -> Nodes:
    """Return how workers get at a GPU, whose number is that among the nodes that are there.

    A worker can open one node alone, and the driver numbers what can be opened: so the GPU goes by its UUID there.
    Where it is the only one its number is as good, and serves parts of a GPU (MIG) as well.
    """
    nodes = _nodes_of_gpus()
    if not uuid or len(nodes) < 2:
        return Nodes(str(number), tuple(nodes[number : number + 1]), NVIDIA_DEVICES, DEVICE_FACTS)
    return Nodes(uuid, tuple(_node_of(uuid) or nodes[number : number + 1]), NVIDIA_DEVICES, DEVICE_FACTS)


def environment_of(gpu: int | str) -> dict[str, str]:
    """Return the environment under which a process sees one GPU, and its context comes into being quickly.

    Args:
        gpu: its number, or its name in a worker (`nodes_of`).
    """
    named = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return named | {"CUDA_VISIBLE_DEVICES": str(gpu), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"} | QUICK_CONTEXTS


def _node_of(uuid: str) -> list[str]:
    """Return the node of the GPU that the driver names so; none where it does not tell."""
    for path in GPU_FACTS.glob("*/information") if uuid else ():
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        told = dict(line.split(":", 1) for line in lines if ":" in line)
        if told.get("GPU UUID", "").strip() == uuid and "Device Minor" in told:
            return [f"{DEVICES}/nvidia{told['Device Minor'].strip()}"]
    return []


def _nodes_of_gpus() -> list[str]:
    """Return the nodes of the GPUs that are there, in order; a container that was given some keeps their numbers."""
    numbers = sorted(int(name[6:]) for name in (path.name for path in DEVICES.glob("nvidia*")) if name[6:].isdigit())
    return [f"{DEVICES}/nvidia{number}" for number in numbers]


def searched_folders() -> list[str]:
    """Return where libraries are searched for first, less what is no place of libraries: the root, and where we are."""
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return [folder for folder in folders if Path(folder).is_absolute() and Path(folder) != Path("/")]
