"""What an evaluation held is given back when it ends: on a GPU that is memory, and the collector comes too late."""

import gc

import pytest
from candidate_endings import ENDINGS, STATUS

from warpsmith.evaluator import EvaluatorConfig, Problem
from warpsmith.evaluator.judge.evaluation import Evaluation
from warpsmith.evaluator.judge.judge import Judge
from warpsmith.evaluator.reference.session import ReferenceSession


@pytest.fixture(scope="module", params=["detached", "on_device"])
def judge(request):
    judge = Judge(EvaluatorConfig(slots=1, ready_workers=1, recording=request.param))
    try:
        judge.machine.prepare()
        yield judge
    finally:
        judge.close()


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("kind", ENDINGS)
def test_no_evaluation_outlives_its_verdict(judge, kind, add_problem, add_candidate):
    timeout_s = 1.0 if kind == "timeout" else 20.0
    verdict = judge.evaluate(
        add_problem, ENDINGS[kind](add_candidate), trials=2, seed=1, timeout_s=timeout_s, on_running=lambda _: None
    )
    assert verdict.status == STATUS.get(kind, kind)
    assert not [kept for kept in gc.get_objects() if type(kept) is Evaluation]


@pytest.mark.slow
def test_kept_references_hold_no_more_than_one_worker_may(add_problem, add_candidate, monkeypatch):
    judge = Judge(EvaluatorConfig(slots=1, ready_workers=1, memory_bytes=1 << 30))
    try:
        judge.machine.prepare()
        given_back, closed = [], []
        give_back, close = judge.references.give_back, ReferenceSession.close
        monkeypatch.setattr(
            judge.references, "give_back", lambda key, session: given_back.append(session) or give_back(key, session)
        )
        monkeypatch.setattr(ReferenceSession, "close", lambda session: closed.append(session) or close(session))
        for number in range(5):
            held = f"HELD = torch.ones({75 + number} << 20)\n"
            problem = Problem(f"p{number}", add_problem.source.replace("class Model", f"{held}class Model", 1))
            judge.evaluate(problem, add_candidate, trials=1, seed=1, timeout_s=20.0, on_running=lambda _: None)
        kept = [session.worker.used_bytes() for session in given_back if session not in closed]
    finally:
        judge.close()
    assert len(given_back) == 5
    assert 1 <= len(kept) <= 3
    assert kept[0] > 300 << 20
