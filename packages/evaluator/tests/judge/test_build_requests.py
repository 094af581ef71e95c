"""Builds that a candidate's process asks for: compiled by the judge, a bounded number, and remembered if they fail."""

from types import SimpleNamespace

import pytest

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.messages import Kind, Message
from warpsmith.evaluator.judge.compiling.service import Compilation
from warpsmith.evaluator.judge.host_execution.build_requests import MAX_BUILDS, BuildRequests
from warpsmith.evaluator.processes.failure_attribution import Failure

OK = Compilation(True, binaries=({"library": b"elf"},))
FAILED = Compilation(False, "cuda_compilation_error", "it does not compile")


@pytest.fixture
def asked():
    """Returns a function that asks for a build that ends as given, the requests, and what the worker was sent."""
    results, sent, extended = {}, [], []
    launches = SimpleNamespace(built=results.__getitem__)
    conversation = SimpleNamespace(extend=extended.append, left=lambda: 1.0)
    requests = BuildRequests(launches, conversation)
    worker = SimpleNamespace(send=lambda *parts: sent.append(parts))

    def ask(result, kind=Kind.BUILD):
        results["text"] = result
        requests.answer(Message(kind, codec.Fields({"build": "text"}), []), worker)

    return ask, requests, sent, extended


def test_a_build_is_answered_and_the_candidates_time_stops_meanwhile(asked):
    ask, requests, sent, extended = asked
    ask(OK)
    ((kind, fields, fds, left),) = sent
    assert (kind, fds, left) == (Kind.BUILT, [], 1.0)
    assert fields == {"ok": True, "message": "", "category": "", "binary": {"library": b"elf"}}
    assert len(extended) == 1
    assert not requests.explains(Failure("compile_error", "cuda_compilation_error", "it says so itself"))


def test_a_failure_like_that_of_a_build_is_explained_by_it(asked):
    ask, requests, sent, _ = asked
    ask(FAILED)
    assert (sent[0][1]["ok"], sent[0][1]["binary"]) == (False, {})
    assert requests.explains(Failure("compile_error", "cuda_compilation_error", "it does not compile"))
    assert not requests.explains(Failure("runtime_error", "type_error", "another"))


def test_too_many_builds_and_other_messages_are_refused(asked):
    ask, _, _, _ = asked
    with pytest.raises(WireError, match="LAUNCH 1"):
        ask(OK, Kind.LAUNCH)
    for _ in range(MAX_BUILDS - 1):
        ask(OK)
    with pytest.raises(WireError, match=f"at most {MAX_BUILDS} builds"):
        ask(OK)
