"""The commands `warpsmith-rollout bench`, `bench compare`, `bench leaderboard` and `bench schema`."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from warpsmith.evaluator.bench.command import INCOMPLETE_EXIT_CODE, STOPPED_EXIT_CODE, WIDE, parse_levels, warn_about
from warpsmith.records.errors import UsageError
from warpsmith.records.folders import write_file
from warpsmith.rollout import settings
from warpsmith.rollout.bench import options
from warpsmith.rollout.bench.comparison import compare_results, lines_of
from warpsmith.rollout.bench.config import BenchConfig, bench_config
from warpsmith.rollout.bench.leaderboard import render
from warpsmith.rollout.bench.results import read_result, result_of, scores_of, write_result
from warpsmith.rollout.datasets.output_folder import output_folder
from warpsmith.rollout.problem_choice import ProblemChoice, check_size, size_named, split_named

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
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    output: options.Output = None,
    strategy: options.Strategy = "single",
    attempts: options.Attempts = None,
    samples: options.Samples = 1,
    tokens: options.Tokens = None,
    evaluations: options.Evaluations = None,
    mutations: options.Mutations = None,
    problems: options.Problems = "generated",
    count: options.Count = None,
    split: options.Split = None,
    levels: options.Levels = "",
    size: options.Size = None,
    seed: options.Seed = 0,
    prompt_style: options.PromptStyle = "full",
    max_tokens: options.MaxTokens = 8192,
    context_tokens: options.Context = 32768,
    temperature: options.Temperature = 1.0,
    in_flight: options.InFlight = 16,
    api_key_env: options.ApiKeyEnv = "OPENAI_API_KEY",
    price_input: options.PriceInput = None,
    price_output: options.PriceOutput = None,
    device: options.Device = "cpu",
    isolation: options.Isolation = "landlock",
    set_: options.Set = [],  # noqa: B006 - typer reads it once and it is never changed
    as_json: options.AsJson = False,
) -> None:
    """Search for kernels with a model and score it; `HELP` is the command's help."""
    if context.invoked_subcommand is not None:
        return
    if model is None or base_url is None or output is None:
        needed = {"--model": model, "--base-url": base_url, "--output": output}
        raise UsageError(
            f"bench needs {', '.join(name for name, value in needed.items() if value is None)}.",
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
    check_size(size, config.evaluator, config.evaluation)
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
    second: Annotated[Path, typer.Argument(help="Directory or result.json of the second, on the same problems.")],
    *,
    differing: Annotated[
        list[str],
        typer.Option(metavar="SETTING", help="A setting that may differ besides model and strategy; repeatable."),
    ] = [],  # noqa: B006 - typer reads it once and it is never changed
    resamples: Annotated[int, typer.Option(min=100, help="Bootstrap resamples.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of the resampling.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare two benches of models or strategies, problem by problem, with a paired bootstrap.

    Model and strategy may differ, also in the number of attempts; these differences and what each bench spent are
    printed. Refused if the problems differ, or the limits of the budget (--tokens, --evaluations), how candidates are
    judged or another setting, unless --differing allows it.

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
