"""Writes ./model: a random Qwen3 of two small layers with a byte-level tokenizer and a chat template with tools."""

from importlib.util import find_spec

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
vocabulary = {token: number for number, token in enumerate([*special, *alphabet])}
tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
fast = PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", additional_special_tokens=special
)
if find_spec("trl") is not None:
    from trl.chat_template_utils import qwen3_chat_template

    fast.chat_template = qwen3_chat_template
else:
    fast.chat_template = (
        "{% for one in messages %}<|im_start|>{{ one['role'] }}\n{{ one['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
fast.save_pretrained("model")
torch.manual_seed(0)
Qwen3ForCausalLM(
    Qwen3Config(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=16384,
        eos_token_id=2,
        pad_token_id=0,
    )
).save_pretrained("model")
