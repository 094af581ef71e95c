"""A free TCP port for the process group."""

import socket

from warpsmith.trainer.errors import LaunchError


def free_port() -> int:
    """Return a TCP port of the loopback interface that nobody listens on now.

    Raises:
        LaunchError: the machine gives none.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        try:
            listener.bind(("127.0.0.1", 0))
        except OSError as error:
            raise LaunchError(
                f"No free TCP port on 127.0.0.1 for the process group: {error}.",
                "Allow the loopback interface, or name a port with --master-port.",
            ) from error
        return int(listener.getsockname()[1])
