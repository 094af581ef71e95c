"""Detached services: kept, watched, followed and ended, with real processes."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from warpsmith.records.errors import UsageError
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.errors import ServiceError
from warpsmith.trainer.launch.port import free_port
from warpsmith.trainer.services import follow, start, stop
from warpsmith.trainer.services.commands import duration
from warpsmith.trainer.services.state import file_of, read, services_of
from warpsmith.trainer.services.status import status_of

pytestmark = pytest.mark.timeout(120)

LISTEN = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'{"status": "healthy"}')
    def log_message(self, *_): pass
print("listening", flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
WAIT = "import time; print('working', flush=True); time.sleep(600)"
POLITE = """
import signal, sys, time
def end(*_):
    print("checkpoint written", flush=True); sys.exit(0)
signal.signal(signal.SIGINT, end)
print("working", flush=True)
while True: time.sleep(0.1)
"""
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)
deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", deaf])
print(child.pid, flush=True)
time.sleep(600)
"""


def service(name: str, code: str, *arguments: str, address: str | None = None) -> start.Service:
    health = "/health" if address else None
    return start.Service(name, (sys.executable, "-c", code, *arguments), address, health)


def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "this did not come about in time"
        time.sleep(0.05)


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(start, "_YOUNG_S", 0.5)
    monkeypatch.setattr(stop, "_KILL_AFTER_S", 1.0)
    yield
    if list((tmp_path / "services").glob("*.json")):
        stop.stop_all(tmp_path, timeout_s=1.0, now=True, say=print)


def begin(run: Path, *services: start.Service) -> list[str]:
    said: list[str] = []
    start.start_all(run, services, said.append)
    return said


def test_services_start_in_order_outlive_their_starter_and_end_in_reverse(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    server = service("evaluator-1", LISTEN, address.rpartition(":")[2], address=address)
    said = begin(tmp_path, server, service("trainer", POLITE))
    assert [line.split(":")[0] for line in said] == ["evaluator-1", "trainer"]
    first, second = services_of(tmp_path)
    assert (first.name, second.name, first.condition, second.condition) == (
        "evaluator-1",
        "trainer",
        "running",
        "running",
    )
    assert os.getsid(second.keeper) == second.keeper, "a closed terminal does not reach it"
    found = status_of(tmp_path)
    assert found.is_well
    assert [one.last_line for one in found.services] == ["listening", "working"]
    assert found.services[0].health == {"status": "healthy"}
    assert (found.step, found.steps, found.step_age_s) == (0, None, None)
    ended: list[str] = []
    states = stop.stop_all(tmp_path, timeout_s=20.0, now=False, say=ended.append)
    assert [line.split(":")[0] for line in ended] == ["trainer", "evaluator-1"]
    assert [state.condition for state in states] == ["ended", "ended"]
    assert follow.last_lines(Path(second.log), 1) == ["checkpoint written"]
    assert not start.is_ready(address, "/health")


def test_a_service_that_fails_is_reported_with_its_code_and_its_last_words(tmp_path: Path) -> None:
    crash = "print('no space left', flush=True); raise SystemExit(7)"
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(ServiceError, match="evaluator-1 ended with code 7 before it was ready") as caught:
        begin(tmp_path, service("ray", WAIT), service("evaluator-1", crash, address=address), service("trainer", WAIT))
    assert "no space left" in "".join(caught.value.__notes__)
    conditions = {state.name: state.condition for state in services_of(tmp_path)}
    assert conditions == {"ray": "ended", "evaluator-1": "failed"}, "what was started before is ended again"
    assert not status_of(tmp_path).is_well


def test_a_command_that_does_not_exist_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="trainer ended with code 127") as caught:
        begin(tmp_path, start.Service("trainer", ("/nowhere/command",)))
    assert "It did not start" in "".join(caught.value.__notes__)


def test_what_ignores_signals_is_killed_with_its_children(tmp_path: Path) -> None:
    begin(tmp_path, service("trainer", STUBBORN))
    log = Path(services_of(tmp_path)[0].log)
    until(lambda: "".join(follow.last_lines(log, 1)).isdecimal())
    child = int(follow.last_lines(log, 1)[0])
    said: list[str] = []
    stop.stop_all(tmp_path, timeout_s=0.5, now=False, say=said.append)
    assert said[-1] == "trainer: killing it"
    until(lambda: not psutil.pid_exists(child))


def test_a_killed_keeper_takes_its_service_with_it_and_is_lost(tmp_path: Path) -> None:
    begin(tmp_path, service("trainer", WAIT))
    (state,) = services_of(tmp_path)
    os.kill(state.keeper, signal.SIGKILL)
    until(lambda: services_of(tmp_path)[0].condition == "lost")
    until(lambda: not psutil.pid_exists(int(state.pid or 0)))
    assert not status_of(tmp_path).is_well


def test_another_process_with_the_pid_of_a_keeper_is_left_alone(tmp_path: Path) -> None:
    begin(tmp_path, service("trainer", WAIT))
    path = file_of(tmp_path, "trainer")
    true = path.read_text()
    path.write_text(json.dumps(json.loads(true) | {"keeper": os.getpid()}))
    assert read(path).condition == "lost"
    stop.stop(tmp_path, "trainer", timeout_s=1.0, say=print)
    path.write_text(json.dumps(json.loads(true) | {"host": "another"}))
    assert read(path).condition == "elsewhere"
    path.write_text(true)


