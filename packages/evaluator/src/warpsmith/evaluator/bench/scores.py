"""Metrics shared by kernel benchmarks. Importable without torch."""

import math
from collections.abc import Sequence
from typing import Final

from warpsmith.records.errors import UsageError

FASTER_THAN: Final = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)
"""The p of fast_p: the share of answers that are correct and more than p times as fast (KernelBench, arXiv 2502.10517).
"""


def pass_at_k(samples: int, solved: int, k: int) -> float:
    """Return 1 - C(n-c, k) / C(n, k): the probability that k of n samples, c of them correct, include a correct one.

    Unbiased (Chen et al. 2021, arXiv 2107.03374, equation 1).
    """
    if k > samples:
        raise UsageError(f"pass@{k} needs {k} samples; there are {samples}.", "Take more samples or a smaller k.")
    return 1.0 - math.comb(samples - solved, k) / math.comb(samples, k)


def geometric_mean(values: Sequence[float]) -> float | None:
    """Return the geometric mean of positive values; None if there are none."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None
