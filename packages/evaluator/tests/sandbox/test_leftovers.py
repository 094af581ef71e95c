"""What a candidate leaves in its scratch holds up nobody, where the scratch is a folder of the machine's own."""

import tempfile
import time

import pytest

from warpsmith.evaluator import Evaluator, EvaluatorConfig

HONEST_AGAIN = 3

DEEP = """
import os
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
"""
WIDE = """
import os
for number in range(30_000):
    os.close(os.open(f"f{number}", os.O_CREAT))
"""
CLOSED = """
import os
for _ in range(20):
    os.mkdir("d")
    os.chdir("d")
    os.close(os.open(b"\\xff\\xfe", os.O_CREAT))
os.chmod(".", 0)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("scratch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(made))
        patch.setattr(tempfile, "tempdir", None)
        yield made


@pytest.fixture(scope="module")
def in_folders(folder):
    """An evaluator at a tier that mounts no scratch. As root this machine may give no stronger one of that kind."""
    config = EvaluatorConfig(slots=1, ready_workers=1, strongest_isolation="none", minimum_isolation="none")
    with Evaluator(config) as running:
        yield running
    # What takes a zygote long to remove goes on in a process of its own.
    deadline = time.monotonic() + 60
    while list(folder.iterdir()):
        assert time.monotonic() < deadline, list(folder.iterdir())
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("left", [DEEP, WIDE, CLOSED], ids=["deep", "wide", "closed"])
def test_the_next_candidates_are_judged_as_before(in_folders, add_problem, add_candidate, left):
    in_folders.evaluate(add_problem, left + add_candidate)
    verdicts = [in_folders.evaluate(add_problem, f"{add_candidate}\n# {number}") for number in range(HONEST_AGAIN)]
    assert [verdict.status for verdict in verdicts] == ["correct"] * HONEST_AGAIN
