"""The statistics of gaps: rounding of 16 bits passes, however thick its tails; wrong weights do not."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.rollout.samplers.base import Completion, Sampling
from warpsmith.rollout.samplers.weights.payload import WeightPayload
from warpsmith.trainer.errors import ProbeError
from warpsmith.trainer.weights.gaps import Gaps, Values, slope, token_weights, weighted_quantile
from warpsmith.trainer.weights.probe import Probe, is_exact, rounding_for, tolerance_for

TOKENS = 512
IDS = list(range(TOKENS))
BF16 = ("bfloat16", "bfloat16")
SEEDS = st.integers(0, 2**32 - 1)


class Answers:
    """A sampler that gives the log-probabilities `scores`, and one token more that it sampled before."""

    weight_version = 0

    def __init__(self, scores: Values) -> None:
        self.scores = scores

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
        return Completion([3], [-0.5], [0], "length")

    async def score(self, ids: Sequence[int]) -> list[float]:
        return [*self.scores.tolist(), -0.5]

    async def update_weights(self, payload: WeightPayload) -> None:
        raise AssertionError("the probe only asks")

    async def close(self) -> None:
        return


class Course:
    """A probe in bf16 over the course of a run: what trainer and sampler give, one sync after the other."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.probe = Probe(IDS, tolerance_for(*BF16), rounding_for(*BF16), 5.0, is_exact(*BF16))
        # As a trained model has them: most tokens are sure, some have -10.
        self.trainer = -(self.random.exponential(1.0, TOKENS) ** 2)
        self.trainer[0] = 0.0

    def rounding(self) -> Values:
        """Return gaps of about 1e-3 on average, and up to 1.5 at tokens of a probability of a few percent or less."""
        noise: Values = 2e-3 * self.random.standard_t(3, TOKENS) * np.minimum(1.0, -self.trainer)
        improbable = np.flatnonzero(self.trainer < -3.4)
        hit = self.random.choice(improbable, min(3, len(improbable)), replace=False)
        noise[hit] = self.random.uniform(-1.5, 1.5, len(hit))
        noise[0] = 0.0
        return noise

    def update(self, size: float) -> Values:
        """Change the trainer's log-probabilities by `size` on average, improbable tokens most; return the change."""
        change: Values = size * self.random.laplace(size=TOKENS) * np.minimum(1.0, -self.trainer)
        self.trainer = np.minimum(self.trainer + change, 0.0)
        return change

    def sync(self, found: Values) -> float:
        return asyncio.run(self.probe.compare([Answers(found)], self.trainer.tolist()))

    def begun(self) -> "Course":
        self.sync(self.trainer + self.rounding())
        return self


@given(SEEDS, st.lists(st.floats(0.0, 0.3), min_size=1, max_size=6))
def test_thick_tailed_rounding_passes_whatever_the_updates(seed: int, sizes: list[float]) -> None:
    course = Course(seed).begun()
    largest = 0.0
    for size in sizes:
        course.update(size)
        largest = max(largest, course.sync(course.trainer + course.rounding()))
    assert largest > 0.01


@given(SEEDS, st.sampled_from([-1, 1]), st.floats(0.02, 3.0))
def test_a_constant_shift_is_caught(seed: int, sign: int, size: float) -> None:
    course = Course(seed).begun()
    with pytest.raises(ProbeError, match="sampler 0 gives token"):
        course.sync(course.trainer + course.rounding() + sign * size)


@given(SEEDS, st.one_of(st.floats(0.5, 0.9), st.floats(1.1, 2.0)))
def test_scaled_logits_are_caught(seed: int, factor: float) -> None:
    course = Course(seed).begun()
    with pytest.raises(ProbeError, match="sampler 0 gives token"):
        course.sync(factor * course.trainer + course.rounding())


