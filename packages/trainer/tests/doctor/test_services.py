"""Services and packages that a run needs: W&B's login, Ray's token, containment, packages beside torch."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from warpsmith.evaluator import _native
from warpsmith.rollout.errors import RayTokenError
from warpsmith.trainer.config import TrainerConfig, load_grpo
from warpsmith.trainer.config.sections import RunSection, WandbSection
from warpsmith.trainer.doctor import packages, services
from warpsmith.trainer.doctor.preflight import check_files
from warpsmith.trainer.errors import ContainmentError, WandbError
from warpsmith.trainer.telemetry.trackers.weights_and_biases import start_wandb

Load = Callable[..., TrainerConfig]
KEY = "a" * 40


@pytest.fixture
def load(tmp_path: Path, tiny: Path, grpo_text: str) -> Load:
    path = tmp_path / "grpo.toml"
    path.write_text(grpo_text.format(run=tmp_path / "run", policy=tiny, stage=2, wandb="offline"))
    return lambda *overrides: load_grpo(path, overrides)


# W&B -----------------------------------------------------------------------------------------------------------------


class Server(BaseHTTPRequestHandler):
    """As much of W&B's server as a login asks for: who is it?"""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        content = json.dumps(
            {"data": {"viewer": {"id": "1", "username": "me", "entity": "me", "flags": "{}"}}}
        ).encode()
        self.send_response(200 if self.headers.get("Authorization") else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def logged_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_IDENTITY_TOKEN_FILE", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, logged_out: None) -> Iterator[None]:
    http = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{http.server_port}")
    yield
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.mark.usefixtures("logged_out")
def test_a_run_that_is_not_online_needs_no_login(load: Load) -> None:
    assert [one.seen for one in services.wandb(load())] == ["offline; needs no login"]
    assert [one.seen for one in services.wandb(load("wandb.mode=disabled"))] == ["disabled; needs no login"]


@pytest.mark.parametrize(
    ("key", "says"),
    [("", "No API key configured"), ("abc", r"40\+ characters")],
)
@pytest.mark.usefixtures("logged_out")
def test_an_empty_key_and_one_that_can_be_none_are_refused(
    load: Load, monkeypatch: pytest.MonkeyPatch, key: str, says: str
) -> None:
    # A mode that the environment sets does not make the login one that is not tried.
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.setenv("WANDB_API_KEY", key)
    with pytest.raises(WandbError, match=says) as caught:
        list(services.wandb(load('wandb.mode="online"')))
    assert "\n" not in caught.value.message
    assert "wandb login" in caught.value.remedy


@pytest.mark.usefixtures("server")
def test_a_key_that_the_server_takes_will_do(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    assert [one.state for one in services.wandb(load('wandb.mode="online"'))] == ["ok"]


@pytest.mark.slow
@pytest.mark.usefixtures("logged_out")
def test_a_server_that_is_away_is_refused(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    with pytest.raises(WandbError, match=r"Failed to authenticate with http://127\.0\.0\.1:9"):
        list(services.wandb(load('wandb.mode="online"')))


@pytest.mark.usefixtures("logged_out")
def test_a_run_of_wandb_that_cannot_begin_is_a_sentence(tmp_path: Path) -> None:
    """Reached where a key is taken away after the check."""
    with pytest.raises(WandbError, match=r"W&B cannot start its run: .*API key") as caught:
        start_wandb(RunSection(dir=tmp_path), WandbSection(mode="online"), {})
    assert "offline" in caught.value.remedy


# Ray -----------------------------------------------------------------------------------------------------------------


def test_the_token_of_ray_is_looked_for_where_the_run_will_connect(
    load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    assert [one.state for one in services.ray_token(load())] == ["ok"]
    with pytest.raises(RayTokenError, match=r"no token for the cluster at 10\.0\.0\.1:6379"):
        list(services.ray_token(load('run.ray_address="10.0.0.1:6379"')))


# Containment ---------------------------------------------------------------------------------------------------------


def test_the_tier_is_the_one_that_the_file_permits(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    least = 'evaluator.minimum_isolation="landlock"'
    monkeypatch.setattr(_native, "achievable_tier", lambda: "namespaces")
    assert next(services.containment(load(least))).seen == "namespaces; the minimum is landlock"
    capped = load(least, 'evaluator.strongest_isolation="landlock"')
    assert next(services.containment(capped)).seen == "landlock; the minimum is landlock"
    on_gpu = load(least, 'evaluator.strongest_isolation="landlock"', 'evaluator.device="cuda"')
    with pytest.raises(ContainmentError, match="landlock forbids the socket") as caught:
        list(services.containment(on_gpu))
    assert 'strongest_isolation = "namespaces"' in caught.value.remedy


def test_a_machine_that_gives_less_than_the_least_is_refused(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "achievable_tier", lambda: "none")
    with pytest.raises(ContainmentError, match=r"contained by none here, but .* is landlock") as caught:
        check_files(load(), resume=False)
    assert caught.value.remedy
    spread = ["rollout.evaluation.type=ray", 'run.ray_address="10.0.0.1:6379"']
    (elsewhere,) = services.containment(load(*spread))
    assert elsewhere.state == "warning"
    with pytest.raises(ContainmentError):
        list(services.containment(load(spread[0])))


def test_this_machine_reaches_what_its_workers_reach(load: Load) -> None:
    """The suite's own evaluators run here, so the default minimum is met."""
    assert [one.state for one in services.containment(load())] == ["ok"]


# Packages beside torch -----------------------------------------------------------------------------------------------


def test_this_environment_has_nothing_that_keeps_torch_from_being_used() -> None:
    (fine,) = packages.beside_torch()
    assert (fine.what, fine.state) == ("packages beside torch", "ok")


@pytest.mark.usefixtures("logged_out")
def test_the_command_tells_of_all_that_is_wrong_before_it_starts_anything(
    load: Load, tmp_path: Path, tiny: Path, command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    load()
    changes = [
        f"policy.path={tiny}", "rollout.sampler.max_model_len=100000", 'wandb.mode="online"',
        "rollout.reward.type=function", "rollout.reward.path=absent.py:score",
    ]  # fmt: skip
    arguments = ["grpo", str(tmp_path / "grpo.toml"), *(part for change in changes for part in ("--set", change))]
    assert command(*arguments) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("error: 3 checks failed: (1) rollout.reward.path: there is no file")
    assert "(2) sampler.max_model_len is 100000" in said
    assert '(3) wandb.mode is "online", but W&B rejects the login: No API key' in said
    assert not (tmp_path / "run").exists()
