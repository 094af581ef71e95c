"""How whole weights reach the samplers: through host memory, or from GPU to GPU."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.errors import TransportError

if TYPE_CHECKING:
    from warpsmith.trainer.weights.sampler_link import SamplerLink

_TRIAL_BYTES = 1 << 20


@dataclass(frozen=True)
class Transport:
    """The choice of a run.

    Attributes:
        kind: `host` or `device`.
        why: the reason, a clause.
    """

    kind: Literal["host", "device"]
    why: str

    def __str__(self) -> str:
        """Return a sentence for the console."""
        where = "through host memory" if self.kind == "host" else "from GPU to GPU"
        return f"Weights go to the samplers {where}: {self.why}."


def choose(config: TrainerConfig, ranks: Ranks, link: "SamplerLink | None") -> Transport:
    """Return the transport of a run, the same on all ranks; collective. The samplers have started.

    Raises:
        TransportError: `sync.transport` is `device`, and that cannot work here.
    """
    setting = config.sync.transport
    if setting == "host":
        return Transport("host", 'sync.transport = "host"')
    reason = config.device_obstacle
    if reason is None and ranks.device.type != "cuda":
        reason = "the policy trains on a CPU"
    if reason is None:
        reason = ranks.shared(lambda: _tried(ranks, link))
    if reason is None:
        return Transport("device", "each sampler can read rank 0's memory by CUDA IPC")
    if setting == "device":
        raise TransportError(
            f'sync.transport = "device" cannot work: {reason}.', 'Remove the key, or set it to "auto" or "host".'
        )
    return Transport("host", reason)


def _tried(ranks: Ranks, link: "SamplerLink | None") -> str | None:
    """Let every sampler read a little of rank 0's memory; return what went wrong."""
    import torch

    from warpsmith.rollout.errors import RolloutError
    from warpsmith.rollout.samplers.weights.stream.digest import digests_of
    from warpsmith.rollout.samplers.weights.stream.media import slot_memory

    if link is None:
        raise AssertionError("only rank 0 has samplers")
    memory = slot_memory(ranks.device, 1, _TRIAL_BYTES)
    memory.slots[0].copy_(torch.randint(256, (_TRIAL_BYTES,), dtype=torch.uint8))
    try:
        return link.try_stream(memory, digests_of(memory.slots))
    except RolloutError as error:
        return error.message.rstrip(".")
    finally:
        memory.close()
