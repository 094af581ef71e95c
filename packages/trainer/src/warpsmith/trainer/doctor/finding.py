"""What one check found."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's table.

    Attributes:
        what: what was looked at.
        state: `error` keeps the run from going well, `warning` may.
        seen: what was seen.
        remedy: what to do; empty where all is well.
    """

    what: str
    state: State
    seen: str
    remedy: str = ""
