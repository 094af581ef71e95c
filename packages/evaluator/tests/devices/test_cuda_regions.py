"""Regions: where a tensor lies in memory of its own, and that its storage ends where it does."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.devices import cuda_regions
from warpsmith.evaluator.devices.cuda import CudaDevice
from warpsmith.evaluator.devices.host import HostDevice
from warpsmith.evaluator.ipc.tensor_slots import ALIGNMENT

UNIT = 2 << 20


@given(st.integers(1, 3 * UNIT), st.booleans())
def test_content_lies_at_an_end_of_its_region_and_is_aligned(size, at_end):
    total, start = cuda_regions.placed(size, UNIT, at_end=at_end)
    assert total % UNIT == 0
    assert total - UNIT < size <= total
    assert start % ALIGNMENT == 0
    if at_end:
        assert 0 <= total - (start + size) < ALIGNMENT
    else:
        assert start == 0


@given(st.integers(0, 9000))
def test_a_region_is_its_content_and_its_slack(size):
    region = HostDevice().region(size)
    region.whole.fill_(1)
    region.content.fill_(2)
    for slack in region.slack:
        slack.fill_(4)
    assert region.content.numel() == max(size, 1)
    assert region.whole.sum().item() == 2 * max(size, 1) + 4 * (region.whole.numel() - max(size, 1))
    assert region.content.data_ptr() % ALIGNMENT == 0
    region.within.fill_(3)
    assert torch.all(region.content == 3)


def test_a_region_lies_at_either_end():
    assert {HostDevice().region(100).start for _ in range(64)} == {0, cuda_regions.HOST_UNIT - ALIGNMENT}


def test_nothing_behind_a_tensor_can_be_viewed():
    region = HostDevice().region(4096 - 4)
    floats = region.content.view(torch.float32)
    assert floats.as_strided((1023,), (1,), 0).numel() == 1023
    with pytest.raises(RuntimeError, match="out of bounds"):
        floats.as_strided((1024,), (1,), 0)


@pytest.fixture(scope="module")
def device(gpu):
    return CudaDevice()


@pytest.mark.gpu
def test_regions_lie_far_from_one_another_at_addresses_that_differ(device):
    made = [device.region(1000) for _ in range(32)]
    starts = sorted(region.whole.data_ptr() for region in made)
    assert all(after - before >= 1 << 30 for before, after in itertools.pairwise(starts))
    gaps = [after - before for before, after in itertools.pairwise(starts)]
    assert len(set(gaps)) > 16


@pytest.mark.gpu
def test_what_is_read_only_is_written_through_another_mapping(device):
    region = device.region(1000, read_only=True)
    assert region.whole.data_ptr() != region.content.data_ptr() - region.start
    region.within.fill_(7)
    device.settle()
    assert torch.all(region.content == 7)
    sealed = device.region(1000)
    sealed.content.fill_(8)
    sealed.seal()
    assert torch.all(sealed.content == 8)
    assert torch.all(region.content == 7)
