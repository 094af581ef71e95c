"""How busy this machine is, for the live display: processors, memory, NVIDIA GPUs."""

import threading
from collections.abc import Sequence
from typing import Any

import psutil  # type: ignore[import-untyped,unused-ignore]

_EVERY_S = 2.0


class MachineUse:
    """Samples the machine every two seconds in a thread, so that a slow driver does not delay the display.

    GPUs need the package nvidia-ml-py, which vLLM for GPUs brings; without it or without GPUs they are left out.
    """

    def __init__(self) -> None:
        self.phrases: Sequence[str] = ()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="machine use", daemon=True)

    def start(self) -> None:
        """Start sampling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling."""
        self._stop.set()
        self._thread.join(_EVERY_S)

    def _watch(self) -> None:
        nvml, gpus = _gpus()
        psutil.cpu_percent()
        while not self._stop.wait(_EVERY_S):
            memory = psutil.virtual_memory()
            self.phrases = [
                f"CPU {psutil.cpu_percent():.0f} %",
                f"memory {memory.percent:.0f} %",
                *(_gpu(nvml, number, gpu) for number, gpu in enumerate(gpus)),
            ]


def _gpus() -> tuple[Any, Sequence[Any]]:
    """Return NVML and the handles of the GPUs; none if it is absent or refuses."""
    try:
        import pynvml  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return None, ()
    try:
        pynvml.nvmlInit()
        return pynvml, [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return None, ()


def _gpu(nvml: Any, number: int, gpu: Any) -> str:
    try:
        busy, memory = nvml.nvmlDeviceGetUtilizationRates(gpu).gpu, nvml.nvmlDeviceGetMemoryInfo(gpu)
    except nvml.NVMLError:
        return f"GPU {number} n/a"
    return f"GPU {number} {busy} %, {memory.used / memory.total:.0%} of its memory"
