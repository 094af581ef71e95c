"""Two commands on one run directory: the second is refused while the first lives, and then starts at once."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from warpsmith.records.ownership import owned
from warpsmith.records.reader import RunReader

SFT = """
[run]
dir = "{run}"
steps = {steps}
torch_threads = 1
[policy]
path = "{policy}"
dtype = "float32"
[data]
eval_examples = 4
batch_size = 4
[data.source]
problems = 20
levels = [1]
prompt_style = "compact"
[optimizer]
schedule = "constant"
[checkpoint]
every = 1
[wandb]
mode = "disabled"
"""


@pytest.fixture
def config(tiny: Path, tmp_path: Path) -> Path:
    path = tmp_path / "sft.toml"
    path.write_text(SFT.format(run=tmp_path / "run", policy=tiny, steps=100_000))
    return path


@pytest.mark.parametrize(
    ("kind", "resume"),
    [("sft", []), ("sft", ["--resume"]), ("grpo", []), ("grpo", ["--resume"]), ("demo", ["--resume"])],
)
def test_each_command_is_refused_in_a_directory_that_has_an_owner(
    kind: str, resume: list[str], config: Path, grpo_text: str, tmp_path: Path, tiny: Path,
    command: Callable[..., int], capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    run, configs = tmp_path / "run", Path(__file__).parents[4] / "configs"
    if kind == "grpo":
        config.write_text(grpo_text.format(run=run, policy=tiny, stage=2, wandb="disabled"))
    arguments = [str(config)]
    if kind == "demo":
        arguments = ["--output", str(run), "--sft", f"{configs}/demo-sft.toml", "--grpo", f"{configs}/demo.toml"]
    with owned(run):
        assert command(kind, *arguments, *resume) == 2
        printed = " ".join(capsys.readouterr().err.split())
        assert f"{run} is in use by" in printed
        assert f"(pid {os.getpid()} on" in printed
    assert not run.exists()


@pytest.fixture
def first(config: Path) -> Iterator["subprocess.Popen[str]"]:
    """A command that trains for as long as it is let."""
    process = trainer(config)
    yield process
    process.kill()
    process.communicate()


def trainer(config: Path, *options: str) -> "subprocess.Popen[str]":
    environment = {name: value for name, value in os.environ.items() if name not in {"RANK", "LOCAL_RANK"}}
    command = [sys.executable, "-m", "warpsmith.trainer", "sft", str(config), *options]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment)


@pytest.mark.slow
@pytest.mark.long  # three whole commands; records/tests/ownership kills owners that do nothing else
@pytest.mark.timeout(600)
def test_a_supervisors_restart_waits_for_no_lease_and_nothing_is_recorded_twice(
    config: Path, first: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    run = tmp_path / "run"
    deadline = time.monotonic() + 300
    while not list((run / "checkpoints").glob("step-0*[1-9]")):
        assert first.poll() is None, first.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.2)
    second = trainer(config, "--resume")
    printed = " ".join(second.communicate(timeout=60)[1].split())
    assert second.returncode == 2
    assert f"is in use by `{sys.executable} -m warpsmith.trainer sft {config}` (pid {first.pid} on" in printed
    family = psutil.Process(first.pid).children(recursive=True)
    first.send_signal(signal.SIGKILL)
    first.wait()
    third = trainer(config, "--resume", "--seconds", "1")
    printed = third.communicate(timeout=300)[1]
    assert third.returncode == 0, printed
    assert "Watching" not in printed
    assert not [process for process in family if process.is_running()]
    steps = RunReader(run).table("steps")["step"].to_pylist()
    # The step that the kill met may be recorded and in no checkpoint; it is made again.
    assert len(steps) - len(set(steps)) <= 1
