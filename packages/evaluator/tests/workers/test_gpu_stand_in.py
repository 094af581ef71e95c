import subprocess
import sys

import pytest
import torch

from warpsmith.evaluator.workers import fake_cuda
from warpsmith.evaluator.workers.gpu_stand_in import GpuHost


@pytest.mark.parametrize(
    ("make", "noted"),
    [
        (lambda x: torch.empty(3), True),
        (lambda x: torch.zeros(3, device="cpu"), True),
        (lambda x: torch.empty_like(x, device="cpu"), True),
        (lambda x: x.cpu(), True),
        (lambda x: torch.tensor([1.0]), True),
        (lambda x: torch.eye(2), True),
        (lambda x: torch.tensor([1.0], device="cuda"), False),
        (lambda x: torch.zeros(2, out=torch.empty(2, device="cuda")), False),
        (lambda x: x.to("cpu", torch.float64), True),
        (lambda x: torch.empty(3, device=x.device), False),
        (lambda x: torch.full((3,), 1.0, device="cuda"), False),
        (lambda x: torch.arange(3, device=torch.device("cuda", 0)), False),
        (lambda x: torch.empty(3, device=0), False),
        (lambda x: x.to("cuda:0"), False),
        (lambda x: x.to(0, non_blocking=True), False),
        (lambda x: x.to(torch.float64), False),
        (lambda x: x.new_empty(3), False),
        (torch.empty_like, False),
    ],
)
def test_memory_that_a_gpu_would_not_have_is_noted_and_a_gpu_is_the_host(make, noted):
    x = torch.zeros(3)
    with GpuHost() as host:
        made = make(x)
    assert made.device.type == "cpu"
    assert host.host_memory == noted


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.empty(3, device="cuda:1"),
        lambda x: torch.arange(3, device=torch.device("cuda", 1)),
        lambda x: torch.zeros(3, device=1),
        lambda x: x.to("cuda:7"),
        lambda x: x.to(2),
    ],
)
def test_another_gpu_than_the_one_that_is_said_to_be_there_is_refused(make):
    x = torch.zeros(3)
    with GpuHost(), pytest.raises(RuntimeError, match="invalid device ordinal"):
        make(x)


ASKED = """
import numpy
import torch
from warpsmith.evaluator.workers import gpu_stand_in
gpu_stand_in.install(disguised=True)
asked = {
    "chosen": lambda n: torch.cuda.device(n).__enter__(),
    "guarded": lambda n: torch.cuda._DeviceGuard(n).__enter__(),
    "set": torch.cuda.set_device,
    "properties": torch.cuda.get_device_properties,
    "capability": torch.cuda.get_device_capability,
    "name": torch.cuda.get_device_name,
    "synchronize": torch.cuda.synchronize,
    "tensor": lambda n: torch.zeros(1).cuda(n),
    "module": lambda n: torch.nn.ReLU().cuda(n),
}
for name, ask in asked.items():
    for number in (0, "cuda", torch.device("cuda", 0), 1, "cuda:1", torch.device("cuda", 3), numpy.int64(1)):
        try:
            ask(number)
            print(name, number, "answers")
        except RuntimeError as error:
            print(name, number, "refused" if "invalid device ordinal" in str(error) else error)
"""


def test_a_wait_for_the_device_is_one_for_the_streams_of_compiled_host_code(monkeypatch):
    waited, streams = [], fake_cuda.Streams()
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    fake_cuda.wait_too(streams)
    streams.pending.add(streams.stream())
    torch.cuda.synchronize("cuda:0")
    assert waited == ["cuda:0"]
    assert not streams.pending


def test_torch_answers_for_one_gpu_alone():
    # In a process of its own: what torch says is changed for good.
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, check=True)
    said = [line.split() for line in done.stdout.splitlines()]
    assert len(said) == 9 * 7
    assert all(answer == ("answers" if number in {"0", "cuda", "cuda:0"} else "refused") for _, number, answer in said)


STYLES = """
import getpass, os, pwd
import torch, triton
from warpsmith.evaluator.languages.triton.language import TRITON
from warpsmith.evaluator.workers import gpu_stand_in
gpu_stand_in.install(disguised=True)
TRITON.stand_in(gpu_stand_in.PROPERTIES)
x = torch.zeros(4)
with gpu_stand_in.GpuHost(disguised=True) as host:
    device = triton.runtime.driver.active.get_active_torch_device()
    assert device == x.device == torch.device("cuda:0") and device.type == "cuda" and x.is_cuda
    assert x.get_device() == 0 and torch.cuda.is_available() and torch.version.cuda
    target = triton.runtime.driver.active.get_current_target()
    assert (target.backend, target.arch, target.warp_size) == ("cuda", 90, 32)
    facts = triton.runtime.driver.active.utils.get_device_properties(device.index)
    assert facts["multiprocessor_count"] == torch.cuda.get_device_properties(x.device).multi_processor_count
    assert facts["max_shared_mem"] > 100_000
    assert torch.accelerator.current_accelerator().type == "cuda"
    side, done = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.cuda.device(x.device), torch.cuda.nvtx.range("work"), torch.autocast("cuda"):
        y = torch.empty_like(x, device="cuda")
        done.record(side)
    torch.cuda.current_stream().wait_event(done)
    assert done.elapsed_time(torch.cuda.Event()) > 0
    y.record_stream(side)
    with torch.cuda._DeviceGuard(0):
        wrapped = torch._C._dynamo.guards._empty_strided_cuda((2, 3), (1, 2), torch.float16)
    assert (wrapped.shape, wrapped.stride(), wrapped.dtype) == ((2, 3), (1, 2), torch.float16) and wrapped.is_cuda
    assert torch.cuda._maybe_exchange_device(torch.cuda._exchange_device(0)) == 0
    torch.set_default_device("cuda")
    torch.zeros(3)
    assert not host.host_memory
    torch.set_default_device("cpu")
    torch.zeros(3)
    assert host.host_memory
def bare(x):
    return x.clone()
from warpsmith.evaluator.workers import eager
compiled = torch.compile(mode="max-autotune")(bare)
assert torch.compile(bare)(x).shape == compiled(x).shape == (4,) and compiled.__name__ == "bare"
assert torch.compile(eager.is_compiled)() and not eager.is_compiled()
assert torch.compile(torch.nn.Linear(4, 2)).out_features == 2
assert torch.compiler.disable(bare) is bare and torch.compiler.disable(recursive=False)(bare) is bare
import torch._dynamo
torch._dynamo.config.cache_size_limit = 64
assert torch._dynamo.disable(bare) is bare
from torch.utils.checkpoint import checkpoint
assert checkpoint(bare, x, use_reentrant=False).shape == (4,)
os.environ.pop("USER"), os.environ.pop("LOGNAME")
assert pwd.getpwuid(54321).pw_name == "candidate"
@torch.library.triton_op("styles::copied", mutates_args=())
def copied(x: torch.Tensor) -> torch.Tensor:
    return torch.empty(x.shape, device=x.device, dtype=x.dtype)
with gpu_stand_in.GpuHost(disguised=True) as host:
    assert copied(x).shape == (4,) and torch.ops.styles.copied(x).shape == (4,)
    assert not host.host_memory
"""


def test_host_code_of_many_styles_runs_without_a_gpu():
    done = subprocess.run([sys.executable, "-c", STYLES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
