"""Parses and prints memory sizes."""

import re

from warpsmith.records.errors import UsageError

GIB = 1 << 30
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}


def parse_size(text: str) -> int:
    """Return bytes of `141GiB`, `80 GB` or `2TiB`.

    Raises:
        UsageError: it is not a size.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    if found is None or found[2].upper() not in _UNITS:
        raise UsageError(f"`{text}` is not a memory size.", "Write a number and a unit, for example 80GiB or 141GB.")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def gib(size: float) -> str:
    """Return a size in GiB: with two decimals, or one from 10 GiB on."""
    return f"{size / GIB:.{1 if abs(size) >= 10 * GIB else 2}f}"


def in_words(size: float) -> str:
    """Return a size with its unit: GiB, or MiB below 0.1 GiB, where a tiny model's sizes would all be 0.00."""
    return f"{gib(size)} GiB" if abs(size) >= GIB / 10 else f"{size / (1 << 20):.1f} MiB"
