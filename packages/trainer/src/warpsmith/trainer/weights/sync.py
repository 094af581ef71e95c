"""Sends new weights to the samplers and checks that they arrived: versions of samplers and of tokens."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.distributed.zero_engine import ZeroEngine
from warpsmith.trainer.errors import SyncError
from warpsmith.trainer.weights.deadline import within

if TYPE_CHECKING:
    from torch import Tensor

    from warpsmith.rollout.samplers.base import Sampler
    from warpsmith.rollout.samplers.weights.payload import WeightPayload


def payload_of(
    engine: ZeroEngine, ranks: Ranks, version: int, bucket_elements: int, *, adapter: bool = False
) -> "WeightPayload | None":
    """Return all weights as version `version` on rank 0, None elsewhere; collective.

    Args:
        engine: the model in training.
        ranks: the processes.
        version: version of the weights.
        bucket_elements: maximum elements gathered at a time under ZeRO stage 3.
        adapter: return only the adapter's factors, with an adapter for each agent those of all, and not the weights
            with the adapter added.
    """
    from warpsmith.rollout.samplers.weights.payload import Adapter, WeightPayload

    lora = engine.lora if adapter else None
    weights = dict(engine.weights(bucket_elements)) if lora is None else dict(_factors(engine, bucket_elements))
    kind = None if lora is None else Adapter.of(weights, lora.rank, lora.alpha, engine.agents)
    return WeightPayload.from_state_dict(version, weights, kind) if ranks.drives else None


def _factors(engine: ZeroEngine, bucket_elements: int) -> "Iterator[tuple[str, Tensor]]":
    if not engine.agents:
        yield from engine.adapter_weights(bucket_elements)
    for agent in engine.agents:
        for name, value in engine.adapter_weights(bucket_elements, agent):
            yield f"{agent}/{name}", value


async def publish(payload: "WeightPayload", sampler: "Sampler", deadline_s: float, dtype: str) -> None:
    """Load the payload into every sampler and check its version.

    Args:
        payload: the weights.
        sampler: receives the weights.
        deadline_s: maximum seconds.
        dtype: dtype of the weights in training; a payload of another dtype was not made from them.

    Raises:
        SyncTimeoutError: the deadline passed.
        SyncError: the payload has another dtype, or a sampler has another version afterwards.
    """
    foreign = [f"{entry.name} ({entry.dtype})" for entry in payload.manifest if entry.dtype != dtype]
    if foreign:
        raise SyncError(
            f"Weight version {payload.version} has {foreign[0]}, but the policy trains in {dtype}.",
            "Nothing was sent. Make the payload from the weights in training.",
        )
    await within(sampler.update_weights(payload), deadline_s, f"loading weight version {payload.version}")
    check_version(sampler, payload.version)


def check_version(sampler: "Sampler", version: int) -> None:
    """Reject a sampler that samples from another version than `version`.

    Raises:
        SyncError: it does.
    """
    if sampler.weight_version != version:
        raise SyncError(
            f"After the sync of weight version {version} a sampler samples with version {sampler.weight_version}.",
            "Nothing was sampled from it. Resume from the last checkpoint.",
        )


def check_tokens(turns: pa.Table, version: int, staleness: int = 0) -> None:
    """Reject a table of TURNS with a token that was sampled by other weights than `version`.

    Args:
        turns: the table.
        version: version of the policy.
        staleness: number of versions that a token may be older; all tokens of one turn must still be of one version.

    Raises:
        SyncError: there is such a token.
    """
    permitted = set(range(version - staleness, version + 1))
    others = sorted(set(pc.unique(pc.list_flatten(turns["weight_versions"])).to_pylist()) - permitted)
    if others:
        older = f" (tokens may be {staleness} older)" if staleness else ""
        raise SyncError(
            f"The policy has weight version {version}{older}, but tokens were sampled with version {others[0]}.",
            "Nothing was trained on them. Resume from the last checkpoint.",
        )
    mixed = [versions for versions in turns["weight_versions"].to_pylist() if staleness and len(set(versions)) > 1]
    if mixed:
        raise SyncError(
            f"One turn was sampled with the weight versions {min(mixed[0])} to {max(mixed[0])}: weights changed while "
            "it ran.",
            "Nothing was trained on it. Resume from the last checkpoint.",
        )
