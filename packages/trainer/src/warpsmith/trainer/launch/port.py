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
"""Above it are ports that clusters use for their own services."""
ATTEMPTS: Final = 64


def free_port() -> int:
    """Return a TCP port of the loopback interface that is free now.

    Ranks listen on it only after their imports, so it is outside of the kernel's ephemeral range if possible.

    Raises:
        PortError: there is no free port.
    """
    ports = _never_given()
    # Not from the generator that runs seed: two of them would choose the same port.
    for port in random.SystemRandom().sample(ports, min(ATTEMPTS, len(ports))):
        with contextlib.suppress(PortError):
            return checked_port(port)
    return _any_port()


def _never_given() -> range:
    """Return the ports below the kernel's ephemeral range; empty if that is unknown."""
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
                "Allow the loopback interface, or choose a port with --master-port.",
            ) from error
        return int(listener.getsockname()[1])


def checked_port(port: int) -> int:
    """Return the port if this machine can listen on it.

    Raises:
        PortError: another process listens there, or it is not permitted.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            raise PortError(
                f"TCP port {port} cannot be used for the process group: {error}.",
                "Choose another with --master-port, or omit it to get a free one.",
            ) from error
    return port
