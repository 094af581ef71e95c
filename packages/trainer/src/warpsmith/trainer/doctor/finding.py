"""The result of one check."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's table.

    Attributes:
        what: what was checked.
        state: `error` stops the run, `warning` does not.
        seen: what was found.
        remedy: how to fix it; empty for `ok`.
    """

    what: str
    state: State
    seen: str
    remedy: str = ""
