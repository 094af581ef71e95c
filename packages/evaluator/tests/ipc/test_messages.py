"""Messages over a real channel: what a hostile peer sends leaves nothing behind in the receiver."""

import os
import threading
import time
from pathlib import Path

import pytest

from warpsmith.evaluator import _native
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec, messages
from warpsmith.evaluator.ipc.messages import Kind
from warpsmith.evaluator.processes.worker import Worker, WorkerTimeoutError


@pytest.fixture
def ends():
    ours, fd = _native.Channel.pair()
    theirs = _native.Channel(fd)
    yield ours, theirs
    ours.close()
    theirs.close()


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (int(Kind.DONE), b"Q"),
        (int(Kind.DONE), b""),
        (int(Kind.DONE), codec.encode([1, 2])),
        (9999, codec.encode({})),
    ],
    ids=["unknown tag", "no value", "no dict", "unknown kind"],
)
def test_descriptors_of_a_frame_that_is_no_message_are_closed(ends, kind, payload):
    ours, theirs = ends
    before = open_descriptors()
    theirs.send(kind, payload, [1] * 120)
    with pytest.raises(WireError):
        messages.receive(ours, 5)
    assert open_descriptors() == before


def test_descriptors_from_a_worker_are_refused_and_closed(ends):
    ours, theirs = ends
    before = open_descriptors()
    theirs.send(int(Kind.DONE), codec.encode({}), [1, 2])
    with pytest.raises(WireError, match="2 descriptors"):
        Worker("candidate", 1, ours).receive(5)
    assert open_descriptors() == before


def test_a_message_arrives_with_its_descriptors(ends):
    ours, theirs = ends
    messages.send(theirs, Kind.CALL, {"a": 1}, [1])
    message = messages.receive(ours, 5)
    assert (message.kind, message.fields.integer("a"), len(message.fds)) == (Kind.CALL, 1, 1)
    os.close(message.fds[0])


def test_what_waits_in_the_channel_does_not_outlast_the_deadline(ends):
    ours, theirs = ends
    messages.send(theirs, Kind.LAUNCH, {})
    with pytest.raises(WorkerTimeoutError):
        Worker("candidate", 1, ours).receive(0)


def test_a_peer_that_sends_without_end_is_left_at_the_deadline(ends):
    ours, theirs = ends
    worker, deadline = Worker("candidate", 1, ours), time.monotonic() + 0.2
    flood = threading.Thread(target=_flood, args=[theirs])
    flood.start()
    with pytest.raises(WorkerTimeoutError):
        while True:
            worker.receive(deadline - time.monotonic())
    messages.hang_up(ours)
    flood.join()


def _flood(channel: _native.Channel) -> None:
    try:
        while True:
            messages.send(channel, Kind.LAUNCH, {})
    except _native.PeerClosed:
        return
