"""Division by a constant length, as in Dr.GRPO (arXiv 2503.20783)."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from warpsmith.trainer.loss.aggregations.base import Aggregation


class Constant(Aggregation):
    """Every token has the weight 1 / (rows x L), with the constant length L."""

    type: Literal["constant"] = "constant"
    length: int = Field(default=1024, ge=1, description="The constant length L.", json_schema_extra={"unit": "tokens"})

    def weights(self, lengths_N: NDArray[np.int64]) -> NDArray[np.float64]:
        """See `Aggregation.weights`."""
        return np.full(len(lengths_N), 1.0 / (len(lengths_N) * self.length))
