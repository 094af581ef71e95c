"""The objective against the papers' equations, written out once more in `plain_objective`: losses and gradients."""

from collections.abc import Callable
from typing import Any

import numpy as np
import plain_objective as plain
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from objective_rows import LENGTH, Row, loss_of, made_rows

from warpsmith.trainer.advantage import Critic, Turns
from warpsmith.trainer.advantage.estimators.gae import Gae
from warpsmith.trainer.advantage.penalties import overlong, shaped
from warpsmith.trainer.algorithms import ALGORITHMS
from warpsmith.trainer.config.grpo import AlgorithmSection
from warpsmith.trainer.loss import correction
from warpsmith.trainer.loss.clips.ppo import PpoClip
from warpsmith.trainer.loss.divergence import divergence
from warpsmith.trainer.loss.objective_spec import TruncatedCorrection
from warpsmith.trainer.loss.value_loss import ValueBatch, value_loss

PAPERS: dict[str, Callable[[list[Row]], float]] = {
    "grpo": plain.grpo,
    "dr_grpo": lambda rows: plain.dr_grpo(rows, LENGTH),
    "dapo": plain.dapo,
    "gspo": plain.gspo,
    "cispo": plain.cispo,
    "rloo": lambda rows: plain.rloo(rows, LENGTH),
    "ppo": lambda rows: plain.ppo(rows, 0.1),
}


def constant_length(name: str) -> dict[str, Any]:
    """The keys that give an algorithm of a constant length LENGTH."""
    constant = ALGORITHMS.get(name).defaults["aggregation"] == "constant"
    return {"aggregation": {"type": "constant", "length": LENGTH}} if constant else {}


def slopes(rows: list[Row], paper: Callable[[list[Row]], float], name: str = "new") -> np.ndarray:
    """The gradient of a paper's loss by central differences, one token after the other."""
    step, found = 1e-6, []
    for row in rows:
        for t in range(len(row["new"]) if name == "new" else 1):
            ends = []
            for sign in (1, -1):
                moved = [dict(other) for other in rows]
                own = moved[next(i for i, other in enumerate(rows) if other is row)]
                if name == "new":
                    own["new"] = [v + sign * step * (k == t) for k, v in enumerate(row["new"])]
                else:
                    own[name] = row[name] + sign * step
                ends.append(paper(moved))
            found.append((ends[0] - ends[1]) / (2 * step))
    return np.array(found)


@pytest.mark.parametrize("name", ALGORITHMS.names())
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_algorithm_is_its_papers_loss_and_gradient(name: str, seed: int) -> None:
    rows = made_rows(seed)
    algorithm = AlgorithmSection(type=name, **constant_length(name))
    loss, gradient, by_value = loss_of(rows, algorithm)
    paper = PAPERS[name]
    assert loss == pytest.approx(paper(rows), rel=1e-9, abs=1e-12)
    assert np.abs(gradient).max() > 0
    assert gradient == pytest.approx(slopes(rows, paper), abs=1e-7)
    if algorithm.has_value_head:
        assert by_value == pytest.approx(slopes(rows, paper, "value"), abs=1e-7)


def test_every_algorithm_has_its_paper() -> None:
    assert sorted(PAPERS) == list(ALGORITHMS.names())


@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
def test_the_divergence_in_the_loss_is_the_papers(kind: str) -> None:
    rows = made_rows(4)
    algorithm = AlgorithmSection(kl={"type": kind, "coefficient": 0.3})

    def paper(rows: list[Row]) -> float:
        by_row = [
            plain.mean([plain.divergence(kind, a, b) for a, b in zip(row["new"], row["reference"], strict=True)])
            for row in rows
        ]
        return plain.grpo(rows) + 0.3 * plain.mean(by_row)

    loss, gradient, _ = loss_of(rows, algorithm)
    assert loss == pytest.approx(paper(rows), rel=1e-9)
    assert gradient == pytest.approx(slopes(rows, paper), abs=1e-7)
    in_reward = AlgorithmSection(kl={"type": kind, "coefficient": 0.3, "add_to": "reward"})
    assert loss_of(rows, in_reward)[0] == pytest.approx(plain.grpo(rows))


