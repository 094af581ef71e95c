"""Wording that the messages of all packages share."""


def counted(count: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: `1 attempt`, `2 attempts`; `plural` for nouns that do not only add an s."""
    return f"{count:,} {singular if count == 1 else plural or f'{singular}s'}"


def installing(package: str, *extras: str) -> str:
    """Return how to install a package of this repository with extras, as the remedy of an error.

    No package index has the packages, so the command is for a checkout.

    Args:
        package: its folder in `packages`, for example `evaluator`.
        extras: its extras, for example `judge`.
    """
    wanted = f"[{','.join(extras)}]" if extras else ""
    return f"In a checkout of Warpsmith run: pip install './packages/{package}{wanted}' (more: docs/installing.md)."


def printable(text: str, encoding: str = "utf-8") -> str:
    """Escape what foreign text may do to a terminal: control sequences, and characters that `encoding` lacks."""
    shown = "".join(
        part if part.isprintable() or part in "\n\t" else part.encode("unicode_escape").decode() for part in text
    )
    return shown.encode(encoding, "backslashreplace").decode(encoding)
