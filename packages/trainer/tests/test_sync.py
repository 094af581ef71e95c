"""The probe's comparison, the version check and the deadline, against engines that misbehave."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from warpsmith.rollout.engines.base import Completion, Sampling
from warpsmith.rollout.engines.weights import WeightPayload
from warpsmith.trainer import sync
from warpsmith.trainer.errors import ProbeError, SyncError, SyncTimeoutError

IDS, EXPECTED = [5, 6, 7, 8], [0.0, -1.0, -2.0, -3.0]
PAYLOAD = WeightPayload(3, (), np.zeros(0, np.uint8))


@dataclass
class ScriptedEngine:
    """An engine that answers what it is told to, or never."""

    scores: Sequence[float] = field(default_factory=lambda: list(EXPECTED))
    weight_version: int = 0
    loads: bool = True
    answers: bool = True

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
        raise NotImplementedError

    async def score(self, ids: Sequence[int]) -> list[float]:
        if not self.answers:
            await asyncio.Event().wait()
        return list(self.scores)

    async def update_weights(self, payload: WeightPayload) -> None:
        if not self.answers:
            await asyncio.Event().wait()
        if self.loads:
            self.weight_version = payload.version

    async def close(self) -> None:
        return


def test_the_gap_is_the_largest_over_tokens_and_engines() -> None:
    engines = [ScriptedEngine(), ScriptedEngine([0.0, -1.0, -2.25, -3.1])]
    assert asyncio.run(sync.probe(engines, IDS, EXPECTED, 0.5, 5.0)) == pytest.approx(0.25)


@pytest.mark.parametrize("wrong", [-2.6, float("nan"), float("-inf")])
def test_the_worst_token_is_named(wrong: float) -> None:
    with pytest.raises(ProbeError, match=r"engine 0 gives token 2 \(id 7\)"):
        sync.compare(IDS, EXPECTED, [0.0, -1.1, wrong, -3.0], 0.5)


def test_a_score_of_another_length_is_refused() -> None:
    with pytest.raises(ProbeError, match="3 of 4"):
        sync.compare(IDS, EXPECTED, EXPECTED[:3], 0.5)


def test_a_publish_is_believed_when_the_version_is_there() -> None:
    engine = ScriptedEngine()
    asyncio.run(sync.publish(PAYLOAD, engine, 5.0))
    assert engine.weight_version == 3


def test_an_engine_that_keeps_its_old_weights_is_noticed() -> None:
    with pytest.raises(SyncError, match="version 3 an engine samples with version 0"):
        asyncio.run(sync.publish(PAYLOAD, ScriptedEngine(loads=False), 5.0))


def test_deadlines_name_what_was_awaited() -> None:
    silent = ScriptedEngine(answers=False)
    with pytest.raises(SyncTimeoutError, match=r"Loading weight version 3 took longer than 0\.01 s"):
        asyncio.run(sync.publish(PAYLOAD, silent, 0.01))
    with pytest.raises(SyncTimeoutError, match="The log-prob probe"):
        asyncio.run(sync.probe([silent], IDS, EXPECTED, 0.5, 0.01))


def test_the_coarser_side_sets_the_tolerance() -> None:
    assert sync.tolerance_for("float32", "float32") < 0.01
    assert sync.tolerance_for("float32", "bfloat16") == sync.tolerance_for("bfloat16", "float32") == 0.5
