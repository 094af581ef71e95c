"""Connections that ask nothing, or ask slowly, take `/health` away from nobody."""

import json
import os
import resource
import socket
import time
import urllib.request
from contextlib import ExitStack, suppress

import pytest

from warpsmith.evaluator.server import connections
from warpsmith.evaluator.server.child import ServerProcess

HEAD = b"GET /health HTTP/1.1\r\nHost: x\r\n"
BODY = b"POST /v1/evaluate HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc"


@pytest.fixture
def many() -> int:
    """How many sockets this process may hold, 4,500 at most."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 5000 if hard == resource.RLIM_INFINITY else min(hard, 5000)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    return min(4500, wanted - 200)


def health(url: str) -> float:
    began = time.monotonic()
    with urllib.request.urlopen(f"{url}/health", timeout=20) as answer:
        assert json.load(answer)["status"] == "healthy"
    return time.monotonic() - began


def open_many(stack: ExitStack, port: int, count: int):
    for number in range(count):
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        try:
            connection.sendall((b"", HEAD, BODY)[number % 3])
        except OSError:
            continue  # cut off already
        yield number


def test_half_open_connections_take_health_away_from_nobody(server: ServerProcess, many):
    with ExitStack() as stack:
        for number in open_many(stack, server.port, many):
            if number % 1000 == 999:
                health(server.url)
        assert health(server.url) < 5


def test_a_server_of_few_descriptors_keeps_answering(server: ServerProcess):
    before = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (100, before[1]))
    try:
        with ExitStack() as stack:
            list(open_many(stack, server.port, 300))
        # What could not be accepted is tried again after a second.
        time.sleep(2)
        assert health(server.url) < 20
    finally:
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, before)


def test_the_bound_leaves_descriptors_for_the_rest():
    assert connections.room_for(1024) == 256
    assert connections.room_for(64) == connections.FEWEST
    assert connections.room_for(1 << 20) == connections.MOST_HALF_OPEN


CHUNKS = b"POST /v1/evaluate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 40_000


def test_chunks_of_a_byte_are_refused_and_not_parsed(server: ServerProcess):
    with ExitStack() as stack:
        for _ in range(20):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            connection.settimeout(0.2)
            with suppress(OSError):
                connection.sendall(CHUNKS)
        assert health(server.url) < 5


def test_a_chunked_body_gets_its_answer(server: ServerProcess):
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(CHUNKS[:200])
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 411") and b"Content-Length" in answer


def test_whoever_reads_no_answer_is_half_open(server: ServerProcess, many):
    asked = (HEAD + b"\r\n").replace(b"/health", b"/openapi.json") * 50
    with ExitStack() as stack:
        for _ in range(min(many, connections.MOST_HALF_OPEN + 200)):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            connection.settimeout(0.05)
            with suppress(OSError):
                connection.connect(("127.0.0.1", server.port))
                connection.sendall(asked)
        # Those beyond the bound are closed as soon as the server comes to them.
        deadline = time.monotonic() + 30
        while (held := len(os.listdir(f"/proc/{server.process.pid}/fd"))) >= connections.MOST_HALF_OPEN + 150:
            assert time.monotonic() < deadline, held
            time.sleep(0.2)
        assert health(server.url) < 10


def test_requests_sent_at_once_are_answered_in_order_and_to_a_slow_reader_too(server: ServerProcess):
    asked = (HEAD + b"\r\n").replace(b"/health", b"/openapi.json")
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(30)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(asked * 4 + HEAD + b"Connection: close\r\n\r\n")
        answers = b""
        while piece := connection.recv(20_000):
            answers += piece
            time.sleep(0.001)
    assert answers.count(b"HTTP/1.1 200 OK") == 5
    assert answers.endswith(b"}")
    assert b'"status":"healthy"' in answers.rpartition(b"HTTP/1.1")[2].replace(b" ", b"")
