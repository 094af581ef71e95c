"""Frames: what is sent arrives; what a hostile peer sends is refused, in time and without leaks."""

import errno
import os
import select
import signal
import socket
import struct
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.evaluator import _native
from warpsmith.evaluator._native import Channel, DeadlineExceeded, FrameError, NativeError, PeerClosed

HEADER = struct.Struct("<4sHHQII")


def crc32c(data: bytes) -> int:
    """Bit by bit, from the polynomial alone, so that it shares nothing with the code under test."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def frame(payload: bytes = b"", *, magic=b"WSF1", kind=1, fds=0, sequence=0, length=None, crc=None) -> bytes:
    size = len(payload) if length is None else length
    return HEADER.pack(magic, kind, fds, sequence, size, crc32c(payload) if crc is None else crc) + payload


@pytest.fixture
def ends():
    ours, theirs = Channel.pair()
    peer = socket.socket(fileno=theirs)
    yield ours, peer
    ours.close()
    peer.close()


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_the_checksum_is_crc32c():
    assert crc32c(b"123456789") == 0xE3069283


@given(kind=st.integers(0, 65535), payload=st.binary(max_size=4096))
def test_frames_on_the_wire_are_as_documented(kind, payload):
    ours, theirs = Channel.pair()
    with socket.socket(fileno=theirs) as peer:
        ours.send(kind, payload, timeout_s=1)
        assert peer.recv(8192) == frame(payload, kind=kind)
        peer.sendall(frame(payload, kind=kind))
        assert ours.recv(1) == (kind, payload, [])
        ours.close()


@given(st.lists(st.tuples(st.integers(0, 65535), st.binary(max_size=300), st.integers(0, 3)), max_size=10))
def test_frames_keep_their_order_and_their_descriptors(messages):
    first, raw = Channel.pair()
    second = Channel(raw)
    before = open_fds()
    for kind, payload, count in messages:
        first.send(kind, payload, [0] * count, timeout_s=1)
    for kind, payload, count in messages:
        got = second.recv(1)
        assert (got.kind, got.payload, len(got.fds)) == (kind, payload, count)
        for fd in got.fds:
            assert not os.get_inheritable(fd)
            os.close(fd)
    assert open_fds() == before
    first.close()
    second.close()


def test_the_largest_payload_goes_through_and_a_larger_one_is_refused():
    first, raw = Channel.pair()
    second = Channel(raw)
    payload = os.urandom(1 << 20) * (_native.MAX_PAYLOAD_BYTES >> 20)
    sender = threading.Thread(target=first.send, args=(1, payload, [], 30))
    sender.start()
    assert second.recv(30).payload == payload
    sender.join()
    with pytest.raises(NativeError) as caught:
        first.send(1, payload + b"x")
    assert caught.value.errno == errno.EMSGSIZE


@pytest.mark.parametrize("payload", [bytearray(b"abc"), memoryview(b"abc")])
def test_any_buffer_can_be_sent(ends, payload):
    ours, peer = ends
    ours.send(1, payload)
    assert peer.recv(100) == frame(b"abc")


BAD_FRAMES = {
    "magic": frame(magic=b"WSF2"),
    "sequence": frame(sequence=1),
    "length": frame(length=_native.MAX_PAYLOAD_BYTES + 1),
    "checksum": frame(b"abc", crc=0),
    "descriptor count": frame(fds=1),
}


@pytest.mark.parametrize("rule", BAD_FRAMES)
def test_a_frame_that_breaks_a_rule_is_refused_by_name(ends, rule):
    ours, peer = ends
    peer.sendall(BAD_FRAMES[rule])
    with pytest.raises(FrameError) as caught:
        ours.recv(1)
    assert caught.value.operation == rule
    peer.sendall(frame())
    with pytest.raises(NativeError):
        ours.recv(0)


def test_the_sequence_must_count_on(ends):
    ours, peer = ends
    peer.sendall(frame(sequence=0) + frame(sequence=0))
    ours.recv(1)
    with pytest.raises(FrameError, match="number 1 was expected"):
        ours.recv(1)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_cause_nothing_but_typed_errors(data):
    ours, theirs = Channel.pair()
    with socket.socket(fileno=theirs) as peer:
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        with pytest.raises((FrameError, PeerClosed)):
            ours.recv(1)
    ours.close()


@settings(deadline=None)
@given(
    magic=st.sampled_from([b"WSF1", b"WSF0"]),
    fds=st.integers(0, 65535),
    sequence=st.integers(0, 2**64 - 1),
    length=st.integers(0, 2**32 - 1),
    payload=st.binary(max_size=64),
    attached=st.integers(0, 5),
)
def test_hostile_headers_cause_nothing_but_typed_errors(magic, fds, sequence, length, payload, attached):
    before = open_fds()
    ours, theirs = Channel.pair()
    with socket.socket(fileno=theirs) as peer:
        socket.send_fds(peer, [frame(payload, magic=magic, fds=fds, sequence=sequence, length=length)], [0] * attached)
        peer.shutdown(socket.SHUT_WR)
        try:
            got = ours.recv(1)
        except (FrameError, PeerClosed):
            pass
        else:
            assert (len(got.fds), sequence, len(got.payload)) == (attached, 0, length)
            for fd in got.fds:
                os.close(fd)
    ours.close()
    assert open_fds() == before


def peak_memory() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


def test_an_announced_length_costs_no_memory_until_it_arrives(ends):
    ours, peer = ends
    before = peak_memory()
    peer.sendall(frame(length=_native.MAX_PAYLOAD_BYTES) + b"x")
    with pytest.raises(DeadlineExceeded):
        ours.recv(0.01)
    assert peak_memory() - before < _native.MAX_PAYLOAD_BYTES // 1024 // 4


@pytest.mark.parametrize("count", [129, 253])
def test_too_many_descriptors_are_refused_and_closed(ends, count):
    ours, peer = ends
    before = open_fds()
    socket.send_fds(peer, [frame(fds=count)], [0] * count)
    with pytest.raises(FrameError):
        ours.recv(1)
    assert open_fds() == before


def test_as_many_descriptors_as_are_allowed_arrive(ends):
    ours, peer = ends
    count = _native.MAX_FRAME_FDS
    socket.send_fds(peer, [frame(fds=count)], [0] * count)
    got = ours.recv(1)
    assert len(got.fds) == count
    for fd in got.fds:
        os.close(fd)


def test_descriptors_on_every_byte_are_refused_and_closed(ends):
    ours, peer = ends
    before = open_fds()
    for byte in frame(b"x" * 200, fds=128):
        socket.send_fds(peer, [bytes([byte])], [0])
    with pytest.raises(FrameError):
        ours.recv(1)
    assert open_fds() == before


def test_descriptors_that_no_frame_announces_are_refused_and_closed(ends):
    ours, peer = ends
    before = open_fds()
    socket.send_fds(peer, [frame(b"abc")], [0, 0])
    with pytest.raises(FrameError, match="carries 2"):
        ours.recv(1)
    assert open_fds() == before


def test_a_deadline_is_kept_while_nothing_comes(ends):
    ours, _ = ends
    with pytest.raises(DeadlineExceeded) as caught:
        ours.recv(0.02)
    assert "a frame" in caught.value.operation


def test_a_dripping_peer_cannot_stretch_the_deadline(ends):
    ours, peer = ends
    stop = threading.Event()

    def drip() -> None:
        peer.setblocking(False)
        peer.send(frame(length=1 << 20))
        while not stop.is_set():
            select.select([], [peer], [], 0.1)
            try:
                peer.send(b"x")
            except BlockingIOError:
                continue

    dripping = threading.Thread(target=drip)
    dripping.start()
    started = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        ours.recv(0.05)
    assert time.monotonic() - started < 5
    stop.set()
    dripping.join()


def test_a_frame_cut_by_a_deadline_is_received_by_the_next_call(ends):
    ours, peer = ends
    whole = frame(b"hello", fds=1)
    socket.send_fds(peer, [whole[:3]], [0])
    for part in (whole[3:20], whole[20:26]):
        with pytest.raises(DeadlineExceeded):
            ours.recv(0)
        peer.sendall(part)
    with pytest.raises(DeadlineExceeded):
        ours.recv(0)
    peer.sendall(whole[26:])
    kind, payload, fds = ours.recv(1)
    assert (kind, payload) == (1, b"hello")
    os.close(fds[0])


def test_a_peer_that_does_not_read_meets_the_senders_deadline(ends):
    ours, _ = ends
    with pytest.raises(DeadlineExceeded):
        ours.send(1, b"x" * (1 << 22), timeout_s=0.02)
    with pytest.raises(NativeError, match="can send no more"):
        ours.send(1, b"")


def test_a_closed_peer_is_distinguished(ends):
    ours, peer = ends
    peer.close()
    with pytest.raises(PeerClosed):
        ours.recv(1)
    with pytest.raises(PeerClosed):
        ours.send(1, b"")


def test_a_peer_that_dies_inside_a_frame_has_closed(ends):
    ours, peer = ends
    peer.sendall(frame(b"abc")[:-1])
    peer.close()
    with pytest.raises(PeerClosed):
        ours.recv(1)


def test_a_signal_does_not_end_a_wait(ends):
    ours, peer = ends
    seen = []

    def on_signal(number: int, _frame: object) -> None:
        seen.append(number)
        peer.sendall(frame(b"after the signal"))

    previous = signal.signal(signal.SIGALRM, on_signal)
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        assert ours.recv(10).payload == b"after the signal"
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert seen == [signal.SIGALRM]


def test_a_handler_that_raises_ends_a_wait(ends):
    ours, _ = ends

    def on_signal(number: int, _frame: object) -> None:
        raise InterruptedError(number)

    previous = signal.signal(signal.SIGALRM, on_signal)
    try:
        with pytest.raises(InterruptedError):
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            ours.recv(10)
    finally:
        signal.signal(signal.SIGALRM, previous)


def test_other_threads_run_while_one_waits(ends):
    ours, peer = ends
    sender = threading.Thread(target=lambda: peer.sendall(frame(b"from a thread")))
    received = []
    receiver = threading.Thread(target=lambda: received.append(ours.recv(10)))
    receiver.start()
    sender.start()
    receiver.join()
    sender.join()
    assert received[0].payload == b"from a thread"


def test_a_channel_needs_a_unix_stream_socket():
    with socket.socket(socket.AF_INET) as tcp, pytest.raises(NativeError) as caught:
        Channel(os.dup(tcp.fileno()))
    assert caught.value.errno == errno.EPROTOTYPE
    with open(os.devnull) as null, pytest.raises(NativeError) as caught:
        Channel(os.dup(null.fileno()))
    assert caught.value.errno == errno.ENOTSOCK


def test_a_closed_channel_says_so(ends):
    ours, _ = ends
    ours.close()
    assert ours.fileno() == -1
    with pytest.raises(NativeError, match="is closed"):
        ours.send(1, b"")


@pytest.mark.parametrize("timeout", [-1.0, float("nan")])
def test_a_timeout_is_a_number_of_seconds(ends, timeout):
    ours, _ = ends
    with pytest.raises(NativeError):
        ours.recv(timeout)