def test_the_entropy_of_each_token_is_a_bonus() -> None:
    rows = made_rows(6)
    found = loss_of(rows, AlgorithmSection(entropy_coefficient=0.25))[0]
    assert found == pytest.approx(plain.grpo(rows) - 0.25 * plain.mean([plain.mean(row["entropy"]) for row in rows]))


def test_the_dual_clip_bounds_the_loss_of_tokens_of_negative_advantage() -> None:
    rows = made_rows(7, wide=1.5)
    advantages = plain.grouped_advantages(rows, divide=True)
    expected = -plain.mean(
        [
            plain.mean([plain.dual_clipped(ratio, advantage, 0.2, 0.2, 1.5) for ratio in plain.ratios(row)])
            for row, advantage in zip(rows, advantages, strict=True)
        ]
    )
    assert abs(expected - plain.grpo(rows)) > 0.01
    assert loss_of(rows, AlgorithmSection(clip={"dual": 1.5}))[0] == pytest.approx(expected, rel=1e-9)


def test_the_value_clip_bounds_how_far_a_value_may_move() -> None:
    """1707.06347's code: the greater square, of the value and of the value moved by so much at most."""
    rows, limit = made_rows(8), 0.1
    _, targets = plain.ppo_credit(rows)
    more = 0.0
    for row, target in zip(rows, targets, strict=True):
        moved = row["old_value"] + plain.clamp(row["value"] - row["old_value"], -limit, limit)
        more += 0.5 * (max((row["value"] - target) ** 2, (moved - target) ** 2) - (row["value"] - target) ** 2)
    assert more > 0.01
    found = loss_of(rows, AlgorithmSection(type="ppo", estimator={"value_clip": limit}))[0]
    assert found == pytest.approx(plain.ppo(rows, 0.1) + 0.1 * more / len(rows), rel=1e-9)


@pytest.mark.parametrize("kind", ["truncated", "masked"])
@pytest.mark.parametrize("level", ["token", "sequence", "geometric"])
@pytest.mark.parametrize("veto", [0.0, 0.8])
def test_the_correction_weighs_each_token(kind: str, level: str, veto: float) -> None:
    rows = made_rows(5)
    bounds = {"low": 0.9, "high": 1.2, "veto": veto}
    least = {"low": 0.9} if kind == "masked" else {}
    algorithm = AlgorithmSection(
        type="rloo",
        old_logprobs="recompute",
        correction={"type": kind, "level": level, "high": 1.2, "veto": veto} | least,
        **constant_length("rloo"),
    )
    advantages = plain.rloo_advantages(rows)
    expected, kept = 0.0, []
    for row, advantage in zip(rows, advantages, strict=True):
        weights = plain.corrected(row, kind=kind, level=level, **bounds)
        kept += weights
        expected -= sum(w * r * advantage for w, r in zip(weights, plain.ratios(row), strict=True)) / LENGTH / len(rows)
    loss, gradient, _ = loss_of(rows, algorithm)
    assert loss == pytest.approx(expected, rel=1e-9)
    assert 0 < sum(weight == 0 for weight in kept) < len(kept) or (kind == "truncated" and not veto)
    by_token = np.repeat(advantages, [len(row["new"]) for row in rows])
    assert ((gradient == 0) == ((np.array(kept) == 0) | (by_token == 0))).all()


floats = st.floats(-3, 3, allow_nan=False)
SMALLEST = 1e-290
"""A number whose products with ratios and clips keep all their digits."""


@given(st.floats(0.01, 20), floats, st.floats(0, 0.9), st.floats(0, 2), st.floats(1.01, 5))
def test_the_dual_clip_is_the_papers_and_bounds_what_a_token_can_weigh(
    ratio: float, advantage: float, low: float, high: float, dual: float
) -> None:
    r, a = torch.tensor([[ratio]], dtype=torch.float64), torch.tensor([[advantage]], dtype=torch.float64)
    assume(low or high)
    found = PpoClip(low=low, high=high, dual=dual).loss(r, r.log(), a).item()
    assert found == pytest.approx(-plain.dual_clipped(ratio, advantage, low, high, dual))
    assert found <= max(dual, 1 + high) * abs(advantage) + 1e-9


