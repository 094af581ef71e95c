"""What an evaluation server's address looks like, for the client and for configurations that name servers."""

from urllib.parse import urlsplit


def is_address(text: str) -> bool:
    """Whether `text` is an http or https address of a host, without a user in it."""
    try:
        parts = urlsplit(text)
        return (
            parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
        )
    except ValueError:
        return False
