"""The weight of each token in the loss, fixed for the whole batch before it is cut into micro-batches and ranks.

The loss is sum over rows i and tokens t of w_i m_it l_it. Because w is a property of the batch and the sum is plain,
micro-batch size, accumulation, packing, the number of ranks and the ZeRO stage cannot change the gradient.
"""

import numpy as np
from numpy.typing import NDArray

from warpsmith.trainer.algorithms.preset import Aggregation


def row_weights(
    lengths_N: NDArray[np.int64], counted_N: NDArray[np.bool_], how: Aggregation, constant_length: int
) -> NDArray[np.float64]:
    """Return w_N, the weight of each completion token of a row; 0 for rows that are not counted.

    Args:
        lengths_N: completion tokens of each row.
        counted_N: rows that take part in the update.
        how: `token_mean` 1 / (all tokens); `sequence_mean` 1 / (rows x own length); `constant` 1 / (rows x
            `constant_length`).
        constant_length: L of Dr.GRPO; read by `constant` only.
    """
    used = counted_N & (lengths_N > 0)
    rows, tokens = int(used.sum()), int(lengths_N[used].sum())
    weights = np.zeros(len(lengths_N))
    if rows == 0:
        return weights
    if how == "token_mean":
        weights[used] = 1.0 / tokens
    elif how == "sequence_mean":
        weights[used] = 1.0 / (rows * lengths_N[used])
    else:
        weights[used] = 1.0 / (rows * constant_length)
    return weights
