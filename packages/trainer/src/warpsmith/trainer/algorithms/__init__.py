"""Algorithms by name: entry points of the group `warpsmith.algorithms`, one short file each. Imports no torch."""

from typing import Any

from warpsmith.records.registry import Registry
from warpsmith.trainer.algorithms.algorithm import Algorithm


def _wrong(part: Any) -> str:
    return "" if isinstance(part, Algorithm) else "is not an instance of warpsmith.trainer.algorithms.Algorithm"


ALGORITHMS: Registry[Algorithm] = Registry("warpsmith.algorithms", "algorithm", _wrong)

__all__ = ["ALGORITHMS", "Algorithm"]
