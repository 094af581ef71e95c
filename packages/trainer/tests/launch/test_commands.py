"""The console command, the launcher and signals."""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from warpsmith.records.last_words import oom_kills
from warpsmith.trainer.errors import ConfigError
from warpsmith.trainer.launch import launcher, port
from warpsmith.trainer.launch.deaths import Death
from warpsmith.trainer.launch.ending import CRASHED
from warpsmith.trainer.launch.port import checked_port, free_port
from warpsmith.trainer.launch.rank_log import log_of
from warpsmith.trainer.runs.interrupt import Interrupt

COMMAND = [sys.executable, "-m", "warpsmith.trainer"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    # A process group that another test made in this process leaves the names of a rank behind.
    clean = {name: value for name, value in os.environ.items() if name not in {"RANK", "LOCAL_RANK", "WORLD_SIZE"}}
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=120, check=False, env=clean)


@pytest.mark.parametrize("command", ["", "sft", "grpo", "demo", "schema", "export"])
def test_help_teaches_with_an_example(command: str) -> None:
    shown = run(*command.split(), "--help")
    assert shown.returncode == 0
    assert "Example: " in shown.stdout


def test_the_schema_is_printed_for_both_kinds() -> None:
    assert "[algorithm.clip]" in run("schema", "grpo").stdout
    assert "eval_every" in run("schema", "sft").stdout
    assert '"properties"' in run("schema", "--json").stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["grpo", "absent.toml"], "The configuration file absent.toml does not exist"),
        (["schema", "ppo"], "kinds are grpo and sft"),
        (["export", "absent", "--output", "out"], "has no checkpoint"),
        (["sft", "absent.toml", "--set", "x"], "does not exist"),
    ],
)
def test_bad_input_ends_with_one_paragraph_and_code_2(arguments: list[str], expected: str) -> None:
    ended = run(*arguments)
    assert ended.returncode == 2
    assert expected in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr


def test_the_ranks_get_the_arguments_and_a_port_of_their_own() -> None:
    command = launcher.launcher_command(["sft", "x.toml"], range(2), 12345)
    assert command[-3:] == ["warpsmith.trainer", "sft", "x.toml"]
    assert "--master_port=12345" in command
    assert launcher.without_local_rank(["--local_rank=1", "sft", "x.toml"]) == ["sft", "x.toml"]


@pytest.mark.parametrize(
    ("code", "death", "exit_code", "says"),
    [
        (0, None, 0, ""),
        (2, Death(0, 7, 2), 2, ""),
        (247, None, 137, "A rank was ended by signal 9 (Killed)"),
        (247, Death(1, 7, -9), 137, "Rank 1 (pid 7) was ended by signal 9 (Killed)"),
        (CRASHED, Death(1, 7, CRASHED), CRASHED, "Rank 1 (pid 7) ended by an unhandled exception"),
        (-9, None, 137, "DeepSpeed's launcher was ended by signal 9 (Killed)"),
    ],
)
def test_a_rank_that_cannot_speak_any_more_is_reported_with_its_log(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, code: int, death: Death | None, exit_code: int, says: str
) -> None:
    log_of(tmp_path, 1).write_text("of an earlier start\n=== rank 1, pid 7\nlast words\n")
    assert launcher.exit_code(code, death, tmp_path, oom_kills()) == exit_code
    said = capsys.readouterr().err
    assert says in " ".join(said.split())
    assert said.endswith(f"The last lines of {log_of(tmp_path, 1)}:\n    last words\n") == (
        death is not None and death.rank == 1
    )


def test_processes_follow_the_visible_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,5")
    assert launcher.default_processes() == 3
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert launcher.default_processes() == 1


