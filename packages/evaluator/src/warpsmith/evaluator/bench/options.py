"""The options of `warpsmith-evaluator bench`, some shared with `audit`, and the help text of `bench`."""

from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from warpsmith.evaluator import check_options
from warpsmith.evaluator.baselines import BASELINE_HELP
from warpsmith.evaluator.bench.bench import OUT
from warpsmith.evaluator.bench.example import FOLDER
from warpsmith.evaluator.config import (
    ISOLATION_HELP,
    LAST_GPU,
    MOST_TIMED,
    PRECISION_HELP,
    RECORDING_HELP,
    RecordingWay,
)
from warpsmith.evaluator.config import Precision as PrecisionName
from warpsmith.evaluator.recordings.library_policy import POLICY_HELP, OperatorPolicy

HELP: Final = """\
Judge a KernelBench run: every generation, level by level.

Prints counts, fast_p for p = 0, 0.5, 0.8, 1, 1.5 and 2 (strictly faster than p; failures count), unbiased pass@k
and the geometric mean of speedups. Writes them and every verdict to OUT: verdicts.jsonl (the log, appended as
verdicts come), results.parquet, level_L/eval_results.json for KernelBench's scripts, summary.json and report.html.

The same command continues after a stop or a kill: recorded verdicts are reused if problem, candidate and settings
are the same. An invalid one (the evaluator failed) is judged again and never scored.

On a CPU nothing is timed: speedups and fast_p above 0 are absent, not zero.

Exit code 0 if every generation has a verdict; 3 if some ended as invalid (run the command again); 2 for bad
arguments; 130 if interrupted.

A folder of FlashInfer-trace or SOL-ExecBench is judged too: its own solutions, or those that --generations names.

Example: `warpsmith-evaluator bench --dataset KernelBench --generations runs/mine --levels 1,2 --device cuda`

To try it without a dataset: `warpsmith-evaluator bench --example`
"""

Isolation = Annotated[Literal["namespaces", "landlock", "none"], typer.Option(help=ISOLATION_HELP)]
Device = Annotated[str, typer.Option(metavar="[cpu|cuda]", help="Interpret on the cpu, or run and time on a GPU.")]
Backend = check_options.Backend
MaxTensorBytes = check_options.MaxTensorBytes
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
DatasetOfRun = Annotated[
    Path | None, typer.Option(help=f"{DATASET_HELP} Or a folder of FlashInfer-trace or SOL-ExecBench.")
]
Format = Annotated[
    Literal["kernelbench", "flashinfer", "sol"] | None,
    typer.Option(help="Format of the dataset; found by its files by default."),
]
Traces = Annotated[
    Path | None, typer.Option(help="Folder for results as traces, for a dataset of FlashInfer-trace or SOL-ExecBench.")
]
Tensors = Annotated[
    Path | None, typer.Option(help="For such a dataset: one more folder that paths of tensor files may be relative to.")
]
Generations = Annotated[
    Path | None,
    typer.Option(
        help="A run in KernelBench's layout: `level_{L}_problem_{P}_sample_{S}_kernel.py`. For a dataset of traces, "
        "solutions (.json) and candidates (DEFINITION.py); its own solutions by default."
    ),
]
Example = Annotated[
    bool,
    typer.Option(
        "--example", help=f"Judge an example instead: three problems with generations, written to ./{FOLDER}."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help=f"Folder for results; by default {OUT} in the run's own folder, or here for a dataset's own answers.",
    ),
]
Gpu = Annotated[int, typer.Option(min=0, max=LAST_GPU, help="Which GPU, with --device cuda.")]
Server = Annotated[
    list[str] | None,
    typer.Option(help="Judge on this evaluation server, for example http://10.0.0.7:18188; repeatable."),
]
TokenEnv = Annotated[str, typer.Option(help="Environment variable with the servers' token, if they require one.")]
Slots = Annotated[
    int,
    typer.Option(min=0, max=1024, help="Concurrent evaluations; 0: one per core, three on a GPU, 8 per server."),
]
CorrectnessTrials = Annotated[
    int, typer.Option(min=1, max=1000, help="Comparisons with the reference, each on fresh random inputs.")
]
TimedTrials = Annotated[
    int, typer.Option(min=0, max=MOST_TIMED, help="Timed calls on a GPU, 10 or more; 0 times nothing.")
]
Timeout = Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds for a candidate's whole run.")]
HiddenShapes = Annotated[bool, typer.Option(help="Give one trial inputs of other shapes, if the problem allows it.")]
Recording = Annotated[RecordingWay, typer.Option(help=RECORDING_HELP)]
Precision = Annotated[PrecisionName, typer.Option(help=PRECISION_HELP)]
Operators = Annotated[OperatorPolicy, typer.Option(help=POLICY_HELP)]
AllowDegenerate = Annotated[
    bool,
    typer.Option("--allow-degenerate", help="Flag problems that accept a constant output, instead of rejecting them."),
]
OnlyGenerated = Annotated[
    bool,
    typer.Option("--only-generated", help="Leave missing generations out instead of counting them as failures."),
]
Baseline = Annotated[list[str] | None, typer.Option(help=BASELINE_HELP)]
StoredBaseline = Annotated[
    Path | None,
    typer.Option(help="KernelBench's stored times (results/timing), for another speedup."),
]
Model = Annotated[str | None, typer.Option("--model", "--base-url", hidden=True)]
"""Options of `warpsmith-rollout bench`, which queries a model; here they lead to an error that says so."""
AsJson = Annotated[bool, typer.Option("--json", help="Print summary.json on stdout and nothing else.")]
