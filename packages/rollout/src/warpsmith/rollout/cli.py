"""The console command `warpsmith-rollout`."""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from warpsmith.evaluator.bench.command import parse_levels
from warpsmith.evaluator.config import ISOLATION_HELP
from warpsmith.policy.packages import with_package_check
from warpsmith.records import commands
from warpsmith.records.errors import UsageError
from warpsmith.records.folders import write_file
from warpsmith.records.text import read_json
from warpsmith.rollout import console, datasets, metrics, settings
from warpsmith.rollout._version import __version__
from warpsmith.rollout.bench import commands as bench_commands
from warpsmith.rollout.collector import Rows
from warpsmith.rollout.config import SessionConfig
from warpsmith.rollout.datasets import commands as dataset_commands
from warpsmith.rollout.environments.registry import descriptions, max_turns
from warpsmith.rollout.generator import Grade, SolutionLanguage, solution_language
from warpsmith.rollout.problem_choice import (
    GENERATED_LEVELS,
    ProblemChoice,
    check_size,
    one_of,
    size_named,
    split_named,
)
from warpsmith.rollout.rewards.registry import scorer_for
from warpsmith.rollout.settings.session import session_config
from warpsmith.rollout.turn_recording import TurnRow

PURPOSE = """Generate problems, sample a policy on them, evaluate checkpoints, and verify data sets of kernels.

Examples:

    warpsmith-rollout problems --count 10 --split train --output problems

    warpsmith-rollout evaluate runs/tiny --problems generated --count 50 --samples 4 --prompt-style compact

    warpsmith-rollout compare before.json after.json

    warpsmith-rollout verify dataset_permissive.parquet -o runs/kernelbook --limit 200
"""

app = commands.new_app("warpsmith-rollout", __version__, PURPOSE)

Checkpoint = Annotated[Path, typer.Argument(help="A Hugging Face directory, or a hub name such as Qwen/Qwen3-8B.")]
Problems = Annotated[
    str, typer.Option(help="`generated`, a KernelBench directory, or a file (.jsonl, .json, .parquet).")
]
Count = Annotated[
    int | None, typer.Option(min=1, help="Number of problems; default: 50 generated ones, all of a directory or file.")
]
Samples = Annotated[int, typer.Option(min=1, help="Episodes of each problem.")]
TrainSplit = Annotated[str | None, typer.Option(help="Split of generated problems, train (default) or held_out.")]
HeldOutSplit = Annotated[str | None, typer.Option(help="Split of generated problems, held_out (default) or train.")]
ProblemSize = Annotated[
    str | None, typer.Option(help="Size of generated problems: cpu (default), or gpu, for problems of 1 to 256 MiB.")
]
Levels = Annotated[
    str, typer.Option(help="Levels, such as 1,2 or 1-3; default: 1-3 of generated ones, all of a directory or file.")
]
Seed = Annotated[int, typer.Option(help="Seed of generated problems and of sampling.")]
Environment = Annotated[str, typer.Option(help="The environment; `warpsmith-rollout environments` lists them.")]
Style = Annotated[str, typer.Option(help="Prompt style: full, or compact for tiny models.")]
Turns = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Maximum turns per episode; default: 3. Not for kernelbench and kernelbench_two_role; see `schema`.",
    ),
]
MaxTokens = Annotated[int, typer.Option(min=1, help="Maximum tokens per completion.")]
Temperature = Annotated[float, typer.Option(min=0.0, help="Sampling temperature; 0 takes the likeliest token.")]
Device = Annotated[str, typer.Option(help="Where to sample: cpu or cuda.")]
DType = Annotated[str, typer.Option(help="Type of the weights: float32, bfloat16 or float16.")]
Length = Annotated[int, typer.Option(min=16, help="Maximum tokens of a prompt and its completion.")]
Set = Annotated[
    list[str],
    typer.Option(
        "--set", metavar="TABLE.KEY=VALUE",
        help="Change any setting that `warpsmith-rollout schema` lists, or remove it with `unset`; repeatable.",
    ),
]  # fmt: skip
Isolation = Annotated[str, typer.Option(help=ISOLATION_HELP)]


def main() -> None:
    """Run the command."""
    commands.run(with_package_check(app))


@app.command("environments")
def environments() -> None:
    """List the installed environments, the values of `environment.type`.

    Example: `warpsmith-rollout environments`
    """
    for name, description in descriptions().items():
        typer.echo(f"{name:24} {description}")


