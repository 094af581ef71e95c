"""When a device is put out of use, with probes that fail as a driver's may."""

import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.evaluator import DeviceQuarantinedError
from warpsmith.evaluator.devices.cuda_health import FAULTS, DeviceHealth
from warpsmith.evaluator.verdict import ERROR_CATEGORIES


def health(findings, **options):
    """A device whose probes find one thing after the other, and nothing in the end."""
    left = iter(findings)
    return DeviceHealth(lambda: next(left, ""), pause_s=0.0, **options)


def test_a_thousand_faults_of_candidates_leave_a_device_that_works_in_use():
    device = health([])
    for _ in range(1000):
        device.note("illegal_memory_access")
    device.check()
    assert device.faults == {"illegal_memory_access": 1000}
    assert device.failed_probes == 0


def test_what_is_no_fault_of_a_process_is_neither_counted_nor_probed():
    probes = []
    device = DeviceHealth(lambda: probes.append(1) or "", pause_s=0.0)
    for category in (*(set(ERROR_CATEGORIES) - FAULTS), None):
        device.note(category)
    assert not probes
    assert not device.faults


@settings(deadline=None, max_examples=50)
@given(st.lists(st.booleans(), max_size=30), st.integers(1, 4))
def test_as_many_failures_in_a_row_as_are_allowed_put_it_out_of_use(passes, attempts):
    device = health(["" if passed else "memory does not hold" for passed in passes], attempts=attempts)
    longest = max((len(run) for run in "".join("." if passed else "x" for passed in passes).split(".")), default=0)
    for _ in range(len(passes) + 1):
        device.note("timeout")
    assert bool(device.finding) == (longest >= attempts)


def test_a_probe_that_raises_has_failed_and_the_error_names_what_it_raised():
    def probe():
        raise RuntimeError("CUDA error: unspecified launch failure")

    device = DeviceHealth(probe, attempts=2, pause_s=0.0)
    device.suspect()
    assert device.failed_probes == 2
    with pytest.raises(DeviceQuarantinedError, match="unspecified launch failure") as caught:
        device.check()
    assert "nvidia-smi" in caught.value.remedy


def test_a_device_whose_memory_others_hold_is_not_found_to_be_broken():
    def probe():
        raise torch.OutOfMemoryError("CUDA out of memory")

    device = DeviceHealth(probe, attempts=1, pause_s=0.0)
    device.suspect()
    device.check()
    assert device.failed_probes == 0


def test_a_probe_that_never_answers_is_not_waited_for_and_not_repeated():
    go, begun = threading.Event(), threading.Event()
    probes = []

    def probe():
        probes.append(1)
        begun.set()
        go.wait()
        return ""

    device = DeviceHealth(probe, deadline_s=0.05)
    device.suspect()
    with pytest.raises(DeviceQuarantinedError, match=r"no answer within 0\.05 s"):
        device.check()
    assert begun.wait(60)
    go.set()
    device.suspect()
    assert len(probes) == 1


def test_a_device_out_of_use_stays_so():
    device = health(["broken"], attempts=1)
    device.note("timeout")
    device.note("timeout")
    assert device.failed_probes == 1
    with pytest.raises(DeviceQuarantinedError, match="2 timeout"):
        device.check()
