"""The lines of a reporter where stderr is no terminal."""

import io
import re

from rich.console import Console

from warpsmith.evaluator.bench.progress import Reporter


def test_a_line_tells_the_time_left_from_what_took_time():
    said = io.StringIO()
    with Reporter(4, "kernels", Console(file=said, width=200)) as reporter:
        reporter.done("a", "correct", known=True)
        reporter.done("b", "wrong")
        reporter._started -= 10
        reporter.done("c", "correct")
    lines = said.getvalue().splitlines()
    assert re.fullmatch(r"\[1/4\] 0 s  a: correct", lines[0])
    assert re.fullmatch(r"\[2/4\] 0 s, 0 s left  b: wrong", lines[1])
    assert re.fullmatch(r"\[3/4\] 10 s, 5 s left  c: correct", lines[2])
