"""Exports a model in training as a Hugging Face directory."""

from pathlib import Path

from warpsmith.policy.adapters import write_adapter, write_merged
from warpsmith.policy.loading import Policy
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.distributed.zero_engine import ZeroEngine

ADAPTER = "final_adapter"


def export(policy: Policy, engine: ZeroEngine, ranks: Ranks, target: Path, bucket_elements: int) -> Path:
    """Write the model in training as a Hugging Face directory, atomically; collective.

    If adapters are trained, the directory contains the weights with the adapters added, and `final_adapter` next to it
    only the adapters, in peft's format. With an adapter for each agent, both have a folder for each agent.

    Args:
        policy: the policy whose model the engine trains; provides configuration and tokenizer.
        engine: the model in training.
        ranks: the processes; rank 0 writes.
        target: the directory; replaced if it exists.
        bucket_elements: maximum elements gathered at a time under ZeRO stage 3.
    """
    for agent in engine.agents or (None,):
        weights = dict(engine.weights(bucket_elements, agent))
        adapter = dict(engine.adapter_weights(bucket_elements, agent)) if engine.lora is not None else {}
        if ranks.drives:
            if engine.lora is None:
                policy.save(target, state_dict=weights, overwrite=True)
            else:
                folder = agent or ""
                apart = target.with_name(ADAPTER) / folder
                write_adapter(adapter, engine.lora, apart, base=policy.path, overwrite=True)
                write_merged(policy, weights, adapter, target / folder, overwrite=True)
    ranks.barrier()
    return target
