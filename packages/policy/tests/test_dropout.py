"""Dropout that a model brings with it is found in each form, and gone afterwards."""

import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, Qwen3Config, Qwen3ForCausalLM

from warpsmith.policy.dropout import switch_off

IDS = torch.arange(40).reshape(2, 20)
SMALL = {"vocab_size": 64, "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2}


def numbers_in_attention() -> nn.Module:
    return Qwen3ForCausalLM(
        Qwen3Config(**SMALL, intermediate_size=64, num_key_value_heads=1, head_dim=16, attention_dropout=0.5)
    )


def layers_of_their_own() -> nn.Module:
    return GPT2LMHeadModel(GPT2Config(vocab_size=64, n_layer=2, n_embd=32, n_head=2, n_positions=32))


def differs(model: nn.Module) -> bool:
    with torch.no_grad():
        return not torch.equal(model(IDS).logits, model(IDS).logits)


@pytest.mark.parametrize("make", [numbers_in_attention, layers_of_their_own])
def test_a_model_in_training_mode_computes_the_same_twice_without_its_dropout(make):
    model = make().train()
    assert differs(model)
    assert switch_off(model) > 0
    assert not differs(model)
    assert switch_off(model) == 0


def test_what_only_resembles_it_is_left_alone():
    model = nn.Sequential(nn.LayerNorm(4, eps=0.1), nn.PReLU())
    model.p, model.dropout_layers = 0.3, 7
    assert switch_off(model) == 0
    assert (model[0].eps, model.p, model.dropout_layers) == (0.1, 0.3, 7)
