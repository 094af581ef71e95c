"""Parsing from several threads, with garbage collections that let other threads run while a tree is built."""

import ast
import gc
import threading
import time

import pytest

from warpsmith.evaluator.parsing import parse

SOURCE = """
def f(a, b):
    return [[(a + b) * (a - b) for a in range(3)] for b in {1: 2, 3: [4, (5, 6)]}]
"""
TIMES = 100


@pytest.fixture
def yielding_collections():
    """Collect often, and let other threads run in each collection."""

    def let_others_run(phase, details):
        time.sleep(1e-5)

    threshold = gc.get_threshold()
    gc.set_threshold(20)
    gc.callbacks.append(let_others_run)
    yield
    gc.callbacks.remove(let_others_run)
    gc.set_threshold(*threshold)


def at_once(*tasks):
    """Return the errors of tasks that run side by side."""
    errors = []

    def guarded(task):
        try:
            task()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_threads_that_parse_at_once_do_not_disturb_each_other(yielding_collections):
    def many():
        for _ in range(TIMES):
            parse(SOURCE)

    assert at_once(many, many, many, many) == []


def test_parsing_by_others_does_not_disturb_it(yielding_collections):
    def others():
        for _ in range(TIMES):
            try:
                ast.parse(SOURCE)
            except SystemError:
                continue

    def ours():
        for _ in range(TIMES):
            parse(SOURCE)

    assert at_once(ours, others, others, others) == []


def test_errors_and_modes_are_those_of_ast():
    assert ast.dump(parse("a + 1", "eval")) == ast.dump(ast.parse("a + 1", mode="eval"))
    assert ast.dump(parse(SOURCE)) == ast.dump(ast.parse(SOURCE))
    with pytest.raises(SyntaxError):
        parse("a +")
    with pytest.raises((ValueError, SyntaxError), match="null bytes"):
        parse("a\0b")
