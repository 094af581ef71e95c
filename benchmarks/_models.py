"""Models of known shapes with random weights, for benchmarks that need no trained ones."""

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from warpsmith.trainer.planning.shapes import ModelShape


def random_model(shape: ModelShape, dtype: torch.dtype = torch.bfloat16, attention: str = "sdpa") -> PreTrainedModel:
    """Return a model of that shape; its weights are always the same."""
    kind = "qwen3" if shape.normed else "qwen2" if shape.biased else "llama"
    config = AutoConfig.for_model(
        kind,
        num_hidden_layers=shape.layers,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        vocab_size=shape.vocabulary,
        tie_word_embeddings=shape.tied,
    )
    torch.manual_seed(0)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config, attn_implementation=attention, dtype=dtype)
    return model
