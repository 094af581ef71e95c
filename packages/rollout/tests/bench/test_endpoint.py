"""The client against a server that fails in every way: each failure is retried, or ends the bench by its own error."""

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_endpoint import Broken, Endpoint, Fail, Garbage, Hang, Said, serving, slow

from warpsmith.records.errors import WarpsmithError
from warpsmith.rollout.bench import endpoint as client
from warpsmith.rollout.bench.answers import Pieces
from warpsmith.rollout.bench.errors import (
    BrokenAnswerError,
    BusyError,
    ContextTooLongError,
    KeyRefusedError,
    NoServerError,
    RequestRefusedError,
    ServerFailedError,
    SlowAnswerError,
    UnknownModelError,
)

ASKED = [{"role": "user", "content": "Write a kernel."}]


@pytest.fixture
def ask(settings_for):
    def go(server, times=1, seed=None, **given):
        notes = []

        async def all_of_them():
            async with client.Endpoint(settings_for(server, **given), notes.append) as asked:
                return await asyncio.gather(*(asked.complete(ASKED, seed) for _ in range(times)))

        answers = asyncio.run(all_of_them())
        server.notes = notes
        return answers if times > 1 else answers[0]

    return go


@pytest.fixture
def check(settings_for):
    def go(server, **given):
        async def look():
            async with client.Endpoint(settings_for(server, **given)) as asked:
                await asked.check()

        asyncio.run(look())

    return go


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_comes_with_its_tokens_and_thoughts(ask, stream):
    with serving(Endpoint(lambda body, _: Said("the kernel", thoughts="hm", finish_reason="length"))) as server:
        answer = ask(server, seed=7, endpoint={"stream": stream, "omit": ["temperature"], "extra": {"effort": 1}})
    assert answer.text == "<think>\nhm\n</think>\n\nthe kernel"
    assert (answer.finish_reason, answer.completion_tokens, answer.estimated) == ("length", 3, False)
    (body,) = server.requests
    assert (body["model"], body["messages"], body["max_tokens"], body["seed"]) == ("tiny", ASKED, 100, 7)
    assert body["effort"] == 1 and "temperature" not in body and ("stream" in body) is stream


def test_tokens_that_are_not_counted_are_estimated(ask):
    with serving(Endpoint(lambda body, _: Said("x" * 30, usage=False))) as server:
        answer = ask(server)
    assert (answer.completion_tokens, answer.estimated) == (10, True)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (Fail(429, "slow down"), BusyError),
        (Fail(500, "oops"), ServerFailedError),
        (Fail(503, "loading"), ServerFailedError),
        (Broken(), BrokenAnswerError),
        (Garbage(), BrokenAnswerError),
        (Hang, SlowAnswerError),
    ],
)
def test_a_failure_that_may_pass_is_retried_and_in_the_end_has_its_own_error(ask, failure, error, stream):
    failure = failure() if failure is Hang else failure
    # A short deadline only where it is to pass: the machine may be busy.
    waits = {"stream": stream, "idle_timeout_s": 0.5 if isinstance(failure, Hang) else 60, "retries": 2}
    with serving(Endpoint(lambda body, number: "fine" if number == 2 else failure)) as server:
        assert ask(server, endpoint=waits).text == "fine"
        assert len(server.requests) == 3 and len(server.notes) == 2
    with (
        serving(Endpoint(lambda body, number: failure)) as server,
        pytest.raises(error, match=r"127\.0\.0\.1") as caught,
    ):
        ask(server, endpoint=waits)
    assert len(server.requests) == 3
    assert caught.value.remedy
    if isinstance(failure, Hang):
        failure.released.set()


NAMES = st.sampled_from(["choices", "delta", "content", "reasoning_content", "finish_reason", "usage", "prompt_tokens"])
TEXTS = st.text(st.characters(codec=None)) | st.just("\ud800")
PARTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
)


@given(st.lists(st.dictionaries(NAMES, PARTS, max_size=4), max_size=3))
def test_pieces_of_any_form_are_an_answer_that_records_can_hold_or_refused(parts):
    pieces = Pieces()
    for part in parts:
        try:
            pieces.take(part, "delta")
        except ValueError as error:
            assert str(error)
    answer = pieces.answer(ASKED)
    answer.text.encode()
    assert answer.prompt_tokens >= 0 and answer.completion_tokens >= 0


def test_a_stream_that_never_ends_has_a_deadline(ask):
    with serving(Endpoint(slow(0.3, "late"))) as server, pytest.raises(SlowAnswerError, match="did not end within"):
        ask(server, endpoint={"timeout_s": 0.1, "retries": 0})


def test_the_endpoints_wish_is_a_lower_bound_of_the_wait(ask):
    with serving(Endpoint(lambda body, number: "fine" if number else Fail(429, retry_after="0.2"))) as server:
        assert ask(server).seconds >= 0.2
    (note,) = server.notes
    assert note.startswith("retry 1 in 0.2 s: ") and "429" in note


@pytest.mark.parametrize(
    ("failure", "error", "part"),
    [
        (Fail(401, "bad key"), KeyRefusedError, "OPENAI_API_KEY"),
        (Fail(404, "The model `tiny` does not exist."), UnknownModelError, "Correct --model"),
        (Fail(404, "Not Found"), RequestRefusedError, "usually ends in /v1"),
        (Fail(400, "This model's maximum context length is 512 tokens."), ContextTooLongError, "Lower --context"),
        (Fail(400, "Unsupported parameter: temperature"), RequestRefusedError, "endpoint.omit"),
    ],
)
def test_what_no_retry_helps_is_not_retried(ask, failure, error, part):
    with serving(Endpoint(lambda body, number: failure)) as server, pytest.raises(error, match=part):
        ask(server)
    assert len(server.requests) == 1


def test_requests_at_once_are_bounded(ask):
    three = threading.Barrier(3)

    def script(body, number):
        three.wait(60)
        return "fine"

    with serving(Endpoint(script)) as server:
        assert len(ask(server, times=12, endpoint={"in_flight": 3})) == 12
    assert server.most_at_once == 3


def test_a_look_at_the_endpoint_finds_what_is_wrong_with_it(check, monkeypatch):
    with serving(Endpoint(None, models=("a", "b"))) as server, pytest.raises(UnknownModelError, match="it has a, b"):
        check(server)
    with pytest.raises(NoServerError, match="Nothing answers at"):
        check(server)
    with serving(Endpoint(None, key="secret")) as server:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        with pytest.raises(KeyRefusedError, match="wants a key, and OPENAI_API_KEY is not set"):
            check(server)
        monkeypatch.setenv("MINE", "other")
        with pytest.raises(KeyRefusedError, match="refuses the key in MINE"):
            check(server, endpoint={"api_key_env": "MINE"})
        monkeypatch.setenv("MINE", "gehëim")
        with pytest.raises(KeyRefusedError, match="characters that no header can have"):
            check(server, endpoint={"api_key_env": "MINE"})
        monkeypatch.setenv("MINE", "secret\n")
        check(server, endpoint={"api_key_env": "MINE"})
    short = Endpoint(None, max_model_len=512)
    with serving(short) as server, pytest.raises(RequestRefusedError, match="context of 512 tokens"):
        check(server)
    with serving(Endpoint(None, models=None)) as server:
        check(server)


def test_no_key_stands_in_an_error(check, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    with serving(Endpoint(None, key="other")) as server, pytest.raises(WarpsmithError) as caught:
        check(server)
    assert "sk-very-secret" not in str(caught.value)
