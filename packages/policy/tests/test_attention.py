"""Attention that takes borders instead of a mask: as sdpa on every layout, and an error where it would be wrong."""

import pytest
import torch

from warpsmith.policy.attention import register
from warpsmith.policy.errors import UnsupportedModelError
from warpsmith.policy.logprobs import token_logprobs


def model_with(attention: str, **settings: object):
    from transformers import AutoConfig, AutoModelForCausalLM

    register()
    config = AutoConfig.for_model(
        "qwen3", vocab_size=300, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        head_dim=16, num_key_value_heads=2, initializer_range=0.3, **settings,
    )  # fmt: skip
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, attn_implementation=attention)


def figures(model, ids, mask, positions=None):
    """Log-probabilities, and the gradient of a sum that weighs each differently."""
    logprobs, entropy = token_logprobs(model, ids, mask, position_ids_BT=positions)
    weight = torch.linspace(-1, 1, logprobs.numel(), device=logprobs.device).view_as(logprobs) * mask
    model.zero_grad()
    (logprobs * weight + entropy * weight.flip(0)).sum().backward()
    return logprobs.detach() * mask, [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("window", [None, 4])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("side", ["left", "right", "both"])
def test_rows_with_padding_have_the_figures_and_gradients_of_sdpa(side, checkpointing, window):
    settings = {} if window is None else {"use_sliding_window": True, "sliding_window": window, "max_window_layers": 0}
    ids = torch.randint(0, 300, (3, 11), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    if side != "right":
        mask[0, :5] = 0
    if side != "left":
        mask[1, 7:] = 0
    found = []
    for attention in ("sdpa", "varlen"):
        model = model_with(attention, **settings).train(checkpointing)
        if checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        found.append(figures(model, ids, mask))
    (expected, gradients), (got, ours) = found
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)
    for one, other in zip(ours, gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_padding_that_only_a_mask_would_hide_is_refused():
    ids, mask = torch.arange(6)[None], torch.tensor([[0, 0, 1, 1, 1, 1]])
    with pytest.raises(UnsupportedModelError, match="padding"):
        model_with("varlen")(ids, attention_mask=mask)


def test_a_cache_is_refused():
    model = model_with("varlen").eval()
    first = model(torch.arange(6)[None], use_cache=True)
    with pytest.raises(UnsupportedModelError, match="cache"):
        model(torch.arange(1)[None], past_key_values=first.past_key_values)


def test_without_borders_each_row_is_a_sequence():
    ids = torch.randint(0, 300, (2, 9), generator=torch.Generator().manual_seed(2))
    expected, got = (model_with(attention).eval()(ids).logits for attention in ("sdpa", "varlen"))
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.gpu
def test_on_a_gpu_it_is_near_sdpa():
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    lengths = (700, 1, 90, 233)
    ids = torch.randint(0, 300, (1, sum(lengths)), generator=torch.Generator().manual_seed(3)).cuda()
    positions = torch.cat([torch.arange(n) for n in lengths])[None].cuda()
    found = []
    for attention in ("sdpa", "varlen"):
        model = model_with(attention).to("cuda", torch.bfloat16)
        found.append(figures(model, ids, torch.ones_like(ids), positions))
    exact = figures(model_with("sdpa").to("cuda", torch.float32), ids, torch.ones_like(ids), positions)
    gaps = [(logprobs - exact[0]).abs().mean() for logprobs, _ in found]
    assert gaps[1] < 1.5 * gaps[0] + 1e-3
    for sdpa, varlen, right in zip(found[0][1], found[1][1], exact[1], strict=True):
        assert (varlen.float() - right).norm() < 1.5 * (sdpa.float() - right).norm() + 1e-3 * right.norm()
