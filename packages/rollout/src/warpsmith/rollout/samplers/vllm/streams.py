"""Streams of weights into vLLM, for both samplers: calls to the workers, their errors, their receipts."""

from collections.abc import Mapping, Sequence
from typing import Any

from warpsmith.rollout.errors import BadPayloadError, DeviceTransferError, RolloutError
from warpsmith.rollout.samplers.base import StreamReceipt
from warpsmith.rollout.samplers.weights.payload import check_entries
from warpsmith.rollout.samplers.weights.seconds import UpdateSeconds
from warpsmith.rollout.samplers.weights.stream.layout import Bucket, StreamLayout
from warpsmith.rollout.samplers.weights.stream.media import Export
from warpsmith.rollout.samplers.weights.transports.base import WorkerCall

_ERRORS: Mapping[str, type[RolloutError]] = {error.__name__: error for error in (BadPayloadError, DeviceTransferError)}

START, FINISH = WorkerCall("start_weight_update"), WorkerCall("finish_weight_update")
RECEIPT, HOST = WorkerCall("stream_receipt"), WorkerCall("stream_host")


def check_layout(
    layout: StreamLayout, expected: Mapping[str, tuple[int, ...]], optional: frozenset[str], *, supported: bool
) -> None:
    """Reject a stream that the sampler cannot load.

    Raises:
        BadPayloadError: it has other tensors than the model.
        DeviceTransferError: the sampler takes adapters, or has a transport of another package.
    """
    check_supported(supported)
    check_entries(layout.version, layout.entries, expected, optional)


def check_supported(supported: bool) -> None:
    """Reject streams to a sampler whose workers have no receiver for them; see `settings.takes_streams`.

    Raises:
        DeviceTransferError: it has none.
    """
    if not supported:
        raise DeviceTransferError(
            "The sampler takes adapters, or has a transport with a worker extension of its own.",
            'Set sync.transport = "host".',
        )


def init(layout: StreamLayout, kind: str, exports: Sequence[Export]) -> WorkerCall:
    """Return the call that maps the slots."""
    info = {"layout": layout.to_wire(), "kind": kind, "exports": list(exports)}
    return WorkerCall("init_weight_transfer_engine", {"init_info": info})


def trial(kind: str, exports: Sequence[Export]) -> WorkerCall:
    """Return the call that reads the slots without loading anything."""
    return WorkerCall("stream_trial", {"kind": kind, "exports": list(exports)})


def load(bucket: Bucket) -> WorkerCall:
    """Return the call that loads a bucket."""
    info = {"number": bucket.number, "slot": bucket.slot, "digests": list(bucket.digests)}
    return WorkerCall("update_weights", {"update_info": info})


def typed(receipts: Sequence[Mapping[str, Any]], error: Exception) -> Exception:
    """Return the first error of ours that a worker had, or else what vLLM raised."""
    for receipt in receipts:
        if receipt["error"] is not None:
            name, message, remedy = receipt["error"]
            return _ERRORS.get(name, RolloutError)(message, remedy)
    return error


def receipt_of(receipts: Sequence[Mapping[str, Any]]) -> StreamReceipt:
    """Return the receipts of a sampler's workers as one."""
    seconds = UpdateSeconds.slowest(UpdateSeconds(**receipt["seconds"]) for receipt in receipts)
    return StreamReceipt(seconds, min(receipt["verified_bytes"] for receipt in receipts))
