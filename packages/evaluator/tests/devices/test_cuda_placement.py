"""Results that torch makes in given memory, eagerly and in graphs, and what happens where it does not."""

import pytest
import torch
from torch.autograd import DeviceType

from warpsmith.evaluator.devices import cuda_placement
from warpsmith.evaluator.devices.cuda import CudaDevice
from warpsmith.evaluator.devices.cuda_placement import LEAST_BYTES, SEGMENT, Placement, _Segments
from warpsmith.evaluator.devices.host import HostDevice
from warpsmith.evaluator.workers.player_cuda import DeviceReplay  # noqa: F401 - as in a player, Triton is loaded


def segments(size=LEAST_BYTES + 1):
    into = torch.empty(size, dtype=torch.uint8)
    return into, _Segments(HostDevice(), into), -(-size // SEGMENT) * SEGMENT


def test_the_first_segment_is_the_tensor_and_others_are_regions():
    into, made, size = segments()
    assert made._allocate(size, 0, 0) == into.data_ptr()
    assert made._allocate(SEGMENT, 0, 0) not in {None, into.data_ptr()}
    assert not made.alike


def test_another_segment_of_its_size_is_noticed():
    into, made, size = segments()
    assert made._allocate(size, 0, 0) == into.data_ptr()
    assert made._allocate(size, 0, 0) not in {None, into.data_ptr()}
    assert made.alike


def test_what_torch_gave_back_is_given_again():
    into, made, size = segments()
    assert made._allocate(size, 0, 0) == into.data_ptr()
    other = made._allocate(SEGMENT, 0, 0)
    made._free(other, SEGMENT, 0, 0)
    assert not made._regions
    made._free(into.data_ptr(), size, 0, 0)
    assert made._allocate(size, 0, 0) == into.data_ptr()


@pytest.mark.parametrize("into", [torch.empty(8), torch.empty(4096, 4096).t()], ids=["small", "other strides"])
def test_what_cannot_be_placed_is_copied(into):
    Placement(HostDevice(), into).call(lambda: torch.ones(into.shape))
    assert torch.all(into == 1)


def test_a_result_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"shape \[3\]"):
        Placement(HostDevice(), torch.empty(8)).call(lambda: torch.ones(3))


# On a GPU ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def device(gpu):
    return CudaDevice()


@pytest.fixture
def transposed(device, monkeypatch):
    """A transposed convolution, its result as torch makes it, and memory of a recording for it."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    x, weight, bias = (torch.randn(shape, device="cuda") for shape in ((8, 16, 64, 65), (16, 32, 4, 4), (32,)))

    def run():
        return torch.ops.aten.convolution.default(x, weight, bias, [2, 2], [1, 1], [1, 1], True, [1, 1], 1)

    expected = run()
    assert expected.nbytes >= LEAST_BYTES
    region = device.region(expected.nbytes)
    into = region.content.view(torch.float32).view(expected.shape)
    return run, expected, into, region


def copies(run):
    """The kernels and copies of the device that only move a tensor."""
    run()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        torch.cuda.synchronize()
    names = [event.name for event in profile.events() if event.device_type == DeviceType.CUDA]
    return [name for name in names if "memcpy" in name.lower() or "copy_kernel" in name.lower()]


@pytest.mark.gpu
def test_a_result_is_made_in_given_memory(device, transposed):
    run, expected, into, region = transposed
    placement = Placement(device, into)
    for _ in range(3):
        region.whole.fill_(0xFF)
        placement.call(run)
        torch.testing.assert_close(into, expected, rtol=1e-5, atol=1e-5)
    assert placement._can
    assert not copies(lambda: placement.call(run))


@pytest.mark.gpu
def test_nothing_is_written_around_the_tensor(device, transposed):
    run, _, into, region = transposed
    placement = Placement(device, into)
    for slack in region.slack:
        slack.fill_(0xC5)
    for _ in range(3):
        placement.call(run)
    assert all(torch.all(slack == 0xC5) for slack in region.slack)


@pytest.mark.gpu
def test_a_graph_makes_it_there_too_and_keeps_its_own_pool(device, transposed):
    run, expected, into, region = transposed
    placement = Placement(device, into)
    placement.call(run)
    graph = torch.cuda.CUDAGraph()
    pool = torch.cuda.graph_pool_handle()
    with torch.cuda.graph(graph, pool=pool), cuda_placement.capturing(pool):
        before = torch.zeros(1 << 20, device="cuda")
        placement.call(run)
        after = before + 1
        placement.call(run)
    assert placement._can
    for _ in range(2):
        region.whole.fill_(0xFF)
        before.fill_(7)
        graph.replay()
        torch.testing.assert_close(into, expected, rtol=1e-5, atol=1e-5)
        assert torch.all(after == 1)
    assert not copies(graph.replay)
    placement.call(run)
    torch.testing.assert_close(into, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.gpu
def test_a_graph_of_an_unknown_pool_copies(device, transposed):
    run, expected, into, region = transposed
    placement = Placement(device, into)
    placement.call(run)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        placement.call(run)
    region.whole.fill_(0xFF)
    graph.replay()
    torch.testing.assert_close(into, expected, rtol=1e-5, atol=1e-5)
    assert copies(graph.replay)


@pytest.mark.gpu
def test_an_operator_that_allocates_something_as_large_is_copied_from_then_on(device, transposed):
    run, expected, into, region = transposed
    placement = Placement(device, into)

    def with_scratch():
        found = run()
        torch.empty_like(found).fill_(3.0)
        return found

    for _ in range(3):
        region.whole.fill_(0xFF)
        placement.call(with_scratch)
        torch.testing.assert_close(into, expected, rtol=1e-5, atol=1e-5)
    assert not placement._can


@pytest.mark.gpu
def test_memory_is_given_back(device, transposed):
    run, _, into, region = transposed
    free = []
    for _ in range(4):
        placement = Placement(device, into)
        placement.call(run)
        segments = [one for _, one in placement._pools.values()]
        device.settle()
        del placement
        assert not any(one._regions for one in segments)
        free.append(device.free_bytes())
    assert free[-1] >= free[0]
    region.whole.fill_(0)
    device.settle()
