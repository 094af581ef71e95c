"""One mean over all tokens of the batch, as in DAPO (arXiv 2503.14476)."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from warpsmith.trainer.loss.aggregations.base import Aggregation


class TokenMean(Aggregation):
    """Every token has the weight 1 / (all tokens)."""

    type: Literal["token_mean"] = "token_mean"

    def weights(self, lengths_N: NDArray[np.int64]) -> NDArray[np.float64]:
        """See `Aggregation.weights`."""
        return np.full(len(lengths_N), 1.0 / lengths_N.sum())
