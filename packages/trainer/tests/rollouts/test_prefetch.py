"""Asynchronous training: which rollouts may start, how old their tokens can get, and what becomes of errors."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.records.writer import RunWriter
from warpsmith.rollout.errors import SamplerDiedError
from warpsmith.trainer.config.grpo import AlgorithmSection
from warpsmith.trainer.errors import StalenessError, SyncError
from warpsmith.trainer.rollouts.batch_source import Sampled, as_stream
from warpsmith.trainer.rollouts.event_loop import BackgroundLoop
from warpsmith.trainer.rollouts.prefetch import RunAhead, check_staleness
from warpsmith.trainer.rollouts.recorded_batches import RecordedBatches
from warpsmith.trainer.rollouts.staleness import Admission
from warpsmith.trainer.weights import sync
from warpsmith.trainer.weights.checkpoint import Progress

Table = Callable[[list[dict[str, Any]]], pa.Table]


# The bound -----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 4), st.integers(0, 5), st.integers(0, 5), st.data())
def test_no_order_of_sampling_and_training_makes_a_token_older_than_the_bound(
    bound: int, step: int, version: int, data: st.DataObject
) -> None:
    """A sampler that takes a turn whenever it may, and a trainer that makes an update or none; in any order."""
    state, first = Admission(bound, step, version), step
    batches: dict[int, list[int]] = {}
    for _ in range(data.draw(st.integers(1, 60))):
        admitted = [s for s in range(state.step + 1, state.step + bound + 4) if state.admits(s)]
        assert admitted == list(range(state.step + 1, state.step + 2 + bound))
        if data.draw(st.booleans()):
            chosen = data.draw(st.sampled_from(admitted))
            batches.setdefault(chosen, []).append(state.version)
            continue
        ready = state.step + 1
        tokens = batches.pop(ready, [])
        assert all(0 <= state.version - token <= bound for token in tokens)
        state = state.after(ready, state.version + data.draw(st.integers(0, 1)))
    assert state.step >= first


@given(st.integers(0, 4), st.integers(0, 9), st.integers(0, 9), st.lists(st.integers(0, 1), max_size=6))
def test_the_newest_version_of_a_step_bounds_what_it_begins_with_from_above(
    bound: int, step: int, version: int, updates: list[int]
) -> None:
    state = Admission(bound, step, version)
    later = step + len(updates) + 1
    newest = state.newest(later)
    for update in updates:
        state = state.after(state.step + 1, state.version + update)
        assert state.newest(later) <= newest
    assert state.newest(later) == state.version <= newest


def test_without_staleness_only_the_next_step_is_admitted_and_its_version_is_known() -> None:
    state = Admission(0, 3, 2)
    assert (state.admits(4), state.admits(5), state.newest(4)) == (True, False, 2)


# What is trained -----------------------------------------------------------------------------------------------------


def versions(turns_table: Table, *of_turns: list[int]) -> pa.Table:
    return turns_table(
        [
            {"turn": 0, "trajectory": f"g0/{i}", "weight_versions": v, "completion_ids": v, "logprobs": [-1.0] * len(v)}
            for i, v in enumerate(of_turns)
        ]
    )


def test_a_batch_beyond_the_bound_is_refused(turns_table: Table) -> None:
    table = versions(turns_table, [3, 3], [4], [])
    check_staleness(table, 4, 1, 7)
    check_staleness(versions(turns_table, []), 4, 0, 7)
    with pytest.raises(StalenessError, match="versions 3 to 4; max_staleness allows 5 to 6"):
        check_staleness(table, 6, 1, 7)
    with pytest.raises(StalenessError, match="allows 2 to 3"):
        check_staleness(table, 3, 1, 7)


def test_turns_of_several_versions_are_refused_and_trajectories_are_not(turns_table: Table) -> None:
    sync.check_tokens(versions(turns_table, [3, 3], [4, 4]), 4, 1)
    with pytest.raises(SyncError, match="weight versions 3 to 4: weights changed"):
        sync.check_tokens(versions(turns_table, [3, 4]), 4, 1)
    with pytest.raises(SyncError, match=r"\(tokens may be 1 older\), but tokens were sampled with version 2"):
        sync.check_tokens(versions(turns_table, [2, 2]), 4, 1)


def test_a_recorded_batch_is_taken_within_the_bound(turns_table: Table, tmp_path: Path) -> None:
    rows = [
        {
            "problem": "p", "group": "step-5/0", "trajectory": f"step-5/0/{i}", "sample": i, "after_step": 4,
            "weight_versions": [v, v],
        }
        for i, v in enumerate((3, 4))
    ]  # fmt: skip
    with RunWriter(tmp_path) as writer:
        writer.append("turns", turns_table(rows))
    wanted = {"problems": ["p"], "samples": 2}

    def take(version: int, staleness: int) -> pa.Table | None:
        return RecordedBatches(tmp_path, 3).take("step-5", weight_version=version, staleness=staleness, **wanted)

    assert take(4, 1) is not None
    assert take(5, 2) is not None
    assert take(4, 0) is None
    assert take(5, 1) is None
    assert take(3, 1) is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"old_logprobs": "recompute"}, "treats stale tokens as fresh"),
        ({"clip": "none"}, "bounds no ratio of a stale token"),
        ({"type": "rloo"}, "bounds no ratio of a stale token"),
        ({"max_staleness": -1}, "greater than or equal to 0"),
    ],
)
def test_files_that_would_train_stale_tokens_wrongly_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        AlgorithmSection(**{"max_staleness": 1} | changes)


@pytest.mark.parametrize(
    "changes", [{}, {"type": "cispo"}, {"old_logprobs": "recompute", "correction": "truncated", "clip": "none"}]
)
def test_files_that_correct_stale_tokens_are_taken(changes: dict[str, Any]) -> None:
    assert AlgorithmSection(max_staleness=2, **changes).max_staleness == 2


# The thread ----------------------------------------------------------------------------------------------------------


class Sampler:
    """Makes batches of one turn, of the version that the engines have when it is asked; keeps what it was asked for."""

    def __init__(self, turns_table: Table, *, fails_at: int = 99) -> None:
        self.version = 0
        self.asked: list[tuple[int, Progress]] = []
        self._table, self._fails_at = turns_table, fails_at

    def collect(self, step: int, progress: Progress) -> Sampled:
        self.asked.append((step, progress))
        if step == self._fails_at:
            raise SamplerDiedError("sampler 0 died 4 times.", "See its log.")
        table = versions(self._table, [self.version, self.version])
        return Sampled(as_stream(table), 3, 1, 0.0)


def ahead(sampler: Any, bound: int, steps: int = 6, progress: Progress | None = None) -> RunAhead:
    return RunAhead(
        sampler.collect, max_staleness=bound, progress=progress or Progress(), steps=steps, cut_off=lambda thread: None
    )


@pytest.mark.parametrize("bound", [1, 2, 3])
def test_sampling_runs_ahead_as_far_as_the_bound_and_no_further(turns_table: Table, bound: int) -> None:
    sampler = Sampler(turns_table)
    running = ahead(sampler, bound, progress=Progress(step=2, cursor=10, weight_version=2), steps=8)
    sampler.version = version = 2
    assert not sampler.asked
    for step in range(3, 9):
        progress = Progress(step=step - 1, weight_version=version)
        table = running.collect(step, progress).table()
        assert 0 <= version - table["weight_versions"].to_pylist()[0][0] <= bound
        # The thread goes as far as it may before the next weights, or a bound that is too wide would not show.
        deadline = time.monotonic() + 30
        while len(sampler.asked) < min(6, step - 3 + 1 + bound):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        time.sleep(0.02)
        assert len(sampler.asked) <= step - 3 + 1 + bound
        version = sampler.version = version + 1
        running.published(step, version)
    running.stop()
    assert [step for step, _ in sampler.asked] == [3, 4, 5, 6, 7, 8]
    assert [progress.cursor for _, progress in sampler.asked] == [10, 13, 16, 19, 22, 25]
    assert [progress.step for _, progress in sampler.asked] == [2, 3, 4, 5, 6, 7]
    assert all(step - 1 - progress.weight_version == 0 for step, progress in sampler.asked)


def test_an_error_of_a_later_batch_is_raised_at_the_next_step(turns_table: Table) -> None:
    running = ahead(Sampler(turns_table, fails_at=2), 1)
    with pytest.raises(SamplerDiedError, match="died 4 times"):
        for _ in range(2):
            running.collect(1, Progress())
    with pytest.raises(SamplerDiedError):
        running.collect(2, Progress())
    running.stop()


def test_a_batch_that_got_too_old_is_never_handed_out(turns_table: Table) -> None:
    running = ahead(Sampler(turns_table), 1)
    with pytest.raises(StalenessError, match="Step 1 starts with weight version 5"):
        running.collect(1, Progress(weight_version=5))
    running.stop()


def test_a_stop_ends_a_collection_that_waits(turns_table: Table) -> None:
    """The thread waits for a coroutine that never ends; nobody but `stop` can end it."""
    begun = threading.Event()

    async def never() -> None:
        begun.set()
        await asyncio.Event().wait()

    class Hanging:
        def collect(self, step: int, progress: Progress) -> Sampled:
            loop.run(never())
            raise AssertionError("it ended")

    with BackgroundLoop() as loop:
        running = RunAhead(Hanging().collect, max_staleness=1, progress=Progress(), steps=2, cut_off=loop.cut_off)
        waiting = threading.Thread(target=_is_cancelled, args=(running,))
        waiting.start()
        assert begun.wait(10)
        running.stop()
        waiting.join(10)
        assert not waiting.is_alive()
        assert "rollouts" not in {thread.name for thread in threading.enumerate()}


def _is_cancelled(running: RunAhead) -> None:
    with pytest.raises(CancelledError):
        running.collect(1, Progress())


def test_a_stop_before_the_first_step_has_nothing_to_end(turns_table: Table) -> None:
    sampler = Sampler(turns_table)
    ahead(sampler, 1).stop()
    assert not sampler.asked


# The loop ------------------------------------------------------------------------------------------------------------


def test_threads_wait_each_for_their_own_work() -> None:
    async def value(number: int) -> int:
        await asyncio.sleep(0)
        return number

    async def fails() -> None:
        raise SamplerDiedError("gone.", "Start it.")

    async def sets(event: asyncio.Event) -> None:
        event.set()

    with BackgroundLoop() as loop:
        event = asyncio.Event()
        found: list[int] = []

        async def waits() -> int:
            await event.wait()
            return 7

        thread = threading.Thread(target=lambda: found.append(loop.run(waits())))
        thread.start()
        assert loop.run(value(3)) == 3
        with pytest.raises(SamplerDiedError):
            loop.run(fails())
        loop.run(sets(event))
        thread.join(10)
        assert found == [7]


def test_a_thread_that_was_cut_off_is_refused_and_others_are_not() -> None:
    async def value() -> int:
        return 1

    refused: list[bool] = []

    def ask() -> None:
        loop.cut_off(threading.current_thread())
        try:
            loop.run(value())
        except CancelledError:
            refused.append(True)

    with BackgroundLoop() as loop:
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join(10)
        assert refused == [True]
        assert loop.run(value()) == 1


def test_the_end_of_the_loop_cancels_what_still_runs() -> None:
    ended: list[str] = []

    async def lasts() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def begins() -> None:
        tasks.append(asyncio.create_task(lasts()))
        await asyncio.sleep(0)

    tasks: list[asyncio.Task[None]] = []
    with BackgroundLoop() as loop:
        loop.run(begins())
    assert ended == ["cancelled"]
