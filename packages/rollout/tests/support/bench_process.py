"""A bench with a scripted evaluator as a process of its own, to be killed: `bench_process.py URL OUTPUT`."""

import asyncio
import sys
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from scripted_answers import verdict_of

from warpsmith.rollout.bench import runner
from warpsmith.rollout.bench.config import bench_config
from warpsmith.rollout.bench.results import result_of, write_result
from warpsmith.rollout.datasets import from_generated
from warpsmith.rollout.generator import generate

PROBLEMS, SAMPLES, ATTEMPTS, IN_FLIGHT = 2, 2, 12, 4


class SlowJudge:
    async def evaluate_async(self, problem, candidate, **_):
        await asyncio.sleep(0.02)
        return verdict_of(candidate)


def config_for(url):
    return bench_config(
        [],
        {
            "model": "tiny",
            "endpoint": {"base_url": url, "in_flight": IN_FLIGHT},
            "strategy": {"type": "evolve", "attempts": ATTEMPTS, "population": 3, "children": 3, "islands": 2},
            "samples": SAMPLES,
            "sampling": {"max_tokens": 100, "seeded": True},
        },
    )


def run(url, output):
    @contextmanager
    def opened(*_, **__):
        yield SlowJudge()

    problems = [from_generated(one, "held_out") for one in generate(seed=5, count=PROBLEMS, split="held_out")]
    config = config_for(url)
    described = runner.describe("run", config, problems)
    output.mkdir(parents=True, exist_ok=True)
    with patch.object(runner, "open_evaluator", opened):
        result = result_of(described, runner.run_bench(config, described, output))
    write_result(output, result)
    return result


if __name__ == "__main__":
    try:
        run(sys.argv[1], Path(sys.argv[2]))
    except runner.BenchStoppedError:
        sys.exit(130)
