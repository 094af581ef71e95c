"""What all tests share."""

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report a failure while other threads parse.

    CPython 3.11 counts the depth of a syntax tree in one place for all threads. A garbage collection while pytest
    parses the file of a failed test lets evaluations in other threads parse too, which ends pytest with a SystemError.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        if enabled:
            gc.enable()
