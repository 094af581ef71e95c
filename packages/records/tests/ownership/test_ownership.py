"""A run directory has one owner: real processes that own it, are killed, suspended, and try all at once."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from owner_process import FAST, STARTERS

from warpsmith.records.ownership import OwnershipLostError, RunInUseError, owned
from warpsmith.records.ownership.generations import existing, make
from warpsmith.records.ownership.process import this_process

SCRIPT = Path(__file__).parents[1] / "support" / "owner_process.py"
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a process that owns a directory; ends them all."""
    processes = []

    def started(run_dir: Path, role: str = "here", *, owns: bool = True) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), role, str(run_dir)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        processes.append(process)
        if owns:
            assert process.stdout.readline() == "owns\n", process.stderr.read()
        return process

    yield started
    for process in processes:
        with process:  # closes its pipes and waits
            process.kill()


@pytest.fixture
def said() -> list[str]:
    return []


def member_file(run_dir: Path) -> Path:
    return existing(run_dir)[-1].path / "command.json"


def test_a_second_owner_is_refused_and_learns_who_has_the_directory_and_what_to_do(
    tmp_path: Path, start: Start
) -> None:
    first = start(tmp_path / "run")
    second = start(tmp_path / "run", owns=False)
    assert second.wait(30) == 2
    printed = " ".join(second.stderr.read().split())
    assert f"(pid {first.pid} on {os.uname().nodename}, since 20" in printed
    assert "owner_process.py here" in printed
    assert f"`kill -INT {first.pid}`" in printed
    assert f"remove {tmp_path}/run/lock" in printed
    first.stdin.close()
    assert first.wait(30) == 0
    start(tmp_path / "run")


def test_after_a_kill_the_next_starts_at_once(tmp_path: Path, start: Start, said: list[str]) -> None:
    first = start(tmp_path / "run")
    first.kill()
    os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)  # a zombie, as under a supervisor that waits later
    with owned(tmp_path / "run", say=said.append):
        assert said == []


def test_a_suspended_owner_is_an_owner(tmp_path: Path, start: Start) -> None:
    start(tmp_path / "run").send_signal(signal.SIGSTOP)
    with pytest.raises(RunInUseError), owned(tmp_path / "run", timing=FAST):
        pass


def test_a_pid_that_another_process_has_by_now_is_no_owner(tmp_path: Path, start: Start, said: list[str]) -> None:
    first, other = start(tmp_path / "run"), start(tmp_path / "other")
    first.kill()
    first.wait()
    entry = member_file(tmp_path / "run")
    entry.write_text(json.dumps({**json.loads(entry.read_text()), "pid": other.pid}))
    with owned(tmp_path / "run", say=said.append):
        assert said == []


def test_an_owner_on_another_host_is_known_by_its_heartbeat(tmp_path: Path, start: Start, said: list[str]) -> None:
    start(tmp_path / "run", "away")
    message, patient = r"on far-away, since .* stop it on far-away", replace(FAST, lease_s=60.0)
    with pytest.raises(RunInUseError, match=message), owned(tmp_path / "run", timing=patient, say=said.append):
        pass
    assert "Watching for up to 60 s" in said[0]


def test_an_owner_on_another_host_without_a_heartbeat_loses_the_directory_and_ends_when_it_wakes(
    tmp_path: Path, start: Start, said: list[str]
) -> None:
    far = start(tmp_path / "run", "away")
    far.send_signal(signal.SIGSTOP)
    with owned(tmp_path / "run", timing=FAST, say=said.append):
        assert "was last held by" in said[0]
        far.send_signal(signal.SIGCONT)
        assert far.wait(30) == 1
        assert f"(pid {os.getpid()} on" in " ".join(far.stderr.read().split())


def test_an_entry_that_cannot_be_read_is_judged_as_one_of_another_host(tmp_path: Path, said: list[str]) -> None:
    with owned(tmp_path / "run", say=said.append):
        member_file(tmp_path / "run").write_text("{")
        with owned(tmp_path / "run", timing=FAST, say=said.append):
            assert "held by `an unknown command`" in said[0]


def test_an_owner_whose_lock_was_removed_by_hand_is_notified(tmp_path: Path) -> None:
    lost, errors = threading.Event(), []
    with owned(tmp_path / "run", timing=FAST, on_lost=lambda error: (errors.append(error), lost.set())) as ownership:
        existing(tmp_path / "run")[-1].remove()
        assert lost.wait(30)
        with pytest.raises(OwnershipLostError, match="its lock was removed"):
            ownership.check()
    assert "its lock was removed" in str(errors[0])


def test_what_a_command_starts_shares_its_directory_and_outlives_it_for_a_while(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    run = tmp_path / "run"
    with owned(run) as ownership:
        for name, value in ownership.handover.items():
            monkeypatch.setenv(name, value)
        rank = start(run)
        monkeypatch.undo()
        dead = replace(this_process(), started=1)
        ownership.generation.add("command", dead)  # as if this process had been killed, and its pid were another's
        threading.Timer(0.3, rank.kill).start()
        with owned(run, timing=FAST, say=said.append):
            rank.wait(0)
        assert "The command that had" in said[0]


def test_a_rank_whose_command_lost_the_directory_meanwhile_does_not_start(tmp_path: Path, monkeypatch) -> None:
    run = tmp_path / "run"
    with owned(run) as ownership:
        for name, value in ownership.handover.items():
            monkeypatch.setenv(name, value)
        with owned(tmp_path / "other"):  # one that is not its command's is claimed as ever
            pass
        make(run, 2, {"command": this_process()})
        with pytest.raises(OwnershipLostError, match="took it over"), owned(run):
            pass


def test_directories_that_stay_empty_are_removed_and_others_kept(tmp_path: Path) -> None:
    with owned(tmp_path / "runs" / "new"):
        pass
    assert not list(tmp_path.iterdir())
    with owned(tmp_path / "runs" / "new"):
        (tmp_path / "runs" / "new" / "config.json").touch()
    assert [path.name for path in (tmp_path / "runs" / "new").iterdir()] == ["config.json"]


@pytest.mark.parametrize("left", ["nothing", "a dead owner", "a freed second generation"])
def test_of_many_that_start_at_once_one_owns(tmp_path: Path, left: str) -> None:
    for number in range(4):
        run = tmp_path / str(number)
        (run / "lock").mkdir(parents=True)
        if left == "a dead owner":
            make(run, 1, {"command": replace(this_process(), started=1)})
        elif left == "a freed second generation":
            make(run, 2, {})
        command = [sys.executable, str(SCRIPT), "race", str(run)]
        ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
        assert ended.stdout.split() == [b"1", str(STARTERS - 1).encode()], ended
