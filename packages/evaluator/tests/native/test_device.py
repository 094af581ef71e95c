"""The device layer of the extension: what it says without a GPU, and what it does on one."""

import os
import shutil
import struct
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from warpsmith.evaluator import _native
from warpsmith.evaluator._native import Channel, Device, DeviceBuffer, Event, Gate, Kernel, Launch, NativeError

SIZE = 1000
BLOCK = 256


def run_python(source: str, *arguments: str, env: dict[str, str] | None = None, **options) -> str:
    """What a fresh process prints: CUDA may have been used in this one, and must not be in the others' tests."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source), *arguments],
        env=os.environ | (env or {}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# --- without a GPU ---


@pytest.fixture(scope="module")
def no_driver() -> None:
    """Skip where there is a driver, without initialising it in this process."""
    opens = "import ctypes\ntry: ctypes.CDLL('libcuda.so.1'); print('yes')\nexcept OSError: print('no')"
    if run_python(opens) == "yes":
        pytest.skip("This machine has libcuda.so.1.")


@pytest.mark.usefixtures("no_driver")
@pytest.mark.parametrize("use", [_native.device_count, lambda: Device.open(0)])
def test_a_missing_driver_is_named_with_its_remedy(use):
    with pytest.raises(NativeError, match=r"libcuda\.so\.1") as caught:
        use()
    assert (caught.value.layer, caught.value.operation, caught.value.errno) == ("device", "dlopen", 0)
    assert "Install the NVIDIA driver" in caught.value.remedy


def test_importing_the_package_leaves_the_driver_untouched():
    assert run_python("from warpsmith.evaluator import _native; print(_native.driver_untouched())") == "True"


@pytest.fixture(scope="module")
def make_driver(tmp_path_factory):
    """Compile a libcuda.so.1 of a few functions; return the environment in which it is found."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("No C compiler to make a driver with.")

    def make(source: str) -> dict[str, str]:
        folder: Path = tmp_path_factory.mktemp("driver")
        command = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", str(folder / "libcuda.so.1")]
        subprocess.run(command, input=source, text=True, check=True)
        return {"LD_LIBRARY_PATH": str(folder)}

    return make


def test_a_driver_that_is_too_old_is_named(make_driver):
    report = """
        from warpsmith.evaluator import _native
        try:
            _native.device_count()
        except _native.NativeError as error:
            print(error.layer, error.operation, error.remedy)
    """
    environment = make_driver("int cuGetErrorName(void) { return 0; }")
    assert run_python(report, env=environment) == (
        "device cuGetErrorString Install an NVIDIA driver of CUDA 12.4 or later (550 or later)."
    )


@pytest.mark.parametrize(("result", "untouched"), [(3, "True"), (0, "False"), (100, "False")])
def test_a_driver_that_is_loaded_is_untouched_until_it_is_initialised(make_driver, result, untouched):
    source = """
        import ctypes
        from warpsmith.evaluator import _native
        ctypes.CDLL("libcuda.so.1")
        print(_native.driver_untouched())
    """
    environment = make_driver(f"int cuDeviceGetCount(int *count) {{ return {result}; }}")
    assert run_python(source, env=environment) == untouched


@pytest.mark.parametrize(
    "misuse",
    [
        Device,
        lambda: Device.open("0"),
        lambda: DeviceBuffer.create(None, 1),
        lambda: DeviceBuffer.map(None, 0, 1),
        lambda: Kernel.load(None, b"", "name", 0),
        Launch,
        lambda: Gate(None),
        lambda: Event(None),
        lambda: type("Mine", (Device,), {}),
    ],
)
def test_what_has_no_device_is_refused(misuse):
    with pytest.raises(TypeError):
        misuse()


# --- on a GPU ---


@pytest.fixture(scope="module")
def device():
    try:
        if _native.device_count() == 0:
            pytest.skip("The driver sees no GPU.")
    except NativeError as error:
        pytest.skip(f"needs an NVIDIA GPU: {error.operation} failed")
    return Device.open(0)


@pytest.fixture(scope="module")
def torch(device):
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("torch was built without CUDA, or cannot use it here.")
    return module


def tensor_of(torch, buffer, dtype=None):
    whole = torch.from_dlpack(buffer.dlpack())
    return whole if dtype is None else whole.view(dtype)


