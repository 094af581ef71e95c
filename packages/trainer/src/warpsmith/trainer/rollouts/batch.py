"""Converts a table of turns to the inputs of an update: rows of tokens and credit columns."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from warpsmith.trainer.advantage.types import Credit, Turns
from warpsmith.trainer.distributed.rows import Floats, Ints, Row
from warpsmith.trainer.errors import DataError


@dataclass(frozen=True)
class TrainingTurns:
    """N turns ready for an update.

    Attributes:
        rows: prompt and completion of each turn; the mask is 1 on the completion.
        sampler: log-probabilities as sampled, aligned with the row's ids; 0 on the prompt.
        lengths: completion tokens.
        advantage: advantage of each turn.
        counted: turns that take part.
        update: index of the step's update that a turn belongs to.
        temperature: temperature of the completions.
        agent: name of the agent that took each turn, "" in an environment without agents.
        value: the value head's output for each turn's prompt before the update, NaN if unknown; None without one.
        target: the value head's training target; None without a value head.
    """

    rows: Sequence[Row]
    sampler: Sequence[Floats]
    lengths: NDArray[np.int64]
    advantage: NDArray[np.float64]
    counted: NDArray[np.bool_]
    update: NDArray[np.int64]
    temperature: float
    agent: NDArray[np.str_]
    value: NDArray[np.float64] | None = None
    target: NDArray[np.float64] | None = None


def credit_columns(table: pa.Table) -> Turns:
    """Return the columns that credit reads from a table of TURNS."""
    return Turns(
        group=codes(table["group"]),
        trajectory=codes(table["trajectory"]),
        turn=np.asarray(table["turn"].to_numpy(), dtype=np.int64),
        score=_floats(table["reward"]),
        returns=_floats(table["return"]),
        valid=np.asarray(table["valid"].to_numpy(zero_copy_only=False), dtype=bool),
        agent=codes(pc.fill_null(table["agent"], "")),
    )


def training_turns(table: pa.Table, credit: Credit, *, updates: int = 1, mask_truncated: bool = False) -> TrainingTurns:
    """Return the rows of a table of TURNS with their advantages.

    Args:
        table: complete groups.
        credit: the credit of the same rows.
        updates: number of optimizer updates that the batch is split into, along group boundaries.
        mask_truncated: exclude completions that reached the length limit.

    Raises:
        DataError: the turns were sampled at different temperatures, which one update cannot handle.
    """
    lengths = np.asarray(pc.list_value_length(table["completion_ids"]).to_numpy(), dtype=np.int64)
    counted = credit.counted & (lengths > 0)
    if mask_truncated:
        counted &= ~truncated(table)
    groups = codes(table["group"])
    return TrainingTurns(
        rows=token_rows(table),
        sampler=sampled_logprobs(table),
        lengths=lengths,
        advantage=credit.advantage,
        counted=counted,
        update=groups * updates // (int(groups.max()) + 1),
        temperature=temperature_of(table),
        agent=np.array(pc.fill_null(table["agent"], "").to_pylist(), dtype=np.str_),
        value=credit.value,
        target=credit.target,
    )


def token_rows(table: pa.Table) -> list[Row]:
    """Return prompt and completion of each turn, with the mask on the completion."""
    return [_row(*ids) for ids in zip(_ints(table["prompt_ids"]), _ints(table["completion_ids"]), strict=True)]


def state_rows(table: pa.Table) -> list[Row]:
    """Return the prompt of each turn and one token after it, whose mask marks the state at the end of the prompt."""
    end = np.zeros(1, np.int64)
    return [_row(prompt, end) for prompt in _ints(table["prompt_ids"])]


def sampled_logprobs(table: pa.Table) -> list[Floats]:
    """Return the sampler's log-probabilities, aligned with `token_rows`; 0 on the prompt."""
    return [_aligned(*pair) for pair in zip(_ints(table["prompt_ids"]), _lists(table["logprobs"]), strict=True)]


def truncated(table: pa.Table) -> NDArray[np.bool_]:
    """Return which completions reached the length limit."""
    return np.asarray(pc.fill_null(pc.equal(table["finish_reason"], "length"), False).to_numpy(), dtype=bool)


def codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return each text as the index of its first occurrence among the distinct texts."""
    encoded = column.combine_chunks().dictionary_encode()
    return np.asarray(encoded.indices.to_numpy(), dtype=np.int64)


def _aligned(prompt: Ints, logprobs: NDArray[Any]) -> Floats:
    return np.concatenate([np.zeros(len(prompt), np.float32), logprobs.astype(np.float32)])


def _row(prompt: Ints, completion: Ints) -> Row:
    mask = np.concatenate([np.zeros(len(prompt), np.int64), np.ones(len(completion), np.int64)])
    return Row(ids=np.concatenate([prompt, completion]), mask=mask)


def _ints(column: pa.ChunkedArray) -> list[Ints]:
    return [np.asarray(values, dtype=np.int64) for values in _lists(column)]


def _lists(column: pa.ChunkedArray) -> list[NDArray[Any]]:
    """Return each entry of a list column as an array; the column has no nulls."""
    array = column.combine_chunks()
    values, offsets = array.values.to_numpy(), array.offsets.to_numpy()
    return [values[start:end] for start, end in itertools.pairwise(offsets)]


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    return np.asarray(pc.fill_null(column, float("nan")).to_numpy(), dtype=np.float64)


def temperature_of(table: pa.Table) -> float:
    """Return the temperature at which all turns were sampled.

    Raises:
        DataError: there is more than one.
    """
    temperatures = pc.unique(pc.struct_field(table["sampling"], "temperature")).to_pylist()
    if len(temperatures) != 1:
        raise DataError(
            f"The batch was sampled at {len(temperatures)} temperatures: {temperatures}.",
            "Sample every turn of a batch at one temperature.",
        )
    return float(temperatures[0])
