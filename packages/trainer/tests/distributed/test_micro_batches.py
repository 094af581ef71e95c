"""Micro-batches, ranks, rows, order, learning rates: the arithmetic around the engine."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.trainer.config.sections import OptimizerSection
from warpsmith.trainer.data.order import taken
from warpsmith.trainer.distributed.micro_batches import deal, micro_batches
from warpsmith.trainer.distributed.optimizer import learning_rate
from warpsmith.trainer.distributed.rows import Row, pad_rows

lengths = st.lists(st.integers(1, 50), max_size=40)


@given(lengths, st.integers(16, 200))
def test_micro_batches_hold_every_row_once_within_the_budget(rows: list[int], budget: int) -> None:
    batches = micro_batches(rows, budget)
    assert sorted(row for batch in batches for row in batch) == list(range(len(rows)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(rows[row] for row in batch) <= budget


@given(lengths, st.integers(16, 200), st.integers(1, 5))
def test_packed_micro_batches_hold_every_row_once_within_the_budget(rows: list[int], budget: int, world: int) -> None:
    batches = micro_batches(rows, budget, packed=True, world=world)
    assert sorted(row for batch in batches for row in batch) == list(range(len(rows)))
    tokens = [sum(rows[row] for row in batch) for batch in batches]
    assert all(total <= budget or len(batch) == 1 for total, batch in zip(tokens, batches, strict=True))
    # As few as could be half filled, or one more a rank than those.
    assert 2 * sum(tokens) > (len(batches) - world) * budget


@given(lengths, st.integers(1, 5))
def test_packed_micro_batches_are_spread_over_the_ranks(rows: list[int], world: int) -> None:
    batches = micro_batches(rows, sum(rows) + 1, packed=True, world=world)
    assert len(batches) == min(world, len(rows))
    tokens = [sum(rows[row] for row in batch) for batch in batches]
    assert not rows or max(tokens) - min(tokens) <= max(rows)


def test_packed_micro_batches_stay_within_the_budget_where_like_sizes_would_not() -> None:
    assert micro_batches([6, 4, 4, 3, 3], 10, packed=True) == [[0, 1], [2, 3, 4]]


@given(lengths, st.integers(1, 9))
def test_every_rank_gets_as_many_micro_batches(rows: list[int], world: int) -> None:
    batches = micro_batches(rows, 64)
    dealt = deal(batches, world)
    assert len({len(mine) for mine in dealt}) == 1
    assert len(dealt[0]) >= 1
    assert sorted(map(tuple, batches)) == sorted(tuple(b) for mine in dealt for b in mine if b)


@given(st.integers(0, 500), st.integers(1, 30), st.integers(1, 20), st.integers(0, 3))
def test_order_goes_on_where_it_stopped(cursor: int, count: int, size: int, seed: int) -> None:
    whole = taken(0, cursor + count, size, seed)
    assert taken(cursor, count, size, seed) == whole[cursor:]
    for epoch in range(len(whole) // size):
        assert sorted(whole[epoch * size : (epoch + 1) * size]) == list(range(size))


def test_order_differs_by_epoch_and_seed() -> None:
    first, second = taken(0, 100, 50, 0)[:50], taken(0, 100, 50, 0)[50:]
    assert first != second
    assert taken(0, 50, 50, 1) != first


def test_rows_are_padded_on_the_right() -> None:
    rows = [Row(np.array([5, 6, 7]), np.array([0, 1, 1])), Row(np.array([8]), np.array([1]))]
    padded = pad_rows(rows, torch.device("cpu"))
    assert padded.ids_BT.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert padded.attention_BT.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert padded.mask_BT.tolist() == [[0, 1, 1], [1, 0, 0]]


def test_no_rows_become_one_that_carries_no_loss() -> None:
    padded = pad_rows([], torch.device("cpu"))
    assert padded.ids_BT.shape == (1, 2)
    assert not padded.mask_BT.any()


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ({"type": "constant"}, [0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
        ({"type": "linear", "min_lr_ratio": 0.1}, [0.5, 1.0, 1.0, 0.775, 0.55, 0.325, 0.1]),
        ({"type": "wsd", "min_lr_ratio": 0.1, "decay_ratio": 0.2}, [0.5, 1.0, 1.0, 1.0, 1.0, 0.55, 0.1]),
        (
            {"type": "cosine", "min_lr_ratio": 0.1},
            [0.5, 1.0, 1.0, 0.1 + 0.9 * (2 + 2**0.5) / 4, 0.55, 0.1 + 0.9 * (2 - 2**0.5) / 4, 0.1],
        ),
    ],
)
def test_learning_rates_by_hand(schedule: dict[str, Any], expected: list[float]) -> None:
    section = OptimizerSection(
        lr=1.0,
        schedule=schedule,
        warmup_steps=2,
    )
    assert [learning_rate(section, update, 7) for update in range(7)] == pytest.approx(expected)
    by_share = section.model_copy(update={"warmup_steps": 0, "warmup_ratio": 0.25})
    assert [learning_rate(by_share, update, 7) for update in range(7)] == pytest.approx(expected)


def test_the_learning_rate_stays_at_its_end_beyond_the_last_update() -> None:
    section = OptimizerSection(lr=1.0, schedule={"type": "cosine", "min_lr_ratio": 0.25})
    assert learning_rate(section, 500, 10) == pytest.approx(0.25)
