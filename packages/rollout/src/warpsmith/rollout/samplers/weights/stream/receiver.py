"""vLLM's side of a stream: an engine of its weight-transfer API, in every worker process of a sampler.

vLLM imports this module in its workers, by the name in `WORKER_EXTENSION`, before it makes the engine.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from vllm.config import set_current_vllm_config
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

from warpsmith.rollout.errors import BadPayloadError, RolloutError
from warpsmith.rollout.samplers.weights.seconds import UpdateSeconds
from warpsmith.rollout.samplers.weights.stream.digest import digests_of
from warpsmith.rollout.samplers.weights.stream.layout import Bucket, StreamLayout
from warpsmith.rollout.samplers.weights.stream.loaded import loaded_parts
from warpsmith.rollout.samplers.weights.stream.media import Export, host_identity, open_slots
from warpsmith.rollout.samplers.weights.stream.names import BACKEND
from warpsmith.rollout.samplers.weights.stream.reader import StreamReader

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class StreamInit(WeightTransferInitInfo):  # type: ignore[misc]
    """What an update begins with.

    Args:
        layout: `StreamLayout.to_wire`.
        kind: the kind of memory of the slots.
        exports: the slots for each worker, by its rank.
    """

    layout: dict[str, Any]
    kind: str
    exports: list[Export]


@dataclass
class StreamUpdate(WeightTransferUpdateInfo):  # type: ignore[misc]
    """One bucket; see `Bucket`."""

    number: int
    slot: int
    digests: list[int]


class StreamEngine(WeightTransferEngine[StreamInit, StreamUpdate]):  # type: ignore[misc]
    """Loads buckets by vLLM's layerwise reload, each only after its digests were found right.

    One update is `init_transfer_engine`, `start_weight_update`, `update_weights` for each bucket,
    `finish_weight_update`. An error in between leaves parts of two versions: the sampler must end then.
    """

    init_info_cls = StreamInit
    update_info_cls = StreamUpdate
    supports_draft_weight_update = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reader: StreamReader | None = None
        self._slots: list[Tensor] = []
        self._loaded: set[str] = set()
        self._error: RolloutError | None = None
        self._seconds = UpdateSeconds()
        self._verified = 0

    def init_transfer_engine(self, init_info: StreamInit) -> None:
        """Map the slots."""
        self._error, self._loaded, self._seconds, self._verified = None, set(), UpdateSeconds(), 0
        with self._kept():
            self._reader = StreamReader(StreamLayout.from_wire(init_info.layout), self.device, self._seconds)
            began = time.monotonic()
            self._slots = open_slots(init_info.kind, init_info.exports[self.parallel_config.rank], self.device)
            self._seconds.send_s += time.monotonic() - began

    def start_weight_update(self) -> None:
        """Let vLLM take new values for all layers."""
        with self._loading():
            initialize_layerwise_reload(self.model)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Check and load one bucket; nothing reads its slot any more when this returns."""
        self.receive_weights(self.parse_update_info(update_info))
        _wait_for(self.device)

    def receive_weights(self, update_info: StreamUpdate) -> None:
        """Check and load one bucket."""
        reader = self._reading()
        bucket = Bucket(update_info.number, update_info.slot, tuple(update_info.digests))
        with self._kept():
            tensors = reader.take(bucket, self._slots)
            if tensors:
                with self._loading():
                    # Some models say nothing.
                    self._loaded |= self.model.load_weights(tensors) or set()
                    _wait_for(self.device)

    def finish_weight_update(self) -> None:
        """Check that everything came and was loaded, and unmap the slots."""
        reader = self._reading()
        with self._kept():
            reader.finish()
            with self._loading():
                finalize_layerwise_reload(self.model, self.model_config)
                _wait_for(self.device)
            self._check_loaded(reader)
        self.shutdown()

    def shutdown(self) -> None:
        """Unmap the slots and forget the update."""
        self._slots, self._reader = [], None

    def receipt(self) -> dict[str, Any]:
        """Return the seconds of the last update, how many bytes were verified as loaded, and its error if it failed."""
        error = None if self._error is None else [type(self._error).__name__, *self._error.args]
        return {"seconds": asdict(self._seconds), "verified_bytes": self._verified, "error": error}

    def trial(self, kind: str, exports: list[Export]) -> list[int]:
        """Return the digests of a sender's slots, to find whether they can be read from here."""
        slots = open_slots(kind, exports[self.parallel_config.rank], self.device)
        found = digests_of(slot.to(self.device, copy=True) for slot in slots)
        _wait_for(self.device)
        return found

    @staticmethod
    def trainer_send_weights(iterator: Iterator[Any], trainer_args: Any) -> None:
        """Refuse: buckets are sent by `StreamSender`. vLLM 0.26 wants this method."""
        raise NotImplementedError("The sender of a stream is warpsmith's own.")

    def _check_loaded(self, reader: StreamReader) -> None:
        """Check that vLLM put every tensor where it belongs.

        Raises:
            BadPayloadError: a parameter was not loaded, or has other bytes than the tensors that it is made of.
        """
        began = time.monotonic()
        version = reader.layout.version
        missing = sorted({name for name, _ in self.model.named_parameters()} - self._loaded) if self._loaded else []
        if missing:
            raise BadPayloadError(
                f"Weight version {version}: vLLM did not load {', '.join(missing[:3])}.",
                "Its model has parameters that the trainer's lacks; check that both are of one checkpoint.",
            )
        if self.parallel_config.world_size == 1 and self.model_config.quantization is None:
            self._check_bytes(reader)
        self._seconds.verify_s += time.monotonic() - began

    def _check_bytes(self, reader: StreamReader) -> None:
        parts = loaded_parts(self.model, reader.layout.entries)
        found = digests_of(part for _, part in parts)
        wrong = [entry.name for (entry, _), digest in zip(parts, found, strict=True)
                 if digest != reader.digests[entry.name]]  # fmt: skip
        if wrong:
            raise BadPayloadError(
                f"Weight version {reader.layout.version}: after loading, vLLM's model has other values than those "
                f"sent for {', '.join(wrong[:3])}.",
                'Set sync.transport = "host", and report the model: vLLM loads it in a way that is not known here.',
            )
        self._verified = sum(entry.nbytes for entry, _ in parts)

    def _reading(self) -> StreamReader:
        if self._reader is None:
            raise BadPayloadError("A bucket came outside of an update.", "Begin the update again.")
        return self._reader

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Keep an error of ours for `receipt`: vLLM hands on its text alone."""
        try:
            yield
        except RolloutError as error:
            self._error = error
            self.shutdown()
            raise

    @contextmanager
    def _loading(self) -> Iterator[None]:
        began = time.monotonic()
        # vLLM 0.26 does not set it itself here, and some layers ask for it.
        with torch.no_grad(), set_current_vllm_config(self.vllm_config):
            yield
        self._seconds.load_s += time.monotonic() - began


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class StreamWorker:
    """Methods that vLLM adds to its workers."""

    weight_transfer_engine: Any

    def stream_receipt(self) -> dict[str, Any]:
        """See `StreamEngine.receipt`."""
        engine: StreamEngine = self.weight_transfer_engine
        return engine.receipt()

    def stream_trial(self, kind: str, exports: list[Export]) -> list[int]:
        """See `StreamEngine.trial`."""
        engine: StreamEngine = self.weight_transfer_engine
        return engine.trial(kind, exports)

    def stream_host(self) -> str:
        """See `host_identity`."""
        return host_identity()


def _register() -> None:
    register: Callable[..., None] = WeightTransferEngineFactory.register_engine
    # Several samplers may start in one process.
    if BACKEND not in WeightTransferEngineFactory._registry:
        register(BACKEND, StreamEngine)


_register()
