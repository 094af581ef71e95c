"""Which memory judge and workers share, and what is said where there is no GPU to take it from."""

import ctypes

import pytest
import torch

from warpsmith.evaluator.devices.host import HostDevice
from warpsmith.evaluator.devices.registry import device_kind
from warpsmith.evaluator.errors import JudgeUnavailableError


def has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def test_without_a_device_it_is_the_hosts():
    memory = device_kind("cpu").open()
    assert isinstance(memory, HostDevice)
    assert memory.torch_device == torch.device("cpu")


@pytest.mark.skipif(has_driver(), reason="This machine has libcuda.so.1.")
def test_a_machine_without_a_gpu_says_so_with_the_remedy():
    with pytest.raises(JudgeUnavailableError, match=r"No GPU is usable: .*libcuda\.so\.1") as caught:
        device_kind("cuda").open()
    assert "Install the NVIDIA driver" in caught.value.remedy


def test_a_seed_gives_the_same_numbers_again():
    memory = HostDevice()
    memory.seed(5)
    first = torch.rand(3)
    memory.seed(5)
    assert torch.equal(first, torch.rand(3))
    assert torch.equal(torch.rand(3, generator=memory.generator(7)), torch.rand(3, generator=memory.generator(7)))
