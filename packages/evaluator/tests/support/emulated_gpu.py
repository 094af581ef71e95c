"""A device whose kernels are host code: g++ compiles them, and the threads of a launch run one after another.

So what runs on a GPU can be tried without one: real kernels on real memory, with their mangled names and the bytes of
their arguments. There are no barriers, no shared memory, no twins, and no protection of memory.
"""

import ctypes
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import torch

from warpsmith.evaluator.devices.host import HostDevice
from warpsmith.evaluator.devices.host_kind import HostKind
from warpsmith.evaluator.workers.gpu_stand_in import PROPERTIES, GpuHost

HEADER = r"""
#include <cmath>
#include <cstdint>
#include <utility>
#define __global__ __attribute__((visibility("default"), noinline, used))
#define __device__
#define __constant__
#define __restrict__
struct dim3 { unsigned x = 1, y = 1, z = 1; };
static dim3 threadIdx, blockIdx, blockDim, gridDim;
template <auto kernel> struct Runner;
template <typename... Types, void (*kernel)(Types...)> struct Runner<kernel> {
  static void run(void** arguments) { apply(arguments, std::index_sequence_for<Types...>()); }
  template <size_t... places> static void apply(void** arguments, std::index_sequence<places...>) {
    kernel(*static_cast<Types*>(arguments[places])...);
  }
};
struct Entry { void* kernel; void (*run)(void**); };
#define KERNEL(...) { reinterpret_cast<void*>(&__VA_ARGS__), &Runner<&__VA_ARGS__>::run }
"""
LAUNCH = r"""
extern "C" int emulated_launch(void* kernel, void** arguments, const unsigned* grid, const unsigned* block) {
  void (*run)(void**) = nullptr;
  for (const Entry& entry : entries) if (entry.kernel == kernel) run = entry.run;
  if (!run) return 1;
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {block[0], block[1], block[2]};
  for (blockIdx.z = 0; blockIdx.z < gridDim.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x)
        for (threadIdx.z = 0; threadIdx.z < blockDim.z; ++threadIdx.z)
          for (threadIdx.y = 0; threadIdx.y < blockDim.y; ++threadIdx.y)
            for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x) run(arguments);
  return 0;
}
"""


