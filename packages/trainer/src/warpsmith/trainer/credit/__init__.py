"""Credit: from the scores of turns to advantages. No torch here; everything is numpy over the rows of a batch."""

from warpsmith.trainer.credit.assign import ESTIMATORS, assign
from warpsmith.trainer.credit.gae import Critic
from warpsmith.trainer.credit.normalise import Normalisation, normalise
from warpsmith.trainer.credit.types import Credit, Samples, Turns

__all__ = ["ESTIMATORS", "Credit", "Critic", "Normalisation", "Samples", "Turns", "assign", "normalise"]
