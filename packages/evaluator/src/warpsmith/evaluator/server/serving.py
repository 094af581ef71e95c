"""Runs the server: the socket first, then the evaluator, then requests until a signal."""

import asyncio
import contextlib
import errno
import ipaddress
import os
import signal
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import FrameType
from typing import Final, NoReturn

import uvicorn

from warpsmith.evaluator import _native
from warpsmith.evaluator.client.evaluator import Evaluator
from warpsmith.evaluator.config import TIER_STRENGTH, EvaluatorConfig
from warpsmith.evaluator.server.app import build_app
from warpsmith.evaluator.server.connections import BoundedProtocol, HalfOpen, raise_descriptor_limit, room_for
from warpsmith.evaluator.server.logs import log, log_to_stderr
from warpsmith.evaluator.server.service import Service
from warpsmith.evaluator.server.settings import ServerSettings
from warpsmith.records.errors import UsageError

_SHORTEST_TOKEN: Final = 16
_LAST_ANSWERS_S: Final = 10
"""Seconds for responses to leave the server after their evaluations were ended."""


def serve(configs: Sequence[EvaluatorConfig], settings: ServerSettings, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT; then finish running evaluations, for at most `drain_s` seconds.

    Args:
        configs: one per device.
        settings: bounds.
        host: address to listen on.
        port: port to listen on; 0 takes a free one.

    Raises:
        UsageError: the port is taken, the address is not this machine's, or a non-loopback address has no token.
        EvaluatorError: the evaluator cannot start.
    """
    with bound_socket(host, port) as listener:
        _check_token(listener, settings.token)
        log_to_stderr()
        with contextlib.ExitStack() as stack:
            stack.enter_context(_signals_end_at_once())
            evaluators = [Evaluator(config) for config in configs]
            for evaluator in evaluators:
                stack.callback(evaluator.close)
            # Each start takes seconds of imports, in its own processes.
            with ThreadPoolExecutor(len(evaluators)) as threads:
                list(threads.map(Evaluator.__enter__, evaluators))
            asyncio.run(_serve(evaluators, settings, listener))


@contextlib.contextmanager
def _signals_end_at_once() -> Iterator[None]:
    """Exit at once on a signal until the server listens and has its own handlers: no evaluation runs yet.

    Without a handler the first process of a container would ignore signals. Judges that are just starting end when
    their client's end of the channel closes.
    """

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        log("stopping", signal=signal.Signals(number).name, running=0, waiting=0)
        os._exit(0)

    old = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def bound_socket(host: str, port: int) -> Iterator[socket.socket]:
    """Yield a socket bound to the address; port 0 takes a free one.

    Raises:
        UsageError: it cannot be bound; the message says why.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"{host!r} is not an address: {error}.", "Give one of this machine, such as 127.0.0.1."
        ) from error
    with socket.socket(family, kind, protocol) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(1024)
        except OSError as error:
            raise _not_bound(host, port, error) from error
        yield listener


def _not_bound(host: str, port: int, error: OSError) -> UsageError:
    if error.errno == errno.EADDRINUSE:
        return UsageError(
            f"Port {port} of {host} is taken.",
            "Stop the process that listens there, or choose another port with --port; 0 takes a free one.",
        )
    return UsageError(
        f"Cannot listen on port {port} of {host}: {error.strerror}.",
        "Give an address of this machine, and a port from 1024 up unless you are root.",
    )


def _check_token(listener: socket.socket, token: str | None) -> None:
    address = str(listener.getsockname()[0])
    if token is None and not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
        raise UsageError(
            f"{address} is reachable from other machines, and every client of this server can run code here.",
            "Put a token of 16 characters or more into the environment variable that --token-env names, or listen on "
            "127.0.0.1.",
        )
    if token is not None and (len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise UsageError(
            f"The token has {len(token)} characters; {_SHORTEST_TOKEN} printable ASCII ones or more were expected.",
            "Make one with `openssl rand -hex 24`.",
        )


async def _serve(evaluators: Sequence[Evaluator], settings: ServerSettings, listener: socket.socket) -> None:
    config = evaluators[0].config
    tier = min(_native.achievable_tier(), config.strongest_isolation, key=TIER_STRENGTH.__getitem__)
    service = Service(evaluators, settings, tier)
    await service.open()
    half_open = HalfOpen(room_for(raise_descriptor_limit()))
    server = _Server(
        uvicorn.Config(
            build_app(service),
            # uvicorn accepts any callable that makes a protocol.
            http=partial(BoundedProtocol, half_open),  # type: ignore[arg-type]
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=int(settings.drain_s) + _LAST_ANSWERS_S,
        ),
        service,
    )
    host, port, *_ = listener.getsockname()
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    log(
        "listening",
        url=url,
        pid=os.getpid(),
        devices={device.number: device.facts.name for device in service.devices.values()},
        slots=config.slots,
        isolation=tier,
        token=settings.token is not None,
    )
    await server.serve(sockets=[listener])
    await service.close()
    log("stopped")


class _Server(uvicorn.Server):
    """A uvicorn server that lets evaluations finish, and exits with code 0 after a signal."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Turn the first signal into a graceful shutdown and the second into a quick one."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, signal.Signals(number).name)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    def _stop(self, name: str) -> None:
        log("stopping", signal=name, running=self._service.admission.running, waiting=self._service.admission.waiting)
        if self.should_exit:
            self._service.end_now()
            return
        self.should_exit = True
        self._service.end_soon()
