"""Buffers: sealed memory that its maker rewrites and others can only read, or write but never resize."""

import errno
import fcntl
import gc
import mmap
import os
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator._native import Buffer, NativeError

F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE = 1, 2, 4, 16


@given(st.binary(min_size=1, max_size=10_000))
def test_what_the_maker_writes_the_receiver_reads(data):
    made = Buffer.create("test", len(data))
    memoryview(made)[:] = data
    received = Buffer.map(made.fileno(), len(data))
    assert bytes(received) == data
    memoryview(made)[0] = data[0] ^ 0xFF
    assert memoryview(received)[0] == data[0] ^ 0xFF


def test_a_new_buffer_is_zero():
    assert bytes(Buffer.create("test", 5000)) == bytes(5000)


@pytest.mark.parametrize(("by_peer", "seals"), [(False, F_SEAL_FUTURE_WRITE), (True, 0)])
def test_the_seals_are_those_of_the_contract(by_peer, seals):
    made = Buffer.create("test", 4096, writable_by_peer=by_peer)
    wanted = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | seals
    assert fcntl.fcntl(made.fileno(), fcntl.F_GET_SEALS) & (wanted | F_SEAL_FUTURE_WRITE) == wanted


def test_whoever_receives_an_input_cannot_write_or_resize_it():
    made = Buffer.create("test", 4096)
    with pytest.raises(NativeError) as caught:
        Buffer.map(made.fileno(), 4096, writable=True)
    assert caught.value.errno == errno.EPERM
    for attempt in (
        lambda: mmap.mmap(made.fileno(), 4096),
        lambda: os.pwrite(made.fileno(), b"x", 0),
        lambda: os.ftruncate(made.fileno(), 0),
        lambda: os.ftruncate(made.fileno(), 8192),
        lambda: fcntl.fcntl(made.fileno(), fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE),
    ):
        with pytest.raises(OSError) as refused:
            attempt()
        assert refused.value.errno == errno.EPERM


def test_a_read_only_mapping_cannot_be_made_writable():
    script = """
        import ctypes, os
        from warpsmith.evaluator._native import Buffer
        made = Buffer.create("test", 4096)
        received = Buffer.map(made.fileno(), 4096)
        library = ctypes.CDLL(None, use_errno=True)
        library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        assert library.mprotect(received.address, 4096, 3) == -1
        assert ctypes.get_errno() == 13
        print("writing", flush=True)
        ctypes.memset(received.address, 1, 1)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False, capture_output=True, text=True)
    assert done.stdout == "writing\n"
    assert done.returncode == -11


def test_an_output_is_written_by_the_receiver():
    made = Buffer.create("test", 4096, writable_by_peer=True)
    received = Buffer.map(made.fileno(), 4096, writable=True)
    assert received.writable
    memoryview(received)[:3] = b"out"
    assert bytes(made)[:3] == b"out"
    with pytest.raises(OSError):
        os.ftruncate(made.fileno(), 1)


def test_the_view_of_a_read_only_mapping_is_read_only():
    made = Buffer.create("test", 10)
    received = Buffer.map(made.fileno(), 10)
    view = memoryview(received)
    assert view.readonly
    assert not received.writable
    with pytest.raises(TypeError):
        view[0] = 1
    with pytest.raises(NativeError) as caught:
        received.fill(0)
    assert caught.value.errno == errno.EACCES


@pytest.mark.parametrize("size", [4095, 4097, 1])
def test_a_buffer_of_another_size_is_refused(size):
    made = Buffer.create("test", 4096)
    with pytest.raises(NativeError, match="4096 bytes"):
        Buffer.map(made.fileno(), size)


def test_what_could_be_shrunk_is_refused():
    fd = os.memfd_create("unsealed", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 4096)
    try:
        with pytest.raises(NativeError, match="not sealed"):
            Buffer.map(fd, 4096)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        with pytest.raises(NativeError, match="not sealed"):
            Buffer.map(fd, 4096)
    finally:
        os.close(fd)


def test_what_is_no_memfd_is_refused(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(4096))
    with open(path, "rb") as file, pytest.raises(NativeError):
        Buffer.map(file.fileno(), 4096)
    reading, writing = os.pipe()
    with pytest.raises(NativeError):
        Buffer.map(reading, 4096)
    os.close(reading)
    os.close(writing)
    with pytest.raises(NativeError):
        Buffer.map(-1, 4096)


def test_a_buffer_has_at_least_one_byte():
    with pytest.raises(NativeError, match="at least one byte"):
        Buffer.create("test", 0)


def test_a_view_keeps_the_mapping_alive():
    view = memoryview(Buffer.create("test", 1 << 20))
    gc.collect()
    view[-1] = 9
    assert view[-1] == 9


def test_closing_gives_the_descriptor_back_and_keeps_the_mapping():
    made = Buffer.create("test", 4096)
    fd = made.fileno()
    made.close()
    assert made.fileno() == -1
    with pytest.raises(OSError):
        os.fstat(fd)
    made.fill(7)
    assert bytes(made) == b"\x07" * 4096


def mapped_here() -> int:
    with open("/proc/self/maps") as maps:
        return sum("memfd:leak-test" in line for line in maps)


def test_nothing_is_left_when_the_last_reference_goes():
    before = len(os.listdir("/proc/self/fd"))
    made = Buffer.create("leak-test", 4096)
    received = Buffer.map(made.fileno(), 4096)
    assert mapped_here() == 2
    del made, received
    gc.collect()
    assert mapped_here() == 0
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_address_is_that_of_the_bytes():
    import ctypes

    made = Buffer.create("test", 16)
    memoryview(made)[:] = b"0123456789abcdef"
    assert ctypes.string_at(made.address, made.size) == b"0123456789abcdef"
