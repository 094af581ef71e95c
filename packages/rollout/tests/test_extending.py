"""A package from outside the repository, made of the code in docs/extending.md: its rollout parts run together."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[3] / "docs" / "extending.md"

pytestmark = pytest.mark.skipif(not DOCUMENT.is_file(), reason="the document is in the repository, not in the package")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A directory that the package is installed in, as pip does it: its modules, and metadata with entry points."""
    place = tmp_path_factory.mktemp("site")
    (place / "my_parts").mkdir()
    (place / "my_parts" / "__init__.py").write_text("")
    files = {found[1]: code for code in blocks("python") if (found := re.match(r"# (my_parts/\w+\.py)\n", code))}
    assert {
        f"my_parts/{part}.py" for part in ("reward", "environment", "sampler", "transport", "strategy")
    } <= files.keys()
    for name, code in files.items():
        (place / name).write_text(code)
    (project,) = (table["project"] for table in map(tomllib.loads, blocks("toml")) if "project" in table)
    metadata = place / "my_parts-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = [
        line
        for group, parts in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in parts.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return place


@pytest.fixture
def outside(site, tmp_path):
    """Runs a program, or a command of this package, where the package is installed."""

    def run(*arguments):
        return subprocess.run(
            [sys.executable, *map(str, arguments)], env={**os.environ, "PYTHONPATH": str(site)}, cwd=tmp_path,
            capture_output=True, text=True, check=False, timeout=240,
        )  # fmt: skip

    return run


def table(**changes):
    """The configuration that the document's fragments make together."""
    config: dict = {}
    for text in blocks("toml"):
        for name, value in tomllib.loads(text).get("rollout", {}).items():
            config[name] = {**config.get(name, {}), **value} if isinstance(value, dict) else value
    config["sampler"] |= {"max_model_len": 640}
    config["sampler"]["options"] = {"directory": "."}
    return {**config, "sampling": {"max_tokens": 8}, "concurrency": 4, **changes}


PROGRAM = """
import asyncio, json, sys
from pathlib import Path
from warpsmith.policy.loading import load_chat, load_policy
from warpsmith.rollout.collector import Collector
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.datasets import generated
from warpsmith.rollout.registries import ENVIRONMENTS
from warpsmith.rollout.samplers import Sampler, WeightPayload
from warpsmith.rollout.samplers.registry import start_sampler

checkpoint, config = Path(sys.argv[1]), RolloutConfig.model_validate_json(sys.argv[2])
imported = [name for name in sys.modules if name.startswith("my_parts")]


async def go():
    sampler = start_sampler(checkpoint, config.sampler)
    assert isinstance(sampler, Sampler)
    collector = Collector(sampler, None, load_chat(checkpoint), config, run="outside")
    problems = generated(seed=0, count=1, levels=(1,))
    before = await collector.collect(problems, 2, label="a", seed=1)
    scored = await sampler.score(before["completion_ids"][0].as_py())
    state = {n: t * 1.5 for n, t in load_policy(checkpoint, dtype="float32").model.state_dict().items()}
    await sampler.update_weights(WeightPayload.from_state_dict(1, state))
    after = await collector.collect(problems, 2, label="b", seed=1)
    assert await sampler.score(before["completion_ids"][0].as_py()) != scored
    await sampler.close()
    columns = ["task", "turn", "num_turns", "reward", "return", "valid", "weight_versions", "verdict", "prompt_ids"]
    print(json.dumps({
        "imported": imported,
        "provider": ENVIRONMENTS.provider("syntax_only"),
        "rows": [table.select(columns).to_pylist() for table in (before, after)],
        "left": [path.name for path in Path(".").iterdir()],
    }))


asyncio.run(go())
"""


@pytest.mark.slow
def test_parts_from_outside_sample_evaluate_score_and_take_new_weights(outside, tiny_checkpoint):
    done = outside("-c", PROGRAM, tiny_checkpoint, json.dumps(table()))
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    assert found["imported"] == []
    assert found["provider"] == "my-parts 1.0"
    assert found["left"] == []
    before, after = found["rows"]
    for version, rows in enumerate([before, after]):
        assert {row["task"] for row in rows} == {"syntax_only"}
        assert {tuple(set(row["weight_versions"])) for row in rows} == {(version,)}
        # Eight tokens of an untrained policy define no ModelNew: every turn fails, up to the configured three.
        assert [(row["turn"], row["num_turns"], row["reward"], row["return"], row["valid"]) for row in rows] == [
            (turn, 3, 0.0, 0.0, True) for _ in range(2) for turn in range(3)
        ]
        assert {row["verdict"]["status"] for row in rows} == {"compile_error"}
        assert len(rows[1]["prompt_ids"]) > len(rows[0]["prompt_ids"])


