"""From scores of turns to advantages: numpy over the rows of a batch. Only `crediting` imports torch."""

from warpsmith.trainer.advantage.assign import assign
from warpsmith.trainer.advantage.estimators import ESTIMATORS, Critic, Estimator
from warpsmith.trainer.advantage.normalization import Normalisation, normalise
from warpsmith.trainer.advantage.types import Credit, Samples, Turns

__all__ = ["ESTIMATORS", "Credit", "Critic", "Estimator", "Normalisation", "Samples", "Turns", "assign", "normalise"]
