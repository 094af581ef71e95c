"""The command `warpsmith-evaluator bench`."""

import json
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer
from rich.console import Console

from warpsmith.evaluator.bench import options, results
from warpsmith.evaluator.bench.bench import OUT, Plan, Result, StoppedError, conduct
from warpsmith.evaluator.bench.example import FOLDER, write_example
from warpsmith.evaluator.bench.printing import print_scores, print_workloads, terms_of
from warpsmith.evaluator.bench.settings import Settings, local_settings, server_settings
from warpsmith.evaluator.client.evaluator import Evaluator
from warpsmith.evaluator.client.interface import SyncEvaluator
from warpsmith.evaluator.client.remote import DEFAULT_TOKEN_ENV, Client, ServerError, common_conditions
from warpsmith.evaluator.config import (
    EvaluatorConfig,
    IsolationTier,
    configured,
    tiers_of,
    timing_of,
)
from warpsmith.evaluator.fingerprint import Conditions
from warpsmith.evaluator.languages.registry import BACKENDS
from warpsmith.evaluator.server.settings import ServerSettings
from warpsmith.evaluator.traces.dataset import format_of
from warpsmith.records.errors import UsageError
from warpsmith.records.wording import printable

INCOMPLETE_EXIT_CODE: Final = 3
STOPPED_EXIT_CODE: Final = 130
AT_ONCE_PER_SERVER: Final = 8
SERVER_DEADLINE_S: Final = 600.0
"""Time of one verdict in addition to the evaluations queued before it: others' evaluations, pauses and retries."""
COMPILE_S: Final = 60.0
"""Longest compilation of a candidate with the servers' settings, added to its run."""
MOST_NAMED: Final = 8
OTHER_LANGUAGE: Final = {
    True: "in another kernel language than the one judged, counted as failures; run again, or start servers, with the "
    "option named",
    False: "in another kernel language than the one judged, counted as failures, without traces; run again, or start "
    "servers, with the option named",
}
"""Remark on candidates in another language, by whether the dataset is in KernelBench's form."""
WIDE: Final = 160
"""Columns of tables that go to a file, where no line is wrapped."""

NO_ISOLATION: Final = (
    "warning: --isolation none runs every candidate and problem with your own rights. Use it for code that you wrote "
    "yourself.\n"
)


def bench(
    *,
    dataset: options.DatasetOfRun = None,
    format: options.Format = None,
    generations: options.Generations = None,
    example: options.Example = False,
    levels: options.Levels = "",
    out: options.Out = None,
    traces: options.Traces = None,
    tensors: options.Tensors = None,
    device: options.Device = "cpu",
    backend: options.Backend = "triton",
    gpu: options.Gpu = 0,
    server: options.Server = None,
    token_env: options.TokenEnv = DEFAULT_TOKEN_ENV,
    slots: options.Slots = 0,
    correctness_trials: options.CorrectnessTrials = 6,
    timed_trials: options.TimedTrials = 100,
    timeout: options.Timeout = 30.0,
    reference_timeout: options.ReferenceTimeout = 60.0,
    isolation: options.Isolation = "landlock",
    hidden_shapes: options.HiddenShapes = True,
    recording: options.Recording = "detached",
    precision: options.Precision = "ieee",
    operators: options.Operators = "library",
    max_tensor_bytes: options.MaxTensorBytes = None,
    allow_degenerate: options.AllowDegenerate = False,
    only_generated: options.OnlyGenerated = False,
    baseline: options.Baseline = None,
    stored_baseline: options.StoredBaseline = None,
    model: options.Model = None,
    as_json: options.AsJson = False,
) -> None:
    """Judge a KernelBench run: every generation, level by level; `options.HELP` is the command's help."""
    _check_asks_nothing(model)
    if dataset is not None:
        format = format or format_of(dataset)
    own_answers = generations is None and format in ("flashinfer", "sol")
    problems, run = _inputs(dataset, dataset if own_answers else generations, example=example)
    config = configured(
        **tiers_of(isolation),
        device=device,
        language=BACKENDS[backend],
        gpu=gpu,
        trials=correctness_trials,
        **timing_of(timed_trials),
        timeout_s=timeout,
        reference_timeout_s=reference_timeout,
        hidden_shapes=hidden_shapes,
        recording=recording,
        precision=precision,
        operators=operators,
        max_tensor_bytes=max_tensor_bytes,
        allow_degenerate=allow_degenerate,
        baseline=baseline or None,
        **({"slots": slots} if slots and not server else {}),
    )
    wanted_levels = parse_levels(levels)
    servers = _Servers.of(server or [], token_env, config)
    warn_about(isolation)
    plan = Plan(
        dataset=problems,
        generations=run,
        out=out or (Path(OUT) if own_answers else run / OUT),
        levels=wanted_levels,
        settings=servers.settings(config),
        at_once=slots or servers.at_once(config),
        trials=config.trials,
        timeout_s=config.timeout_s,
        operators=config.operators,
        missing_fail=not only_generated,
        baseline=stored_baseline,
        format=format or "kernelbench",
        traces=traces,
        tensors=tensors,
        language=config.language,
    )
    _finish(_conducted(plan, _judging(plan, config, servers.urls, token_env, servers.conditions)), as_json=as_json)