@given(st.floats(0.01, 20), floats, st.floats(0, 0.9), st.floats(0, 2), st.none() | st.floats(1.01, 5))
@example(0.01, 5e-324, 0.5, 0.0, None)
@example(0.01, SMALLEST, 0.5, 0.0, None)
def test_the_clip_is_said_to_act_where_the_gradient_is_gone(
    ratio: float, advantage: float, low: float, high: float, dual: float | None
) -> None:
    r = torch.tensor([[ratio]], dtype=torch.float64, requires_grad=True)
    a = torch.tensor([[advantage]], dtype=torch.float64)
    assume(low or high)
    chosen = PpoClip(low=low, high=high, dual=dual)
    edges = (1 - low, 1 + high, dual)
    # A product with a number near the smallest one is rounded to zero, or to the other product: no clip acts there.
    if abs(advantage) < SMALLEST or any(edge is not None and abs(ratio - edge) < 1e-9 for edge in edges):
        return
    chosen.loss(r, r.log(), a).sum().backward()
    assert r.grad is not None
    assert any(bound.item() for bound in chosen.active(r.detach(), a)) == (r.grad.item() == 0)


@given(st.integers(0, 40), st.integers(1, 40), st.floats(0.01, 1))
def test_the_overlong_penalty_is_the_papers(length: int, limit: int, share: float) -> None:
    length = min(length, limit)
    found = overlong(np.array([length]), np.array([limit]), share)
    assert found.tolist() == pytest.approx([-plain.overlong(length, limit, share * limit)], abs=1e-9)


@given(st.lists(floats, min_size=1, max_size=5), st.data(), st.floats(0, 1), st.floats(0, 1))
def test_gae_is_the_papers_sum(scores: list[float], data: st.DataObject, gamma: float, lam: float) -> None:
    values = data.draw(st.lists(floats, min_size=len(scores), max_size=len(scores)))
    found = Gae(lam=lam).samples(one_trajectory(scores, gamma), Critic(np.array(values), gamma)).value
    assert found == pytest.approx(plain.gae(scores, values, gamma, lam), abs=1e-9)


@given(st.lists(floats, min_size=1, max_size=5), st.floats(0, 1))
def test_gae_with_lambda_1_is_the_return_less_the_value(scores: list[float], gamma: float) -> None:
    turns = one_trajectory(scores, gamma)
    values = np.linspace(-1, 1, len(scores))
    assert Gae(lam=1.0).samples(turns, Critic(values, gamma)).value == pytest.approx(turns.returns - values, abs=1e-9)


@given(st.lists(floats, min_size=2, max_size=5), st.floats(0, 1), st.floats(0, 1))
def test_with_the_true_values_gae_is_nothing(scores: list[float], gamma: float, lam: float) -> None:
    turns = one_trajectory(scores, gamma)
    assert Gae(lam=lam).samples(turns, Critic(turns.returns, gamma)).value == pytest.approx(0 * turns.returns, abs=1e-9)


def one_trajectory(scores: list[float], gamma: float) -> Turns:
    """One trajectory, its rows in reverse order, its returns as the rollout computes them."""
    n = len(scores)
    bare = Turns(np.zeros(n, int), np.zeros(n, int), np.arange(n), np.array(scores), np.zeros(n), np.ones(n, bool))
    return shaped(bare, np.zeros(n), gamma)


def test_shaped_scores_have_shaped_returns_and_what_is_lost_stays_lost() -> None:
    turns = Turns(
        group=np.zeros(5, int), trajectory=np.array([1, 0, 0, 1, 2]), turn=np.array([1, 0, 1, 0, 0]),
        score=np.array([1.0, 0.1, 0.3, 0.2, 0.5]), returns=np.zeros(5), valid=np.array([True, True, True, True, False]),
    )  # fmt: skip
    found = shaped(turns, np.array([0.5, 0.0, 0.1, 0.0, 0.0]), 0.4)
    assert found.score[:4] == pytest.approx([0.5, 0.1, 0.2, 0.2])
    assert found.returns[:4] == pytest.approx([0.5, 0.1 + 0.4 * 0.2, 0.2, 0.2 + 0.4 * 0.5])
    assert np.isnan(found.returns[4])


