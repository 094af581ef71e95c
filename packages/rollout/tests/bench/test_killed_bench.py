"""A bench that is killed at random moments, and started again with the same command, ends as one that was not."""

import hashlib
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import bench_process
import pytest
from scripted_answers import answer
from scripted_endpoint import Endpoint, serving, slow

from warpsmith.records.reader import RunReader

SCRIPT = Path(bench_process.__file__)
TOTAL = bench_process.PROBLEMS * bench_process.SAMPLES * bench_process.ATTEMPTS
WORDS = ("wrong", "broken", "fast 0.8", "fast 1.1", "fast 1.4", "fast 1.9")


def by_request(body, number):
    """Answer the same request with the same text, as a seeded model does."""
    digest = hashlib.sha256(json.dumps([body["messages"], body["seed"]]).encode()).digest()
    return answer(WORDS[digest[0] % len(WORDS)], digest.hex()[:8])


def without_seconds(result):
    if isinstance(result, dict):
        return {name: without_seconds(value) for name, value in result.items() if not name.endswith("_s")}
    return [without_seconds(one) for one in result] if isinstance(result, list) else result


def recorded(output):
    if not (output / "records").is_dir():
        return []
    rows = RunReader(output).table("turns", columns=["trajectory", "turn", "valid"])
    return [(row["trajectory"], row["turn"]) for row in rows.to_pylist() if row["valid"]]


@pytest.mark.slow
def test_no_attempt_is_lost_or_made_twice(tmp_path):
    rng = random.Random()
    with serving(Endpoint(slow(0.02, by_request))) as server:
        expected = bench_process.run(server.url, tmp_path / "whole")
        assert len(server.requests) == TOTAL
    output, kills = tmp_path / "killed", 0
    with serving(Endpoint(slow(0.02, by_request))) as server:
        while True:
            process = subprocess.Popen([sys.executable, str(SCRIPT), server.url, str(output)])
            begun, wanted = len(server.requests), rng.randrange(1, TOTAL // 3)
            while process.poll() is None and (kills == 3 or len(server.requests) < begun + wanted):
                time.sleep(0.002)
            if process.poll() is not None:
                break
            # The first time as Ctrl-C does.
            process.send_signal(signal.SIGKILL if kills else signal.SIGINT)
            assert process.wait(60) == (-signal.SIGKILL if kills else 130)
            kills += 1
        assert (process.returncode, kills > 0) == (0, True)
        repeated = len(server.requests) - TOTAL
    rows = recorded(output)
    assert len(rows) == len(set(rows)) == TOTAL
    assert 0 <= repeated <= kills * bench_process.IN_FLIGHT
    found = json.loads((output / "result.json").read_text())
    assert without_seconds(found) == without_seconds(json.loads(json.dumps(expected)))