@given(SEEDS, st.floats(0.02, 0.2), st.floats(0.0, 0.5))
def test_a_sampler_that_follows_an_update_in_part_is_caught(seed: int, size: float, share: float) -> None:
    """With these sizes the gaps alone are within the bounds at times: the slope is not."""
    course = Course(seed).begun()
    before = course.trainer.copy()
    course.update(size)
    with pytest.raises(ProbeError, match="sampler 0"):
        course.sync(before + share * (course.trainer - before) + course.rounding())


@given(SEEDS)
@settings(max_examples=20)
def test_kept_weights_are_caught_once_the_updates_since_the_first_probe_show(seed: int) -> None:
    """Each update is too small to stand out from rounding: the change since the first probe is judged as well."""
    course = Course(seed).begun()
    first = course.trainer.copy()
    drift = course.random.laplace(size=TOKENS) * np.minimum(1.0, -first)
    with pytest.raises(ProbeError, match="Since the first sync, the log-probabilities of sampler 0 changed"):
        for step in range(1, 40):
            course.trainer = np.minimum(first + 4e-4 * step * drift, 0.0)
            course.sync(first + course.rounding())


@given(SEEDS, st.floats(0.4, 3.0))
def test_weights_that_are_wrong_from_the_start_do_not_calibrate_themselves(seed: int, size: float) -> None:
    course = Course(seed)
    wrong = course.trainer + size * course.random.standard_normal(TOKENS)
    with pytest.raises(ProbeError, match=r"the mean gap is .* is allowed"):
        course.sync(wrong)


def test_rounding_of_later_probes_does_not_loosen_the_bounds() -> None:
    course = Course(5).begun()
    with pytest.raises(ProbeError, match=r"the mean gap is 0\.0\d+ \(0\.01 is allowed\)"):
        for factor in range(1, 40):
            course.sync(course.trainer + factor * course.rounding())


def test_an_update_that_was_added_twice_is_caught() -> None:
    course = Course(6).begun()
    before = course.trainer.copy()
    course.update(0.012)
    with pytest.raises(ProbeError, match=r"Since the last sync, .* sampler 0 changed [12]\.\d+ times as much"):
        course.sync(2 * course.trainer - before + course.rounding())


@given(SEEDS, st.floats(0.0, 1.0))
def test_the_slope_is_the_share_that_was_followed(seed: int, share: float) -> None:
    random = np.random.default_rng(seed)
    change, weights = random.laplace(size=TOKENS), token_weights(-random.exponential(size=TOKENS))
    found = slope(change, share * change + 0.05 * random.standard_normal(TOKENS), weights, 0.05)
    assert found is not None
    assert found.low <= found.value <= found.high
    assert found.value == pytest.approx(share, abs=0.05)
    assert slope(change, share * change, weights, 1.0) is None


def test_too_few_tokens_say_nothing_of_a_slope() -> None:
    change = np.array([0.1, -0.2, 0.3])
    found = slope(change, 0 * change, np.ones(3), 1e-3)
    assert found is not None and found.follows
    assert (found.low, found.high) == (-np.inf, np.inf)


def test_the_statistics_of_some_gaps() -> None:
    gaps = Gaps.of([0.0, 0.0, 2 * np.log(0.5)], [0.0, -0.2, 2 * np.log(0.5) + 0.5])
    assert gaps.mean == pytest.approx((0.2 + 0.25) / 2.5)
    assert gaps.shift == pytest.approx((-0.2 + 0.25) / 2.5)
    assert (gaps.high, gaps.largest, gaps.worst) == (pytest.approx(0.5), pytest.approx(0.5), 2)
    lost = Gaps.of([0.0, -1.0], [0.0, float("nan")])
    assert (lost.mean, lost.high, lost.largest, lost.worst) == (np.inf, np.inf, np.inf, 1)


def test_a_weighted_quantile_is_one_of_the_values() -> None:
    values, weights = np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0])
    assert [weighted_quantile(values, weights, share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)] == [1, 1, 2, 2, 3]
    assert (weighted_quantile(values, weights, 1.1), weighted_quantile(values, weights, -0.1)) == (np.inf, -np.inf)
