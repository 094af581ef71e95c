"""Durations in units that suit them."""

_MINUTE, _HOUR = 60.0, 3600.0


def duration(seconds: float) -> str:
    """Return seconds as `0.4 s`, `12 s`, `3 min 5 s` or `2 h 7 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
