"""`shared_file`: one safetensors file in memory-backed scratch space, read by every worker of the machine."""

from collections.abc import Iterator
from contextlib import contextmanager

from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.samplers.weights.files import scratch_directory
from warpsmith.rollout.samplers.weights.payload import WeightPayload
from warpsmith.rollout.samplers.weights.transports.base import WorkerCall


class SharedFile:
    """Writes the payload once, for any number of worker processes."""

    worker_extension = None

    def __init__(self, config: SamplerConfig) -> None:
        pass

    @contextmanager
    def ship(self, payload: WeightPayload) -> Iterator[WorkerCall]:
        """Yield a call that reads the file; see `WeightTransport.ship`."""
        with scratch_directory() as folder:
            payload.save(folder / "model.safetensors")
            yield WorkerCall("reload_weights", {"weights_path": str(folder)})
