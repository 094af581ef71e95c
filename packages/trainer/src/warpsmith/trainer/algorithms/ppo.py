"""PPO, arXiv 1707.06347, with a value head and generalised advantage estimation (arXiv 1506.02438) over turns.

J = 1/(sum_i |o_i|) sum_i sum_t min(r_it A_i, clip(r_it, 1 - 0.2, 1 + 0.2) A_i) - c L_value (equation 9)
A turn is one action: its state is the prompt, and its value is read at the prompt's last token. A_i is the same for
all tokens of turn i, and is centred and scaled over the batch.
"""

from warpsmith.trainer.algorithms.algorithm import Algorithm

PPO = Algorithm(
    {
        "estimator": "gae",
        "scale": "batch",
        "clip": {"type": "ppo", "low": 0.2, "high": 0.2},
        "aggregation": "token_mean",
    },
    needs_value_head=True,
)
