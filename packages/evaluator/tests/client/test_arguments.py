"""What `evaluate` and the client refuse before anything is asked."""

import subprocess
import sys

import pytest

from warpsmith.evaluator import Client, Evaluator
from warpsmith.records.errors import UsageError


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"trials": 0}, "trials is 0"),
        ({"trials": -1}, "an integer from 1 to 1000"),
        ({"trials": True}, "trials is True"),
        ({"trials": 2.0}, "trials is 2.0"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": "x"}, "seed is 'x'"),
        ({"seed": 1 << 128}, "2..128 - 1"),
        ({"timeout_s": 0}, "timeout_s is 0"),
        ({"timeout_s": -1.0}, "seconds above 0"),
        ({"timeout_s": float("nan")}, "timeout_s is nan"),
    ],
)
def test_a_number_out_of_range_is_refused_and_weakens_nothing(add_problem, add_candidate, given, says):
    with pytest.raises(UsageError, match=says):
        Evaluator().evaluate(add_problem, add_candidate, **given)


def test_other_types_are_refused_by_name(add_problem, add_candidate):
    with pytest.raises(UsageError, match="problem is of type int; a Problem"):
        Evaluator().evaluate(3, add_candidate)
    with pytest.raises(UsageError, match="candidate is of type int"):
        Evaluator().evaluate(add_problem, 3)


@pytest.mark.parametrize("address", ["127.0.0.1:18188", "ftp://x", "http://", ""])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(UsageError, match="not the address of a server"):
        Client([address])


def test_a_full_disk_is_reported_in_one_paragraph():
    command = [sys.executable, "-m", "warpsmith.evaluator", "doctor", "--json"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, check=False, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("error: The operating system refused: No space left on device")
    assert "Traceback" not in done.stderr
