"""What every seed leaves as it is in an input beside its values: where its zeros are, and that it is symmetric.

A kernel may rest on both, as one that skips the empty half of a triangular matrix does, so every change keeps them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import torch

from warpsmith.evaluator import arenas


@dataclass(frozen=True)
class Structure:
    """The structure of one input.

    Attributes:
        zeros: where a floating input is zero under every seed, in the sample's shape; None where nowhere or all over.
        symmetric: whether its last two dimensions can be swapped.
    """

    zeros: torch.Tensor | None = None
    symmetric: bool = False

    @staticmethod
    def of(samples: Sequence[torch.Tensor]) -> "Structure":
        """Return what samples of one input, of one shape and under different seeds, have in common."""
        return Structure(_common_zeros(samples), all(map(is_symmetric, samples)))

    def restore(self, tensor: torch.Tensor) -> None:
        """Put the structure back, in place, of an input that was changed; zeros only in the sample's shape."""
        if self.zeros is not None and self.zeros.shape == tensor.shape:
            tensor.copy_(torch.where(self.zeros, torch.zeros_like(tensor), tensor))
        if self.symmetric and tensor.shape[-1] == tensor.shape[-2]:
            lower = torch.ones(tensor.shape[-2:], dtype=torch.bool, device=tensor.device).tril()
            tensor.copy_(torch.where(lower, tensor, tensor.mT))


NONE = Structure()


def _common_zeros(samples: Sequence[torch.Tensor]) -> torch.Tensor | None:
    if not samples[0].dtype.is_floating_point:
        return None
    zeros = reduce(torch.logical_and, (sample == 0 for sample in samples))
    return zeros if bool(zeros.any()) and not bool(zeros.all()) else None


def is_symmetric(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a symmetric matrix, or a batch of them, of more than one number."""
    if tensor.dim() < 2 or tensor.shape[-1] != tensor.shape[-2] or not tensor.numel():
        return False
    return arenas.equal(tensor, tensor.mT) and bool((tensor != tensor.flatten()[0]).any())
