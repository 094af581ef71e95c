"""Replaces Triton's own driver (`triton.runtime.driver.active`), which needs a device and a C compiler."""

from types import SimpleNamespace
from typing import Any, Final

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

REGISTERS: Final = 65536
CLOCK_KHZ: Final = 1_980_000
MEMORY_CLOCK_KHZ: Final = 2_619_000
MEMORY_BUS_BITS: Final = 5120


class FakeDriver:
    """Behaves like Triton's CUDA driver for a single GPU, real or described.

    Args:
        properties: the GPU's, as from `torch.cuda.get_device_properties`.
    """

    def __init__(self, properties: Any) -> None:
        self._properties = properties
        self.utils = SimpleNamespace(get_device_properties=self._facts)

    def _facts(self, device: Any = 0) -> dict[str, int]:
        properties = self._properties
        return {
            "max_shared_mem": getattr(properties, "shared_memory_per_block_optin", 232448),
            "max_num_regs": getattr(properties, "regs_per_multiprocessor", REGISTERS),
            "multiprocessor_count": properties.multi_processor_count,
            "warpSize": getattr(properties, "warp_size", 32),
            "sm_clock_rate": CLOCK_KHZ,
            "mem_clock_rate": MEMORY_CLOCK_KHZ,
            "mem_bus_width": MEMORY_BUS_BITS,
        }

    @staticmethod
    def is_active() -> bool:
        return True

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self._properties.major * 10 + self._properties.minor, 32)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", self.get_current_device())

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: Any) -> None:
        torch.cuda.set_device(device)

    def get_current_stream(self, device: Any = None) -> int:
        return int(torch.cuda.current_stream(device).cuda_stream)

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        return self._properties.major, self._properties.minor

    def get_device_interface(self) -> Any:
        return torch.cuda

    def map_python_to_cpp_type(self, ty: str) -> str:
        from triton.backends.nvidia.driver import ty_to_cpp

        return str(ty_to_cpp(ty))

    def get_benchmarker(self) -> Any:
        from triton.testing import do_bench

        return do_bench

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        return torch.empty(1, dtype=torch.int32, device="cuda")

    def clear_cache(self, cache: torch.Tensor) -> None:
        cache.zero_()


def install(properties: Any) -> None:
    """Make it the active driver of this process, which must be a candidate's."""
    driver.set_active(FakeDriver(properties))
