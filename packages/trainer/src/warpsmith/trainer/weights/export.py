"""Exports a model in training as a Hugging Face directory."""

from pathlib import Path

from warpsmith.policy.adapters import write_adapter, write_merged
from warpsmith.policy.loading import Policy
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.distributed.zero_engine import ZeroEngine

ADAPTER = "final_adapter"


def export(policy: Policy, engine: ZeroEngine, ranks: Ranks, target: Path, bucket_elements: int) -> Path:
    """Write the model in training as a Hugging Face directory that appears whole or not at all; collective.

    Where adapters are trained, the directory holds the weights with them added, and `final_adapter` beside it the
    adapters alone, in peft's format.

    Args:
        policy: whose model the engine trains; gives configuration and tokenizer.
        engine: the model in training.
        ranks: the processes; rank 0 writes.
        target: the directory; replaced if it is there.
        bucket_elements: how much is gathered at a time under ZeRO stage 3.
    """
    weights = dict(engine.weights(bucket_elements))
    adapter = dict(engine.adapter_weights(bucket_elements)) if engine.lora is not None else {}
    if ranks.drives:
        if engine.lora is None:
            policy.save(target, state_dict=weights, overwrite=True)
        else:
            write_adapter(adapter, engine.lora, target.with_name(ADAPTER), base=policy.path, overwrite=True)
            write_merged(policy, weights, adapter, target, overwrite=True)
    ranks.barrier()
    return target
