"""PPO, arXiv 1707.06347, with a value head and generalised advantage estimation (arXiv 1506.02438) over turns.

J = 1/(sum_i |o_i|) sum_i sum_t min(r_it A_i, clip(r_it, 1 - 0.2, 1 + 0.2) A_i) - c L_value (equation 9)
A turn is one action: its state is the prompt, its value is read at the prompt's last token. A_i is the same for all
tokens of turn i, and centred and scaled over the batch.
"""

from warpsmith.trainer.algorithms.preset import Preset

PPO = Preset(
    baseline="mean",
    scale="batch",
    ratio="token",
    clip="ppo",
    clip_low=0.2,
    clip_high=0.2,
    aggregation="token_mean",
    estimator="gae",
)
