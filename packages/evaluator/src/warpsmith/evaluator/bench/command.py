"""The command `warpsmith-evaluator bench`."""

import json
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Final, Literal

import typer
from rich.console import Console

from warpsmith.evaluator.bench import results
from warpsmith.evaluator.bench.bench import OUT, Plan, Result, StoppedError, conduct
from warpsmith.evaluator.bench.example import FOLDER, write_example
from warpsmith.evaluator.bench.printing import print_scores
from warpsmith.evaluator.bench.settings import local_settings, server_settings
from warpsmith.evaluator.client.evaluator import Evaluator
from warpsmith.evaluator.client.interface import SyncEvaluator
from warpsmith.evaluator.client.remote import DEFAULT_TOKEN_ENV, Client, ServerError, common_conditions
from warpsmith.evaluator.config import (
    LAST_GPU,
    MOST_TIMED,
    PRECISION_HELP,
    RECORDING_HELP,
    EvaluatorConfig,
    IsolationTier,
    Precision,
    RecordingWay,
    configured,
    timing_of,
)
from warpsmith.evaluator.fingerprint import Conditions
from warpsmith.evaluator.server.settings import ServerSettings
from warpsmith.records.errors import UsageError

INCOMPLETE_EXIT_CODE: Final = 3
STOPPED_EXIT_CODE: Final = 130
AT_ONCE_PER_SERVER: Final = 8
SERVER_DEADLINE_S: Final = 600.0
"""Time of one verdict in addition to the evaluations queued before it: others' evaluations, pauses and retries."""
COMPILE_S: Final = 60.0
"""Longest compilation of a candidate with the servers' settings, added to its run."""
MOST_NAMED: Final = 8
WIDE: Final = 160
"""Columns of tables that go to a file, where no line is wrapped."""

NO_ISOLATION: Final = (
    "warning: --isolation none runs every candidate and problem with your own rights. Use it for code that you wrote "
    "yourself.\n"
)

Isolation = Annotated[Literal["namespaces", "landlock", "none"], typer.Option(help="Weakest accepted containment.")]
Device = Annotated[Literal["cpu", "cuda"], typer.Option(help="Interpret on the cpu, or run and time on a GPU.")]
DATASET_HELP: Final = (
    "A KernelBench checkout or its folder KernelBench; a level folder; Parquet files as on Hugging Face; a "
    ".parquet, .jsonl or .json file with the columns code, level, name, problem_id, or with TritonForge's label and "
    "extra_info."
)
Dataset = Annotated[Path, typer.Option(help=DATASET_HELP)]
Levels = Annotated[str, typer.Option(help="Levels, such as 1,2 or 1-3; all by default.")]
ReferenceTimeout = Annotated[
    float, typer.Option(min=0.1, max=3600, help="Seconds for one step of a problem's own code.")
]


