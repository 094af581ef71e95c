"""Dr.GRPO, arXiv 2503.20783: no division by the group's deviation or by the response's length.

J = 1/(G L) sum_i sum_t min(r_it A_i, clip(r_it, 1 - eps, 1 + eps) A_i), A_i = R_i - mean R, L a constant length.
"""

from warpsmith.trainer.algorithms.algorithm import Algorithm

DR_GRPO = Algorithm(
    {"scale": "none", "clip": {"type": "ppo", "low": 0.2, "high": 0.2}, "aggregation": "constant"},
)
