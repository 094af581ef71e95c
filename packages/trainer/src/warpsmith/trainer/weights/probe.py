"""The probe: after a sync, samplers and trainer must give fixed tokens the same log-probabilities."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.distributed.rows import Row, pad_rows
from warpsmith.trainer.distributed.zero_engine import ZeroEngine
from warpsmith.trainer.errors import ProbeError
from warpsmith.trainer.weights.deadline import within
from warpsmith.trainer.weights.gaps import Bounds, Gaps, Slope, slope, token_weights

if TYPE_CHECKING:
    from warpsmith.rollout.samplers.base import Sampler
    from warpsmith.rollout.samplers.pool import Member

TOLERANCE = {"float32": 1e-3, "bfloat16": 0.1, "float16": 0.02}
"""Gap explained by rounding, by the coarser dtype of the two sides: of any token in float32, otherwise the mean."""

ROUNDING = {"float32": 5e-5, "bfloat16": 0.01, "float16": 2e-3}
"""Gap that counts as rounding however little an update changed; keys as above."""

SAMPLED_TOKENS = 8
"""Tokens sampled after the probe's, to check the prefix cache."""

_HIGH = 2.5
"""Bound of nine tenths of the tokens, in means: rounding has heavy tails, and a fault of some tokens heavier ones."""
_SHIFT = 0.5
"""Bound of the signed mean, in means: rounding has both signs."""
_GROWTH = 4.0
"""How much larger than at the first probe rounding may become during training."""
_CHANGED = 0.02
"""Share of the tolerance from which a change of the trainer must show in a sampler, at least in the last digit."""
_LEAST_ROUNDING = 0.02
"""Minimum of a first probe's mean gap, as a share of `rounding`: two sides can agree by chance."""


def trainer_logprobs(engine: ZeroEngine, ranks: Ranks, ids: Sequence[int], agent: str | None = None) -> list[float]:
    """Return log p(ids[t] | ids[<t]) at temperature 1 by the model in training, 0 for the first; collective.

    With an adapter for each agent, that of `agent` is used.
    """
    engine.act_as(agent)
    row = Row(np.asarray(ids, dtype=np.int64), np.ones(len(ids), dtype=np.int64))
    engine.train(False)
    with torch.no_grad():
        logprobs_BT, _ = engine.logprobs(pad_rows([row], ranks.device), 1.0)
    engine.train()
    return [float(value) for value in logprobs_BT[0].cpu()]


