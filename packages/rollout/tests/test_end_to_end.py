"""Problems through the real evaluator: known solutions are right, broken ones are not, and a real policy is sampled."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from warpsmith.evaluator import Evaluator, EvaluatorConfig
from warpsmith.rollout.cli import app
from warpsmith.rollout.collector import Collector
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.datasets import from_generated
from warpsmith.rollout.generator import generate

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def judge():
    with Evaluator(EvaluatorConfig(minimum_isolation="none", slots=2)) as judge:
        yield judge


@pytest.mark.parametrize("count", [12, pytest.param(36, marks=pytest.mark.long)])
@pytest.mark.parametrize("split", ["train", "held_out"])
def test_the_evaluator_finds_every_solution_correct(judge, split, count):
    problems = [from_generated(p, split) for p in generate(seed=21, count=count, split=split)]

    async def go():
        return await asyncio.gather(
            *(judge.evaluate_async(p.to_problem(), p.solution, trials=3, timeout_s=60) for p in problems)
        )

    verdicts = asyncio.run(go())
    wrong = {p.name: (v.status, v.error_message) for p, v in zip(problems, verdicts, strict=True) if not v.correct}
    assert wrong == {}
    assert all(v.compiled for v in verdicts)


def test_an_episode_that_mends_its_kernel(judge, problem, chat, scripted_sampler):
    broken = problem.solution.replace("tl.store(out_ptr + i, x", "tl.store(out_ptr + i, x + 1.0")
    assert broken != problem.solution
    config = RolloutConfig(
        prompt_style="compact", prompt_tokens=3000, sampler={"max_model_len": 8192}, sampling={"max_tokens": 4096}
    )
    collector = Collector(scripted_sampler(broken, problem.solution), judge, chat, config, run="r")
    rows = asyncio.run(collector.collect([problem], 1, label="step-0")).to_pylist()
    assert [r["verdict"]["status"] for r in rows] == ["incorrect", "correct"]
    assert [r["reward"] for r in rows] == [0.1, 0.3]
    assert rows[0]["return"] == pytest.approx(0.1 + 0.4 * 0.3)
    assert "incorrect 100%" in rows[1]["messages"][-1]["content"]


def test_two_agents_on_the_interpreter_which_times_nothing(judge, problem, chat, scripted_sampler):
    broken = problem.solution.replace("tl.store(out_ptr + i, x", "tl.store(out_ptr + i, x + 1.0")
    other = problem.solution + "\n# the same in other words\n"
    settings = {"prompt_style": "compact", "prompt_tokens": 6000, "sampler": {"max_model_len": 12288}}
    config = RolloutConfig(environment="kernelbench_two_role", sampling={"max_tokens": 4096}, **settings)
    collector = Collector(scripted_sampler(broken, problem.solution, broken, other), judge, chat, config, run="r")
    rows = asyncio.run(collector.collect([problem], 1, label="step-0")).to_pylist()
    assert [(r["agent"], r["verdict"]["status"]) for r in rows] == [
        ("generator", "incorrect"), ("generator", "correct"), ("optimizer", "incorrect"), ("optimizer", "correct"),
    ]  # fmt: skip
    # A correct kernel of the optimizer scores 0 where nothing is timed, a wrong one less.
    assert [r["reward"] for r in rows] == [0.1, 0.3, -1.0, 0.0]
    assert [r["return"] for r in rows] == pytest.approx([0.1 + 0.4 * 0.3, 0.3, -1.0, 0.0])
    assert f"# make faster\n{problem.solution.strip()}\n# correct" in rows[2]["messages"][-1]["content"]
    assert {r["speedup_over_start"] for r in rows} == {None}

    alone = RolloutConfig(environment="kernelbench_optimize", sampling={"max_tokens": 4096}, **settings)
    collector = Collector(scripted_sampler(broken, other), judge, chat, alone, run="r")
    rows = asyncio.run(collector.collect([problem], 1, label="step-0")).to_pylist()
    assert [(r["agent"], r["reward"]) for r in rows] == [("optimizer", -1.0), ("optimizer", 0.0)]


def test_the_command_evaluates_a_checkpoint(tiny_checkpoint, tmp_path):
    out = tmp_path / "result.json"
    arguments = f"evaluate {tiny_checkpoint} --count 4 --samples 2 --prompt-style compact --max-tokens 60 --json"
    arguments += f" --max-model-len 512 --dtype float32 --isolation none --output {out}"
    done = CliRunner().invoke(app, arguments.split(), catch_exceptions=False)
    assert done.exit_code == 0
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert found["rates"]["trajectories"] + found["invalid"] == 8
    assert found == json.loads(out.read_text())
