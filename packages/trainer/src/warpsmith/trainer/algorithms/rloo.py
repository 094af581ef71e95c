"""RLOO, arXiv 2402.14740: REINFORCE with the mean of the other samples as baseline, without clipping.

J = 1/G sum_i (R_i - 1/(G-1) sum_{j != i} R_j) log pi(o_i), with the sequence's log-probability summed over tokens.
The ratio r_it keeps the gradient correct when a batch is used for more than one update. Dividing the sum over tokens
by a constant length only changes the learning rate, so the aggregation is `constant`.
"""

from warpsmith.trainer.algorithms.algorithm import Algorithm

RLOO = Algorithm(
    {"baseline": "leave_one_out", "scale": "none", "clip": "none", "aggregation": "constant"},
)
