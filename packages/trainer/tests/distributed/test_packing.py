"""Rows laid end to end: the same figures and the same gradient as padded ones, or a refusal."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.policy.loading import load_policy
from warpsmith.trainer.distributed.packing import Scorer, pack, unpack
from warpsmith.trainer.distributed.rows import PaddedRows, Row, pad_rows
from warpsmith.trainer.errors import ConfigError

CPU = torch.device("cpu")
LENGTHS = st.lists(st.integers(1, 24), min_size=1, max_size=8)


def rows_of(lengths: list[int], seed: int = 0) -> PaddedRows:
    """Rows of random ids below 250; id 0, which also pads, is among them."""
    rng = np.random.default_rng(seed)
    return pad_rows([Row(rng.integers(0, 250, n), rng.integers(0, 2, n)) for n in lengths], CPU)


@given(LENGTHS)
def test_packing_is_a_bijection(lengths: list[int]) -> None:
    padded = rows_of(lengths)
    packed = pack(padded)
    assert packed.ids_1K.shape == packed.mask_1K.shape == packed.positions_1K.shape == (1, sum(lengths))
    assert packed.positions_1K.tolist() == [[t for n in lengths for t in range(n)]]
    for values_BT, values_1K in ((padded.ids_BT, packed.ids_1K), (padded.mask_BT, packed.mask_1K)):
        kept = [row[:n] for row, n in zip(values_BT.tolist(), lengths, strict=True)]
        assert values_1K.tolist() == [[value for row in kept for value in row]]
        assert torch.equal(unpack(values_1K, packed), values_BT)
    ones_1K = torch.ones(1, sum(lengths))
    assert torch.equal(unpack(ones_1K, packed), padded.attention_BT.float())


@settings(max_examples=20, deadline=None)
@given(lengths=LENGTHS, temperature=st.sampled_from([0.6, 1.0]))
def test_packed_rows_score_as_padded_ones(model: torch.nn.Module, lengths: list[int], temperature: float) -> None:
    rows = rows_of(lengths)
    with torch.no_grad():
        expected, spread = Scorer(model, packing=False).logprobs(rows, temperature)
        found, entropy = Scorer(model, packing=True).logprobs(rows, temperature)
        likeliest = [Scorer(model, packing=on).figures(rows, 1.0, greedy=True).greedy_BT for on in (False, True)]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(entropy, spread, atol=1e-5, rtol=0)
    assert likeliest[0] is not None
    assert likeliest[1] is not None
    assert torch.equal(*likeliest)
    assert not found[:, 0].any()
    wanted = rows.mask_BT.bool()
    wanted[:, 0] = False
    assert (found[wanted] < 0).all()


def test_the_gradient_is_that_of_padded_rows(tiny: Path) -> None:
    rows = rows_of([9, 1, 14, 5], seed=1)
    weights = torch.randn(2, *rows.ids_BT.shape, generator=torch.Generator().manual_seed(0))
    gradients = []
    for packing in (False, True):
        model = load_policy(tiny, "float32").model
        (torch.stack(Scorer(model, packing=packing).logprobs(rows, 0.8)) * weights).sum().backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    padded, packed = gradients
    scale = max(gradient.abs().max().item() for gradient in padded.values())
    for name, gradient in padded.items():
        torch.testing.assert_close(packed[name], gradient, atol=1e-6 * scale, rtol=0)


def test_a_rank_without_rows_packs_too(model: torch.nn.Module) -> None:
    """And its model is asked like the others': a forward pass that one rank makes alone stops ZeRO stage 3."""
    calls = []
    handle = model.register_forward_hook(lambda *_: calls.append(1))
    scorer = Scorer(model, packing=True)
    logprobs_BT, _ = scorer.logprobs(pad_rows([], CPU), 1.0)
    assert len(calls) == 3
    scorer.logprobs(rows_of([3, 4]), 1.0)
    handle.remove()
    assert len(calls) == 4
    assert logprobs_BT.shape == (1, 2)
    assert not logprobs_BT.any()


def test_a_model_that_would_mix_the_rows_is_refused_before_any_is_scored() -> None:
    from transformers import OPTConfig, OPTForCausalLM

    torch.manual_seed(0)
    config = OPTConfig(
        vocab_size=250, hidden_size=32, ffn_dim=32, word_embed_proj_dim=32, num_hidden_layers=2, num_attention_heads=2,
        init_std=0.3,
    )  # fmt: skip
    mixing = OPTForCausalLM(config)
    with pytest.raises(ConfigError, match="OPTForCausalLM does not separate") as caught:
        Scorer(mixing, packing=True).logprobs(rows_of([4]), 1.0)
    assert "zero.packing = false" in caught.value.remedy
    padded, _ = Scorer(mixing, packing=False).logprobs(rows_of([4, 6]), 1.0)
    assert padded.any()


@pytest.fixture(scope="module")
def model(tiny: Path) -> torch.nn.Module:
    """The tiny model in fp32; tests only read it."""
    return load_policy(tiny, "float32").model.requires_grad_(False)
