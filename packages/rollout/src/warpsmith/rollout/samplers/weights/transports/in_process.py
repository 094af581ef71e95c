"""`in_process`: the payload's tensors themselves, for a worker that shares the sampler's process."""

from collections.abc import Iterator
from contextlib import contextmanager

from warpsmith.records.errors import UsageError
from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.samplers.weights.payload import WeightPayload
from warpsmith.rollout.samplers.weights.transports.base import WorkerCall


class InProcess:
    """Copies nothing.

    Raises:
        UsageError: the sampler runs on a GPU, where vLLM's workers are separate processes.
    """

    worker_extension = None

    def __init__(self, config: SamplerConfig) -> None:
        if config.device != "cpu":
            raise UsageError(
                "The transport `in_process` is for samplers on a CPU; on a GPU the workers are other processes.",
                "Use `shared_file`, or remove sampler.transport.",
            )

    @contextmanager
    def ship(self, payload: WeightPayload) -> Iterator[WorkerCall]:
        """Yield a call that reads the tensors in place; see `WeightTransport.ship`."""
        yield WorkerCall("reload_weights", {"weights_iterator": payload.tensors()})
