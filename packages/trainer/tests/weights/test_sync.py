"""The probe's comparison, the version checks and the deadlines, against engines that misbehave."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from warpsmith.rollout.samplers.base import Completion, Sampling
from warpsmith.rollout.samplers.weights.payload import TensorEntry, WeightPayload
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.errors import ProbeError, SyncError, SyncTimeoutError
from warpsmith.trainer.rollouts.session import load_problems, make_probes
from warpsmith.trainer.weights import sync
from warpsmith.trainer.weights.gaps import Bounds
from warpsmith.trainer.weights.probe import SAMPLED_TOKENS, Probe, compare, is_exact, rounding_for, tolerance_for

IDS, EXPECTED = [5, 6, 7, 8], [0.0, -1.0, -2.0, -3.0]
PAYLOAD = WeightPayload(3, (), np.zeros(0, np.uint8))


@dataclass
class ScriptedEngine:
    """An engine that answers what it is asked to, or never. It samples token 9, with the log-probability `sampled`."""

    scores: Sequence[float] = field(default_factory=lambda: list(EXPECTED))
    sampled: float = -4.0
    weight_version: int = 0
    loads: bool = True
    answers: bool = True

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
        assert sampling.max_tokens == SAMPLED_TOKENS
        return Completion([9], [self.sampled], [self.weight_version], "length")

    async def score(self, ids: Sequence[int]) -> list[float]:
        if not self.answers:
            await asyncio.Event().wait()
        assert list(ids) == [*IDS, 9]
        return [*self.scores, -4.0]

    async def update_weights(self, payload: WeightPayload) -> None:
        if not self.answers:
            await asyncio.Event().wait()
        if self.loads:
            self.weight_version = payload.version

    async def close(self) -> None:
        return


def probe(tolerance: float = 0.5, rounding: float = 0.01, deadline_s: float = 5.0) -> Probe:
    return Probe(IDS, tolerance, rounding, deadline_s)


def shifted(by: float) -> list[float]:
    return [EXPECTED[0], *(value + by for value in EXPECTED[1:])]


def test_the_gap_is_the_largest_over_tokens_and_engines() -> None:
    engines = [ScriptedEngine(), ScriptedEngine([0.0, -1.0, -2.25, -3.1])]
    assert asyncio.run(probe().compare(engines, EXPECTED)) == pytest.approx(0.25)


def after_an_update(engine: ScriptedEngine, scores: Sequence[float], expected: Sequence[float]) -> float:
    """Probe an engine, then again with what it and the trainer give after an update; return the second gap."""
    it = probe()
    asyncio.run(it.compare([engine], EXPECTED))
    engine.scores = scores
    return asyncio.run(it.compare([engine], expected))


def test_an_engine_that_answers_as_before_a_small_update_kept_its_weights() -> None:
    with pytest.raises(ProbeError, match=r"by up to 0\.02, but sampler 0 gives every token the same as before"):
        after_an_update(ScriptedEngine(), EXPECTED, shifted(0.02))
    # Below that the trainer's own change may be rounding.
    assert after_an_update(ScriptedEngine(), EXPECTED, shifted(0.005)) == pytest.approx(0.005)


def test_a_gap_of_the_size_of_the_update_is_no_rounding() -> None:
    with pytest.raises(ProbeError, match=r"a gap of 0\.07, with 0\.05 allowed"):
        after_an_update(ScriptedEngine(), shifted(0.03), shifted(0.1))
    assert after_an_update(ScriptedEngine(), shifted(0.06), shifted(0.1)) == pytest.approx(0.04)
    # A large update does not widen the tolerance.
    with pytest.raises(ProbeError, match=r"with 0\.5 allowed"):
        after_an_update(ScriptedEngine(), shifted(1.4), shifted(2.0))


def test_rounding_that_was_there_at_the_first_probe_may_be_there_later() -> None:
    engine = ScriptedEngine(shifted(0.05))
    assert after_an_update(engine, shifted(0.19), EXPECTED) == pytest.approx(0.19)
    with pytest.raises(ProbeError, match=r"with 0\.2 allowed"):
        after_an_update(ScriptedEngine(shifted(0.05)), shifted(0.21), EXPECTED)


def test_a_token_sampled_from_an_old_cache_is_noticed() -> None:
    with pytest.raises(ProbeError, match=r"sampler 1 samples token 9 .* prefix cache"):
        asyncio.run(probe().compare([ScriptedEngine(), ScriptedEngine(sampled=-3.0)], EXPECTED))
    with pytest.raises(ProbeError, match="prefix cache"):
        asyncio.run(probe().compare([ScriptedEngine(sampled=float("nan"))], EXPECTED))


INF = float("inf")


@pytest.mark.parametrize("bounds", [Bounds(INF, INF, INF, 0.5), Bounds(0.1, INF, INF)])
@pytest.mark.parametrize("wrong", [-2.6, float("nan"), float("-inf")])
def test_the_worst_token_is_named(wrong: float, bounds: Bounds) -> None:
    with pytest.raises(ProbeError, match=r"sampler 0 gives token 2 \(id 7\)"):
        compare(IDS, EXPECTED, [0.0, -1.1, wrong, -3.0], bounds)


def test_a_score_of_another_length_is_refused() -> None:
    with pytest.raises(ProbeError, match="3 of 4"):
        compare(IDS, EXPECTED, EXPECTED[:3], Bounds(INF, INF, INF, 0.5))


def test_a_publish_is_believed_when_the_version_is_there() -> None:
    engine = ScriptedEngine()
    asyncio.run(sync.publish(PAYLOAD, engine, 5.0, "float32"))
    assert engine.weight_version == 3


def test_an_engine_that_keeps_its_old_weights_is_noticed() -> None:
    with pytest.raises(SyncError, match="version 3 a sampler samples with version 0"):
        asyncio.run(sync.publish(PAYLOAD, ScriptedEngine(loads=False), 5.0, "float32"))


def test_weights_of_another_type_are_not_sent() -> None:
    engine = ScriptedEngine()
    entries = (TensorEntry("a", "float32", (1,), 0, 0), TensorEntry("b", "bfloat16", (1,), 64, 0))
    with pytest.raises(SyncError, match=r"version 3 has b \(bfloat16\), but the policy trains in float32"):
        asyncio.run(sync.publish(WeightPayload(3, entries, np.zeros(66, np.uint8)), engine, 5.0, "float32"))
    assert engine.weight_version == 0


def test_tokens_of_other_weights_are_not_trained_on(turns_table: Callable[[list[dict[str, Any]]], pa.Table]) -> None:
    rows = [{"weight_versions": [2, 2]}, {"completion_ids": [], "logprobs": [], "weight_versions": []}]
    sync.check_tokens(turns_table(rows), 2)
    sync.check_tokens(turns_table(rows[1:]), 2)
    with pytest.raises(SyncError, match="weight version 2, but tokens were sampled with version 1"):
        sync.check_tokens(turns_table([*rows, {"weight_versions": [2, 1]}]), 2)


def test_deadlines_name_what_was_awaited() -> None:
    silent = ScriptedEngine(answers=False)
    with pytest.raises(SyncTimeoutError, match=r"Loading weight version 3 took longer than 0\.01 s"):
        asyncio.run(sync.publish(PAYLOAD, silent, 0.01, "float32"))
    with pytest.raises(SyncTimeoutError, match="The log-prob probe"):
        asyncio.run(probe(deadline_s=0.01).compare([silent], EXPECTED))


def test_the_coarser_side_sets_the_tolerance() -> None:
    assert tolerance_for("float32", "float32") < 0.01
    assert tolerance_for("float32", "bfloat16") == tolerance_for("bfloat16", "float32") == 0.1
    assert rounding_for("float32", "float32") < rounding_for("float32", "bfloat16") < 0.1
    assert is_exact("float32", "float32")
    assert not is_exact("float32", "bfloat16") and not is_exact("bfloat16", "float32")


@pytest.mark.parametrize(("asked", "room", "size"), [(160, 2048, 160), (8, 2048, 8), (160, 64, 55)])
def test_the_probe_is_as_long_as_asked_whatever_the_prompts(asked: int, room: int, size: int) -> None:
    class Chat:
        def prompt_ids(self, messages: list[Any]) -> list[int]:
            return [len(message["content"]) for message in messages for _ in range(25)]

    config = TrainerConfig(
        run={"dir": "unused"}, policy={"path": "unused", "dtype": "float32"}, problems={"count": 2, "levels": [1]},
        rollout={
            "prompt_style": "compact", "sampling": {"max_tokens": 8},
            "sampler": {"dtype": "float32", "max_model_len": room},
        },
        sync={"probe_tokens": asked, "tolerance": 2e-3, "deadline_s": 7},
    )  # fmt: skip
    (made,) = make_probes(config, load_problems(config), Chat())  # type: ignore[arg-type]
    assert (len(made.ids), made.tolerance, made.deadline_s, made.exact) == (size, 2e-3, 7, True)
    assert len(set(made.ids)) == (1 if size == 8 else 2)
