"""The frozen reference policy of the KL term: a separate model, or the policy without its adapters."""

from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from warpsmith.trainer.config.sections import OptimizerSection, ZeroSection
from warpsmith.trainer.distributed.deepspeed_config import deepspeed_config
from warpsmith.trainer.distributed.packing import Scorer
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.distributed.tensor_parallel import tensor_parallel
from warpsmith.trainer.distributed.zero_engine import ZeroEngine

if TYPE_CHECKING:
    from warpsmith.trainer.distributed.rows import PaddedRows


class Reference(Protocol):
    """A policy that only computes log-probabilities."""

    def logprobs(self, rows: "PaddedRows", temperature: float) -> Tensor:
        """Return the log-probabilities of the rows' completion tokens, (B, T) fp32, without gradient; collective."""
        ...


class PolicyWithoutAdapters:
    """The weights under the adapters of the policy in training: its initial state, without a second model."""

    def __init__(self, engine: ZeroEngine) -> None:
        self._engine = engine

    def logprobs(self, rows: "PaddedRows", temperature: float) -> Tensor:
        """See `Reference.logprobs`."""
        with torch.no_grad(), self._engine.without_adapters():
            return self._engine.logprobs(rows, temperature)[0]


class FrozenModel:
    """A separate model.

    Every rank holds a full copy, except under ZeRO stage 3, which partitions it like the policy, and where ranks share
    layers.
    """

    def __init__(self, model: nn.Module, *, zero: ZeroSection, ranks: Ranks, dtype: str) -> None:
        model.requires_grad_(False).eval()
        kept = zero.stage < 3 and ranks.layers is None
        placed: Any = model.to(ranks.device) if kept else _spread(model, zero, ranks, dtype)
        self._scorer = Scorer(placed, packing=zero.packing, split=ranks.rows)

    def logprobs(self, rows: "PaddedRows", temperature: float) -> Tensor:
        """See `Reference.logprobs`."""
        with torch.no_grad():
            logprobs_BT, _ = self._scorer.logprobs(rows, temperature)
        return logprobs_BT


def _spread(model: nn.Module, zero: ZeroSection, ranks: Ranks, dtype: str) -> Any:
    import deepspeed

    # Without an optimizer only stage 3 has something to spread.
    kept = zero.model_copy(update={"stage": 3 if zero.stage == 3 else 0, "offload_optimizer": False})
    config = deepspeed_config(kept, OptimizerSection(), dtype, ranks.world) | tensor_parallel(model, ranks)
    engine, *_ = deepspeed.initialize(model=model, config=config, dist_init_required=False)
    engine.eval()
    return engine
