"""The options of `warpsmith-rollout bench`."""

from pathlib import Path
from typing import Annotated

import typer

from warpsmith.evaluator.config import ISOLATION_HELP

Model = Annotated[str | None, typer.Option(help="Name of the model at the endpoint.")]
BaseUrl = Annotated[
    str | None, typer.Option(help="Address of the endpoint with its version, such as http://127.0.0.1:8000/v1.")
]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Run directory to write to.")]
Strategy = Annotated[
    str, typer.Option(help="single, refine, best_of_n, evolve, or a strategy of an installed package.")
]
Attempts = Annotated[
    int | None,
    typer.Option(min=1, help="Maximum attempts per search. Default: 4 for refine, 8 for best_of_n, 16 for evolve."),
]
Samples = Annotated[int, typer.Option(min=1, help="Independent searches of each problem, for pass@k.")]
Tokens = Annotated[int | None, typer.Option(min=1, help="Maximum tokens per search, prompts included.")]
Evaluations = Annotated[int | None, typer.Option(min=1, help="Maximum evaluations per search.")]
Mutations = Annotated[Path | None, typer.Option(help="With evolve: TOML file of mutation prompts.")]
Problems = Annotated[
    str, typer.Option(help="`generated`, a KernelBench directory, or a file (.jsonl, .json, .parquet).")
]
Count = Annotated[
    int | None, typer.Option(min=1, help="Number of problems; default: 50 generated ones, all of a directory or file.")
]
Split = Annotated[str | None, typer.Option(help="Split of generated problems: held_out (default) or train.")]
Levels = Annotated[str, typer.Option(help="Levels, such as 1,2 or 1-3; all by default.")]
Size = Annotated[str | None, typer.Option(help="Size of generated problems: cpu (default) or gpu.")]
Seed = Annotated[int, typer.Option(help="Seed of generated problems, selection and mutation.")]
PromptStyle = Annotated[str, typer.Option(help="full, or compact for tiny models.")]
MaxTokens = Annotated[int, typer.Option(min=1, help="Maximum tokens per answer, reasoning included.")]
Context = Annotated[int, typer.Option("--context", min=16, help="Maximum tokens of a prompt and its answer.")]
Temperature = Annotated[float, typer.Option(min=0.0, help="Sampling temperature.")]
InFlight = Annotated[int, typer.Option(min=1, help="Maximum concurrent requests.")]
ApiKeyEnv = Annotated[str, typer.Option(help="Environment variable with the API key; if it is not set, none is sent.")]
PriceInput = Annotated[float | None, typer.Option(min=0, help="Price of a million prompt tokens.")]
PriceOutput = Annotated[float | None, typer.Option(min=0, help="Price of a million answer tokens.")]
Device = Annotated[str, typer.Option(help="Where candidates are judged: cpu, or cuda, which times them.")]
Isolation = Annotated[str, typer.Option(help=ISOLATION_HELP)]
Set = Annotated[
    list[str],
    typer.Option(
        "--set", metavar="TABLE.KEY=VALUE", help="Change a setting of `warpsmith-rollout bench schema`; repeatable."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print result.json on stdout and nothing else.")]