@pytest.mark.parametrize(
    ("visible", "has_gpus", "expected"),
    [
        ("2,3,5", True, ["2", "3"]),
        ("GPU-6b1a, GPU-77cd", True, ["GPU-6b1a", "GPU-77cd"]),
        ("", True, [0, 1]),
        (None, True, [0, 1]),
        ("5", False, [0, 1]),
    ],
)
def test_ranks_get_the_gpus_that_were_chosen_for_this_process(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, has_gpus: bool, expected: list[int | str]
) -> None:
    monkeypatch.setattr(launcher, "_has_nvidia", lambda: has_gpus)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    devices = launcher.visible_devices(2)
    assert list(devices) == expected
    world = launcher.launcher_command(["sft"], devices, 12345)[4].partition("=")[2]
    assert json.loads(base64.urlsafe_b64decode(world)) == {"localhost": expected}


def test_more_ranks_than_chosen_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "_has_nvidia", lambda: True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    with pytest.raises(ConfigError, match="shows 1 GPUs; 2 ranks") as refused:
        launcher.visible_devices(2)
    assert "--num-processes 1" in str(refused.value.remedy)


def test_the_first_signal_asks_and_the_second_ends(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interrupt() as stop:
        assert not stop.requested
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.requested
        assert "SIGTERM: finishing this step" in capsys.readouterr().err
        # The same request in another form, as DeepSpeed's launcher sends it after the terminal's Ctrl-C.
        stop.reset_request_time(time.monotonic() + 60)
        os.kill(os.getpid(), signal.SIGINT)
        stop.reset_request_time(time.monotonic() - 5)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) == before


def test_under_the_commands_own_launcher_sigterm_ends_a_rank_at_once() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interrupt(launched=True) as stop:
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.requested
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_run_directory_is_not_used_twice(tmp_path: Path) -> None:
    from warpsmith.trainer.config.sections import RunSection
    from warpsmith.trainer.errors import ConfigError
    from warpsmith.trainer.runs.run_directory import refuse_used

    refuse_used(RunSection(dir=tmp_path / "new"))
    (tmp_path / "old" / "records").mkdir(parents=True)
    with pytest.raises(ConfigError, match="already holds a run"):
        refuse_used(RunSection(dir=tmp_path / "old"))


def test_what_would_be_trained_is_shown_and_nothing_is_written(
    tmp_path: Path, tiny: Path, command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "sft.toml"
    config.write_text(
        f'[run]\ndir = "{tmp_path / "run"}"\n[policy]\npath = "{tiny}"\n'
        '[data]\neval_examples = 4\n[data.source]\nproblems = 20\nlevels = [1]\nprompt_style = "compact"\n'
    )
    assert command("sft", str(config), "--show", "1") == 0
    said = capsys.readouterr().out
    assert "generated: 20 rows, 20 examples" in said
    assert "Held out: 4 examples" in said
    assert "Example 1, generated" in said
    assert [path.name for path in tmp_path.iterdir()] == ["sft.toml"]


def test_a_port_that_is_taken_is_refused_in_a_sentence_before_the_policy_is_looked_at(tmp_path: Path) -> None:
    config = tmp_path / "sft.toml"
    config.write_text(f'[run]\ndir = "{tmp_path / "run"}"\n[policy]\npath = "{tmp_path / "none"}"\n')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        shown = run("sft", str(config), "--master-port", str(taken.getsockname()[1]))
    assert shown.returncode == 2
    assert "--master-port" in shown.stderr
    assert "Traceback" not in shown.stderr
    assert not (tmp_path / "run").exists()


def test_a_free_port_is_taken_as_it_is() -> None:
    free = free_port()
    assert checked_port(free) == free


def test_a_free_port_is_one_that_the_kernel_gives_to_nobody_if_there_is_such_a_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(port, "RANGE", tmp_path / "range")
    (tmp_path / "range").write_text("20007\t60999\n")
    assert 20_000 <= free_port() < 20_007
    (tmp_path / "range").write_text("1024\t65535\n")
    assert free_port() >= 1024
    (tmp_path / "range").unlink()
    assert free_port() >= 1024
