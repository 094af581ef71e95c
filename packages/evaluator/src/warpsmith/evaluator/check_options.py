"""The options of `warpsmith-evaluator check`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from warpsmith.evaluator.baselines import BASELINE_HELP
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

Problem = Annotated[
    Path, typer.Argument(help="A KernelBench file, which defines Model, get_inputs and get_init_inputs.")
]
Candidate = Annotated[Path, typer.Argument(help="A Python file that defines ModelNew.")]
Backend = Annotated[
    Literal["triton", "cuda"],
    typer.Option(help="Language of candidates' kernels: Triton, or CUDA C++, which runs only on a GPU."),
]
Device = Annotated[Literal["cpu", "cuda"], typer.Option(help="Interpret on the cpu, or run and time on a GPU.")]
Target = Annotated[
    str, typer.Option(help="Chip to compile for on the cpu: sm_90, or one of AMD's, such as gfx942; sm_90 by default.")
]
Gpu = Annotated[int, typer.Option(min=0, max=LAST_GPU, help="Which GPU, with --device cuda.")]
CorrectnessTrials = Annotated[
    int, typer.Option(min=1, max=1000, help="Comparisons with the reference, each on fresh random inputs.")
]
TimedTrials = Annotated[
    int, typer.Option(min=0, max=MOST_TIMED, help="Timed calls on a GPU, 10 or more; 0 times nothing.")
]
Seed = Annotated[int | None, typer.Option(help="Seed to repeat a run exactly; random by default.")]
Timeout = Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds for the candidate's whole run.")]
ReferenceTimeout = Annotated[
    float, typer.Option(min=0.1, max=3600, help="Seconds for one step of the problem's own code.")
]
Isolation = Annotated[Literal["namespaces", "landlock", "none"], typer.Option(help=ISOLATION_HELP)]
HiddenShapes = Annotated[bool, typer.Option(help="Give one trial inputs of other shapes, if the problem allows it.")]
Recording = Annotated[RecordingWay, typer.Option(help=RECORDING_HELP)]
Precision = Annotated[PrecisionName, typer.Option(help=PRECISION_HELP)]
Operators = Annotated[OperatorPolicy, typer.Option(help=POLICY_HELP)]
MaxTensorBytes = Annotated[
    int | None,
    typer.Option(
        min=1 << 16, help="Maximum bytes of one set of inputs or outputs; by default 1 GiB on the cpu, 16 GiB on a GPU."
    ),
]
Baseline = Annotated[list[str] | None, typer.Option(help=BASELINE_HELP)]
AllowDegenerate = Annotated[
    bool,
    typer.Option("--allow-degenerate", help="Flag a problem that accepts a constant output, instead of rejecting it."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
