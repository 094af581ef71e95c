"""The console command `warpsmith-records`."""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from warpsmith.records._version import __version__
from warpsmith.records.commands import OutputOption, new_app, output_of, run
from warpsmith.records.errors import UsageError

if TYPE_CHECKING:
    from warpsmith.records.reader import Losses, RunReader
    from warpsmith.records.summary import RunSummary

# pyarrow and modules that need it are imported inside the commands, to keep --help and --version fast.

app = new_app(
    "warpsmith-records",
    __version__,
    """Inspect the records of a run: turns, credits and training steps.

    Example:

        warpsmith-records summary runs/demo

        warpsmith-records report runs/demo -o demo.html

        warpsmith-records serve runs/demo

        warpsmith-records compact runs/demo demo-parquet
    """,
)

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The run's directory, for example runs/demo/grpo.")]
Runs = Annotated[
    Path, typer.Argument(metavar="RUN", help="The run's directory, or a folder of runs, for example runs/demo.")
]
Out = Annotated[
    Path | None, typer.Argument(metavar="OUT", help="New directory; created in full or not at all.", show_default=False)
]
_FILE_WIDTH = 140
Salvage = Annotated[
    bool, typer.Option("--skip-damaged", help="Skip damaged batches and list them, instead of stopping.")
]
By = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Split the figures by a column of turns: agent, level, role, source or stage."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]

notes = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
DAMAGED_EXIT_CODE = 1


class ExportFormat(StrEnum):
    """File formats of `export`."""

    JSON = "json"


@app.command()
def summary(
    run_dir: Runs,
    *,
    role: Annotated[str | None, typer.Option(help="Only turns of this role, for example train or held_out.")] = None,
    by: By = None,
    top: Annotated[int, typer.Option(help="Number of best trajectories to list.", min=0)] = 5,
    as_json: AsJson = False,
    skip_damaged: Salvage = False,
) -> None:
    """Print averages of turns, return, correctness, improvement and speedup, by turn, and the best trajectories.

    Evaluations before, during and after training are listed separately.

    Example: warpsmith-records summary runs/demo --role train --by level
    """
    from warpsmith.records.printing import print_summary
    from warpsmith.records.reader import runs_of
    from warpsmith.records.summary import summarize_parts

    found: dict[Path, dict[str, RunSummary]] = {}
    for folder in runs_of(run_dir):
        reader = _reader(folder, skip_damaged)
        found[folder] = summarize_parts(reader, role=role, by=by, top=top)
        _report_losses(reader.losses())
    if as_json:
        plain = {folder.name: {name: part.to_dict() for name, part in parts.items()} for folder, parts in found.items()}
        typer.echo(json.dumps(plain[run_dir.name] if run_dir in found else plain, indent=2))
        return
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        # In a file the names of trajectories and problems need not be folded.
        console.width = max(console.width, _FILE_WIDTH)
    for folder, parts in found.items():
        if folder != run_dir:
            typer.echo(f"{folder}:")
        if not parts:
            typer.echo(f"{folder} has no turns.")
        for name, figures in parts.items():
            print_summary(console, name, figures)


@app.command()
def compact(
    run_dir: Run,
    out: Out = None,
    output: OutputOption = None,
    *,
    partition_by: Annotated[
        list[str] | None, typer.Option(help="Column of turns to partition by; default: role; repeatable.")
    ] = None,
    join_credits: Annotated[bool, typer.Option(help="Add each turn's latest credit as columns credit_*.")] = False,
    skip_damaged: Salvage = False,
) -> None:
    """Write the run as a Parquet dataset, by default partitioned by role.

    Example: warpsmith-records compact runs/demo demo-parquet --join-credits
    """
    from warpsmith.records.compaction import compact as write

    with _progress("rows") as bar:
        task = bar.add_task("compacting", total=None)
        done = write(
            run_dir,
            output_of(out, output),
            partition_by=("role",) if partition_by is None else partition_by,
            join_credits=join_credits,
            on_damage="skip" if skip_damaged else "raise",
            progress=lambda table, rows: bar.update(task, description=table, completed=rows),
        )
    _report_losses(done.losses)
    typer.echo(f"{done.out}: " + ", ".join(f"{rows} {table}" for table, rows in done.rows.items()))


@app.command()
def export(
    run_dir: Run,
    out: Out = None,
    output: OutputOption = None,
    *,
    form: Annotated[ExportFormat, typer.Option("--format", help="json: one file per turn and per trajectory.")],
    skip_damaged: Salvage = False,
) -> None:
    """Write the run's turns and trajectories as files for other tools.

    Example: warpsmith-records export runs/demo demo-logs --format json
    """
    from warpsmith.records.export import export_json

    with _progress("turns") as bar:
        task = bar.add_task(f"writing {form}", total=None)
        done = export_json(
            run_dir,
            output_of(out, output),
            on_damage="skip" if skip_damaged else "raise",
            progress=lambda turns, total: bar.update(task, completed=turns, total=total),
        )
    _report_losses(done.losses)
    typer.echo(f"{done.out}: {done.turns} turns, {done.trajectories} trajectories")


