"""Hugging Face directories out of a model in training, or out of a checkpoint."""

from pathlib import Path

from warpsmith.policy.loading import Policy
from warpsmith.trainer.engine.ranks import Ranks
from warpsmith.trainer.engine.zero import ZeroEngine


def export(policy: Policy, engine: ZeroEngine, ranks: Ranks, target: Path, bucket_elements: int) -> Path:
    """Write the model in training as a Hugging Face directory that appears whole or not at all; collective.

    Args:
        policy: whose model the engine trains; gives configuration and tokenizer.
        engine: the model in training.
        ranks: the processes; rank 0 writes.
        target: the directory; replaced if it is there.
        bucket_elements: how much is gathered at a time under ZeRO stage 3.
    """
    weights = dict(engine.weights(bucket_elements))
    if ranks.drives:
        policy.save(target, state_dict=weights, overwrite=True)
    ranks.barrier()
    return target
