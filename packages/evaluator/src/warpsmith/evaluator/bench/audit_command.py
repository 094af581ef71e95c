"""The command `warpsmith-evaluator audit`."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from warpsmith.evaluator.bench.auditing import COMPARISONS, AuditPlan, conduct_audit, counts_of
from warpsmith.evaluator.bench.command import (
    INCOMPLETE_EXIT_CODE,
    STOPPED_EXIT_CODE,
    parse_levels,
    warn_about,
)
from warpsmith.evaluator.bench.options import Dataset, Device, Isolation, Levels, MaxTensorBytes, ReferenceTimeout
from warpsmith.evaluator.config import LAST_GPU, MOST_TIMED, configured, tiers_of, timing_of


def audit(
    *,
    dataset: Dataset,
    out: Annotated[
        Path,
        typer.Option("--output", "-o", help="JSON file for the facts; problems already in it are not audited again."),
    ],
    levels: Levels = "",
    device: Device = "cpu",
    gpu: Annotated[int, typer.Option(min=0, max=LAST_GPU, help="Which GPU, with --device cuda.")] = 0,
    slots: Annotated[
        int, typer.Option(min=0, max=256, help="Concurrent problems; 0: one per core, three on a GPU.")
    ] = 0,
    timed_trials: Annotated[
        int, typer.Option(min=0, max=MOST_TIMED, help="Timed calls on a GPU, 10 or more; 0 times nothing.")
    ] = 100,
    reference_timeout: ReferenceTimeout = 60.0,
    isolation: Isolation = "landlock",
    max_tensor_bytes: MaxTensorBytes = None,
) -> None:
    """Audit the problems of a dataset: find those that accept a wrong output.

    For each problem: which wrong outputs would pass (all zeros, one constant, the output for other inputs, its own
    output shuffled, zeros for the smaller half), by the evaluator's comparison and by KernelBench's with 1e-2 and 1e-4;
    the bytes of inputs, outputs and parameters; and on a GPU the reference's time, compared with the time to move
    inputs and outputs at the measured bandwidth. For a problem that cannot be audited: the error.

    The same command continues after a stop or a kill.

    Exit code 0 if every problem has facts or cannot be judged; 3 if the evaluator failed on some (run the command
    again); 2 for bad arguments; 130 if interrupted.

    Example: `warpsmith-evaluator audit --dataset KernelBench --levels 1,2 --output audit.json`
    """
    warn_about(isolation)
    config = configured(
        **tiers_of(isolation),
        device=device,
        gpu=gpu,
        **timing_of(timed_trials),
        reference_timeout_s=reference_timeout,
        max_tensor_bytes=max_tensor_bytes,
        **({"slots": slots} if slots else {}),
    )
    found = _conducted(AuditPlan(dataset, out, parse_levels(levels), config))
    _show(found, out)
    if not all(entry["final"] for entry in found["problems"]):
        raise typer.Exit(INCOMPLETE_EXIT_CODE)


def _conducted(plan: AuditPlan) -> dict[str, Any]:
    try:
        return conduct_audit(plan)
    except KeyboardInterrupt:
        sys.stderr.write("stopped: finished audits are recorded; the same command continues from here\n")
        raise typer.Exit(STOPPED_EXIT_CODE) from None


def _show(found: dict[str, Any], out: Path) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=True)
    table = Table(title="problems that accept a constant, by comparison", box=None, padding=(0, 2, 0, 0))
    for column in ("level", "problems", "errors", *COMPARISONS):
        table.add_column(column, justify="right", no_wrap=True)
    for level, counts in counts_of(found).items():
        table.add_row(str(level), *(str(counts[name]) for name in ("problems", "errors", *COMPARISONS)))
    console.print(table)
    console.print(str(out))
