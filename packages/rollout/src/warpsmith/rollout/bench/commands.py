"""The commands `warpsmith-rollout bench`, `bench compare`, `bench leaderboard` and `bench schema`."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from warpsmith.evaluator.bench.command import INCOMPLETE_EXIT_CODE, STOPPED_EXIT_CODE, WIDE, parse_levels, warn_about
from warpsmith.evaluator.config import ISOLATION_HELP
from warpsmith.records.errors import UsageError
from warpsmith.records.folders import write_file
from warpsmith.rollout import settings
from warpsmith.rollout.bench.comparison import compare_results, lines_of
from warpsmith.rollout.bench.config import BenchConfig, bench_config
from warpsmith.rollout.bench.leaderboard import render
from warpsmith.rollout.bench.results import read_result, result_of, scores_of, write_result
from warpsmith.rollout.datasets.output_folder import output_folder
from warpsmith.rollout.problem_choice import ProblemChoice, size_named, split_named

HELP: Final = """\
Search for kernels with a model behind an OpenAI-compatible endpoint, and score it.

Each problem is searched --samples times by a strategy: `single` (one attempt), `refine` (attempts that see the
verdicts before them), `best_of_n` (independent attempts), `evolve` (a population of attempts). The best attempt is
the search's answer.

Writes every attempt to --output as it ends, as a run that `warpsmith-records report` and `serve` open, and then
result.json. The same command continues after a stop or a kill.

Exit code 0 if every search has a score; 3 if the endpoint or the evaluator failed on some (run the command again); 2
for bad arguments and an endpoint that cannot be used; 130 if interrupted.

Example: `warpsmith-rollout bench --model Qwen/Qwen3-8B --base-url http://127.0.0.1:8000/v1 --samples 4 -o runs/qwen3`
"""

app = typer.Typer(name="bench", help=HELP, rich_markup_mode="markdown", invoke_without_command=True)


@app.callback(invoke_without_command=True)
def bench(
    context: typer.Context,
    *,
    model: Annotated[str | None, typer.Option(help="Name of the model at the endpoint.")] = None,
    base_url: Annotated[
        str | None, typer.Option(help="Address of the endpoint with its version, such as http://127.0.0.1:8000/v1.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Run directory to write to.")] = None,
    strategy: Annotated[str, typer.Option(help="single, refine, best_of_n or evolve.")] = "single",
    attempts: Annotated[
        int | None, typer.Option(min=1, help="Most attempts of a search; not of single. Default: 4, 8 and 16.")
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Independent searches of each problem, for pass@k.")] = 1,
    tokens: Annotated[int | None, typer.Option(min=1, help="Most tokens of a search, prompts included.")] = None,
    evaluations: Annotated[int | None, typer.Option(min=1, help="Most evaluations of a search.")] = None,
    mutations: Annotated[Path | None, typer.Option(help="With evolve: TOML file of mutation prompts.")] = None,
    problems: Annotated[
        str, typer.Option(help="`generated`, a KernelBench directory, or a file (.jsonl, .json, .parquet).")
    ] = "generated",
    count: Annotated[int | None, typer.Option(min=1, help="Number of problems; default: 50 generated ones.")] = None,
    split: Annotated[str | None, typer.Option(help="Of generated problems: held_out (default) or train.")] = None,
    levels: Annotated[str, typer.Option(help="Levels, such as 1,2 or 1-3; all by default.")] = "",
    size: Annotated[str | None, typer.Option(help="Of generated problems: cpu (default) or gpu.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of generated problems, selection and mutation.")] = 0,
    prompt_style: Annotated[str, typer.Option(help="full, or compact for tiny models.")] = "full",
    max_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of an answer, reasoning included.")] = 8192,
    context_tokens: Annotated[
        int, typer.Option("--context", min=16, help="Most tokens of a prompt and its answer.")
    ] = 32768,
    temperature: Annotated[float, typer.Option(min=0.0, help="Sampling temperature.")] = 1.0,
    in_flight: Annotated[int, typer.Option(min=1, help="Most requests at once.")] = 16,
    api_key_env: Annotated[
        str, typer.Option(help="Environment variable with the API key; if it is not set, none is sent.")
    ] = "OPENAI_API_KEY",
    price_input: Annotated[float | None, typer.Option(min=0, help="Price of a million prompt tokens.")] = None,
    price_output: Annotated[float | None, typer.Option(min=0, help="Price of a million answer tokens.")] = None,
    device: Annotated[str, typer.Option(help="Where candidates are judged: cpu, or cuda, which times them.")] = "cpu",
    isolation: Annotated[str, typer.Option(help=ISOLATION_HELP)] = "landlock",
    set_: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="TABLE.KEY=VALUE", help="Change a setting of `warpsmith-rollout bench schema`; repeatable."
        ),
    ] = [],  # noqa: B006 - typer reads it once and it is never changed
    as_json: Annotated[bool, typer.Option("--json", help="Print result.json on stdout and nothing else.")] = False,
) -> None:
    """Search for kernels with a model and score it; `HELP` is the command's help."""
    if context.invoked_subcommand is not None:
        return
    if model is None or base_url is None or output is None:
        raise UsageError(
            "bench needs --model, --base-url and --output.",
            "Example: warpsmith-rollout bench --model Qwen/Qwen3-8B --base-url http://127.0.0.1:8000/v1 -o runs/qwen3",
        )
    config = bench_config(
        set_,
        _without_none(
            {
                "model": model,
                "endpoint": {"base_url": base_url, "in_flight": in_flight, "api_key_env": api_key_env},
                "strategy": {"type": strategy, "attempts": attempts, "mutations": mutations and str(mutations)},
                "samples": samples,
                "budget": {"tokens": tokens, "evaluations": evaluations},
                "prices": {"input_per_million": price_input, "output_per_million": price_output},
                "sampling": {"temperature": temperature, "max_tokens": max_tokens},
                "context_tokens": context_tokens,
                "prompt_style": prompt_style,
                "seed": seed,
                "evaluator": _judged(device, isolation),
            }
        ),
    )
    _check_size(size, config)
    choice = ProblemChoice(
        problems, count, split_named(split), parse_levels(levels), seed, "held_out", size_named(size)
    )
    _run(config, choice, output, as_json=as_json)


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    """Return nested tables without the options that were not given."""
    return {
        name: _without_none(value) if isinstance(value, dict) else value
        for name, value in table.items()
        if value is not None
    }