def bench(
    *,
    dataset: Annotated[Path | None, typer.Option(help=DATASET_HELP)] = None,
    generations: Annotated[
        Path | None, typer.Option(help="A run in KernelBench's layout: `level_{L}_problem_{P}_sample_{S}_kernel.py`.")
    ] = None,
    example: Annotated[
        bool,
        typer.Option(
            "--example", help=f"Judge three problems with right and wrong answers, written to ./{FOLDER}, instead."
        ),
    ] = False,
    levels: Levels = "",
    out: Annotated[
        Path | None, typer.Option(help=f"Folder for results; by default {OUT} in the run's own folder.")
    ] = None,
    device: Device = "cpu",
    gpu: Annotated[int, typer.Option(min=0, max=LAST_GPU, help="Which GPU, with --device cuda.")] = 0,
    server: Annotated[
        list[str] | None,
        typer.Option(help="Judge on this evaluation server, http://10.0.0.7:18188; repeatable."),
    ] = None,
    token_env: Annotated[
        str, typer.Option(help="Environment variable with the servers' token, if they require one.")
    ] = DEFAULT_TOKEN_ENV,
    slots: Annotated[
        int,
        typer.Option(min=0, max=1024, help="Concurrent evaluations; 0: one per core, three on a GPU, 8 per server."),
    ] = 0,
    correctness_trials: Annotated[int, typer.Option(min=1, max=1000, help="Trials, each with a fresh seed.")] = 5,
    timed_trials: Annotated[
        int, typer.Option(min=0, max=MOST_TIMED, help="Timed calls on a GPU, 10 or more; 0 times nothing.")
    ] = 100,
    timeout: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds for a candidate's whole run.")] = 30.0,
    reference_timeout: ReferenceTimeout = 60.0,
    isolation: Isolation = "landlock",
    hidden_shapes: Annotated[
        bool, typer.Option(help="Give one trial inputs of other shapes, if the problem allows it.")
    ] = True,
    recording: Annotated[RecordingWay, typer.Option(help=RECORDING_HELP)] = "detached",
    precision: Annotated[Precision, typer.Option(help=PRECISION_HELP)] = "ieee",
    allow_degenerate: Annotated[
        bool,
        typer.Option(
            "--allow-degenerate", help="Judge and flag problems that a constant passes instead of refusing them."
        ),
    ] = False,
    only_generated: Annotated[
        bool,
        typer.Option("--only-generated", help="Leave missing generations out instead of counting them as failures."),
    ] = False,
    baseline: Annotated[
        Path | None,
        typer.Option(help="KernelBench's stored times (results/timing), for a second, labelled speedup."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print summary.json on stdout and nothing else.")] = False,
) -> None:
    """Judge a KernelBench run: every generation, level by level.

    Prints counts, fast_p for p = 0, 0.5, 0.8, 1, 1.5 and 2 (strictly faster than p; failures count), unbiased pass@k
    and the geometric mean of speedups. Writes them and every verdict to OUT: verdicts.jsonl (the log, appended as
    verdicts come), results.parquet, level_L/eval_results.json for KernelBench's scripts, summary.json and report.html.

    The same command continues after a stop or a kill: recorded verdicts are reused if problem, candidate and settings
    are the same. An invalid one (the evaluator failed) is judged again and never scored.

    On a CPU nothing is timed: speedups and fast_p above 0 are absent, not zero.

    Exit code 0 if every generation has a verdict; 3 if some ended as invalid (run the command again); 2 for bad
    arguments; 130 if interrupted.

    Example: `warpsmith-evaluator bench --dataset KernelBench --generations runs/mine --levels 1,2 --device cuda`

    To try it without a dataset: `warpsmith-evaluator bench --example`
    """
    problems, run = _inputs(dataset, generations, example=example)
    config = configured(
        minimum_isolation=isolation,
        strongest_isolation="none" if isolation == "none" else "namespaces",
        device=device,
        gpu=gpu,
        trials=correctness_trials,
        **timing_of(timed_trials),
        timeout_s=timeout,
        reference_timeout_s=reference_timeout,
        hidden_shapes=hidden_shapes,
        recording=recording,
        precision=precision,
        allow_degenerate=allow_degenerate,
        **({"slots": slots} if slots and not server else {}),
    )
    servers = server or []
    if servers:
        _check_for_servers(config)
    wanted_levels = parse_levels(levels)
    conditions = _conditions_of(servers, token_env)
    judged = None if conditions is None else server_settings(conditions, config.trials, config.timeout_s)
    warn_about(isolation)
    plan = Plan(
        dataset=problems,
        generations=run,
        out=out or run / OUT,
        levels=wanted_levels,
        settings=judged or local_settings(config),
        at_once=(slots or AT_ONCE_PER_SERVER * len(servers)) if servers else config.slots,
        trials=config.trials,
        timeout_s=config.timeout_s,
        missing_fail=not only_generated,
        baseline=baseline,
    )
    result = _conducted(plan, _judging(plan, config, servers, token_env, conditions))
    _show(result, as_json)
    if not result.complete:
        raise typer.Exit(INCOMPLETE_EXIT_CODE)


def _inputs(dataset: Path | None, generations: Path | None, *, example: bool) -> tuple[Path, Path]:
    """Return the dataset and the run to judge.

    Raises:
        UsageError: the options name neither both of them nor the example alone.
    """
    if example and dataset is None and generations is None:
        return write_example(FOLDER)
    if example or dataset is None or generations is None:
        raise UsageError(
            "bench needs --dataset and --generations, or --example alone.",
            "Give both, or try the command with `warpsmith-evaluator bench --example`.",
        )
    return dataset, generations


def parse_levels(text: str) -> tuple[int, ...]:
    """Return the levels of `1,2` or `1-3`; an empty tuple, which means all, for an empty text.

    Raises:
        UsageError: it is neither.
    """
    found: set[int] = set()
    parts = list(filter(None, text.replace(" ", "").split(",")))
    for part in parts or ([","] if text.strip() else []):
        match = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", part, re.ASCII)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise UsageError(f"--levels {text!r} names no levels.", "Write 1,2 or 1-3.")
        found |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(sorted(found))


def warn_about(isolation: IsolationTier) -> None:
    """Warn on stderr about running without containment."""
    if isolation == "none":
        sys.stderr.write(NO_ISOLATION)


def _check_for_servers(config: EvaluatorConfig) -> None:
    """Reject options that --server would silently ignore."""
    usual = EvaluatorConfig(slots=config.slots)
    names = {
        "device": "--device",
        "gpu": "--gpu",
        "timing": "--timed-trials",
        "timed_trials": "--timed-trials",
        "reference_timeout_s": "--reference-timeout",
        "minimum_isolation": "--isolation",
        "hidden_shapes": "--no-hidden-shapes",
        "recording": "--recording",
        "precision": "--precision",
        "allow_degenerate": "--allow-degenerate",
    }
    chosen, default = config.model_dump(), usual.model_dump()
    set_here = {option for name, option in names.items() if chosen[name] != default[name]}
    if set_here:
        raise UsageError(
            f"{', '.join(sorted(set_here))} cannot be used with --server: servers have their own settings.",
            "Set them when starting the servers, and leave them out here.",
        )
    longest = ServerSettings().max_timeout_s
    if config.timeout_s > longest:
        raise UsageError(f"--timeout {config.timeout_s:g} is more than servers allow.", f"Give {longest:g} at most.")


def _conditions_of(servers: Sequence[str], token_env: str) -> Conditions | None:
    """Return the servers' conditions; None without servers. At least one of them must be reachable."""
    if not servers:
        return None
    with Client(servers, token_env=token_env) as client:
        healths = client.health()
    conditions = common_conditions(healths)
    for health in healths.values():
        if isinstance(health, ServerError):
            sys.stderr.write(f"warning: {health}\n")
    return conditions


def _judging(
    plan: Plan, config: EvaluatorConfig, servers: Sequence[str], token_env: str, conditions: Conditions | None
) -> Callable[[], AbstractContextManager[SyncEvaluator]]:
    if conditions is None:
        return lambda: Evaluator(config)
    deadline_s = server_deadline_s(plan.at_once, plan.timeout_s)
    return lambda: Client(servers, token_env=token_env, deadline_s=deadline_s, conditions=conditions)


def server_deadline_s(at_once: int, timeout_s: float) -> float:
    """Return the longest time of one verdict, in seconds: all concurrent requests may wait for one slot."""
    return SERVER_DEADLINE_S + at_once * (timeout_s + COMPILE_S)


def _conducted(plan: Plan, judging: Callable[[], AbstractContextManager[SyncEvaluator]]) -> Result:
    try:
        return conduct(plan, judging)
    except StoppedError as stopped:
        sys.stderr.write(f"stopped: {stopped}, and recorded; the same command continues from here\n")
        raise typer.Exit(STOPPED_EXIT_CODE) from None


def _show(result: Result, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(results.summary(result.report, result.scores), indent=2))
        return
    console = Console(highlight=False, markup=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = WIDE
    print_scores(console, result.scores, result.report["baseline"])
    for heading, names in _remarks(result):
        more = f", and {len(names) - MOST_NAMED} more (summary.json has all)" if len(names) > MOST_NAMED else ""
        console.print(f"{heading} ({len(names)}): {'; '.join(names[:MOST_NAMED])}{more}")
    for path in result.files:
        console.print(str(path))


def _remarks(result: Result) -> list[tuple[str, list[str]]]:
    report = result.report
    missing = "count as failures" if report["missing_fail"] else "are left out"
    devices = report["devices"] if len(report["devices"]) > 1 else []
    remarks = [
        (f"missing generations, which {missing}", report["missing"]),
        ("invalid, no score: the evaluator failed; run the same command again", report["invalid"]),
        ("refused, no score: the problem cannot be judged", report["refused"]),
        ("not in the dataset, not judged", report["not_in_dataset"]),
        ("judged on different devices, whose times are not comparable", devices),
        ("not in the baseline, left out of its figures", report["not_in_baseline"]),
    ]
    return [(heading, names) for heading, names in remarks if names]