@dataclass(frozen=True)
class _Servers:
    """The servers that judge; none if this machine does."""

    urls: list[str]
    conditions: Conditions | None

    @classmethod
    def of(cls, urls: list[str], token_env: str, config: EvaluatorConfig) -> "_Servers":
        """Ask the servers for their conditions; UsageError if they cannot judge as requested."""
        if urls:
            _check_for_servers(config)
        return cls(urls, _conditions_of(urls, token_env))

    def settings(self, config: EvaluatorConfig) -> Settings:
        """Return what verdicts depend on."""
        if self.conditions is None:
            return local_settings(config)
        return server_settings(self.conditions, config.trials, config.timeout_s, config.operators)

    def at_once(self, config: EvaluatorConfig) -> int:
        """Return the default number of concurrent evaluations."""
        return AT_ONCE_PER_SERVER * len(self.urls) if self.urls else config.slots


def _finish(result: Result, *, as_json: bool) -> None:
    _show(result, as_json)
    if not result.complete:
        raise typer.Exit(INCOMPLETE_EXIT_CODE)


def _check_asks_nothing(model: str | None) -> None:
    """Refuse options of the command that queries a model: prompts and feedback are not in this package."""
    if model is not None:
        raise UsageError(
            "warpsmith-evaluator bench judges what a model has written, and asks none: it has no --model and no "
            "--base-url.",
            "Use warpsmith-rollout bench --model NAME --base-url URL, of the package warpsmith-rollout.",
        )


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
        "language": "--backend",
        "gpu": "--gpu",
        "timing": "--timed-trials",
        "timed_trials": "--timed-trials",
        "reference_timeout_s": "--reference-timeout",
        "minimum_isolation": "--isolation",
        "hidden_shapes": "--no-hidden-shapes",
        "recording": "--recording",
        "precision": "--precision",
        "max_tensor_bytes": "--max-tensor-bytes",
        "allow_degenerate": "--allow-degenerate",
        "baseline": "--baseline",
    }
    chosen, default = config.model_dump(), usual.model_dump()
    default["max_tensor_bytes"] = config.device_kind.max_tensor_bytes
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
    print_scores(console, result.scores, result.report["baseline"], terms_of(result.report["format"]))
    if result.report["format"] != "kernelbench":
        print_workloads(console, result.answers)
    for heading, names in _remarks(result):
        more = f", and {len(names) - MOST_NAMED} more (summary.json has all)" if len(names) > MOST_NAMED else ""
        console.print(f"{heading} ({len(names)}): {printable('; '.join(names[:MOST_NAMED]))}{more}")
    for path in result.files:
        console.print(str(path))


def _remarks(result: Result) -> list[tuple[str, list[str]]]:
    report = result.report
    missing = "count as failures" if report["missing_fail"] else "are left out"
    devices = report["devices"] if len(report["devices"]) > 1 else []
    remarks = [
        (f"missing generations, which {missing}", report["missing"]),
        ("invalid, no score: the evaluator failed; run the same command again", report["invalid"]),
        (OTHER_LANGUAGE[report["format"] == "kernelbench"], report["other_language"]),
        (
            "refused, no score: the problem cannot be judged",
            [f"{name}: {why}" for name, why in report["refusals"].items()],
        ),
        ("repaired problems, whose scores do not compare with KernelBench's", report["repaired"]),
        ("not in the dataset, not judged", report["not_in_dataset"]),
        ("not judged", report["set_aside"]),
        ("judged on different devices, whose times are not comparable", devices),
        ("not in the baseline, left out of its figures", report["not_in_baseline"]),
    ]
    return [(heading, names) for heading, names in remarks if names]
