"""The parts of a run: turns of one role and one point of the training, split by a column on request."""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from warpsmith.records.errors import UsageError

TRAIN: Final = "train"
GROUPINGS: Final = ("agent", "level", "role", "source", "stage")
"""The columns of `turns` that parts can be split by."""
ROLE: Final = "role"
STAGE: Final = "stage"


@dataclass(frozen=True)
class Part:
    """Turns of a run that belong together: one role and, for an evaluation, one point of the training.

    Attributes:
        after_step: training steps finished when the turns were sampled; None for turns of all points.
        by: the column that the part has one value of; None for all values.
        value: that value; None for turns where it is null.
    """

    role: str
    after_step: int | None = None
    by: str | None = None
    value: str | int | None = None

    @property
    def label(self) -> str:
        """The part in words, for example `held_out after 8 steps, level 2`."""
        if self.by is None:
            return self._moment
        return f"{self._moment}, {f'no {self.by}' if self.value is None else f'{self.by} {self.value}'}"

    @property
    def _moment(self) -> str:
        if self.after_step is None:
            return self.role
        if self.after_step == 0:
            return f"{self.role} before training"
        return f"{self.role} after {self.after_step} step{'s' if self.after_step > 1 else ''}"

    def of(self, turns: pa.Table) -> pa.Table:
        """Return the part's turns of a table with the columns of `turns` that the part names."""
        mine = turns.filter(pc.field(ROLE) == self.role)
        if self.after_step is not None:
            mine = mine.filter(pc.field("after_step") == self.after_step)
        if self.by is None:
            return mine
        column = pc.field(self.by)
        return mine.filter(column.is_null() if self.value is None else column == self.value)


def check_grouping(by: str | None) -> None:
    """Check that parts can be split by a column; None is no column.

    Raises:
        UsageError: they cannot; the error lists the columns that exist.
    """
    if by is not None and by not in GROUPINGS:
        raise UsageError(f"Turns cannot be grouped by `{by}`.", f"Group them by {', '.join(GROUPINGS)}.")


def parts_of(turns: pa.Table, *, role: str | None = None, by: str | None = None) -> list[Part]:
    """Return the parts of a run: training as a whole, and every other role once for each point at which it was sampled.

    Turns of a role without `after_step` (schema version 1, or outside of training) form one part.

    Args:
        turns: a table with the columns `role` and `after_step`, and `by`.
        role: only the parts of this role.
        by: split each part by the values of this column; `role` gives one part per role, with all its points.

    Raises:
        UsageError: no turn has the role, or `by` is not one of `GROUPINGS`.
    """
    check_grouping(by)
    moments: dict[str, set[int | None]] = {}
    for row in turns.group_by([ROLE, "after_step"]).aggregate([]).to_pylist():
        moments.setdefault(row[ROLE], set()).add(row["after_step"])
    if role is not None and moments and role not in moments:
        raise UsageError(f"No turn of the run has the role `{role}`.", f"Its roles are {', '.join(sorted(moments))}.")
    found: list[Part] = []
    for name in sorted(moments):
        if role not in (None, name):
            continue
        known = sorted(step for step in moments[name] if step is not None)
        whole = by == ROLE or name == TRAIN or len(known) < len(moments[name])
        found += [Part(name)] if whole else [Part(name, step) for step in known]
    return found if by in (None, ROLE) else [split for part in found for split in _split(turns, part, str(by))]


def _split(turns: pa.Table, part: Part, by: str) -> list[Part]:
    values = pc.unique(part.of(turns).column(by)).to_pylist()
    known = sorted(value for value in values if value is not None)
    return [Part(part.role, part.after_step, by, value) for value in (*known, *([None] if None in values else []))]
