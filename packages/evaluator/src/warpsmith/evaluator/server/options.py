"""The options of `warpsmith-evaluator serve`."""

from typing import Annotated, Literal

import typer

from warpsmith.evaluator.config import LAST_GPU, MAX_TIMEOUT_S, MOST_TIMED, PRECISION_HELP, RECORDING_HELP, RecordingWay
from warpsmith.evaluator.config import Precision as PrecisionName
from warpsmith.evaluator.server.settings import MOST_DRAIN_S, MOST_KEPT, MOST_QUEUED

Host = Annotated[str, typer.Option(help="Address to listen on; one that others reach needs a token.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")]
TokenEnv = Annotated[
    str, typer.Option(help="Environment variable with the token that clients must show; may be unset on loopback.")
]
Device = Annotated[
    str, typer.Option(metavar="[cpu|cuda]", help="Interpret kernels on the cpu, or run and time them on GPUs.")
]
Gpu = Annotated[
    list[int] | None,
    typer.Option(min=0, max=LAST_GPU, help="A GPU to serve, with --device cuda; give it once for each."),
]
Judges = Annotated[int, typer.Option(min=1, max=64, help="Judges on the cpu, each served as a device of its own.")]
Slots = Annotated[
    int, typer.Option(min=0, max=256, help="Evaluations at once on each device; 0: three on a GPU, or a core each.")
]
Queue = Annotated[
    int, typer.Option(min=0, max=MOST_QUEUED, help="Evaluations that may wait; more are told to come again.")
]
Trials = Annotated[int, typer.Option(min=1, max=1000, help="Correctness trials where a client names none.")]
TimedTrials = Annotated[
    int, typer.Option(min=0, max=MOST_TIMED, help="Timed calls on a GPU, 10 or more; 0 times nothing.")
]
Timeout = Annotated[
    float, typer.Option(min=0.1, max=MAX_TIMEOUT_S, help="Seconds of a candidate's run where none are named.")
]
Isolation = Annotated[
    Literal["namespaces", "landlock", "none"], typer.Option(help="The weakest containment that is accepted.")
]
Recording = Annotated[RecordingWay, typer.Option(help=RECORDING_HELP)]
Precision = Annotated[PrecisionName, typer.Option(help=PRECISION_HELP)]
Drain = Annotated[
    float, typer.Option(min=0, max=MOST_DRAIN_S, help="Seconds that evaluations under way get after SIGTERM.")
]
MaxFailures = Annotated[
    int,
    typer.Option(min=1, max=1000, help="Failures in a row before a device is probed and, if it fails, quarantined."),
]
Cache = Annotated[bool, typer.Option(help="Answer requests that do not say from verdicts that were reached before.")]
CacheEntries = Annotated[int, typer.Option(min=0, max=MOST_KEPT, help="Verdicts kept for that; 0 keeps none.")]
LegacyErrors = Annotated[
    bool, typer.Option(help="Answer kernels that fail on /eval with HTTP 400, 500 and 504, as TritonForge's does.")
]
