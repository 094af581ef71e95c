"""Rows of the `credits` table: the advantage of each turn in a step, and its importance ratios."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warpsmith.trainer.advantage.types import Credit

_COPIED = ("run", "trajectory", "turn")


@dataclass(frozen=True)
class CreditedBatch:
    """A batch of N turns and its credit, as one training step uses them.

    Attributes:
        table: the turns, with the key columns and `weight_versions`.
        credit: the credit of the same N turns.
        estimator: the estimator of the credit.
        step: the training step, from 1.
        weight_version: the version at the start of the step.
    """

    table: pa.Table
    credit: Credit
    estimator: str
    step: int
    weight_version: int

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows that are recorded before the step: one per counted turn, with null ratios."""
        return self._rows(np.flatnonzero(self.credit.counted), {})

    def rows_with(self, ratios: Mapping[str, NDArray[np.float64]]) -> list[dict[str, Any]]:
        """Return the rows that replace them after the step.

        Args:
            ratios: columns of `credits`, each (N,); NaN is recorded as null. A turn whose ratios are all NaN was not
                run through the policy and keeps its first row.
        """
        known = self.credit.counted & np.logical_or.reduce([np.isfinite(values) for values in ratios.values()])
        return self._rows(np.flatnonzero(known), ratios)

    def _rows(self, chosen: NDArray[np.int64], ratios: Mapping[str, NDArray[np.float64]]) -> list[dict[str, Any]]:
        keys = self.table.select(list(_COPIED)).take(chosen).to_pylist()
        ages = _staleness(self.table, self.weight_version)
        return [
            {
                **key,
                "estimator": self.estimator,
                "advantage": float(self.credit.advantage[i]),
                "step": self.step,
                "weight_version": self.weight_version,
                "group_size": int(self.credit.members[i]),
                "staleness": ages[i],
                **{name: float(values[i]) if np.isfinite(values[i]) else None for name, values in ratios.items()},
            }
            for key, i in zip(keys, chosen, strict=True)
        ]


def _staleness(table: pa.Table, version: int) -> list[int | None]:
    """Return by how many versions each turn's oldest token is older than `version`; None for a turn without tokens."""
    oldest = [min(versions, default=None) for versions in table["weight_versions"].to_pylist()]
    return [None if one is None else version - one for one in oldest]
