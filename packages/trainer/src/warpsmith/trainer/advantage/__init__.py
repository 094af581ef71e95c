"""Credit: from the scores of turns to advantages. No torch here; everything is numpy over the rows of a batch."""

from warpsmith.trainer.advantage.assign import ESTIMATORS, assign
from warpsmith.trainer.advantage.estimators.gae import Critic
from warpsmith.trainer.advantage.normalization import Normalisation, normalise
from warpsmith.trainer.advantage.types import Credit, Samples, Turns

__all__ = ["ESTIMATORS", "Credit", "Critic", "Normalisation", "Samples", "Turns", "assign", "normalise"]
