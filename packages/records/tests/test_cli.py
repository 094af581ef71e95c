import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from made_rows import step_row, write_run
from runs import write_evaluated_run

from warpsmith.records import RunWriter, cli, commands, schema
from warpsmith.records.errors import UsageError, WarpsmithError

COMMANDS = ["summary", "compact", "export", "report", "serve", "timeline", "verify", "schema"]


Ended = subprocess.CompletedProcess[str]


def process(*arguments) -> Ended:
    command = [sys.executable, "-m", "warpsmith.records", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def records(capsys, monkeypatch) -> Callable[..., Ended]:
    """Runs the command in this process, and tells how it ended as if it had been one of its own."""

    def run(*arguments) -> Ended:
        monkeypatch.setattr(sys, "argv", ["warpsmith-records", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
            raise SystemExit(0)
        said = capsys.readouterr()
        return Ended(arguments, ended.value.code or 0, said.out, said.err)

    return run


def test_the_process_ends_as_the_command_does(run_dir, tmp_path, records):
    for arguments, code in ((["summary", run_dir], 0), (["summary", tmp_path / "nothing"], 2), (["sumary"], 2)):
        ended, expected = process(*arguments), records(*arguments)
        assert (ended.returncode, expected.returncode) == (code, code)
        assert ended.stdout == expected.stdout
        assert "Traceback" not in ended.stderr


def test_help_teaches_with_an_example_and_version_answers(records):
    assert "warpsmith-records summary runs/demo" in records("--help").stdout
    assert records("--version").stdout.startswith("warpsmith-records ")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command, records):
    found = records(command, "--help")
    assert found.returncode == 0
    assert f"Example: warpsmith-records {command}" in " ".join(found.stdout.split())


def test_summary_prints_the_figures(run_dir, records):
    found = records("summary", run_dir, "--role", "train")
    assert found.returncode == 0
    for text in ("average aggregated return", "improvement rate", "100.0%", "s2-t0"):
        assert text in found.stdout


def test_summary_splits_its_figures_by_a_column(tmp_path, records):
    run = write_evaluated_run(tmp_path / "run")
    by_level = json.loads(records("summary", run, "--json", "--by", "level", "--role", "train").stdout)
    assert {name: part["final_correct_rate"] for name, part in by_level.items()} == {
        "train, level 1": 0.0, "train, level 2": 1.0,
    }  # fmt: skip
    by_role = json.loads(records("summary", run, "--json", "--by", "role").stdout)
    assert {name: part["trajectories"] for name, part in by_role.items()} == {"held_out": 16, "train": 4}
    assert "train, level 2" in records("summary", run, "--by", "level").stdout
    assert records("report", run, "--by", "level").returncode == 0
    by_stage = json.loads(records("summary", run, "--json", "--by", "stage", "--role", "train").stdout)
    assert {name: part["trajectories"] for name, part in by_stage.items()} == {"train, stage 1": 2, "train, stage 2": 2}


@pytest.mark.parametrize("command", ["summary", "report"])
def test_a_column_that_does_not_exist_is_refused_with_those_that_do(command, run_dir, records):
    found = records(command, run_dir, "--by", "problem")
    assert found.returncode == 2
    assert "cannot be grouped by `problem`. Group them by agent, level, role, source, stage." in " ".join(
        found.stderr.split()
    )


def test_an_unknown_role_is_refused_with_the_roles_of_the_run(run_dir, records):
    found = records("summary", run_dir, "--role", "heldout")
    assert found.returncode == 2
    assert "the role `heldout`. Its roles are held_out, train." in " ".join(found.stderr.split())


@pytest.fixture
def demo(tmp_path) -> Path:
    """A demo's folder: a policy without records, a run of SFT with steps alone, a GRPO run."""
    folder = tmp_path / "demo"
    (folder / "policy").mkdir(parents=True)
    with RunWriter(folder / "sft") as writer:
        writer.append("steps", schema.steps_batch([step_row(1), step_row(2)]))
    write_run(folder / "grpo")
    return folder


def test_a_folder_of_runs_stands_for_its_runs(demo, tmp_path, records):
    said = records("summary", demo).stdout
    assert said.index(f"{demo / 'grpo'}:") < said.index("improvement rate") < said.index(f"{demo / 'sft'}:")
    assert f"{demo / 'sft'} has no turns." in said
    found = json.loads(records("summary", demo, "--json").stdout)
    assert (found["sft"], found["grpo"]["train"]["trajectories"]) == ({}, 6)
    # The run with turns is the one to report.
    assert records("report", demo).stdout.strip() == str(demo / "report.html")
    write_run(demo / "grpo-2")
    assert records("report", demo).stdout.split() == [str(demo / run / "report.html") for run in ("grpo", "grpo-2")]
    refused = records("report", demo, "-o", tmp_path / "one.html")
    assert refused.returncode == 2
    assert "has 2 runs with turns; one file cannot show them all." in " ".join(refused.stderr.split())


def test_a_folder_without_runs_is_refused_and_other_commands_name_its_runs(demo, records):
    for command in ("summary", "report", "serve"):
        refused = records(command, demo / "policy")
        assert refused.returncode == 2
        assert "has no records: the folder `records` is missing, and no folder in it has one." in " ".join(
            refused.stderr.split()
        )
    refused = records("verify", demo)
    assert refused.returncode == 2
    assert f"Pass one of them: {demo / 'grpo'}, {demo / 'sft'}." in " ".join(refused.stderr.split())


def test_summary_json_is_one_object_and_nothing_else(run_dir, records):
    found = json.loads(records("summary", run_dir, "--json").stdout)
    assert found["train"]["trajectories"] == 6


def test_verify_says_what_is_whole_torn_and_damaged(run_dir, records):
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


def test_damage_stops_a_command_with_one_paragraph_and_can_be_skipped(run_dir, records):
    (stream,) = (run_dir / "records" / "turns").glob("*.arrows")
    stream.write_bytes(stream.read_bytes()[:-300])
    stopped = records("summary", run_dir)
    assert stopped.returncode == 2
    assert stopped.stderr.startswith("error:") and "Traceback" not in stopped.stderr
    assert "on_damage='skip'" in " ".join(stopped.stderr.split())
    skipped = records("summary", run_dir, "--skip-damaged")
    assert skipped.returncode == 0
    assert "warning: skipped: " in skipped.stderr


def test_compact_export_and_report_write_what_they_say(run_dir, tmp_path, records):
    assert "24 turns" in records("compact", run_dir, tmp_path / "parquet", "--join-credits").stdout
    assert "12 trajectories" in records("export", run_dir, tmp_path / "logs", "--format", "json").stdout
    assert records("report", run_dir).stdout.strip() == str(run_dir / "report.html")
    assert (run_dir / "report.html").exists()


def test_the_output_of_a_command_can_be_an_option(run_dir, tmp_path, records):
    assert records("compact", run_dir, "-o", tmp_path / "parquet").returncode == 0
    assert records("export", run_dir, "--format", "json", "--output", tmp_path / "json").returncode == 0
    assert (tmp_path / "parquet").is_dir() and (tmp_path / "json").is_dir()
    assert "There is no output." in records("compact", run_dir).stderr
    assert "named twice" in records("compact", run_dir, tmp_path / "a", "-o", tmp_path / "b").stderr


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
def test_bad_input_ends_with_2_and_no_traceback(run_dir, tmp_path, arguments, records):
    (run_dir / "summary.txt").write_text("a file, not a directory")
    found = records(*(text.format(run=run_dir, tmp=tmp_path) for text in arguments))
    assert found.returncode == 2
    assert found.stderr and "Traceback" not in found.stderr


WRITING = [
    ("compact", "{run}", "{out}"),
    ("export", "{run}", "{out}", "--format", "json"),
    ("report", "{run}", "-o", "{out}"),
]
READING = [*WRITING, ("summary", "{run}"), ("verify", "{run}")]


@pytest.fixture
def public_folder():
    """A folder that every user may write to; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.fixture
def refused(capsys, monkeypatch):
    """Run a command in this process; it must be refused with one paragraph and nothing else, which is returned."""

    def run(*arguments) -> str:
        monkeypatch.setattr(sys, "argv", ["warpsmith-records", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        said = capsys.readouterr()
        assert (caught.value.code, said.out) == (2, "")
        assert said.err.startswith("error:") and "\n\n" not in said.err.strip()
        return " ".join(said.err.split())

    return run


@contextlib.contextmanager
def as_nobody():
    """Act as a user who owns nothing here, also where the tests run as root."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


@contextlib.contextmanager
def small_files(size):
    """Let no file grow beyond `size` bytes: what a full disk does, without a disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("command", READING, ids=lambda command: command[0])
def test_what_is_no_run_is_refused(command, tmp_path, refused):
    (tmp_path / "file").write_text("no run")
    (tmp_path / "empty").mkdir()
    for name in ("missing", "file", "empty"):
        said = refused(*(text.format(run=tmp_path / name, out=tmp_path / "out") for text in command))
        assert "has no records" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file"]


@pytest.mark.parametrize("command", READING, ids=lambda command: command[0])
@pytest.mark.parametrize("closed", ["", "records", "records/turns"])
def test_a_run_that_may_not_be_read_is_refused(command, closed, public_folder, refused):
    run_dir = write_run(public_folder / "run")
    (run_dir / closed).chmod(0o000)
    try:
        with as_nobody():
            said = refused(*(text.format(run=run_dir, out=public_folder / "out") for text in command))
    finally:
        (run_dir / closed).chmod(0o755)
    assert "cannot be read: Permission denied" in said
    assert [path.name for path in public_folder.iterdir()] == ["run"]


@pytest.mark.parametrize("command", WRITING, ids=lambda command: command[0])
def test_a_place_that_may_not_be_written_is_refused(command, run_dir, tmp_path, refused):
    (tmp_path / "file").write_text("")
    said = refused(*(text.format(run=run_dir, out=tmp_path / "file" / "out") for text in command))
    assert "Could not write" in said


@pytest.mark.parametrize("command", WRITING, ids=lambda command: command[0])
def test_a_full_disk_leaves_nothing_half_written(command, run_dir, tmp_path, refused):
    before = sorted(tmp_path.rglob("*"))
    with small_files(1000):
        said = refused(*(text.format(run=run_dir, out=tmp_path / "out") for text in command))
    assert "File too large" in said
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("command", [*WRITING, ("summary", "{run}")], ids=lambda command: command[0])
def test_a_newer_run_is_refused(command, tmp_path, monkeypatch, refused):
    with monkeypatch.context() as patch:
        patch.setattr(schema, "SCHEMA_VERSION", 8)
        run_dir = write_run(tmp_path / "run")
    said = refused(*(text.format(run=run_dir, out=tmp_path / "out") for text in command))
    assert "schema version 8; this installation reads up to 7. Install a newer" in said
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_verify_lists_what_is_newer(tmp_path, monkeypatch, records):
    with monkeypatch.context() as patch:
        patch.setattr(schema, "SCHEMA_VERSION", 8)
        write_run(tmp_path)
    found = records("verify", tmp_path)
    assert (found.returncode, found.stdout.count("Install a newer warpsmith-records")) == (1, 3)


def test_schema_prints_every_table_with_types(monkeypatch, records):
    monkeypatch.setenv("COLUMNS", "200")
    found = records("schema").stdout
    assert "schema version 7" in found
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


def test_timeline_draws_and_tells(run_dir, tmp_path, records):
    ended = records("timeline", run_dir, "--steps", "all", "-o", tmp_path / "times.svg")
    assert ended.returncode == 0
    assert "both at once" in ended.stdout
    assert (tmp_path / "times.svg").read_text().startswith("<svg")
    figures = json.loads(records("timeline", run_dir, "--steps", "all", "-o", tmp_path / "times.json", "--json").stdout)
    assert figures["wall_s"] > 0
    assert json.loads((tmp_path / "times.json").read_text())["traceEvents"]
    refused = records("timeline", run_dir, "--steps", "x")
    assert refused.returncode == 2
    assert "Use 3-6" in " ".join(refused.stderr.split())
