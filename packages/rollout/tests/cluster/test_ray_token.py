"""The token that Ray authenticates with: what is refused before Ray starts, and what Ray itself says about the same."""

import subprocess
import sys

import pytest

from warpsmith.rollout.cluster.session import check_token, ray_session
from warpsmith.rollout.errors import RayTokenError, SamplerError

CLUSTER = "127.0.0.1:6399"


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_local_instance_makes_its_own_token_and_a_cluster_may_ask_for_none(home):
    assert check_token() == f"a token that Ray creates in {home}/.ray/auth_token"
    assert check_token(CLUSTER) == "no token"


def test_a_token_is_found_where_ray_looks_and_in_its_order(home, monkeypatch):
    (home / ".ray").mkdir()
    (home / ".ray/auth_token").write_text("a" * 64)
    assert check_token(CLUSTER) == f"the token in {home}/.ray/auth_token"
    other = home / "other"
    other.write_text("b" * 64)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(other))
    assert check_token(CLUSTER) == f"the token in {other}"
    monkeypatch.setenv("RAY_AUTH_TOKEN", "c" * 64)
    assert check_token(CLUSTER) == "the token of RAY_AUTH_TOKEN"


def test_a_cluster_without_its_token_is_refused(home, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", " ")
    with pytest.raises(RayTokenError, match=f"no token for the cluster at {CLUSTER}") as caught:
        check_token(CLUSTER)
    assert "RAY_AUTH_TOKEN_PATH" in caught.value.remedy
    assert check_token().startswith("a token that Ray creates")


@pytest.mark.parametrize("content", [None, "", " \n"])
def test_a_file_without_a_token_is_refused(home, monkeypatch, content):
    path = home / "token"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(path))
    with pytest.raises(RayTokenError, match=f"RAY_AUTH_TOKEN_PATH names {path}, which"):
        check_token()
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    assert check_token() == "no token (RAY_AUTH_MODE=disabled)"


def test_a_home_that_takes_no_token_is_refused(home, monkeypatch):
    (home / "file").write_text("")
    monkeypatch.setenv("HOME", str(home / "file"))
    with pytest.raises(RayTokenError, match="cannot write it to"):
        check_token()
    monkeypatch.setenv("HOME", str(home / "absent"))
    assert check_token() == f"a token that Ray creates in {home}/absent/.ray/auth_token"


def test_a_ray_that_starts_too_slowly_is_reported_in_a_sentence(home, monkeypatch):
    """Ray itself raises a bare Exception then, after 30 s on a machine that is busy."""
    import ray

    def late(**_):
        raise Exception("The current node timed out during startup. The GCS may be overloaded.")

    monkeypatch.setattr(ray, "init", late)
    with (
        pytest.raises(SamplerError, match=r"local instance: .*timed out during startup.*overloaded\. ") as caught,
        ray_session(),
    ):
        pass
    assert "free core" in caught.value.remedy


ASK = """
import sys
from warpsmith.rollout.cluster import session
session.check_token = lambda address: None
with session.ray_session(sys.argv[1] or None):
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize(("address", "names"), [("", {"RAY_AUTH_TOKEN_PATH": "/absent"}), (CLUSTER, {})])
def test_what_ray_itself_refuses_is_reported_in_a_sentence(home, address, names, monkeypatch):
    """The check is taken out, so that Ray meets what it refuses."""
    for name, value in {"RAY_AUTH_MODE": "token", **names}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RayTokenError):
        check_token(address or None)
    asked = subprocess.run(
        [sys.executable, "-c", ASK, address], capture_output=True, text=True, timeout=120, check=False
    )
    assert "warpsmith.rollout.errors.SamplerError" in asked.stderr
    assert "Give this machine the cluster's token" in asked.stderr
