"""DAPO, arXiv 2503.14476: a higher upper clip, and a mean over all tokens of the batch.

J = 1/(sum_i |o_i|) sum_i sum_t min(r_it A_i, clip(r_it, 1 - 0.2, 1 + 0.28) A_i), A_i = (R_i - mean R) / std R.
Its filter of groups of no spread is the credit's rule that such groups give 0.
"""

from warpsmith.trainer.objective.presets.preset import Preset

DAPO = Preset(
    baseline="mean",
    scale="group",
    ratio="token",
    clip="ppo",
    clip_low=0.2,
    clip_high=0.28,
    aggregation="token_mean",
)
