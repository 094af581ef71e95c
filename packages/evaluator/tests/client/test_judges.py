"""An evaluator of several judge processes."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from process_tree import is_gone
from pydantic import ValidationError

from warpsmith.evaluator import Evaluator, EvaluatorConfig
from warpsmith.evaluator.client.evaluator import _Judge
from warpsmith.evaluator.fingerprint import conditions_of
from warpsmith.records.errors import UsageError

DEADLINE_S = 60


@pytest.fixture
def asked(monkeypatch) -> list[int]:
    """The processes that were asked, in order."""
    found, ask = [], _Judge.ask

    def noted(self, *arguments, **named):
        found.append(self.process.pid)
        return ask(self, *arguments, **named)

    monkeypatch.setattr(_Judge, "ask", noted)
    return found


def test_two_judges_share_the_work_and_one_that_is_killed_is_replaced(add_problem, add_candidate, asked):
    with Evaluator(EvaluatorConfig(slots=2, judges=2, ready_workers=1)) as evaluator:
        pids = [place.judge.process.pid for place in evaluator._places]
        assert len(set(pids)) == 2
        # One after the other, a problem is judged where it is known.
        assert [evaluator.evaluate(add_problem, add_candidate).status for _ in range(2)] == ["correct"] * 2
        assert len(set(asked)) == 1
        own = asked[0]
        asked.clear()
        with ThreadPoolExecutor(2) as threads:
            verdicts = list(threads.map(lambda _: evaluator.evaluate(add_problem, add_candidate), range(2)))
        assert [verdict.status for verdict in verdicts] == ["correct"] * 2
        assert set(asked) == set(pids)
        place = next(place for place in evaluator._places if place.judge.process.pid == own)
        place.judge.process.kill()
        place.judge.process.wait()
        asked.clear()
        assert evaluator.evaluate(add_problem, add_candidate).status == "correct"
        assert evaluator.judges_lost == 1
        assert asked[-1] not in pids
        processes = [place.judge.process for place in evaluator._places]
    assert all(process.poll() is not None or is_gone(process.pid) for process in processes)


def test_a_judge_that_cannot_start_stops_the_others(monkeypatch):
    started, start, both = [], _Judge.start, threading.Barrier(2)

    def failing(config, windows, **named):
        assert named == {"beside_others": True}
        both.wait(DEADLINE_S)
        if config.gpu:
            raise OSError("no more processes")
        started.append(start(config, windows, **named))
        return started[-1]

    monkeypatch.setattr(_Judge, "start", failing)
    evaluator = Evaluator(EvaluatorConfig(slots=2, judges=2, ready_workers=1))
    configs = iter([{"gpu": 0}, {"gpu": 1}])
    lock = threading.Lock()

    def of_judge(self, place):
        with lock:
            return self.model_copy(update={"slots": 1, "judges": 1} | next(configs))

    monkeypatch.setattr(EvaluatorConfig, "of_judge", of_judge)
    with pytest.raises(OSError, match="no more processes"), evaluator:
        pass
    assert [judge.process.poll() is not None for judge in started] == [True]


@pytest.mark.parametrize(
    ("slots", "judges", "shares"), [(8, 1, [8]), (8, 2, [4, 4]), (7, 3, [3, 2, 2]), (3, 3, [1, 1, 1])]
)
def test_judges_share_the_slots(slots, judges, shares):
    config = EvaluatorConfig(slots=slots, judges=judges)
    own = [config.of_judge(place) for place in range(judges)]
    assert [one.slots for one in own] == shares
    assert {one.judges for one in own} == {1}
    assert conditions_of(own[0]) == conditions_of(config)


def test_more_judges_than_slots_are_refused():
    with pytest.raises(ValidationError, match="judges is 3, and slots 2"):
        EvaluatorConfig(slots=2, judges=3)


def test_a_copy_with_fewer_slots_has_fewer_judges():
    config = EvaluatorConfig(slots=4, judges=4).model_copy(update={"slots": 1})
    assert (config.most_judges, config.of_judge(0).slots) == (1, 1)


def test_windows_are_for_one_judge():
    class Keeper:
        """Is asked for nothing."""

    with pytest.raises(UsageError, match="judges is 2"):
        Evaluator(EvaluatorConfig(slots=2, judges=2), windows=Keeper())
