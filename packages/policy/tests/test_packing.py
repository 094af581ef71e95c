"""Architectures that keep the sequences of a packed row apart, and those that would mix them and say nothing."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from warpsmith.policy.errors import UnsupportedModelError
from warpsmith.policy.packing import check_packing

CPU = torch.device("cpu")


def model_of(family: str, **settings):
    """A small random model, with weights large enough that every token matters to the next."""
    small = {
        "vocab_size": 100, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "initializer_range": 0.3,
    }  # fmt: skip
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **{**small, **settings})).eval()


MIXING = {
    # Positions and mask are made from the attention mask, which a packed row has none of.
    "opt": {"ffn_dim": 32, "word_embed_proj_dim": 32},
    # Has positions, and a mask that does not look at them.
    "falcon": {},
    # A state-space layer beside the attention: no layer of a kind that is known by name.
    "jamba": {
        "mamba_d_state": 4, "num_experts": 2, "attn_layer_period": 2, "attn_layer_offset": 1,
        "use_mamba_kernels": False, "pad_token_id": 0,
    },
}  # fmt: skip


@pytest.mark.parametrize("family", ["qwen3", "qwen2", "llama", "gpt2"])
def test_architectures_that_keep_sequences_apart_are_taken(family):
    check_packing(model_of(family), CPU)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", MIXING)
def test_architectures_that_mix_silently_are_refused(family, dtype):
    with pytest.raises(UnsupportedModelError, match=r"does not separate .* change by [0-9.]+ on average") as caught:
        check_packing(model_of(family, **MIXING[family]).to(dtype), CPU)
    assert caught.value.remedy


@pytest.mark.parametrize(("family", "settings"), [("bloom", {"n_layer": 1, "n_head": 2}), ("mamba", {"state_size": 4})])
def test_architectures_without_positions_are_refused_by_that(family, settings):
    with pytest.raises(UnsupportedModelError, match="takes no positions"):
        check_packing(model_of(family, **settings), CPU)


def test_a_model_that_answers_nonsense_is_refused():
    model = model_of("llama")
    torch.nn.init.constant_(model.lm_head.weight, float("nan"))
    with pytest.raises(UnsupportedModelError, match="change by nan"):
        check_packing(model, CPU)


def test_a_model_in_training_is_asked_without_dropout_and_left_in_training():
    model = model_of("gpt2", embd_pdrop=0.5).train()
    check_packing(model, CPU)
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())


class Engine(torch.nn.Module):
    """A wrapper as DeepSpeed's engine is one: it switches the mode of what it holds, and never its own."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def train(self, mode: bool = True):
        self.module.train(mode)
        return self


@pytest.mark.parametrize("mode", [True, False])
def test_a_wrapped_model_is_left_in_the_mode_it_was_in(mode):
    model = model_of("llama").train(mode)
    check_packing(Engine(model), CPU)
    assert model.training is mode
