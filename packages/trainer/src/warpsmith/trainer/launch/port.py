"""The TCP port of the process group: a free one, or the given one if it is free."""

import contextlib
import random
import socket
from pathlib import Path
from typing import Final

from warpsmith.trainer.errors import PortError

RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
LEAST: Final = 20_000
MOST: Final = 30_000
"""Above lie ports that clusters give to services of theirs."""
ATTEMPTS: Final = 64


def free_port() -> int:
    """Return a TCP port of the loopback interface that nobody listens on now.

    Ranks listen on it only once they have imported what they need. So it is one that the kernel gives to nobody who
    asks for any port, wherever there is such a one.

    Raises:
        PortError: the machine gives none.
    """
    ports = _never_given()
    # Not by the generator that runs seed: two of them would want the same one.
    for port in random.SystemRandom().sample(ports, min(ATTEMPTS, len(ports))):
        with contextlib.suppress(PortError):
            return checked_port(port)
    return _any_port()


def _never_given() -> range:
    """Return the ports below those that the kernel chooses from; none where they cannot be known."""
    try:
        return range(LEAST, min(int(RANGE.read_text().split()[0]), MOST))
    except (OSError, ValueError):
        return range(0)


def _any_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        try:
            listener.bind(("127.0.0.1", 0))
        except OSError as error:
            raise PortError(
                f"No free TCP port on 127.0.0.1 for the process group: {error}.",
                "Allow the loopback interface, or name a port with --master-port.",
            ) from error
        return int(listener.getsockname()[1])


def checked_port(port: int) -> int:
    """Return the port, if this machine can listen on it.

    Raises:
        PortError: somebody else listens there, or it is not allowed.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            raise PortError(
                f"TCP port {port} cannot be used for the process group: {error}.",
                "Name another with --master-port, or leave it out: a free one is then chosen.",
            ) from error
    return port
