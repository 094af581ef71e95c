"""How a rank's process ends: with the code of what it ran, after its exit handlers, and without a teardown."""

import subprocess
import sys

import pytest

from warpsmith.trainer.launch.ending import CRASHED

PROGRAM = """
import atexit, sys
from warpsmith.trainer.launch.ending import ends_after_exit_handlers

class Remembered:
    def __del__(self):
        print("torn down")

with ends_after_exit_handlers():
    kept = Remembered()
    kept.itself = kept
    atexit.register(lambda: print("handled"))
    {ending}
"""


@pytest.mark.parametrize(
    ("ending", "code", "says"),
    [
        ("pass", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('why')", 1, "why"),
        ("raise KeyError('why')", CRASHED, "KeyError: 'why'"),
    ],
)
def test_the_code_is_that_of_what_was_run(ending: str, code: int, says: str) -> None:
    program = PROGRAM.format(ending=ending)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (code, "handled\n"), ended.stderr
    assert says in ended.stderr


def test_an_output_that_is_gone_changes_nothing_of_that() -> None:
    program = PROGRAM.format(ending="sys.stdout.close(); sys.exit(3)")
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 3
