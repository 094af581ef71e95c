"""CISPO (MiniMax-M1), arXiv 2506.13585: the importance weight is clipped, and every token keeps its gradient.

J = 1/(sum_i |o_i|) sum_i sum_t sg(clip(r_it, 0, 1 + eps_high)) A_i log pi(o_it); the paper tunes only eps_high.
"""

from warpsmith.trainer.algorithms.algorithm import Algorithm

CISPO = Algorithm(
    {
        "clip": {"type": "cispo", "low": 1.0, "high": 2.0},
        "aggregation": "token_mean",
    },
)
