"""The examples of docs/integrations.md with the real libraries, and what a failure of the evaluator becomes in each.

Every test is `long`: it makes an environment of its own, of hundreds of megabytes. The grader that all of them use is
tested in every run, in packages/evaluator/tests/rewards.
"""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from environments import ROOT, SUPPORT, UV, blocks

from warpsmith.evaluator.server.child import ServerProcess

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]

RIGHT = "generations/level_1_problem_1_sample_0_kernel.py"
WRONG = "generations/level_1_problem_1_sample_1_kernel.py"


@contextmanager
def served(environment, program, *arguments) -> Iterator[str]:
    """Run a server of support/ in an environment; give its address."""
    port = environment.work / f"{program}.port"
    command = [environment.folder / "bin/python", SUPPORT / program, port, *arguments]
    process = subprocess.Popen([str(part) for part in command], cwd=environment.work)
    try:
        deadline = time.monotonic() + 60
        while not (port.exists() and port.read_text()):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port.read_text()}"
    finally:
        process.terminate()
        process.wait()
        port.unlink(missing_ok=True)


def test_one_function(environment):
    done = environment("judge").example("One function")
    assert done.startswith("correct 0.3 Compiled: yes")


def test_a_client_stays_within_its_size(environment):
    here = environment("client")
    sizes = [path.stat().st_size for path in here.folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(sizes) < 300e6, "docs/installing.md states a budget of 300 MB"
    assert here.run("warpsmith-evaluator", "--version").startswith("warpsmith-evaluator ")
    with pytest.raises(AssertionError, match=r"packages/evaluator\[judge\]"):
        here.run("warpsmith-evaluator", "check", "problems/level1/1_Add_ReLU.py", RIGHT)


def test_trl(environment):
    here = environment("judge,trl")
    here.support("tiny_model.py")
    assert "rewards/kernel/mean" in here.example("TRL")
    assert here.support("trl_checks.py").splitlines()[-1] == "checked"


def test_verifiers(environment):
    here = environment("judge,client,verifiers", "setuptools")
    install = [UV, "pip", "install", "--quiet", "--no-deps", "--python", here.folder / "bin/python"]
    subprocess.run([*map(str, install), str(ROOT / "environments/warpsmith_kernels")], check=True)

    def traces(folder, answers, **variables):
        with served(here, "model_server.py", *answers) as address:
            command = blocks("verifiers", "sh")[0].replace("\\\n", " ").split()
            command[command.index("--model") + 1] = "scripted"
            command[command.index("--client.base-url") + 1] = f"{address}/v1"
            command[command.index("--output-dir") + 1] = folder
            here.run(*command, "-n", "1", "-r", "2", "-c", "1", **variables)
        [file] = (here.work / folder).glob("*/traces.jsonl")
        episodes = [json.loads(line) for line in file.read_text().splitlines()]
        return [trace for episode in episodes for trace in episode["traces"]]

    scores = [trace["rewards"]["kernel"]["score"] for trace in traces("judged", [RIGHT, WRONG])]
    assert scores == [0.3, 0.0]
    with served(here, "invalid_server.py") as broken:
        lost = traces("lost", [RIGHT], WARPSMITH_EVALUATOR_SERVERS=broken)
    assert [trace["rewards"]["kernel"] for trace in lost] == [None, None]
    assert all("InvalidVerdictError" in trace["errors"][0]["message"] for trace in lost)


def test_inspect(environment):
    here = environment("judge,client,inspect")
    assert "success {'score': 0.3, 'compiled': 1.0, 'correct': 1.0}" in here.example("Inspect")
    with served(here, "invalid_server.py") as broken:
        assert "success {'*': nan}" in here.example("Inspect", WARPSMITH_EVALUATOR_SERVERS=broken)


def test_verl(environment):
    here = environment("judge,client,verl")
    here.support("tiny_model.py")
    assert "'status': 'correct'" in here.example("verl")
    assert here.support("verl_manager.py").splitlines()[-1] == "0.3 correct"
    with served(here, "invalid_server.py") as broken, pytest.raises(AssertionError, match="InvalidVerdictError"):
        here.example("verl", WARPSMITH_EVALUATOR_SERVERS=broken)


def test_verls_agent_loop_tells_the_findings_and_trains_what_was_written(environment):
    here = environment("judge,client,verl")
    here.support("tiny_model.py")
    assert here.support("verl_loop.py").splitlines()[-1] == "looped"
    with served(here, "invalid_server.py") as broken, pytest.raises(AssertionError, match="InvalidVerdictError"):
        here.support("verl_loop.py", WARPSMITH_EVALUATOR_SERVERS=broken)


def test_skyrl_gym(environment):
    here = environment("judge,client,skyrl-gym")
    done = here.example("SkyRL-Gym")
    assert done.splitlines() == ["0.0 False Correct: no (incorrect)", "0.3 True {'correct': 1.0, 'turns': 2}"]
    with served(here, "invalid_server.py") as broken, pytest.raises(AssertionError, match="InvalidVerdictError"):
        here.example("SkyRL-Gym", WARPSMITH_EVALUATOR_SERVERS=broken)


def test_openenv(environment):
    here = environment("judge,client,openenv")
    assert here.example("OpenEnv").splitlines()[-2:] == ["1_Add_ReLU", "0.3 True correct"]
    with served(here, "invalid_server.py") as broken:
        printed = here.example("OpenEnv", WARPSMITH_EVALUATOR_SERVERS=broken)
    assert printed.splitlines()[-1] == "None False invalid"


def test_nemo_gym_asks_a_server_from_an_environment_without_torch(environment):
    # A version manager's shim is found also where it starts nothing, so it is asked.
    asked = ["python3.12", "-c", "import sys; print(sys.executable)"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False) if shutil.which(asked[0]) else None
    if found is None or found.returncode != 0:
        pytest.skip("needs Python 3.12")
    python = found.stdout.strip()
    here = environment("client,nemo-gym", python=python)
    with ServerProcess("--slots", "1") as server:
        assert here.example("NeMo-Gym", WARPSMITH_EVALUATOR_SERVERS=server.url).splitlines()[-1] == "200 0.3"
    with served(here, "invalid_server.py") as broken:
        assert here.example("NeMo-Gym", WARPSMITH_EVALUATOR_SERVERS=broken).splitlines()[-1] == "503 None"
    with pytest.raises(AssertionError, match="No module named 'torch'"):
        here.run("python", "-c", "import torch")


def with_trainer(environment, *packages):
    """Return an environment that has the trainer without what it needs to train."""
    here = environment("judge,client", *packages)
    install = [UV, "pip", "install", "--quiet", "--no-deps", "--python", here.folder / "bin/python"]
    sources = [ROOT / "packages" / package for package in ("policy", "rollout", "trainer")]
    subprocess.run([str(part) for part in (*install, *sources)], check=True)
    return here


def test_trackers_keep_every_figure(environment):
    here = with_trainer(environment, "tensorboard", "mlflow-skinny", "sqlalchemy", "alembic", "trackio")
    printed = here.support("tracker_checks.py")
    assert all(f"{name} kept " in printed for name in ("tensorboard", "mlflow", "trackio"))


def test_the_view_of_wandb_is_made_and_sent(environment):
    here = with_trainer(environment, "wandb-workspaces", "pandas", "numpy", "psutil")
    printed = here.support("wandb_view_checks.py", ROOT / "tests/data/recorded-run")
    assert printed.splitlines()[-1].endswith(" figures")
