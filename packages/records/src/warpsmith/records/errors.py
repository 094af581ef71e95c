"""Typed errors: each says what is wrong, what was expected, and how to fix it."""


class WarpsmithError(Exception):
    """Root of every error that a user of a Warpsmith package may catch or read.

    Args:
        message: what is wrong and what was expected, in one or two sentences.
        remedy: how to fix it, as a sentence; empty only if nothing can be done.
    """

    exit_code: int = 2

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message, remedy)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class UsageError(WarpsmithError):
    """The caller asked for something that does not exist or does not fit: an argument, a path, a configuration key."""
