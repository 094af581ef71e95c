"""Memory of detached tensors: operators read it, and nothing else does."""

import ctypes
import faulthandler
import os
import signal
from types import SimpleNamespace

import pytest
import torch

from warpsmith.evaluator.workers.unreadable import ReadWatch, Unreadable


def ending(act):
    """How a process ends that does `act`: 0, or the signal that killed it."""
    child = os.fork()
    if not child:
        # A crash is what is asked for, and needs no trace.
        faulthandler.disable()
        try:
            act()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


@pytest.fixture
def moved():
    tensor = torch.full((3, 1000), 2.0)
    memory = Unreadable(SimpleNamespace(buffers={}))
    memory.move([tensor])
    return memory, tensor


def read(tensor):
    return lambda: ctypes.string_at(tensor.data_ptr(), 4)


def test_a_moved_tensor_keeps_its_form_and_what_it_is_filled_with(moved):
    _, tensor = moved
    assert (tensor.shape, tensor.stride(), tensor.flatten()[0].item()) == ((3, 1000), (1000, 1), 2.0)


def test_a_read_during_a_call_ends_the_process(moved):
    memory, tensor = moved
    assert ending(read(tensor)) == 0
    with memory.during_call():
        assert ending(read(tensor)) == signal.SIGSEGV
        with memory.opened([tensor]):
            assert ending(read(tensor)) == 0
        assert ending(read(tensor)) == signal.SIGSEGV
    assert ending(read(tensor)) == 0


def test_what_is_made_during_a_call_closes_when_its_operator_ends():
    memory, tensor = Unreadable(SimpleNamespace(buffers={})), torch.zeros(10)
    with memory.during_call():
        memory.move([tensor])
        assert ending(read(tensor)) == 0
        memory.close_new()
        assert ending(read(tensor)) == signal.SIGSEGV


def test_texts_and_serialisation_are_named():
    names = []
    with ReadWatch(names.append):
        repr(torch.ones(2))
        f"{torch.ones(())}"
    assert {"Tensor.__repr__", "Tensor.__format__"} <= set(names)
