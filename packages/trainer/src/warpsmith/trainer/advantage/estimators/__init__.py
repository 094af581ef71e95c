"""Estimators of a turn's value, by name: entry points of the group `warpsmith.estimators`. Imports no torch."""

from warpsmith.records.registry import Registry
from warpsmith.trainer.advantage.estimators.base import Critic, Estimator
from warpsmith.trainer.advantage.estimators.value import ValueEstimator
from warpsmith.trainer.section import part_of

ESTIMATORS: Registry[type[Estimator]] = Registry("warpsmith.estimators", "estimator", part_of(Estimator))

__all__ = ["ESTIMATORS", "Critic", "Estimator", "ValueEstimator"]
