"""The client against a real server, and against peers that fail in the ways that networks and other services do."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from warpsmith.evaluator import (
    BadProblemError,
    Client,
    EvaluatorConfig,
    OtherConditionsError,
    Problem,
    ServerRefusedError,
    ServerUnreachableError,
)
from warpsmith.evaluator.client.remote import common_conditions
from warpsmith.evaluator.fingerprint import HEADER, conditions_of, differences, name_of
from warpsmith.evaluator.verdict import Verdict, invalid
from warpsmith.records.errors import UsageError

SLEEPER = """
import time
import torch.nn as nn
class ModelNew(nn.Module):
    def forward(self, x, y):
        time.sleep(60)
"""
RIGHT = Verdict("correct", True, True)
INVALID = invalid("the judge died")


def answer(status: int, body: object, **headers: str) -> bytes:
    content = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(content)}\r\nConnection: close\r\n"
    return (head + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n").encode() + content


def verdict(found: Verdict) -> bytes:
    return answer(200, {"verdict": found.to_record()})


def take_request(connection: socket.socket) -> None:
    """Read a whole request: what is left unread when a socket closes makes the kernel throw the answer away."""
    with connection.makefile("rb") as stream:
        length = 0
        while (line := stream.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        stream.read(length)


@contextmanager
def peer(*script: bytes) -> Iterator[tuple[str, Callable[[], int]]]:
    """A server of raw bytes: each connection gets the next answer, the last one for ever; how many were asked."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        asked = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    take_request(connection)
                    # Counted before the answer leaves: who has the answer may ask for the count at once.
                    asked.append(1)
                    connection.sendall(script[min(len(asked), len(script)) - 1])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", lambda: len(asked)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_verdicts_come_for_threads_and_for_asyncio(server, add_problem, add_candidate):
    with Client([server.url]) as client:
        assert client.evaluate(add_problem, add_candidate, trials=2).trials == 2

        async def many():
            sources = [add_candidate, "x ="] * 2
            return await asyncio.gather(*(client.evaluate_async(add_problem, source, trials=1) for source in sources))

        assert [found.status for found in asyncio.run(many())] == ["correct", "compile_error"] * 2
        bad = Problem.from_source("class Model: pass\ndef get_inputs(): raise KeyError('x')\n")
        with pytest.raises(BadProblemError, match="problem"):
            client.evaluate(bad, add_candidate)


def test_a_kept_verdict_comes_to_who_asks_for_it(server, add_problem, add_candidate):
    source = f"{add_candidate}\n# kept\n"
    with Client([server.url], cache=True) as taking, Client([server.url]) as fresh:
        assert taking.evaluate(add_problem, source, trials=1).seconds.age == 0.0
        kept = taking.evaluate(add_problem, source, trials=1)
        assert (kept.correct, kept.cached, kept.seconds.age > 0, kept.seconds.evaluate) == (True, True, True, 0.0)
        assert fresh.evaluate(add_problem, source, trials=1).seconds.age == 0.0


def test_a_dead_server_is_left_alone_for_one_that_lives(server, add_problem, add_candidate):
    with Client([closed_port(), server.url], deadline_s=30) as client:
        for _ in range(3):
            assert client.evaluate(add_problem, add_candidate, trials=1).correct


def test_where_no_server_answers_the_error_names_it_and_says_how_to_start_one(add_problem):
    url = closed_port()
    began = time.monotonic()
    with (
        Client([url], deadline_s=3) as client,
        pytest.raises(ServerUnreachableError, match="warpsmith-evaluator serve") as caught,
    ):
        client.evaluate(add_problem, "")
    assert (caught.value.server, time.monotonic() - began < 60) == (url, True)


