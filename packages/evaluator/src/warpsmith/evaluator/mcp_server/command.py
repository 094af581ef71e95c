"""The command `warpsmith-evaluator mcp`."""

import importlib.util
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Final

import typer

from warpsmith.evaluator import check_options
from warpsmith.evaluator.client.evaluator import Evaluator
from warpsmith.evaluator.client.remote import Client
from warpsmith.evaluator.config import configured, tiers_of, timing_of
from warpsmith.evaluator.datasets.kernelbench import load_problems
from warpsmith.evaluator.mcp_server.evaluations import Limits
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy
from warpsmith.records.errors import UsageError
from warpsmith.records.wording import installing

LOOPBACK: Final = "127.0.0.1"
DEFAULT_PORT: Final = 18189
CONCURRENCY_OF_SERVERS: Final = 4

Problems = Annotated[
    Path | None, typer.Option(help="A folder or file of problems for list_problems, in KernelBench's form.")
]
Server = Annotated[
    list[str] | None, typer.Option(help="Address of an evaluation server to ask instead of judging here; repeatable.")
]
Slots = Annotated[int, typer.Option(min=0, max=256, help="Concurrent evaluations; 0: one per core, three on a GPU.")]
Queue = Annotated[int, typer.Option(min=0, max=1024, help="Evaluations that may wait; more are refused.")]
Http = Annotated[bool, typer.Option("--http", help="Serve streamable HTTP on 127.0.0.1 instead of stdio.")]
Port = Annotated[int, typer.Option(min=1, max=65535, help="Port, with --http.")]


def mcp(
    *,
    problems: Problems = None,
    server: Server = None,
    device: check_options.Device = "cpu",
    gpu: check_options.Gpu = 0,
    slots: Slots = 0,
    queue: Queue = 16,
    correctness_trials: check_options.CorrectnessTrials = 6,
    timed_trials: check_options.TimedTrials = 100,
    timeout: check_options.Timeout = 30.0,
    isolation: check_options.Isolation = "landlock",
    operators: check_options.Operators = "none",
    http: Http = False,
    port: Port = DEFAULT_PORT,
) -> None:
    """Serve check_kernel, time_kernel, explain_verdict and list_problems to an agent over MCP. Needs the extra `mcp`.

    Example: `warpsmith-evaluator mcp --problems KernelBench`, as the command of a server in an agent's configuration.
    """
    if importlib.util.find_spec("mcp") is None:
        raise UsageError(
            "The MCP server needs the package mcp, which this environment lacks.",
            installing("evaluator", "judge", "mcp"),
        )
    evaluator: Evaluator | Client
    if server:
        evaluator, concurrency = Client(server), slots or CONCURRENCY_OF_SERVERS
    else:
        config = configured(
            device=device,
            gpu=gpu,
            slots=slots or None,
            trials=correctness_trials,
            **timing_of(timed_trials),
            timeout_s=timeout,
            **tiers_of(isolation),
            operators=operators,
        )
        # Its judge starts at the first evaluation, so that the agent need not wait for it to greet the server.
        evaluator, concurrency = Evaluator(config), config.slots
    with closing(evaluator):
        _serve(evaluator, Limits(concurrency, queue), _read(problems), operators, port if http else None)


def _read(place: Path | None) -> Sequence[Problem]:
    return load_problems(place) if place is not None else ()


def _serve(
    evaluator: Evaluator | Client,
    limits: Limits,
    problems: Sequence[Problem],
    operators: OperatorPolicy,
    port: int | None,
) -> None:
    from warpsmith.evaluator.mcp_server.tools import server_of

    serving = server_of(evaluator, limits, problems, operators)
    if port is None:
        serving.run()
    else:
        serving.run("streamable-http", host=LOOPBACK, port=port)
