"""A CPU as a platform of verl, which has none: named by VERL_USE_EXTERNAL_MODULES and VERL_PLATFORM=cpu.

With it verl's trainer, FSDP worker and vLLM server run on a machine without a GPU, with vLLM for CPUs.
"""

import sys
from contextlib import contextmanager
from types import SimpleNamespace

import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry


def _nothing(*_arguments, **_named):
    return None


def _zero(*_arguments):
    return 0


# What verl calls of torch.cuda; torch.cpu has half of it.
DEVICE = SimpleNamespace(
    current_device=lambda: "cpu",
    device=torch.device,
    device_count=lambda: 1,
    empty_cache=_nothing,
    get_device_name=lambda *_: "CPU",
    get_rng_state=torch.get_rng_state,
    ipc_collect=_nothing,
    is_available=lambda: True,
    manual_seed=torch.manual_seed,
    manual_seed_all=torch.manual_seed,
    max_memory_allocated=_zero,
    max_memory_reserved=_zero,
    mem_get_info=lambda *_: (0, 0),
    memory_allocated=_zero,
    memory_reserved=_zero,
    reset_peak_memory_stats=_nothing,
    set_device=_nothing,
    set_rng_state=torch.set_rng_state,
    synchronize=_nothing,
)


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):
    """One device, the CPU, which Ray takes for a GPU: verl asks Ray for one by that name."""

    device_name = vendor_name = "cpu"
    device_module = DEVICE

    def is_available(self):
        return True

    def current_device(self):
        return "cpu"

    def device_count(self):
        return 1

    def manual_seed(self, seed):
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def get_device_capability(self, device_index=0):
        return None, None

    def communication_backend_name(self):
        return "gloo"

    def visible_devices_envvar(self):
        return "CUDA_VISIBLE_DEVICES"

    def ray_resource_name(self):
        return "GPU"

    def ray_noset_envvars(self):
        return []

    def is_ipc_supported(self):
        return False

    @contextmanager
    def nvtx_range(self, msg):
        yield

    def set_device(self, device_index):
        pass

    synchronize = set_allocator_settings = empty_cache = profiler_start = profiler_stop = cudart = _nothing


def _one_backend(init=torch.distributed.init_process_group):
    """verl asks for one backend for the CPU and one for its device, which torch refuses if they are the same."""

    def init_process_group(backend=None, **named):
        return init(backend="gloo" if backend == "cpu:gloo,cpu:gloo" else backend, **named)

    torch.distributed.init_process_group = init_process_group


def _keep_weights():
    """Keep vLLM from packing linear layers for the CPU and dropping their weights: verl loads new ones into them."""
    from vllm.model_executor.layers import utils

    def plain(layer, remove_weight):
        layer.cpu_linear = torch.nn.functional.linear

    utils.dispatch_cpu_unquantized_gemm = plain


_one_backend()
if "vllm" in sys.modules:
    _keep_weights()
