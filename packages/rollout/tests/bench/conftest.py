"""A scripted endpoint, a scripted evaluator, and benches over both."""

import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from warpsmith.rollout.bench import runner
from warpsmith.rollout.bench.config import bench_config
from warpsmith.rollout.bench.results import result_of
from warpsmith.rollout.datasets import from_generated
from warpsmith.rollout.generator import generate

# pytest's importlib mode leaves sys.path alone.
sys.path.insert(0, str(Path(__file__).parent.parent / "support"))


@pytest.fixture
def problems():
    return [from_generated(problem, "held_out") for problem in generate(seed=5, count=3, split="held_out")]


@pytest.fixture
def settings_for(tmp_path):
    def make(server, overrides=(), **given):
        table = {
            "model": "tiny",
            "endpoint": {
                "base_url": server.url, "retries": 2, "backoff_s": 0.001, "max_backoff_s": 0.002,
                "connect_timeout_s": 5, **given.pop("endpoint", {}),
            },
            "sampling": {"max_tokens": 100},
            "context_tokens": 20_000,
            **given,
        }  # fmt: skip
        return bench_config(overrides, table)

    return make


@pytest.fixture
def bench(tmp_path, monkeypatch, problems, scripted_judge):
    """Runs a bench with a scripted evaluator; `run.judge` is that evaluator, which tells what it was asked."""

    from scripted_answers import verdict_of

    class Bench:
        def __init__(self):
            self.judge = scripted_judge(verdict_of)
            self.output = tmp_path / "run"

        def run(self, config, chosen=None, output=None):
            output = output or self.output

            @contextmanager
            def opened(*_, **__):
                yield self.judge

            monkeypatch.setattr(runner, "open_evaluator", opened)
            self.described = runner.describe("run", config, chosen or problems)
            output.mkdir(exist_ok=True)
            self.outcomes = runner.run_bench(config, self.described, output)
            return self.outcomes

        def result(self):
            return result_of(self.described, self.outcomes)

    return Bench()