def _judged(device: str, isolation: str) -> dict[str, Any]:
    """Return the table `[evaluator]` of two options; what is the default anyway is not given, as servers ignore it."""
    return {"minimum_isolation": isolation} | ({} if device == "cpu" else {"device": device})


def _check_size(size: str | None, config: BenchConfig) -> None:
    if size == "gpu" and config.evaluator.device == "cpu" and config.evaluation.type != "server":
        raise UsageError(
            "--size gpu: these problems are too large for the interpreter.",
            "Judge on a GPU with --device cuda, or leave --size out.",
        )


def _run(config: BenchConfig, choice: ProblemChoice, output: Path, *, as_json: bool) -> None:
    from rich.console import Console

    from warpsmith.rollout.bench import printing, runner

    described = runner.describe(output.resolve().name, config, choice.problems())
    warn_about(config.evaluator.minimum_isolation)
    with output_folder(output):
        try:
            outcomes = runner.run_bench(config, described, output)
        except runner.BenchStoppedError:
            sys.stderr.write("stopped: finished attempts are recorded; the same command continues from here\n")
            raise typer.Exit(STOPPED_EXIT_CODE) from None
        result = result_of(described, outcomes)
        path = write_result(output, result)
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    else:
        console = Console(highlight=False, markup=False, soft_wrap=True)
        if not console.is_terminal:
            console.width = WIDE
        printing.print_result(console, result, scores_of(described.problems, outcomes), outcomes)
        console.print(str(path))
    if any(outcome.ended == "lost" for outcome in outcomes):
        raise typer.Exit(INCOMPLETE_EXIT_CODE)


@app.command("compare")
def compare(
    first: Annotated[Path, typer.Argument(help="Directory or result.json of the first bench.")],
    second: Annotated[Path, typer.Argument(help="That of the second, on the same problems.")],
    *,
    differing: Annotated[
        list[str],
        typer.Option(metavar="SETTING", help="A setting that may differ beside model and strategy; repeatable."),
    ] = [],  # noqa: B006 - typer reads it once and it is never changed
    resamples: Annotated[int, typer.Option(min=100, help="Bootstrap resamples.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of the resampling.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare two benches of models or strategies, problem by problem, with a paired bootstrap.

    Refused where problems, judging, budget or other settings differ.

    Example: `warpsmith-rollout bench compare runs/best_of_n runs/evolve`
    """
    found = compare_results(
        read_result(first), read_result(second), differing_too=differing, resamples=resamples, seed=seed
    )
    typer.echo(json.dumps(found.to_json()) if as_json else "\n".join(lines_of(found)))


@app.command("leaderboard")
def leaderboard(
    results: Annotated[list[Path], typer.Argument(help="Directories or result.json files of benches.")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("leaderboard.html"),
) -> None:
    """Write one self-contained page with a table for each set of results that can be compared.

    Example: `warpsmith-rollout bench leaderboard runs/single runs/refine runs/evolve -o leaderboard.html`
    """
    write_file(output, render([read_result(path) for path in results]))
    typer.echo(str(output))


@app.command("schema")
def schema(
    as_json: Annotated[bool, typer.Option("--json", help="Print the JSON schema, for editors.")] = False,
) -> None:
    """Print every setting of `bench`: default, choices or bounds, unit and meaning.

    Example: `warpsmith-rollout bench schema`
    """
    lines = settings.describe(BenchConfig)
    typer.echo(json.dumps(settings.json_schema(BenchConfig), indent=2) if as_json else "\n".join(lines).lstrip())
