"""What one check found."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's table.

    Attributes:
        what: what was looked at.
        state: `error` stops the run, `warning` does not.
        seen: what was seen.
        remedy: what to do; empty for `ok`.
    """

    what: str
    state: State
    seen: str
    remedy: str = ""
