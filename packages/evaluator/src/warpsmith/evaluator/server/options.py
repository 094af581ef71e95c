"""The options of `warpsmith-evaluator serve`."""

from typing import Annotated, Literal

import typer

from warpsmith.evaluator import check_options
from warpsmith.evaluator.baselines import BASELINE_HELP
from warpsmith.evaluator.config import (
    ISOLATION_HELP,
    LAST_GPU,
    MAX_TIMEOUT_S,
    MOST_TIMED,
    PRECISION_HELP,
    RECORDING_HELP,
    RecordingWay,
)
from warpsmith.evaluator.config import Precision as PrecisionName
from warpsmith.evaluator.recordings.library_policy import POLICY_HELP, OperatorPolicy
from warpsmith.evaluator.server.settings import MOST_CACHED, MOST_DRAIN_S, MOST_QUEUED

Host = Annotated[str, typer.Option(help="Address to listen on; a non-loopback address needs a token.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 chooses a free one.")]
TokenEnv = Annotated[
    str, typer.Option(help="Environment variable with the token that clients must send; optional on loopback.")
]
Device = Annotated[
    str, typer.Option(metavar="[cpu|cuda]", help="Interpret kernels on the cpu, or run and time them on GPUs.")
]
Backend = check_options.Backend
MaxTensorBytes = check_options.MaxTensorBytes
Gpu = Annotated[
    list[int] | None,
    typer.Option(min=0, max=LAST_GPU, help="Number of a GPU to serve, with --device cuda; repeatable."),
]
Judges = Annotated[int, typer.Option(min=1, max=64, help="Judges on the cpu, each served as a separate device.")]
Slots = Annotated[
    int,
    typer.Option(min=0, max=256, help="Concurrent evaluations per device; 0: three on a GPU, one per core on the cpu."),
]
Queue = Annotated[
    int,
    typer.Option(
        min=0,
        max=MOST_QUEUED,
        help="Evaluations of one client that can wait; further ones get HTTP 429 with a Retry-After header.",
    ),
]
Trials = Annotated[int, typer.Option(min=1, max=1000, help="Correctness trials, unless a request sets them.")]
TimedTrials = Annotated[
    int, typer.Option(min=0, max=MOST_TIMED, help="Timed calls on a GPU, 10 or more; 0 times nothing.")
]
Timeout = Annotated[
    float,
    typer.Option(min=0.1, max=MAX_TIMEOUT_S, help="Seconds for a candidate's whole run, unless a request sets them."),
]
Isolation = Annotated[Literal["namespaces", "landlock", "none"], typer.Option(help=ISOLATION_HELP)]
Recording = Annotated[RecordingWay, typer.Option(help=RECORDING_HELP)]
Precision = Annotated[PrecisionName, typer.Option(help=PRECISION_HELP)]
Operators = Annotated[OperatorPolicy, typer.Option(help=f"{POLICY_HELP} Unless a request sets it.")]
Baseline = Annotated[list[str] | None, typer.Option(help=f"{BASELINE_HELP} Requests can choose among them.")]
Drain = Annotated[
    float, typer.Option(min=0, max=MOST_DRAIN_S, help="Seconds that running evaluations get after SIGTERM.")
]
MaxFailures = Annotated[
    int,
    typer.Option(min=1, max=1000, help="Consecutive failures before a device is probed and, if it fails, quarantined."),
]
Cache = Annotated[bool, typer.Option(help="Answer from cached verdicts, unless a request says otherwise.")]
CacheEntries = Annotated[int, typer.Option(min=0, max=MOST_CACHED, help="Maximum cached verdicts; 0 caches none.")]
Otel = Annotated[
    bool,
    typer.Option(
        "--otel", help="Send spans of requests and evaluations by OpenTelemetry; its OTEL_... variables say where."
    ),
]
LegacyErrors = Annotated[
    bool, typer.Option(help="Answer failing kernels on /eval with HTTP 400, 500 and 504, as TritonForge does.")
]
