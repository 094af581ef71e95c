"""The form of an evaluation server's address, for the client and for configurations that name servers."""

from urllib.parse import urlsplit


def is_address(text: str) -> bool:
    """Whether `text` is an http or https address of a host, without a user name."""
    try:
        parts = urlsplit(text)
        return (
            parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
        )
    except ValueError:
        return False