app.add_typer(bench_commands.app)
app.command("datasets")(dataset_commands.datasets)
app.command("verify")(dataset_commands.verify)
app.command("clean")(dataset_commands.clean)


@app.command("problems")
def problems(
    *,
    out: Annotated[Path, typer.Option("--output", "-o", help="Directory to write to.")],
    count: Annotated[int, typer.Option(min=1, help="Number of problems.")] = 10,
    split: TrainSplit = None,
    levels: Annotated[str, typer.Option(help="Levels of the problems, such as 1,2 or 1-3.")] = "1-3",
    seed: Annotated[int, typer.Option(help="Seed of the problems.")] = 0,
    size: ProblemSize = None,
    solutions: Annotated[
        str, typer.Option(help="Which solutions to write: good, or with --size gpu also naive (right but slow).")
    ] = "good",
    language: Annotated[str, typer.Option(help="Kernel language of the solutions: triton or cuda_cpp.")] = "triton",
    generations: Annotated[
        Path | None, typer.Option(help="Also write the solutions to this directory, laid out as a KernelBench run.")
    ] = None,
) -> None:
    """Write generated problems with their solutions: `level<L>/<number>_<name>.py`, `<number>_<name>.solution.py`.

    The directory is a dataset for `warpsmith-evaluator bench --dataset` and for `--problems` of other commands.

    Example: `warpsmith-rollout problems --count 10 --split held_out --levels 1 -o problems --generations solutions`
    """
    chosen, grade = split_named(split) or "train", one_of(Grade, solutions, "grade of solutions")
    rows = datasets.generated(
        seed=seed,
        count=count,
        split=chosen,
        levels=parse_levels(levels) or GENERATED_LEVELS,
        size=size_named(size) or "cpu",
        language=one_of(SolutionLanguage, language, "language of solutions"),
    )
    rows = [datasets.with_solution(row, grade) for row in rows]
    files = datasets.write_directory(rows, out, generations=generations)
    typer.echo(f"{len(files)} problems of split {chosen} under {out}")


@app.command("evaluate")
def evaluate(
    checkpoint: Checkpoint,
    *,
    problems: Problems = "generated",
    count: Count = None,
    samples: Samples = 4,
    split: HeldOutSplit = None,
    levels: Levels = "",
    size: ProblemSize = None,
    seed: Seed = 0,
    environment: Environment = "kernelbench_multiturn",
    prompt_style: Style = "full",
    max_turns: Turns = None,
    max_tokens: MaxTokens = 1024,
    max_model_len: Length = 4096,
    temperature: Temperature = 1.0,
    device: Device = "cpu",
    dtype: DType = "bfloat16",
    isolation: Isolation = "landlock",
    set_: Set = [],  # noqa: B006 - typer reads it once and it is never changed
    out: Annotated[
        Path | None, typer.Option("--output", "-o", help="File for the result, as input of `compare`.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")] = False,
) -> None:
    """Sample a checkpoint on problems and report rates of compiled and correct kernels and pass@k, by turn and level.

    Example: `warpsmith-rollout evaluate runs/tiny --count 20 --samples 2 --prompt-style compact --json`
    """
    config = session_config(
        set_,
        environment={"type": environment} | ({} if max_turns is None else {"max_turns": max_turns}),
        prompt_style=prompt_style,
        sampling={"temperature": temperature, "max_tokens": max_tokens},
        sampler={"device": device, "dtype": dtype, "max_model_len": max_model_len},
        evaluator={"minimum_isolation": isolation},
    )
    if out is not None:
        _check_file(out)
    check_size(size, config.evaluator, config.evaluation)
    chosen = ProblemChoice(
        problems, count, split_named(split), parse_levels(levels), seed, "held_out", size_named(size), _language(config)
    ).problems()
    rows = sampled_turns(checkpoint, chosen, config, samples=samples, seed=seed, role="held_out", run="evaluate")
    _publish(metrics.summarise(rows), out, as_json=as_json)


def _publish(result: metrics.EvaluationResult, out: Path | None, *, as_json: bool) -> None:
    text = json.dumps(result.to_json(), indent=None if as_json else 2)
    # Printed first, so that a failing write does not lose the work.
    typer.echo(text if as_json else _report(result))
    if out is not None:
        write_file(out, text + "\n")


