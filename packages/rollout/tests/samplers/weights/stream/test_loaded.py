"""Where tensors lie in a model after loading: known names, fused and padded parameters, and what is left out."""

from typing import ClassVar

import torch
from torch import nn

from warpsmith.rollout.samplers.weights.payload import laid_out
from warpsmith.rollout.samplers.weights.stream.loaded import loaded_parts


class Fused(nn.Module):
    packed_modules_mapping: ClassVar = {"qkv_proj": ["q_proj", "k_proj", "v_proj"]}

    def __init__(self):
        super().__init__()
        self.attn = nn.Module()
        self.attn.qkv_proj = nn.Linear(4, 8)
        self.attn.o_proj = nn.Linear(4, 4, bias=False)
        self.embed = nn.Embedding(64, 4)
        self.scale = nn.Parameter(torch.ones(()))


def entries(shapes, dtype="float32"):
    return laid_out({name: (dtype, shape) for name, shape in shapes.items()})


def parts(shapes, dtype="float32"):
    model = Fused()
    return model, {entry.name: part for entry, part in loaded_parts(model, entries(shapes, dtype))}


def test_fused_rows_are_in_the_order_that_the_model_names_and_padding_is_left_out():
    model, found = parts({
        "attn.v_proj.weight": (2, 4), "attn.k_proj.weight": (2, 4), "attn.q_proj.weight": (4, 4),
        "attn.q_proj.bias": (4,), "attn.k_proj.bias": (2,), "attn.v_proj.bias": (2,),
        "attn.o_proj.weight": (4, 4), "embed.weight": (61, 4), "scale": (),
    })  # fmt: skip
    fused = model.attn.qkv_proj
    assert torch.equal(found["attn.q_proj.weight"], fused.weight[:4])
    assert torch.equal(found["attn.k_proj.weight"], fused.weight[4:6])
    assert torch.equal(found["attn.v_proj.bias"], fused.bias[6:])
    assert torch.equal(found["embed.weight"], model.embed.weight[:61])
    assert torch.equal(found["attn.o_proj.weight"], model.attn.o_proj.weight)
    assert "scale" not in found


def test_what_does_not_fit_is_left_out():
    assert not parts({"attn.q_proj.weight": (4, 4), "attn.k_proj.weight": (2, 4)})[1]
    assert not parts({"attn.o_proj.weight": (2, 8), "embed.weight": (65, 4)})[1]
    assert not parts({"attn.o_proj.weight": (4, 4)}, "bfloat16")[1]
    assert not parts({"other.weight": (4, 4)})[1]