@dataclass
class Probe:
    """Fixed tokens to which samplers and trainer must give the same log-probabilities after every sync.

    A few tokens are sampled after them and discarded: scores are computed from scratch while a completion reads the
    prefix cache, so the two agree only if the cache has nothing from older weights.

    Attributes:
        ids: the tokens, at least two; the prefix cache is checked if they fill more than one of its blocks.
        tolerance: largest allowed gap of a log-probability if `exact`, else largest allowed mean gap.
        rounding: the same gap, allowed however little an update changed.
        deadline_s: maximum seconds for a probe.
        exact: check every token. False if a side computes in 16 bits: a single token can then be off by more than 1 nat
            with correct weights, and statistics over all tokens are checked instead.
        agent: the agent whose adapter is probed; None if there are not several.
    """

    ids: Sequence[int]
    tolerance: float
    rounding: float
    deadline_s: float
    exact: bool = True
    agent: str | None = None
    _first: "_Observation | None" = field(default=None, init=False)
    _before: "_Observation | None" = field(default=None, init=False)

    async def compare(self, samplers: Sequence["Sampler | Member"], expected: Sequence[float]) -> float:
        """Return the largest gap between a sampler's and the trainer's log-probability of a token.

        The first probe is checked only against the tolerance, and measures rounding here; later ones are also checked
        against that measurement, never against each other's gaps. They also check that each sampler changed like the
        trainer since the previous probe and since the first, so that a sampler that kept its weights, or many of them,
        is distinguished from rounding even if the update was small.

        Raises:
            ProbeError: the gaps are above their bounds; or a sampler did not change like the trainer, still has the old
                log-probabilities, or uses a cache of older weights. The message names sampler and token.
            SyncTimeoutError: the deadline passed.
        """
        return self.check(await self.score(samplers), expected)

    async def score(self, samplers: Sequence["Sampler | Member"]) -> "list[Score]":
        """Return each sampler's log-probabilities, for `check`.

        Raises:
            SyncTimeoutError: the deadline passed.
        """
        pending = asyncio.gather(*(_scored(sampler, self.ids, self.agent) for sampler in samplers))
        return await within(pending, self.deadline_s, "the log-prob probe")

    def check(self, scores: "Sequence[Score]", expected: Sequence[float]) -> float:
        """Return the largest gap between scores and the trainer's log-probabilities; errors as for `compare`."""
        current = _Observation(list(expected), [score.of_ids for score in scores])
        self._refuse_unchanged(current)
        bounds = self._bounds(current)
        gaps = [compare(self.ids, expected, score.of_ids, bounds, number) for number, score in enumerate(scores)]
        self._refuse_other_changes(current)
        cached = [_compare_cached(score, bounds, number) for number, score in enumerate(scores)]
        if self._first is None:
            current.gaps = [*gaps, *cached]
            self._first = current
        self._before = current
        return max(gap.largest for gap in gaps)

    def _bounds(self, current: "_Observation") -> Bounds:
        """Return the bounds: the tolerance, or less once the first probe has measured rounding."""
        first, before = self._first, self._before
        if first is None or before is None:
            limit = self.tolerance
        elif self.exact:
            rounding = _GROWTH * max(gap.largest for gap in first.gaps)
            limit = min(self.tolerance, max(current.changed_since(before) / 2, self.rounding, rounding))
        else:
            limit = min(self.tolerance, max(self.rounding, _GROWTH * first.mean_gap))
        return _bounds_of(limit, exact=self.exact)

    def _refuse_unchanged(self, current: "_Observation") -> None:
        if self._before is None or not (change := current.changed_since(self._before)) > _CHANGED * self.tolerance:
            return
        for number, (new, old) in enumerate(zip(current.samplers, self._before.samplers, strict=True)):
            if new == old:
                raise _kept_weights(number, change)

    def _refuse_other_changes(self, current: "_Observation") -> None:
        """Reject a sampler that did not follow the trainer's change since the previous probe or the first."""
        if self._first is None or self._before is None:
            return
        rounding = max(self._first.mean_gap, _LEAST_ROUNDING * self.rounding)
        for since, name in ((self._before, "the last sync"), (self._first, "the first sync")):
            for number, found in enumerate(current.slopes(since, rounding)):
                if found is not None and not found.follows:
                    raise _other_change(number, found, name)


def _bounds_of(limit: float, *, exact: bool) -> Bounds:
    if exact:
        return Bounds(np.inf, np.inf, np.inf, limit)
    return Bounds(limit, _HIGH * limit, _SHIFT * limit)


@dataclass
class _Observation:
    """Results of both sides at a probe; `gaps` is only set for the first one."""

    trainer: list[float]
    samplers: list[list[float]]
    gaps: list[Gaps] = field(default_factory=list)

    @property
    def mean_gap(self) -> float:
        """The largest mean gap of a sampler's scores."""
        return max(gap.mean for gap in self.gaps[: len(self.samplers)])

    def changed_since(self, before: "_Observation") -> float:
        """Return the largest change of a log-probability by the trainer."""
        return max((abs(new - old) for new, old in zip(self.trainer, before.trainer, strict=True)), default=0.0)

    def slopes(self, before: "_Observation", rounding: float) -> Iterator[Slope | None]:
        """Yield for each sampler its slope against the trainer's change."""
        weights_T = token_weights(self.trainer)
        change_T = np.subtract(self.trainer, before.trainer)
        for new, old in zip(self.samplers, before.samplers, strict=True):
            yield slope(change_T, np.subtract(new, old), weights_T, rounding)


@dataclass(frozen=True)
class Score:
    """One sampler's log-probabilities of the fixed tokens, and two of each token that it sampled after them."""

    of_ids: list[float]
    tokens: list[int]
    sampled: list[float]
    scored: list[float]


async def _scored(sampler: "Sampler | Member", ids: Sequence[int], agent: str | None) -> Score:
    from warpsmith.rollout.samplers.base import Sampling

    # Sampled first, so that scoring a longer prompt cannot affect the cache.
    completion = await sampler.generate(ids, Sampling(max_tokens=SAMPLED_TOKENS, seed=0, agent=agent))
    # A sampler of another package can lack the second argument; it has no adapters for agents.
    named = () if agent is None else (agent,)
    scores = await sampler.score([*ids, *completion.ids], *named)
    return Score(scores[: len(ids)], completion.ids, completion.logprobs, scores[len(ids) :])