@app.command("generate")
def generate(
    checkpoint: Checkpoint,
    run: Annotated[Path, typer.Argument(help="Run directory to write the turns to.")],
    *,
    problems: Problems = "generated",
    count: Count = None,
    samples: Samples = 4,
    split: TrainSplit = None,
    levels: Levels = "",
    size: ProblemSize = None,
    seed: Seed = 0,
    environment: Environment = "kernelbench_multiturn",
    prompt_style: Style = "full",
    max_turns: Turns = None,
    max_tokens: MaxTokens = 1024,
    max_model_len: Length = 4096,
    temperature: Temperature = 1.0,
    device: Device = "cpu",
    dtype: DType = "bfloat16",
    isolation: Isolation = "landlock",
    set_: Set = [],  # noqa: B006 - typer reads it once and it is never changed
) -> None:
    """Sample a checkpoint on problems and write every trajectory to a run directory as it ends, without training.

    Example: `warpsmith-rollout generate runs/tiny runs/sampled --count 100 --samples 8 --prompt-style compact`
    """
    config = session_config(
        set_,
        environment={"type": environment} | ({} if max_turns is None else {"max_turns": max_turns}),
        prompt_style=prompt_style,
        sampling={"temperature": temperature, "max_tokens": max_tokens},
        sampler={"device": device, "dtype": dtype, "max_model_len": max_model_len},
        evaluator={"minimum_isolation": isolation},
    )
    if (run / "records").exists():
        raise UsageError(f"{run} already holds a run.", "Choose another directory.")
    _check_writable(run)
    check_size(size, config.evaluator, config.evaluation)
    chosen = ProblemChoice(
        problems, count, split_named(split), parse_levels(levels), seed, "train", size_named(size), _language(config)
    ).problems()
    turns = _recorded_turns(checkpoint, chosen, config, run, samples=samples, seed=seed)
    typer.echo(f"{turns} turns under {run}; read them with `warpsmith-records summary {run}`")


def _recorded_turns(
    checkpoint: Path,
    problems: Sequence[datasets.ProblemRow],
    config: SessionConfig,
    run: Path,
    *,
    samples: int,
    seed: int,
) -> int:
    """Sample trajectories and write each to the run when it ends; return the number of turns."""
    from warpsmith.records.schema import turns_batch
    from warpsmith.records.writer import RunWriter

    with ExitStack() as stack:
        # Created with the first trajectory: a command that cannot start leaves no directory.
        writer = cache(lambda: stack.enter_context(RunWriter(run)))
        rows = sampled_turns(
            checkpoint,
            problems,
            config,
            samples=samples,
            seed=seed,
            role="train",
            run=run.name,
            keep=lambda turns: writer().append("turns", turns_batch(turns)),
        )
    return len(rows)


@app.command("schema")
def schema(
    as_json: Annotated[bool, typer.Option("--json", help="Print the JSON schema, for editors.")] = False,
) -> None:
    """Print every setting of `evaluate` and `generate`: default, choices or bounds, unit and meaning.

    The commands have options for some of them; `--set` changes any.

    Example: `warpsmith-rollout schema`
    """
    lines = settings.describe(SessionConfig)
    typer.echo(json.dumps(settings.json_schema(SessionConfig), indent=2) if as_json else "\n".join(lines).lstrip())


