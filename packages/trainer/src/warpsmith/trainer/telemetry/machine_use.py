"""How busy this machine is, for the live display and the metrics of steps: processors, memory, NVIDIA GPUs."""

import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import psutil  # type: ignore[import-untyped,unused-ignore]

_EVERY_S = 2.0
CPU, MEMORY = "machine/cpu_utilization", "machine/memory_share"


class MachineUse:
    """Samples the machine every two seconds in a thread, so that a slow driver does not delay anything else.

    GPUs need the package nvidia-ml-py, which vLLM for GPUs brings; without it or without GPUs they are left out. Their
    numbers are those of nvidia-smi. Other machines of a run are not seen.

    A context manager; on ranks other than 0 it samples nothing.

    Args:
        on: whether it samples.
        every_s: seconds between two samples.
    """

    def __init__(self, *, on: bool = True, every_s: float = _EVERY_S) -> None:
        self._on, self._every_s = on, every_s
        self._latest: Mapping[str, float] = {}
        self._samples: list[Mapping[str, float]] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="machine use", daemon=True)

    def __enter__(self) -> Self:
        if self._on:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._on:
            self._thread.join(self._every_s)

    @property
    def phrases(self) -> list[str]:
        """The last sample in words; empty before the first."""
        return in_words(self._latest)

    def figures(self) -> dict[str, float]:
        """Return what was sampled since the last call: means of utilization, and the most memory in use.

        Shares in [0, 1]: `machine/cpu_utilization`, `machine/memory_share`, and for each GPU `gpu_<n>/utilization` (of
        the time, that a kernel ran) and `gpu_<n>/memory_share`. Empty if nothing was sampled since.
        """
        with self._lock:
            samples, self._samples = self._samples, []
        names = dict.fromkeys(name for sample in samples for name in sample)
        return {name: _over([sample[name] for sample in samples if name in sample], name) for name in names}

    def _watch(self) -> None:
        nvml, gpus = _gpus()
        psutil.cpu_percent()
        while not self._stop.wait(self._every_s):
            sample = {CPU: psutil.cpu_percent() / 100, MEMORY: psutil.virtual_memory().percent / 100}
            for number, gpu in enumerate(gpus):
                sample |= _gpu(nvml, number, gpu)
            with self._lock:
                self._latest = sample
                self._samples.append(sample)


def in_words(figures: Mapping[str, float]) -> list[str]:
    """Return the use of a machine as phrases, for example `GPU 0 87 %, 61 % of its memory`."""
    found = []
    if CPU in figures:
        found += [f"CPU {figures[CPU]:.0%}", f"memory {figures[MEMORY]:.0%}"]
    numbers = sorted(int(name[len("gpu_") : name.index("/")]) for name in figures if name.endswith("/utilization"))
    for number in numbers:
        busy, memory = figures[f"gpu_{number}/utilization"], figures[f"gpu_{number}/memory_share"]
        found.append(f"GPU {number} {busy:.0%}, {memory:.0%} of its memory")
    return found


def _over(values: Sequence[float], name: str) -> float:
    return max(values) if name.endswith("/memory_share") else sum(values) / len(values)


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


def _gpu(nvml: Any, number: int, gpu: Any) -> dict[str, float]:
    """Return the use of a GPU; empty if the driver does not report it, for example for a part of a GPU."""
    try:
        busy, memory = nvml.nvmlDeviceGetUtilizationRates(gpu).gpu, nvml.nvmlDeviceGetMemoryInfo(gpu)
    except nvml.NVMLError:
        return {}
    return {f"gpu_{number}/utilization": busy / 100, f"gpu_{number}/memory_share": memory.used / memory.total}