@pytest.mark.gpu
def test_a_device_describes_itself(device, torch):
    properties = torch.cuda.get_device_properties(0)
    assert device.ordinal == 0
    assert device.name == properties.name
    assert device.arch == 10 * properties.major + properties.minor
    assert device.multiprocessors == properties.multi_processor_count
    assert device.l2_bytes == properties.L2_cache_size
    assert device.uuid == f"GPU-{properties.uuid}"
    assert 0 < device.free_bytes() <= device.total_bytes
    assert device.granularity % 4096 == 0
    assert isinstance(device.pageable_memory_access, bool)
    assert _native.driver_untouched() is False


@pytest.mark.gpu
def test_an_ordinal_that_is_not_there_is_refused(device):
    with pytest.raises(NativeError, match="CUDA_ERROR_INVALID_DEVICE") as caught:
        Device.open(4096)
    assert (caught.value.operation, caught.value.errno) == ("cuDeviceGet", 101)
    assert "device_count()" in caught.value.remedy


@pytest.mark.gpu
def test_a_buffer_is_a_tensor_of_bytes(device, torch):
    buffer = DeviceBuffer.create(device, SIZE)
    buffer.fill(7)
    tensor = tensor_of(torch, buffer)
    assert (tensor.dtype, tuple(tensor.shape), tensor.device) == (torch.uint8, (SIZE,), torch.device("cuda", 0))
    assert tensor.data_ptr() == buffer.address
    assert (buffer.size, buffer.writable) == (SIZE, True)
    assert os.get_inheritable(buffer.fileno()) is False
    del buffer
    assert tensor.sum().item() == 7 * SIZE


@pytest.mark.gpu
def test_a_descriptor_can_be_closed_and_the_memory_stays(device, torch):
    buffer = DeviceBuffer.create(device, SIZE)
    buffer.close()
    buffer.close()
    with pytest.raises(NativeError, match="no descriptor"):
        buffer.fileno()
    buffer.fill(3)
    assert tensor_of(torch, buffer).sum().item() == 3 * SIZE


@pytest.mark.gpu
def test_memory_goes_with_its_last_user(device):
    size = 512 << 20
    before = device.free_bytes()
    buffer = DeviceBuffer.create(device, size)
    capsule = buffer.dlpack()
    del buffer
    assert device.free_bytes() <= before - size // 2
    del capsule
    assert device.free_bytes() > before - size // 2


@pytest.mark.gpu
def test_impossible_buffers_are_refused(device):
    with pytest.raises(NativeError, match="at least one byte"):
        DeviceBuffer.create(device, 0)
    with pytest.raises(NativeError, match="fits no device"):
        DeviceBuffer.create(device, 2**63)
    with pytest.raises(NativeError) as caught:
        DeviceBuffer.create(device, 2 * device.total_bytes)
    assert (caught.value.operation, caught.value.errno) == ("cuMemCreate", 2)
    with pytest.raises(NativeError, match="fd"):
        DeviceBuffer.map(device, 1 << 20, SIZE)


CHILD = """
import sys
import torch
from warpsmith.evaluator._native import Channel, Device, DeviceBuffer, NativeError

channel = Channel(int(sys.argv[1]))
device = Device.open(0)
given, taken = (channel.recv(60).fds[0] for _ in range(2))
inputs = DeviceBuffer.map(device, given, 1000)
output = DeviceBuffer.map(device, taken, 1000, writable=True)
try:
    inputs.fill(1)
except NativeError as error:
    print(error.operation, error.errno, inputs.writable, output.writable)
torch.from_dlpack(output.dlpack()).copy_(torch.from_dlpack(inputs.dlpack()) * 2)
torch.cuda.synchronize()
channel.send(1, b"")
"""


@pytest.mark.gpu
def test_buffers_are_shared_between_processes(device, torch):
    inputs, output = (DeviceBuffer.create(device, SIZE) for _ in range(2))
    tensor_of(torch, inputs).copy_(torch.arange(SIZE, device="cuda") % 100)
    output.fill(0)
    device.synchronize()
    channel, theirs = Channel.pair()
    channel.send(1, b"", [inputs.fileno()], 10)
    channel.send(1, b"", [output.fileno()], 10)
    assert run_python(CHILD, str(theirs), pass_fds=(theirs,)) == "fill 13 False True"
    os.close(theirs)
    channel.recv(10)
    assert torch.equal(tensor_of(torch, output), tensor_of(torch, inputs) * 2)