def test_logs_are_followed_until_the_services_end(tmp_path: Path) -> None:
    begin(tmp_path, service("trainer", POLITE))
    logs = follow.chosen_logs(tmp_path, [])
    lines: list[str] = []
    follower = threading.Thread(target=follow.follow, args=(tmp_path, logs, lambda _, line: lines.append(line)))
    follower.start()
    time.sleep(0.5)
    stop.stop_all(tmp_path, timeout_s=20.0, now=False, say=print)
    follower.join(20)
    assert not follower.is_alive()
    assert lines == ["checkpoint written"]


def test_a_follower_gives_whole_lines_and_notices_a_log_that_was_replaced(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("old\n")
    follower = follow.Follower([log, tmp_path / "not yet.log"])
    with log.open("a") as file:
        file.write("one\ntw")
    assert [line for _, line in follower.new_lines()] == ["one"]
    with log.open("a") as file:
        file.write("o\n")
    assert [line for _, line in follower.new_lines()] == ["two"]
    log.write_text("new\n")
    assert [line for _, line in follower.new_lines()] == ["new"]


def test_a_run_without_services_and_a_damaged_state_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="has no services"):
        services_of(tmp_path)
    (tmp_path / "services").mkdir()
    file_of(tmp_path, "trainer").write_text("{}")
    with pytest.raises(ServiceError, match=r"trainer\.json is not the state of a service"):
        services_of(tmp_path)
    file_of(tmp_path, "trainer").unlink()
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank-0.log").write_text("x\n")
    with pytest.raises(ServiceError, match=r"no log rank-1\.log") as caught:
        follow.chosen_logs(tmp_path, ["rank-1"])
    assert "rank-0" in str(caught.value)


def services(**rollout: object) -> list[str]:
    config = TrainerConfig(run={"dir": Path("r")}, policy={"path": "p"}, rollout=rollout)
    found = start.services_for(config, ["grpo", "c.toml"], ray=True, page=8321, server_options=["--slots", "3"])
    assert found[-1].command[-2:] == ("--set", f"run.ray_address={found[0].address}")
    assert [one.command[-2:] for one in found if "evaluator" in one.name] == [("--slots", "3")] * (len(found) - 3)
    return [one.name for one in found]


def test_servers_of_this_machine_are_started_and_others_are_not() -> None:
    assert services() == ["ray", "page", "trainer"]
    ports = free_port(), free_port()
    servers = [f"http://127.0.0.1:{ports[0]}", "http://10.0.0.7:18188", f"http://localhost:{ports[1]}"]
    names = services(evaluation={"type": "server", "servers": servers})
    assert names == ["ray", f"evaluator-{ports[0]}", f"evaluator-{ports[1]}", "page", "trainer"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (3599, "59 min 59 s"), (7260, "2 h 1 min")]
)
def test_times_are_in_the_units_that_show_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_run_whose_services_run_is_not_started_again(
    tmp_path: Path, tiny: Path, grpo_text: str, command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "grpo.toml"
    config.write_text(grpo_text.format(run=tmp_path, policy=tiny, stage=1, wandb="disabled"))
    begin(tmp_path, service("trainer", WAIT))
    assert command("up", str(config)) == UsageError.exit_code
    assert "has services that run: trainer" in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_real_run_is_started_watched_stopped_with_a_checkpoint_and_resumed(
    tmp_path: Path, tiny: Path, grpo_text: str, command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    run, port = tmp_path / "run", free_port()
    server = f'[rollout.evaluation]\ntype = "server"\nservers = ["http://127.0.0.1:{port}"]\n[algorithm]'
    text = grpo_text.format(run=run, policy=tiny, stage=1, wandb="disabled").replace("[algorithm]", server, 1)
    config = tmp_path / "grpo.toml"
    config.write_text(text.replace("steps = 2", "steps = 500"))
    plain = ("--set", "held_out=unset", "--set", "checkpoint.every=0")
    try:
        assert command("up", str(config), *plain, "--serve-options", "--slots 2") == 0
        until(lambda: status_of(run).step >= 1, 300)
        assert command("status", str(run)) == 0
        shown = capsys.readouterr().out
        assert f"evaluator-{port}" in shown and "of 500" in shown
    finally:
        assert command("down", str(run), "--timeout", "120") == 0
    capsys.readouterr()
    trainer = next(state for state in services_of(run) if state.name == "trainer")
    assert (trainer.condition, trainer.code) == ("ended", 0)
    assert not start.is_ready(f"127.0.0.1:{port}", "/health")
    last = status_of(run).step
    assert [path.name for path in (run / "checkpoints").glob("step-*")] == [f"step-{last:08d}"]
    assert command("up", str(config), *plain, "--set", f"run.steps={last + 1}", "--resume") == 0
    until(lambda: {state.name: state.condition for state in services_of(run)}["trainer"] == "ended", 300)
    assert status_of(run).step == last + 1
    assert command("down", str(run)) == 0
