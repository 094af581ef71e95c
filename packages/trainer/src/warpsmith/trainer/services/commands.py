"""`up`, `status`, `logs` and `down`: a run that continues without a terminal."""

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from warpsmith.records.errors import UsageError
from warpsmith.trainer.options import Config, Overrides, Resume
from warpsmith.trainer.services.state import FOLDER, services_of

Run = Annotated[Path, typer.Argument(help="Directory of the run (run.dir).")]


def up_command(
    config: Config,
    *,
    resume: Resume = False,
    set_: Overrides = None,
    num_processes: Annotated[
        int | None, typer.Option("--num-processes", min=1, help="Ranks to start, as for `grpo`.")
    ] = None,
    ray: Annotated[
        bool, typer.Option("--ray", help="Start a Ray head for the run, which other machines can join.")
    ] = False,
    page: Annotated[
        int | None, typer.Option("--page", min=1, max=65535, metavar="PORT", help="Serve the live page on this port.")
    ] = None,
    serve_options: Annotated[
        str,
        typer.Option(
            "--serve-options",
            metavar="TEXT",
            help="Options of each evaluation server that is started, as for `warpsmith-evaluator serve`.",
        ),
    ] = "",
) -> None:
    """Start a GRPO run and its services detached: they keep running when the terminal closes.

    Evaluation servers that the file names on this machine (rollout.evaluation.servers) are started first, unless they
    answer already. Each service has a log in run.dir/logs.

    Example: warpsmith-trainer up configs/qwen3-8b.toml --page 8321, then `status`, `logs --follow` and `down`
    """
    from warpsmith.trainer.config import load_grpo
    from warpsmith.trainer.doctor.check import stop_at_errors
    from warpsmith.trainer.doctor.checks import SERVERS, checks_without_torch
    from warpsmith.trainer.launch.hub_names import with_local_models
    from warpsmith.trainer.services.start import services_for, start_all

    checked, local = with_local_models(load_grpo(config, set_ or []), resume=resume)
    run_dir = checked.run.dir
    _refuse_running(run_dir)
    # What can be refused at once is refused here rather than in a log; the servers are checked once they run.
    stop_at_errors([check for check in checks_without_torch(checked, resume) if check.what != SERVERS])
    arguments = ["grpo", str(config.absolute()), *[part for one in (*(set_ or []), *local) for part in ("--set", one)]]
    arguments += ["--resume"] if resume else []
    arguments += ["--num-processes", str(num_processes)] if num_processes else []
    services = services_for(checked, arguments, ray=ray, page=page, server_options=shlex.split(serve_options))
    start_all(run_dir, services, typer.echo)
    typer.echo(
        f"Running. Next: warpsmith-trainer status {run_dir}; warpsmith-trainer logs {run_dir} --follow; "
        f"warpsmith-trainer down {run_dir}"
    )


def _refuse_running(run_dir: Path) -> None:
    if not any((run_dir / FOLDER).glob("*.json")):
        return
    running = [state.name for state in services_of(run_dir) if state.condition in ("running", "elsewhere")]
    if running:
        raise UsageError(
            f"The run in {run_dir} has services that run: {', '.join(running)}.",
            f"End them with `warpsmith-trainer down {run_dir}`, or choose another directory.",
        )


def status_command(run: Run, *, json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show the services of a detached run, its last step and the last line of each log; exit with 1 if one failed.

    Example: warpsmith-trainer status runs/qwen3-8b
    """
    from warpsmith.trainer.services.status import status_of

    found = status_of(run)
    if json_:
        typer.echo(json.dumps({**asdict(found), "is_well": found.is_well}, indent=2))
        raise typer.Exit(0 if found.is_well else 1)
    table = Table("service", "state", "pid", "time", "last line")
    for service in found.services:
        how = service.condition if service.code is None else f"{service.condition} ({service.code})"
        line = Text(service.last_line, overflow="ellipsis", no_wrap=True)
        table.add_row(service.name, how, str(service.pid or ""), duration(service.seconds), line)
    Console().print(table)
    for service in found.services:
        if service.health is not None:
            typer.echo(f"{service.name}: {json.dumps(service.health)}")
    typer.echo(_step_line(found.step, found.steps, found.step_age_s, dict(found.figures)))
    raise typer.Exit(0 if found.is_well else 1)


def _step_line(step: int, steps: int | None, age_s: float | None, figures: dict[str, float]) -> str:
    of = "" if steps is None else f" of {steps}"
    if age_s is None:
        return f"Step 0{of}: the first one is not finished."
    shown = ", ".join(f"{name} {value:.3g}" for name, value in figures.items())
    return f"Step {step}{of}, {duration(age_s)} ago{': ' if shown else ''}{shown}"


def duration(seconds: float) -> str:
    """Return a time as `45 s`, `12 min 5 s` or `3 h 20 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def logs_command(
    run: Run,
    service: Annotated[
        list[str] | None,
        typer.Argument(help="Names of logs in RUN/logs, such as trainer or rank-0; default: those of all services."),
    ] = None,
    *,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Last lines of each log to show.")] = 20,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new lines, until all services have ended.")
    ] = False,
) -> None:
    """Show the logs of a detached run.

    Example: warpsmith-trainer logs runs/qwen3-8b trainer --follow
    """
    from warpsmith.trainer.services import follow as following

    logs = following.chosen_logs(run, service or [])

    def say(log: Path, line: str) -> None:
        typer.echo(line if len(logs) == 1 else f"{log.stem}: {line}")

    for log in logs:
        for line in following.last_lines(log, lines):
            say(log, line)
    if follow:
        following.follow(run, logs, say)


def down_command(
    run: Run,
    *,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds for the trainer to finish its step and its checkpoint.")
    ] = 1800.0,
    now: Annotated[bool, typer.Option("--now", help="End everything at once, without a checkpoint.")] = False,
) -> None:
    """End a detached run: the trainer finishes its step and writes a checkpoint, then its services end.

    Example: warpsmith-trainer down runs/qwen3-8b
    """
    from warpsmith.trainer.services.stop import stop_all

    left = [state.name for state in stop_all(run, timeout_s=timeout, now=now, say=typer.echo)
            if state.condition in ("running", "elsewhere")]  # fmt: skip
    if left:
        raise UsageError(
            f"Services of {run} still run: {', '.join(left)}.",
            "End those on other machines there, others by their pid.",
        )
    typer.echo("All services have ended. Go on with `warpsmith-trainer up CONFIG --resume`.")