@pytest.mark.gpu
def test_a_kernel_that_writes_to_a_read_only_mapping_faults(device, torch):
    source = """
        import os
        import sys
        import torch
        from warpsmith.evaluator._native import Channel, Device, DeviceBuffer, NativeError
        device = Device.open(0)
        mapped = DeviceBuffer.map(device, Channel(int(sys.argv[1])).recv(60).fds[0], 1000)
        tensor = torch.from_dlpack(mapped.dlpack())
        try:
            tensor.add_(1)
            device.synchronize()
        except (NativeError, RuntimeError):
            print("fault", flush=True)
        os._exit(0)
    """
    buffer = DeviceBuffer.create(device, SIZE)
    buffer.fill(9)
    channel, theirs = Channel.pair()
    channel.send(1, b"", [buffer.fileno()], 10)
    assert run_python(source, str(theirs), pass_fds=(theirs,)) == "fault"
    os.close(theirs)
    assert tensor_of(torch, buffer).sum().item() == 9 * SIZE


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, total, mask=mask)


def compile_add(arch: int):
    """Compile the kernel for an architecture; needs no GPU."""
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    return triton.compile(ASTSource(add_kernel, signature, {"BLOCK": BLOCK}), target=GPUTarget("cuda", arch, 32))


@pytest.fixture(scope="module")
def compiled(device):
    return compile_add(device.arch)


@pytest.fixture(scope="module")
def kernel(device, compiled):
    return Kernel.load(device, compiled.asm["cubin"], compiled.metadata.name, compiled.metadata.shared)


