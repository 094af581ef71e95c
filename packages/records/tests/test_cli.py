import json
import subprocess
import sys

import pytest
import typer

from warpsmith.records import commands
from warpsmith.records.errors import UsageError, WarpsmithError

COMMANDS = ["summary", "compact", "export", "report", "verify", "schema"]


def records(*arguments, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "warpsmith.records", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_help_teaches_with_an_example_and_version_answers():
    assert "warpsmith-records summary runs/demo" in records("--help").stdout
    assert records("--version").stdout.startswith("warpsmith-records ")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command):
    found = records(command, "--help")
    assert found.returncode == 0
    assert f"Example: warpsmith-records {command}" in " ".join(found.stdout.split())


def test_summary_prints_the_figures(run_dir):
    found = records("summary", run_dir, "--role", "train")
    assert found.returncode == 0
    for text in ("average aggregated return", "improvement rate", "100.0 %", "s2-t0"):
        assert text in found.stdout


def test_summary_json_is_one_object_and_nothing_else(run_dir):
    found = json.loads(records("summary", run_dir, "--json").stdout)
    assert found["train"]["trajectories"] == 6


def test_verify_says_what_is_whole_torn_and_damaged(run_dir):
    assert "0 damaged" in records("verify", run_dir).stdout
    (stream,) = (run_dir / "records" / "turns").glob("*.arrows")
    whole = stream.read_bytes()
    stream.write_bytes(whole + b"left by a kill")
    torn = records("verify", run_dir)
    assert (torn.returncode, "torn: " in torn.stdout) == (0, True)
    stream.write_bytes(whole[:-300] + bytes([whole[-300] ^ 1]) + whole[-299:])
    damaged = records("verify", run_dir, "--json")
    assert damaged.returncode == 1
    assert [len(segment["damage"]) for segment in json.loads(damaged.stdout)] == [1, 0, 0]


def test_damage_stops_a_command_with_one_paragraph_and_can_be_skipped(run_dir):
    (stream,) = (run_dir / "records" / "turns").glob("*.arrows")
    stream.write_bytes(stream.read_bytes()[:-300])
    stopped = records("summary", run_dir)
    assert stopped.returncode == 2
    assert stopped.stderr.startswith("error:") and "Traceback" not in stopped.stderr
    assert "on_damage='skip'" in " ".join(stopped.stderr.split())
    skipped = records("summary", run_dir, "--skip-damaged")
    assert skipped.returncode == 0
    assert "warning: left out: " in skipped.stderr


def test_compact_export_and_report_write_what_they_say(run_dir, tmp_path):
    assert "24 turns" in records("compact", run_dir, tmp_path / "parquet", "--join-credits").stdout
    assert "12 trajectories" in records("export", run_dir, tmp_path / "logs", "--format", "json").stdout
    assert records("report", run_dir).stdout.strip() == str(run_dir / "report.html")
    assert (run_dir / "report.html").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("summary", "{tmp}/nothing"),
        ("verify", "{tmp}"),
        ("compact", "{run}", "{tmp}"),
        ("compact", "{run}", "{tmp}/x", "--partition-by", "turn"),
        ("export", "{run}", "{tmp}", "--format", "json"),
        ("export", "{run}", "{tmp}/x", "--format", "xml"),
        ("export", "{run}", "{tmp}/x"),
        ("report", "{run}", "-o", "{run}/summary.txt/x.html"),
        ("sumary", "{run}"),
    ],
)
def test_bad_input_ends_with_2_and_no_traceback(run_dir, tmp_path, arguments):
    (run_dir / "summary.txt").write_text("a file, not a directory")
    found = records(*(text.format(run=run_dir, tmp=tmp_path) for text in arguments))
    assert found.returncode == 2
    assert found.stderr and "Traceback" not in found.stderr


def test_schema_prints_every_table_with_types():
    found = records("schema", env={"COLUMNS": "200", "PATH": "/usr/bin:/bin"}).stdout
    assert "schema version 2" in found
    for text in ("timestamp[us, tz=UTC]", "weight_versions", "advantage", "map<string, double>"):
        assert text in found


def test_run_turns_a_typed_error_into_one_paragraph(capsys):
    def failing() -> None:
        raise UsageError("There is\n  no such thing.", "Name another.")

    with pytest.raises(SystemExit) as caught:
        commands.run(failing)
    assert caught.value.code == 2
    assert capsys.readouterr().err == "error: There is no such thing. Name another.\n"


def test_run_uses_the_errors_own_exit_code():
    class Special(WarpsmithError):
        exit_code = 7

    def failing() -> None:
        raise Special("what", "do")

    with pytest.raises(SystemExit) as caught:
        commands.run(failing)
    assert caught.value.code == 7


def test_run_shows_the_traceback_when_debugging(monkeypatch):
    monkeypatch.setenv("WARPSMITH_DEBUG", "1")

    def failing() -> None:
        raise UsageError("what", "do")

    with pytest.raises(UsageError):
        commands.run(failing)


def test_an_app_tells_its_version_and_its_purpose(capsys):
    app = commands.new_app("some-command", "1.2.3", "It does a thing.")

    @app.command()
    def act() -> None:
        typer.echo("done")

    for arguments, said in ((["--version"], "some-command 1.2.3"), (["--help"], "It does a thing."), (["act"], "done")):
        with pytest.raises(SystemExit) as caught:
            app(arguments)
        assert caught.value.code == 0
        assert said in capsys.readouterr().out
