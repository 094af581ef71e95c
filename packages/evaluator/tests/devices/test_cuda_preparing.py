"""What a worker does before it may use its GPU, here with a driver that only notes what it is asked for."""

import pytest
import torch

from warpsmith.evaluator import _native
from warpsmith.evaluator.devices.cuda_kind import CudaKind


@pytest.fixture
def asked(monkeypatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "init", lambda: found.append("init"))

    class Driver:
        @staticmethod
        def open(ordinal):
            found.append(f"context {ordinal}")
            return "handle"

    monkeypatch.setattr(_native, "Device", Driver)
    monkeypatch.setattr(CudaKind, "device_class", lambda self: lambda handle: ("opened", handle))
    return found


@pytest.mark.parametrize(
    ("context", "before", "handle"), [(False, ["init"], None), (True, ["init", "context 0"], "handle")]
)
def test_a_context_is_made_before_only_where_that_is_allowed(asked, context, before, handle):
    kind = CudaKind()
    kind.prepare_worker(context=context)
    assert asked == before
    assert kind.open() == ("opened", handle)


@pytest.mark.parametrize("fails", ["init", "open"])
def test_what_fails_before_is_tried_again_where_it_is_reported(asked, monkeypatch, fails):
    def failing(*arguments):
        raise RuntimeError("no device") if fails == "init" else _native.NativeError("out of memory", "Free some.")

    monkeypatch.setattr(torch.cuda if fails == "init" else _native.Device, fails, failing)
    kind = CudaKind()
    kind.prepare_worker(context=True)
    assert kind.open() == ("opened", None)
