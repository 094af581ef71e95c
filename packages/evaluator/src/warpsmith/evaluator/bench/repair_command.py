"""The command `warpsmith-evaluator repair`."""

from pathlib import Path
from typing import Annotated, Final, get_args

import typer
from rich.console import Console

from warpsmith.evaluator.bench.command import parse_levels
from warpsmith.evaluator.bench.options import Dataset, Levels
from warpsmith.evaluator.bench.repairing import REPAIRS, write_repaired
from warpsmith.evaluator.datasets.repairs import SETS, Repaired, RepairSet
from warpsmith.records.errors import UsageError

NOTHING_REPAIRED: Final = (
    "No problem was repaired: this package repairs problems of KernelBench, which it knows by level, number, name and "
    "source, and of these none needs a repair of the sets chosen. All were copied as they are."
)


def repair(
    *,
    dataset: Dataset,
    out: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the dataset: new, empty, or written by the same command.")
    ],
    sets: Annotated[
        str,
        typer.Option("--set", help="Repairs: inputs (so that answers depend on them), 24gb (sizes for such a card)."),
    ] = ",".join(SETS),
    levels: Levels = "",
) -> None:
    """Write KernelBench with its degenerate problems repaired, as a dataset that bench and audit take.

    The set `inputs` gives other inputs or sizes to problems whose answer does not depend on their inputs; `24gb` makes
    the largest problems smaller. All other problems are copied unchanged: those that need no repair or are beyond it,
    and those of another revision or of another dataset. OUT/repairs.json says what was changed, and why. Scores on
    repaired problems do not compare with others.

    The same command writes the same files again; with other --levels it needs a folder of its own. The dataset is not
    written to.

    Example: `warpsmith-evaluator repair --dataset KernelBench --output kernelbench_repaired --levels 1-3`
    """
    written = write_repaired(dataset, out, parse_sets(sets), parse_levels(levels))
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for heading, names in _counted(written.problems):
        if names:
            console.print(f"{heading} ({len(names)}): {'; '.join(names)}")
    if not any(one.repairs for one in written.problems):
        console.print(NOTHING_REPAIRED)
    console.print(str(out / REPAIRS))


def parse_sets(text: str) -> tuple[RepairSet, ...]:
    """Return the sets named in `text`, such as `inputs,24gb`; UsageError if one is unknown."""
    names = {name.strip() for name in text.split(",") if name.strip()}
    unknown = sorted(names - set(get_args(RepairSet)))
    if unknown or not names:
        raise UsageError(
            f"--set {text!r} names {'the unknown set ' + unknown[0] if unknown else 'no set'}.",
            f"Give one or more of {', '.join(SETS)}.",
        )
    return tuple(name for name in SETS if name in names)


def _counted(problems: list[Repaired]) -> list[tuple[str, list[str]]]:
    def named(chosen: list[Repaired]) -> list[str]:
        return [f"{one.problem.level}/{one.problem.number}" for one in chosen]

    return [
        ("repaired", named([one for one in problems if one.repairs])),
        ("repaired in part", named([one for one in problems if any(r.remains for r in one.repairs.values())])),
        ("beyond repair, copied as they are", named([one for one in problems if one.beyond_repair])),
        (
            "of another revision of KernelBench than the repairs are for, copied as they are",
            named([one for one in problems if one.other_revision]),
        ),
    ]
