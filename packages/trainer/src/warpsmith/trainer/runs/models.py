"""The models of a GRPO run: the policy in training, optionally with a value head, and its reference policy."""

from transformers import PreTrainedModel

from warpsmith.policy.loading import Policy
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.distributed.reference_policy import FrozenModel, PolicyWithoutAdapters, Reference
from warpsmith.trainer.distributed.value_head import attach
from warpsmith.trainer.distributed.zero_engine import ZeroEngine


def policy_engine(config: TrainerConfig, model: PreTrainedModel, ranks: Ranks) -> ZeroEngine:
    """Return the model under ZeRO; collective. If the estimator needs a value head, one is attached first."""
    algorithm, head = config.algorithm, None
    if (settings := algorithm.value_head) is not None:
        width = model.config.get_text_config().hidden_size
        head = attach(model, width, detached=settings.value_trains == "head")
    return ZeroEngine(
        model, zero=config.zero, optimizer=config.optimizer, ranks=ranks, dtype=config.policy.dtype,
        value_head=head, value_lr=settings.value_lr if settings else None, lora=config.policy.lora,
        agents=tuple(config.policy.adapters),
    )  # fmt: skip


def reference_policy(config: TrainerConfig, engine: ZeroEngine, ranks: Ranks) -> Reference | None:
    """Return the reference policy, or None if no KL term needs one; collective.

    With adapters it is the policy in training without them, unless `algorithm.kl.reference` names another model.
    """
    algorithm, settings = config.algorithm, config.policy
    if algorithm.kl is None:
        return None
    if settings.lora is not None and algorithm.kl.reference is None:
        return PolicyWithoutAdapters(engine)
    path = algorithm.kl.reference or settings.path
    frozen = Policy.load(
        path, settings.dtype, attention=settings.attention, kernels=settings.kernels,
        chat_template=settings.chat_template,
    )  # fmt: skip
    return FrozenModel(frozen.model, zero=config.zero, ranks=ranks, dtype=settings.dtype)
