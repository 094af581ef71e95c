"""GRPO, arXiv 2402.03300.

J = 1/G sum_i 1/|o_i| sum_t min(r_it A_i, clip(r_it, 1 - eps, 1 + eps) A_i) - beta KL(pi || pi_ref)
A_i = (R_i - mean R) / std R, r_it = pi(o_it) / pi_old(o_it), eps = 0.2, KL by k3.
"""

from warpsmith.trainer.algorithms.algorithm import Algorithm

GRPO = Algorithm(
    {"clip": {"type": "ppo", "low": 0.2, "high": 0.2}, "aggregation": "sequence_mean"},
)
