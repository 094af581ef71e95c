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
        (lambda x: torch.arange(3, device=torch.device("cuda", 1)), False),
        (lambda x: x.to("cuda:0"), False),
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
