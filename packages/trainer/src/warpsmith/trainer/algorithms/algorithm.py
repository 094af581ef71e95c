"""The form of an algorithm: the choices that a paper makes for the parts of the objective. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Algorithm:
    """An algorithm, `[algorithm] type = "its name"`: keys of that table, used where the file does not set them.

    It stands behind an entry point of the group `warpsmith.algorithms`, under its name.

    Attributes:
        defaults: as the table in a file. A table in it applies to the same `type` alone: a file that chooses another
            clip gets that clip's own defaults. A table without `type` applies to any type that has its keys.
        needs_value_head: whether it is another algorithm without a value head, so that other estimators are refused.
    """

    defaults: Mapping[str, Any]
    needs_value_head: bool = False
