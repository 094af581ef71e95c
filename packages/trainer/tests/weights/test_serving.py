"""What `export` writes, served by vLLM's OpenAI server: its answer is that of the exported weights."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from warpsmith.policy.config import PolicyConfig
from warpsmith.policy.loading import load_policy
from warpsmith.trainer.config.sections import OptimizerSection, ZeroSection
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.distributed.rows import Row, pad_rows
from warpsmith.trainer.distributed.trained_policy import load_to_train
from warpsmith.trainer.distributed.zero_engine import ZeroEngine
from warpsmith.trainer.weights import checkpoint

START_S = 420
ASKED = [{"role": "user", "content": "Write a kernel."}]
TOKENS = 8


@contextmanager
def served(model: Path, log: Path) -> Iterator[str]:
    """Start the server as docs/training.md does on a CPU, and yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model),
        "--served-model-name", "policy", "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32",
        "--max-model-len", "512", "--enforce-eager",
    ]  # fmt: skip
    settings = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **settings}, start_new_session=True
        )
    try:
        _await_health(url, process, log)
        yield url
    finally:
        # The engine is a process of its own: the whole group ends, also where the start hangs.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)


def _await_health(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    pytest.fail(f"The server did not start within {START_S} s: {log.read_text()[-3000:]}")


def asked(url: str) -> dict[str, Any]:
    body = {"model": "policy", "messages": ASKED, "max_tokens": TOKENS, "temperature": 0, "return_token_ids": True}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return dict(json.load(answer))


def likeliest(model: Path) -> tuple[list[int], list[int]]:
    """Return the prompt's tokens by the policy's chat format, and transformers' likeliest ones after them."""
    policy = load_policy(model, dtype="float32")
    prompt = policy.chat.prompt_ids(ASKED)
    with torch.no_grad():
        whole = policy.model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=TOKENS)
    return prompt, whole[0, len(prompt) :].tolist()


@pytest.fixture
def trained(tiny: Path, alone: Ranks, tmp_path: Path) -> Path:
    """A run's directory with the checkpoint of a step that moved every weight."""
    config = PolicyConfig(path=tiny, dtype="float32")
    policy, zero = load_to_train(config, 0), ZeroSection(stage=1)
    engine = ZeroEngine(policy.model, zero=zero, optimizer=OptimizerSection(lr=1e-2), ranks=alone, dtype="float32")
    rows = pad_rows([Row(np.arange(5, 45), np.ones(40, np.int64))], torch.device("cpu"))
    engine.train()
    for _ in range(3):
        engine.accumulate(-engine.logprobs(rows, 1.0)[0].mean(), last=True)
        engine.step(1e-2)
    tables = {
        "run": {"seed": 0}, "policy": config.model_dump(mode="json"), "zero": {"stage": 1},
        "optimizer": {"schedule": {"type": "constant"}},
    }  # fmt: skip
    checkpoint.save(tmp_path / "run", engine, alone, checkpoint.Progress(step=3, update=3), config=tables, keep=1)
    return tmp_path / "run"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_vllm_serves_an_export_and_answers_with_its_weights(
    trained: Path, tiny: Path, command: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "exported"
    assert command("export", str(trained), "--output", str(out)) == 0
    assert f"{out}: the model of step 3, from {trained}/checkpoints/step-00000003" in capsys.readouterr().out
    with served(out, tmp_path / "server.log") as url:
        answer = asked(url)
    prompt, expected = likeliest(out)
    assert expected != likeliest(tiny)[1]
    assert answer["prompt_token_ids"] == prompt
    assert answer["choices"][0]["token_ids"] == expected