class Addition:
    """Two vectors of n floats, room for their sum, and the parameters of the kernel that adds them."""

    def __init__(self, torch, n: int) -> None:
        self.x, self.y = (torch.randn(n, device="cuda") for _ in range(2))
        self.out = torch.zeros_like(self.x)
        pointers = [struct.pack("<Q", tensor.data_ptr()) for tensor in (self.x, self.y, self.out)]
        self.parameters = [*pointers, struct.pack("<i", n), bytes(8), bytes(8)]
        self.grid = (-(-n // BLOCK), 1, 1)
        torch.cuda.synchronize()


@pytest.fixture
def addition(torch):
    return Addition(torch, 10 * BLOCK - 7)


def threads_of(compiled) -> int:
    return 32 * compiled.metadata.num_warps


@pytest.mark.gpu
def test_a_kernel_of_triton_runs(device, kernel, compiled, addition):
    kernel.launch(addition.grid, threads_of(compiled), 1, False, 0, addition.parameters)
    device.synchronize()
    assert (addition.out == addition.x + addition.y).all().item()
    assert kernel.name == compiled.metadata.name
    assert kernel.registers > 0
    assert kernel.local_bytes == 0
    assert kernel.max_threads >= threads_of(compiled)


@pytest.mark.gpu
@pytest.mark.parametrize(("cluster", "cooperative"), [(2, False), ((2, 1, 1), False), ((1, 1, 1), True)])
def test_clusters_and_cooperative_grids_run(device, kernel, compiled, addition, cluster, cooperative):
    if device.arch < 90 and not cooperative:
        pytest.skip("Clusters need compute capability 9.0.")
    kernel.launch(addition.grid, threads_of(compiled), cluster, cooperative, 0, addition.parameters)
    device.synchronize()
    assert (addition.out == addition.x + addition.y).all().item()


@pytest.mark.gpu
def test_a_prepared_launch_can_be_repeated(torch, kernel, compiled, addition):
    stream = torch.cuda.Stream()
    launch = kernel.prepare(addition.grid, threads_of(compiled), 1, False, addition.parameters)
    for _ in range(2):
        addition.out.zero_()
        torch.cuda.synchronize()
        launch.launch(stream.cuda_stream)
        stream.synchronize()
        assert (addition.out == addition.x + addition.y).all().item()


@pytest.mark.gpu
def test_an_empty_grid_launches_nothing(device, kernel, compiled, addition):
    kernel.launch((0, 1, 1), threads_of(compiled), 1, False, 0, addition.parameters)
    device.synchronize()
    assert not addition.out.any().item()


@pytest.mark.gpu
def test_wrong_arguments_of_a_kernel_are_refused(kernel, compiled, addition):
    threads = threads_of(compiled)
    with pytest.raises(NativeError, match="takes 6 parameters; 4 were given"):
        kernel.prepare(addition.grid, threads, 1, False, addition.parameters[:4])
    with pytest.raises(NativeError, match=r"Parameter 3 .* has 4 bytes; 8 were given"):
        kernel.prepare(addition.grid, threads, 1, False, [*addition.parameters[:3], bytes(8), bytes(8), bytes(8)])
    with pytest.raises(NativeError, match="at least one block"):
        kernel.prepare(addition.grid, threads, 0, False, addition.parameters)
    with pytest.raises(NativeError) as caught:
        kernel.launch(addition.grid, 4096, 1, False, 0, addition.parameters)
    assert caught.value.operation == "cuLaunchKernelEx"


@pytest.mark.gpu
def test_what_cannot_be_loaded_is_refused(device, compiled):
    cubin, name = compiled.asm["cubin"], compiled.metadata.name
    with pytest.raises(NativeError, match="no ELF file"):
        Kernel.load(device, b".version 8.0", name, 0)
    with pytest.raises(NativeError, match="cut short"):
        Kernel.load(device, cubin[: len(cubin) // 2], name, 0)
    with pytest.raises(NativeError, match="CUDA_ERROR_NOT_FOUND"):
        Kernel.load(device, cubin, "another_name", 0)
    with pytest.raises(NativeError) as caught:
        Kernel.load(device, cubin, name, 1 << 20)
    assert caught.value.operation == "cuFuncSetAttribute"
    assert "shared memory" in caught.value.remedy


@pytest.mark.gpu
def test_a_kernel_of_another_architecture_is_refused(device):
    other = 80 if device.arch >= 90 else 90
    compiled = compile_add(other)
    with pytest.raises(NativeError) as caught:
        Kernel.load(device, compiled.asm["cubin"], compiled.metadata.name, compiled.metadata.shared)
    assert caught.value.operation in {"cuModuleLoadData", "cuModuleGetFunction"}


@pytest.mark.gpu
def test_a_gate_holds_a_stream_until_it_is_opened(device, torch):
    stream = torch.cuda.Stream().cuda_stream
    gate, event = Gate(device), Event(device)
    for _ in range(3):
        gate.close(stream, 60)
        event.record(stream)
        assert not event.done()
        with pytest.raises(NativeError, match="closed already"):
            gate.close(stream, 60)
        assert gate.open() is True
        event.synchronize()
        assert event.done()
    assert gate.open() is False


@pytest.mark.gpu
def test_the_watchdog_opens_a_forgotten_gate(device, torch):
    stream = torch.cuda.Stream().cuda_stream
    gate, event = Gate(device), Event(device)
    gate.close(stream, 0.02)
    event.record(stream)
    event.synchronize()
    assert gate.open() is False
    gate.close(stream, 60)
    assert gate.open() is True
    # It waits for the long deadline still, and must hear of the shorter one.
    began = time.monotonic()
    gate.close(stream, 0.02)
    event.record(stream)
    event.synchronize()
    assert gate.open() is False
    assert time.monotonic() - began < 30


@pytest.mark.gpu
def test_a_gate_that_is_dropped_is_opened(device, torch):
    stream = torch.cuda.Stream().cuda_stream
    gate, event = Gate(device), Event(device)
    gate.close(stream, 60)
    event.record(stream)
    del gate
    event.synchronize()
    assert event.done()


@pytest.mark.gpu
@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 1e6])
def test_a_gate_takes_no_time_that_it_cannot_keep(device, seconds):
    with pytest.raises(NativeError, match="more than 0"):
        Gate(device).close(0, seconds)


@pytest.mark.gpu
def test_events_time_what_lies_between_them(device, kernel, compiled, addition):
    start, end = Event(device), Event(device)
    with pytest.raises(NativeError):
        end.elapsed_ms(start)
    start.record(0)
    for _ in range(100):
        kernel.launch(addition.grid, threads_of(compiled), 1, False, 0, addition.parameters)
    end.record(0)
    end.synchronize()
    assert 0 < end.elapsed_ms(start) < 1000


@pytest.mark.gpu
@pytest.mark.parametrize("last", ["buffer", "tensor"])
def test_other_threads_run_while_memory_is_given_back(device, torch, last):
    """Giving it back waits for the device: here for a kernel of half a second, in which another thread counts on."""
    buffer = DeviceBuffer.create(device, SIZE)
    held = [tensor_of(torch, buffer)] if last == "tensor" else [buffer]
    del buffer
    counted, done = [0], threading.Event()

    def count():
        while not done.wait(0.001):
            counted[0] += 1

    with ThreadPoolExecutor(1) as pool:
        pool.submit(count)
        torch.cuda._sleep(int(1e9))
        before, began = counted[0], time.perf_counter()
        held.clear()
        took, during = time.perf_counter() - began, counted[0] - before
        done.set()
    assert took > 0.2, "the kernel was to be waited for"
    assert during > 20
