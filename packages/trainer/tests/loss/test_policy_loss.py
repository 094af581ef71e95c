"""The objective: each part against its equation, and the loss against the way the batch is cut."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.trainer.algorithms import ALGORITHMS
from warpsmith.trainer.config import AlgorithmSection
from warpsmith.trainer.loss import correction
from warpsmith.trainer.loss.aggregations import Aggregation, row_weights
from warpsmith.trainer.loss.aggregations.constant import Constant
from warpsmith.trainer.loss.aggregations.sequence_mean import SequenceMean
from warpsmith.trainer.loss.aggregations.token_mean import TokenMean
from warpsmith.trainer.loss.clips.cispo import CispoClip
from warpsmith.trainer.loss.clips.none import NoClip
from warpsmith.trainer.loss.clips.ppo import PpoClip
from warpsmith.trainer.loss.divergence import divergence
from warpsmith.trainer.loss.metrics import SUMS, figures, row_figures, row_sums, token_sums
from warpsmith.trainer.loss.objective_spec import MaskedCorrection, ObjectiveSpec, TruncatedCorrection
from warpsmith.trainer.loss.policy_loss import MicroBatch, policy_loss
from warpsmith.trainer.loss.ratio import log_ratio

LENGTHS = np.array([3, 5, 1, 4])
ALL = np.ones(4, dtype=bool)


def test_token_ratio_is_the_difference_on_the_mask() -> None:
    new, old, mask = (
        torch.tensor([[-1.0, -2.0, -9.0]]),
        torch.tensor([[-1.5, -2.5, 0.0]]),
        torch.tensor([[1.0, 1.0, 0.0]]),
    )
    assert log_ratio(new, old, mask, "token").tolist() == [[0.5, 0.5, 0.0]]


def test_sequence_ratio_is_the_geometric_mean_over_the_completion() -> None:
    new, old, mask = (
        torch.tensor([[-1.0, -2.0, 7.0]]),
        torch.tensor([[-1.2, -2.4, 0.0]]),
        torch.tensor([[1.0, 1.0, 0.0]]),
    )
    assert log_ratio(new, old, mask, "sequence").tolist()[0] == pytest.approx([0.3, 0.3, 0.0])


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "active"),
    [
        (1.0, 2.0, -2.0, False),
        (1.5, 2.0, -2.4, True),  # min(1.5 x 2, 1.2 x 2)
        (0.5, 2.0, -1.0, False),  # the pessimist keeps the unclipped value
        (0.5, -2.0, 1.6, True),  # -min(-1, -1.6)
        (1.5, -2.0, 3.0, False),
        (1.5, 0.0, 0.0, False),
    ],
)
def test_ppo_clip_by_hand(ratio: float, advantage: float, loss: float, active: bool) -> None:
    r, a = torch.tensor([[ratio]]), torch.tensor([[advantage]])
    assert PpoClip().loss(r, r.log(), a).item() == pytest.approx(loss)
    assert any(bound.item() for bound in PpoClip().active(r, a)) == active


def test_clip_higher_lets_the_ratio_rise_further() -> None:
    r, a = torch.tensor([[1.25]]), torch.tensor([[1.0]])
    assert PpoClip(high=0.28).loss(r, r.log(), a).item() == pytest.approx(-1.25)
    assert PpoClip().loss(r, r.log(), a).item() == pytest.approx(-1.2)


def test_cispo_keeps_the_gradient_of_clipped_tokens() -> None:
    logprobs = torch.tensor([[-1.0]], requires_grad=True)
    ratio = (logprobs - torch.tensor([[-3.0]])).exp()
    CispoClip(low=1.0, high=2.0).loss(ratio, logprobs, torch.tensor([[2.0]])).sum().backward()
    assert logprobs.grad is not None
    assert logprobs.grad.item() == pytest.approx(-3.0 * 2.0)


@pytest.mark.parametrize(("kind", "expected"), [("k1", -0.5), ("k2", 0.125), ("k3", math.exp(0.5) - 1.5)])
def test_divergence_by_hand(kind: str, expected: float) -> None:
    found = divergence(torch.tensor([[-1.0]]), torch.tensor([[-0.5]]), kind)  # type: ignore[arg-type]
    assert found.item() == pytest.approx(expected, rel=1e-6)


@given(st.floats(-30, 0), st.floats(-30, 0))
def test_k2_and_k3_are_never_negative_and_k1_is_signed(new: float, other: float) -> None:
    pair = torch.tensor([[new]], dtype=torch.float64), torch.tensor([[other]], dtype=torch.float64)
    assert divergence(*pair, "k2").item() >= 0
    assert divergence(*pair, "k3").item() >= 0
    assert divergence(*pair, "k1").item() == pytest.approx(new - other)


def test_k1_and_k3_estimate_the_divergence_of_two_distributions() -> None:
    logits = torch.tensor([[0.3, -0.2, 1.0, 0.0], [0.1, 0.4, 0.6, -0.5]], dtype=torch.float64)
    p, q = logits.log_softmax(-1)
    exact = (p.exp() * (p - q)).sum().item()
    for kind in ("k1", "k3"):
        assert (p.exp() * divergence(p, q, kind)).sum().item() == pytest.approx(exact)  # type: ignore[arg-type]


def test_truncated_and_masked_weights() -> None:
    trainer, sampler = torch.tensor([[0.0, -1.0, -2.0]]), torch.tensor([[-2.0, -1.0, 0.0]])
    mask = torch.ones(1, 3)
    cut = correction.weights(trainer, sampler, mask, TruncatedCorrection()).tolist()[0]
    assert cut == pytest.approx([2.0, 1.0, math.exp(-2)])
    kept = correction.weights(trainer, sampler, mask, MaskedCorrection()).tolist()[0]
    assert kept == pytest.approx([0.0, 1.0, 0.0])


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (TokenMean(), [1 / 13] * 4),
        (SequenceMean(), [1 / 12, 1 / 20, 1 / 4, 1 / 16]),
        (Constant(length=10), [1 / 40] * 4),
    ],
)
def test_row_weights_by_hand(how: Aggregation, expected: list[float]) -> None:
    assert row_weights(LENGTHS, ALL, how) == pytest.approx(expected)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=12), st.sampled_from([TokenMean(), SequenceMean()])
)
def test_token_weights_of_counted_rows_add_up_to_one(rows: list[tuple[int, bool]], how: Aggregation) -> None:
    lengths = np.array([length for length, _ in rows], dtype=np.int64)
    counted = np.array([flag for _, flag in rows], dtype=bool)
    weights = row_weights(lengths, counted, how)
    total = float((weights * lengths).sum())
    assert total == pytest.approx(1.0 if (counted & (lengths > 0)).any() else 0.0)
    assert not weights[~counted].any()


def batch(rows: int, width: int, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def noise() -> torch.Tensor:
        return torch.randn(rows, width, generator=generator)

    lengths = torch.tensor([1 + i % (width - 1) for i in range(rows)])
    mask = (torch.arange(width)[None] < lengths[:, None]).float()
    old = -noise().abs()
    return {
        "logprobs_BT": old + 0.3 * noise(),
        "entropy_BT": noise().abs(),
        "old_BT": old,
        "sampler_BT": old + 0.05 * noise(),
        "reference_BT": old + 0.2 * noise(),
        "mask_BT": mask,
        "advantage_B1": noise()[:, :1],
        "weight_B1": torch.from_numpy(row_weights(lengths.numpy(), np.ones(rows, bool), SequenceMean()))[
            :, None
        ].float(),
    }


def spec_of(name: str) -> ObjectiveSpec:
    return replace(
        AlgorithmSection(type=name).objective, kl_coefficient=0.1, entropy_coefficient=0.01,
        correction=TruncatedCorrection(), value_coefficient=0.0,
    )  # fmt: skip


@pytest.mark.parametrize("name", ALGORITHMS.names())
@pytest.mark.parametrize("pieces", [1, 2, 3, 7])
def test_the_gradient_does_not_depend_on_micro_batches(name: str, pieces: int) -> None:
    values, spec = batch(7, 6), spec_of(name)

    def gradient(groups: list[list[int]]) -> torch.Tensor:
        leaf = values["logprobs_BT"].clone().requires_grad_()
        for rows in groups:
            cut = {key: value[rows] for key, value in values.items()}
            policy_loss(MicroBatch(**{**cut, "logprobs_BT": leaf[rows]}), spec).backward()
        assert leaf.grad is not None
        return leaf.grad

    whole = gradient([list(range(7))])
    assert whole.abs().sum() > 0
    assert torch.allclose(gradient([list(range(7))[i::pieces] for i in range(pieces)]), whole, atol=1e-7)


@pytest.mark.parametrize("name", ALGORITHMS.names())
def test_a_step_along_the_gradient_favours_good_completions(name: str) -> None:
    logits = torch.zeros(2, 4, requires_grad=True)
    tokens = torch.tensor([[1], [2]])

    def logprob() -> torch.Tensor:
        return logits.log_softmax(-1).gather(1, tokens)

    old = logprob().detach()
    spec = AlgorithmSection(type=name).objective
    one = torch.ones(2, 1)
    policy_loss(
        MicroBatch(logprob(), one, old, old, None, one, torch.tensor([[1.0], [-1.0]]), one / 2), spec
    ).backward()
    assert logits.grad is not None
    after = (logits - logits.grad).log_softmax(-1).gather(1, tokens)
    assert after[0] > old[0]
    assert after[1] < old[1]


def test_padding_cannot_spoil_the_loss() -> None:
    values = batch(2, 5)
    clean = policy_loss(MicroBatch(**values), ObjectiveSpec())
    dirty = {**values, "entropy_BT": torch.where(values["mask_BT"] > 0, values["entropy_BT"], torch.inf)}
    spec = ObjectiveSpec(entropy_coefficient=0.0)
    assert policy_loss(MicroBatch(**dirty), spec) == clean
    assert torch.isfinite(policy_loss(MicroBatch(**dirty), ObjectiveSpec(entropy_coefficient=0.1)))


def test_figures_do_not_depend_on_micro_batches_and_agree_with_plain_means() -> None:
    values, spec = batch(6, 5), ObjectiveSpec(kl_coefficient=0.1)
    whole = token_sums(MicroBatch(**values), spec)
    parts = sum(token_sums(MicroBatch(**{k: v[[i]] for k, v in values.items()}), spec) for i in range(6))
    assert torch.allclose(whole, parts)
    found = figures(whole)
    used = values["mask_BT"] > 0
    assert found["entropy"] == pytest.approx(values["entropy_BT"][used].mean().item(), rel=1e-5)
    weights = (values["logprobs_BT"] - values["sampler_BT"])[used].exp().double()
    assert found["sampler_ess"] == pytest.approx(
        (weights.sum() ** 2 / (len(weights) * weights.square().sum())).item(), rel=1e-5
    )


def test_the_sampler_figures_are_perfect_where_the_two_agree() -> None:
    values = batch(3, 4)
    found = figures(token_sums(MicroBatch(**{**values, "sampler_BT": values["logprobs_BT"]}), ObjectiveSpec()))
    assert (found["sampler_kl"], found["sampler_ess"], found["sampler_gap"]) == (0.0, pytest.approx(1.0), 0.0)


def sampler_batch(old: list[list[float]]) -> MicroBatch:
    """Two rows of three and one tokens; the trainer is above the sampler by ln 2, 0 and -ln 4, and by ln 3."""
    sampler = torch.tensor([[-3.0, -1.0, -1.0], [-4.0, 0.0, 0.0]])
    gap = torch.tensor([[math.log(2), 0.0, -math.log(4)], [math.log(3), 9.0, 9.0]])
    ones = torch.ones(2, 3)
    return MicroBatch(
        logprobs_BT=sampler + gap, entropy_BT=ones, old_BT=torch.tensor(old), sampler_BT=sampler, reference_BT=None,
        mask_BT=torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]), advantage_B1=ones[:, :1], weight_B1=ones[:, :1],
    )  # fmt: skip


def test_the_sampler_figures_by_hand() -> None:
    found = figures(token_sums(sampler_batch([[0.0] * 3] * 2), ObjectiveSpec()))
    ln2, ln3 = math.log(2), math.log(3)
    # Weights trainer / sampler of the four tokens: 2, 1, 1/4, 3.
    assert found["sampler_gap"] == pytest.approx((ln2 + 2 * ln2 + ln3) / 4, rel=1e-6)
    assert found["sampler_kl"] == pytest.approx(
        ((2 - 1 - ln2) + 0 + (1 / 4 - 1 + 2 * ln2) + (3 - 1 - ln3)) / 4, rel=1e-6
    )
    assert found["sampler_ess"] == pytest.approx(6.25**2 / (4 * (4 + 1 + 1 / 16 + 9)), rel=1e-6)
    assert found["sampler_rejected"] == 0.0


def test_the_divergence_within_a_batch_is_expected_from_the_old_policys_tokens() -> None:
    """Each token of a vocabulary of two once, weighed by how often the old policy samples it, is exact."""
    old, new = torch.tensor([0.2, 0.8], dtype=torch.float64), torch.tensor([0.01, 0.99], dtype=torch.float64)
    one = torch.ones(1, 1, dtype=torch.float64)

    def kl_old(token: int) -> float:
        old_BT = old.log()[token].reshape(1, 1)
        batch = MicroBatch(
            logprobs_BT=new.log()[token].reshape(1, 1), entropy_BT=one, old_BT=old_BT, sampler_BT=old_BT,
            reference_BT=None, mask_BT=one, advantage_B1=one, weight_B1=one,
        )  # fmt: skip
        return figures(token_sums(batch, ObjectiveSpec()))["kl_old"]

    expected = (old * (old / new).log()).sum().item()
    assert sum(old[token].item() * kl_old(token) for token in range(2)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("spec", "share"),
    [
        # Of the trainer before the update to the sampler: 1, 2.5, 1/2, 3.
        (ObjectiveSpec(correction=MaskedCorrection()), 2 / 4),
        (ObjectiveSpec(correction=MaskedCorrection(low=0.6, high=2.6)), 2 / 4),
        (ObjectiveSpec(correction=MaskedCorrection(low=0.6, high=9.0)), 1 / 4),
        # Geometric means of the rows: (5/4)^(1/3) = 1.08, which all three tokens get, and 3.
        (ObjectiveSpec(correction=MaskedCorrection(level="geometric")), 1 / 4),
        (ObjectiveSpec(correction=MaskedCorrection(level="geometric", high=1.05)), 1.0),
        (ObjectiveSpec(correction=TruncatedCorrection()), 0.0),
        (ObjectiveSpec(), 0.0),
    ],
)
def test_the_rejected_share_by_hand(spec: ObjectiveSpec, share: float) -> None:
    old = [[-3.0, -1.0 + math.log(2.5), -1.0 - math.log(2) + 1e-6], [-4.0 + math.log(3), 7.0, 7.0]]
    batch = sampler_batch(old)
    found = figures(token_sums(batch, spec))
    assert found["sampler_rejected"] == share
    if isinstance(spec.correction, MaskedCorrection):
        # What is counted is what has no gradient.
        leaf = batch.logprobs_BT.clone().requires_grad_()
        policy_loss(MicroBatch(**{**vars(batch), "logprobs_BT": leaf}), replace(spec, clip=NoClip())).backward()
        assert leaf.grad is not None
        assert int((leaf.grad[batch.mask_BT > 0] == 0).sum()) == share * 4


def test_the_ratios_of_a_row_are_those_of_its_own_tokens() -> None:
    values, spec = batch(3, 5), ObjectiveSpec()
    sums = torch.zeros(4, 5, dtype=torch.float64)
    for row, place in enumerate((2, 0, 3)):
        sums[[place]] += row_sums(MicroBatch(**{k: v[[row]] for k, v in values.items()}), spec)
    found = row_figures(sums, reference=True)
    for row, place in enumerate((2, 0, 3)):
        used = values["mask_BT"][row] > 0
        ratios = (values["logprobs_BT"] - values["sampler_BT"])[row][used].exp()
        assert found["ratio_mean"][place] == pytest.approx(ratios.mean().item(), rel=1e-5)
        assert found["ratio_max"][place] == pytest.approx(ratios.max().item(), rel=1e-5)
    parts = torch.cat([row_sums(MicroBatch(**{k: v[[i]] for k, v in values.items()}), spec) for i in range(3)])
    whole = row_sums(MicroBatch(**values), spec)
    assert torch.allclose(whole, parts)
    assert whole[:, 3].sum() == token_sums(MicroBatch(**values), spec)[SUMS.index("clipped")]
    assert all(np.isnan(column[1]) for column in found.values())
    assert np.isnan(row_figures(sums, reference=False)["kl_mean"]).all()


def test_no_tokens_give_no_figures() -> None:
    assert figures(torch.zeros(len(SUMS))) == {}
