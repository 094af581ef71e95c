"""Aggregations of token losses, by name: entry points of the group `warpsmith.aggregations`. Imports no torch."""

from warpsmith.records.registry import Registry
from warpsmith.trainer.loss.aggregations.base import Aggregation, row_weights
from warpsmith.trainer.section import part_of

AGGREGATIONS: Registry[type[Aggregation]] = Registry("warpsmith.aggregations", "aggregation", part_of(Aggregation))

__all__ = ["AGGREGATIONS", "Aggregation", "row_weights"]
