"""Whatever runs on the device does so with a lease of it: the judge's own work, and the part of a worker that borrows.

A step in which the driver does most borrows the device for the rest, whatever becomes of its worker meanwhile.
"""

import threading
import time
import traceback
from dataclasses import replace

import pytest
import torch
from candidate_endings import ENDINGS, STATUS
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from warpsmith.evaluator import EvaluatorConfig, Problem
from warpsmith.evaluator.ipc.messages import Kind
from warpsmith.evaluator.judge.conversation import Conversation
from warpsmith.evaluator.judge.judge import Judge
from warpsmith.evaluator.processes.worker import Worker, WorkerDiedError
from warpsmith.evaluator.reference.session import ReferenceSession

DEADLINE_S = 60
TIMEOUT_S = 20.0


@pytest.fixture(scope="module", params=[True, False], ids=["beside", "apart"])
def judge(request):
    """A judge in which the driver may work beside timings, and one in which it may not."""
    made = Judge(EvaluatorConfig(slots=1, ready_workers=1, driver_beside_timing=request.param))
    try:
        made.machine.prepare()
        yield made
    finally:
        made.close()


@pytest.fixture
def sent(monkeypatch):
    """Notes each message to a worker; a test can add what is done right after one of a kind was sent."""
    kinds, after, send = [], {}, Worker.send

    def noted(worker, kind, *rest, **named):
        send(worker, kind, *rest, **named)
        kinds.append(kind)
        after.pop(kind, lambda worker: None)(worker)

    monkeypatch.setattr(Worker, "send", noted)
    return kinds, after


def judged(judge, problem, source, timeout_s=TIMEOUT_S):
    return judge.evaluate(problem, source, trials=3, seed=1, timeout_s=timeout_s, on_running=lambda _: None)


def is_free(judge):
    """Whether a thread gets the device alone at once, so that nobody holds it."""
    got = threading.Event()

    def take():
        with judge.machine.lease.alone():
            got.set()

    threading.Thread(target=take, daemon=True).start()
    return got.wait(DEADLINE_S)


class Unleased(TorchDispatchMode):
    """Notes each operator on memory that the judge shares with workers, or on what came of such, without a lease."""

    def __init__(self, machine, monkeypatch):
        super().__init__()
        self.seen, self.found = 0, []
        self._lease, self._ranges, self._made = machine.lease, [], {}
        create = machine.device.create

        def noted(name, size, **options):
            made = create(name, size, **options)
            self._ranges.append((made.address, made.address + made.size))
            return made

        monkeypatch.setattr(machine.device, "create", noted)

    def _is_of_device(self, tensor):
        if tensor.untyped_storage().data_ptr() in self._made:
            return True
        return any(begin <= tensor.data_ptr() < end for begin, end in self._ranges)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = [one for one in pytree.tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        found = func(*args, **(kwargs or {}))
        if any(map(self._is_of_device, given)):
            self.seen += 1
            # Kept, so that no other tensor gets the same address.
            made = (one for one in pytree.tree_leaves(found) if isinstance(one, torch.Tensor))
            self._made |= {one.untyped_storage().data_ptr(): one for one in made if one.data_ptr()}
            if not func.is_view and not self._lease.held_here():
                self.found.append(f"{func}\n{''.join(traceback.format_stack(limit=12))}")
        return found


SCALED = """\
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64))

    def forward(self, x):
        return x * self.weight


def get_inputs():
    return [torch.randn({rows}, 64)]
"""
SCALING = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, w_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * tl.load(w_ptr + at % 64), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64))

    def forward(self, x):
        out = torch.empty_like(x)
        {line}
        scale[(triton.cdiv(x.numel(), 64),)](x, self.weight, out, x.numel(), BLOCK=64)
        return out
