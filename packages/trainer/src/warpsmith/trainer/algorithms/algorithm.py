"""The form of an algorithm: a paper's choices for the parts of the objective. Imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Algorithm:
    """An algorithm, `[algorithm] type = "its name"`: keys of that table that apply unless the file sets them.

    It is registered as an entry point of the group `warpsmith.algorithms`, under its name.

    Attributes:
        defaults: the table as in a file. A subtable applies only to the same `type`: a file that selects another clip
            gets that clip's own defaults. A subtable without `type` applies to any type that has its keys.
        needs_value_head: whether it requires a value head, so that estimators without one are rejected.
    """

    defaults: Mapping[str, Any]
    needs_value_head: bool = False
