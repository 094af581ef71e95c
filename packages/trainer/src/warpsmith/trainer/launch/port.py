"""The TCP port of the process group: a free one, or the one that was named, if it is free."""

import socket

from warpsmith.trainer.errors import PortError


def free_port() -> int:
    """Return a TCP port of the loopback interface that nobody listens on now.

    Raises:
        PortError: the machine gives none.
    """
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
