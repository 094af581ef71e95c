"""GSPO, arXiv 2507.18071: one ratio per sequence, the geometric mean of its tokens' ratios.

J = 1/G sum_i min(s_i A_i, clip(s_i, 1 - 3e-4, 1 + 4e-4) A_i), s_i = exp(1/|o_i| sum_t log r_it).
"""

from warpsmith.trainer.algorithms.algorithm import Algorithm

GSPO = Algorithm(
    {
        "ratio": "sequence",
        "clip": {"type": "ppo", "low": 3e-4, "high": 4e-4},
        "aggregation": "sequence_mean",
        # For a correction, if the file has one.
        "correction": {"level": "geometric"},
    },
)