@app.command("compare")
def compare(
    first: Annotated[Path, typer.Argument(help="Result of `evaluate --output` of the first checkpoint.")],
    second: Annotated[Path, typer.Argument(help="Result of `evaluate --output` of the second, on the same problems.")],
    *,
    resamples: Annotated[int, typer.Option(min=100, help="Bootstrap resamples.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of the resampling.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare two checkpoints, problem by problem, with a paired bootstrap.

    Example: `warpsmith-rollout compare before.json after.json`
    """
    shares = [metrics.solved_shares(_read_json(path)) for path in (first, second)]
    found = metrics.compare(*shares, resamples=resamples, seed=seed)
    if as_json:
        typer.echo(json.dumps(asdict(found)))
        return
    typer.echo(
        f"{found.problems} problems: {found.first:.1%} -> {found.second:.1%}, difference {found.difference:+.1%} "
        f"(95 % interval {found.low:+.1%} to {found.high:+.1%}); better in {found.probability:.1%} of resamples"
    )


def sampled_turns(
    checkpoint: Path,
    problems: Sequence[datasets.ProblemRow],
    config: SessionConfig,
    *,
    samples: int,
    seed: int,
    role: str,
    run: str,
    keep: Callable[[Rows], None] = lambda _: None,
) -> list[TurnRow]:
    from warpsmith.policy.hub import local_directory
    from warpsmith.rollout.sessions import check_policy, sample_turns

    # Loaded before a sampler starts, so that an unusable one starts nothing.
    max_turns(config)
    scorer_for(config.reward)
    checkpoint = local_directory(checkpoint, say=lambda step: typer.echo(step, err=True))
    check_policy(checkpoint, config.sampler)
    with _progress(len(problems) * samples) as advance:

        def ended(turns: Rows) -> None:
            keep(turns)
            advance(turns)

        return sample_turns(
            checkpoint,
            problems,
            samples,
            config,
            config.evaluator,
            run=run,
            seed=seed,
            role=role,
            on_trajectory=ended,
        )


@contextmanager
def _progress(total: int) -> Iterator[Callable[[Rows], None]]:
    """Yield the callback for each finished trajectory; everything is printed to stderr."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("episodes"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=sys.stderr)) as bar:
        task = bar.add_task("episodes", total=total)

        def advance(rows: Rows) -> None:
            for row in rows:
                bar.console.print(console.turn_line(row), markup=False, highlight=False)
            bar.advance(task)

        yield advance


def _report(result: metrics.EvaluationResult) -> str:
    rates = result.rates
    lines = [
        f"trajectories {rates.trajectories} (invalid {result.invalid})",
        f"compiled {_percent(rates.compiled)}   correct {_percent(rates.correct)}",
        "pass@k   " + "   ".join(f"{k}: {value:.1%}" for k, value in result.pass_at.items()),
    ]
    lines += [
        f"turn {t.turn_number}   reached {t.reached}   compiled {t.compiled:.1%}   correct {t.correct:.1%}   "
        f"solved by now {t.solved_by:.1%}"
        for t in result.by_turn
    ]
    lines += [
        f"level {level}   trajectories {r.trajectories}   "
        f"compiled {_percent(r.compiled)}   correct {_percent(r.correct)}"
        for level, r in result.by_level.items()
    ]
    lines += [_agent_line(name, rates) for name, rates in result.by_agent.items()]
    if result.speedup is not None and result.fast_p is not None:
        fast = "   ".join(f"{p:g}: {share:.1%}" for p, share in result.fast_p.items())
        lines.append(f"speedup {result.speedup:.2f}x (geometric mean)   fast_p   {fast}")
    return "\n".join(lines)


def _agent_line(name: str, rates: metrics.AgentRates) -> str:
    line = f"{name}   trajectories {rates.trajectories}   turns {rates.turns}   correct {rates.correct:.1%}"
    if rates.bytes_over_start is not None:
        return f"{line}   improved {_percent(rates.improved)}   the start moves {rates.bytes_over_start:.2f}x its bytes"
    if rates.speedup_over_start is None:
        return line
    return f"{line}   improved {_percent(rates.improved)}   {rates.speedup_over_start:.2f}x over the start"


def _percent(rate: float | None) -> str:
    return "n/a" if rate is None else f"{rate:.1%}"


def _language(config: SessionConfig) -> SolutionLanguage:
    return solution_language(config.evaluator.language)


def _check_file(out: Path) -> None:
    """Check that a file can be written, before a sampler starts."""
    if out.is_dir():
        raise UsageError(f"{out} is a directory; a file was expected.", f"Choose a file in it: {out / 'result.json'}.")
    _check_writable(out.parent)


def _check_writable(folder: Path) -> None:
    """Check that a directory can be created or written, before a sampler starts whose work would be lost."""
    missing = [path for path in (folder, *folder.absolute().parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(f"Nothing can be written under {folder}: {error.strerror}.", "Choose another place.") from None
    finally:
        for path in missing:
            with suppress(OSError):
                path.rmdir()


def _read_json(path: Path) -> dict[str, Any]:
    found = read_json(path, remedy="Pass a file written by `evaluate --output`.")
    if not isinstance(found, dict):
        raise UsageError(f"{path} is not a JSON object.", "Pass a file written by `evaluate --output`.")
    return found