def library_of(kernels, names, folder):
    """Compile kernels as host code; `names` are those of all that are launched, as C++ writes them."""
    source, library = folder / "kernels.cpp", folder / "kernels.so"
    entries = ", ".join(f"KERNEL({name})" for name in names)
    source.write_text(f"{HEADER}\n{kernels}\nstatic const Entry entries[] = {{{entries}}};\n{LAUNCH}")
    command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", str(source), "-o", str(library)]
    made = subprocess.run(command, check=False, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[:3000]
    return ctypes.CDLL(str(library))


class Module:
    """The kernels and variables of a library, as `_native.Module`."""

    def __init__(self, library, variables):
        self._library = library
        self._before = {name: self.variable(name, size).copy() for name, size in variables.items()}

    def kernel(self, name, shared):
        return Kernel(self._library, name)

    def variable(self, name, size=None):
        size = self._before[name].size if size is None else size
        return np.ctypeslib.as_array((ctypes.c_uint8 * size).in_dll(self._library, name))

    def reset(self):
        """Give each variable what it held after loading."""
        for name, content in self._before.items():
            self.variable(name)[:] = content


class Kernel:
    """As `_native.Kernel`; arguments behind its own are those of a twin, and are left out."""

    local_bytes = 0

    def __init__(self, library, name):
        self._library = library
        self._address = ctypes.cast(getattr(library, name), ctypes.c_void_p)

    def prepare(self, grid, threads, cluster, cooperative, parameters):
        buffers = [ctypes.create_string_buffer(content, len(content)) for content in parameters]
        places = (ctypes.c_void_p * max(1, len(buffers)))(*map(ctypes.addressof, buffers))
        sides = [(ctypes.c_uint * 3)(*values) for values in (grid, threads)]

        def launch(stream, _kept=buffers):
            assert self._library.emulated_launch(self._address, places, *sides) == 0, "the kernel is not in `names`"

        return SimpleNamespace(launch=launch)


class EmulatedGpu(HostDevice):
    """A device with one module, whatever cubin is loaded.

    Args:
        library: of `library_of`.
        variables: sizes in bytes of the kernels' variables, by name.
    """

    def __init__(self, library, variables):
        self.module = Module(library, variables)

    def load_module(self, code):
        return self.module

    def properties(self):
        return PROPERTIES


# As a device of an evaluator ------------------------------------------------------------------------------------------

FOLDER = "WARPSMITH_TEST_KERNELS"
"""Names the folder with `kernels.so` and `variables.json`."""


class DeviceBuffer:
    """Memory that torch gets as it gets that of a GPU: all of it at once, unless a part is asked for."""

    def __init__(self, buffer):
        self._buffer = buffer

    def __getattr__(self, name):
        return getattr(self._buffer, name)

    def dlpack(self, start=0, size=None):
        size = self.size - start if size is None else size
        room = (ctypes.c_uint8 * size).from_address(self._buffer.address + start)
        room.alive = self._buffer
        return np.ctypeslib.as_array(room)


class InstalledGpu(EmulatedGpu):
    """The device whose kernels lie in a folder that the environment named when they were loaded."""

    loaded: tuple[Any, Any] | None = None

    def __init__(self):
        super().__init__(*self.loaded)

    def create(self, name, size, *, writable_by_peer=False):
        return DeviceBuffer(super().create(name, size, writable_by_peer=writable_by_peer))

    def map(self, fd, size, *, writable):
        return DeviceBuffer(super().map(fd, size, writable=writable))

    def limit(self, share):
        """Let tensors claim to be on a GPU from now on; called where a candidate's host code is about to run."""
        changed: Any = torch.Tensor
        changed.device = property(lambda _: torch.device("cuda", 0))
        changed.is_cuda = property(lambda _: True)
        GpuHost().__enter__()


class EmulatedKind(HostKind):
    """A device on which kernels run, as the kind `cuda` is, but neither its memory nor its times are a GPU's."""

    name = "emulated"
    interprets = False
    roles = MappingProxyType({"plain": ("reference", "compile", "host", "candidate")})

    def environment(self, device):
        return {FOLDER: os.environ[FOLDER]}

    def device_class(self):
        # A worker cannot read the folder. It is forked from a zygote, which asks for the class too.
        if InstalledGpu.loaded is None:
            folder = Path(os.environ[FOLDER])
            variables = json.loads((folder / "variables.json").read_text())
            InstalledGpu.loaded = ctypes.CDLL(str(folder / "kernels.so")), variables
        return InstalledGpu


EMULATED = EmulatedKind()
InstalledGpu.kind = EMULATED
_PYTHON = """\
#!{python} -I
import runpy, sys
sys.path[:0] = {paths!r}
sys.argv = sys.argv[3:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@contextmanager
def installed(kernels, names, variables, folder):
    """Install the device `emulated` for this process and for the zygotes that it starts."""
    library_of(kernels, names, folder)
    (folder / "variables.json").write_text(json.dumps(variables))
    information = folder / "emulated_gpu-0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: emulated-gpu\nVersion: 0\n")
    (information / "entry_points.txt").write_text("[warpsmith.devices]\nemulated = emulated_gpu:EMULATED\n")
    paths = [str(Path(__file__).parent), str(folder)]
    python = folder / "python"
    python.write_text(_PYTHON.format(python=sys.executable, paths=paths))
    python.chmod(0o755)
    before = sys.executable
    sys.path.insert(0, str(folder))
    os.environ[FOLDER] = str(folder)
    try:
        sys.executable = str(python)
        yield
    finally:
        sys.executable = before
        sys.path.remove(str(folder))
        InstalledGpu.loaded = None
        del os.environ[FOLDER]
