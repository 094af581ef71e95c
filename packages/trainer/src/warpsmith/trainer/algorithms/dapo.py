"""DAPO, arXiv 2503.14476: a higher upper clip, a mean over all tokens, refilled groups, a penalty for long answers.

J = 1/(sum_i |o_i|) sum_i sum_t min(r_it A_i, clip(r_it, 1 - 0.2, 1 + 0.28) A_i), A_i = (R_i - mean R) / std R,
over groups with spread (equation 11); a penalty grows over the last fifth of the length limit (equation 13; the
paper: 4,096 tokens of 20,480).
"""

from warpsmith.trainer.algorithms.algorithm import Algorithm

DAPO = Algorithm(
    {
        "clip": {"type": "ppo", "low": 0.2, "high": 0.28},
        "aggregation": "token_mean",
        "dynamic_sampling": True,
        "overlong": {"share": 0.2},
    },
)