@given(st.floats(0.1, 5), floats, floats)
def test_the_value_loss_falls_towards_the_target_and_its_clip_never_lowers_it(
    limit: float, value: float, target: float
) -> None:
    one = torch.ones(1, 1, dtype=torch.float64)
    batch = ValueBatch(one * value, one * 0.0, one * target, one)
    plain_loss, clipped = value_loss(batch, None).item(), value_loss(batch, limit).item()
    assert plain_loss == pytest.approx(0.5 * (value - target) ** 2)
    near = max(-limit, min(value, limit))
    assert clipped == pytest.approx(0.5 * max((value - target) ** 2, (near - target) ** 2))


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from(["token", "sequence", "geometric"]))
def test_without_a_gap_no_correction_changes_anything(seed: int, level: str) -> None:
    rows = [{**row, "sampler": row["old"]} for row in made_rows(seed)]
    bare = AlgorithmSection()
    for kind in ("truncated", "masked"):
        chosen = AlgorithmSection(old_logprobs="recompute", correction={"type": kind, "level": level, "veto": 0.9})
        assert loss_of(rows, chosen)[0] == pytest.approx(loss_of(rows, bare)[0], rel=1e-9)


def test_the_sequence_weight_makes_the_samplers_tokens_the_trainers() -> None:
    """Over all sequences of two tokens, weighted by how often they are sampled: the expectation is the trainer's."""
    rng = np.random.default_rng(0)
    trainer, sampler = (torch.from_numpy(rng.standard_normal((2, 3, 3))).log_softmax(-1) for _ in range(2))
    pairs = [(i, j) for i in range(3) for j in range(3)]

    def scored(policy: torch.Tensor) -> torch.Tensor:
        return torch.stack([torch.stack([policy[0, 0, i], policy[1, i, j]]) for i, j in pairs])

    mine, theirs = scored(trainer), scored(sampler)
    worth = torch.from_numpy(rng.standard_normal(len(pairs)))
    chosen = TruncatedCorrection(high=1e9)
    expected = (mine.sum(-1).exp() * worth).sum()
    for level, exact in (("sequence", True), ("token", False)):
        weight = correction.weights(mine, theirs, torch.ones_like(mine), chosen.model_copy(update={"level": level}))
        found = (theirs.sum(-1).exp() * weight[:, -1] * worth).sum()
        assert (abs(found.item() - expected.item()) < 1e-12) == exact


def test_the_gradient_of_each_divergence_estimator_on_policy() -> None:
    """Exactly, over a categorical: k1 as a loss gives nothing, k2 the KL's gradient; so does k1 in the reward."""
    logits = torch.tensor([0.3, -0.8, 1.1, 0.2], dtype=torch.float64, requires_grad=True)
    other = torch.tensor([0.5, 0.1, -0.4, 0.9], dtype=torch.float64).log_softmax(-1)

    def gradient(make: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> torch.Tensor:
        logp = logits.log_softmax(-1)
        return torch.autograd.grad(make(logp, logp.detach().exp()), logits)[0]

    exact = gradient(lambda logp, _: (logp.exp() * (logp - other)).sum())
    as_loss = {
        kind: gradient(lambda logp, p, kind=kind: (p * divergence(logp, other, kind)).sum())
        for kind in ("k1", "k2", "k3")
    }
    in_reward = gradient(lambda logp, p: (p * divergence(logp.detach(), other, "k1") * logp).sum())
    assert torch.allclose(as_loss["k1"], torch.zeros(4, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(as_loss["k2"], exact)
    assert torch.allclose(in_reward, exact)
    assert not torch.allclose(as_loss["k3"], exact, atol=1e-2)
