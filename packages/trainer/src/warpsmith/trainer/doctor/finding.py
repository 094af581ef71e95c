"""What one check found."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from warpsmith.records.errors import WarpsmithError

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


def found(what: str, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Return what a check finds; what it raises is a finding too."""
    try:
        return list(look())
    except WarpsmithError as error:
        return [Finding(what, "error", error.message, error.remedy)]
    except OSError as error:
        return [Finding(what, "error", f"The operating system refused it: {error}.", "Mend that, and ask again.")]
