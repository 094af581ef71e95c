"""The probe: after a sync, samplers and trainer must give fixed tokens the same log-probabilities."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.distributed.rows import Row, pad_rows
from warpsmith.trainer.distributed.zero_engine import ZeroEngine
from warpsmith.trainer.errors import ProbeError
from warpsmith.trainer.weights.deadline import within

if TYPE_CHECKING:
    from warpsmith.rollout.samplers.base import Sampler
    from warpsmith.rollout.samplers.pool import Member

TOLERANCE = {"float32": 1e-3, "bfloat16": 0.5, "float16": 0.1}
"""Largest gap of one token's log-probability that rounding explains, by the coarser dtype of the two sides."""

ROUNDING = {"float32": 5e-5, "bfloat16": 0.25, "float16": 0.05}
"""Gap that is taken for rounding however little an update changed; below it, kept weights would hide in TOLERANCE."""

_ROUNDING_GROWTH = 4.0
"""How much larger than at the first probe rounding may make a gap while the policy is trained."""
_CHANGED_SHARE = 0.02
"""Share of the tolerance from which a change of the trainer's must show in a sampler, in the last digit at least."""


def trainer_logprobs(engine: ZeroEngine, ranks: Ranks, ids: Sequence[int]) -> list[float]:
    """Return log p(ids[t] | ids[<t]) at temperature 1 by the model in training, 0 for the first; collective."""
    row = Row(np.asarray(ids, dtype=np.int64), np.ones(len(ids), dtype=np.int64))
    engine.train(False)
    with torch.no_grad():
        logprobs_BT, _ = engine.logprobs(pad_rows([row], ranks.device), 1.0)
    engine.train()
    return [float(value) for value in logprobs_BT[0].cpu()]


@dataclass
class Probe:
    """Fixed tokens that samplers and trainer must give the same log-probabilities after every sync.

    One token is sampled after them and thrown away: scores are computed from nothing, a completion reads the prefix
    cache, and the two agree only if the cache holds nothing of older weights.

    Attributes:
        ids: the tokens; the prefix cache is looked at if they fill more than one of its blocks.
        tolerance: largest permitted gap of a log-probability.
        rounding: gap that is permitted however little an update changed.
        deadline_s: seconds that a probe may take.
    """

    ids: Sequence[int]
    tolerance: float
    rounding: float
    deadline_s: float
    _before: "_Seen | None" = field(default=None, init=False)

    async def compare(self, samplers: Sequence["Sampler | Member"], expected: Sequence[float]) -> float:
        """Return the largest gap between a sampler's and the trainer's log-probability of a token.

        After the first probe a gap may not be of the size of the update's own change either: so a sampler that kept
        weights, or some of them, is told from rounding though the update was small.

        Raises:
            ProbeError: a gap is above the tolerance, or as large as the change; or a sampler answers as before the
                update, or from a cache of older weights. The message names sampler and token.
            SyncTimeoutError: the deadline passed.
        """
        asked = asyncio.gather(*(_scored(sampler, self.ids) for sampler in samplers))
        scores = await within(asked, self.deadline_s, "the log-prob probe")
        limit, seen = self.tolerance, _Seen(list(expected), [score.of_ids for score in scores])
        if self._before is not None:
            limit = self._limit(seen, self._before)
        gaps = [compare(self.ids, expected, score.of_ids, limit, number) for number, score in enumerate(scores)]
        cached = [_compare_cached(score, limit, number) for number, score in enumerate(scores)]
        seen.first_gap = max(gaps + cached) if self._before is None else self._before.first_gap
        self._before = seen
        return max(gaps)

    def _limit(self, seen: "_Seen", before: "_Seen") -> float:
        """Return the largest permitted gap: the tolerance, or less where the update was small."""
        change = max((abs(new - old) for new, old in zip(seen.trainer, before.trainer, strict=True)), default=0.0)
        if change > _CHANGED_SHARE * self.tolerance:
            for number, (new, old) in enumerate(zip(seen.samplers, before.samplers, strict=True)):
                if new == old:
                    raise _kept_weights(number, change)
        return min(self.tolerance, max(change / 2, self.rounding, _ROUNDING_GROWTH * before.first_gap))


@dataclass
class _Seen:
    """What both sides gave at a probe; `first_gap` is the largest gap of the first one."""

    trainer: list[float]
    samplers: list[list[float]]
    first_gap: float = 0.0


@dataclass(frozen=True)
class _Score:
    """One sampler's log-probabilities of the fixed tokens, and twice that of a token it sampled after them."""

    of_ids: list[float]
    token: int
    sampled: float
    scored: float


async def _scored(sampler: "Sampler | Member", ids: Sequence[int]) -> _Score:
    from warpsmith.rollout.samplers.base import Sampling

    # Sampled first: the score of a longer prompt would not do harm to the cache, but need not be reasoned about.
    completion = await sampler.generate(ids, Sampling(max_tokens=1, seed=0))
    *of_ids, scored = await sampler.score([*ids, *completion.ids])
    return _Score(of_ids, completion.ids[0], completion.logprobs[0], scored)


def _compare_cached(score: _Score, limit: float, number: int) -> float:
    """Return the gap between the two log-probabilities of the sampled token."""
    gap = abs(score.sampled - score.scored)
    if not gap <= limit:
        raise ProbeError(
            f"After the sync, sampler {number} samples token {score.token} after the probe's with the log-probability "
            f"{score.sampled:.4f} and scores it {score.scored:.4f}: a gap of {gap:.2g}, of which {limit:.2g} is "
            "permitted.",
            "Its prefix cache holds keys and values of older weights. Resume from the last checkpoint.",
        )
    return gap


def _kept_weights(number: int, change: float) -> ProbeError:
    return ProbeError(
        f"The update changed the trainer's log-probabilities by up to {change:.2g}, and sampler {number} gives every "
        "token that of before: it kept its weights.",
        "Resume from the last checkpoint.",
    )


def compare(
    ids: Sequence[int], expected: Sequence[float], found: Sequence[float], tolerance: float, sampler: int = 0
) -> float:
    """Return the largest gap between two sides' log-probabilities of `ids`.

    Raises:
        ProbeError: it is above the tolerance, or no number; or the sides differ in length.
    """
    if len(found) != len(expected):
        raise ProbeError(
            f"Sampler {sampler} scored {len(found)} of {len(expected)} tokens.", "Check rollout.engine.max_model_len."
        )
    gaps = np.abs(np.asarray(found) - np.asarray(expected))
    worst = int(np.argmax(np.where(np.isfinite(gaps), gaps, np.inf)))
    # Written so that a NaN is refused too.
    if not gaps[worst] <= tolerance:
        raise ProbeError(
            f"After the sync, sampler {sampler} gives token {worst} (id {ids[worst]}) the log-probability "
            f"{found[worst]:.4f} and the trainer {expected[worst]:.4f}: a gap of {gaps[worst]:.2g}, of which "
            f"{tolerance:.2g} is permitted.",
            "The sampler has other weights than the trainer, or computes with them differently. Resume from the last "
            "checkpoint; where the gap is rounding, raise sync.tolerance.",
        )
    return float(gaps[worst])


def tolerance_for(trainer_dtype: str, engine_dtype: str) -> float:
    """Return the default tolerance of the probe: that of the coarser side."""
    return max(TOLERANCE[trainer_dtype], TOLERANCE[engine_dtype])


def rounding_for(trainer_dtype: str, engine_dtype: str) -> float:
    """Return the gap that the coarser side's rounding explains whatever an update changed."""
    return max(ROUNDING[trainer_dtype], ROUNDING[engine_dtype])
