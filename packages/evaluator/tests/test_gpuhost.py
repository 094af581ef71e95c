import subprocess
import sys

import pytest
import torch

from warpsmith.evaluator.gpuhost import GpuHost


@pytest.mark.parametrize(
    ("make", "noted"),
    [
        (lambda x: torch.empty(3), True),
        (lambda x: torch.zeros(3, device="cpu"), True),
        (lambda x: torch.empty_like(x, device="cpu"), True),
        (lambda x: x.cpu(), True),
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
from warpsmith.evaluator import gpuhost
gpuhost.install(disguised=True)
asked = {
    "chosen": lambda n: torch.cuda.device(n).__enter__(),
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


def test_torch_answers_for_one_gpu_alone():
    # In a process of its own: what torch says is changed for good.
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, check=True)
    said = [line.split() for line in done.stdout.splitlines()]
    assert len(said) == 8 * 7
    assert all(answer == ("answers" if number in {"0", "cuda", "cuda:0"} else "refused") for _, number, answer in said)
