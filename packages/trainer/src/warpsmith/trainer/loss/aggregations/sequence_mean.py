"""The mean over rows of each row's own mean, as in GRPO (arXiv 2402.03300)."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from warpsmith.trainer.loss.aggregations.base import Aggregation


class SequenceMean(Aggregation):
    """A token has the weight 1 / (rows x length of its row)."""

    type: Literal["sequence_mean"] = "sequence_mean"

    def weights(self, lengths_N: NDArray[np.int64]) -> NDArray[np.float64]:
        """See `Aggregation.weights`."""
        return 1.0 / (len(lengths_N) * lengths_N)
