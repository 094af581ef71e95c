"""Starts the services of a run: a Ray head, evaluation servers, a live page and the trainer, in this order."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from warpsmith.records.last_words import quote_into
from warpsmith.rollout.config import ServerEvaluation
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.errors import ServiceError
from warpsmith.trainer.launch.port import free_port
from warpsmith.trainer.launch.rank_log import logs_of
from warpsmith.trainer.services.state import ServiceState, file_of, read

READY_S: Final = 120.0
"""Deadline of a service that others wait for: a server starts its judges."""

_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_POLL_S: Final = 0.1
_YOUNG_S: Final = 3.0
"""A trainer that is refused ends within this time."""


@dataclass(frozen=True)
class Service:
    """A service to start.

    Attributes:
        name: unique in the run; its log is RUN/logs/NAME.log.
        command: what to run.
        address: where it will listen, HOST:PORT; None if others do not wait for it.
        health: path that answers 200 once it is ready; None if an open port is enough.
    """

    name: str
    command: tuple[str, ...]
    address: str | None = None
    health: str | None = None


def services_for(
    config: TrainerConfig, trainer: Sequence[str], *, ray: bool, page: int | None, server_options: Sequence[str]
) -> list[Service]:
    """Return the services of a run, in the order of their start.

    Args:
        config: the run's configuration.
        trainer: arguments of `warpsmith-trainer` for the run itself.
        ray: whether to start a Ray head that other machines can join.
        page: port of a live page; None for none.
        server_options: options of each `warpsmith-evaluator serve`.
    """
    found: list[Service] = []
    arguments = list(trainer)
    if ray:
        address = f"{_own_address()}:{free_port()}"
        found.append(_ray_head(address))
        arguments += ["--set", f"run.ray_address={address}"]
    found += _servers(config, server_options)
    if page is not None:
        command = _module("warpsmith.records", "serve", str(config.run.dir), "--port", str(page))
        found.append(Service("page", command, f"127.0.0.1:{page}"))
    return [*found, Service("trainer", _module("warpsmith.trainer", *arguments))]


def _ray_head(address: str) -> Service:
    host, _, port = address.rpartition(":")
    command = (
        str(Path(sys.executable).parent / "ray"), "start", "--head", "--block", "--disable-usage-stats",
        f"--node-ip-address={host}", f"--port={port}", "--include-dashboard=false",
    )  # fmt: skip
    return Service("ray", command, address)


def _servers(config: TrainerConfig, options: Sequence[str]) -> Iterator[Service]:
    """Yield the evaluation servers of the configuration that belong on this machine and do not answer yet."""
    evaluation = config.rollout.evaluation
    if not isinstance(evaluation, ServerEvaluation):
        return
    for server in evaluation.servers:
        where = urlsplit(server)
        if where.hostname not in _LOOPBACK or where.port is None or is_ready(f"{where.hostname}:{where.port}", None):
            continue
        command = _module("warpsmith.evaluator", "serve", "--port", str(where.port), *options)
        yield Service(f"evaluator-{where.port}", command, f"{where.hostname}:{where.port}", "/health")


def _module(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name, *arguments)


def _own_address() -> str:
    """Return the address under which other machines reach this one; loopback if it has no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Connecting a datagram socket sends nothing: it only chooses the interface.
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def is_ready(address: str, health: str | None) -> bool:
    """Whether something listens at an address and, with `health`, answers 200 there."""
    host, _, port = address.rpartition(":")
    try:
        if health is None:
            socket.create_connection((host, int(port)), timeout=1.0).close()
            return True
        with urllib.request.urlopen(f"http://{address}{health}", timeout=5.0) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError, ValueError):
        return False


def start_all(run_dir: Path, services: Sequence[Service], say: Callable[[str], None]) -> list[ServiceState]:
    """Start services one after another, each once the previous one is ready; on failure end those that were started.

    Raises:
        ServiceError: one ended, or was not ready in time; the error quotes its log.
    """
    started: list[ServiceState] = []
    try:
        for service in services:
            started.append(_start(run_dir, service))
            say(f"{service.name}: starting, log {logs_of(run_dir) / f'{service.name}.log'}")
            _await_ready(run_dir, service)
    except BaseException:
        from warpsmith.trainer.services.stop import stop

        for state in reversed(started):
            stop(run_dir, state.name, timeout_s=20.0, say=say)
        raise
    return [read(file_of(run_dir, service.name)) for service in services]


def _start(run_dir: Path, service: Service) -> ServiceState:
    log = logs_of(run_dir) / f"{service.name}.log"
    state = file_of(run_dir, service.name)
    state.unlink(missing_ok=True)
    keeper = _module(
        "warpsmith.trainer.services.keeper", str(run_dir), service.name, str(log), service.address or "",
        *service.command,
    )  # fmt: skip
    process = subprocess.Popen(
        keeper, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and process.poll() is None and not state.exists():
        time.sleep(_POLL_S)
    if not state.exists():
        process.kill()
        raise ServiceError(f"The keeper of {service.name} did not start.", f"Check that {run_dir} can be written.")
    return read(state)


def _await_ready(run_dir: Path, service: Service) -> None:
    """Wait until a service is ready; one without an address must live for a moment."""
    wait_s = _YOUNG_S if service.address is None else READY_S
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        state = read(file_of(run_dir, service.name))
        if state.condition == "failed" or (service.address is not None and state.condition == "ended"):
            raise _failed(state, f"{service.name} ended with code {state.code} before it was ready.")
        if service.address is not None and is_ready(service.address, service.health):
            return
        time.sleep(_POLL_S)
    if service.address is not None:
        raise _failed(state, f"{service.name} was not ready at {service.address} within {READY_S:.0f} s.")


def _failed(state: ServiceState, what: str) -> ServiceError:
    error = ServiceError(what, "Fix what its log says, and start again.")
    return quote_into(error, [Path(state.log)], since="=== ")