@app.command()
def report(
    run_dir: Runs,
    out: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Output file; default RUN/report.html.")
    ] = None,
    trajectories: Annotated[
        int, typer.Option(help="Trajectories to show per kind and part; 0 leaves out all texts.", min=0)
    ] = 3,
    by: By = None,
    skip_damaged: Salvage = False,
) -> None:
    """Write one self-contained HTML page of at most 20 MB: the result, curves, verdicts, and trajectories to read.

    Needs the extra `analysis` (docs/installing.md).

    Example: warpsmith-records report runs/demo -o demo.html
    """
    from warpsmith.records.report import write_report

    runs = _runs_to_report(run_dir)
    if out is not None and len(runs) > 1:
        raise UsageError(
            f"{run_dir} has {len(runs)} runs with turns; one file cannot show them all.",
            f"Leave out --output, or pass one of them: {', '.join(map(str, runs))}.",
        )
    for folder in runs:
        target = out or (folder if len(runs) > 1 else run_dir) / "report.html"
        reader = _reader(folder, skip_damaged)
        write_report(reader, target, trajectories=trajectories, by=by)
        _report_losses(reader.losses())
        typer.echo(str(target))


@app.command()
def serve(
    run_dirs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...", help="Directories of one or more runs, finished or running, or folders of runs."
        ),
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on; beyond loopback, anyone who reaches it can read.")
    ] = ("127.0.0.1"),
    by: By = None,
    port: Annotated[int, typer.Option("--port", "-p", help="Port; 0 chooses a free one.", min=0, max=65535)] = 8321,
) -> None:
    """Show runs in the browser while they write: what `report` shows, all texts, and runs side by side. Read-only.

    Needs the extra `serve` (docs/installing.md).

    Example: warpsmith-records serve runs/demo runs/other --port 8321
    """
    from warpsmith.records.live import serve as serve_runs
    from warpsmith.records.parts import check_grouping
    from warpsmith.records.reader import runs_of

    check_grouping(by)
    readers = [_reader(folder, skip_damaged=True) for run_dir in run_dirs for folder in runs_of(run_dir)]
    serve_runs(readers, host, port, by=by, announce=typer.echo)


@app.command()
def timeline(
    run_dir: Run,
    out: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Output file, .svg or .json; default RUN/timeline.svg."),
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(
            metavar="FIRST-LAST",
            help="Steps to draw; `all` includes evaluations of the policy. Default: the last 20.",
        ),
    ] = None,
    as_json: AsJson = False,
    skip_damaged: Salvage = False,
) -> None:
    """Draw when the run generated, evaluated, waited, trained and synced, and print how much of it overlapped.

    A .json file is a trace for Perfetto (ui.perfetto.dev) or chrome://tracing.

    Example: warpsmith-records timeline runs/demo --steps 3-6 -o timeline.svg
    """
    from warpsmith.records import timeline as times
    from warpsmith.records.timeline_files import sentence, write_timeline

    target = run_dir / "timeline.svg" if out is None else out
    reader = _reader(run_dir, skip_damaged)
    chosen = times.chosen_steps(reader, steps)
    found = times.spans(reader, chosen)
    write_timeline(found, target, f"{run_dir.name}, {times.named(chosen)}")
    _report_losses(reader.losses())
    figures = times.overlap(found)
    typer.echo(json.dumps(figures.to_dict(), indent=2) if as_json else f"{target}: {sentence(figures)}")


@app.command()
def verify(run_dir: Run, as_json: AsJson = False) -> None:
    """Check each recorded batch; list what is torn (cut off by a kill) and what is damaged (changed in any other way).

    Exit code 0 if each recorded batch is intact, 1 if one is damaged.

    Example: warpsmith-records verify runs/demo
    """
    from warpsmith.records.printing import print_reports, report_dict

    reader = _reader(run_dir, skip_damaged=False)
    with _progress("segments") as bar:
        task = bar.add_task("checking", total=sum(reader.segment_counts().values()))
        reports = reader.verify(progress=lambda _: bar.advance(task))
    if as_json:
        typer.echo(json.dumps([report_dict(report) for report in reports], indent=2))
    else:
        print_reports(Console(highlight=False, markup=False, soft_wrap=True), reports)
    if any(report.damage for report in reports):
        raise typer.Exit(DAMAGED_EXIT_CODE)


@app.command()
def schema() -> None:
    """Print the columns of each table with type and nullability.

    Example: warpsmith-records schema
    """
    from warpsmith.records.schema import SCHEMA_VERSION, TABLES

    console = Console(highlight=False, markup=False)
    console.print(f"schema version {SCHEMA_VERSION}")
    for name, columns in TABLES.items():
        table = Table(title=name, title_justify="left", box=None, padding=(0, 2, 0, 0))
        for heading in ("column", "null", "type"):
            table.add_column(heading, overflow="fold")
        for field in columns:
            table.add_row(field.name, "yes" if field.nullable else "no", str(field.type))
        console.print(table)


def main() -> None:
    """Run the console command."""
    run(app)


def _reader(run_dir: Path, skip_damaged: bool) -> "RunReader":
    from warpsmith.records.reader import RunReader

    return RunReader(run_dir, on_damage="skip" if skip_damaged else "raise")


def _runs_to_report(folder: Path) -> list[Path]:
    """The runs of a folder that have turns; all if none has, for example those of SFT."""
    from warpsmith.records.reader import RunReader, runs_of

    runs = runs_of(folder)
    return [one for one in runs if any(part.rows for part in RunReader(one).segments("turns"))] or runs


def _report_losses(losses: "Losses") -> None:
    for torn in losses.torn:
        notes.print(f"note: skipped, cut off by a kill or being written now: {torn}")
    for error in losses.damage:
        notes.print(f"warning: skipped: {error}")


def _progress(unit: str) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        console=notes,
        transient=True,
        disable=not notes.is_terminal,
    )
