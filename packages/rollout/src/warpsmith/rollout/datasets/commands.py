"""The commands of `warpsmith-rollout` about data sets: `datasets`, `verify`, `clean`."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from warpsmith.evaluator.bench.command import INCOMPLETE_EXIT_CODE, STOPPED_EXIT_CODE, warn_about
from warpsmith.evaluator.config import ISOLATION_HELP
from warpsmith.evaluator.languages.registry import BACKENDS
from warpsmith.records.errors import UsageError
from warpsmith.rollout.datasets.output_folder import output_folder
from warpsmith.rollout.datasets.registry import DATASETS, Dataset, read_dataset, renamed_columns
from warpsmith.rollout.settings.session import session_config

DATASET_HELP: Final = (
    "A file (.parquet, .jsonl, .json, .arrow, .csv), a directory of such files, a pattern in quotes, or a KernelBench "
    "checkout."
)
DatasetPath = Annotated[Path, typer.Argument(metavar="DATASET", help=DATASET_HELP)]
Type = Annotated[
    str | None,
    typer.Option(
        "--type", help="Type of the data set; found by its columns when not given. `datasets` lists the types."
    ),
]
Columns = Annotated[
    list[str],
    typer.Option("--column", metavar="FIELD=NAME", help="Another name of a column; repeatable."),
]
Limit = Annotated[int | None, typer.Option(min=1, help="Maximum usable rows to take, from the start.")]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Evaluations at once; default: one per core, three on a GPU, 8 for each server."),
]
Backend = Annotated[
    Literal["triton", "cuda"] | None,
    typer.Option(help="Judge only kernels in this language: Triton, or CUDA C++; all by default."),
]
Isolation = Annotated[str, typer.Option(help=ISOLATION_HELP)]
Set = Annotated[
    list[str],
    typer.Option(
        "--set", metavar="TABLE.KEY=VALUE",
        help="Change a setting of `warpsmith-rollout schema`, such as evaluator.device=cuda; repeatable.",
    ),
]  # fmt: skip
Output = Annotated[Path, typer.Option("--output", "-o", help="Directory to write to.")]


def datasets() -> None:
    """List the types of data sets that can be read, with their columns. A star marks a required column.

    Example: `warpsmith-rollout datasets`
    """
    for name in DATASETS.names():
        reader = DATASETS.get(name)
        typer.echo(f"{name}: {reader.title}")
        for column in reader.schema:
            star = "*" if column.required else " "
            typer.echo(f"  {star} {column.field:12} {column.name:24} {column.type:8} {column.meaning}")


def verify(
    dataset: DatasetPath,
    *,
    output: Output,
    type_: Type = None,
    column: Columns = [],  # noqa: B006 - typer reads it once and it is never changed
    limit: Limit = None,
    backend: Backend = None,
    workers: Workers = None,
    isolation: Isolation = "landlock",
    set_: Set = [],  # noqa: B006 - as above
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False,
) -> None:
    """Judge the kernels of a data set: of those that it calls correct, how many are?

    Kernels are in Triton or CUDA C++. Without a GPU those in CUDA C++ are compiled and end as `undecided`.

    Writes every verdict to the run directory --output as it comes, as turns of the role `dataset`: summaries, reports
    and SFT read them like a policy's. Also rows.parquet, each row's claim next to its verdict, and summary.json.

    The same command continues after a stop or a kill. A kernel with a verdict is not judged again; one on which the
    evaluator failed is, and is never counted as wrong.

    Exit code 0 if every kernel has a verdict; 3 if the evaluator failed on some (run the command again); 2 for bad
    arguments; 130 if interrupted.

    Example: `warpsmith-rollout verify dataset_permissive.parquet -o runs/kernelbook --limit 200`
    """
    from warpsmith.rollout.datasets import verification, verification_summary

    config = session_config(set_, evaluator={"minimum_isolation": isolation})
    read = _in_language(_read(dataset, type_, column, limit), backend)
    if not any(entry.kernel is not None for entry in read.entries):
        raise UsageError(
            f"The {len(read.entries):,} rows of {dataset} are problems without kernels; there is nothing to verify.",
            "Use `warpsmith-evaluator audit` for what can be said of problems alone, or --column kernel=NAME.",
        )
    warn_about(config.evaluator.minimum_isolation)
    stopped = False
    with output_folder(output):
        try:
            outcomes = verification.verify(read, output, config, workers=workers)
        except verification.VerificationStoppedError:
            stopped, outcomes = True, verification.outcomes_in(output)
        summary = verification_summary.summary_of(read, outcomes)
        verification_summary.write_results(output, read, outcomes, summary)
    typer.echo(json.dumps(summary) if as_json else "\n".join(verification_summary.lines_of(summary)))
    _end(summary["waiting"], stopped=stopped)


def _read(path: Path, type_: str | None, column: list[str], limit: int | None) -> Dataset:
    read = read_dataset(path, type_, columns=renamed_columns(column), limit=limit)
    for line in read.refused():
        sys.stderr.write(f"{line}\n")
    return read


def _in_language(read: Dataset, backend: str | None) -> Dataset:
    """Return a data set without the kernels in another language.

    Raises:
        UsageError: no kernel is in the language.
    """
    if backend is None:
        return read
    language = BACKENDS[backend]
    kept = [entry for entry in read.entries if entry.kernel is None or entry.language == language]
    others = sorted({entry.language for entry in read.entries if entry.kernel is not None} - {language})
    if others and all(entry.kernel is None for entry in kept):
        raise UsageError(
            f"--backend {backend}: all kernels of {read.path} are in {' and '.join(others)}.", "Leave out --backend."
        )
    return replace(read, entries=kept)


def _end(waiting: int, *, stopped: bool) -> None:
    if stopped:
        sys.stderr.write("stopped: finished verdicts are recorded; the same command continues from here\n")
        raise typer.Exit(STOPPED_EXIT_CODE)
    if waiting:
        raise typer.Exit(INCOMPLETE_EXIT_CODE)


def clean(
    dataset: DatasetPath,
    *,
    against: Annotated[
        list[Path],
        typer.Option(help="A benchmark whose problems are removed, such as a KernelBench checkout; repeatable."),
    ],
    output: Output,
    type_: Type = None,
    column: Columns = [],  # noqa: B006 - typer reads it once and it is never changed
    limit: Limit = None,
    verdicts: Annotated[
        Path | None, typer.Option(help="Directory that `verify` wrote: keep only kernels with an accepted verdict.")
    ] = None,
    statuses: Annotated[str, typer.Option(help="With --verdicts: accepted verdicts, separated by commas.")] = "correct",
    by_computation: Annotated[
        bool, typer.Option(help="Also run problems on the same inputs and compare what they compute.")
    ] = True,
    workers: Workers = None,
    isolation: Isolation = "landlock",
    set_: Set = [],  # noqa: B006 - as above
) -> None:
    """Remove a benchmark's problems, duplicates and unverified kernels from a data set; write the rest.

    Two problems are the same if their code is, up to names, docstrings and constants, or if both compute the same on
    the same random inputs under three seeds, in the sandbox. --no-by-computation compares code alone.

    Writes to --output: the kept rows under data/, removed.jsonl with the reason of each, unusable.jsonl, and last a
    card, README.md. The same command continues after a stop or a kill; only problems that were not run yet are run.

    Exit code 0 if the card was written; 2 for bad arguments; 130 if interrupted.

    Example: `warpsmith-rollout clean dataset_permissive.parquet --against KernelBench -o clean/kernelbook`
    """
    from warpsmith.rollout.datasets import cleaned, cleaning, verification
    from warpsmith.rollout.datasets.card import Card

    config = session_config(set_, evaluator={"minimum_isolation": isolation})
    evaluator = config.evaluator.model_copy(update={"slots": workers} if workers else {})
    read = _read(dataset, type_, column, limit)
    benchmarks = cleaning.Benchmarks([read_dataset(path) for path in against])
    known = None if verdicts is None else verification.outcomes_in(verdicts)
    if known == {}:
        raise UsageError(f"{verdicts} has no verdicts.", "Name a directory that `warpsmith-rollout verify` wrote.")
    warn_about(evaluator.minimum_isolation)
    with output_folder(output):
        cleaned.check_unfinished(output)
        try:
            computed = (
                cleaning.computations(read.entries, benchmarks.sources, output, evaluator) if by_computation else None
            )
        except KeyboardInterrupt:
            _end(0, stopped=True)
        accepted = tuple(filter(None, statuses.split(",")))
        found = cleaning.clean(read, benchmarks, computed=computed, verdicts=known, statuses=accepted)
        reader = DATASETS.get(read.type)
        card = Card(read, reader, benchmarks, found, output, computed is not None, verdicts, accepted)
        typer.echo(cleaned.write(card))
