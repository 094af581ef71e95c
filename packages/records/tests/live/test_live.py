"""The live page: what the server answers, and a browser that follows runs while they write."""

import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvicorn
from made_rows import credit_row, trajectory_rows
from runs import ATTACK, write_evaluated_run, write_evaluation, write_hostile_run, write_step
from starlette.testclient import TestClient

from warpsmith.records import RunReader, RunWriter
from warpsmith.records.cli import app
from warpsmith.records.commands import run as run_command
from warpsmith.records.live import runs as live_runs
from warpsmith.records.live.runs import LiveRuns
from warpsmith.records.live.server import application_of
from warpsmith.records.schema import credits_batch, turns_batch

LOOPBACK = "http://127.0.0.1"


def client_of(*folders) -> TestClient:
    readers = [RunReader(folder, on_damage="skip") for folder in folders]
    return TestClient(application_of(LiveRuns(readers)), base_url=LOOPBACK)


@contextmanager
def served(*folders) -> Iterator[str]:
    """Serve runs on a free port."""
    application = application_of(LiveRuns([RunReader(folder, on_damage="skip") for folder in folders]))
    server = uvicorn.Server(uvicorn.Config(application, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            pass
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Each question about the state reads the records."""
    monkeypatch.setattr(live_runs, "REFRESH_S", 0.0)


def test_the_server_answers_with_columns_overview_and_texts(tmp_path):
    client = client_of(write_evaluated_run(tmp_path))
    state = client.get("/api/state").json()["runs"][0]
    assert (state["name"], len(state["turns"]), len(state["steps"])) == (tmp_path.name, 1, 1)
    chunk = client.get("/api/runs/0/turns/0").content
    (length,) = struct.unpack("<I", chunk[:4])
    assert json.loads(chunk[4 : 4 + length])["rows"] == 38
    overview = client.get("/api/runs/0/overview").json()
    assert "+50.0 points" in overview["headline"]["text"]
    assert {part["label"] for part in overview["parts_by"]} >= {"train, stage 1", "train, stage 2"}
    by_level = LiveRuns([RunReader(tmp_path)], by="level").overview(0)
    assert {part["label"] for part in by_level["parts_by"]} >= {"train, level 1", "train, level 2"}
    trajectory = client.get("/api/runs/0/trajectory", params={"key": "step-1/1"}).json()
    assert [turn["kernel"].split("\n")[2] for turn in trajectory["turns"]] == ["x = 1", "x = 2"]


def test_only_chunks_that_grew_get_another_version(tmp_path):
    with RunWriter(tmp_path) as writer:
        for start in range(0, 9000, 1500):
            rows = [row for n in range(1500) for row in trajectory_rows(f"t{start + n}", ["correct"])]
            writer.append("turns", turns_batch(rows))
        client = client_of(tmp_path)
        before = client.get("/api/state").json()["runs"][0]
        assert client.get("/api/state").json()["runs"][0] == before
        writer.append("turns", turns_batch(trajectory_rows("new", ["correct"])))
        after = client.get("/api/state").json()["runs"][0]
    assert len(before["turns"]) == 2
    assert before["turns"][0] == after["turns"][0]
    assert before["turns"][1] != after["turns"][1]


@pytest.mark.parametrize("method", ["post", "put", "delete", "patch"])
def test_nothing_can_be_written(tmp_path, method):
    client = client_of(write_evaluated_run(tmp_path))
    for path in ("/", "/api/state", "/api/runs/0/trajectory?key=x"):
        assert getattr(client, method)(path).status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        *("/assets/../../pyproject.toml", "/assets/..%2f..%2fconfig.json", "/assets/%2e%2e/reader.py"),
        *("/assets//etc/passwd", "/api/runs/1/overview", "/api/runs/-1/overview", "/api/runs/0/turns/9"),
        *("/api/runs/0/credits/0", "/api/runs/0/trajectory?key=../../config.json", "/api/runs/0/trajectory"),
        *("/records", "/api/runs/..%2f/overview"),
    ],
)
def test_no_request_reaches_a_file(tmp_path, path):
    run = write_evaluated_run(tmp_path)
    (run / "config.json").write_text('{"policy": {"path": "a-private-place"}}')
    answer = client_of(run).get(path)
    assert answer.status_code == 404
    assert "a-private-place" not in answer.text


def test_another_site_cannot_lead_here_by_its_name(tmp_path):
    client = client_of(write_evaluated_run(tmp_path))
    for path in ("/", "/api/state", "/assets/app.js"):
        assert client.get(path, headers={"host": "evil.example:8321"}).status_code == 421
        assert client.get(path, headers={"host": "localhost:8321"}).status_code == 200


def test_each_answer_forbids_foreign_scripts(tmp_path):
    client = client_of(write_hostile_run(tmp_path))
    for path in ("/", "/api/state", "/api/runs/0/overview", "/assets/app.js", "/api/runs/7/overview"):
        headers = client.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    assert ATTACK not in client.get("/").text


def test_runs_are_compared_with_intervals_paired_by_problem(tmp_path):
    for name, solved in (("one", 4), ("other", 8)):
        write_evaluated_run(tmp_path / name, solved_after=solved)
    first, second = client_of(tmp_path / "one", tmp_path / "other").get("/api/compare").json()["runs"]
    assert (first["solved"]["mean"], first["difference"]) == (0.5, None)
    gap = second["difference"]
    assert (gap["mean"], gap["problems"]) == (0.5, 8)
    assert 0 < gap["low"] < 0.5 < gap["high"] < 1


def test_damage_is_listed_and_the_rest_is_shown(tmp_path):
    run = write_evaluated_run(tmp_path)
    (stream,) = (run / "records" / "turns").glob("*.arrows")
    data = bytearray(stream.read_bytes())
    data[len(data) // 2] ^= 1
    stream.write_bytes(bytes(data))
    found = client_of(run).get("/api/runs/0/overview").json()
    assert 0 < found["turns"] < 38
    assert len(found["damage"]) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["absent"], "has no records"), (["{run}", "--host", "256.1.1.1"], "Cannot listen on 256.1.1.1")],
)
def test_what_cannot_be_served_ends_with_a_sentence(tmp_path, monkeypatch, capsys, arguments, said):
    run = write_evaluated_run(tmp_path)
    monkeypatch.setattr("sys.argv", ["warpsmith-records", "serve", *(a.format(run=run) for a in arguments)])
    with pytest.raises(SystemExit) as ended:
        run_command(app)
    assert ended.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_the_page_follows_a_run_while_it_writes(browser, tmp_path):
    with RunWriter(tmp_path) as writer:
        write_evaluation(writer, 0, 2)
        write_step(writer, 1)
        with served(tmp_path) as address:
            browser.open(address, "trajectories")
            assert browser.text("#count") == "10 of 10 trajectories"
            browser.type("#search", "train_1")
            browser.until("document.getElementById('count').innerText", lambda text: text.startswith("1 of 10"))
            write_step(writer, 2)
            browser.until("document.getElementById('count').innerText", lambda text: text == "2 of 12 trajectories")
            assert browser.js("document.getElementById('search').value") == "train_1"
            browser.go("trajectory?key=step-2/1&mode=diff")
            browser.until("document.querySelectorAll('.line.added').length", lambda count: count == 1)
            browser.go("overview")
            assert "No held-out evaluation before and after" in browser.text(".headline")
            write_evaluation(writer, 2, 6)
            browser.until("document.querySelector('.headline').innerText", lambda text: "+50.0 points" in text)
            assert browser.complaints() == []
    browser.until("document.querySelector('.live').innerText", lambda text: text == "no connection")


@pytest.mark.slow
def test_an_open_trajectory_follows_its_turns(browser, tmp_path):
    rows = trajectory_rows("t", ["incorrect", "incorrect", "correct"], after_step=0, rollout_step=1)
    rows[0]["kernel"] = "\n".join(f"x = {number}" for number in range(400))
    for row in rows:
        row["verdict"]["error_message"] = "it failed"
    with RunWriter(tmp_path) as writer:
        writer.append("turns", turns_batch(rows[:1]))
        with served(tmp_path) as address:
            browser.open(address, "trajectory?key=t")
            browser.until("document.querySelectorAll('.turn').length", lambda count: count == 1)
            browser.js("document.querySelector('.turn details.error').open = false")
            browser.js("document.querySelector('.turn pre.code').scrollTop = 500")
            browser.js("scrollTo(0, 100)")
            place = browser.js("[scrollY, document.querySelector('.turn pre.code').scrollTop]")
            assert place == [100, 500]
            writer.append("turns", turns_batch(rows[1:2]))
            browser.until("document.querySelectorAll('.turn').length", lambda count: count == 2)
            assert browser.js("document.querySelector('.turn details.error').open") is False
            assert browser.js("[scrollY, document.querySelector('.turn pre.code').scrollTop]") == place
            # What changes nothing about this trajectory leaves the view as it is.
            browser.js("document.querySelector('.turn').dataset.seen = 'yes'")
            write_step(writer, 2)
            browser.until("document.querySelector('.reader-head .bar').innerText", lambda text: "1 of 3" in text)
            assert browser.js("document.querySelector('.turn').dataset.seen") == "yes"
            credits = [credit_row("t", turn, 1, advantage=-0.25) for turn in range(3)]
            writer.append("turns", turns_batch(rows[2:]))
            browser.until("document.querySelectorAll('.turn').length", lambda count: count == 3)
            writer.append("credits", credits_batch(credits))
            browser.until("document.querySelector('.turn')?.innerText", lambda text: "-0.25" in (text or ""))
            assert browser.texts(".turn h3")[2].startswith("Turn 3 correct")
            assert browser.complaints() == []


@pytest.mark.slow
def test_several_runs_stand_side_by_side(browser, tmp_path):
    for name, solved in (("one", 4), ("other", 8)):
        write_evaluated_run(tmp_path / name, solved_after=solved)
    with served(tmp_path / "one", tmp_path / "other") as address:
        browser.open(address, "compare")
        row = browser.until("document.querySelectorAll('main tbody tr')[1]?.innerText")
        assert "+50.0" in row and "better" in row
        browser.until("document.querySelectorAll('.plot svg.main-svg').length >= 2")
        browser.go("overview?run=1")
        assert browser.until("document.querySelector('main h1').innerText", lambda text: text == "other")


@pytest.mark.slow
def test_hostile_text_is_text_on_the_live_page(browser, tmp_path):
    with served(write_hostile_run(tmp_path)) as address:
        browser.open(address)
        for view in ("overview", "grid", "trajectories", "metrics"):
            browser.go(view)
            browser.until("document.querySelector('main h1')")
        browser.js("location.hash = 'trajectories'")
        browser.until("document.querySelector('.list .row:not(.head)')")
        browser.js("document.querySelector('.list .row:not(.head)').click()")
        browser.until("document.querySelector('.turn')")
        assert browser.js("window.owned") is None
        assert browser.complaints() == []