@pytest.mark.parametrize(
    "failure", [answer(500, {}), verdict(INVALID), b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"]
)
def test_what_is_lost_is_asked_elsewhere(failure, add_problem):
    with peer(failure) as (bad, bad_asked), peer(verdict(RIGHT)) as (good, _), Client([bad, good]) as client:
        while not bad_asked():
            assert client.evaluate(add_problem, "").correct


def test_what_is_lost_too_often_is_invalid_and_never_a_score(add_problem):
    with peer(verdict(INVALID)) as (bad, asked), Client([bad], retries=2) as client:
        found = client.evaluate(add_problem, "")
        assert (found.status, found.correct, asked()) == ("invalid", False, 3)
        assert "the judge died" in found.error_message


def test_a_busy_server_is_asked_again_when_it_said(add_problem):
    busy = answer(429, {"error": {"type": "overloaded", "message": "full"}}, **{"Retry-After": "1"})
    with peer(busy, verdict(RIGHT)) as (url, asked), Client([url], retries=0) as client:
        began = time.monotonic()
        assert client.evaluate(add_problem, "").correct
        assert asked() == 2
        assert time.monotonic() - began > 0.7
    with peer(busy) as (url, _), Client([url], deadline_s=3) as client:
        found = client.evaluate(add_problem, "")
        assert (found.status, "full" in found.error_message) == ("invalid", True)


@pytest.mark.parametrize(
    ("reply", "part"),
    [
        (answer(401, {"error": {"type": "wrong_token", "message": "The token is not the server's."}}), "MY_TOKEN"),
        (answer(404, {"detail": "Not Found"}), "not an evaluation server"),
        (answer(413, {"error": {"type": "source_too_long", "message": "too long"}}), "too long"),
        (answer(200, {"something": 1}), "something that is not a verdict"),
        (answer(200, {"verdict": {"status": "correct", "correct": False}}), "something that is not a verdict"),
    ],
)
def test_a_refusal_is_not_repeated_and_says_what_to_do(reply, part, add_problem):
    with peer(reply) as (url, asked), Client([url], token_env="MY_TOKEN") as client:
        with pytest.raises(ServerRefusedError, match=part) as caught:
            client.evaluate(add_problem, "")
        assert (caught.value.server, asked()) == (url, 1)


def test_who_gives_up_frees_the_place_on_the_server(server, add_problem, add_candidate):
    # To make a client costs as much as several requests, while what sleeps goes on sleeping.
    asking = httpx.Client(verify=False, trust_env=False)

    def load():
        status = asking.get(f"{server.url}/gpu_status").json()
        return sum(device["running"] for device in status["devices"]), status["waiting"]

    async def until(wanted):
        async with asyncio.timeout(60):
            while await asyncio.to_thread(load) != wanted:
                await asyncio.sleep(0.01)

    async def go(client):
        slow = [asyncio.ensure_future(client.evaluate_async(add_problem, SLEEPER, timeout_s=8)) for _ in range(2)]
        await until((2, 0))
        waiting = asyncio.ensure_future(client.evaluate_async(add_problem, add_candidate))
        await until((2, 1))
        waiting.cancel()
        await until((2, 0))
        assert [found.status for found in await asyncio.gather(*slow)] == ["timeout", "timeout"]

    with asking, Client([server.url]) as client:
        asyncio.run(go(client))


def test_health_tells_each_server_apart(server):
    url = closed_port()
    with peer(answer(200, {"status": "ok"})) as (other, _), Client([server.url, url, other]) as client:
        found = client.health()
    assert found[server.url]["status"] == "healthy"
    assert isinstance(found[url], ServerUnreachableError)
    assert isinstance(found[other], ServerRefusedError)


def test_a_token_from_a_file_with_its_newline_is_taken_and_one_that_is_no_header_is_refused(add_problem, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "0123456789abcdef\n")
    with peer(verdict(RIGHT)) as (url, _), Client([url], token_env="MY_TOKEN") as client:
        assert client.evaluate(add_problem, "").correct
    for token in ("sec\nret", "sec\x7fret", "secr\xe9t"):
        with pytest.raises(UsageError, match=r"printable ASCII.* MY_TOKEN") as caught:
            Client(["http://127.0.0.1:9"], token=token, token_env="MY_TOKEN")
        assert token not in str(caught.value)


def test_a_tier_that_there_is_not_is_refused_with_those_that_there_are():
    with pytest.raises(UsageError, match="no isolation tier 'prayer'") as caught:
        Client(["http://127.0.0.1:9"], minimum_isolation="prayer")
    assert "namespaces" in caught.value.remedy


CONDITIONS = {"version": "0.1.0", "device": "cpu"}
ELSEWHERE = answer(200, {"isolation": "namespaces", "conditions": {**CONDITIONS, "device": "cuda"}})


def under(conditions: dict[str, str]) -> bytes:
    return answer(200, {"verdict": RIGHT.to_record()}, **{HEADER: name_of(conditions)})


def test_a_server_that_judges_under_other_conditions_is_left_out(add_problem):
    with peer(under({}), ELSEWHERE) as (wrong, asked_there):
        with Client([wrong], conditions=CONDITIONS) as client:
            for _ in range(2):
                with pytest.raises(OtherConditionsError, match="device is 'cuda' instead of 'cpu'") as caught:
                    client.evaluate(add_problem, "x")
                assert caught.value.server == wrong
        assert asked_there() == 2
    with (
        peer(under(CONDITIONS)) as (right, asked),
        peer(under({}), ELSEWHERE) as (wrong, asked_there),
        Client([right, wrong], conditions=CONDITIONS) as client,
    ):
        assert all(client.evaluate(add_problem, "x").correct for _ in range(8))
        assert (asked(), asked_there()) in ((8, 0), (8, 2))


def test_a_server_that_does_not_say_what_its_verdicts_hang_on_is_left_out(add_problem):
    with (
        peer(verdict(RIGHT), answer(200, {"isolation": "none"})) as (silent, _),
        Client([silent], conditions=CONDITIONS) as client,
        pytest.raises(OtherConditionsError, match="does not name them"),
    ):
        client.evaluate(add_problem, "x")


def test_a_bad_problem_under_other_conditions_is_none_here(add_problem):
    refusal = answer(422, {"error": {"type": "bad_problem", "message": "constant", "remedy": ""}})
    with (
        peer(refusal, ELSEWHERE) as (wrong, _),
        Client([wrong], conditions=CONDITIONS) as client,
        pytest.raises(OtherConditionsError, match="device is 'cuda'"),
    ):
        client.evaluate(add_problem, "x")
    named = answer(
        422, {"error": {"type": "bad_problem", "message": "constant", "remedy": ""}}, **{HEADER: name_of(CONDITIONS)}
    )
    with (
        peer(named) as (right, _),
        Client([right], conditions=CONDITIONS) as client,
        pytest.raises(BadProblemError, match="constant"),
    ):
        client.evaluate(add_problem, "x")


def test_a_server_that_was_started_anew_between_two_answers_is_asked_again(add_problem):
    now_right = answer(200, {"isolation": "none", "conditions": CONDITIONS})
    with (
        peer(under({}), now_right, under(CONDITIONS)) as (url, asked),
        Client([url], conditions=CONDITIONS) as client,
    ):
        assert client.evaluate(add_problem, "x").correct
        assert asked() == 3


@pytest.mark.parametrize("conditions", [None, [], "cpu", {}])
def test_servers_have_common_conditions_or_one_is_named(conditions):
    silent = ServerUnreachableError("http://c", "nobody there", "")
    right, odd = {"isolation": "none", "conditions": CONDITIONS}, {"isolation": "none", "conditions": conditions}
    assert common_conditions({"http://a": right, "http://b": right, "http://c": silent}) == CONDITIONS
    for healths in ({"http://a": right, "http://b": odd}, {"http://b": odd, "http://a": right}, {"http://b": odd}):
        with pytest.raises(OtherConditionsError, match=r"http://b .* does not name them"):
            common_conditions(healths)
    with pytest.raises(ServerUnreachableError, match="nobody there"):
        common_conditions({"http://c": silent})


def test_one_server_is_given_as_text(add_problem, tmp_path):
    file = tmp_path / "candidate.py"
    file.write_text("candidate")
    with peer(verdict(RIGHT)) as (url, asked), Client(url) as client:
        assert client.evaluate(add_problem, file).status == "correct"
        assert asked() == 1
        assert client.evaluate(add_problem, "candidate.py").error_category == "parse_error"
        assert asked() == 1


def test_conditions_have_one_name_however_they_are_ordered():
    assert name_of({"a": 1, "b": None}) == name_of({"b": None, "a": 1})
    assert len({name_of({"a": 1}), name_of({"a": "1"}), name_of({"a": True}), name_of({})}) == 4
    assert differences({"a": 1, "b": 2}, {"a": 1, "c": 3}) == "b is 2 instead of None, c is None instead of 3"


def test_what_changes_no_verdict_is_no_condition():
    usual = EvaluatorConfig()
    assert conditions_of(usual) == conditions_of(EvaluatorConfig(slots=3, trials=9, timeout_s=3, gpu=2, nice=0))
    assert conditions_of(usual) != conditions_of(EvaluatorConfig(hidden_shapes=False))


def test_what_a_request_could_not_say_is_not_quoted(add_problem, monkeypatch):
    """The text of httpx's LocalProtocolError holds the header that it refused."""

    async def refused(*_given, **_options):
        raise httpx.LocalProtocolError("Illegal header value b'Bearer secret'")

    monkeypatch.setattr(httpx.AsyncClient, "post", refused)
    with Client(["http://127.0.0.1:9"], retries=0) as client:
        assert "secret" not in client.evaluate(add_problem, "").error_message


def test_a_client_of_no_server_and_a_closed_one_are_refused(add_problem):
    with pytest.raises(UsageError, match="No server is configured"):
        Client([])
    with pytest.raises(UsageError, match="not the address of a server"):
        Client("")
    client = Client(["http://127.0.0.1:9"])
    client.close()
    client.close()
    with pytest.raises(Exception, match="closed"):
        client.evaluate(add_problem, "")
