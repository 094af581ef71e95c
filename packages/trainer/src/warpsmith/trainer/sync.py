"""New weights to the engines, and the proof that they arrived."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch

from warpsmith.trainer.engine.ranks import Ranks
from warpsmith.trainer.engine.rows import Row, pad_rows
from warpsmith.trainer.engine.zero import ZeroEngine
from warpsmith.trainer.errors import ProbeError, SyncError, SyncTimeoutError

if TYPE_CHECKING:
    from warpsmith.rollout.engines.base import Engine
    from warpsmith.rollout.engines.weights import WeightPayload

T = TypeVar("T")

TOLERANCE = {"float32": 1e-3, "bfloat16": 0.5, "float16": 0.1}
"""Largest gap of one token's log-probability that rounding explains, by the coarser dtype of the two sides."""


def payload_of(engine: ZeroEngine, ranks: Ranks, version: int, bucket_elements: int) -> "WeightPayload | None":
    """Return all weights as version `version` on rank 0, None elsewhere; collective."""
    from warpsmith.rollout.engines.weights import WeightPayload

    weights = dict(engine.weights(bucket_elements))
    return WeightPayload.from_state_dict(version, weights) if ranks.drives else None


def trainer_logprobs(engine: ZeroEngine, ranks: Ranks, ids: Sequence[int]) -> list[float]:
    """Return log p(ids[t] | ids[<t]) at temperature 1 by the model in training, 0 for the first; collective."""
    row = Row(np.asarray(ids, dtype=np.int64), np.ones(len(ids), dtype=np.int64))
    engine.train(False)
    with torch.no_grad():
        logprobs_BT, _ = engine.logprobs(pad_rows([row], ranks.device), 1.0)
    engine.train()
    return [float(value) for value in logprobs_BT[0].cpu()]


async def publish(payload: "WeightPayload", engine: "Engine", deadline_s: float) -> None:
    """Load the payload into every engine and check its version.

    Raises:
        SyncTimeoutError: the deadline passed.
        SyncError: an engine samples with another version afterwards.
    """
    await _within(engine.update_weights(payload), deadline_s, f"loading weight version {payload.version}")
    check_version(engine, payload.version)


def check_version(engine: "Engine", version: int) -> None:
    """Refuse an engine that samples with another version than `version`.

    Raises:
        SyncError: it does.
    """
    if engine.weight_version != version:
        raise SyncError(
            f"After the sync of weight version {version} an engine samples with version {engine.weight_version}.",
            "Nothing was sampled from it. Resume from the last checkpoint.",
        )


async def probe(
    engines: Sequence["Engine"], ids: Sequence[int], expected: Sequence[float], tolerance: float, deadline_s: float
) -> float:
    """Compare each engine's log-probabilities of fixed tokens with the trainer's; return the largest gap.

    Raises:
        ProbeError: a gap is above the tolerance; the message names engine and token.
        SyncTimeoutError: the deadline passed.
    """
    scores = await _within(asyncio.gather(*(engine.score(ids) for engine in engines)), deadline_s, "the log-prob probe")
    return max(compare(ids, expected, found, tolerance, number) for number, found in enumerate(scores))


def compare(
    ids: Sequence[int], expected: Sequence[float], found: Sequence[float], tolerance: float, engine: int = 0
) -> float:
    """Return the largest gap between two sides' log-probabilities of `ids`.

    Raises:
        ProbeError: it is above the tolerance, or no number; or the sides differ in length.
    """
    if len(found) != len(expected):
        raise ProbeError(
            f"Engine {engine} scored {len(found)} of {len(expected)} tokens.", "Check rollout.engine.max_model_len."
        )
    gaps = np.abs(np.asarray(found) - np.asarray(expected))
    worst = int(np.argmax(np.where(np.isfinite(gaps), gaps, np.inf)))
    # Written so that a NaN is refused too.
    if not gaps[worst] <= tolerance:
        raise ProbeError(
            f"After the sync, engine {engine} gives token {worst} (id {ids[worst]}) the log-probability "
            f"{found[worst]:.4f} and the trainer {expected[worst]:.4f}: a gap of {gaps[worst]:.4f}, of which "
            f"{tolerance:g} is permitted.",
            "The engine has other weights than the trainer, or computes with them differently. Resume from the last "
            "checkpoint; where the gap is rounding, raise sync.tolerance.",
        )
    return float(gaps[worst])


def tolerance_for(trainer_dtype: str, engine_dtype: str) -> float:
    """Return the default tolerance of the probe: that of the coarser side."""
    return max(TOLERANCE[trainer_dtype], TOLERANCE[engine_dtype])


async def _within(work: Awaitable[T], seconds: float, what: str) -> T:
    try:
        return await asyncio.wait_for(work, seconds)
    except TimeoutError:
        raise SyncTimeoutError(
            f"{what[0].upper()}{what[1:]} took longer than {seconds:g} s.",
            "Look at the engine's log; raise sync.deadline_s for large models.",
        ) from None