"""


@pytest.mark.parametrize(("recording", "line"), [("detached", "pass"), ("on_device", "x[0, 0].item()")])
def test_what_the_judge_computes_on_the_device_it_computes_with_a_lease(judge, monkeypatch, recording, line):
    """Also for a problem that it did not know: loading, audit and learning. Else it would run beside a timing."""
    problem = Problem.from_source(SCALED.format(rows=len(recording)), recording)
    with Unleased(judge.machine, monkeypatch) as work:
        verdict = judged(judge, problem, SCALING.format(line=line))
    assert (verdict.status, verdict.recording) == ("correct", recording)
    assert work.seen > 100
    assert not work.found, f"{len(work.found)}: {work.found[0]}"


def test_facts_and_outputs_of_a_problem_are_computed_with_a_lease(judge, monkeypatch):
    problem = Problem.from_source(SCALED.format(rows=5), "facts")
    with Unleased(judge.machine, monkeypatch) as work:
        assert judge.audit(problem)["outputs_bytes"] == 5 * 64 * 4
        assert judge.outputs(problem, [1, 2])
    assert work.seen > 100
    assert not work.found, f"{len(work.found)}: {work.found[0]}"


@pytest.mark.parametrize("kind", [name for name in ENDINGS if name != "timeout"])
def test_verdicts_are_the_same_and_only_what_may_go_on_beside_a_timing_borrows(
    judge, sent, add_problem, add_candidate, kind
):
    beside, (kinds, _) = judge.config.driver_beside_timing, sent
    verdict = judged(judge, add_problem, ENDINGS[kind](add_candidate))
    assert verdict.status == STATUS.get(kind, kind)
    assert is_free(judge)
    if Kind.REPLAY in kinds:
        assert (Kind.DEVICE_LENT in kinds) == beside
        assert min(verdict.seconds.driver, verdict.seconds.shared) > 0
    if not beside:
        assert Kind.DEVICE_LENT not in kinds


@pytest.mark.parametrize("judge", [True], indirect=True)
@pytest.mark.parametrize("when", ["it waits for the device", "it has the device"])
def test_a_player_that_dies_gives_the_device_back(judge, sent, monkeypatch, add_problem, add_candidate, when):
    (_, after), lend, ended = sent, Conversation._lend, []

    def kill(worker):
        if worker.role != "candidate":
            after[Kind.DEVICE_LENT] = kill
            return
        ended.append(worker)
        worker.end()

    def lend_once_it_died(conversation, worker):
        if not ended:
            kill(worker)
        lend(conversation, worker)

    if when == "it has the device":
        after[Kind.DEVICE_LENT] = kill
    else:
        monkeypatch.setattr(Conversation, "_lend", lend_once_it_died)
    verdict = judged(judge, add_problem, f"{add_candidate}\n# {when}\n")
    assert [worker.role for worker in ended] == ["candidate"]
    assert verdict.correct, "killed from outside, it was judged once more"
    assert is_free(judge)


@pytest.mark.parametrize("judge", [True], indirect=True)
def test_a_reference_that_dies_while_it_has_the_device_gives_it_back(judge, sent, add_problem):
    _, after = sent
    session = ReferenceSession(judge.machine, add_problem.source, init_seed=3)
    try:
        after[Kind.DEVICE_LENT] = lambda worker: worker.end()
        with pytest.raises(WorkerDiedError):
            session.make_inputs(5)
        assert is_free(judge)
        session.restart()
        session.make_inputs(5)
    finally:
        session.end()


@pytest.mark.parametrize("judge", [True], indirect=True)
def test_waiting_for_the_device_takes_nothing_of_a_candidates_time(judge, monkeypatch, add_problem, add_candidate):
    """Another is alone for longer than all of the candidate's time while its player waits to borrow the device."""
    lend, waited, allowed_s = Conversation._lend, [], 4.0

    def lend_late(conversation, worker):
        if waited:
            lend(conversation, worker)
            return
        left = conversation.left()
        holds, lets_go = threading.Event(), threading.Event()

        def be_alone():
            with judge.machine.lease.alone():
                holds.set()
                lets_go.wait(DEADLINE_S)

        threading.Thread(target=be_alone, daemon=True).start()
        assert holds.wait(DEADLINE_S)
        threading.Timer(1.25 * allowed_s, lets_go.set).start()
        began = time.monotonic()
        lend(conversation, worker)
        waited.append(time.monotonic() - began)
        assert conversation.left() > left - waited[0]

    monkeypatch.setattr(Conversation, "_lend", lend_late)
    verdict = judged(judge, add_problem, f"{add_candidate}\n# waits\n", timeout_s=allowed_s)
    assert waited[0] > allowed_s
    assert verdict.correct
    assert verdict.seconds.shared_wait >= allowed_s
    assert verdict.seconds.lease >= allowed_s


@pytest.mark.parametrize("judge", [True], indirect=True)
def test_while_the_driver_works_for_a_player_another_can_be_alone(judge, monkeypatch, add_problem, add_candidate):
    lend, alone = Conversation._lend, []

    def lend_after_another_was_alone(conversation, worker):
        alone.append(is_free(judge))
        lend(conversation, worker)

    monkeypatch.setattr(Conversation, "_lend", lend_after_another_was_alone)
    assert judged(judge, add_problem, f"{add_candidate}\n# free\n").correct
    assert alone
    assert all(alone)


@pytest.mark.parametrize("judge", [True], indirect=True)
def test_what_is_returned_instead_of_the_device_is_no_answer(judge, monkeypatch, add_problem, add_candidate):
    receive, lent = Conversation._receive, []

    def misunderstood(conversation, worker):
        message = receive(conversation, worker)
        if message.kind is Kind.DEVICE_RETURNED:
            lent.append(worker)
            return replace(message, kind=Kind.DONE)
        return message

    monkeypatch.setattr(Conversation, "_receive", misunderstood)
    verdict = judged(judge, add_problem, f"{add_candidate}\n# lies\n")
    assert lent
    assert (verdict.status, verdict.error_category) == ("runtime_error", "process_error")
    assert is_free(judge)


@pytest.mark.parametrize("judge", [False], indirect=True)
def test_who_was_offered_nothing_borrows_nothing(judge, sent, monkeypatch, add_problem, add_candidate):
    """A player that asks for the device where the judge holds it for the whole step is not what it should be."""
    ask = Conversation._asked

    def offering(conversation, worker, kind, fields, *rest, **named):
        return ask(conversation, worker, kind, fields | {"borrows": True}, *rest, **named)

    monkeypatch.setattr(Conversation, "_asked", offering)
    verdict = judged(judge, add_problem, f"{add_candidate}\n# greedy\n")
    assert (verdict.status, verdict.error_category) == ("runtime_error", "process_error")
    assert Kind.DEVICE_LENT not in sent[0]
    assert is_free(judge)
