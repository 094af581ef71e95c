"""What an evaluation held is given back when it ends: on a GPU that is memory, and the collector comes too late."""

import gc

import pytest
from test_soak import ENDINGS, STATUS

from warpsmith.evaluator import EvaluatorConfig
from warpsmith.evaluator.evaluation import Evaluation
from warpsmith.evaluator.judge import Judge


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
