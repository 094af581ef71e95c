"""The command with the real evaluator, and with vLLM's own server; what it writes opens as a run."""

import base64
import gzip
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

import pytest
from scripted_endpoint import Endpoint, serving
from starlette.testclient import TestClient
from typer.testing import CliRunner

from warpsmith.records import cli as records_cli
from warpsmith.records.live.runs import LiveRuns
from warpsmith.records.live.server import application_of
from warpsmith.records.reader import RunReader
from warpsmith.rollout.cli import app
from warpsmith.rollout.datasets import generated

pytestmark = pytest.mark.slow


def invoke(*arguments):
    return CliRunner().invoke(app, ["bench", *map(str, arguments)], catch_exceptions=False)


def test_a_kernel_that_is_fixed_after_the_real_verdict_on_it(tmp_path):
    problems = generated(seed=3, count=2, split="held_out", levels=(1,))

    def script(body, number):
        prompt = body["messages"][-1]["content"]
        (problem,) = [one for one in problems if one.text.strip() in prompt]
        informed = "Correct: no (incorrect)" in prompt
        broken = problem.solution.replace("tl.store(out_ptr + i, x", "tl.store(out_ptr + i, x + 1.0")
        assert broken != problem.solution
        return f"```python\n{problem.solution if informed else broken}```"

    options = ["--count", 2, "--levels", "1", "--seed", 3, "--strategy", "refine", "--isolation", "none", "--json"]
    options += ["--set", "evaluator.slots=2", "--set", "evaluator.trials=2"]
    run = tmp_path / "run"
    with serving(Endpoint(script)) as server:
        done = invoke("--model", "tiny", "--base-url", server.url, "-o", run, *options)
    assert done.exit_code == 0
    result = json.loads(done.stdout)
    assert result["ended"] == {"solved": 2} and result["spent"]["evaluations"] == 4
    total = result["scores"][-1]
    assert total["correct_rate"] == 1.0 and total["speed"] is None
    assert [search["answer"] for search in result["searches"]] == [1, 1]
    page = tmp_path / "report.html"
    CliRunner().invoke(records_cli.app, ["report", str(run), "--output", str(page)], catch_exceptions=False)
    data = re.search(r'id="data-manifest">([^<]*)</script>', page.read_text())[1]
    assert json.loads(gzip.decompress(base64.b64decode(data)))["overview"]
    client = TestClient(application_of(LiveRuns([RunReader(run)])), base_url="http://127.0.0.1")
    trajectory = f"bench/{problems[0].name}/{problems[0].to_problem().key[:8]}/0"
    found = client.get("/api/runs/0/trajectory", params={"key": trajectory}).json()
    assert "Correct: no (incorrect)" in json.dumps(found)


@contextmanager
def vllm_serving(model, log):
    """Start vLLM's OpenAI-compatible server on a CPU, and yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model),
        "--served-model-name", "policy", "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32",
        "--max-model-len", "1024", "--enforce-eager",
    ]  # fmt: skip
    settings = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **settings}, start_new_session=True
        )
    try:
        deadline = time.monotonic() + 420
        while not _is_up(f"http://127.0.0.1:{port}/health"):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        # The engine is a process of its own: the whole group ends.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)


def _is_up(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status == 200
    except OSError:
        return False


# Long: vLLM's server takes a minute to start. Every run covers the same route with the scripted server.
@pytest.mark.long
@pytest.mark.timeout(900)
def test_vllms_server_is_asked_and_distinguished_from_others(tiny_checkpoint, tmp_path):
    options = ["--count", 2, "--levels", "1", "--isolation", "none", "--prompt-style", "compact", "--json"]
    options += ["--max-tokens", 60, "--set", "evaluator.slots=2", "--set", "evaluator.trials=2"]
    with vllm_serving(tiny_checkpoint, tmp_path / "vllm.log") as url:
        common = ["--base-url", url, *options]
        done = invoke("--model", "policy", "--context", 1024, "-o", tmp_path / "a", "--samples", 2, *common)
        assert done.exit_code == 0
        refined = ["--strategy", "evolve", "--attempts", 6, "--set", "strategy.population=2"]
        evolved = invoke("--model", "policy", "--context", 1024, "-o", tmp_path / "b", *refined, *common)
        assert evolved.exit_code == 0
        wrong = subprocess.run(
            [sys.executable, "-m", "warpsmith.rollout", "bench", "--model", "gpt", "-o", tmp_path / "c",
             *map(str, common)],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert wrong.returncode == 2 and "does not have the model gpt: it has policy" in " ".join(wrong.stderr.split())
        long = subprocess.run(
            [sys.executable, "-m", "warpsmith.rollout", "bench", "--model", "policy", "-o", tmp_path / "c",
             *map(str, common)],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert long.returncode == 2 and "has a context of 1024 tokens" in " ".join(long.stderr.split())
    spent = json.loads(done.stdout)["spent"]
    assert spent["attempts"] == 4 and spent["estimated_tokens"] == 0
    assert 4 <= spent["completion_tokens"] <= 240
    rows = RunReader(tmp_path / "b").table("turns", latest=True).to_pylist()
    assert len(rows) == 12 and {row["finish_reason"] for row in rows} <= {"stop", "length"}
