"""The weight of each token in the loss, fixed for the whole batch before it is split into micro-batches and ranks.

The loss is sum over rows i and tokens t of w_i m_it l_it. Because w is a property of the batch and the sum is plain,
micro-batch size, accumulation, packing, the number of ranks and the ZeRO stage cannot change the gradient.
"""

import numpy as np
from numpy.typing import NDArray

from warpsmith.trainer.section import Section


class Aggregation(Section):
    """An aggregation and its settings, `[algorithm.aggregation]`; a subclass has a key `type: Literal["its name"]`.

    It is registered as an entry point of the group `warpsmith.aggregations`, under that name.
    """

    type: str

    def weights(self, lengths_N: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return w_N, the weight of each token of N rows, which are all counted rows of an update.

        Args:
            lengths_N: completion tokens of each row, 1 or more.
        """
        raise NotImplementedError


def row_weights(
    lengths_N: NDArray[np.int64], counted_N: NDArray[np.bool_], aggregation: Aggregation
) -> NDArray[np.float64]:
    """Return w_N, the weight of each completion token of a row; 0 for rows that do not count or have no tokens.

    Args:
        lengths_N: completion tokens of each row.
        counted_N: rows that take part in the update.
        aggregation: gives the weights of counted rows.
    """
    used = counted_N & (lengths_N > 0)
    weights = np.zeros(len(lengths_N))
    if used.any():
        weights[used] = aggregation.weights(lengths_N[used])
    return weights