def test_the_reward_of_the_document_scores_by_its_settings(outside):
    program = (
        "import sys\n"
        "from dataclasses import replace\n"
        "from warpsmith.evaluator.verdict import Verdict\n"
        "from warpsmith.rollout.config import RolloutConfig\n"
        "from warpsmith.rollout.rewards.registry import examples, scorer_for\n"
        "scorer = scorer_for(RolloutConfig.model_validate_json(sys.argv[1]).reward)\n"
        "turn = replace(examples()[0][1], index=2, verdict=Verdict('correct', True, True, speedup=4.0))\n"
        "print(scorer(turn, []).value)\n"
    )
    done = outside("-c", program, json.dumps({"reward": table()["reward"]}))
    assert float(done.stdout) == pytest.approx(0.3 + 0.5 * 2 - 0.05 * 2), done.stderr
    done = outside("-c", program, json.dumps({"reward": {"type": "log_speedup", "wieght": 1}}))
    assert "BadRewardError: rollout.reward: log_speedup of my-parts 1.0 cannot use these settings" in done.stderr
    assert "unexpected keyword argument 'wieght'" in done.stderr


def test_the_commands_know_the_parts_and_suggest_them(outside):
    assert "syntax_only " in outside("-m", "warpsmith.rollout", "environments").stdout
    for setting, known in {
        "environment.type=syntax_onl": "syntax_only",
        "reward.type=log_speedu": "log_speedup",
        "sampler.type=transformer": "transformers",
        "sampler.transport=directry": "directory",
    }.items():
        done = outside("-m", "warpsmith.rollout", "evaluate", "nowhere", "--set", setting)
        assert done.returncode == 2
        assert f"Did you mean `{known}`?" in done.stderr.replace("\n", " ")


def test_the_data_set_of_the_document_is_found_by_its_columns_and_read(outside, tmp_path):
    module = "class Model:\n    pass\n\n\ndef get_inputs():\n    return []\n"
    rows = [{"question": module, "answer": "x = 1", "grade": grade} for grade in (10, 3, 11)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    program = (
        "from warpsmith.rollout.datasets.registry import read_dataset\n"
        "read = read_dataset('rows.jsonl')\n"
        "print(read.type, [entry.claim.correct for entry in read.entries], *read.refused())\n"
    )
    done = outside("-c", program)
    assert done.stdout.strip() == (
        "questions [True, False] 1 row not used: grade is not from 0 to 10; first line 3 of rows.jsonl (11)"
    ), done.stderr


STRATEGY = """
from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.bench.config import bench_config
from warpsmith.rollout.bench.strategies.base import Attempt
from warpsmith.rollout.bench.strategies.registry import make_strategy
from warpsmith.rollout.turns import Turn

def config(**strategy):
    return bench_config([], {"model": "m", "endpoint": {"base_url": "http://h/v1"}, "strategy": strategy})

strategy, attempts = make_strategy(config(type="climb", attempts=4).strategy), []
for speedup in (None, 1.5, 1.2, 3.0):
    (plan,) = strategy.plan("key", attempts)
    print(plan.index, *plan.parents)
    verdict = Verdict("correct", True, True, speedup=speedup) if speedup else Verdict("incorrect", True, False)
    attempts.append(Attempt(plan, Turn(plan.index, "p", "s", 1, "", "k", 1, False, verdict), 1, 1))
print(strategy.plan("key", attempts))
try:
    make_strategy(config(type="climb", steps=4).strategy)
except Exception as error:
    print(type(error).__name__, error)
"""


def test_a_strategy_from_outside_plans_a_search(outside):
    done = outside("-c", STRATEGY)
    assert done.returncode == 0, done.stderr
    *plans, end, refused = done.stdout.splitlines()
    assert plans == ["0", "1", "2 1", "3 1"] and end == "[]"
    assert refused.startswith("UsageError The strategy `climb` does not take its settings: TypeError")
    listed = outside("-m", "warpsmith.rollout", "bench", "schema", "--json")
    assert '"climb"' in listed.stdout