def _compare_cached(score: Score, bounds: Bounds, number: int) -> Gaps:
    """Return the gaps between the two log-probabilities of the sampled tokens.

    They are few: their mean is checked against the bound of the probe's single tokens.
    """
    gaps = Gaps.of(score.scored, score.sampled)
    if not (gaps.largest <= bounds.largest and gaps.mean <= bounds.high):
        at, limit = gaps.worst, bounds.high if np.isinf(bounds.largest) else bounds.largest
        raise ProbeError(
            f"After the sync, sampler {number} samples token {score.tokens[at]} after the probe's with the "
            f"log-probability {score.sampled[at]:.4f} and scores it {score.scored[at]:.4f}: a gap of "
            f"{gaps.largest:.2g}, on average {gaps.mean:.2g}; {limit:.2g} is allowed.",
            "Its prefix cache has keys and values of older weights. Resume from the last checkpoint.",
        )
    return gaps


def _kept_weights(number: int, change: float) -> ProbeError:
    return ProbeError(
        f"The update changed the trainer's log-probabilities by up to {change:.2g}, but sampler {number} gives every "
        "token the same as before: it kept its weights.",
        "Resume from the last checkpoint.",
    )


def _other_change(number: int, found: Slope, since: str) -> ProbeError:
    return ProbeError(
        f"Since {since}, the log-probabilities of sampler {number} changed {found.value:.2f} times as much as the "
        f"trainer's ({found.low:.2f} to {found.high:.2f}; {1 - found.margin:.2f} to {1 + found.margin:.2f} is "
        "allowed): it does not have the same update.",
        "It kept some of its weights, or added an update twice. Resume from the last checkpoint.",
    )


def compare(
    ids: Sequence[int], expected: Sequence[float], found: Sequence[float], bounds: Bounds, sampler: int = 0
) -> Gaps:
    """Return the gaps between two sides' log-probabilities of `ids`, except the first, which has none.

    Raises:
        ProbeError: one is above its bound or NaN, or the sides differ in length.
    """
    if len(found) != len(expected):
        raise ProbeError(
            f"Sampler {sampler} scored {len(found)} of {len(expected)} tokens.", "Check rollout.sampler.max_model_len."
        )
    gaps = Gaps.of(expected[1:], found[1:])
    if not bounds.permit(gaps):
        at = gaps.worst + 1
        raise ProbeError(
            f"After the sync, sampler {sampler} gives token {at} (id {ids[at]}) the log-probability {found[at]:.4f} "
            f"and the trainer {expected[at]:.4f}: {_judged(gaps, bounds)}.",
            "The sampler has other weights than the trainer, or computes with them differently. Resume from the last "
            "checkpoint; if the gap is rounding, raise sync.tolerance.",
        )
    return gaps


def _judged(gaps: Gaps, bounds: Bounds) -> str:
    if np.isfinite(bounds.largest):
        return f"a gap of {gaps.largest:.2g}, with {bounds.largest:.2g} allowed"
    return (
        f"the worst gap, {gaps.largest:.2g}. Over all tokens, weighted by sqrt(p), the mean gap is {gaps.mean:.2g} "
        f"({bounds.mean:.2g} is allowed), nine tenths are within {gaps.high:.2g} ({bounds.high:.2g}), and the "
        f"signed mean is {gaps.shift:+.2g} ({bounds.shift:.2g} either way)"
    )


def is_exact(trainer_dtype: str, engine_dtype: str) -> bool:
    """Whether rounding is small enough to check every token on its own."""
    return trainer_dtype == engine_dtype == "float32"


def tolerance_for(trainer_dtype: str, engine_dtype: str) -> float:
    """Return the default tolerance of the probe: that of the coarser side."""
    return max(TOLERANCE[trainer_dtype], TOLERANCE[engine_dtype])


def rounding_for(trainer_dtype: str, engine_dtype: str) -> float:
    """Return the gap that the coarser side's rounding explains, whatever an update changed."""
    return max(ROUNDING[trainer_dtype], ROUNDING[engine_dtype])
